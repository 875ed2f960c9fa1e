"""What cost models look at: a problem, and arrays of candidate schedules for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cost.dtypes import BF16, FP32, DType, accumulator

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Codes of ``Candidates.stationarity``: no operand held, A held, B held across the output grid.
OUTPUT, A, B = 0, 1, 2
STATIONARITY = ("output", "a", "b")


@dataclass(frozen=True, slots=True)
class Problem:
    """One product C[M, N] (+)= A[M, K] @ B[K, N] (+ bias) on one core.

    ``M``, ``N``, ``K`` are logical extents in elements; ``a``, ``b`` the operands' element types and ``c`` the accumulator's.
    ``accumulate``: the caller's accumulator is read too (`matmul_acc`). ``bias`` is None, "mat" (its window is rebuilt for every
    N window) or "bias" (it is in the bias table already, whole). ``box_m`` and ``box_n`` are the physical boxes of a window of
    rows and columns. ``allow_padding``: extents that 16 does not divide may be padded up.
    """

    M: int
    N: int
    K: int
    a: DType = BF16
    b: DType = BF16
    c: DType = FP32
    accumulate: bool = False
    bias: str | None = None
    box_m: int = 1
    box_n: int = 1
    allow_padding: bool = False

    @classmethod
    def of(cls, M: int, N: int, K: int, operand: DType = BF16, **more: object) -> Problem:
        """A problem of equal operand types, its accumulator as the cube makes it (fp32, or int32 for integers)."""
        return cls(M, N, K, operand, operand, accumulator(operand), **more)  # type: ignore[arg-type]

    @property
    def align_n(self) -> int:
        """Granularity of n: 16; for a biased product at least 32 bytes of the operand."""
        return 16 if self.bias is None else max(16, 32 // self.a.bytes)

    @property
    def align_k(self) -> int:
        """Granularity of k: as :attr:`align_n`, so that each Left and Right box of a biased product is whole."""
        return self.align_n


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Schedules for one problem, one row each; all arrays have the same length.

    ==============  ======  ==========================================================================================
    ``m n k``       int64   extents in elements of the L0 tile
    ``stationarity``  int8  :data:`OUTPUT` (0), :data:`A` (1) or :data:`B` (2): the operand held in L0 across the grid
    ``holds_a``     bool    where k = K: does the outer loop hold A's panel (rows outer)? True for A-, False for B-stationary;
                            means nothing where k < K
    ``dbc``         int8    accumulators in L0C, 1 or 2
    ==============  ======  ==========================================================================================
    """

    m: NDArray[np.int64]
    n: NDArray[np.int64]
    k: NDArray[np.int64]
    stationarity: NDArray[np.int8]
    holds_a: NDArray[np.bool_]
    dbc: NDArray[np.int8]

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int, bool, int]]) -> Candidates:
        """Candidates from (m, n, k, stationarity code, holds_a, accumulators) rows."""
        columns = list(zip(*rows, strict=True)) or [()] * 6
        kinds = (np.int64, np.int64, np.int64, np.int8, np.bool_, np.int8)
        return cls(*(np.array(c, dtype=t) for c, t in zip(columns, kinds, strict=True)))

    def __len__(self) -> int:
        return len(self.m)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Candidates:
        """The candidates at ``rows`` (positions, or a mask), in that order."""
        return Candidates(self.m[rows], self.n[rows], self.k[rows], self.stationarity[rows], self.holds_a[rows], self.dbc[rows])

    def row(self, i: int) -> str:
        """One candidate in words, for messages."""
        held = "rows outer" if self.holds_a[i] else "columns outer"
        kind = STATIONARITY[int(self.stationarity[i])]
        return f"candidate {i}: {self.m[i]}x{self.n[i]}x{self.k[i]}, {kind}-stationary ({held}), {self.dbc[i]} accumulator(s)"
