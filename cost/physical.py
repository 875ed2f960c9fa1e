"""Physical sizes: the one place that says what a tile or a window really occupies.

Rules, verifier, lift and simulator all ask here, so that what one of them admits fits for the others. Every function takes
integers or integer arrays alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from cost.dtypes import DType
from cost.hardware import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Size = TypeVar("Size", int, NDArray[np.int64])
else:
    Size = TypeVar("Size")

#: Bytes of one row of a fractal box; the box's other side is 16.
BOX_ROW_BITS = 32 * 8


def align_up(x: Size, multiple: int) -> Size:
    """``x`` rounded up to a multiple of ``multiple``."""
    return -(-x // multiple) * multiple


@overload
def ceil_div(x: int, y: int) -> int: ...
@overload
def ceil_div(x: NDArray[np.int64], y: int | NDArray[Any]) -> NDArray[np.int64]: ...
@overload
def ceil_div(x: int, y: NDArray[Any]) -> NDArray[np.int64]: ...
def ceil_div(x: Any, y: Any) -> Any:
    """``x / y``, rounded up."""
    return -(-x // y)


def box(slayout: str, dtype: DType, space: str | None = None) -> tuple[int, int]:
    """(rows, columns) that a tile's physical shape must be a multiple of.

    ``slayout`` is the tile's inner layout ("row_major", "col_major", "none_box"), ``space`` its PyPTO name ("Acc", …).
    An accumulator is boxed 16 × 16 for every type; elsewhere one side of a box is 16 and the other 32 bytes.
    """
    if space == "Acc":
        return 16, 16
    if slayout == "row_major":
        return 16, max(1, BOX_ROW_BITS // dtype.bits)
    if slayout == "col_major":
        return max(1, BOX_ROW_BITS // dtype.bits), 16
    return 1, 1


def l0c_rows(target: Target, m: Size, accumulator: DType, box_m: int = 1) -> Size:
    """Rows that ``m`` accumulator rows take in L0C: boxed first, then rounded to the target's row alignment."""
    return align_up(align_up(m, box_m), target.l0c_row_align(accumulator))


def accumulator_bytes(target: Target, m: Size, n: Size, accumulator: DType, box_m: int = 1, box_n: int = 1) -> Size:
    """Bytes of one ``m`` × ``n`` accumulator in L0C (specification 1, "physical size contract")."""
    return l0c_rows(target, m, accumulator, box_m) * align_up(n, box_n) * accumulator.bytes


def allocated_bytes(target: Target, buffer: str, size: Size) -> Size:
    """``size`` bytes rounded up to the allocation alignment of ``buffer`` ("l0a", "mat", …)."""
    return align_up(size, target.allocation_alignment(buffer))
