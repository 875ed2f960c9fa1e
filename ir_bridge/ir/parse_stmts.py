"""Statements of one function: Python's syntax tree in, IR statements in SSA form out.

Every assignment makes a new :class:`Var`. Names that loops and branches rebind become carried values and results
(:mod:`ir_bridge.ir.parse_rebinds` says which); what is defined only inside a loop or a branch is not visible after it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ir_bridge.ir import ops
from ir_bridge.ir.nodes import (
    INDEX_SCALAR,
    ONE,
    ZERO,
    Assign,
    Call,
    Const,
    Expr,
    For,
    If,
    ListExpr,
    Loc,
    LoopKind,
    Pass,
    Return,
    Scope,
    Stmt,
    Var,
    Yield,
)
from ir_bridge.ir.parse_exprs import BINARY, MAX_DEPTH, ExprReader
from ir_bridge.ir.parse_loops import HeaderReader, LoopHeader
from ir_bridge.ir.parse_rebinds import Rebinds, yielded
from ir_bridge.ir.parse_subscripts import write_subscript
from ir_bridge.ir.parse_types import TypeReader
from ir_bridge.ir.types import UNKNOWN, OtherType, TensorType, TileType, Type


@dataclass(slots=True)
class _Yielded:
    """A ``pl.yield_`` at the end of a block: its values, the names of what it defines outside, the type written for it."""

    node: ast.stmt
    values: list[Expr]
    names: list[str]
    written: Type


class StmtReader:
    """Reads the body of one function."""

    def __init__(self, exprs: ExprReader, types: TypeReader, rebinds: Rebinds) -> None:
        self._exprs = exprs
        self._types = types
        self._rebinds = rebinds
        self._source = exprs.source
        self._headers = HeaderReader(exprs)
        self._log: list[tuple[str, Expr | None]] = []
        self._depth = 0
        self._table = {
            ast.AnnAssign: self._annotated,
            ast.Assign: self._assign,
            ast.AugAssign: self._augmented,
            ast.Expr: self._bare,
            ast.For: self._for,
            ast.While: self._while,
            ast.If: self._if,
            ast.With: self._with,
            ast.Return: self._return,
            ast.Pass: self._pass,
        }

    # -- blocks and scopes -----------------------------------------------------------------------------------------------------

    def block(self, nodes: Sequence[ast.stmt]) -> list[Stmt]:
        """The statements of a block, in order."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._source.fail(nodes[0], "loops and branches nested too deeply", f"at most {MAX_DEPTH} levels")
        out: list[Stmt] = []
        pending = self._exprs.pending
        for node in nodes:
            reader = self._table.get(type(node))
            if reader is None:
                self._source.fail(
                    node, f"{type(node).__name__} is not a statement of the language", "an assignment, a loop, if, with or return"
                )
            stmt = reader(node)  # type: ignore[operator]
            if pending:
                out.extend(pending)
                pending.clear()
            if type(stmt) is list:
                out.extend(stmt)
            elif stmt is not None:
                out.append(stmt)
        self._depth -= 1
        return out

    def _inner(self, nodes: Sequence[ast.stmt]) -> tuple[list[Stmt], _Yielded | None]:
        """The statements of a loop body or arm, and the yield it ends with."""
        last = nodes[-1] if nodes else None
        if last is None or yielded(last) is None:
            return self.block(nodes), None
        out = self.block(nodes[:-1])
        found = self._yield(last)
        out.extend(self._exprs.pending)
        self._exprs.pending.clear()
        return out, found

    def _yield(self, node: ast.stmt) -> _Yielded:
        call = yielded(node)
        assert call is not None
        values = [self._exprs.value(a) for a in call.args]
        target = getattr(node, "target", None) or (node.targets[0] if isinstance(node, ast.Assign) else None)
        elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [] if target is None else [target]
        names = [e.id for e in elements if isinstance(e, ast.Name)]
        if len(names) != len(elements) or (names and len(names) != len(values)):
            self._source.fail(node, f"{len(values)} values are yielded to {len(elements)} names", "as many names as values")
        return _Yielded(node, values, names, self._types.read(getattr(node, "annotation", None)))

    def bind(self, name: str, value: Expr) -> None:
        """Let ``name`` stand for ``value`` until the enclosing scope ends."""
        env = self._exprs.env
        self._log.append((name, env.get(name)))
        env[name] = value

    def _leave(self, mark: int, why: str) -> None:
        """Undo the bindings made since ``mark``; ``why`` says what became of names that existed only there."""
        env, log = self._exprs.env, self._log
        while len(log) > mark:
            name, old = log.pop()
            if old is None:
                env.pop(name, None)
                self._exprs.lost[name] = why
            else:
                env[name] = old

    def _define(self, name: str, t: Type) -> Var:
        var = Var(self._exprs.names.fresh(name), t)
        self.bind(name, var)
        return var

    # -- simple statements --------------------------------------------------------------------------------------------------

    def _annotated(self, node: ast.AnnAssign) -> Stmt:
        target = node.target
        if node.value is None:
            self._source.fail(node, "an annotation without a value", "name: type = value")
        if type(target) is not ast.Name:
            self._source.fail(node, "an annotated assignment to something that is no name", "name: type = value")
        written = self._types.read(node.annotation)
        self._exprs.lenient = written is not UNKNOWN
        e = self._exprs.read(node.value)
        e = self._typed(e, written)
        inferred = self._result(e, node)
        self._exprs.lenient = False
        if type(written) is TileType and type(inferred) is TileType and written.space is not inferred.space and type(e) is Call:
            e, inferred = self._placed(e, written, inferred, node.value)
        return Assign((self._define(target.id, ops.fill(written, inferred)),), e, self._source.loc(node))

    def _typed(self, e: Expr, written: Type) -> Expr:
        """A product whose result type was left to its default has the annotation's; a fill annotated as a tile is one."""
        if type(e) is not Call:
            return e
        if type(written) is TensorType and e.op == "tensor.matmul" and e.kwarg("out_dtype") is None:
            inferred = ops.type_of(e)
            if type(inferred) is TensorType and inferred.dtype != written.dtype:
                return Call(e.op, e.args, (("out_dtype", ops.dtype_symbol(written.dtype)), *e.kwargs), e.attrs)
        if type(written) is TileType and e.op == "tensor.full":
            return Call("tile.full", e.args, e.kwargs, e.attrs)
        return e

    def _placed(self, e: Call, written: TileType, inferred: TileType, node: ast.expr) -> tuple[Call, Type]:
        """A call whose memory space was left to its default goes where the annotation says."""
        d = ops.lookup(e.op)
        keyword = next((a for a in d.keywords if a.kind == "space"), None) if d is not None else None
        if written.space is None or keyword is None or not isinstance(node, ast.Call) or d is None:
            return e, inferred
        given = {k.arg for k in node.keywords}
        if len(node.args) > len(d.args) or not given.isdisjoint((keyword.name, *keyword.aliases)):
            return e, inferred
        symbol = ops.space_symbol(written.space)
        moved = Call(e.op, e.args, tuple([(k, symbol if k == keyword.name else v) for k, v in e.kwargs]), e.attrs)
        return moved, self._result(moved, node)

    def _result(self, e: Expr, node: ast.AST) -> Type:
        """The type of the one value a right side gives."""
        types = self._exprs.results(e, node)
        if len(types) == 1:
            return types[0]
        if not types:
            self._source.fail(node, "the right side gives no result", "the call as a statement of its own")
        return UNKNOWN

    def _assign(self, node: ast.Assign) -> Stmt | list[Stmt] | None:
        if len(node.targets) != 1:
            self._source.fail(node, "several targets joined by =", "one assignment for each")
        target = node.targets[0]
        if type(target) is ast.Name:
            e = self._exprs.read(node.value)
            return self._named(target.id, e, self._result(e, node), self._source.loc(node))
        if isinstance(target, (ast.Tuple, ast.List)):
            return self._assign_tuple(target, node)
        if isinstance(target, ast.Subscript):
            return self._assign_subscript(target, node)
        self._source.fail(node, "an assignment to something that is no name", "name = value")

    def _named(self, name: str, e: Expr, t: Type, loc: Loc) -> Assign:
        """``name = e``; a name of a plain integer stands for that integer where it is used, so that shapes may be made of it."""
        s = Assign((self._define(name, t),), e, loc)
        if type(e) is Const and type(e.value) is int and e.dtype is None:
            self._exprs.env[name] = e
        return s

    def _assign_tuple(self, target: ast.Tuple | ast.List, node: ast.Assign) -> Stmt | list[Stmt]:
        names = [t.id for t in target.elts if type(t) is ast.Name]
        if len(names) != len(target.elts):
            self._source.fail(node, "a nested or computed target", "a, b = ...")
        e = self._exprs.read(node.value)
        loc = self._source.loc(node)
        if isinstance(e, ListExpr):
            if len(e.items) != len(names):
                self._source.fail(node, f"{len(e.items)} values for {len(names)} names", "as many names as values")
            types = [ops.type_of(x) for x in e.items]
            return [self._named(n, x, t, loc) for n, t, x in zip(names, types, e.items, strict=True)]
        found = self._exprs.results(e, node)
        if len(found) != len(names):
            if found and found != (UNKNOWN,):
                self._source.fail(node, f"{len(found)} results for {len(names)} names", "as many names as results")
            found = (UNKNOWN,) * len(names)
        return Assign(tuple([self._define(n, t) for n, t in zip(names, found, strict=True)]), e, loc)

    def _assign_subscript(self, target: ast.Subscript, node: ast.Assign) -> Stmt:
        if type(target.value) is not ast.Name:
            self._source.fail(node, "a subscript of something that is no name", "name[...] = value")
        base = self._exprs.read(target.value)
        index = self._exprs.index(target.slice)
        value = self._exprs.value(node.value)
        parts = write_subscript(base, index, value)
        if parts is None:
            self._source.fail(node, "a subscript that is neither a window nor an element of a tensor or tile", "x[a:b, c:d] = v")
        call = self._exprs.call(*parts, (), node)
        loc = self._source.loc(node)
        if call.op.endswith(".write"):
            self._exprs.results(call, node)
            return Assign((), call, loc)
        t = self._result(call, node)
        return Assign((self._define(target.value.id, ops.type_of(base) if t == UNKNOWN else t),), call, loc)

    def _augmented(self, node: ast.AugAssign) -> Stmt:
        if type(node.target) is not ast.Name:
            self._source.fail(node, "an augmented assignment to something that is no name", "name = name + value")
        old = self._exprs.read(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        e = self._exprs.binary(BINARY[type(node.op)], old, self._exprs.value(node.value), node.value)
        return Assign((self._define(node.target.id, self._result(e, node)),), e, self._source.loc(node))

    def _bare(self, node: ast.Expr) -> Stmt | None:
        if isinstance(node.value, ast.Constant):
            return None  # a docstring or a bare literal: a comment
        if yielded(node) is not None:
            self._source.fail(
                node, "pl.yield_ is not the last statement of a loop body or branch", "it to stand last, on its own"
            )
        self._exprs.lenient = True
        e = self._exprs.read(node.value)
        self._exprs.results(e, node)
        self._exprs.lenient = False
        return Assign((), e, self._source.loc(node))

    def _return(self, node: ast.Return) -> Stmt:
        value = node.value
        loc = self._source.loc(node)
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return Return((), loc)
        if isinstance(value, ast.Tuple):
            return Return(tuple([self._exprs.value(v) for v in value.elts]), loc)
        e = self._exprs.read(value)
        if type(e) is Call and e.op.startswith("self."):
            return Return(self._exprs.given_names(e, self._exprs.results(e, node), node), loc)
        return Return((self._exprs.hoisted(e, value),), loc)

    def _pass(self, node: ast.Pass) -> Stmt:
        return Pass(self._source.loc(node))

    def _with(self, node: ast.With) -> Stmt:
        (item, *rest) = node.items
        header = self._exprs.read(item.context_expr)
        before = list(self._exprs.pending)
        self._exprs.pending.clear()
        name: Var | None = None
        if item.optional_vars is not None:
            if type(item.optional_vars) is not ast.Name:
                self._source.fail(node, "a with block bound to something that is no name", "with ... as name:")
            name = self._define(item.optional_vars.id, UNKNOWN)
        loc = self._source.loc(node)
        if rest:
            inner = ast.copy_location(ast.With(items=rest, body=node.body), node)
            body = [self._with(inner)]
        else:
            body = self.block(node.body)
        self._exprs.pending.extend(before)
        return Scope(header, tuple(body), name, loc)

    # -- loops ----------------------------------------------------------------------------------------------------------------

    def _for(self, node: ast.For) -> Stmt:
        if node.orelse:
            self._source.fail(node.orelse[0], "else after a loop", "the statements after the loop")
        head = self._headers.read(node)
        counter_name, names = self._headers.names(node, head)
        if head.kind is LoopKind.SPLIT_AIV:
            return self._split(node, head, counter_name)
        if len(names) != len(head.inits):
            self._source.fail(node, f"{len(names)} carried names for {len(head.inits)} init_values", "as many names as values")
        before = self._drain()
        mark = len(self._log)
        counter = None if counter_name is None else self._define(counter_name, INDEX_SCALAR)
        carried = [self._define(n, ops.type_of(v)) for n, v in zip(names, head.inits, strict=True)]
        body: Sequence[ast.stmt] = node.body
        cond: ast.expr | None = None
        if head.kind is LoopKind.WHILE:
            cond, body = self._headers.condition(node)
        rebound = self._rebound(node, {*names, counter_name})
        return self._loop(node, head, (counter, cond), (names, carried), rebound, body, before, mark)

    def _split(self, node: ast.For, head: LoopHeader, counter: str | None) -> Stmt:
        """``for lane in pl.split_aiv(2, mode=…)``: a region all lanes run once, whose names are visible after it."""
        before = self._drain()
        lane = None if counter is None else self._define(counter, INDEX_SCALAR)
        outer = self._exprs.split
        self._exprs.split = head.split
        body = self.block(node.body)
        self._exprs.split = outer
        self._exprs.pending.extend(before)
        return Scope(Call("split_aiv", (head.bounds[1],), head.options, head.attrs), tuple(body), lane, self._source.loc(node))

    def _while(self, node: ast.While) -> Stmt:
        """``while cond:``, as hand-written programs have it."""
        if node.orelse:
            self._source.fail(node.orelse[0], "else after a loop", "the statements after the loop")
        head = LoopHeader(LoopKind.WHILE, (ZERO, ZERO, ONE), [], None, (), ())
        return self._loop(node, head, (None, node.test), ([], []), self._rebound(node, set()), node.body, [], len(self._log))

    def _loop(
        self,
        node: ast.For | ast.While,
        head: LoopHeader,
        control: tuple[Var | None, ast.expr | None],
        explicit: tuple[list[str], list[Var]],
        rebound: list[str],
        nodes: Sequence[ast.stmt],
        before: list[Stmt],
        mark: int,
    ) -> Stmt:
        counter, cond_node = control
        names, carried = explicit
        env = self._exprs.env
        inits = [*head.inits, *[env[n] for n in rebound]]
        carried = [*carried, *[self._define(n, ops.type_of(env[n])) for n in rebound]]
        cond = None if cond_node is None else self._condition(cond_node)
        body, last = self._inner(nodes)
        values = [] if last is None else last.values
        if len(values) != len(names):
            at = node if last is None else last.node
            self._source.fail(at, f"the loop carries {len(names)} values and yields {len(values)}", "a pl.yield_ of as many")
        values = [*values, *[env[n] for n in rebound]]
        if values:
            _end_with(body, Yield(tuple(values), self._source.loc(node if last is None else last.node)))
        self._leave(mark, f"it is defined only inside the loop at line {self._source.lineno(node)}")
        outer = [*(last.names if last is not None and last.names else names), *rebound]
        types = [c.type for c in carried]
        if last is not None and last.written != UNKNOWN:
            types[0] = ops.fill(last.written, types[0])
        results = [self._define(n, t) for n, t in zip(outer, types, strict=True)]
        self._exprs.pending.extend(before)
        return For(
            head.kind,
            counter,
            *head.bounds,
            tuple(body),
            tuple(carried),
            tuple(inits),
            tuple(results),
            head.stage,
            head.attrs,
            head.options,
            cond,
            self._source.loc(node),
        )

    def _drain(self) -> list[Stmt]:
        """The statements that nested calls of a header were moved into; they go before the loop or branch."""
        before = list(self._exprs.pending)
        self._exprs.pending.clear()
        return before

    def _condition(self, node: ast.expr) -> Expr:
        e = self._exprs.read(node)
        if self._exprs.pending:
            self._source.fail(node, "a loop condition that computes tiles or tensors", "a condition on scalars")
        return e

    def _rebound(self, node: ast.For | ast.While, bound: set[str | None]) -> list[str]:
        """The outer names a loop rebinds and the next trip, or what follows, reads."""
        env = self._exprs.env
        candidates = [n for n in self._rebinds.assigned(node) if n in env and n not in bound]
        if not candidates:
            return []
        read, after = self._rebinds.exposed(node), self._rebinds.live_after(node)
        results = self._rebinds.results(node)
        return [n for n in candidates if n in read or (n in after and n not in results)]

    # -- branches ---------------------------------------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> Stmt:
        cond = self._exprs.read(node.test)
        before = self._drain()
        rebound = self._rebound_by_branch(node)
        why = f"it is defined only in a branch of the if at line {self._source.lineno(node)}"
        then, one, one_values = self._arm(node.body, rebound, why)
        orelse, two, two_values = self._arm(node.orelse, rebound, why)
        names, types, values = self._explicit_results(node, one, two)
        rebound = [n for n in rebound if n not in names and one_values[n] is not None and two_values[n] is not None]
        for n in rebound:
            a, b = one_values[n], two_values[n]
            assert a is not None
            assert b is not None
            names.append(n)
            types.append(_either(ops.type_of(a), ops.type_of(b)))
            values.append((a, b))
        if names:
            _end_with(then, Yield(tuple([a for a, _ in values]), self._source.loc(one.node if one else node)))
            _end_with(orelse, Yield(tuple([b for _, b in values]), self._source.loc(two.node if two else node)))
        results = tuple([self._define(n, t) for n, t in zip(names, types, strict=True)])
        self._exprs.pending.extend(before)
        no_else = not node.orelse and not names
        return If(cond, tuple(then), None if no_else else tuple(orelse), results, self._source.loc(node))

    def _arm(
        self, nodes: Sequence[ast.stmt], rebound: list[str], why: str
    ) -> tuple[list[Stmt], _Yielded | None, dict[str, Expr | None]]:
        """An arm's statements, its yield, and what the rebound names stand for at its end."""
        mark = len(self._log)
        body, last = self._inner(nodes) if nodes else ([], None)
        values = {n: self._exprs.env.get(n) for n in rebound}
        self._leave(mark, why)
        return body, last, values

    def _explicit_results(
        self, node: ast.If, one: _Yielded | None, two: _Yielded | None
    ) -> tuple[list[str], list[Type], list[tuple[Expr, Expr]]]:
        """Names, types and values (of either arm) of what both arms yield."""
        if one is None and two is None:
            return [], [], []
        if one is None or two is None:
            self._source.fail(node, "only one branch yields", "both branches to end with pl.yield_, or none")
        if len(one.values) != len(two.values):
            problem = f"the branches yield {len(one.values)} and {len(two.values)} values"
            self._source.fail(two.node, problem, "as many in both")
        names = one.names or two.names or [f"phi_{i}" for i in range(len(one.values))]
        if two.names and two.names != names:
            self._source.fail(
                two.node, f"the branches yield to different names: {names} and {two.names}", "the same names in both"
            )
        types = [_either(ops.type_of(a), ops.type_of(b)) for a, b in zip(one.values, two.values, strict=True)]
        written = two.written if one.written == UNKNOWN else one.written
        if written != UNKNOWN:
            types[0] = ops.fill(written, types[0])
        return list(names), types, list(zip(one.values, two.values, strict=True))

    def _rebound_by_branch(self, node: ast.If) -> list[str]:
        """The names a branch rebinds, or both arms define, that what follows reads."""
        env = self._exprs.env
        candidates = [n for n in self._rebinds.assigned(node) if n in env]
        both = self._rebinds.assigned_in_arms(node)
        candidates += [n for n in both if n not in env]
        if not candidates:
            return []
        after = self._rebinds.live_after(node)
        return [n for n in candidates if n in after]


def _end_with(block: list[Stmt], last: Yield) -> None:
    """Let a block end with a yield, which also makes it one that needs no ``pass``."""
    if len(block) == 1 and isinstance(block[0], Pass):
        block.clear()
    block.append(last)


def _either(a: Type, b: Type) -> Type:
    """The type of a value that comes from one of two arms."""
    return b if isinstance(a, OtherType) else a
