"""Parameters that follow from a choice: what specification 3 derives for each branch once its free choices are made.

Everything takes integers or integer arrays alike, and answers in elements unless said otherwise. Sizes are physical: every extent
is rounded up to its box (``BatchProblem.box_m/n/k``), so what is computed here fits. Each function names its section of the
specification; corrections to it are those of facts/batch_matmul_notes.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cost.batch.chip import Chip
from cost.batch.problem import BatchProblem
from cost.physical import align_up, ceil_div

#: An integer or an array of them.
Size = Any
#: Rows and columns of the cube's smallest output.
FRACTAL = 16

#: Cases of IterBatch (specification 3, "IterBatch", condition 3), left or right being the operand that stays in L1 whole.
ONE_BATCH, PING_PONG, ONE_LEFT, ONE_RIGHT, PING_LEFT, PING_RIGHT, BOTH_CUT = range(7)
CASE_NAMES = ("a", "b", "c-left", "c-right", "d-left", "d-right", "e")
#: What a core keeps in L1 across blocks of ASW_Basic.
NOTHING, HELD_A, HELD_B = 0, 1, 2


def align_down(x: Size, multiple: Size) -> Size:
    """``x`` rounded down to a multiple of ``multiple``."""
    return x // multiple * multiple


def least(*values: Size) -> Size:
    """The smallest of the values, element by element."""
    found = values[0]
    for v in values[1:]:
        found = np.minimum(found, v)
    return found if isinstance(found, np.ndarray) and found.ndim else int(found)


def most(*values: Size) -> Size:
    """The largest of the values, element by element."""
    return -least(*(-v for v in values))


def boxed(p: BatchProblem) -> tuple[int, int, int]:
    """(M, N, K) of one batch, each rounded up to its box."""
    return align_up(p.M, p.box_m), align_up(p.N, p.box_n), align_up(p.K, p.box_k)


def batches_per_core(p: BatchProblem, chip: Chip) -> int:
    """Batches of the busiest core when whole batches are spread: ⌈B/C⌉."""
    return ceil_div(p.B, chip.cores)


# -- L0: panels that two buffers of each operand hold ----------------------------------------------------------------


def copies(p: BatchProblem) -> int:
    """Copies of a streamed panel that its buffer holds: two, and two more of the first one where it is peeled for a bias."""
    return 4 if p.bias else 2


def panel_depth(p: BatchProblem, chip: Chip, m: Size, n: Size) -> Size:
    """k_L0 of an m × n block: deepest K panel that fits L0A and L0B twice, a multiple of the K box and no deeper than K.

    "MergeBatch, Step 2" and "ASW_Basic, 4": 2·m·k·dtype ≤ L0A, 2·k·n·dtype ≤ L0B. 0 where not even one box fits.
    """
    s = p.bytes * copies(p)
    k = least(chip.l0a_bytes // (m * s), chip.l0b_bytes // (n * s), align_up(most(p.K, 1), p.box_k))
    return align_down(k, p.box_k)


# -- MergeBatch ------------------------------------------------------------------------------------------------------


def least_depth(p: BatchProblem, chip: Chip) -> int:
    """Least k_L0 of merged batches: a run of 32 bytes along K (k_thr), in boxes, at most K ("MergeBatch, Step 2")."""
    return min(align_up(ceil_div(chip.k_run_bytes, p.bytes), p.box_k), align_up(max(p.K, 1), p.box_k))


def packs_rows(p: BatchProblem) -> bool:
    """Do merged batches of A follow one another without boxes? They lie so, unless A is stored transposed or is one for all."""
    return not p.transpose_a and p.batch_a > 1


def merged_rows(p: BatchProblem, b: Size) -> Size:
    """Rows of b merged batches of A: packed and boxed once, or boxed batch by batch."""
    return align_up(b * p.M, FRACTAL) if packs_rows(p) else b * align_up(p.M, p.box_m)


def packs_columns(p: BatchProblem) -> bool:
    """Do merged batches of B follow one another without boxes? They lie so where B is stored transposed; a bias wants boxes."""
    return p.transpose_b and p.batch_b > 1 and not p.bias


def merged_columns(p: BatchProblem, b: Size) -> Size:
    """Columns of b merged batches of B: packed and boxed once, or boxed batch by batch."""
    return align_up(b * p.N, FRACTAL) if packs_columns(p) else b * align_up(p.N, p.box_n)


def merged_groups(p: BatchProblem, chip: Chip, b: Size, k_l1: Size) -> Size:
    """b_L1 / b: merged groups that stay in L1 together, two buffers deep.

    "MergeBatch, Step 3": 2·b_L1·(M·k_L1 + k_L1·N)·dtype ≤ L1 and b_L1 ≤ b_core. Where K is cut in L1 one group at a time is
    summed, so there is one; and where b does not divide every core's share, since a transfer takes equal groups.
    """
    per = batches_per_core(p, chip)
    whole = k_l1 >= align_up(p.K, p.box_k)
    depth = np.where(whole, align_up(p.K, least_depth(p, chip)), k_l1)
    group = (merged_rows(p, b) + merged_columns(p, b)) * depth * p.bytes
    fit = least((chip.l1_bytes - bias_rows(p, merged_columns(p, b))) // (2 * group), ceil_div(per, b))
    even = (per % b == 0) & (p.B % chip.cores == 0) & whole
    found = np.asarray(np.where(even, fit, least(fit, 1)))
    return found if found.ndim else int(found)


# -- base tiles of one batch's product in L1 -------------------------------------------------------------------------


def widest(p: BatchProblem, chip: Chip) -> tuple[int, int]:
    """Largest (BaseM, BaseN) that any schedule may have: the thinnest panels fit twice, and two bias windows fit their table."""
    thinnest = copies(p) * p.box_k * p.bytes
    rows, columns = align_down(chip.l0a_bytes // thinnest, p.box_m), align_down(chip.l0b_bytes // thinnest, p.box_n)
    if p.bias:
        columns = min(columns, align_down(chip.bias_bytes // (2 * p.sums.bytes), p.box_n))
    return rows, columns


def base_tile(
    p: BatchProblem, chip: Chip, rows: int, columns: int, accumulators: int, depth: int | None = None
) -> tuple[int, int, int]:
    """(BaseM, BaseN, BaseK) of a rows × columns product whose operands lie in L1 ("IterBatch", situations a and b).

    The whole output where L0C holds it ``accumulators`` times; else the smaller side whole and the other as L0C allows. BaseK
    follows from L0A and L0B (a); with ``depth`` it comes before the other side (b): as deep as the smaller side's buffer and
    ``depth`` allow, and the other side then fits its own buffer at that depth. (The other side is the *smaller* of its two
    bounds: the specification's max would not fit.)
    """
    top_m, top_n = widest(p, chip)
    m, n = align_up(rows, p.box_m), align_up(columns, p.box_n)
    room = chip.l0c_bytes // (p.sums.bytes * accumulators)
    if m * n > room or m > top_m or n > top_n:
        by_rows = rows < columns
        if by_rows:
            m = min(m, top_m, align_down(room // p.box_n, p.box_m))
            n = min(n, top_n, align_down(room // m, p.box_n))
        else:
            n = min(n, top_n, align_down(room // p.box_m, p.box_n))
            m = min(m, top_m, align_down(room // n, p.box_m))
        if depth is not None:
            k = min(align_up(depth, p.box_k), panel_depth(p, chip, m if by_rows else p.box_m, p.box_n if by_rows else n))
            other = (chip.l0b_bytes if by_rows else chip.l0a_bytes) // (k * p.bytes * copies(p))
            m, n = (m, min(n, align_down(other, p.box_n))) if by_rows else (min(m, align_down(other, p.box_m)), n)
    return m, n, least(panel_depth(p, chip, m, n), align_up(p.K if depth is None else depth, p.box_k))


# -- ASW_Basic and StreamK -------------------------------------------------------------------------------------------


def panel_width(held: Size, m: Size, n: Size) -> Size:
    """Rows and columns that stream past an m × n accumulator: both sides, or the one that is not held."""
    return m * (held != HELD_A) + n * (held != HELD_B)


def held_bytes(p: BatchProblem, held: Size, m: Size, n: Size, k: Size) -> Size:
    """Bytes of L1 for the side a core keeps, in whole L0 tiles."""
    depth = align_up(p.K, k) * p.bytes
    return align_up(p.M, m) * depth * (held == HELD_A) + align_up(p.N, n) * depth * (held == HELD_B)


def bias_rows(p: BatchProblem, n: Size) -> Size:
    """Bytes of L1 for two bias rows of n columns."""
    return 2 * n * p.result.bytes * bool(p.bias)


def stream_panels(p: BatchProblem, chip: Chip, m: Size, n: Size, k: Size, depth: Size, held: Size) -> tuple[Size, Size]:
    """(k_L1, panels a trip) of panels that stream past an m × n accumulator, each a multiple of the L0 panel k.

    "ASW_Basic, 4": L1 holds two buffers, or four (two panels a trip) where it has room for four whose transfers are still
    efficient. k_L1 is 0 where two of the thinnest do not fit.
    """
    room = most(chip.l1_bytes - held_bytes(p, held, m, n, k) - bias_rows(p, n), 0)
    width = panel_width(held, m, n) * p.bytes
    whole = align_up(depth, k)
    two, four = (least(align_down(room // (c * width), k), whole) for c in (copies(p), 4))
    narrow = np.where(held == NOTHING, least(m, n), panel_width(held, m, n))
    panels = ceil_div(depth, most(four, 1))
    ample = (four > 0) & (narrow * four * p.bytes >= chip.min_tile_bytes) & (panels % 2 == 0) & (not p.bias)
    k_l1, trip = np.where(ample, four, two), np.where(ample, 2, 1)
    return (k_l1, trip) if k_l1.ndim else (int(k_l1), int(trip))


def segment(p: BatchProblem, grid_k: Size) -> Size:
    """singleCoreK: K of one core's segment, ⌈K / grid_K⌉ in whole boxes ("StreamK")."""
    return align_up(ceil_div(p.K, grid_k), p.box_k)


# -- the vector cores ------------------------------------------------------------------------------------------------

#: Tiles of 4-byte elements that the longest body of a vector core keeps at once, with room to spare.
_LIVE_BYTES = 24


def vector_block(chip: Chip, batches: int, rows: int, columns: int) -> tuple[int, int]:
    """(rows, columns) of blocks of ``batches`` rows × columns matrices for the vector cores.

    The vector buffer holds one with everything made of it, and the rows of all batches go round all cores.
    """
    elements = min(chip.vec_bytes, chip.target.vec) // _LIVE_BYTES
    n = min(align_up(columns, 16), max(16, elements // 16 * 16))
    return max(1, min(rows, elements // n, ceil_div(batches * rows, chip.vector_cores))), n


def vector_grid(chip: Chip, batches: int, rows: int, columns: int) -> tuple[int, int]:
    """Blocks of one matrix down and across (:func:`vector_block`)."""
    r, n = vector_block(chip, batches, rows, columns)
    return ceil_div(rows, r), ceil_div(columns, n)


def workspace_bytes(chip: Chip) -> int:
    """Bytes of the workspace in global memory: one buffer of 256 × 256 sums a core, and the fixed communication area.

    "StreamK, workspace", and the operator likewise. It is as large for every problem: at most C blocks, each within one buffer.
    """
    return chip.cores * chip.workspace_tile_bytes + chip.workspace_fixed_bytes
