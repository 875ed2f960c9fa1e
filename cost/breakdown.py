"""What a cost model says of candidates, term by term, and how candidates are ordered by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cost.problem import Candidates, Problem
from cost.volume import blocks, padded_volume

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Breakdown:
    """The price of every candidate: float64 arrays as long as the candidates, in ``unit`` (cycles of one core).

    ``load``: operands into L0. ``mad``: the cube. ``drain``: results out of L0C. ``bubble``: filling and emptying the pipeline of
    two accumulators. ``wall``: the whole, which is what counts; a model that has no such term leaves zeros in it.
    """

    load: Array
    mad: Array
    drain: Array
    bubble: Array
    wall: Array
    unit: str = "cycles"

    def __len__(self) -> int:
        return len(self.wall)

    @property
    def wall_rounded(self) -> Array:
        """``wall`` to the nearest integer (halves up): walls are compared so."""
        rounded: Array = np.floor(self.wall + 0.5)
        return rounded

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Breakdown:
        """The prices at ``rows`` (positions, or a mask), in that order."""
        return Breakdown(self.load[rows], self.mad[rows], self.drain[rows], self.bubble[rows], self.wall[rows], self.unit)

    @property
    def bare(self) -> bool:
        """Has the model given nothing but walls: is every other term of every candidate zero?"""
        return not any(np.any(x) for x in (self.load, self.mad, self.drain, self.bubble))

    def terms(self, row: int) -> dict[str, float]:
        """The terms of one candidate, by name; the wall alone where the model has given nothing else."""
        given = ("wall",) if self.bare else ("load", "mad", "drain", "bubble", "wall")
        return {name: float(getattr(self, name)[row]) for name in given}


def tie_keys(candidates: Candidates, problem: Problem, prices: Breakdown) -> tuple[Array, ...]:
    """Keys of the documented order, most significant first; each ascending.

    Rounded wall; then padded volume, ⌈K/k⌉, load cycles, larger m·n, larger k, and ascending (m, n, k).
    """
    m, n, k = (x.astype(np.float64) for x in (candidates.m, candidates.n, candidates.k))
    volume = padded_volume(candidates, problem).astype(np.float64)
    return (prices.wall_rounded, volume, blocks(problem.K, k), prices.load, -m * n, -k, m, n, k)


def ranking(candidates: Candidates, problem: Problem, prices: Breakdown) -> NDArray[np.intp]:
    """Positions of all candidates, the best first, in the documented order (exact ties stay as they came)."""
    return np.lexsort(tie_keys(candidates, problem, prices)[::-1])


def best(candidates: Candidates, problem: Problem, prices: Breakdown) -> int:
    """Position of the best candidate in the documented order; ValueError when there is none."""
    walls = prices.wall_rounded
    tied = np.flatnonzero(walls == walls.min())
    if len(tied) == 1:
        return int(tied[0])
    some = prices.take(tied)
    return int(tied[ranking(candidates.take(tied), problem, some)[0]])
