"""What each tile operation makes, as functions on types: a window, a move, a product, a cast, a view of a tile.

Type rules (:mod:`ir_bridge.ir.ops_tile`) apply them to a call's operands, and passes that emit statements ask them directly.
Views are kept minimal: a field is set only where it differs from what the space implies.
"""

from __future__ import annotations

from cost.dtypes import FP32, DType, accumulator
from ir_bridge.ir.ops_types import valid_or_none, window_valid
from ir_bridge.ir.types import PLAIN, Dim, Space, TensorType, TileType, View, implied_layout

_LOW_PRECISION = frozenset({"bf16", "fp16"})


def narrowing_allowed(source: DType, target: DType) -> bool:
    """May FIXPIPE write ``source`` elements as ``target``: the same type, or FP32 into BF16/FP16 (rint)?"""
    return source == target or (source == FP32 and target.name in _LOW_PRECISION)


def load_type(tensor: TensorType, shape: tuple[Dim, ...], valid: tuple[Dim, ...], space: Space) -> TileType:
    """A load: a ``[1, N]`` tile in Mat lies row by row, unboxed (it is a bias row)."""
    valid_shape = valid_or_none(shape, valid)
    if space is Space.MAT and len(shape) == 2 and shape[0] == 1:
        return TileType(shape, tensor.dtype, space, View(valid_shape, blayout="row_major", slayout="none_box"))
    return TileType(shape, tensor.dtype, space, PLAIN if valid_shape is None else View(valid_shape))


def create_type(shape: tuple[Dim, ...], dtype: DType, space: Space, compact: bool = False, transpose: bool = False) -> TileType:
    """An uninitialised tile; ``compact`` seeds a narrowed accumulator, ``transpose`` lies as a transposed matmul operand does."""
    if transpose:
        return TileType(shape, dtype, space, View(blayout="row_major", slayout="col_major"))
    return TileType(shape, dtype, space, View(compact="normal") if compact else PLAIN)


_LEFT_VIEW = View(blayout="row_major")


def extract_type(src: TileType, row: Dim, col: Dim, shape: tuple[Dim, ...], space: Space) -> TileType:
    """A window of ``src`` in ``space``; in Left it is stamped row_major, in Left/Right compact when partly valid."""
    view = src.view
    if view.valid_shape is None:
        return TileType(shape, src.dtype, space, _LEFT_VIEW if space is Space.LEFT else PLAIN)
    (pr, pc), (vr, vc) = src.shape, view.valid_shape
    valid = valid_or_none(shape, (window_valid(pr, vr, row, shape[0]), window_valid(pc, vc, col, shape[1])))
    boxed = space in (Space.LEFT, Space.RIGHT)
    return TileType(
        shape,
        src.dtype,
        space,
        View(
            valid,
            blayout="row_major" if space is Space.LEFT else None,
            compact="normal" if valid is not None and boxed else None,
        ),
    )


def move_type(src: TileType, space: Space) -> TileType:
    """The same tile elsewhere, laid out as the new space implies; a row that is not boxed stays so in Mat."""
    valid = src.view.valid_shape
    return TileType(src.shape, src.dtype, space, PLAIN if valid is None else View(valid))


def matmul_type(left: TileType, right: TileType) -> TileType:
    """[M, N] in Acc, in the accumulator's type; compact when valid rows are not known to be all rows."""
    lv, rv = left.view.valid_shape, right.view.valid_shape
    shape = (left.shape[0], right.shape[1])
    if lv is None and rv is None:
        return TileType(shape, accumulator(left.dtype), Space.ACC, PLAIN)
    rows = shape[0] if lv is None else lv[0]
    valid = valid_or_none(shape, (rows, shape[1] if rv is None else rv[1]))
    compact = "normal" if rows != shape[0] else None
    return TileType(shape, accumulator(left.dtype), Space.ACC, View(valid, compact=compact))


def cast_type(src: TileType, dtype: DType) -> TileType:
    """A cast is a Vector operation: a Vec tile, in the layout the source had."""
    blayout, slayout, _ = src.layout
    implied = implied_layout(Space.VEC)
    return TileType(
        src.shape,
        dtype,
        Space.VEC,
        View(
            src.view.valid_shape,
            blayout=None if blayout == implied[0] else blayout,
            slayout=None if slayout == implied[1] else slayout,
        ),
    )


def set_validshape_type(src: TileType, valid: tuple[Dim, ...]) -> TileType:
    """The same storage with another valid region."""
    view = src.view
    return TileType(
        src.shape,
        src.dtype,
        src.space,
        View(
            valid_or_none(src.shape, valid),
            view.stride,
            view.start_offset,
            view.blayout,
            view.slayout,
            view.fractal,
            view.pad,
            view.compact,
        ),
    )


_SWAPPED = {"row_major": "col_major", "col_major": "row_major", "none_box": "none_box"}


def _transposed(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return (*shape[:-2], shape[-1], shape[-2])


def transpose_view_type(src: TileType) -> TileType:
    """The same bytes read as the transposed tile (each page of it): the last two axes and both layouts swap."""
    blayout, slayout, _ = src.layout
    implied = implied_layout(src.space)
    b, s = _SWAPPED[blayout], _SWAPPED[slayout]
    valid = src.view.valid_shape
    return TileType(
        _transposed(src.shape),
        src.dtype,
        src.space,
        View(
            None if valid is None else _transposed(valid),
            blayout=None if b == implied[0] else b,
            slayout=None if s == implied[1] else s,
            fractal=src.view.fractal,
        ),
    )


def slice_type(src: TileType, shape: tuple[Dim, ...], offset: tuple[Dim, ...], valid: tuple[Dim, ...] | None) -> TileType:
    """A window of ``src`` in its own buffer and layout."""
    if valid is None:
        valid = tuple(
            [window_valid(p, v, o, s) for p, v, o, s in zip(src.shape, src.valid, offset, shape, strict=True)],
        )
    view = src.view
    return TileType(
        shape,
        src.dtype,
        src.space,
        View(valid_or_none(shape, valid), blayout=view.blayout, slayout=view.slayout, fractal=view.fractal, pad=view.pad),
    )
