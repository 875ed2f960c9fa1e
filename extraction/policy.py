"""Which schedule a problem gets: the documented order of regimes, or simply the cheapest.

The documented pass (facts/tiling_gates.md, "How the chooser adopts a regime") takes the best output-stationary schedule with
one accumulator as its baseline. If that is the whole problem it looks no further; else it goes through the richer regimes in a
fixed order and adopts each only for a strictly smaller rounded wall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cost.breakdown import Breakdown, best, ranking
from cost.models import CostModel, check_prices
from cost.problem import STATIONARITY, Problem
from egraph_rules.language import DOUBLE_C
from egraph_rules.plan import TileChoice
from extraction.snapshot import Schedules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cost.hardware import Target

#: (stationarity code, accumulators) in the order the documented pass tries them; the first is the baseline.
REGIME_ORDER = ((0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2))


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A problem's schedules with a cost model's prices."""

    problem: Problem
    schedules: Schedules
    prices: Breakdown

    def choice(self, row: int) -> TileChoice:
        """The candidate at ``row`` as a plan says it."""
        c = self.schedules.candidates
        return TileChoice(
            int(c.m[row]),
            int(c.n[row]),
            int(c.k[row]),
            STATIONARITY[int(c.stationarity[row])],
            bool(c.dbc[row] == 2),
            bool(c.holds_a[row]),
        )

    def is_whole_problem(self, row: int) -> bool:
        """Does one window and one panel cover the problem? Then the statement is already the size of L0."""
        c, p = self.schedules.candidates, self.problem
        return bool(c.m[row] >= p.M and c.n[row] >= p.N and c.k[row] >= p.K)

    def rows(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        return np.flatnonzero(mask)

    def with_tile(self, m: int, n: int, k: int) -> int | None:
        """The best row with this tile, or None where it is not legal."""
        c = self.schedules.candidates
        return self.best_of(np.flatnonzero((c.m == m) & (c.n == n) & (c.k == k)))

    def same_tile(self, other: Priced, row: int) -> int | None:
        """The best row of this problem with the tile that ``row`` of ``other`` has."""
        c = other.schedules.candidates
        return self.with_tile(int(c.m[row]), int(c.n[row]), int(c.k[row]))

    def best_of(self, rows: NDArray[np.intp]) -> int | None:
        """The best of some rows in the documented order, or None."""
        if not len(rows):
            return None
        if len(rows) == len(self.schedules):
            return best(self.schedules.candidates, self.problem, self.prices)
        return int(rows[best(self.schedules.candidates.take(rows), self.problem, self.prices.take(rows))])

    def ranked(self, rows: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
        """Rows in the documented order, the best first."""
        if rows is None:
            return ranking(self.schedules.candidates, self.problem, self.prices)
        return rows[ranking(self.schedules.candidates.take(rows), self.problem, self.prices.take(rows))]


def price(schedules: Schedules, problem: Problem, model: CostModel, target: Target) -> Priced:
    """Price every candidate of a problem; raises CostModelError naming the candidate a broken model stumbled on."""
    return Priced(problem, schedules, check_prices(model, schedules.candidates, problem, target))


def documented(priced: Priced) -> int | None:
    """The row the documented pass takes, or None when nothing is legal."""
    regime = priced.schedules.regime
    c = priced.schedules.candidates
    chosen: int | None = None
    for stationarity, accumulators in REGIME_ORDER:
        if (stationarity, accumulators) == REGIME_ORDER[1] and chosen is not None and priced.is_whole_problem(chosen):
            break
        mask = (c.stationarity == stationarity) & ((regime >= DOUBLE_C) == (accumulators == 2))
        row = priced.best_of(np.flatnonzero(mask))
        if row is None:
            continue
        walls = priced.prices.wall
        if chosen is None or np.floor(walls[row] + 0.5) < np.floor(walls[chosen] + 0.5):
            chosen = row
    return chosen


def cheapest(priced: Priced, scope: int | None = None) -> int | None:
    """The row with the smallest wall, of one scope or of all."""
    mask = np.ones(len(priced.schedules), dtype=bool) if scope is None else priced.schedules.scope == scope
    return priced.best_of(np.flatnonzero(mask))
