"""Conversions of matrix products: 2-D ones to ``tile.matmul``, others handed over as ``tile.batch_matmul``."""

from __future__ import annotations

from cost.dtypes import DType, accumulator
from ir_bridge.convert.demands import is_transposed
from ir_bridge.convert.emitter import Emitter
from ir_bridge.convert.ops_elementwise import tile_type
from ir_bridge.convert.registry import Input, Site, conversion
from ir_bridge.convert.spaces import operand_space
from ir_bridge.ir.nodes import Const, Expr, ListExpr, Var
from ir_bridge.ir.ops_registry import dtype_of
from ir_bridge.ir.ops_tensor_math import product_dtype
from ir_bridge.ir.types import Space, TileType

_PRODUCTS = ("tile.matmul", "tile.batch_matmul")
_ACCUMULATES = ("tile.matmul_acc",)


def _operand(b: Emitter, s: Site, index: int, keyword: str) -> Var:
    """A matmul operand, as the product reads it: where it is transposed, the whole buffer looked at the other way round."""
    tile = s.args[index]
    assert isinstance(tile, Var)
    if not is_transposed(s.call, keyword):
        return tile
    t = tile_type(tile)
    if t.space is not Space.MAT and t.space is not None:
        tile = b.move(tile, Space.MAT)
    _whole_buffer(b, tile, keyword)
    return b.emit("tile.transpose_view", tile, name=f"{tile.name}_t")


def _whole_buffer(b: Emitter, tile: Var, keyword: str) -> None:
    """A transposed operand must be a whole buffer: a window of one in Mat can't be read transposed."""
    call = b.made.get(tile)
    if call is None or call.op != "tile.slice":
        return
    parent, _, offset = call.args[:3]
    zero = isinstance(offset, ListExpr) and all(o == Const(0) for o in offset.items)
    if zero and tile_type(parent).shape == tile_type(tile).shape:
        return
    name = parent.name.removesuffix("_tile") if isinstance(parent, Var) else "a tile"
    raise b.refusal(
        f"{keyword}=True on {tile.name.removesuffix('_tile')}, a window of {name} in Mat, which the cube can't read transposed",
        "slice the global tensor and load each window on its own, or transpose it in global memory and drop the flag",
    )


def _out_dtype(s: Site) -> DType:
    operand = tile_type(s.args[0]).dtype
    given = s.call.kwarg("out_dtype")
    return product_dtype(operand, None if given is None else dtype_of("tensor.matmul", "out_dtype", given))


@conversion(
    "tensor.matmul",
    inputs=(
        Input(0, operand_space(_PRODUCTS, 0), "a_trans", "m"),
        Input(1, operand_space(_PRODUCTS, 1), "b_trans", "n"),
    ),
)
def _matmul(b: Emitter, s: Site) -> Expr:
    """The product in L0C; rounded on the vector unit where another element type is asked for."""
    left, right = _operand(b, s, 0, "a_trans"), _operand(b, s, 1, "b_trans")
    flat = len(tile_type(left).shape) == len(tile_type(right).shape) == 2
    want = _out_dtype(s)
    made = accumulator(tile_type(left).dtype)
    product = b.emit(_PRODUCTS[0] if flat else _PRODUCTS[1], left, right, name=s.name if want == made else f"{s.name}_acc")
    if want == made:
        return product
    return b.emit("tile.cast", product, target_type=want, mode="rint", name=s.name)


@conversion(
    "tensor.matmul_acc",
    inputs=(
        Input(0, operand_space(_ACCUMULATES, 0)),
        Input(1, operand_space(_ACCUMULATES, 1), "a_trans", "m"),
        Input(2, operand_space(_ACCUMULATES, 2), "b_trans"),
    ),
)
def _matmul_acc(b: Emitter, s: Site) -> Expr:
    acc = s.args[0]
    t = acc.type if isinstance(acc, Var) else None
    if not isinstance(t, TileType) or t.space is not Space.ACC:
        name = acc.name if isinstance(acc, Var) else "the accumulator"
        raise b.refusal(
            f"pl.matmul_acc adds to {name}, which is not in L0C, and nothing loads an accumulator",
            "seed it with pl.matmul or pl.create_tensor, or add the product with pl.add",
        )
    if len(t.shape) != 2:
        raise b.refusal(f"pl.matmul_acc into an accumulator of rank {len(t.shape)}", "accumulate 2-D pages")
    left, right = _operand(b, s, 1, "a_trans"), _operand(b, s, 2, "b_trans")
    return b.emit("tile.matmul_acc", acc, left, right, *s.args[3:], name=s.name)
