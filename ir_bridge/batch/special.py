"""Work of the vector cores: filling, K = 1 products, reductions and re-layouts, block by block of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cost.batch.chip import Chip
from cost.batch.problem import BatchProblem
from cost.batch.tiling import vector_block, vector_grid
from cost.dtypes import DType
from ir_bridge.batch.builder import Builder, Index, add, div, mod, mul
from ir_bridge.batch.operands import Tensors
from ir_bridge.ir.nodes import LoopKind, Var
from ir_bridge.ir.types import Space, TensorType

VEC = Space.VEC


@dataclass(frozen=True, slots=True)
class VectorCores:
    """The vector cores whose work is written, of all that the chip has."""

    chip: Chip
    range: tuple[int, int]


#: Writes one block: (builder, batch, row, held rows, column, held columns, block shape, state) to the new state.
Block = Callable[[Builder, Index, Index, Index, Index, Index, tuple[int, int], Var], Var]


def spread(
    b: Builder,
    cores: VectorCores,
    batches: int,
    plane: tuple[int, int],
    state: Var,
    block: Block,
    *,
    whole_batches: bool = False,
) -> Var:
    """Blocks of ``batches`` matrices of ``plane`` rows and columns, dealt to the vector cores in turn; or batches of them."""
    rows, columns = plane
    r, n = vector_block(cores.chip, batches, rows, columns)
    down, across = vector_grid(cores.chip, batches, rows, columns)

    def core(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        def item(x: Builder, u: Index, t: Index, states: tuple[Var, ...]) -> tuple[Var, ...]:
            row = x.scalar("row", mul(mod(div(t, across), down), r))
            column = x.scalar("column", mul(mod(t, across), n))
            held, wide = x.clipped("rows", row, r, rows), x.clipped("columns", column, n, columns)
            return (block(x, u, row, held, column, wide, (r, n), states[0]),)

        def blocks_of(x: Builder, u: Index, states: tuple[Var, ...]) -> tuple[Var, ...]:
            return x.loop(LoopKind.RANGE, "part", (0, down * across, 1), states, lambda y, t, s: item(y, u, t, s))

        def dealt(x: Builder, t: Index, states: tuple[Var, ...]) -> tuple[Var, ...]:
            return item(x, x.scalar("batch", div(t, down * across)), t, states)

        items, body = (batches, blocks_of) if whole_batches else (batches * down * across, dealt)
        return inner.loop(LoopKind.RANGE, "item", (i, items, cores.chip.vector_cores), carried, body)

    (done,) = b.loop(LoopKind.SPMD, "vector_core", (*cores.range, 1), [state], core)
    return done


def zeros(b: Builder, shape: tuple[int, int], dtype: DType, rows: Index, columns: Index) -> Var:
    """A tile of zeros, valid in rows × columns."""
    tile = b.let("zero", "tile.full", list(shape), dtype=dtype, value=0 if not dtype.is_float else 0.0)
    if (rows, columns) == shape:
        return tile
    return b.let("zero_part", "tile.set_validshape", tile, rows, columns)


def widened(b: Builder, tile: Var, source: DType, target: DType) -> Var:
    """The tile in the accumulators' type."""
    return tile if source == target else b.let(f"{tile.name}_wide", "tile.cast", tile, target_type=target, mode="rint")


def bias_of(b: Builder, t: Tensors, u: Index, column: Index, size: int, held: Index) -> Var | None:
    """The bias row of a block in the accumulators' type, or None."""
    p = t.problem
    if t.bias is None:
        return None
    at = [u if p.bias == "batched" else 0, column]
    row = b.let("bias_row", "tile.load", t.bias, at, [1, size], [1, held], target_memory=VEC)
    return widened(b, row, p.result, p.sums)


def finished(b: Builder, t: Tensors, total: Var, bias: Var | None, state: Var) -> Var:
    """Sums plus bias, in the type of the tensor they go to."""
    if bias is not None:
        total = b.let("biased", "tile.col_expand_add", total, bias)
    assert isinstance(state.type, TensorType)
    if state.type.dtype == t.problem.sums:
        return total
    return b.let("narrow", "tile.cast", total, target_type=state.type.dtype, mode="rint")


def fill(b: Builder, t: Tensors, cores: VectorCores, state: Var) -> Var:
    """K = 0: C = bias or 0."""
    p = t.problem

    def block(
        x: Builder, u: Index, row: Index, rows: Index, column: Index, columns: Index, shape: tuple[int, int], s: Var
    ) -> Var:
        nothing = zeros(x, shape, p.sums, rows, columns)
        value = finished(x, t, nothing, bias_of(x, t, u, column, shape[1], columns), s)
        return t.store(x, value, u, row, column, s)

    return spread(b, cores, p.B, (p.M, p.N), state, block)


def outer(b: Builder, t: Tensors, cores: VectorCores, state: Var) -> Var:
    """K = 1: C[u] = column of A[u] times row of B[u]; with K = 1 every layout of A is a column, every layout of B a row."""
    p = t.problem

    def block(
        x: Builder, u: Index, row: Index, rows: Index, column: Index, columns: Index, shape: tuple[int, int], s: Var
    ) -> Var:
        left_at = [add(mul(u, p.M) if p.batch_a > 1 else 0, row), 0]
        right_at = [u if p.batch_b > 1 else 0, column]
        left = x.let("a_column", "tile.load", t.a.tensor, left_at, [shape[0], 1], [rows, 1], target_memory=VEC)
        right = x.let("b_row", "tile.load", t.b.tensor, right_at, [1, shape[1]], [1, columns], target_memory=VEC)
        left, right = widened(x, left, p.operand, p.sums), widened(x, right, p.operand, p.sums)
        spread_out = x.let("b_rows", "tile.col_expand", zeros(x, shape, p.sums, rows, columns), right)
        product = x.let("product", "tile.row_expand_mul", spread_out, left)
        value = finished(x, t, product, bias_of(x, t, u, column, shape[1], columns), s)
        return t.store(x, value, u, row, column, s)

    return spread(b, cores, p.B, (p.M, p.N), state, block, whole_batches=True)


def reduce(b: Builder, t: Tensors, cores: VectorCores, workspace: Var, parts: int, state: Var) -> Var:
    """C = Σ over segments of the workspace [parts · B · M, N], plus bias, always in the same order."""
    p = t.problem

    def block(
        x: Builder, u: Index, row: Index, rows: Index, column: Index, columns: Index, shape: tuple[int, int], s: Var
    ) -> Var:
        def load(y: Builder, part: Index) -> Var:
            at = [add(mul(add(mul(part, p.B), u), p.M), row), column]
            return y.let("partial", "tile.load", workspace, at, list(shape), [rows, columns], target_memory=VEC)

        def more(y: Builder, part: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            return (y.let("total", "tile.add", carried[0], load(y, part)),)

        (total,) = x.loop(LoopKind.RANGE, "part", (1, parts, 1), [load(x, 0)], more) if parts > 1 else (load(x, 0),)
        value = finished(x, t, total, bias_of(x, t, u, column, shape[1], columns), s)
        return t.store(x, value, u, row, column, s)

    return spread(b, cores, p.B, (p.M, p.N), state, block)


def scatter(b: Builder, t: Tensors, cores: VectorCores, sums: Var, state: Var) -> Var:
    """C[u] = columns u·N … of the sums [M, B·N], plus bias."""
    p = t.problem

    def block(
        x: Builder, u: Index, row: Index, rows: Index, column: Index, columns: Index, shape: tuple[int, int], s: Var
    ) -> Var:
        at = [row, add(mul(u, p.N), column)]
        total = x.let("sums", "tile.load", sums, at, list(shape), [rows, columns], target_memory=VEC)
        value = finished(x, t, total, bias_of(x, t, u, column, shape[1], columns), s)
        return t.store(x, value, u, row, column, s)

    return spread(b, cores, p.B, (p.M, p.N), state, block)


def relay(b: Builder, p: BatchProblem, source: Var, cores: VectorCores, target: Var) -> Var:
    """B [B·K, N] laid out as [K, B·N]."""

    def block(
        x: Builder, u: Index, row: Index, rows: Index, column: Index, columns: Index, shape: tuple[int, int], s: Var
    ) -> Var:
        at = [add(mul(u, p.K), row), column]
        part = x.let("b_part", "tile.load", source, at, list(shape), [rows, columns], target_memory=VEC)
        return x.let("relaid", "tile.store", part, [row, add(mul(u, p.N), column)], s)

    return spread(b, cores, p.B, (p.K, p.N), target, block)
