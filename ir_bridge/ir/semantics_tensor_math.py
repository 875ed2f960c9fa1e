"""What operations on whole tensors compute, and the tile operations that only conversion emits.

A tensor that was computed is a :class:`Tile` (it has a valid corner, and no address); one in global memory is a numpy array, read
at the moment it is used. Arithmetic is that of the tile operation of the same name, so a tensor program and the tile program made
from it agree to the last bit wherever the tile program does the same sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cost.dtypes import DType, accumulator
from ir_bridge.ir.ops_tensor_math import product_dtype
from ir_bridge.ir.semantics import Meaning, define, meaning
from ir_bridge.ir.semantics_cast import cast
from ir_bridge.ir.semantics_tensor import dtype_of_array
from ir_bridge.ir.semantics_tile import assemble as assemble_tile
from ir_bridge.ir.semantics_tile import product, slice_tile, store
from ir_bridge.ir.semantics_values import Array, SemanticsError, Tile, garbage, numpy_dtype, tile_from, unwritten, window
from ir_bridge.ir.semantics_vector import comparison

Args = Sequence[Any]
Kw = Mapping[str, Any]


def as_tile(value: Any) -> Tile:
    """A tensor value as a tile: itself when it was computed, else what global memory holds now."""
    if isinstance(value, Tile):
        return value
    array: Array = value
    return Tile(array.copy(), array.shape, dtype_of_array(array))


def narrowed(value: Any, valid: tuple[int, ...]) -> Any:
    """A tensor in memory of which only a part holds data, as an operand."""
    return Tile(value.copy(), valid, dtype_of_array(value)) if isinstance(value, np.ndarray) else value


def as_array(value: Any) -> Any:
    """A tensor value as memory: what was computed is written into memory that nobody wrote."""
    if not isinstance(value, Tile):
        return value
    if value.valid == value.data.shape:
        return value.data
    data = unwritten(value.data.shape, value.dtype)
    data[tuple([slice(0, v) for v in value.valid])] = value.region
    return data


def stretched(tile: Tile, shape: tuple[int, ...], valid: tuple[int, ...]) -> Tile:
    """The tile with its axes of one element stretched to ``shape``, of which ``valid`` holds data."""
    if tile.data.shape == shape:
        return tile
    sizes = tuple([n if n != 1 else s for n, s in zip(tile.data.shape, shape, strict=True)])
    reach = tuple([v if n != 1 else w for n, v, w in zip(tile.data.shape, tile.valid, valid, strict=True)])
    return Tile(np.broadcast_to(tile.data, sizes).copy(), reach, tile.dtype)


def _elementwise(name: str, scalar_name: str) -> Meaning:
    def run(args: Args, kw: Kw) -> Tile:
        from ir_bridge.ir.semantics import meaning_of

        a, b = as_tile(args[0]), args[1]
        if not isinstance(b, (Tile, np.ndarray)):
            return _call(meaning_of(f"tile.{scalar_name}"), (a, b), kw)
        other = as_tile(b)
        shape = np.broadcast_shapes(a.data.shape, other.data.shape)
        return _call(meaning_of(f"tile.{name}"), (stretched(a, shape, other.valid), stretched(other, shape, a.valid)), kw)

    return run


def _call(f: Meaning | None, args: Args, kw: Kw) -> Tile:
    assert f is not None
    result: Tile = f(args, kw)
    return result


def _like_tile(name: str) -> Meaning:
    """The tile operation of the same name, on tensor operands."""

    def run(args: Args, kw: Kw) -> Tile:
        from ir_bridge.ir.semantics import meaning_of

        return _call(meaning_of(f"tile.{name}"), [as_tile(a) if isinstance(a, (Tile, np.ndarray)) else a for a in args], kw)

    return run


_SCALARS = {"add": "adds", "sub": "subs", "mul": "muls", "div": "divs", "maximum": "maxs", "minimum": "mins"}
for _name, _scalar in _SCALARS.items():
    define(f"tensor.{_name}", _elementwise(_name, _scalar))
    define(f"tensor.{_scalar}", _like_tile(_scalar))
for _name in ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "recip", "relu", "not"):
    define(f"tensor.{_name}", _like_tile(_name))
for _name in ("row_max", "row_min", "row_sum", "col_max", "col_min", "col_sum"):
    define(f"tensor.{_name}", _like_tile(_name))
for _axis in ("row", "col"):
    for _name in ("", "_add", "_sub", "_mul", "_div"):
        define(f"tensor.{_axis}_expand{_name}", _like_tile(f"{_axis}_expand{_name}"))


# -- products ----------------------------------------------------------------------------------------------------------


def _transposed(tile: Tile, on: bool) -> Tile:
    if not on:
        return tile
    return Tile(tile.data.swapaxes(-1, -2), (*tile.valid[:-2], tile.valid[-1], tile.valid[-2]), tile.dtype)


def _page(tile: Tile, index: tuple[int, ...]) -> Tile:
    at = index[len(index) - (tile.data.ndim - 2) :]
    at = tuple([0 if n == 1 else i for i, n in zip(at, tile.data.shape[:-2], strict=True)])
    return Tile(tile.data[at], tile.valid[-2:], tile.dtype)


def batched_product(left: Tile, right: Tile) -> Tile:
    """The product of the valid corners, page by page over the leading axes (which stretch), in the accumulator's type."""
    out = accumulator(left.dtype)
    if left.data.ndim == right.data.ndim == 2:
        return tile_from(product(left, right), out, (left.data.shape[0], right.data.shape[1]))
    lead = np.broadcast_shapes(left.data.shape[:-2], right.data.shape[:-2])
    data = garbage((*lead, left.data.shape[-2], right.data.shape[-1]), out)
    m, n = left.valid[-2], right.valid[-1]
    for index in np.ndindex(*lead):
        data[(*index, slice(0, m), slice(0, n))] = product(_page(left, index), _page(right, index))
    return Tile(data, (*lead, m, n), out)


@meaning("tile.batch_matmul")
def batch_matmul(args: Args, kw: Kw) -> Tile:
    return batched_product(args[0], args[1])


def _operands(args: Args, kw: Kw) -> tuple[Tile, Tile]:
    return (
        _transposed(as_tile(args[0]), bool(kw.get("a_trans"))),
        _transposed(as_tile(args[1]), bool(kw.get("b_trans"))),
    )


@meaning("tensor.matmul")
def matmul(args: Args, kw: Kw) -> Tile:
    """The product, summed in the accumulator's type and rounded once (rint) where the result's type is another."""
    left, right = _operands(args, kw)
    value = batched_product(left, right)
    want: DType = product_dtype(left.dtype, kw.get("out_dtype"))
    if want == value.dtype:
        return value
    return tile_from(cast(value.region, value.dtype, want, "rint"), want, value.data.shape)


@meaning("tensor.matmul_acc")
def matmul_acc(args: Args, kw: Kw) -> Tile:
    acc = as_tile(args[0])
    value = batched_product(*_operands(args[1:], kw))
    data = acc.data.copy()
    where = tuple([slice(0, v) for v in value.valid])
    if len(args) > 3 and bool(args[3]):
        data[where] = value.region
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            data[where] += value.region
    return Tile(data, acc.valid, acc.dtype)


# -- memory and views --------------------------------------------------------------------------------------------------


@meaning("tensor.create_l1")
def create_l1(args: Args, kw: Kw) -> Tile:
    return Tile(unwritten(args[0], kw["dtype"]), tuple(args[0]), kw["dtype"])


@meaning("tensor.full")
def full(args: Args, kw: Kw) -> Tile:
    return Tile(np.full(args[0], kw["value"]).astype(numpy_dtype(kw["dtype"])), tuple(args[0]), kw["dtype"])


@meaning("tensor.slice")
def slice_tensor(args: Args, kw: Kw) -> Tile:
    """A window: a copy of what global memory holds now, but a view of a computed value, as on chip.

    Without ``valid_shape`` its valid corner is what lies in the source's.
    """
    src = args[0]
    if isinstance(src, Tile):
        view: Tile = slice_tile(args, kw)
        return view
    valid = args[3] if len(args) > 3 else args[1]
    values = src[window("tensor.slice", src.shape, args[2], tuple(valid))]
    return tile_from(values.copy(), dtype_of_array(src), tuple(args[1]))


@meaning("tensor.assemble")
def assemble(args: Args, kw: Kw) -> Any:
    """Write the source's valid corner into the target at the offset: in global memory, or a new state of a computed value."""
    target, source, offset = args[0], as_tile(args[1]), args[2]
    if isinstance(target, Tile):
        return assemble_tile((target, source, offset), kw)
    return store((source, offset, target), kw)


@meaning("tensor.set_validshape")
def set_validshape(args: Args, kw: Kw) -> Tile:
    src = as_tile(args[0])
    window("tensor.set_validshape", src.data.shape, (0, 0), tuple(args[1:3]))
    return Tile(src.data, (args[1], args[2]), src.dtype)


@meaning("tensor.reshape", "tensor.view")
def reshape(args: Args, kw: Kw) -> Tile:
    src = as_tile(args[0])
    if src.valid != src.data.shape:
        raise SemanticsError(f"tensor.reshape: only {list(src.valid)} of {list(src.data.shape)} is valid; reshape whole tensors")
    return Tile(src.data.reshape(args[1]), tuple(args[1]), src.dtype)


@meaning("tensor.reinterpret_view", "tile.reinterpret_view")
def reinterpret_view(args: Args, kw: Kw) -> Tile:
    src, dtype = as_tile(args[0]), kw["dtype"]
    data = np.ascontiguousarray(src.data).view(numpy_dtype(dtype)).reshape(args[1])
    return Tile(data, tuple(args[1]), dtype)


@meaning("tensor.transpose")
def transpose(args: Args, kw: Kw) -> Tile:
    src, a, b = as_tile(args[0]), args[1], args[2]
    valid = list(src.valid)
    valid[a], valid[b] = valid[b], valid[a]
    return Tile(src.data.swapaxes(a, b).copy(), tuple(valid), src.dtype)


define("tensor.cast", _like_tile("cast"))


# -- comparison and selection ------------------------------------------------------------------------------------------


@meaning("tensor.cmp")
def cmp(args: Args, kw: Kw) -> Tile:
    """One where the comparison holds, else zero, in the operands' own type."""
    a = as_tile(args[0])
    if isinstance(args[1], (Tile, np.ndarray)):
        b = as_tile(args[1])
        shape = np.broadcast_shapes(a.data.shape, b.data.shape)
        a, b = stretched(a, shape, b.valid), stretched(b, shape, a.valid)
        other: Any = b.data[tuple([slice(0, v) for v in a.valid])]
    else:
        other = args[1]
    held = comparison("tensor.cmp", kw)(a.region, np.asarray(other).astype(a.data.dtype))
    return tile_from(held.astype(a.data.dtype), a.dtype, a.data.shape)


@meaning("tensor.sel")
def sel(args: Args, kw: Kw) -> Tile:
    """``lhs`` where the mask is not zero, else ``rhs``."""
    mask, a, b = (as_tile(v) for v in args)
    where = tuple([slice(0, v) for v in a.valid])
    chosen = np.where(mask.data[where] != 0, a.region, b.data[where])
    return tile_from(chosen.astype(a.data.dtype), a.dtype, a.data.shape)


# -- scatter and gather ------------------------------------------------------------------------------------------------


@meaning("tensor.scatter_update")
def scatter_update(args: Args, kw: Kw) -> Tile:
    """``base`` with row ``index.flat[k]`` replaced by row k of the source, in order."""
    base, index, src = as_tile(args[0]), as_tile(args[2]), as_tile(args[3])
    data = base.data.copy()
    for k, row in enumerate(index.data.reshape(-1)):
        if not 0 <= row < data.shape[0]:
            raise SemanticsError(f"tensor.scatter_update: row {row} of {data.shape[0]}")
        data[row] = src.data[k]
    return Tile(data, base.valid, base.dtype)


def _flat(what: str, data: Array, index: Array) -> Array:
    at = index.astype(np.int64)
    if at.size and (at.min() < 0 or at.max() >= data.size):
        raise SemanticsError(f"{what}: an index lies outside the {data.size} elements of the source")
    return np.asarray(data.reshape(-1)[at])


@meaning("tile.gather", "tile.mgather")
def gather_flat(args: Args, kw: Kw) -> Tile:
    """Elements of the source, read row by row, at the flat indices."""
    src, index = as_tile(args[0]), args[1]
    return tile_from(_flat("gather", src.data, index.region), src.dtype, index.data.shape)


@meaning("tensor.gather")
def gather(args: Args, kw: Kw) -> Tile:
    """By flat index; with ``dim``, ``out[i, j] = src[index[i, j], j]`` (dim 0) or ``src[i, index[i, j]]`` (dim 1)."""
    src, index = as_tile(args[0]), as_tile(args[1])
    if kw.get("dim") is None:
        return tile_from(_flat("tensor.gather", src.data, index.region), src.dtype, index.data.shape)
    axis = kw["dim"] % src.data.ndim
    at = index.region.astype(np.int64)
    if at.size and (at.min() < 0 or at.max() >= src.data.shape[axis]):
        raise SemanticsError(f"tensor.gather: an index lies outside dimension {axis} of {list(src.data.shape)}")
    reach = tuple([slice(None) if i == axis else slice(0, n) for i, n in enumerate(at.shape)])
    return tile_from(np.take_along_axis(src.data[reach], at, axis), src.dtype, index.data.shape)


@meaning("tensor.paged_gather")
def paged_gather(args: Args, kw: Kw) -> Tile:
    """Row ``table[i // block] * block + i % block`` of the source for each i of the indices."""
    src, indices, table = (v.data if isinstance(v, Tile) else v for v in args)
    block, size, start = kw["block_size"], kw["size"], kw.get("offset", 0)
    trans = bool(kw.get("is_trans"))
    shape = (size, kw["max_indices"]) if trans else (kw["max_indices"], size)
    data = unwritten(shape, dtype_of_array(src))
    rows = data.T if trans else data
    for k, i in enumerate(indices.reshape(-1)):
        row = int(table.reshape(-1)[i // block]) * block + int(i % block)
        rows[k] = src[row, start : start + size]
    return Tile(data, shape, dtype_of_array(src))


@meaning("tensor.gather_row", "tile.gather_row")
def gather_row(args: Args, kw: Kw) -> Tile:
    """The accumulator with a window of the source written at ``dst_offset``; transposed, rows become columns."""
    acc, src, dst_offset, src_offset, shapes = as_tile(args[0]), args[1], args[2], args[3], args[4]
    extent = kw.get("valid_shape") or (args[5] if len(args) > 5 else shapes)
    memory = src.data if isinstance(src, Tile) else src
    values = memory[window("gather_row", memory.shape, src_offset, tuple(extent))]
    if kw.get("transpose"):
        values = values.T
    data = acc.data.copy()
    data[window("gather_row", data.shape, dst_offset, values.shape)] = values
    return Tile(data, acc.valid, acc.dtype)


# -- the boundary of a vector split ------------------------------------------------------------------------------------


def shard(value: Any, lane: int, split: int) -> Tile:
    """The half of a 2-D value that vector core ``lane`` works on: rows (1) or columns (2)."""
    whole = as_tile(value)
    half = whole.data.shape[split - 1] // 2
    part = whole.data[lane * half : (lane + 1) * half] if split == 1 else whole.data[:, lane * half : (lane + 1) * half]
    return Tile(part.copy(), part.shape, whole.dtype)


def joined(halves: Sequence[Any], split: int) -> Tile:
    """The whole again from the halves of all lanes."""
    parts = [as_tile(h) for h in halves]
    data = np.concatenate([p.data for p in parts], axis=split - 1)
    return Tile(data, data.shape, parts[0].dtype)
