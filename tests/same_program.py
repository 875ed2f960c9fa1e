#!/usr/bin/env python3
"""Do two tile programs, in PyPTO Python syntax, say the same thing?

    same_program.py ONE TWO            exit 0 when equal; else print the first difference, exit 1

Equality is of data flow, not of text: names, annotations and the order of independent statements
do not matter; operations, operands, shapes, spaces, loop bounds, kinds, stages and loop attributes do.
Two spellings of one K-loop are made one first, in both programs:
  * `if ko == 0: matmul(a, b) else: matmul_acc(c, a, b)`  ->  `matmul_acc(c, a, b, ko == 0)`
  * a loop whose first block is `matmul_bias`             ->  that block ahead of the loop
A `compact` accumulator seed and its `set_validshape` count as the plain seed.
"""

import ast
import sys

SHORT = {
    "load",
    "store",
    "matmul",
    "matmul_acc",
    "matmul_bias",
    "cast",
    "move",
    "assemble",
    "extract",
    "create",
    "add",
    "sub",
    "mul",
}
POSITIONAL = {
    "pl.tile.extract": ["src", "row", "col", "shape"],
    "pl.tile.load": ["tensor", "offsets", "shapes", "valid_shapes"],
    "pl.tile.store": ["tile", "offsets", "tensor", "shapes"],
    "pl.tile.assemble": ["dst", "src", "offsets"],
    "pl.tile.matmul_acc": ["acc", "lhs", "rhs", "init_cond"],
    "pl.tile.matmul": ["lhs", "rhs"],
    "pl.tile.matmul_bias": ["lhs", "rhs", "bias"],
    "pl.tile.create": ["shape"],
    "pl.tile.move": ["tile"],
    "pl.tile.cast": ["tile", "target_type", "mode"],
}
EFFECTS = {"pl.tile.store", "pl.tile.assemble", "pl.tile.write", "pl.tensor.write"}
ALIAS = {"shape": "shapes", "valid_shape": "valid_shapes", "offset": "offsets", "dtype_": "dtype"}


class Terms:
    """Interned terms: equal terms share one id, so big programs compare in linear time."""

    def __init__(self):
        self.ids, self.terms = {}, []

    def add(self, *term):
        if term not in self.ids:
            self.ids[term] = len(self.terms)
            self.terms.append(term)
        return self.ids[term]


class Reader:
    def __init__(self, terms):
        self.t = terms
        self.depth = 0

    # -- expressions ----------------------------------------------------------------------
    def expr(self, e, env):
        if isinstance(e, ast.Name):
            if e.id in env:
                return env[e.id]
            return self.t.add("name", e.id)
        if isinstance(e, ast.Constant):
            return self.t.add("const", repr(e.value))
        if isinstance(e, (ast.List, ast.Tuple)):
            return self.t.add("list", *[self.expr(x, env) for x in e.elts])
        if isinstance(e, ast.Attribute):
            text = ast.unparse(e).replace("pl.MemorySpace.", "pl.Mem.").replace("pl.DataType.", "pl.")
            return self.t.add("name", text)
        if isinstance(e, ast.BinOp):
            return self.t.add("bin", type(e.op).__name__, self.expr(e.left, env), self.expr(e.right, env))
        if isinstance(e, ast.UnaryOp):
            return self.t.add("un", type(e.op).__name__, self.expr(e.operand, env))
        if isinstance(e, ast.BoolOp):
            return self.t.add("bool", type(e.op).__name__, *[self.expr(v, env) for v in e.values])
        if isinstance(e, ast.Compare):
            return self.t.add("cmp", type(e.ops[0]).__name__, self.expr(e.left, env), self.expr(e.comparators[0], env))
        if isinstance(e, ast.Dict):
            return self.t.add(
                "dict", *[self.t.add("entry", self.expr(k, env), self.expr(v, env)) for k, v in zip(e.keys, e.values)]
            )
        if isinstance(e, ast.Subscript):
            return self.t.add("subscript", self.expr(e.value, env), self.expr(e.slice, env))
        if isinstance(e, ast.Slice):
            return self.t.add("slice", *[self.expr(x, env) for x in (e.lower, e.upper, e.step) if x is not None])
        if isinstance(e, ast.Call):
            return self.call(e, env)
        raise ValueError(f"cannot read {ast.unparse(e)!r}")

    def call(self, e, env):
        name = ast.unparse(e.func)
        if name.startswith("pl.") and name.count(".") == 1 and name[3:] in SHORT:
            name = "pl.tile." + name[3:]
        if name == "pl.const":
            return self.expr(e.args[0], env)
        args = [self.expr(a, env) for a in e.args]
        kw = {k.arg: self.expr(k.value, env) for k in e.keywords if k.arg != "attrs"}
        order = POSITIONAL.get(name)
        if order:
            named = dict(zip(order, args))
            for k in list(kw):
                if k in order or ALIAS.get(k) in order:
                    named[k if k in order else ALIAS[k]] = kw.pop(k)
            args = [named[k] for k in order if k in named]
        if name == "pl.tile.load" and len(args) == 3:
            args.append(args[2])
        if name == "pl.tile.load" and "target_memory" not in kw:
            kw["target_memory"] = self.t.add("name", "pl.Mem.Vec")
        if name == "pl.tile.create":
            kw.pop("compact", None)
            if "target_memory" not in kw:
                kw["target_memory"] = self.t.add("name", "pl.Mem.Vec")
        if name == "pl.tile.cast":
            args = (
                [args[0]]
                + [kw.pop("target_type", args[1] if len(args) > 1 else 0)]
                + [kw.pop("mode", args[2] if len(args) > 2 else self.t.add("const", "'round'"))]
            )
        if (
            name == "pl.tile.set_validshape"
            and self.t.terms[args[0]][0] == "call"
            and self.t.terms[args[0]][1] == "pl.tile.create"
        ):
            return args[0]
        return self.t.add("call", name, tuple(args), tuple(sorted(kw.items())))

    # -- statements -----------------------------------------------------------------------
    def block(self, stmts, env):
        """Read statements into env; return (yielded ids, returned ids, effects in order)."""
        effects, produced = [], []
        for s in stmts:
            if isinstance(s, (ast.Expr, ast.Assign, ast.AnnAssign)):
                value = s.value
                if isinstance(value, ast.Constant):
                    continue
                target = s.targets[0] if isinstance(s, ast.Assign) else getattr(s, "target", None)
                if isinstance(value, ast.Call) and ast.unparse(value.func) == "pl.yield_":
                    ids = [self.expr(a, env) for a in value.args]
                    self.names = (
                        [x.id for x in target.elts]
                        if isinstance(target, ast.Tuple)
                        else [target.id]
                        if target is not None
                        else []
                    )
                    return ids, None, effects
                v = self.expr(value, env)
                if isinstance(target, ast.Tuple):
                    for j, x in enumerate(target.elts):
                        env[x.id] = self.t.add("item", v, j)
                elif target is not None:
                    env[target.id] = v
                head = self.t.terms[v]
                if head[0] == "call" and (target is None or head[1] in EFFECTS or head[1].startswith("self.")):
                    effects.append(v)
            elif isinstance(s, ast.For):
                effects.append(self.loop(s, env))
            elif isinstance(s, ast.If):
                effects += self.branch(s, env)
            elif isinstance(s, ast.With):
                ys, ret, inner = self.block(s.body, env)
                effects += inner
                if ys is not None or ret is not None:
                    return ys, ret, effects
            elif isinstance(s, ast.Return):
                return None, [self.expr(s.value, env)] if s.value is not None else [], effects
            elif not isinstance(s, ast.Pass):
                raise ValueError(f"cannot read {ast.unparse(s)!r}")
        return None, None, effects

    def branch(self, s, env):
        cond = self.expr(s.test, env)
        e1, e2 = dict(env), dict(env)
        y1, _, f1 = self.block(s.body, e1)
        names = list(self.names) if y1 is not None else []
        y2, _, f2 = self.block(s.orelse, e2)
        for n, a, b in zip(names, y1 or [], y2 or []):
            env[n] = self.phi(cond, a, b)
        alone = y1 is None and y2 is None and (f1 or f2)
        return [self.t.add("branch", cond, tuple(f1), tuple(f2))] if alone else []

    def phi(self, cond, a, b):
        ta, tb = self.t.terms[a], self.t.terms[b]
        first = self.t.terms[cond][0] == "cmp" and self.t.terms[cond][1] == "Eq"
        if first and ta[0] == tb[0] == "call" and tb[1] == "pl.tile.matmul_acc" and len(tb[2]) == 3:
            if ta[1] == "pl.tile.matmul" and ta[2] == tb[2][1:]:
                return self.t.add("call", "pl.tile.matmul_acc", (*tb[2], cond), tb[3])
            if ta[1] == "pl.tile.matmul_bias" and ta[2][:2] == tb[2][1:]:
                return self.t.add("biasphi", cond, a, b)
        return self.t.add("phi", cond, a, b)

    def loop(self, s, env):
        call = s.iter
        kind = ast.unparse(call.func)
        pos = [self.expr(a, env) for a in call.args]
        zero, one = self.t.add("const", "0"), self.t.add("const", "1")
        start, stop, step = ([zero] + pos + [one])[:3] if len(pos) == 1 else (pos + [one])[:3]
        kw = {k.arg: k.value for k in call.keywords}
        init_node = kw.pop("init_values", None)
        inits = [self.expr(x, env) for x in init_node.elts] if init_node is not None else []
        opts = tuple(sorted((k, self.attrs(v) if k == "attrs" else self.expr(v, env)) for k, v in kw.items()))
        opts = tuple(o for o in opts if o[1] != ())
        if isinstance(s.target, ast.Tuple):
            iv, carried = s.target.elts[0].id, [x.id for x in s.target.elts[1].elts]
        else:
            iv, carried = s.target.id, []
        self.depth += 1
        inner = dict(env)
        inner[iv] = self.t.add("iv", self.depth)
        for j, c in enumerate(carried):
            inner[c] = self.t.add("carried", self.depth, j)
        ys, _, eff = self.block(s.body, inner)
        names = list(self.names) if ys is not None else []
        iv_id, depth = inner[iv], self.depth
        self.depth -= 1
        if ys is not None and len(ys) == 1 and self.t.terms[ys[0]][0] == "biasphi":
            res = [self.peel_bias(ys[0], kind, start, stop, step, opts, iv_id, depth, inits)]
        else:
            body = self.t.add("body", *(ys or []), *(eff if ys is None else []))
            loop = self.t.add("loop", kind, start, stop, step, opts, tuple(inits), body)
            res = [self.t.add("result", loop, j) for j in range(len(ys or []))] or [loop]
        for n, r in zip(names, res):
            env[n] = r
        return res[0]

    def attrs(self, node):
        return tuple(sorted((ast.literal_eval(k), ast.unparse(v)) for k, v in zip(node.keys, node.values)))

    def num(self, term):
        t = self.t.terms[term]
        return int(ast.literal_eval(t[1])) if t[0] == "const" else None

    def peel_bias(self, phi, kind, start, stop, step, opts, iv, depth, inits):
        _, _, first, more = self.t.terms[phi]
        lo, hi, st = self.num(start), self.num(stop), self.num(step)
        head = self.subst(first, {iv: start})
        carried = self.t.add("carried", depth, 0)
        rest = (hi - lo) // st - 1
        if rest <= 1:
            return self.subst(more, {iv: self.t.add("const", str(lo + st)), carried: head}) if rest else head
        body = self.t.add("body", more)
        loop = self.t.add("loop", kind, self.t.add("const", str(lo + st)), stop, step, opts, (head,), body)
        return self.t.add("result", loop, 0)

    def subst(self, term, table):
        """Replace ids inside a term (terms built under a loop only)."""
        if term in table:
            return table[term]
        t = self.t.terms[term]
        if t[0] == "call":
            return self.t.add(
                "call", t[1], tuple(self.subst(a, table) for a in t[2]), tuple((k, self.subst(v, table)) for k, v in t[3])
            )
        if t[0] in ("list", "bool", "cmp", "bin"):
            return self.t.add(t[0], *[self.subst(x, table) if isinstance(x, int) else x for x in t[1:]])
        return term

    def function(self, f):
        params = [a.arg for a in f.args.args if a.arg != "self"]
        kinds = [ast.unparse(a.annotation).split("[")[0] if a.annotation else "" for a in f.args.args if a.arg != "self"]
        env = {p: self.t.add("param", i) for i, p in enumerate(params)}
        _, ret, effects = self.block(f.body, env)
        used = set()
        stack = list(ret or []) + effects
        roots = list(ret or [])
        inside = set()
        while stack:  # every term reachable *below* another root
            x = stack.pop()
            for y in flat(self.t.terms[x]):
                if y not in inside:
                    inside.add(y)
                    stack.append(y)
        roots += [e for e in effects if e not in inside and e not in roots]
        return self.t.add("function", f.name, tuple(kinds), *roots)


def flat(term):
    for x in term[1:]:
        if isinstance(x, bool) or not isinstance(x, (int, tuple)):
            continue
        if isinstance(x, int):
            if term[0] not in ("iv", "carried", "param") and not (term[0] in ("result", "item") and x is term[2]):
                yield x
        else:
            for y in x:
                if isinstance(y, tuple):
                    if isinstance(y[1], int):
                        yield y[1]
                elif isinstance(y, int):
                    yield y


def read(text, terms):
    tree = ast.parse(text)
    out = {}
    for c in tree.body:
        for f in c.body if isinstance(c, ast.ClassDef) else [c] if isinstance(c, ast.FunctionDef) else []:
            if isinstance(f, ast.FunctionDef):
                r = Reader(terms)
                r.names = []
                out[f.name] = r.function(f)
    return out


def show(terms, i, depth=3):
    t = terms.terms[i]
    if depth == 0 or t[0] in ("const", "name"):
        return str(t[1]) if t[0] in ("const", "name") else t[0]
    parts = []
    for x in t[1:]:
        if isinstance(x, int) and not isinstance(x, bool) and t[0] not in ("iv", "carried", "param"):
            parts.append(show(terms, x, depth - 1))
        elif isinstance(x, tuple):
            parts.append(
                "["
                + ", ".join(
                    show(terms, y, depth - 1)
                    if isinstance(y, int)
                    else f"{y[0]}={show(terms, y[1], 1) if isinstance(y[1], int) else y[1]}"
                    if isinstance(y, tuple) and len(y) == 2
                    else str(y)
                    for y in x
                )
                + "]"
            )
        else:
            parts.append(str(x))
    return f"{t[0]}({', '.join(parts)})"


def first_difference(terms, a, b, path="result"):
    """The deepest pair of terms at which the two first differ."""
    while a != b:
        ta, tb = terms.terms[a], terms.terms[b]
        if ta[0] != tb[0] or len(ta) != len(tb):
            break
        ca, cb = list(flat(ta)), list(flat(tb))
        pairs = [(x, y) for x, y in zip(ca, cb) if x != y]
        same_head = [x for x in ta if isinstance(x, str)] == [x for x in tb if isinstance(x, str)]
        if not pairs or len(ca) != len(cb) or not same_head:
            break
        a, b = pairs[0]
    return show(terms, a), show(terms, b)


def same(one, two):
    """(True, "") or (False, what differs first)."""
    terms = Terms()
    fa, fb = read(one, terms), read(two, terms)
    if sorted(fa) != sorted(fb):
        return False, f"functions {sorted(fa)} against {sorted(fb)}"
    for name in fa:
        if fa[name] != fb[name]:
            x, y = first_difference(terms, fa[name], fb[name])
            return False, f"in {name}:\n  one: {x}\n  two: {y}"
    return True, ""


if __name__ == "__main__":
    ok, why = same(open(sys.argv[1]).read(), open(sys.argv[2]).read())
    print("same" if ok else why)
    sys.exit(0 if ok else 1)
