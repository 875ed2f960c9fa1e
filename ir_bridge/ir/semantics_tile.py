"""What the tile operations of ``ops_tile`` compute.

Only the valid corner of a tile holds data: transfers move it, products read it, stores write it; everything else is garbage.
Products of floating operands are summed in float32 (numpy's order: exact while every partial sum is a whole number below 2**24),
products of integers in int32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cost.dtypes import accumulator
from ir_bridge.ir.semantics import meaning
from ir_bridge.ir.semantics_cast import cast
from ir_bridge.ir.semantics_tensor import dtype_of_array
from ir_bridge.ir.semantics_values import (
    Array,
    SemanticsError,
    Tile,
    tile_from,
    unwritten,
    window,
    written_as,
)

Args = Sequence[Any]
Kw = Mapping[str, Any]


@meaning("tile.load")
def load(args: Args, kw: Kw) -> Tile:
    """Copy the valid window of a tensor into a new tile of the physical shape."""
    tensor, offsets, shape, valid = args
    lead = tensor.ndim - len(shape)
    if lead > 0:
        values = tensor[window("tile.load", tensor.shape, offsets, (*([1] * lead), *valid))].reshape(valid)
    else:
        values = tensor[window("tile.load", tensor.shape, offsets, valid)]
    return tile_from(values.copy(), dtype_of_array(tensor), shape)


@meaning("tile.create")
def create(args: Args, kw: Kw) -> Tile:
    return Tile(unwritten(args[0], kw["dtype"]), args[0], kw["dtype"])


@meaning("tile.extract")
def extract(args: Args, kw: Kw) -> Tile:
    """Copy a window; its valid corner is what lies in the source's."""
    src, row, col, shape = args
    data = src.data[window("tile.extract", src.data.shape, (row, col), shape)]
    valid = tuple([max(0, min(s, v - o)) for s, v, o in zip(shape, src.valid, (row, col), strict=True)])
    return Tile(data.copy(), valid, src.dtype)


@meaning("tile.move")
def move(args: Args, kw: Kw) -> Tile:
    src = args[0]
    return Tile(src.data.copy(), src.valid, src.dtype)


# -- products ----------------------------------------------------------------------------------------------------------------


def product(left: Tile, right: Tile) -> Array:
    """The product of the valid corners, as the cube computes it: M and K are the left operand's, N the right one's."""
    m, k = left.valid
    n = right.valid[1]
    a, b = left.data[:m, :k], right.data[:k, :n]
    if left.dtype.is_float:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(a.astype(np.float32) @ b.astype(np.float32))
    # float64 carries integer sums exactly up to 2**53; the accumulator then wraps as an int32 does
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(np.int32)


@meaning("tile.matmul")
def matmul(args: Args, kw: Kw) -> Tile:
    left, right = args
    return tile_from(product(left, right), accumulator(left.dtype), (left.data.shape[0], right.data.shape[1]))


@meaning("tile.matmul_acc")
def matmul_acc(args: Args, kw: Kw) -> Tile:
    """Add the product to the accumulator where it reaches; with ``init_cond`` true, overwrite instead."""
    acc, left, right = args[:3]
    value = product(left, right)
    data = acc.data.copy()
    m, n = value.shape
    if len(args) > 3 and bool(args[3]):
        data[:m, :n] = value
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            data[:m, :n] += value
    return Tile(data, acc.valid, acc.dtype)


@meaning("tile.matmul_bias")
def matmul_bias(args: Args, kw: Kw) -> Tile:
    """The product plus the bias row, which every row gets."""
    left, right, bias = args
    value = product(left, right)
    dtype = accumulator(left.dtype)
    row = bias.data[:1, : value.shape[1]]
    if bias.dtype.is_float != dtype.is_float:
        raise SemanticsError(f"tile.matmul_bias: a bias of {bias.dtype.name} does not go into an accumulator of {dtype.name}")
    value = value + row.astype(value.dtype)
    return tile_from(value, dtype, (left.data.shape[0], right.data.shape[1]))


# -- casts, assembling, storing ------------------------------------------------------------------------------------------------


@meaning("tile.cast")
def cast_tile(args: Args, kw: Kw) -> Tile:
    src = args[0]
    return tile_from(cast(src.region, src.dtype, kw["target_type"], kw["mode"]), kw["target_type"], src.data.shape)


@meaning("tile.assemble")
def assemble(args: Args, kw: Kw) -> Tile:
    """The destination with the source's valid corner written at the offset."""
    dst, src, offset = args
    where = window("tile.assemble", dst.data.shape, offset, src.valid)
    data = dst.data.copy()
    data[where] = written_as("tile.assemble", src.region, src.dtype, dst.dtype)
    return Tile(data, dst.valid, dst.dtype)


@meaning("tile.store")
def store(args: Args, kw: Kw) -> Array:
    """Write the tile's valid corner into the tensor at the offset; the result is the tensor itself."""
    tile, offsets, tensor = args[:3]
    target = dtype_of_array(tensor)
    values = written_as("tile.store", tile.region, tile.dtype, target)
    size: tuple[int, ...] = values.shape
    if len(args) > 3:
        size = tuple(args[3])
        if len(size) == values.ndim:
            size = tuple([min(s, v) for s, v in zip(size, values.shape, strict=True)])
            values = values[tuple([slice(0, s) for s in size])]
        elif int(np.prod(size)) != values.size:
            raise SemanticsError(f"tile.store: {list(size)} does not hold the tile's {list(values.shape)} valid elements")
    elif len(size) < tensor.ndim:
        size = (*([1] * (tensor.ndim - len(size))), *size)
    where = window("tile.store", tensor.shape, offsets, size)
    values = values.reshape(size)
    if _is_atomic_add(kw.get("atomic")):
        wide = np.float32 if target.is_float else tensor.dtype
        values = (tensor[where].astype(wide) + values.astype(wide)).astype(tensor.dtype)
    tensor[where] = values
    return np.asarray(tensor)


def _is_atomic_add(atomic: Any) -> bool:
    """``atomic=pl.AtomicType.Add`` in its spellings; any other atomic operation has no reference meaning."""
    if atomic is None or atomic is False:
        return False
    last = str(getattr(atomic, "text", atomic)).rsplit(".", 1)[-1].lower()
    if last in ("none", "0"):
        return False
    if last in ("add", "1", "true"):
        return True
    raise SemanticsError(f"tile.store: atomic={last} has no reference semantics; known: none, add")


# -- views: the same memory, looked at differently ----------------------------------------------------------------------


@meaning("tile.set_validshape")
def set_validshape(args: Args, kw: Kw) -> Tile:
    tile, rows, cols = args
    window("tile.set_validshape", tile.data.shape, (0, 0), (rows, cols))
    return Tile(tile.data, (rows, cols), tile.dtype)


@meaning("tile.transpose_view")
def transpose_view(args: Args, kw: Kw) -> Tile:
    tile = args[0]
    return Tile(tile.data.swapaxes(-1, -2), (*tile.valid[:-2], tile.valid[-1], tile.valid[-2]), tile.dtype)


@meaning("tile.slice")
def slice_tile(args: Args, kw: Kw) -> Tile:
    """A window in place; only its valid part must lie inside the source."""
    tile, shape, offset = args[:3]
    inside = tuple([max(0, min(s, v - o)) for s, v, o in zip(shape, tile.valid, offset, strict=True)])
    valid = tuple(args[3]) if len(args) > 3 else inside
    if all(o + s <= p for o, s, p in zip(offset, shape, tile.data.shape, strict=True)):
        return Tile(tile.data[window("tile.slice", tile.data.shape, offset, shape)], valid, tile.dtype)
    return tile_from(tile.data[window("tile.slice", tile.data.shape, offset, valid)].copy(), tile.dtype, shape)


@meaning("tile.reshape")
def reshape(args: Args, kw: Kw) -> Tile:
    tile, shape = args
    if int(np.prod(shape)) != tile.data.size:
        raise SemanticsError(f"tile.reshape: {list(tile.data.shape)} and {list(shape)} hold different numbers of elements")
    return Tile(tile.data.reshape(shape), tuple(shape), tile.dtype)
