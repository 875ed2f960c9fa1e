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


# -- L0: panels that two buffers of each operand hold ------------------------------------------------------------------------


def panel_depth(p: BatchProblem, chip: Chip, m: Size, n: Size) -> Size:
    """k_L0 of an m × n block: deepest K panel of which two fit L0A and L0B, a multiple of the K box and no deeper than K.

    "MergeBatch, Step 2" and "ASW_Basic, 4": 2·m·k·dtype ≤ L0A, 2·k·n·dtype ≤ L0B. 0 where not even one box fits.
    """
    s = p.bytes
    k = least(chip.l0a_bytes // (2 * m * s), chip.l0b_bytes // (2 * n * s), align_up(most(p.K, 1), p.box_k))
    return align_down(k, p.box_k)


def whole_or_panel_depth(p: BatchProblem, chip: Chip, m: Size, n: Size) -> Size:
    """BaseK: all of K where one buffer of each operand holds it (nothing to overlap), else :func:`panel_depth`."""
    k = align_up(most(p.K, 1), p.box_k)
    whole = (m * k * p.bytes <= chip.l0a_bytes) & (n * k * p.bytes <= chip.l0b_bytes)
    found = np.where(whole, k, panel_depth(p, chip, m, n))
    return found if found.ndim else int(found)


# -- MergeBatch ----------------------------------------------------------------------------------------------------------------


def merged_rows(p: BatchProblem, b: Size) -> Size:
    """Rows of b merged batches of A: packed and boxed once; boxed batch by batch where A is stored transposed."""
    return b * align_up(p.M, p.box_m) if p.transpose_a else align_up(b * p.M, FRACTAL)


def merged_columns(p: BatchProblem, b: Size) -> Size:
    """Columns of b merged batches of B: boxed batch by batch, unless B is stored transposed and its batches are packed."""
    return align_up(b * p.N, FRACTAL) if p.transpose_b else b * align_up(p.N, p.box_n)


def merged_groups(p: BatchProblem, chip: Chip, b: Size, k_l1: Size) -> Size:
    """b_L1 / b: merged groups that stay in L1 together, two buffers deep.

    "MergeBatch, Step 3": 2·b_L1·(M·k_L1 + k_L1·N)·dtype ≤ L1 and b_L1 ≤ b_core. Where K is cut in L1 one group at a time is
    summed, so there is one.
    """
    group = (merged_rows(p, b) + merged_columns(p, b)) * k_l1 * p.bytes
    fit = least(chip.l1_bytes // (2 * group), ceil_div(batches_per_core(p, chip), b))
    found = np.where(k_l1 < align_up(p.K, p.box_k), least(fit, 1), fit)
    return found if found.ndim else int(found)


def k_l1_floor(p: BatchProblem, chip: Chip, k_l0_max: Size) -> Size:
    """Least k_L1: min(k_L0_max, 128 B / dtype), in whole boxes ("MergeBatch, Step 3")."""
    return align_up(least(k_l0_max, chip.run_bytes // p.bytes), p.box_k)


# -- base tiles of one batch's product in L1 -------------------------------------------------------------------------------------


def widest(p: BatchProblem, chip: Chip) -> tuple[int, int]:
    """Largest (BaseM, BaseN) that any schedule may have: the thinnest panels fit twice, and two bias windows fit their table."""
    rows = align_down(chip.l0a_bytes // (2 * p.box_k * p.bytes), p.box_m)
    columns = align_down(chip.l0b_bytes // (2 * p.box_k * p.bytes), p.box_n)
    if p.bias:
        columns = min(columns, align_down(chip.bias_bytes // (2 * p.sums.bytes), p.box_n))
    return rows, columns


def base_tile(p: BatchProblem, chip: Chip, rows: int, columns: int, accumulators: int) -> tuple[int, int, int]:
    """(BaseM, BaseN, BaseK) of a rows × columns product whose operands lie in L1 ("IterBatch", situations a and b).

    The whole output where L0C holds it ``accumulators`` times; else the smaller side whole and the other as L0C allows. BaseK
    follows from L0A and L0B. (BaseN is the *smaller* of its two bounds: the specification's max would not fit.)
    """
    top_m, top_n = widest(p, chip)
    rows, columns = align_up(rows, p.box_m), align_up(columns, p.box_n)
    room = chip.l0c_bytes // (p.sums.bytes * accumulators)
    if rows <= columns:
        m = min(rows, top_m, align_down(room // p.box_n, p.box_m))
        n = min(columns, top_n, align_down(room // m, p.box_n))
    else:
        n = min(columns, top_n, align_down(room // p.box_m, p.box_n))
        m = min(rows, top_m, align_down(room // n, p.box_m))
    return m, n, whole_or_panel_depth(p, chip, m, n)


# -- ASW_Basic and StreamK ----------------------------------------------------------------------------------------------------------


def stream_panels(p: BatchProblem, chip: Chip, m: Size, n: Size, resident: Size, k_l0: Size) -> tuple[Size, Size]:
    """(k_L1, buffers): K panels of both operands streaming through what ``resident`` bytes leave of L1.

    "ASW_Basic, 4": two buffers, or four where panels of four still reach the floor of an efficient transfer. k_L1 is a multiple of
    k_L0, at most K; 0 where two of the thinnest do not fit.
    """
    column = (m + n) * p.bytes
    k = align_up(most(p.K, 1), p.box_k)

    def depth(buffers: int) -> Size:
        room = most(chip.l1_bytes - resident, 0) // (buffers * column)
        return least(align_down(room, most(k_l0, 1)), align_up(k, most(k_l0, 1)))

    two, four = depth(2), depth(4)
    ample = (least(m, n) * four * p.bytes >= chip.min_tile_bytes) & (four > 0)
    k_l1, buffers = np.where(ample, four, two), np.where(ample, 4, 2)
    return (k_l1, buffers) if k_l1.ndim else (int(k_l1), int(buffers))


def segment(p: BatchProblem, grid_k: Size) -> Size:
    """singleCoreK: K of one core's segment, ⌈K / grid_K⌉ in whole boxes ("StreamK")."""
    return align_up(ceil_div(p.K, grid_k), p.box_k)


def workspace_bytes(p: BatchProblem, chip: Chip, grid_k: int) -> int:
    """Bytes of partial sums in global memory, with the fixed communication area ("StreamK, workspace")."""
    return grid_k * p.B * p.M * p.N * p.sums.bytes + chip.workspace_fixed_bytes
