"""Tile operations that conversion emits for gathers, batched products, vector splits, reinterpreted bytes (specification 2)."""

from __future__ import annotations

from cost.dtypes import accumulator
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
    register,
    show,
    tensor_of,
    tile_of,
)
from ir_bridge.ir.ops_tensor_math import broadcast, check_gather_row, split_shape
from ir_bridge.ir.ops_types import operand_type, same_dim, valid_or_none
from ir_bridge.ir.types import Dim, Space, TileType, Type, View

#: As for all Vector operands: a product that still stands in Acc crosses over later.
_VEC = (Space.VEC, Space.ACC)
_LEFT = (Space.LEFT, Space.MAT, Space.VEC, Space.ACC)
_RIGHT = (Space.RIGHT, Space.MAT, Space.ACC)


def _tile(op: str, name: str, e: Expr) -> TileType:
    return tile_of(op, name, operand_type(e))


def _batch_matmul(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tile.batch_matmul"
    a, b = _tile(op, "the left operand", args[0]), _tile(op, "the right operand", args[1])
    if a.dtype != b.dtype:
        raise OpError(f"{op}: operands have different element types, {a.dtype.name} and {b.dtype.name}")
    if min(len(a.shape), len(b.shape)) < 2 or not same_dim(a.shape[-1], b.shape[-2]):
        raise OpError(f"{op}: operands disagree on K: {show(a.shape)} and {show(b.shape)}")
    rank = max(len(a.shape), len(b.shape))
    ones: tuple[Dim, ...] = (1,)
    lead = broadcast(op, ones * (rank - len(a.shape)) + a.shape[:-2], ones * (rank - len(b.shape)) + b.shape[:-2])
    shape = (*lead, a.shape[-2], b.shape[-1])
    valid = (*lead, a.valid[-2], b.valid[-1])
    return (TileType(shape, accumulator(a.dtype), Space.ACC, View(valid_or_none(shape, valid))),)


def _mgather(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tensor_of("tile.mgather", "the source", operand_type(args[0]))
    index = _tile("tile.mgather", "the index", args[1])
    return (TileType(index.shape, src.dtype, Space.VEC, View(index.view.valid_shape)),)


def _gather(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src, index = _tile("tile.gather", "the source", args[0]), _tile("tile.gather", "the index", args[1])
    if index.dtype.kind == "float":
        raise OpError(f"tile.gather: the index must hold integers, not {index.dtype.name}")
    return (TileType(index.shape, src.dtype, Space.VEC, View(index.view.valid_shape)),)


def _reinterpret_view(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tile.reinterpret_view"
    src, shape, dtype = _tile(op, "the source", args[0]), dims(op, "shape", args[1]), dtype_of(op, "dtype", kw["dtype"])
    result = TileType(shape, dtype, src.space)
    if src.static and result.static and src.elements() * src.dtype.bits != result.elements() * dtype.bits:
        raise OpError(f"{op}: {show(src.shape)} of {src.dtype.name} and {show(shape)} of {dtype.name} differ in bytes")
    return (result,)


def _gather_row(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tile.gather_row"
    acc, src = _tile(op, "the accumulator", args[0]), tensor_of(op, "the source", operand_type(args[1]))
    if acc.dtype != src.dtype:
        raise OpError(f"{op}: the accumulator holds {acc.dtype.name}, the source {src.dtype.name}")
    check_gather_row(op, args, kw)
    return (acc,)


def _split(op: str, factor: tuple[int, int], space: Space) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        src = _tile(op, "the operand", args[0])
        return (TileType(split_shape(op, src.shape, kw, factor), src.dtype, space),)

    return rule


def _register(
    name: str,
    args: tuple[Arg, ...],
    rule: TypeRule,
    kind: str,
    keywords: tuple[Arg, ...] = (),
    effects: Effects | None = None,
    *,
    short: bool = False,
) -> None:
    """``short``: does ``pl.<name>`` on a tile mean this operation?"""
    register(OpDef(f"tile.{name}", args, rule, kind, keywords, name if short else None, effects or Effects()))


_register("batch_matmul", (Arg("lhs", spaces=_LEFT), Arg("rhs", spaces=_RIGHT)), _batch_matmul, "cube", short=True)
_register(
    "mgather",
    (Arg("src"), Arg("index", spaces=_VEC)),
    _mgather,
    "transfer",
    (Arg("coalesce", "literal", "elem", explicit=True),),
    Effects(reads=(0,)),
)
_register(
    "gather",
    (Arg("src", spaces=_VEC), Arg("index", spaces=_VEC, aliases=("indices",)), Arg("tmp", spaces=_VEC, default=None)),
    _gather,
    "vector",
    short=True,
)
_register(
    "gather_row",
    (
        Arg("acc"),
        Arg("src"),
        Arg("dst_offset", "list"),
        Arg("src_offset", "list"),
        Arg("shapes", "list", aliases=("shape",)),
        Arg("valid_shape", "list", None),
    ),
    _gather_row,
    "transfer",
    (Arg("transpose", "literal", False),),
    Effects(reads=(1,), in_place=0),
    short=True,
)
_register(
    "aiv_shard",
    (Arg("tile", spaces=(Space.ACC,)),),
    _split("tile.aiv_shard", (1, 2), Space.VEC),
    "transfer",
    (Arg("split", "literal"),),
    short=True,
)
_register(
    "aic_gather",
    (Arg("tile", spaces=_VEC),),
    _split("tile.aic_gather", (2, 1), Space.MAT),
    "transfer",
    (Arg("split", "literal"),),
    short=True,
)
_register(
    "reinterpret_view",
    (Arg("tile"), Arg("shape", "list")),
    _reinterpret_view,
    "view",
    (Arg("dtype", "dtype"),),
    Effects(view=0),
    short=True,
)
