"""What the operations of ``ops_batch`` compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ir_bridge.ir.semantics import meaning
from ir_bridge.ir.semantics_tensor import dtype_of_array
from ir_bridge.ir.semantics_values import Array, SemanticsError, Tile, window, written_as

Args = Sequence[Any]
Kw = Mapping[str, Any]


@meaning("tensor.fold")
def fold(args: Args, kw: Kw) -> Array:
    """The same memory with other extents."""
    tensor, shape = args
    view = tensor.view()
    try:
        view.shape = shape
    except (ValueError, AttributeError):
        raise SemanticsError(f"tensor.fold: {list(tensor.shape)} is not contiguous, so it is no {list(shape)}") from None
    return np.asarray(view)


@meaning("tile.load_stack")
def load_stack(args: Args, kw: Kw) -> Tile:
    """Windows ``pitch`` rows apart, below one another or side by side; padding is zero."""
    tensor, (row, col), (parts, rows, columns), (held, valid_rows, valid_columns), pitch = args
    axis = int(kw["axis"])
    data = np.zeros((parts * rows, columns) if axis == 0 else (rows, parts * columns), tensor.dtype)
    for i in range(held):
        where = window("tile.load_stack", tensor.shape, (row + i * pitch, col), (valid_rows, valid_columns))
        r, c = (i * rows, 0) if axis == 0 else (0, i * columns)
        data[r : r + valid_rows, c : c + valid_columns] = tensor[where]
    valid = (parts * rows, valid_columns) if axis == 0 else (valid_rows, parts * columns)
    return Tile(data, valid, dtype_of_array(tensor))


@meaning("tile.store_diagonal")
def store_diagonal(args: Args, kw: Kw) -> Array:
    """Blocks of the tile, ``pitch`` apart along its diagonal, to the tensor below one another."""
    tile, (row, col), tensor, (blocks, rows, columns), (down, right) = args
    target = dtype_of_array(tensor)
    for i in range(blocks):
        block = tile.data[window("tile.store_diagonal", tile.data.shape, (i * down, i * right), (rows, columns))]
        where = window("tile.store_diagonal", tensor.shape, (row + i * rows, col), (rows, columns))
        tensor[where] = written_as("tile.store_diagonal", block, tile.dtype, target)
    return np.asarray(tensor)
