"""Vector operations on tiles: elementwise arithmetic, reductions, broadcasts, fills, comparison and selection.

A result lies in Vec, in the shape and valid region of the operand it is made from.
"""

from __future__ import annotations

from cost.dtypes import DTYPES, DType
from ir_bridge.ir.nodes import Expr
from ir_bridge.ir.ops_registry import (
    Arg,
    Effects,
    Kwargs,
    OpDef,
    OpError,
    TypeRule,
    dims,
    dtype_of,
    number,
    register,
    show,
    tile_of,
)
from ir_bridge.ir.ops_types import operand_type, same_dim, scalar, valid_or_none
from ir_bridge.ir.types import Dim, Space, TileType, Type, View

#: Vector operands end in Vec; a product that still stands in Acc crosses over when spaces are inferred, after tiling.
_VEC = (Space.VEC, Space.ACC)
_UINT8 = DTYPES["uint8"]


def vector_result(src: TileType, shape: tuple[Dim, ...], valid: tuple[Dim, ...], dtype: DType | None = None) -> TileType:
    """A Vec tile of ``shape`` made from ``src``; an operation that keeps the shape keeps the layout too."""
    layout = src.view if shape == src.shape and src.space is Space.VEC else View()
    view = View(valid_or_none(shape, valid), blayout=layout.blayout, slayout=layout.slayout, pad=layout.pad)
    return TileType(shape, dtype or src.dtype, Space.VEC, view)


def _tile(op: str, name: str, e: Expr) -> TileType:
    return tile_of(op, name, operand_type(e))


def _same_type(op: str, a: TileType, b: TileType) -> None:
    if a.dtype != b.dtype:
        raise OpError(f"{op}: operands have different element types, {a.dtype.name} and {b.dtype.name}")


def _broadcast(op: str, a: TileType, b: TileType) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """(shape, valid) of an elementwise result; an axis of one element stretches."""
    if len(a.shape) != len(b.shape):
        raise OpError(f"{op}: operands have shapes {show(a.shape)} and {show(b.shape)}")
    shape: list[Dim] = []
    valid: list[Dim] = []
    for p, q, v, w in zip(a.shape, b.shape, a.valid, b.valid, strict=True):
        if not same_dim(p, q) and 1 not in (p, q):
            raise OpError(f"{op}: operands have shapes {show(a.shape)} and {show(b.shape)}")
        stretched = p == 1 and q != 1
        shape.append(q if stretched else p)
        valid.append(w if stretched else v)
    return tuple(shape), tuple(valid)


# -- rules ---------------------------------------------------------------------------------------------------------------------


def _elementwise(op: str) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        a, b = _tile(op, "the first operand", args[0]), _tile(op, "the second operand", args[1])
        _same_type(op, a, b)
        return (vector_result(a, *_broadcast(op, a, b)),)

    return rule


def _unary(op: str) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        a = _tile(op, "the operand", args[0])
        return (vector_result(a, a.shape, a.valid),)

    return rule


def _reduce(op: str, axis: int) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        a = _tile(op, "the operand", args[0])
        if len(a.shape) < 2:
            raise OpError(f"{op}: the operand must have two dimensions, not {show(a.shape)}")
        shape, valid = list(a.shape), list(a.valid)
        shape[axis] = valid[axis] = 1
        return (vector_result(a, tuple(shape), tuple(valid)),)

    return rule


def _expand(op: str, axis: int) -> TypeRule:
    """``tile op vector``: the vector has one element along ``axis``, which is stretched."""

    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        a, v = _tile(op, "the tile", args[0]), _tile(op, "the vector", args[1])
        _same_type(op, a, v)
        fits = len(v.shape) == len(a.shape) and all(
            d == 1 if i == axis % len(a.shape) else same_dim(d, p) for i, (d, p) in enumerate(zip(v.shape, a.shape, strict=True))
        )
        if not fits:
            raise OpError(f"{op}: a vector {show(v.shape)} does not stretch over a tile {show(a.shape)}")
        return (vector_result(a, a.shape, a.valid),)

    return rule


def _full(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    return (TileType(dims("tile.full", "shape", args[0]), dtype_of("tile.full", "dtype", kw["dtype"]), Space.VEC),)


def _ci(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    return (TileType(dims("tile.ci", "shape", args[1]), dtype_of("tile.ci", "dtype", kw["dtype"]), Space.VEC),)


def predicate_type(a: TileType) -> TileType:
    """The packed predicate of a comparison: one bit an element, in bytes along each row."""
    cols = a.valid[-1]
    packed: Dim = (cols + 7) // 8 if isinstance(cols, int) else a.shape[-1]
    return TileType(a.shape, _UINT8, Space.VEC, View(valid_or_none(a.shape, (*a.valid[:-1], packed))))


def _cmp(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    a, b = _tile("tile.cmp", "the first operand", args[0]), _tile("tile.cmp", "the second operand", args[1])
    _same_type("tile.cmp", a, b)
    _broadcast("tile.cmp", a, b)
    return (predicate_type(a),)


def _cmps(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    return (predicate_type(_tile("tile.cmps", "the operand", args[0])),)


def _sel(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    _tile("tile.sel", "the predicate", args[0])
    a, b = _tile("tile.sel", "the first choice", args[1]), _tile("tile.sel", "the second choice", args[2])
    _same_type("tile.sel", a, b)
    return (vector_result(a, *_broadcast("tile.sel", a, b)),)


def _scatter(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    dst, src = _tile("tile.scatter", "the destination", args[0]), _tile("tile.scatter", "the source", args[1])
    _same_type("tile.scatter", dst, src)
    return (dst,)


def _transpose(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tile.transpose"
    a = _tile(op, "the operand", args[0])
    rank = len(a.shape)
    one, two = (number(op, name, e) for name, e in zip(("axis1", "axis2"), args[1:3], strict=True))
    if not (-rank <= one < rank and -rank <= two < rank) or one % rank == two % rank:
        raise OpError(f"{op}: axes {one} and {two} of a tile of rank {rank}, {show(a.shape)}")
    return (vector_result(a, swapped(a.shape, one, two), swapped(a.valid, one, two)),)


def swapped(shape: tuple[Dim, ...], one: int, two: int) -> tuple[Dim, ...]:
    """The shape with two of its axes in each other's place."""
    dims = list(shape)
    dims[one], dims[two] = dims[two], dims[one]
    return tuple(dims)


def _fillpad(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    a = _tile("tile.fillpad", "the operand", args[0])
    return (vector_result(a, a.shape, a.shape),)


def _read(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    return (scalar(_tile("tile.read", "the tile", args[0]).dtype),)


def _write(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    _tile("tile.write", "the tile", args[0])
    return ()


# -- the table ------------------------------------------------------------------------------------------


def _vec(
    name: str, *args: Arg, rule: TypeRule, keywords: tuple[Arg, ...] = (), short: bool = True, effects: Effects | None = None
) -> None:
    """Register ``tile.<name>``, a Vector operation."""
    register(
        OpDef(
            f"tile.{name}",
            args,
            rule,
            "vector",
            keywords,
            short=name if short else None,
            effects=effects or Effects(),
        )
    )


_A, _B, _S = Arg("lhs", spaces=_VEC), Arg("rhs", spaces=_VEC), Arg("rhs", aliases=("scalar", "value"))
_X = Arg("tile", spaces=_VEC, aliases=("src", "input"))
_TMP = Arg("tmp", spaces=_VEC, default=None, aliases=("tmp_tile", "tmp_buf"))

for _name in ("add", "sub", "mul", "div", "maximum", "minimum"):
    _vec(_name, _A, _B, rule=_elementwise(f"tile.{_name}"))
for _name in ("adds", "subs", "muls", "divs", "maxs", "mins"):
    _vec(_name, _A, _S, rule=_unary(f"tile.{_name}"))
for _name in ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "recip", "relu", "not"):
    _vec(_name, _X, rule=_unary(f"tile.{_name}"))
for _name in ("row_max", "row_min", "row_sum"):
    _vec(_name, _X, _TMP, rule=_reduce(f"tile.{_name}", -1))
for _name in ("col_max", "col_min", "col_sum"):
    _vec(_name, _X, _TMP, rule=_reduce(f"tile.{_name}", -2))
for _name in ("", "_add", "_sub", "_mul", "_div"):
    _vec(f"row_expand{_name}", _X, Arg("vector", spaces=_VEC), rule=_expand(f"tile.row_expand{_name}", -1))
    _vec(f"col_expand{_name}", _X, Arg("vector", spaces=_VEC), rule=_expand(f"tile.col_expand{_name}", -2))

_SHAPE = Arg("shape", "list", aliases=("shapes",))
_vec("full", _SHAPE, rule=_full, keywords=(Arg("dtype", "dtype"), Arg("value", "value")), short=False)
_vec(
    "ci",
    Arg("start"),
    _SHAPE,
    rule=_ci,
    keywords=(Arg("dtype", "dtype"), Arg("descending", "literal", False, explicit=True)),
    short=False,
)
_CMP_TYPE = (Arg("cmp_type", "literal", 0, explicit=True),)
_vec("cmp", _A, _B, rule=_cmp, keywords=_CMP_TYPE)
_vec("cmps", _A, _S, rule=_cmps, keywords=_CMP_TYPE)
_vec("sel", Arg("mask", spaces=_VEC), _A, _B, _TMP, rule=_sel)
_vec(
    "scatter",
    Arg("dst", spaces=_VEC),
    Arg("src", spaces=_VEC),
    Arg("indexes", spaces=_VEC),
    rule=_scatter,
    effects=Effects(in_place=0),
)
_vec("transpose", _X, Arg("axis1"), Arg("axis2"), rule=_transpose)
_vec("fillpad", _X, rule=_fillpad, keywords=(Arg("pad_value", "literal", None),))

register(OpDef("tile.read", (Arg("tile"), Arg("indices", "list")), _read, "scalar", short="read", effects=Effects(reads=(0,))))
register(
    OpDef(
        "tile.write",
        (Arg("tile"), Arg("indices", "list"), Arg("value")),
        _write,
        "scalar",
        short="write",
        effects=Effects(writes=(0,)),
    )
)
