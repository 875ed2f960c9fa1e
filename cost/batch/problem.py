"""A batch matmul: C[B, M, N] = A[BatchA, M, K] @ B[BatchB, K, N] + bias, and how its operands lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

from cost.batch.chip import OPERANDS
from cost.dtypes import FP32, INT32, DType, accumulator, dtype
from cost.errors import Rejected, TilesatError

#: Longest extent that is accepted: what a 32-bit index of the vendor's interface can say.
MAX_EXTENT = 2**31 - 1
#: Most bytes of A, B and C together: beyond this, sizes no longer multiply safely in 64 bits.
MAX_BYTES = 2**52


class BatchInputError(TilesatError):
    """Arguments that do not describe a batch matmul."""


@dataclass(frozen=True, slots=True)
class BatchProblem:
    """Extents in elements. ``batch_a`` and ``batch_b`` are B or 1. ``bias`` is None, "shared" ([N]) or "batched" ([B, 1, N]).

    A is stored [BatchA, M, K], or [BatchA, K, M] when ``transpose_a``; B is stored [BatchB, K, N], or [BatchB, N, K] when
    ``transpose_b``. C has the operands' type (int32 for int8 operands); so has the bias.
    """

    B: int
    M: int
    N: int
    K: int
    operand: DType
    batch_a: int
    batch_b: int
    bias: str | None = None
    transpose_a: bool = False
    transpose_b: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of one operand element, the analysis' `dtype`."""
        return self.operand.bytes

    @property
    def result(self) -> DType:
        """Element type of C and of the bias."""
        return INT32 if not self.operand.is_float else self.operand

    @property
    def sums(self) -> DType:
        """Element type of accumulators and of partial sums in the workspace."""
        return accumulator(self.operand)

    @property
    def sums_exact(self) -> bool:
        """Does C hold what accumulators hold, so that partial sums may be added up in it?"""
        return self.result in (FP32, INT32)

    @property
    def equal_batches(self) -> bool:
        """BatchA = BatchB: no side is broadcast."""
        return self.batch_a == self.batch_b

    @property
    def total_bytes(self) -> int:
        """Bytes of A, B and C in global memory."""
        operands = (self.batch_a * self.M + self.batch_b * self.N) * self.K * self.bytes
        return operands + self.B * self.M * self.N * self.result.bytes

    # Boxes: a tile's extent in Mat, Left, Right or Acc is a multiple of 16, and of 32 bytes where it is the contiguous one.

    @property
    def box_m(self) -> int:
        return max(16, 32 // self.bytes) if self.transpose_a else 16

    @property
    def box_n(self) -> int:
        return 16 if self.transpose_b else max(16, 32 // self.bytes)

    @property
    def box_k(self) -> int:
        return max(16, 32 // self.bytes)

    def __str__(self) -> str:
        a = f"[{self.batch_a}, {self.K}, {self.M}]ᵀ" if self.transpose_a else f"[{self.batch_a}, {self.M}, {self.K}]"
        b = f"[{self.batch_b}, {self.N}, {self.K}]ᵀ" if self.transpose_b else f"[{self.batch_b}, {self.K}, {self.N}]"
        tail = {None: "", "shared": f" + [{self.N}]", "batched": f" + [{self.B}, 1, {self.N}]"}[self.bias]
        return f"{a} @ {b}{tail} {self.operand.name}"


def whole(name: str, value: object) -> int:
    """``value`` as an int: anything that counts as a whole number (numpy's integers too), but no truth value."""
    try:
        if not isinstance(value, bool):
            return index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise BatchInputError(f"{name} must be a whole number, not {value!r}")


def batch_problem(
    *,
    B: int,
    M: int,
    N: int,
    K: int,
    operand: str | DType,
    batch_a: int | None = None,
    batch_b: int | None = None,
    bias: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> BatchProblem:
    """A validated :class:`BatchProblem`; ``batch_a`` and ``batch_b`` default to B.

    Raises :class:`BatchInputError` for arguments that make no sense and :class:`cost.errors.Rejected` for problems that have no
    plan: an empty result, or one too large to count.
    """
    element = dtype(operand)
    if element.name not in OPERANDS:
        raise BatchInputError(f"batch matmul of {element.name}: operands may be {', '.join(OPERANDS)}")
    batch_a, batch_b = B if batch_a is None else batch_a, B if batch_b is None else batch_b
    given = {"B": B, "M": M, "N": N, "K": K, "batch_a": batch_a, "batch_b": batch_b}
    extents = {name: whole(name, value) for name, value in given.items()}
    B, M, N, K, batch_a, batch_b = extents.values()
    for name, value in extents.items():
        if value < 0:
            raise BatchInputError(f"{name} = {value} is negative; extents are at least 0")
        if value > MAX_EXTENT:
            raise Rejected(f"{name} = {value} is beyond the longest extent, {MAX_EXTENT}")
    for name, flag in {"transpose_a": transpose_a, "transpose_b": transpose_b}.items():
        if not isinstance(flag, bool):
            raise BatchInputError(f"{name} must be True or False, not {flag!r}")
    if bias not in (None, "shared", "batched"):
        raise BatchInputError(f"bias = {bias!r}: it is None, 'shared' ([N]) or 'batched' ([B, 1, N])")
    empty = [f"{n} = 0" for n, v in (("B", B), ("M", M), ("N", N)) if v == 0]
    if empty:
        raise Rejected(f"C[{B}, {M}, {N}] is empty ({', '.join(empty)}): nothing to compute; give B, M and N of at least 1")
    if {batch_a, batch_b} - {1, B} or max(batch_a, batch_b) != B:
        raise BatchInputError(
            f"batch_a = {batch_a} and batch_b = {batch_b} do not broadcast to B = {B}: each is B or 1, and one of them is B"
        )
    problem = BatchProblem(B, M, N, K, element, batch_a, batch_b, bias, transpose_a, transpose_b)
    if problem.total_bytes > MAX_BYTES:
        raise Rejected(f"{problem} takes {problem.total_bytes} bytes, more than the {MAX_BYTES} that can be planned; split it")
    return problem
