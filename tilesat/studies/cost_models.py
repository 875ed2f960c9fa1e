"""The comparison of cost models: one saturation a product, every model on the same candidates, a referee over them all.

Of every product the referee is asked about a sample of the candidates that no model influences (:mod:`tilesat.studies.sample`;
all of them where there are few), and about every model's first ``K``. Rank statistics are taken over the sample; regret and
recall over sample and picks together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cost.errors import CostModelError, Rejected
from cost.hardware import Target, describe
from cost.models import CostModel, cost_model
from cost.problem import STATIONARITY, Candidates, Problem
from egraph_rules.catalogue import rules as find_rules
from extraction.policy import Priced, price
from tilesat.choose import saturate, why_rejected
from tilesat.corpus import CorpusError
from tilesat.studies import manifest, metrics
from tilesat.studies.errors import StudyError
from tilesat.studies.problems import Item
from tilesat.studies.referee import Referee
from tilesat.studies.referee import referee as find_referee
from tilesat.studies.sample import Sample, choose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from egraph_rules.catalogue import RuleSet
    from extraction.snapshot import Schedules

KIND = "cost-models"
#: How many picks of a model count, for regret@k and recall@k.
KS = (1, 5, 10)
#: Selections are timed this often, and the shortest counts.
TIMES = 3


@dataclass(frozen=True)
class CostModelStudy:
    """What is compared: ``problems`` of a corpus, ``models`` and ``judge`` as they were given (names, places, objects)."""

    corpus: str
    digest: str
    problems: tuple[Item, ...]
    models: tuple[object, ...]
    target: Target
    judge: object
    rules: Any
    sample: int
    seed: int

    @property
    def kind(self) -> str:
        return KIND

    def items(self) -> Sequence[str]:
        return [p.name for p in self.problems]

    @cached_property
    def _by_name(self) -> dict[str, Item]:
        return {p.name: p for p in self.problems}

    @cached_property
    def priced_by(self) -> tuple[CostModel, ...]:
        """The models themselves, in the order given. Raises for an unknown one and for two of one name."""
        found = tuple(map(cost_model, self.models))
        names = [m.name for m in found]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise StudyError(f"two cost models are called {twice!r}; give them names of their own")
        return found

    @cached_property
    def referee(self) -> Referee:
        """The referee itself. Raises :class:`StudyError` for an unknown one."""
        return find_referee(self.judge)

    @cached_property
    def rule_set(self) -> RuleSet:
        """The rule set that makes the candidates. Raises RuleSetError for an unknown one."""
        return find_rules(self.rules)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k in self.__dataclass_fields__}

    def identity(self) -> dict[str, Any]:
        return {
            "corpus": {"name": self.corpus, "digest": self.digest, "products": len(self.problems)},
            "models": [manifest.model(m) for m in self.priced_by],
            "target": describe(self.target),
            "referee": manifest.referee(self.referee),
            "rules": manifest.rule_set(self.rule_set),
            "sample": self.sample,
            "seed": self.seed,
        }

    # -- one product ---------------------------------------------------------------------------------------------------

    def run(self, item: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything about one product, and the seconds it took."""
        found = self._by_name[item]
        if found.problem is None:
            raise CorpusError(found.error)
        return _Product(self, found.problem, item).judged()

    def schedules(self, problem: Problem) -> Schedules:
        """All legal candidates of a product. Raises Rejected where there is none."""
        snapshot, _ = saturate(problem, self.target, self.rule_set)
        found = snapshot.schedules.get(0)
        if found is None:
            raise Rejected(why_rejected(problem))
        return found

    def costs(self, candidates: Candidates, problem: Problem) -> NDArray[np.float64]:
        """The referee's figures. Raises :class:`StudyError` for one that is no positive number."""
        found: NDArray[np.float64] = self.referee.cycles(candidates, problem, self.target)
        if len(found) != len(candidates) or not (np.isfinite(found).all() and (found > 0).all()):
            raise StudyError(f"the referee {self.referee.name!r} gave figures that are no positive numbers")
        return found


class _Product:
    """One product on its way through the study."""

    def __init__(self, study: CostModelStudy, problem: Problem, name: str) -> None:
        self.study, self.problem, self.name = study, problem, name
        self.seconds: dict[str, Any] = {}
        self.failed: dict[str, str] = {}

    def judged(self) -> tuple[dict[str, Any], dict[str, Any]]:
        clock = time.perf_counter
        began = clock()
        self.schedules = self.study.schedules(self.problem)
        self.seconds["saturate"] = clock() - began
        orders = self.orders()
        sample = choose(self.schedules.candidates, self.problem, self.name, self.study.seed, self.study.sample)
        began = clock()
        actual = self.ask(sample, orders)
        self.seconds["referee"] = clock() - began
        known = np.flatnonzero(np.isfinite(actual))
        best = int(known[np.argmin(actual[known])])
        models = {name: self.row(priced, order, actual, sample) for name, (priced, order) in orders.items()}
        result = {
            "problem": [self.problem.M, self.problem.N, self.problem.K, str(self.problem.a)],
            "candidates": len(self.schedules),
            "sample": len(sample.rows),
            "asked": len(known),
            "strata": sample.strata,
            "left_out": sample.left_out,
            "best": {"cycles": float(actual[best]), "tile": self.tile(best)},
            "models": {**models, **{name: {"failed": why} for name, why in self.failed.items()}},
        }
        return result, self.seconds

    def orders(self) -> dict[str, tuple[Priced, NDArray[np.intp]]]:
        """Every model's prices and its order of all candidates; a model that fails is left out and remembered."""
        found = {}
        self.seconds["selection"] = {}
        for model in self.study.priced_by:
            try:
                priced = self.select(model)
            except CostModelError as e:
                self.failed[model.name] = str(e)
                continue
            found[model.name] = priced, priced.ranked()
        if not found:
            raise CostModelError("; ".join(self.failed.values()))
        return found

    def select(self, model: CostModel) -> Priced:
        """Price all candidates and pick one, as a choice does; timed."""
        times = []
        for _ in range(TIMES):
            began = time.perf_counter()
            priced = price(self.schedules, self.problem, model, self.study.target)
            priced.best_of(np.arange(len(self.schedules)))
            times.append(time.perf_counter() - began)
        self.seconds["selection"][model.name] = min(times)
        return priced

    def ask(self, sample: Sample, orders: Mapping[str, tuple[Priced, NDArray[np.intp]]]) -> NDArray[np.float64]:
        """The referee's figures by candidate, NaN where it was not asked."""
        first = [order[: max(KS)] for _, order in orders.values()]
        rows = np.unique(np.concatenate([sample.rows, *first]))
        actual = np.full(len(self.schedules), np.nan)
        actual[rows] = self.study.costs(self.schedules.candidates.take(rows), self.problem)
        return actual

    def row(self, priced: Priced, order: NDArray[np.intp], actual: NDArray[np.float64], sample: Sample) -> dict[str, Any]:
        """One model's figures."""
        known = np.flatnonzero(np.isfinite(actual))
        place = np.full(len(actual), -1)
        place[known] = np.arange(len(known))
        within, costs = place[order[: max(KS)]], actual[known]
        walls, truth = priced.prices.wall[sample.rows], actual[sample.rows]
        in_cycles = priced.prices.unit == "cycles"
        return {
            "tile": self.tile(int(order[0])),
            "predicted": float(priced.prices.wall[order[0]]),
            "referee": float(actual[order[0]]),
            **{f"regret@{k}": metrics.regret(within, costs, k) for k in KS},
            **{f"recall@{k}": metrics.recall(within, costs, k) for k in KS},
            "tau": metrics.kendall(walls, truth),
            "spearman": metrics.spearman(walls, truth),
            "pairwise": metrics.pairwise_accuracy(walls, truth),
            "mape": metrics.mape(walls, truth) if in_cycles and len(truth) else None,
        }

    def tile(self, row: int) -> list[Any]:
        """One candidate as plain data: m, n, k, what is held, which loop is outer (where that means something), accumulators."""
        c = self.schedules.candidates
        full = bool(c.k[row] >= self.problem.K)
        hoist = ("rows" if c.holds_a[row] else "columns") if full else ""
        return [int(c.m[row]), int(c.n[row]), int(c.k[row]), STATIONARITY[int(c.stationarity[row])], hoist, int(c.dbc[row])]


def tile_text(tile: Sequence[Any]) -> str:
    """A tile as tables show it: "128x256x64 output rows ×2"."""
    m, n, k, held, hoist, accumulators = tile
    return " ".join(x for x in (f"{m}x{n}x{k}", held, hoist, "×2" if accumulators == 2 else "") if x)


def candidate_of(tile: Sequence[Any]) -> Candidates:
    """The one candidate that a tile of a row means."""
    m, n, k, held, hoist, accumulators = tile
    return Candidates.of([(m, n, k, STATIONARITY.index(held), hoist != "columns", accumulators)])
