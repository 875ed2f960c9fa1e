"""What an op conversion works with: it emits tile statements, and brings operands to them in the space and size they are read in.

Loads come into being where an operand is brought to its consumer: once at the function's entry for parameters that are never
written, else at the statement, so that no load crosses a write, a branch or a loop iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from ir_bridge.convert.demands import Box, Demands, box_of, boxed
from ir_bridge.convert.errors import ConvertError, refuse
from ir_bridge.convert.flow import Flow
from ir_bridge.convert.registry import Conversion, Input, Site, conversion_of
from ir_bridge.ir.misspelt import nearest_operation
from ir_bridge.ir.nodes import NOWHERE, Assign, Binary, Call, Const, Expr, Function, ListExpr, Loc, Stmt, Unary, Var, walk
from ir_bridge.ir.ops import OpError, lookup, make, result_types
from ir_bridge.ir.ops_tensor import valid_of
from ir_bridge.ir.types import Dim, OtherType, Space, TensorType, TileType

#: Spaces a Vec consumer reads from as conversion leaves it; a product crosses over when spaces are inferred.
_VECTOR = (Space.VEC, Space.ACC)


class Emitter:
    """The statements of one function being converted, and what its tensor values have become so far.

    ``out``: the block being written. ``env``: the tile a tensor value has become; ``copies``: further ones, by space. ``entry``:
    loads at the function's entry. ``made``: the call that made a tile. ``phis``: the values of both arms behind a result.
    ``cut``: tiles in their logical size, and the block they were cut in. ``loc``: the statement being converted.
    """

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

    @contextmanager
    def into(self, statements: list[Stmt]) -> Iterator[list[Stmt]]:
        """Write to ``statements`` for a while."""
        outer, self.out = self.out, statements
        try:
            yield statements
        finally:
            self.out = outer

    def emit(self, op: str, *args: object, name: str, **kwargs: object) -> Var:
        """Append ``name = op(args)`` and return the value; its type is what the op table infers."""
        call = make(op, *args, **kwargs)
        try:
            (t,) = result_types(call.op, call.args, call.kwargs)
        except OpError as error:
            raise refuse(self.function.name, str(error), f"{name} can't be made", self.loc) from error
        return self.assign(Var(name, t), call)

    def assign(self, v: Var, call: Call) -> Var:
        """Append ``v = call``, whose type the caller has given ``v``."""
        self.made[v] = call
        self.out.append(Assign((v,), call, self.loc))
        return v

    def effect(self, op: str, *args: object, **kwargs: object) -> None:
        """Append a call for its effect."""
        self.out.append(Assign((), make(op, *args, **kwargs), self.loc))

    def refusal(self, what: str, repair: str) -> ConvertError:
        """The error of the statement being converted; callers raise it."""
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
        """The tile in another space, as a move made here."""
        return self.emit("tile.move", tile, target_memory=space, name=f"{tile.name}_{space.value.lower()}")

    def _from_memory(self, e: Var, space: Space, box: Box | None, share: bool) -> Var:
        if not isinstance(e.type, TensorType):
            raise self.refusal(f"{e.name} has no tensor type", "annotate it with pl.Tensor[[...], pl.DTYPE]")
        if share and e in self.shared:
            return self._at_entry(e, space)
        shape = e.type.shape
        return self.load(e, [0] * len(shape), shape, valid_of(e.type), space, box, f"{e.name}_{space.value.lower()}")

    def _at_entry(self, e: Var, space: Space) -> Var:
        if (e, space) not in self.entry:
            assert isinstance(e.type, TensorType)
            shape = e.type.shape
            box = self.demands.box(e, space)
            name = f"{e.name}_tile" if space is Space.VEC else f"{e.name}_{space.value.lower()}"
            with self.into([]) as loads:
                self.load(e, [0] * len(shape), shape, valid_of(e.type), space, box, name)
            (load,) = loads
            assert isinstance(load, Assign)
            self.entry[e, space] = load
        return self.entry[e, space].target

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

    def operand(self, e: Expr, index: int, s: Assign, call: Call, c: Conversion) -> Expr:
        """Operand ``index`` of the call as its conversion registered that it takes it: memory, a tile, or a scalar."""
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

    def narrowed(self, seed: Var, valid: tuple[Dim, ...]) -> Var:
        """A compact seed with a narrower valid region, in place of ``seed``."""
        t = seed.type
        assert isinstance(t, TileType)
        storage = self.emit(
            "tile.create", list(t.shape), dtype=t.dtype, target_memory=Space.ACC, compact=True, name=f"{seed.name}_storage"
        )
        return self.emit("tile.set_validshape", storage, *valid, name=seed.name)


def constant(e: Expr | None) -> object:
    """The value of a literal; None for anything else."""
    return e.value if isinstance(e, Const) else None
