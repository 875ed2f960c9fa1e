"""The tensors of a batch matmul as matrices, and loads and stores of their windows.

Batches of a contiguous tensor follow one another, so A [B, M, K] is the matrix [B·M, K] and a window of batch u begins at row
u·M. What is stored transposed is loaded as it lies and seen transposed in Mat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cost.batch.problem import BatchProblem
from ir_bridge.batch.builder import Builder, Index, add, mul
from ir_bridge.ir.nodes import Var
from ir_bridge.ir.types import Space

MAT = Space.MAT


@dataclass(frozen=True, slots=True)
class Side:
    """A matrix operand in Mat: A as [rows, depth], B as [depth, columns]; where the wanted part begins in it."""

    mat: Var
    row: Index = 0
    column: Index = 0


@dataclass(frozen=True, slots=True)
class Operand:
    """A or B in global memory, folded: ``extent`` rows of A (columns of B) and ``depth`` of K a batch.

    ``deep_rows``: K runs along the rows of the folded matrix. ``batched``: does every batch have its own?
    """

    name: str
    tensor: Var
    extent: int
    depth: int
    deep_rows: bool
    batched: bool
    right: bool

    def base(self, batch: Index) -> Index:
        """The first row of a batch in the folded matrix."""
        return mul(batch, self.depth if self.deep_rows else self.extent) if self.batched else 0

    def load(self, b: Builder, batch: Index, at: Index, size: int, held: Index, k: Index, deep: int, filled: Index) -> Side:
        """The window [at, at + held) of the extent by [k, k + filled) of K, in a tile of physical ``size`` by ``deep``."""
        base = self.base(batch)
        if self.deep_rows:
            offsets, shape, valid = [add(base, k), at], [deep, size], [filled, held]
        else:
            offsets, shape, valid = [add(base, at), k], [size, deep], [held, filled]
        return self.seen(b, b.let(f"{self.name}_mat", "tile.load", self.tensor, offsets, shape, valid, target_memory=MAT))

    def seen(self, b: Builder, mat: Var) -> Side:
        """A loaded tile as the product wants it: A by rows and K, B by K and columns."""
        if self.deep_rows == self.right:
            return Side(mat)
        return Side(b.let(f"{self.name}_view", "tile.transpose_view", mat))

    def stack(
        self, b: Builder, batch: Index, parts: tuple[int, int, Index], at: int, held: int, k: Index, deep: int, filled: Index
    ) -> Side:
        """Several batches by one transfer. ``parts``: how many there are room for, batches in each, how many are there.

        The extent is stacked: below one another where it runs along rows, else side by side; each part in boxes of its own.
        """
        room, each, count = parts
        base = self.base(batch)
        if self.deep_rows:
            offsets, shape, valid, axis = [add(base, k), 0], [room, deep, at], [count, filled, held], 1
        else:
            offsets, shape, valid, axis = [base, k], [room, at, deep], [count, held, filled], 0
        pitch = (self.depth if self.deep_rows else self.extent) * each if self.batched else 0
        load = b.let(
            f"{self.name}_mat", "tile.load_stack", self.tensor, offsets, shape, valid, pitch, axis=axis, target_memory=MAT
        )
        return self.seen(b, load)


@dataclass(frozen=True, slots=True)
class Tensors:
    """Everything a product reads and writes, folded into matrices. ``result`` is C [B·M, N] in its current state's type."""

    problem: BatchProblem
    a: Operand
    b: Operand
    bias: Var | None

    def bias_row(self, b: Builder, batch: Index, column: Index, size: int, held: Index) -> Var | None:
        """The bias of columns [column, column + held) of a batch in Mat, or None."""
        if self.bias is None:
            return None
        row = batch if self.problem.bias == "batched" else 0
        return b.let("bias_mat", "tile.load", self.bias, [row, column], [1, size], [1, held], target_memory=MAT)

    def bias_rows(self, b: Builder, batch: Index, batches: int, count: Index, size: int) -> Var | None:
        """The bias of several batches side by side, ``size`` columns each, or None."""
        if self.bias is None:
            return None
        row, pitch = (batch, 1) if self.problem.bias == "batched" else (0, 0)
        shape, valid = [batches, 1, size], [count, 1, self.problem.N]
        return b.let("bias_mat", "tile.load_stack", self.bias, [row, 0], shape, valid, pitch, axis=1, target_memory=MAT)

    def store(self, b: Builder, tile: Var, batch: Index, row: Index, column: Index, state: Var, **more: Any) -> Var:
        """The tile written to C of a batch at (row, column); the tensor's new state."""
        at = [add(mul(batch, self.problem.M), row), column]
        return b.let("c_state", "tile.store", tile, at, state, **more)


def operands(p: BatchProblem, a: Var, b: Var, bias: Var | None) -> Tensors:
    """:class:`Tensors` of a problem from its folded matrices."""
    left = Operand("a", a, p.M, p.K, p.transpose_a, p.batch_a > 1, False)
    right = Operand("b", b, p.N, p.K, not p.transpose_b, p.batch_b > 1, True)
    return Tensors(p, left, right, bias)
