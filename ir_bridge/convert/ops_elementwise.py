"""Conversions of elementwise arithmetic, reductions, casts, comparison and selection."""

from __future__ import annotations

from cost.physical import ceil_div
from ir_bridge.convert.emitter import Emitter, constant
from ir_bridge.convert.placement import FIXPIPE_CAST
from ir_bridge.convert.registry import Site, conversion
from ir_bridge.ir.nodes import Expr, Var
from ir_bridge.ir.ops import OpError, type_of
from ir_bridge.ir.ops_registry import show
from ir_bridge.ir.ops_types import is_narrowed
from ir_bridge.ir.types import Dim, Space, TileType

#: Bytes of a row of the scratch tile that a row reduction folds into, and of the one a selection needs.
_REDUCE_ROW = 512
_SELECT_ROW = 32

_SCALAR_FORMS = {
    "add": "adds",
    "sub": "subs",
    "mul": "muls",
    "div": "divs",
    "maximum": "maxs",
    "minimum": "mins",
}
_EXPANDING = ("add", "sub", "mul", "div")
_COMMUTES = ("add", "mul", "maximum", "minimum")


def tile_type(v: Expr) -> TileType:
    """The type of a tile operand."""
    t = type_of(v)
    assert isinstance(t, TileType)
    return t


def static(b: Emitter, op: str, shape: tuple[Dim, ...]) -> list[int]:
    """A shape that must be numbers, because scratch memory is made of it."""
    if not all(isinstance(d, int) for d in shape):
        raise b.refusal(
            f"pl.{op.removeprefix('tensor.')} of a tensor whose size is known only at run time",
            "slice it into windows of a fixed shape, with valid_shape for the run-time part",
        )
    return [d for d in shape if isinstance(d, int)]


# -- elementwise -------------------------------------------------------------------------------------------------------


def _elementwise(name: str) -> None:
    @conversion(f"tensor.{name}")
    def rule(b: Emitter, s: Site) -> Expr:
        left, right = s.args
        if not isinstance(type_of(right), TileType):
            return b.emit(f"tile.{_SCALAR_FORMS[name]}", left, right, name=s.name)
        a, v = tile_type(left).shape, tile_type(right).shape
        if len(a) != len(v):
            raise OpError(f"tensor.{name}: operands have shapes {show(a)} and {show(v)}; reshape one so that the ranks agree")
        if a == v or not _stretches(a, v):
            return b.emit(f"tile.{name}", left, right, name=s.name)
        if _stretches_only(v, a) and name in _COMMUTES:
            left, right, a, v = right, left, v, a
        return _stretched(b, s, name, left, right)


def _stretches(a: tuple[Dim, ...], v: tuple[Dim, ...]) -> bool:
    return any(p != q and 1 in (p, q) for p, q in zip(a, v, strict=True))


def _stretches_only(big: tuple[Dim, ...], small: tuple[Dim, ...]) -> bool:
    """Does every axis that differs stretch ``small``?"""
    return all(p == q or q == 1 for p, q in zip(big, small, strict=True))


def _stretched(b: Emitter, s: Site, name: str, left: Expr, right: Expr) -> Expr:
    """``left op right`` where axes of one element stretch: by the row or column form where there is one."""
    a, v = tile_type(left).shape, tile_type(right).shape
    if len(a) != 2:
        raise b.refusal(f"pl.{name} stretches an operand of rank {len(a)}", "reshape both operands to 2-D first")
    if _stretches_only(a, v):
        if v == (1, 1):
            scalar = b.emit("tile.read", right, [0, 0], name=f"{s.name}_scalar")
            return b.emit(f"tile.{_SCALAR_FORMS[name]}", left, scalar, name=s.name)
        axis = "row" if v[1] == 1 and a[1] != 1 else "col"
        if name in _EXPANDING:
            return b.emit(f"tile.{axis}_expand_{name}", left, right, name=s.name)
        return b.emit(f"tile.{name}", left, b.emit(f"tile.{axis}_expand", left, right, name=f"{s.name}_wide"), name=s.name)
    shape = tuple([q if p == 1 else p for p, q in zip(a, v, strict=True)])
    return b.emit(f"tile.{name}", widened(b, s, left, shape), widened(b, s, right, shape), name=s.name)


def widened(b: Emitter, s: Site, tile: Expr, shape: tuple[Dim, ...]) -> Expr:
    """The tile stretched to ``shape``: its one row downward, its one column along the rows, or its one element everywhere."""
    t = tile_type(tile)
    if t.shape == shape:
        return tile
    sizes = static(b, s.call.op, shape)
    if t.shape == (1, 1):
        scalar = b.emit("tile.read", tile, [0, 0], name=f"{s.name}_scalar")
        zeros = b.emit("tile.full", sizes, dtype=t.dtype, value=zero(t), name=f"{s.name}_zero")
        return b.emit("tile.adds", zeros, scalar, name=f"{s.name}_wide")
    template = b.emit("tile.full", sizes, dtype=t.dtype, value=zero(t), name=f"{s.name}_like")
    axis = "row" if t.shape[1] == 1 else "col"
    return b.emit(f"tile.{axis}_expand", template, tile, name=f"{s.name}_wide")


def zero(t: TileType) -> object:
    """The literal 0 of a tile's element type."""
    return 0.0 if t.dtype.is_float else 0


def one(t: TileType) -> object:
    """The literal 1 of a tile's element type."""
    return 1.0 if t.dtype.is_float else 1


for _name in _SCALAR_FORMS:
    _elementwise(_name)


def _same_operation(name: str) -> None:
    """A tensor operation that is the tile operation of the same name."""

    @conversion(f"tensor.{name}")
    def rule(b: Emitter, s: Site) -> Expr:
        return b.emit(f"tile.{name}", *s.args, name=s.name)


for _name in (
    *_SCALAR_FORMS.values(),
    *("neg", "abs", "exp", "log", "sqrt", "rsqrt", "recip", "relu", "not"),
    *("col_max", "col_min"),
    *(f"{axis}_expand{form}" for axis in ("row", "col") for form in ("", *(f"_{n}" for n in _EXPANDING))),
):
    _same_operation(_name)


# -- reductions --------------------------------------------------------------------------------------------------------


def _row_reduction(name: str) -> None:
    @conversion(f"tensor.{name}")
    def rule(b: Emitter, s: Site) -> Expr:
        t = tile_type(s.args[0])
        *rows, cols = static(b, s.call.op, t.shape)
        scratch = b.emit(
            "tile.create",
            [*rows, max(cols, _REDUCE_ROW // t.dtype.bytes)],
            dtype=t.dtype,
            target_memory=Space.VEC,
            name="tmp_tile",
        )
        return b.emit(f"tile.{name}", s.args[0], scratch, name=s.name)


for _name in ("row_max", "row_min", "row_sum"):
    _row_reduction(_name)


@conversion("tensor.col_sum")
def _col_sum(b: Emitter, s: Site) -> Expr:
    """In order by default; ``is_binary`` folds pairs of rows into a scratch tile of half the rows."""
    if not constant(s.call.kwarg("is_binary")):
        return b.emit("tile.col_sum", s.args[0], name=s.name)
    t = tile_type(s.args[0])
    shape = list(static(b, s.call.op, t.shape))
    if len(shape) == 2:
        shape[0] = ceil_div(shape[0], 2)
    scratch = b.emit("tile.create", shape, dtype=t.dtype, target_memory=Space.VEC, name="tmp_tile")
    return b.emit("tile.col_sum", s.args[0], scratch, name=s.name)


# -- casts, transposes -------------------------------------------------------------------------------------------------


@conversion("tensor.cast")
def _cast(b: Emitter, s: Site) -> Expr:
    """On the vector unit; where it is placed so, a product is cast by FIXPIPE into Mat as well, for the cube's consumers."""
    kwargs = dict(s.call.kwargs)
    cast = b.emit("tile.cast", s.args[0], target_type=kwargs["target_type"], mode=kwargs["mode"], name=s.name)
    if s.target is not None and b.placed.get(s.target) == FIXPIPE_CAST and tile_type(s.args[0]).space is Space.ACC:
        t = tile_type(cast)
        storage = b.emit("tile.create", list(t.shape), dtype=t.dtype, target_memory=Space.MAT, name=f"{s.name}_mat")
        b.copies[s.target, Space.VEC] = cast
        b.copies[s.target, Space.MAT] = b.emit("tile.assemble", storage, s.args[0], [0, 0], name=f"{s.name}_mat")
    return cast


@conversion("tensor.transpose")
def _transpose(b: Emitter, s: Site) -> Expr:
    """Three arguments, at any rank: the scratch tile the instruction wants is no operand; it and the pages come later."""
    return b.emit("tile.transpose", *s.args, name=s.name)


# -- comparison and selection ------------------------------------------------------------------------------------------


def select_scratch(b: Emitter, name: str) -> Var:
    """The scratch row ``tile.sel`` needs."""
    return b.emit("tile.create", [1, _SELECT_ROW], dtype=_uint8(), target_memory=Space.VEC, name=name)


def _uint8() -> object:
    from cost.dtypes import DTYPES

    return DTYPES["uint8"]


@conversion("tensor.cmp")
def _cmp(b: Emitter, s: Site) -> Expr:
    """A packed predicate, then a choice between ones and zeros that are valid where the left operand is."""
    left, right = s.args
    kind = s.call.kwarg("cmp_type")
    t = tile_type(left)
    if isinstance(type_of(right), TileType):
        v = tile_type(right).shape
        shape = tuple([q if p == 1 else p for p, q in zip(t.shape, v, strict=True)])
        if shape != t.shape:
            left = widened(b, s, left, shape)
        if shape != v:
            right = widened(b, s, right, shape)
        pred = b.emit("tile.cmp", left, right, cmp_type=kind, name=f"{s.name}_pred")
    else:
        pred = b.emit("tile.cmps", left, right, cmp_type=kind, name=f"{s.name}_pred")
    t = tile_type(left)
    ones = _filled(b, t, one(t), f"{s.name}_ones", s)
    zeros = _filled(b, t, zero(t), f"{s.name}_zeros", s)
    return b.emit("tile.sel", pred, ones, zeros, select_scratch(b, f"{s.name}_tmp"), name=s.name)


def _filled(b: Emitter, t: TileType, value: object, name: str, s: Site) -> Var:
    """A tile full of ``value``, valid where a tile of type ``t`` is."""
    full = b.emit("tile.full", static(b, s.call.op, t.shape), dtype=t.dtype, value=value, name=name)
    if is_narrowed(t) and len(t.shape) == 2:
        return b.emit("tile.set_validshape", full, *t.valid, name=f"{name}_valid")
    return full


@conversion("tensor.sel")
def _sel(b: Emitter, s: Site) -> Expr:
    """A numeric mask becomes a predicate (not zero), then selects."""
    mask, left, right = s.args
    if not isinstance(type_of(right), TileType):
        t = tile_type(left)
        right = b.emit("tile.adds", _filled(b, t, zero(t), f"{s.name}_zeros", s), right, name=f"{s.name}_other")
    pred = b.emit("tile.cmps", mask, zero(tile_type(mask)), cmp_type=1, name=f"{s.name}_pred")
    return b.emit("tile.sel", pred, left, right, select_scratch(b, f"{s.name}_tmp"), name=s.name)
