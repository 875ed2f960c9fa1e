"""A chosen schedule as plain data, and the product that one core then repeats: what L0 tiling is asked, and what it may answer.

The e-graph's choices fix how work is spread and what lies in L1. The per-core product goes through the L0 rules; its answer must
respect the slots that the loops around it imply (two of everything that is loaded in a pipelined loop).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost.batch import tiling
from cost.batch.chip import Chip
from cost.batch.problem import BatchProblem
from cost.physical import align_up, ceil_div

_LEFT_CASES = (tiling.ONE_LEFT, tiling.PING_LEFT)
_RIGHT_CASES = (tiling.ONE_RIGHT, tiling.PING_RIGHT)


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one problem runs: constructor and columns of the e-graph's choice, and the L0 tile (m, n, k) of the core's product.

    ``tile`` is None where nothing is multiplied. ``inner`` is the schedule of the reduced problem, ``role`` how it was reduced.
    """

    kind: str
    problem: BatchProblem
    columns: dict[str, int]
    tile: tuple[int, int, int] | None = None
    inner: Schedule | None = None


@dataclass(frozen=True, slots=True)
class CoreProduct:
    """The product one core repeats: boxed extents; ``fixed`` when one L0 window must cover rows and columns; ``admits`` says
    which (m, n, k) the buffers around it allow (arrays in, a mask out)."""

    M: int
    N: int
    K: int
    fixed: bool
    admits: Callable[[Any, Any, Any], Any]


def core_product(kind: str, p: BatchProblem, chip: Chip, c: dict[str, int]) -> CoreProduct | None:
    """The per-core product of a schedule; None where the cube has nothing to do."""
    if p.K == 0 or kind in ("Fill", "Outer"):
        return None
    if kind == "MergeBatch":
        return _merged(p, chip, c)
    if kind == "IterBatch":
        return _iterated(p, chip, c)
    if kind == "StreamK":
        m, n = align_up(ceil_div(p.M, c["rows"]), p.box_m), align_up(ceil_div(p.N, c["columns"]), p.box_n)
        return _streamed(p, chip, m, n, tiling.segment(p, c["grid_k"]), 1, 0)
    held = c.get("held", tiling.HELD_A)
    return _streamed(p, chip, c["m"], c["n"], align_up(p.K, p.box_k), c["accumulators"], held)


def _l0(p: BatchProblem, chip: Chip, m: Any, n: Any, k: Any, depth: int, accumulators: int) -> Any:
    """Do two panels (four where the first block of several is peeled for the bias) and the accumulators fit L0?"""
    blocks = np.where((k < depth) & bool(p.bias), 2, 1)
    fits = (2 * m * k * blocks * p.bytes <= chip.l0a_bytes) & (2 * n * k * blocks * p.bytes <= chip.l0b_bytes)
    fits &= align_up(m, 16) * n * p.sums.bytes * accumulators <= chip.l0c_bytes
    if p.bias:
        fits &= n * 2 * p.sums.bytes <= chip.bias_bytes
    return fits & (m % p.box_m == 0) & (n % p.box_n == 0) & (k % p.box_k == 0)


def _streamed(p: BatchProblem, chip: Chip, m: int, n: int, depth: int, accumulators: int, held: int) -> CoreProduct:
    def admits(tm: Any, tn: Any, k: Any) -> Any:
        room = chip.l1_bytes - tiling.held_bytes(p, held, m, n, k) - tiling.bias_rows(p, n)
        width = tiling.panel_width(held, m, n)
        return _l0(p, chip, tm, tn, k, depth, accumulators) & (width * k * p.bytes * tiling.copies(p) <= room)

    return CoreProduct(m, n, depth, True, admits)


def _merged(p: BatchProblem, chip: Chip, c: dict[str, int]) -> CoreProduct:
    m, n = tiling.merged_rows(p, c["b"]), tiling.merged_columns(p, c["b"])
    whole = align_up(p.K, p.box_k)
    groups = tiling.merged_groups(p, chip, c["b"], c["k_l1"])

    def admits(tm: Any, tn: Any, k: Any) -> Any:
        if c["k_l1"] < whole:
            l1 = c["k_l1"] % k == 0
        else:
            l1 = 2 * (m + n) * groups * align_up(p.K, k) * p.bytes + tiling.bias_rows(p, n) <= chip.l1_bytes
        return _l0(p, chip, tm, tn, k, whole, 2) & l1 & (k >= tiling.least_depth(p, chip))

    return CoreProduct(m, n, min(c["k_l1"], whole), True, admits)


def _iterated(p: BatchProblem, chip: Chip, c: dict[str, int]) -> CoreProduct:
    case, cut = c["case"], iter_cut(p, c["case"], c["step"])
    rows = min(cut, align_up(p.M, p.box_m)) if case in _RIGHT_CASES else align_up(p.M, p.box_m)
    columns, depth = align_up(p.N, p.box_n), align_up(p.K, p.box_k)

    def admits(m: Any, n: Any, k: Any) -> Any:
        l1 = iter_l1(p, c, m, n, k, iter_stage(p, chip, c, m, n, k)) <= chip.l1_bytes
        return _l0(p, chip, m, n, k, depth, c["accumulators"]) & l1

    return CoreProduct(rows, columns, depth, False, admits)


def iter_cut(p: BatchProblem, case: int, step: int) -> int:
    """Elements of a piece of what IterBatch cuts in ``step``: of M where A alone is cut, else of K; in whole boxes."""
    if case in _RIGHT_CASES:
        return align_up(ceil_div(p.M, step), p.box_m)
    return align_up(ceil_div(p.K, step), p.box_k)


def iter_piece(p: BatchProblem, c: dict[str, int], m: Any, k: Any) -> Any:
    """The same in whole L0 tiles: what a piece takes in L1, and how far the loop over pieces steps."""
    by_rows = c["case"] in _RIGHT_CASES
    return align_up(iter_cut(p, c["case"], c["step"]), m if by_rows else k)


def pieces(p: BatchProblem, case: Any, step: Any) -> Any:
    """:func:`iter_cut` for arrays of cases and steps."""
    cut_m = np.isin(case, _RIGHT_CASES)
    return np.where(cut_m, align_up(ceil_div(p.M, step), p.box_m), align_up(ceil_div(p.K, step), p.box_k))


def iter_stage(p: BatchProblem, chip: Chip, c: dict[str, int], m: Any, n: Any, k: Any) -> Any:
    """Buffers of a piece: two where they fit, else one (cases c and e; the others have two of everything)."""
    if c["case"] in (tiling.ONE_LEFT, tiling.ONE_RIGHT, tiling.BOTH_CUT):
        return np.where(iter_l1(p, c, m, n, k, 2) <= chip.l1_bytes, 2, 1)
    return 2 + 0 * np.asarray(k)


def iter_l1(p: BatchProblem, c: dict[str, int], m: Any, n: Any, k: Any, stage: Any) -> Any:
    """Bytes of L1 that one core's loops hold, everything in whole L0 tiles (specification 3, "IterBatch", condition 3)."""
    case, piece = c["case"], iter_piece(p, c, m, k)
    depth = align_up(p.K, k)
    a, b = align_up(p.M, m) * depth * p.bytes, depth * align_up(p.N, n) * p.bytes
    bias = tiling.bias_rows(p, n)
    if case == tiling.ONE_BATCH:
        return a + b + bias // 2
    if case == tiling.PING_PONG:
        return 2 * c["batches"] * (a + b) + bias
    twice = 2 if case in (tiling.PING_LEFT, tiling.PING_RIGHT) else 1
    # The first piece is peeled where it adds the bias, beside those in the loop.
    copies = stage + (twice if p.bias and case not in _RIGHT_CASES else 0)
    if case in _LEFT_CASES:
        return twice * a + copies * piece * n * p.bytes + bias
    if case in _RIGHT_CASES:
        return twice * b + copies * piece * depth * p.bytes + bias
    return copies * (m + n) * piece * p.bytes + bias
