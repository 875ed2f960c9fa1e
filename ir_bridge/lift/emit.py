"""Writing statements: each function appends one operation to a statement list and gives back the value it defines.

Types come from the op table's type functions, so what is written carries the types that inference would give it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cost.errors import TilesatError
from ir_bridge.ir.nodes import NOWHERE, Assign, Binary, Call, Const, Expr, For, ListExpr, Loc, LoopKind, Stmt, Var, Yield
from ir_bridge.ir.ops_registry import as_expr, dtype_symbol, space_symbol
from ir_bridge.ir.ops_types import operand_type
from ir_bridge.ir.tile_types import create_type, extract_type, load_type, matmul_type, move_type, set_validshape_type
from ir_bridge.ir.types import Space, TensorType, TileType, Type

TO = {space: (("target_memory", space_symbol(space)),) for space in Space}
_COMPACT = (("compact", Const(True)),)
Bounds = tuple[Expr, Expr, Expr]


class LiftError(TilesatError):
    """A plan that does not fit the program it is lifted into."""


@dataclass(slots=True)
class Emitter:
    """A statement list under construction; every statement is given the place ``loc`` of the source statement it serves."""

    loc: Loc = NOWHERE
    out: list[Stmt] = field(default_factory=list)

    def inner(self) -> Emitter:
        """An empty list for the body of a loop or branch."""
        return Emitter(self.loc)

    def assign(self, name: str, type_: Type, call: Call, into: Var | None = None) -> Var:
        """``into = call``; without ``into`` (or where its type is another) a new value called ``name``."""
        v = into if into is not None and into.type == type_ else Var(name, type_)
        self.out.append(Assign((v,), call, self.loc))
        return v

    def extract(self, name: str, src: Var, row: Expr, col: Expr, shape: tuple[int, int], space: Space) -> Var:
        """A window of a Mat tile in Left or Right."""
        call = Call("tile.extract", (src, row, col, as_expr(shape)), TO[space])
        return self.assign(name, extract_type(tile(src), dim(row), dim(col), shape, space), call)

    def move(self, name: str, src: Var, space: Space) -> Var:
        """The same tile in another space."""
        return self.assign(name, move_type(tile(src), space), Call("tile.move", (src,), TO[space]))

    def create(self, name: str, like: TileType, space: Space) -> Var:
        """An uninitialised tile of the shape, element type and valid region of ``like``.

        A narrowed tile takes a second statement, ``set_validshape``; a row-narrowed accumulator is declared compact
        (specification 1, "行窄化的左操作数").
        """
        compact = like.view.compact is not None and space is Space.ACC
        kwargs = (("dtype", dtype_symbol(like.dtype)), *TO[space], *(_COMPACT if compact else ()))
        plain = create_type(like.shape, like.dtype, space, compact)
        valid = like.view.valid_shape
        if valid is None:
            return self.assign(name, plain, Call("tile.create", (as_expr(like.shape),), kwargs))
        storage = self.assign(f"{name}_storage", plain, Call("tile.create", (as_expr(like.shape),), kwargs))
        call = Call("tile.set_validshape", (storage, as_expr(valid[0]), as_expr(valid[1])))
        return self.assign(name, set_validshape_type(plain, valid), call)

    def load(self, name: str, tensor: Expr, offsets: tuple[Expr, ...], shape: tuple[int, ...], valid: tuple[int, ...]) -> Var:
        """A window of a tensor in Mat."""
        source = operand_type(tensor)
        assert isinstance(source, TensorType)
        call = Call("tile.load", (tensor, ListExpr(offsets), as_expr(shape), as_expr(valid)), TO[Space.MAT])
        return self.assign(name, load_type(source, shape, valid, Space.MAT), call)

    def matmul(self, name: str, left: Var, right: Var, bias: Var | None = None, into: Var | None = None) -> Var:
        """``left @ right``, plus a bias row where there is one."""
        type_ = matmul_type(tile(left), tile(right))
        if bias is None:
            return self.assign(name, type_, Call("tile.matmul", (left, right)), into)
        return self.assign(name, type_, Call("tile.matmul_bias", (left, right, bias)), into)

    def accumulate(self, name: str, acc: Var, left: Var, right: Var, cond: Expr | None = None, into: Var | None = None) -> Var:
        """``acc + left @ right``, or ``left @ right`` alone where ``cond`` holds."""
        args: tuple[Expr, ...] = (acc, left, right) if cond is None else (acc, left, right, cond)
        return self.assign(name, acc.type, Call("tile.matmul_acc", args), into)

    def loop(
        self,
        kind: LoopKind,
        counter: Var | None,
        bounds: Bounds,
        body: Emitter,
        carry: tuple[Var, Var, Var],
        result: Var,
        stage: int | None = None,
        attrs: tuple[tuple[str, Expr], ...] = (),
        options: tuple[tuple[str, Expr], ...] = (),
    ) -> Var:
        """A loop with one carried value. ``carry``: its first value, its name in the body, and what the body hands on."""
        init, carried, handed_on = carry
        statements = (*body.out, Yield((handed_on,), self.loc))
        start, stop, step = bounds
        self.out.append(
            For(
                kind, counter, start, stop, step, statements, (carried,), (init,), (result,),
                stage, attrs, options, loc=self.loc,
            )
        )  # fmt: skip
        return result


def var(e: Expr) -> Var:
    """An operand known to be a value."""
    assert isinstance(e, Var)
    return e


def call_of(s: Assign) -> Call:
    """What an assignment known to hold a call calls."""
    assert isinstance(s.value, Call)
    return s.value


def items(e: Expr) -> tuple[Expr, ...]:
    """The items of a list argument."""
    assert isinstance(e, ListExpr)
    return e.items


def extents(t: TileType) -> tuple[int, int]:
    """Rows and columns of a static tile."""
    rows, cols = t.shape
    assert isinstance(rows, int)
    assert isinstance(cols, int)
    return rows, cols


def tile(v: Var) -> TileType:
    """The type of a value known to be a tile."""
    assert isinstance(v.type, TileType)
    return v.type


def dim(e: Expr) -> int | Expr:
    """An offset as a dimension: its number where it is one."""
    return e.value if type(e) is Const and type(e.value) is int else e


def plus(base: Expr, offset: Expr) -> Expr:
    """``base + offset``, folded where it is a number or one of them is 0."""
    b, o = dim(base), dim(offset)
    if isinstance(b, int) and isinstance(o, int):
        return as_expr(b + o)
    if b == 0:
        return offset
    return base if o == 0 else Binary("+", base, offset)
