"""`roofline-tails`: the roofline's terms with every tile priced at the size that is really emitted.

The specification charges a boundary tile as a full one. Here the interior, the bottom strip, the right strip and the corner are
each charged for their own rows and columns. Load already uses the true extents, and is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cost.breakdown import Breakdown
from cost.hardware import Target
from cost.models.base import FunctionModel
from cost.problem import Candidates, Problem
from cost.roofline import combine, drain_cycles, load_cycles, mad_cycles
from cost.volume import blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def price(candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
    """Load as the roofline; MAD and drain summed over interior, strips and corner; the wall from them as ever."""
    m, n, k = (x.astype(np.float64) for x in (candidates.m, candidates.n, candidates.k))
    rows, columns = blocks(problem.M, m), blocks(problem.N, n)
    mad, drain = np.zeros(len(m)), np.zeros(len(m))
    for row_count, height in _strips(problem.M, m):
        for column_count, width in _strips(problem.N, n):
            tiles = row_count * column_count
            mad += tiles * mad_cycles(height, width, k, problem, target)
            drain += tiles * drain_cycles(height, width, problem, target)
    load = load_cycles(candidates, problem, target, rows, columns)
    return combine(load, mad, drain, rows * columns, candidates)


def _strips(extent: int, tile: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """(how many, how wide): the full tiles along ``extent``, and the partial one behind them (0 or 1 of it)."""
    full = np.floor(extent / tile)
    tail = extent - full * tile
    partial = (tail > 0).astype(np.float64)
    return (full, tile), (partial, np.maximum(tail, 1.0))


MODEL = FunctionModel("roofline-tails", price, "the roofline with boundary tiles charged at their true size")
