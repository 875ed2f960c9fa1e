"""`random`: prices drawn from a seed, the floor that any useful model must beat.

A price depends on the seed, the problem and the candidate itself, never on where it stands in the arrays or on the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cost.breakdown import Breakdown
from cost.hardware import Target
from cost.models.base import FunctionModel, wall_only
from cost.problem import OUTPUT, Candidates, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Prices are spread over this many cycles, so that rounding leaves them apart.
SPREAD = float(1 << 30)


def model(seed: int = 0) -> FunctionModel:
    """The random model of ``seed``, named "random:SEED" ("random" for seed 0)."""

    def price(candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
        return wall_only(_uniform(seed, candidates, problem, target) * SPREAD, "points")

    return FunctionModel(f"random:{seed}" if seed else "random", price, "a price drawn from a seed (random:SEED)")


def _uniform(seed: int, candidates: Candidates, problem: Problem, target: Target) -> NDArray[np.float64]:
    """A number in [0, 1) for every candidate."""
    p = problem
    words = [seed, p.M, p.N, p.K, p.a.bits, p.b.bits, p.c.bits, int(p.accumulate), target.l0c]
    words += [int.from_bytes((p.bias or "").encode(), "little"), p.box_m, p.box_n]
    state = np.zeros(len(candidates), dtype=np.uint64)
    for word in words:
        state = _mix(state ^ np.uint64(word & 0xFFFF_FFFF_FFFF_FFFF))
    hoist = candidates.holds_a & (candidates.stationarity == OUTPUT) & (candidates.k >= p.K)
    for column in (candidates.m, candidates.n, candidates.k, candidates.stationarity, hoist, candidates.dbc):
        state = _mix(state ^ column.astype(np.uint64))
    return (state >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The SplitMix64 step: a bijection that spreads every bit over all 64."""
    x = x + np.uint64(0x9E37_79B9_7F4A_7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ (x >> np.uint64(31))


MODEL = model()
