"""The one interface of cost models, and the check that holds a model to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from cost.breakdown import Breakdown
from cost.errors import CostModelError
from cost.hardware import Target
from cost.problem import Candidates, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

TERMS = ("wall", "load", "mad", "drain", "bubble")


@runtime_checkable
class CostModel(Protocol):
    """Prices candidates: arrays in, a :class:`Breakdown` of as many rows out. Pure: same input, same prices."""

    @property
    def name(self) -> str: ...

    def price(self, candidates: Candidates, problem: Problem, target: Target) -> Breakdown: ...


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A model made of a name, a pricing function and a line of explanation.

    The function may return a :class:`Breakdown`, or just an array of walls.
    """

    name: str
    function: Callable[[Candidates, Problem, Target], Any]
    about: str = ""

    def price(self, candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
        prices = self.function(candidates, problem, target)
        return prices if isinstance(prices, Breakdown) else wall_only(prices)


def wall_only(wall: Any, unit: str = "cycles") -> Breakdown:
    """A breakdown that has nothing but a wall."""
    if np.iscomplexobj(wall):
        raise TypeError("complex numbers are no prices")
    numbers = np.asarray(wall, dtype=np.float64)
    none = np.zeros(numbers.shape)
    return Breakdown(none, none, none, none, numbers, unit)


def check_prices(model: CostModel, candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
    """``model``'s prices, checked: one finite, non-negative wall a candidate, all terms finite; float64 arrays in any case.

    Raises :class:`CostModelError` that names the model, the problem and the first candidate that broke it.
    """
    try:
        prices = model.price(candidates, problem, target)
    except CostModelError:
        raise
    except (Exception, SystemExit) as e:  # a model that gives up the whole process is as broken as one that raises
        culprit = _culprit(model, candidates, problem, target)
        raise _error(model, problem, f"raised {type(e).__name__}: {e} ({culprit})") from e
    if not isinstance(prices, Breakdown):
        raise _error(model, problem, f"returned {type(prices).__name__} instead of a Breakdown")
    terms: dict[str, NDArray[np.float64]] = {}
    total = np.zeros(len(candidates))
    for term in TERMS:
        try:
            values = np.asarray(getattr(prices, term))
        except ValueError as e:
            raise _error(model, problem, f"returned a {term} that is no array: {e}") from e
        if values.shape != (len(candidates),) or values.dtype.kind not in "fiu":
            found = f"{values.dtype} of shape {values.shape}"
            raise _error(model, problem, f"returned a {term} that is {found}, not {len(candidates)} numbers")
        terms[term] = values.astype(np.float64, copy=False)
        total += terms[term]
    checked = Breakdown(**terms, unit=prices.unit)
    if len(candidates) and (not np.isfinite(total).all() or checked.wall.min() < 0):
        raise _error(model, problem, _first_bad(checked, candidates))
    return checked


def _first_bad(prices: Breakdown, candidates: Candidates) -> str:
    """Which candidate has a price that is no price, and what it is."""
    for term in TERMS:
        values = getattr(prices, term)
        bad = ~np.isfinite(values) | (values < 0 if term == "wall" else False)
        if bad.any():
            row = int(np.argmax(bad))
            return f"priced {candidates.row(row)} at {term} = {float(values[row])}"
    return "returned terms that overflow when added"


def _culprit(model: CostModel, candidates: Candidates, problem: Problem, target: Target) -> str:
    """The first candidate that makes ``model`` raise on its own, in words."""
    for row in range(len(candidates)):
        try:
            model.price(candidates.take(np.array([row])), problem, target)
        except (Exception, SystemExit):
            return f"{candidates.row(row)} alone does it"
    return f"no single one of the {len(candidates)} candidates does it alone"


def _error(model: CostModel, problem: Problem, what: str) -> CostModelError:
    return CostModelError(f"cost model {model.name!r} on {problem.M}x{problem.N}x{problem.K} {problem.a}: {what}")
