"""The work of each branch's schedules: what every core reads, multiplies, drains and writes (terms in docs/batch.md).

One function a branch; each takes the problem, the chip and the choices as arrays (one row a schedule) and returns
:class:`~cost.batch.latency.Work`. Extents that are multiplied or drained are boxed, bytes that are moved are true; interior
blocks stand for all blocks of the busiest core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cost.batch import tiling
from cost.batch.chip import Chip
from cost.batch.latency import Work
from cost.batch.problem import BatchProblem
from cost.batch.tiling import BOTH_CUT, HELD_A, HELD_B, NOTHING, ONE_LEFT, ONE_RIGHT, PING_LEFT, PING_PONG, PING_RIGHT
from cost.physical import align_up, ceil_div
from cost.problem import Problem
from cost.roofline import drain_cycles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Array = NDArray[np.float64]

# -- parts that branches share ---------------------------------------------------------------------------------------


def mmad(p: BatchProblem, chip: Chip, m: Any, n: Any, k: Any, depth: Any) -> Any:
    """Cycles of the cube for an m × n × k product in panels ``depth`` deep: one head a panel, and the boxed volume."""
    volume = 2.0 * align_up(m, 16) * align_up(n, 16) * align_up(k, 32 // p.bytes)
    return chip.target.roofline.mad_head * ceil_div(k, depth) + volume / chip.flop_per_cycle(p.operand)


def mte1(p: BatchProblem, chip: Chip, m: Any, n: Any, k: Any, a_times: Any = 1, b_times: Any = 1) -> Any:
    """Cycles of loads into L0: A [m, k] ``a_times`` and B [k, n] ``b_times``, at the core's calibrated bandwidths."""
    r = chip.target.roofline
    return (1.0 * m * k * a_times / r.bw_l0a + 1.0 * k * n * b_times / r.bw_l0b) * p.bytes


def drain(p: BatchProblem, chip: Chip, m: Any, n: Any) -> Any:
    """Cycles of FIXPIPE for one m × n accumulator (the roofline's drain)."""
    some = Problem.of(1, 1, 1, p.operand)
    m, n = np.asarray(m, dtype=np.float64), np.asarray(n, dtype=np.float64)
    return drain_cycles(m, n, some, chip.target)


def billed(chip: Chip, run: Any) -> Any:
    """How much longer a transfer takes whose contiguous runs are ``run`` bytes: shorter runs cost as much as the floor."""
    return np.maximum(1.0, chip.run_bytes / np.maximum(run, 1))


def run_a(p: BatchProblem, m: Any, k: Any) -> Any:
    """Bytes of a contiguous run of an m × k window of A."""
    return (m if p.transpose_a else k) * p.bytes


def run_b(p: BatchProblem, k: Any, n: Any) -> Any:
    """Bytes of a contiguous run of a k × n window of B."""
    return (k if p.transpose_b else n) * p.bytes


def once(p: BatchProblem) -> tuple[float, float]:
    """Bytes of A and of B as they lie in memory."""
    return float(p.batch_a) * p.M * p.K * p.bytes, float(p.batch_b) * p.K * p.N * p.bytes


def result_bytes(p: BatchProblem) -> float:
    """Bytes of C."""
    return float(p.B) * p.M * p.N * p.result.bytes


def shares(reads: Any, from_gm: Any) -> Any:
    """The fraction of ``reads`` that comes from global memory; the rest comes from L2."""
    return np.where(np.asarray(reads) > 0, np.minimum(np.asarray(from_gm) / np.maximum(reads, 1e-9), 1.0), 0.0)


# -- MergeBatch ------------------------------------------------------------------------------------------------------


def merge_work(p: BatchProblem, chip: Chip, b: Ints, k_l1: Ints) -> Work:
    """b batches at a time as one [bM, K] @ [K, bN] product, of which only the diagonal blocks are written."""
    per = tiling.batches_per_core(p, chip)
    rows, columns = tiling.merged_rows(p, b), tiling.merged_columns(p, b)
    k_l0 = tiling.panel_depth(p, chip, rows, columns)
    groups = tiling.merged_groups(p, chip, b, k_l1)
    times = ceil_div(per, b)
    k = np.minimum(k_l1, p.K)
    a, bb = float(p.M) * p.K * p.bytes * per, float(p.N) * p.K * p.bytes * per
    reads_a, reads_b = float(p.B) * p.M * p.K * p.bytes, float(p.B) * p.K * p.N * p.bytes
    gm_a, gm_b = (shares(r, o) for r, o in zip((reads_a, reads_b), once(p), strict=True))
    bill_a, bill_b = billed(chip, run_a(p, p.M, k)), billed(chip, run_b(p, k, p.N))
    from_gm, from_l2 = a * bill_a * gm_a + bb * bill_b * gm_b, a * bill_a * (1 - gm_a) + bb * bill_b * (1 - gm_b)
    return Work(
        mmad=times * mmad(p, chip, rows, columns, p.K, k_l0),
        mte1=times * mte1(p, chip, rows, columns, p.K),
        drain=times * drain(p, chip, b * p.M, np.full(len(b), p.N)),
        transfers=2.0 * ceil_div(per, groups * b) * ceil_div(p.K, k_l1),
        gm=from_gm,
        l2=from_l2,
        gm_read=sum(once(p)),
        l2_read=reads_a + reads_b - sum(once(p)),
        written=result_bytes(p),
        core_written=float(per) * p.M * p.N * p.result.bytes,
    )


# -- IterBatch -------------------------------------------------------------------------------------------------------


def iter_block(p: BatchProblem, chip: Chip, case: int, accumulators: int, cut: int) -> tuple[int, int, int]:
    """(BaseM, BaseN, BaseK) of one case; ``cut`` is the piece of K (of M where A alone is cut) that L1 takes at a time."""
    rows = min(cut, p.M) if case in (ONE_RIGHT, PING_RIGHT) else p.M
    depth = min(cut, p.K) if case in (ONE_LEFT, PING_LEFT, BOTH_CUT) else p.K
    in_turn = case in (PING_PONG, PING_LEFT, PING_RIGHT)
    m, n, k = tiling.base_tile(p, chip, rows, p.N, accumulators, depth if in_turn else None)
    return m, n, min(k, align_up(depth, p.box_k))


def iter_work(p: BatchProblem, chip: Chip, case: Ints, cut: Ints, batches: Ints, accumulators: Ints) -> Work:
    """Whole batches over the cores, one after another in each; ``batches`` are loaded by one transfer."""
    per = tiling.batches_per_core(p, chip)
    blocks = np.array([iter_block(p, chip, *row) for row in zip(case.tolist(), accumulators.tolist(), cut.tolist(), strict=True)])
    base_m, base_n, base_k = blocks.reshape(-1, 3).T
    columns = ceil_div(p.N, base_n)
    rows = ceil_div(p.M, base_m)
    left, right, both = np.isin(case, (ONE_LEFT, PING_LEFT)), np.isin(case, (ONE_RIGHT, PING_RIGHT)), case == BOTH_CUT
    k = np.where(left | both, cut, p.K)
    a_times, b_times = np.where(both, columns, 1), np.where(left | both, rows, 1)
    pieces_a = np.where(right, ceil_div(p.M, cut), np.where(both, rows * columns * ceil_div(p.K, cut), 1))
    pieces_b = np.where(left | both, rows * columns * ceil_div(p.K, cut), 1)
    a, b = float(p.M) * p.K * p.bytes, float(p.K) * p.N * p.bytes
    bill_a = billed(chip, run_a(p, np.where(right, cut, p.M), k))
    bill_b = billed(chip, run_b(p, k, np.where(left | both, base_n, p.N)))
    # What a core reads again it finds in L2 where all cores' batches fit there together.
    fits = chip.cores * (a + b) <= chip.l2_bytes
    reads = p.B * (a * a_times + b * b_times)
    from_gm = np.where(fits, sum(once(p)), once(p)[0] * a_times + once(p)[1] * b_times)
    part = shares(reads, from_gm)
    core = per * (a * a_times * bill_a + b * b_times * bill_b)
    return Work(
        mmad=per * rows * columns * mmad(p, chip, np.minimum(base_m, p.M), np.minimum(base_n, p.N), p.K, base_k),
        mte1=per * mte1(p, chip, p.M, p.N, p.K, columns, rows),
        drain=per * rows * columns * drain(p, chip, np.minimum(base_m, p.M), np.minimum(base_n, p.N)),
        transfers=ceil_div(per, batches) * (pieces_a + pieces_b),
        gm=core * part,
        l2=core * (1 - part),
        exposed=(accumulators == 1).astype(np.float64),
        serial=_pieces_wait(p, chip, case, cut, base_m, base_n).astype(np.float64),
        gm_read=from_gm,
        l2_read=reads - from_gm,
        written=result_bytes(p),
        core_written=float(per) * p.M * p.N * p.result.bytes,
    )


def _pieces_wait(p: BatchProblem, chip: Chip, case: Ints, cut: Ints, m: Ints, n: Ints) -> Any:
    """Does L1 hold one piece only, so that the cube waits for the next? (Cases c and e; d has two of everything.)"""
    rows, columns, depth = tiling.boxed(p)
    elements = np.select(
        [case == ONE_LEFT, case == ONE_RIGHT, case == BOTH_CUT],
        [rows * depth + 2 * cut * n, columns * depth + 2 * cut * depth, 2 * (m + n) * cut],
        0,
    )
    return elements * p.bytes > chip.l1_bytes


# -- ASW_Basic -------------------------------------------------------------------------------------------------------


def read_from_gm(p: BatchProblem, chip: Chip, m: Ints, n: Ints, cut_m: Ints, cut_n: Ints) -> tuple[Any, Any]:
    """Bytes of A and of B that come from global memory when m × n blocks run in the swizzle's order; the rest hits L2.

    Within one L2 tile (``cut_m`` × ``cut_n`` of them) everything is read once. Without L2 cuts the snake keeps a window of W row
    blocks of A and a band of columns of B alive: A is read once, B once a window, or once in all where L2 holds B too.
    """
    a, b = once(p)
    rows, columns = ceil_div(p.M, m), ceil_div(p.N, n)
    height, width = np.minimum(chip.window, rows), np.minimum(chip.cores // chip.window, columns)
    flying = np.minimum(p.B, ceil_div(chip.cores, rows * columns))
    row_bytes, column_bytes = 1.0 * p.K * p.bytes * np.minimum(m, p.M), 1.0 * p.K * p.bytes * np.minimum(n, p.N)
    alive = flying * (height * row_bytes + width * column_bytes)
    b_one = float(p.K) * p.N * p.bytes
    a_one = float(p.M) * p.K * p.bytes
    b_stays = flying * height * row_bytes + np.minimum(flying, p.batch_b) * b_one <= chip.l2_bytes
    windows = np.where(b_stays, 1, ceil_div(rows, height))
    # A broadcast operand stays in L2 from batch to batch only where it fits beside what is alive.
    a_again = p.B if p.batch_a == 1 and p.B > 1 and a_one + float(b_one) > chip.l2_bytes else 1
    b_again = p.B if p.batch_b == 1 and p.B > 1 and a_one + float(b_one) > chip.l2_bytes else 1
    swizzled_a, swizzled_b = a * a_again * np.ones(len(m)), b * b_again * windows
    everything_a, everything_b = p.B * a_one * columns, p.B * b_one * rows
    hit = alive <= chip.l2_bytes
    swizzled_a, swizzled_b = np.where(hit, swizzled_a, everything_a), np.where(hit, swizzled_b, everything_b)
    cut = (cut_m > 1) | (cut_n > 1)
    from_a = np.where(cut, a * a_again * cut_n, swizzled_a)
    from_b = np.where(cut, b * b_again * cut_m, swizzled_b)
    return np.minimum(from_a, everything_a), np.minimum(from_b, everything_b)


def blocks_work(p: BatchProblem, chip: Chip, m: Ints, n: Ints, accumulators: Ints, held: Ints, cut_m: Ints, cut_n: Ints) -> Work:
    """m × n blocks of C dealt out to the cores in turn, each summed over all of K; a held operand is loaded once a core."""
    rows, columns = ceil_div(p.M, m), ceil_div(p.N, n)
    outer_rows, outer_columns = np.where(held == HELD_A, 1, rows), np.where(held == HELD_B, 1, columns)
    items = p.B * outer_rows * outer_columns
    # L2 parts run one after another, so each of them has a last wave of its own.
    in_part = ceil_div(outer_rows, cut_m) * ceil_div(outer_columns, cut_n)
    waves = np.where(cut_m * cut_n > 1, p.B * cut_m * cut_n * ceil_div(in_part, chip.cores), ceil_div(items, chip.cores))
    along = np.where(held == HELD_A, rows, 1) * np.where(held == HELD_B, columns, 1)
    share = waves * along
    pm, pn = align_up(np.minimum(m, p.M), p.box_m), align_up(np.minimum(n, p.N), p.box_n)
    k_l0 = np.maximum(tiling.panel_depth(p, chip, pm, pn), p.box_k)
    k_l1, _ = tiling.stream_panels(p, chip, pm, pn, k_l0, p.K, held)
    k_l1 = np.maximum(k_l1, p.box_k)
    tm, tn = np.minimum(m, p.M), np.minimum(n, p.N)
    a_one, b_one = float(p.M) * p.K * p.bytes, float(p.K) * p.N * p.bytes
    a_block, b_block = 1.0 * tm * p.K * p.bytes, 1.0 * p.K * tn * p.bytes
    # A held operand is read once by each busy core; a streamed one for every block.
    busy = np.minimum(items, chip.cores)
    reads_a = np.where(held == HELD_A, busy * a_one, p.B * a_one * columns)
    reads_b = np.where(held == HELD_B, busy * b_one, p.B * b_one * rows)
    gm_a, gm_b = read_from_gm(p, chip, m, n, cut_m, cut_n)
    gm_a, gm_b = np.where(held == HELD_A, once(p)[0], gm_a), np.where(held == HELD_B, once(p)[1], gm_b)
    share_a, share_b = shares(reads_a, gm_a), shares(reads_b, gm_b)
    core_a = np.where(held == HELD_A, a_one, share * a_block) * billed(chip, run_a(p, tm, np.minimum(k_l1, p.K)))
    core_b = np.where(held == HELD_B, b_one, share * b_block) * billed(chip, run_b(p, np.minimum(k_l1, p.K), tn))
    panels = ceil_div(max(p.K, 1), k_l1)
    return Work(
        mmad=share * mmad(p, chip, tm, tn, p.K, k_l0),
        mte1=share * mte1(p, chip, tm, tn, p.K),
        drain=share * drain(p, chip, tm, tn),
        transfers=share * panels * np.where(held == NOTHING, 2, 1) + (held != NOTHING),
        gm=core_a * share_a + core_b * share_b,
        l2=core_a * (1 - share_a) + core_b * (1 - share_b),
        exposed=(accumulators == 1).astype(np.float64),
        gm_read=gm_a + gm_b,
        l2_read=reads_a + reads_b - gm_a - gm_b,
        written=result_bytes(p),
        core_written=share * 1.0 * tm * tn * p.result.bytes,
    )


# -- StreamK ---------------------------------------------------------------------------------------------------------


def stream_k_work(p: BatchProblem, chip: Chip, rows: Ints, columns: Ints, grid_k: Ints, atomic: Ints) -> Work:
    """rows × columns blocks a batch, each summed by ``grid_k`` cores whose partial sums are reduced."""
    tm, tn = ceil_div(p.M, rows), ceil_div(p.N, columns)
    pm, pn = align_up(tm, p.box_m), align_up(tn, p.box_n)
    seg = np.minimum(tiling.segment(p, grid_k), p.K)
    k_l0 = np.maximum(tiling.panel_depth(p, chip, pm, pn), p.box_k)
    k_l1, _ = tiling.stream_panels(p, chip, pm, pn, k_l0, seg, np.zeros_like(rows))
    k_l1 = np.maximum(k_l1, p.box_k)
    a_one, b_one = float(p.M) * p.K * p.bytes, float(p.K) * p.N * p.bytes
    reads_a, reads_b = p.B * a_one * columns, p.B * b_one * rows
    gm_a, gm_b = once(p)
    share_a, share_b = shares(reads_a, gm_a), shares(reads_b, gm_b)
    k = np.minimum(k_l1, seg)
    core_a = 1.0 * tm * seg * p.bytes * billed(chip, run_a(p, tm, k))
    core_b = 1.0 * seg * tn * p.bytes * billed(chip, run_b(p, k, tn))
    sums = float(p.B) * p.M * p.N * p.sums.bytes
    partial = sums * grid_k
    workspace = atomic == 0
    return Work(
        mmad=mmad(p, chip, tm, tn, seg, k_l0),
        mte1=mte1(p, chip, tm, tn, seg),
        drain=drain(p, chip, tm, tn),
        transfers=2.0 * ceil_div(seg, k_l1),
        gm=core_a * share_a + core_b * share_b,
        l2=core_a * (1 - share_a) + core_b * (1 - share_b),
        exposed=1.0,
        gm_read=gm_a + gm_b,
        l2_read=reads_a + reads_b - gm_a - gm_b,
        written=partial,
        core_written=1.0 * tm * tn * p.sums.bytes,
        # The workspace is written (Fixpipe), read back, and C written; atomic adds only need C cleared first.
        reduced=np.where(workspace, partial + result_bytes(p), result_bytes(p)),
        reduce_vector=np.where(workspace, partial, sums) / (chip.vector_bytes_per_cycle * chip.vector_cores),
        barriers=1.0,
    )


# -- special branches and re-layout ----------------------------------------------------------------------------------


def fill_work(p: BatchProblem, chip: Chip) -> Work:
    """K = 0: C = bias or 0, written by the vector cores."""
    (rows, columns), (down, across) = (f(chip, p.B, p.M, p.N) for f in (tiling.vector_block, tiling.vector_grid))
    share = ceil_div(p.B * down * across, chip.vector_cores) * float(rows) * min(columns, p.N) * p.result.bytes
    bias = {None: 0.0, "shared": 1.0, "batched": float(p.B)}[p.bias] * p.N * p.result.bytes
    return Work(
        vector=share / chip.vector_bytes_per_cycle,
        gm_read=bias,
        gm=bias / chip.vector_cores,
        written=result_bytes(p),
        core_written=share,
    )


def outer_work(p: BatchProblem, chip: Chip) -> Work:
    """K = 1: C = A ⊙ B, row times column, on the vector cores."""
    per = ceil_div(p.B, chip.vector_cores)
    operands = (p.M + p.N) * float(p.bytes)
    block = float(p.M) * p.N * p.result.bytes
    reads, unique = p.B * operands, sum(once(p))
    part = float(shares(reads, unique))
    return Work(
        vector=per * float(p.M) * p.N * p.sums.bytes * (2.0 if p.bias else 1.0) / chip.vector_bytes_per_cycle,
        transfers=2.0 * per,
        gm=per * operands * part,
        l2=per * operands * (1 - part),
        gm_read=unique,
        l2_read=reads - unique,
        written=result_bytes(p),
        core_written=per * block,
    )


def relaid_bytes(p: BatchProblem) -> float:
    """Bytes that folding B into columns moves besides the product: B read and written in its new layout (nothing where B is
    stored transposed), the [M, B·N] result of sums read and C written."""
    layout = 0.0 if p.transpose_b else 2.0 * once(p)[1]
    return layout + float(p.B) * p.M * p.N * (p.sums.bytes + p.result.bytes)
