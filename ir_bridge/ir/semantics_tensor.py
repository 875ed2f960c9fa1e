"""Element access, sizes and allocation of tensors.

In global memory a tensor is a numpy array, and writes go into it; one that was computed is a tile (``semantics_tensor_math``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from cost.dtypes import DTYPES, DType
from ir_bridge.ir.semantics import meaning
from ir_bridge.ir.semantics_values import Array, SemanticsError, Tile, numpy_dtype, unwritten

Args = Sequence[Any]
Kw = Mapping[str, Any]


@cache
def _by_numpy() -> dict[np.dtype[Any], DType]:
    found: dict[np.dtype[Any], DType] = {}
    for d in DTYPES.values():
        if d.name not in ("hf4", "hf8", "index"):
            found.setdefault(numpy_dtype(d), d)
    return found


def dtype_of_array(array: Array) -> DType:
    """The element type of an array; SemanticsError when it is none of ours."""
    found = _by_numpy().get(array.dtype)
    if found is None:
        raise SemanticsError(f"arrays of {array.dtype} hold no element type of the language")
    return found


def python_scalar(value: Any) -> int | float | bool:
    """A numpy element as a Python number."""
    kind = np.dtype(value.dtype).kind
    if kind == "b":
        return bool(value)
    return int(value) if kind in "iu" or value.dtype.name in ("int4", "uint4") else float(value)


def element(what: str, data: Array, indices: tuple[int, ...]) -> tuple[int, ...]:
    """The indices of one element, checked; fewer indices than dimensions count through the rows (a flat index)."""
    if len(indices) == 1 and data.ndim > 1:
        if not 0 <= indices[0] < data.size:
            raise SemanticsError(f"{what}: element {indices[0]} of {data.size}")
        return tuple([int(i) for i in np.unravel_index(indices[0], data.shape)])
    if len(indices) != data.ndim or any(not 0 <= i < n for i, n in zip(indices, data.shape, strict=False)):
        raise SemanticsError(f"{what}: element {list(indices)} of {list(data.shape)}")
    return indices


def _memory(value: Any) -> Array:
    """Where the elements of a tensor value are."""
    return value.data if isinstance(value, Tile) else value


@meaning("tensor.read")
def read(args: Args, kw: Kw) -> int | float | bool:
    tensor, indices = _memory(args[0]), args[1]
    return python_scalar(tensor[element("tensor.read", tensor, indices)])


@meaning("tensor.write")
def write(args: Args, kw: Kw) -> None:
    tensor, indices, value = _memory(args[0]), args[1], args[2]
    tensor[element("tensor.write", tensor, indices)] = value


@meaning("tensor.dim")
def dim(args: Args, kw: Kw) -> int:
    tensor, axis = _memory(args[0]), args[1]
    if not -tensor.ndim <= axis < tensor.ndim:
        raise SemanticsError(f"tensor.dim: axis {axis} of a tensor of rank {tensor.ndim}")
    return int(tensor.shape[axis])


@meaning("tensor.create")
def create(args: Args, kw: Kw) -> Array:
    return unwritten(args[0], kw["dtype"])
