"""Phase 1: the body of one InCore, AIC or AIV function, statement by statement (specification 2, phase 1, steps 2 and 3).

The converter keeps an environment from tensor values to the tiles they have become. Values that stay global memory keep their
names; so do scalars. Loads come into being where an operand is brought to its consumer: once at the function's entry for
parameters that are never written, else at the statement, so that no load crosses a write, a branch or a loop iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ir_bridge.convert.carries import Carry, agreed, narrowed_seed
from ir_bridge.convert.demands import Box, Demands, box_of
from ir_bridge.convert.errors import ConvertError, refuse
from ir_bridge.convert.flow import Flow, yielded
from ir_bridge.convert.registry import Conversion, Input, Site, conversion_of
from ir_bridge.ir.misspelt import nearest_operation
from ir_bridge.ir.nodes import (
    NOWHERE,
    Assign,
    Binary,
    Block,
    Call,
    Const,
    Expr,
    For,
    Function,
    If,
    ListExpr,
    Loc,
    Return,
    Scope,
    Stmt,
    Unary,
    Var,
    Yield,
    defined,
    vars_in,
    walk,
)
from ir_bridge.ir.ops import OpError, lookup, make, result_types, type_of
from ir_bridge.ir.ops_tensor import valid_of
from ir_bridge.ir.types import Dim, OtherType, Space, TensorType, TileType

#: Spaces a Vec consumer reads from as conversion leaves it; a product crosses over when spaces are inferred.
_VECTOR = (Space.VEC, Space.ACC)


class BodyConverter:
    """Converts one function body; :meth:`convert` returns the statements between the entry loads and the exit stores."""

    def __init__(
        self,
        function: Function,
        flow: Flow,
        demands: Demands,
        shared: frozenset[Var],
        cache: Mapping[Var, Expr],
        promoted: frozenset[Var],
        placed: Mapping[Var, str],
    ) -> None:
        self.function = function
        self.flow = flow
        self.demands = demands
        self.shared = shared
        self.cache = cache
        self.promoted = promoted
        self.placed = placed
        self.env: dict[Var, Var] = {}
        self.copies: dict[tuple[Var, Space], Var] = {}
        self.entry: dict[tuple[Var, Space], Assign] = {}
        self.made: dict[Var, Call] = {}
        self.phis: dict[Var, tuple[Expr, ...]] = {}
        self.cut: dict[Var, tuple[list[Stmt], Var]] = {}
        self.out: list[Stmt] = []
        self.loc: Loc = NOWHERE

    # -- emitting ------------------------------------------------------------------------------------------------------

    def emit(self, op: str, *args: object, name: str, **kwargs: object) -> Var:
        """Append ``name = op(args)`` and return the value; its type is what the op table infers."""
        call = make(op, *args, **kwargs)
        try:
            (t,) = result_types(call.op, call.args, call.kwargs)
        except OpError as error:
            raise refuse(self.function.name, str(error), f"{name} can't be made", self.loc) from error
        return self.assign(Var(name, t), call)

    def assign(self, v: Var, call: Call) -> Var:
        self.made[v] = call
        self.out.append(Assign((v,), call, self.loc))
        return v

    def effect(self, op: str, *args: object, **kwargs: object) -> None:
        """Append a call for its effect."""
        self.out.append(Assign((), make(op, *args, **kwargs), self.loc))

    def refusal(self, what: str, repair: str) -> ConvertError:
        return refuse(self.function.name, what, repair, self.loc)

    # -- bringing operands ---------------------------------------------------------------------------------------------

    def tile(
        self,
        e: Expr,
        space: Space = Space.VEC,
        box: Box | None = None,
        allowed: tuple[Space, ...] | None = None,
        share: bool = True,
    ) -> Var:
        """``e`` as a tile in ``space`` (or where it is, when that is one of ``allowed``).

        What is in global memory is loaded: at the function's entry for a parameter that is never written, unless ``share`` is
        False, else here. ``box`` rounds up the physical size of a load made here.
        """
        if type(e) is not Var:
            raise self.refusal(f"{e} is no tensor", "write the tensor's name")
        have = self.env.get(e)
        if have is None:
            if isinstance(e.type, TileType):
                have = e
            else:
                return self._from_memory(e, space, box, share)
        copy = self.copies.get((e, space))
        if copy is not None:
            return copy
        allowed = allowed or (_VECTOR if space is Space.VEC else (space,))
        if not isinstance(have.type, TileType) or have.type.space in allowed or have.type.space is None:
            return have
        return self.move(have, space)

    def vector(self, e: Expr) -> Var:
        """``e`` as a Vector operand: in Vec or still in Acc, in its logical size (a boxed product is larger)."""
        tile = self.tile(e)
        return self.trimmed(tile, e.type.shape) if isinstance(e, Var) and isinstance(e.type, TensorType) else tile

    def trimmed(self, tile: Var, shape: tuple[Dim, ...]) -> Var:
        """The tile in exactly ``shape``: a boxed one is extracted into Vec, once in each block."""
        if not isinstance(tile.type, TileType) or tile.type.shape == shape:
            return tile
        known = self.cut.get(tile)
        if known is not None and known[0] is self.out and isinstance(known[1].type, TileType) and known[1].type.shape == shape:
            return known[1]
        found = self.emit("tile.extract", tile, 0, 0, list(shape), target_memory=Space.VEC, name=f"{tile.name}_vec")
        self.cut[tile] = (self.out, found)
        return found

    def to_vec(self, tile: Var, shape: tuple[Dim, ...]) -> Var:
        """The tile in Vec, in exactly ``shape``."""
        cut = self.trimmed(tile, shape)
        return cut if isinstance(cut.type, TileType) and cut.type.space is Space.VEC else self.move(cut, Space.VEC)

    def _fitted(self, tile: Var, e: Var, box: Box | None) -> Var:
        """A computed matmul operand in the physical size it is read in: its own, boxed where the call asks for it."""
        shape = e.type.shape if isinstance(e.type, TensorType) else ()
        want = boxed(shape, box) if box is not None else shape
        if not isinstance(tile.type, TileType) or not isinstance(e.type, TensorType) or tile.type.shape == want:
            return tile
        cut = self.trimmed(tile, shape)
        if want == shape or not all(isinstance(d, int) for d in want):
            return cut
        storage = self.emit("tile.create", list(want), dtype=e.type.dtype, target_memory=Space.MAT, name=f"{tile.name}_mat")
        placed = self.emit("tile.assemble", storage, cut, [0, 0], name=f"{tile.name}_mat")
        return self.emit("tile.set_validshape", placed, *cut.type.valid, name=f"{tile.name}_mat")  # type: ignore[union-attr]

    def move(self, tile: Var, space: Space) -> Var:
        return self.emit("tile.move", tile, target_memory=space, name=f"{tile.name}_{space.value.lower()}")

    def _from_memory(self, e: Var, space: Space, box: Box | None, share: bool) -> Var:
        if not isinstance(e.type, TensorType):
            raise self.refusal(f"{e.name} has no tensor type", "annotate it with pl.Tensor[[...], pl.DTYPE]")
        if share and e in self.shared:
            return self._at_entry(e, space)
        shape = e.type.shape
        return self.load(e, [0] * len(shape), shape, valid_of(e.type), space, box, f"{e.name}_{space.value.lower()}")

    def _at_entry(self, e: Var, space: Space) -> Var:
        found = self.entry.get((e, space))
        if found is None:
            assert isinstance(e.type, TensorType)
            shape = e.type.shape
            box = self.demands.box(e, space)
            name = f"{e.name}_tile" if space is Space.VEC else f"{e.name}_{space.value.lower()}"
            outer, self.out = self.out, []
            self.load(e, [0] * len(shape), shape, valid_of(e.type), space, box, name)
            found = self.out[0]  # type: ignore[assignment]
            assert isinstance(found, Assign)
            self.entry[e, space] = found
            self.out = outer
        return found.target

    def load(
        self,
        source: Expr,
        offsets: Iterable[object],
        shape: tuple[Dim, ...],
        valid: tuple[Dim, ...],
        space: Space,
        box: Box | None,
        name: str,
    ) -> Var:
        """Load a window of global memory; with ``box`` the physical size of one axis is rounded up, its valid part is not."""
        physical = boxed(shape, box) if box is not None else shape
        kwargs: dict[str, object] = {"target_memory": space}
        policy = self.cache.get(source) if type(source) is Var else None
        if policy is not None:
            kwargs["cache"] = policy
        return self.emit("tile.load", source, list(offsets), list(physical), list(valid), name=name, **kwargs)

    def _operand(self, e: Expr, index: int, s: Assign, call: Call, c: Conversion) -> Expr:
        if type(e) is Var and isinstance(e.type, OtherType) and c.wants_tensor(index):
            raise self._of_unknown_type(call.op, e)
        if index in c.memory or (c.view and index == 0):
            return self.memory(e)
        if type(e) is not Var or not isinstance(e.type, (TensorType, TileType)):
            return self.scalar(e)
        i = c.input_at(index)
        if i is None:
            return self.tile(e) if index in c.any_size else self.vector(e)
        return self._input(e, s, call, c, i)

    def _of_unknown_type(self, op: str, *operands: Expr) -> ConvertError:
        """The refusal of an operation on values whose type nobody gives, because they come from an unknown operation."""
        v = next((e for e in operands if type(e) is Var and isinstance(e.type, OtherType)), None)
        if v is None:
            return self.refusal(f"{op} inside of an expression", "give its result a name first")
        made = next((s for s in walk(self.function.body) if isinstance(s, Assign) and v in s.targets), None)
        why = ""
        if made is not None and isinstance(made.value, Call) and lookup(made.value.op) is None:
            near = nearest_operation(made.value.op)
            why = f": {made.value.op} at {made.loc} is not known" + ("" if near is None else f" (did you mean {near}?)")
        return self.refusal(
            f"{op} takes {v.name}, whose type is not known{why}", f"annotate it: {v.name}: pl.Tensor[[...], pl.DTYPE] = ..."
        )

    def _input(self, e: Var, s: Assign, call: Call, c: Conversion, i: Input) -> Expr:
        landing = i.demand.landing
        if landing is None:
            return self.memory(e)
        box = box_of(self.demands, s, call, c, i)
        if self.computed(e):
            fitted = self._fitted(self.env[e], e, box)
            return fitted if getattr(fitted.type, "space", None) in i.demand.allowed else self.move(fitted, landing)
        return self.tile(e, landing, box, i.demand.allowed, share=False)

    def memory(self, e: Expr) -> Expr:
        """``e`` as it now stands: the tile it has become, or the global memory it still is."""
        return self.env.get(e, e) if type(e) is Var else self.scalar(e)

    def scalar(self, e: Expr) -> Expr:
        """A scalar expression, with element reads and sizes of what has become a tile rewritten."""
        if isinstance(e, Call):
            c = conversion_of(e.op)
            if c is not None and c.stays:
                value = c.rule(self, Site(e, tuple([self.memory(a) for a in e.args]), None, "", self.loc))
                return value if value is not None else e
            if c is not None:
                raise self._of_unknown_type(e.op, *e.args)
            args = tuple([self.scalar(a) for a in e.args])
            return e if args == e.args else Call(e.op, args, e.kwargs, e.attrs)
        if isinstance(e, Binary):
            left, right = self.scalar(e.left), self.scalar(e.right)
            return e if left is e.left and right is e.right else Binary(e.op, left, right)
        if isinstance(e, Unary):
            inner = self.scalar(e.operand)
            return e if inner is e.operand else Unary(e.op, inner)
        if isinstance(e, ListExpr):
            items = tuple([self.scalar(i) for i in e.items])
            return e if items == e.items else ListExpr(items, e.is_tuple)
        return e

    # -- statements ----------------------------------------------------------------------------------------------------

    def convert(self) -> list[Stmt]:
        """The converted statements, up to the function's return (which the exit is made of)."""
        body = self.function.body
        return self.block(body[:-1] if body and isinstance(body[-1], Return) else body)

    def block(self, block: Block) -> list[Stmt]:
        """Convert a block on its own; a yield at its end is left to the caller."""
        outer, self.out = self.out, []
        for s in block:
            self.statement(s)
        mine, self.out = self.out, outer
        return mine

    def statement(self, s: Stmt) -> None:
        if isinstance(s, Assign):
            self.loc = s.loc
            self._assign(s)
        elif isinstance(s, For):
            self._loop(s)
        elif isinstance(s, If):
            self._branch(s)
        elif isinstance(s, Scope):
            self.out.append(Scope(self.scalar(s.header), tuple(self.block(s.body)), s.name, s.loc))
        elif not isinstance(s, (Yield, Return)):
            self.out.append(s)
        elif isinstance(s, Return):
            raise refuse(self.function.name, "a return inside a block", "return once, at the end of the function", s.loc)

    def _assign(self, s: Assign) -> None:
        value = s.value
        if type(value) is Var:
            self._alias(s, value)
            return
        c = conversion_of(value.op) if isinstance(value, Call) else None
        if c is None or not isinstance(value, Call):
            self._carry_along(s)
            return
        target = s.targets[0] if len(s.targets) == 1 else None
        if target is not None and target in self.promoted:
            return
        args = tuple([self._operand(a, i, s, value, c) for i, a in enumerate(value.args)])
        name = f"{target.name}_tile" if target is not None else value.op
        try:
            result = c.rule(self, Site(value, args, target, name, self.loc))
        except OpError as e:
            raise refuse(self.function.name, str(e), f"give it operands as {value.op} takes them", s.loc) from e
        if target is not None and result is not None:
            self._define(s, target, result)

    def _define(self, s: Assign, target: Var, result: Expr) -> None:
        if type(result) is Var:
            if result is not target:
                self.env[target] = result
        else:
            self.out.append(Assign((target,), result, s.loc))

    def _alias(self, s: Assign, value: Var) -> None:
        if value in self.env and s.targets:
            self.env[s.target] = self.env[value]
            for space in Space:
                if (value, space) in self.copies:
                    self.copies[s.target, space] = self.copies[value, space]
        else:
            self.out.append(s)

    def _carry_along(self, s: Assign) -> None:
        """A statement without conversion is kept: a tile operation takes what has become a tile, nothing else may."""
        value = self.scalar(s.value)
        if isinstance(value, Call) and value.op.startswith("tile.") and lookup(value.op) is not None:
            policy = self.cache.get(value.args[0]) if value.op == "tile.load" and type(value.args[0]) is Var else None
            kwargs = value.kwargs if policy is None or value.kwarg("cache") is not None else (*value.kwargs, ("cache", policy))
            call = Call(value.op, tuple([self.memory(a) for a in value.args]), kwargs, value.attrs)
            self.out.append(s if call == s.value else Assign(s.targets, call, s.loc))
            return
        for a in vars_in(value):
            if a in self.env:
                raise self.refusal(*stray_use(s.value, a))
        self.out.append(s if value is s.value else Assign(s.targets, value, s.loc))

    # -- loops and branches --------------------------------------------------------------------------------------------

    def _initial(self, carried: Var, init: Expr) -> Expr:
        """The first value of a carried tile, in the space its consumers want it in."""
        spaces = self.demands.spaces(carried)
        space = Space.VEC if Space.VEC in spaces or spaces[0] is Space.ACC else spaces[0]
        return self.tile(init, space, self.demands.box(carried, space), tuple(Space) if self.computed(init) else None)

    def computed(self, e: Expr) -> bool:
        """Is ``e`` a tile that exists in one space only, and would have to be moved to be in another?"""
        return type(e) is Var and e in self.env and (e, Space.VEC) not in self.copies

    def is_packed(self, tile: Var) -> bool:
        """Is the tile proven to lie row after row? Fresh results do, and what only narrows their valid region; a window, a view,
        a parameter or a carried value may not."""
        call = self.made.get(tile)
        op = lookup(call.op) if call is not None else None
        if call is None or op is None:
            return False
        if call.op == "tile.set_validshape":
            return isinstance(call.args[0], Var) and self.is_packed(call.args[0])
        return op.effects.view is None and op.effects.in_place is None

    def _loop(self, s: For) -> None:
        self.loc = s.loc
        tiles = [c in self.flow.tiles for c in s.carried]
        inits = [self._initial(c, i) if t else self.memory(i) for c, i, t in zip(s.carried, s.inits, tiles, strict=True)]
        made = self._body(s, inits, tiles)
        retry = self._better_inits(s, inits, made, tiles)
        if retry is not None:
            inits = retry
            made = self._body(s, inits, tiles)
        body, values, carried = made
        results = tuple([Var(r.name, c.type) if t else r for r, c, t in zip(s.results, carried, tiles, strict=True)])
        for c, r, new, t in zip(s.carried, s.results, results, tiles, strict=True):
            if t:
                self.env[r] = new
                del self.env[c]
        if s.results or any(isinstance(x, Yield) for x in s.body[-1:]):
            body.append(Yield(tuple(values), s.body[-1].loc))
        start, stop, step = self.scalar(s.start), self.scalar(s.stop), self.scalar(s.step)
        cond = self.scalar(s.cond) if s.cond is not None else None
        self.out.append(
            For(
                s.kind,
                s.counter,
                start,
                stop,
                step,
                tuple(body),
                tuple(carried),
                tuple(inits),
                results,
                s.stage,
                s.attrs,
                s.options,
                cond,
                s.loc,
            )
        )

    def _body(self, s: For, inits: list[Expr], tiles: list[bool]) -> tuple[list[Stmt], list[Expr], list[Var]]:
        """(statements, yielded values, carried values) of a loop whose carried tiles have the types of ``inits``."""
        carried = [Var(c.name, type_of(i)) if t else c for c, i, t in zip(s.carried, inits, tiles, strict=True)]
        for c, new, t in zip(s.carried, carried, tiles, strict=True):
            if t:
                self.env[c] = new
        outer, self.out = self.out, []
        for inner in s.body:
            self.statement(inner)
        values: list[Expr] = []
        for e, c, t in zip(yielded(s.body), carried, tiles, strict=True):
            values.append(self._handed_on(e, c) if t else self.memory(e))
        body, self.out = self.out, outer
        return body, values, carried

    def _handed_on(self, e: Expr, carried: Var) -> Expr:
        """What a loop body yields for a carried tile: in the carried value's space, where it can get there."""
        t = carried.type
        assert isinstance(t, TileType)
        if t.space is None or t.space is Space.ACC or not isinstance(e, Var):
            return self.memory(e)
        if e in self.env and (e, t.space) not in self.copies:
            tile = self.env[e]
            space = getattr(tile.type, "space", None)
            if t.space is Space.VEC:
                return self.to_vec(tile, t.shape)
            return tile if space is t.space else self.move(tile, t.space)
        return self.tile(e, t.space, self.demands.box(e, t.space), (t.space,))

    def _better_inits(
        self, s: For, inits: list[Expr], made: tuple[list[Stmt], list[Expr], list[Var]], tiles: list[bool]
    ) -> list[Expr] | None:
        """Initial values that agree with what the body yields, where the given ones don't: moved out of Acc, or narrowed."""
        better = list(inits)
        local = _defined_in(s)
        for n, (init, value, carried, t) in enumerate(zip(inits, made[1], made[2], tiles, strict=True)):
            if not t or not isinstance(carried.type, TileType) or not isinstance(init, Var):
                continue
            space = getattr(type_of(value), "space", None)
            if carried.type.space is Space.ACC and space is not Space.ACC:
                better[n] = self.to_vec(init, _logical(s.carried[n]))
                continue
            carry = Carry(init, carried, value, self.made, self.phis)
            valid = narrowed_seed(carry, local)
            if valid is not None:
                better[n] = self._narrow(init, valid)
        return better if any(a is not b for a, b in zip(better, inits, strict=True)) else None

    def _narrow(self, seed: Var, valid: tuple[Dim, ...]) -> Var:
        """A compact seed with a narrower valid region, in place of ``seed``."""
        t = seed.type
        assert isinstance(t, TileType)
        storage = self.emit(
            "tile.create", list(t.shape), dtype=t.dtype, target_memory=Space.ACC, compact=True, name=f"{seed.name}_storage"
        )
        return self.emit("tile.set_validshape", storage, *valid, name=seed.name)

    def _branch(self, s: If) -> None:
        self.loc = s.loc
        cond = self.scalar(s.cond)
        tiles = [r in self.flow.tiles for r in s.results]
        then, then_values = self._arm(s.then, s.results, tiles)
        orelse, else_values = self._arm(s.orelse, s.results, tiles) if s.orelse is not None else (None, [])
        results: list[Var] = []
        for n, (r, t) in enumerate(zip(s.results, tiles, strict=True)):
            if not t:
                results.append(r)
                continue
            assert orelse is not None
            self._meet(then, then_values, orelse, else_values, n, _logical(r))
            new = Var(r.name, agreed(type_of(then_values[n]), type_of(else_values[n])))
            self.phis[new] = (then_values[n], else_values[n])
            self.env[r] = new
            results.append(new)
        if s.results:
            then.append(Yield(tuple(then_values), s.loc))
            if orelse is not None:
                orelse.append(Yield(tuple(else_values), s.loc))
        self.out.append(If(cond, tuple(then), None if orelse is None else tuple(orelse), tuple(results), s.loc))

    def _arm(self, block: Block, results: tuple[Var, ...], tiles: list[bool]) -> tuple[list[Stmt], list[Expr]]:
        outer, self.out = self.out, []
        for s in block:
            self.statement(s)
        values: list[Expr] = []
        for e, r, t in zip(yielded(block), results, tiles, strict=True):
            if not t:
                values.append(self.memory(e))
                continue
            spaces = self.demands.spaces(r)
            space = Space.VEC if Space.VEC in spaces or spaces[0] is Space.ACC else spaces[0]
            values.append(self.tile(e, space, self.demands.box(r, space), tuple(Space) if self.computed(e) else None))
        mine, self.out = self.out, outer
        return mine, values

    def _meet(self, then: list[Stmt], tv: list[Expr], orelse: list[Stmt], ev: list[Expr], n: int, shape: tuple[Dim, ...]) -> None:
        """Bring the n-th values of two arms into one space: where one of them is in Vec or Mat, the other moves there."""
        a, b = (getattr(type_of(v[n]), "space", None) for v in (tv, ev))
        if a is b and _physical(tv[n]) == _physical(ev[n]):
            return
        space = Space.MAT if Space.MAT in (a, b) else Space.VEC
        for statements, values, at in ((then, tv, a), (orelse, ev, b)):
            value = values[n]
            if isinstance(value, Var) and (at is not space or space is Space.VEC):
                outer, self.out = self.out, statements
                values[n] = self.to_vec(value, shape) if space is Space.VEC else self.move(value, space)
                self.out = outer


def stray_use(e: Expr, v: Var) -> tuple[str, str]:
    """(problem, repair) of an expression that takes a value which has become a tile, and that nobody knows how to convert."""
    op = e.op if isinstance(e, Call) and e.op not in ("call", "getattr") else None
    near = None if op is None else nearest_operation(op)
    hint = "" if near is None else f" (did you mean {near}?)"
    return (
        f"{op or 'an expression'} takes {v.name}, which is computed on chip, and no conversion is registered for it{hint}",
        f"store {v.name} to a pl.Out parameter first, or use an operation that converts",
    )


def _logical(v: Var) -> tuple[Dim, ...]:
    """The shape of a tensor value."""
    assert isinstance(v.type, TensorType)
    return v.type.shape


def _physical(e: Expr) -> tuple[Dim, ...]:
    t = type_of(e)
    return t.shape if isinstance(t, TileType) else ()


def boxed(shape: tuple[Dim, ...], box: Box) -> tuple[Dim, ...]:
    """The shape with one axis rounded up to whole fractals; an extent that is no number stays."""
    extent = shape[box.axis]
    if not isinstance(extent, int):
        return shape
    rounded = -(-extent // box.align) * box.align
    return (rounded, shape[1]) if box.axis == 0 else (shape[0], rounded)


def _defined_in(s: For) -> frozenset[Var]:
    """Every value defined inside a loop."""
    found = {v for inner in walk(s.body) for v in defined(inner)}
    found.update(s.carried)
    if s.counter is not None:
        found.add(s.counter)
    for inner in walk(s.body):
        if isinstance(inner, For):
            found.update(inner.carried)
            if inner.counter is not None:
                found.add(inner.counter)
    return frozenset(found)


def constant(e: Expr | None) -> object:
    """The value of a literal; None for anything else."""
    return e.value if isinstance(e, Const) else None
