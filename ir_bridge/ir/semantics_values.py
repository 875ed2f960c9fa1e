"""Values of the reference interpreter: numpy arrays for tensors, :class:`Tile` for tiles, Python numbers for scalars.

Reading what nobody wrote must show. What lies outside a tile's valid region is :func:`garbage`: NaN where the element type has
one. Memory that was allocated (``tile.create``, an output array left out) is :func:`unwritten`: the odd but finite
number -1009, so that programs which add to an accumulator they never set can still be compared bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from cost.dtypes import FP32, DType
from cost.errors import TilesatError
from ir_bridge.ir.tile_types import narrowing_allowed

Array = NDArray[Any]


class SemanticsError(TilesatError):
    """A call without meaning at run time: a window out of bounds, a type pair no unit converts. The interpreter adds where."""


_NUMPY: dict[str, type] = {
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8e4m3fn": ml_dtypes.float8_e4m3fn,
    "fp8e5m2": ml_dtypes.float8_e5m2,
    "fp8e8m0": ml_dtypes.float8_e8m0fnu,
    "fp4": ml_dtypes.float4_e2m1fn,
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
    "bool": np.bool_,
    "index": np.int64,
}


@cache
def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy element type that holds ``dtype`` exactly; SemanticsError for HF4 and HF8, which numpy cannot hold."""
    if dtype.name in _NUMPY:
        return np.dtype(_NUMPY[dtype.name])
    if dtype.kind in ("int", "uint"):
        return np.dtype(dtype.name)
    raise SemanticsError(
        f"element type {dtype.name} has no reference arithmetic; supported are the IEEE-like floats and integers"
    )


@cache
def _garbage_value(dtype: DType) -> Any:
    held: np.dtype[Any] = numpy_dtype(dtype)
    if dtype.is_float and dtype.name != "fp4":
        return np.array(float("nan")).astype(held)
    if dtype.bits < 8:
        return np.array(5).astype(held)
    if dtype.name == "bool":
        return np.array(True)
    return np.frombuffer(b"\xa5" * held.itemsize, held)[0]


def garbage(shape: tuple[int, ...], dtype: DType) -> Array:
    """An array of ``shape`` outside every valid region."""
    return np.full(shape, _garbage_value(dtype), numpy_dtype(dtype))


#: What allocated memory holds before it is written, where the element type can hold it (8-bit floats: -112).
UNWRITTEN = -1009


def unwritten(shape: tuple[int, ...], dtype: DType) -> Array:
    """Allocated memory of ``shape`` that nobody wrote yet."""
    if dtype.bits >= 16:
        return np.full(shape, UNWRITTEN if dtype.kind != "uint" else -UNWRITTEN).astype(numpy_dtype(dtype))
    if dtype.is_float and dtype.bits == 8:
        return np.full(shape, -112.0).astype(numpy_dtype(dtype))
    return garbage(shape, dtype)


def extreme(dtype: DType, largest: bool = True) -> Any:
    """The largest (or smallest) finite value of an element type, as numpy holds it."""
    held = numpy_dtype(dtype)
    info: Any = ml_dtypes.finfo(held) if dtype.is_float else ml_dtypes.iinfo(held)  # type: ignore[no-untyped-call]
    return info.max if largest else info.min


@dataclass(slots=True)
class Tile:
    """An on-chip tile: the physical array, the extent of its valid corner, its element type."""

    data: Array
    valid: tuple[int, ...]
    dtype: DType

    @property
    def region(self) -> Array:
        """The valid corner, as a view."""
        if self.valid == self.data.shape:
            return self.data
        return self.data[tuple([slice(0, v) for v in self.valid])]


def tile_from(values: Array, dtype: DType, shape: tuple[int, ...] | None = None) -> Tile:
    """A tile whose valid corner is ``values`` (already of the tile's element type), in a physical ``shape``."""
    if shape is None or shape == values.shape:
        return Tile(values, values.shape, dtype)
    data = garbage(shape, dtype)
    data[tuple([slice(0, v) for v in values.shape])] = values
    return Tile(data, values.shape, dtype)


def window(what: str, extent: tuple[int, ...], offset: tuple[int, ...], size: tuple[int, ...]) -> tuple[slice, ...]:
    """The slices of a window, checked to lie in an array of ``extent``; an empty window lies anywhere."""
    if not len(extent) == len(offset) == len(size):
        raise SemanticsError(f"{what}: a window of rank {len(size)} at {list(offset)} of an array of rank {len(extent)}")
    for e, o, s in zip(extent, offset, size, strict=True):
        if o < 0 or s < 0 or (o + s > e and 0 not in size):
            raise SemanticsError(f"{what}: window {list(size)} at {list(offset)} reaches out of {list(extent)}")
    return tuple([slice(o, o + s) for o, s in zip(offset, size, strict=True)])


def written_as(what: str, values: Array, source: DType, target: DType) -> Array:
    """``values`` as FIXPIPE or the DMA writes them: unchanged, or FP32 to BF16/FP16 to nearest, ties to even."""
    if source == target:
        return values
    if not narrowing_allowed(source, target):
        raise SemanticsError(f"{what}: {source.name} is not written as {target.name}; cast it first")
    with np.errstate(over="ignore"):
        return values.astype(numpy_dtype(target))


def as_float(values: Array, dtype: DType) -> Array:
    """Values in the type float arithmetic is done in: float32 for all floating element types."""
    return values if dtype == FP32 else values.astype(np.float32)
