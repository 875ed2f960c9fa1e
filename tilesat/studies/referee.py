"""Referees: who says what a candidate really costs. The simulator, or any cost model taken as the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cost.errors import suggestion
from cost.models import CostModel, check_prices, cost_model, cost_models
from cost.places import is_place
from cost.simulator.schedule import simulated_cycles
from tilesat.studies.errors import StudyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cost.hardware import Target
    from cost.problem import Candidates, Problem

SIMULATOR = "simulator"


@dataclass(frozen=True, slots=True)
class Referee:
    """``cycles(candidates, problem, target)`` gives every candidate's cost, as an array of positive numbers.

    ``model`` is the cost model that is taken as the truth; None for the simulator.
    """

    name: str
    cycles: Callable[[Candidates, Problem, Target], NDArray[np.float64]]
    model: CostModel | None = None


def referee(who: object) -> Referee:
    """The referee meant by ``"simulator"``, by a cost model's name, or by a model of the user's own (of device times, say)."""
    if who == SIMULATOR:
        return Referee(SIMULATOR, simulated_cycles)
    if isinstance(who, str) and who not in cost_models() and not who.startswith("random:") and not is_place(who):
        known = (SIMULATOR, *cost_models())
        raise StudyError(f"unknown referee {who!r}.{suggestion(who, known)} Known: {', '.join(known)}")
    model = cost_model(who)
    return Referee(model.name, _Priced(model), model)


@dataclass(frozen=True, slots=True)
class _Priced:
    """A cost model's walls as a referee's figures."""

    model: CostModel

    def __call__(self, candidates: Candidates, problem: Problem, target: Target) -> NDArray[np.float64]:
        return np.asarray(check_prices(self.model, candidates, problem, target).wall, dtype=np.float64)
