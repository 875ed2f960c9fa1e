"""What a comparison of cost models found: every model's figures, and where two models choose differently."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cost.errors import CostModelError
from tilesat.studies import measured
from tilesat.studies.cost_models import KS, CostModelStudy
from tilesat.studies.metrics import geometric_mean
from tilesat.studies.tables import number, percent
from tilesat.studies.work import Row


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of one model on one product: is less better, and how are products averaged (regrets by the geometric mean of
    1 + regret, what can be 0 or negative by the arithmetic mean)."""

    name: str
    less: bool
    geometric: bool
    shown: Callable[[float | None], str]


METRICS = (
    *(Metric(f"regret@{k}", True, True, percent) for k in KS),
    *(Metric(f"recall@{k}", False, False, percent) for k in KS),
    Metric("tau", False, False, number),
    Metric("spearman", False, False, number),
    Metric("pairwise", False, False, percent),
    Metric("mape", True, False, percent),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric of one model over all products: how many there are, median, mean, the worst and where it is."""

    model: str
    metric: str
    products: int
    median: float | None
    mean: float | None
    worst: float | None
    worst_product: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A product where two models choose differently, and the referee's cycles of either choice."""

    product: str
    a: str
    b: str
    tile_a: Sequence[Any]
    tile_b: Sequence[Any]
    cycles_a: float
    cycles_b: float


@dataclass(frozen=True)
class Comparison:
    """The rows of a study, in the order of its products, and everything that follows from them.

    ``rows`` hold what :meth:`CostModelStudy.run` gave, or an error. ``str()`` is the Markdown report.
    """

    study: CostModelStudy
    rows: tuple[Row, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in the order given."""
        return tuple(m.name for m in self.study.priced_by)

    @property
    def priced(self) -> tuple[str, ...]:
        """Names of the models that priced at least one product."""
        return tuple(m for m in self.models if self.figures(m, "predicted"))

    @property
    def errors(self) -> dict[str, str]:
        """Products that could not be studied, and why."""
        return {r["item"]: r["error"] for r in self.rows if "error" in r}

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """What was found, by product."""
        return {r["item"]: r["result"] for r in self.rows if "result" in r}

    def figures(self, model: str, metric: str) -> dict[str, float]:
        """One metric of one model, by product (products without it are left out)."""
        rows = ((name, r["models"].get(model, {}).get(metric)) for name, r in self.results.items())
        return {name: x for name, x in rows if x is not None}

    def failures(self, model: str) -> dict[str, str]:
        """Products that a model could not price, and why."""
        rows = ((name, r["models"].get(model, {}).get("failed")) for name, r in self.results.items())
        return {name: why for name, why in rows if why is not None}

    @property
    def helpless(self) -> dict[str, str]:
        """Models that priced no product, and how each failed first (what no model could price at all counts for every one)."""
        of_all = [e for e in self.errors.values() if e.startswith(f"{CostModelError.__name__}: ")]
        found = {m: [*self.failures(m).values(), *of_all] for m in self.models if m not in self.priced}
        return {m: why[0] for m, why in found.items() if why}

    @cached_property
    def summary(self) -> tuple[Summary, ...]:
        """Every metric of every model that priced anything."""
        return tuple(self._summary(m, k) for m in self.priced for k in METRICS)

    def _summary(self, model: str, metric: Metric) -> Summary:
        found = self.figures(model, metric.name)
        if not found:
            return Summary(model, metric.name, 0, None, None, None, "")
        worst = (max if metric.less else min)(found, key=lambda name: found[name])
        values = list(found.values())
        shifted = geometric_mean(1 + x for x in values) if metric.geometric else None
        mean = shifted - 1 if shifted is not None else statistics.fmean(values)
        return Summary(model, metric.name, len(values), statistics.median(values), mean, found[worst], worst)

    def of(self, model: str, metric: str) -> Summary:
        """One entry of :attr:`summary`."""
        return next(s for s in self.summary if (s.model, s.metric) == (model, metric))

    # -- where models choose differently -------------------------------------------------------------------------------

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Every product and pair of models that choose differently."""
        return tuple(self._differences())

    def _differences(self) -> Iterator[Difference]:
        for product, r in self.results.items():
            priced = [(m, r["models"][m]) for m in self.models if "tile" in r["models"].get(m, {})]
            for (a, x), (b, y) in itertools.combinations(priced, 2):
                if x["tile"] != y["tile"]:
                    yield Difference(product, a, b, x["tile"], y["tile"], x["referee"], y["referee"])

    @cached_property
    def audit(self) -> tuple[dict[str, Any], ...]:
        """A row for every pair of models: how often they differ, who is right by the referee, and by how much (the geometric mean
        of b's cycles over a's where they differ: above 1, a chooses better)."""
        rows = []
        for a, b in itertools.combinations(self.priced, 2):
            found = [d for d in self.differences if (d.a, d.b) == (a, b)]
            row = {"a": a, "b": b, "products": len(self.results), "differ": len(found)}
            row["a_better"] = sum(d.cycles_a < d.cycles_b for d in found)
            row["b_better"] = sum(d.cycles_b < d.cycles_a for d in found)
            row["ratio"] = geometric_mean(d.cycles_b / d.cycles_a for d in found)
            rows.append(row)
        return tuple(rows)

    @cached_property
    def measured(self) -> tuple[dict[str, Any], ...]:
        """The models and the simulator against device times (:mod:`tilesat.studies.measured`)."""
        return tuple(measured.table(self.study.priced_by))

    def files(self) -> dict[str, str]:
        """The tables and reports by file name; all the same every time but ``timings.csv`` and the times in ``report.html``."""
        from tilesat.studies.comparison_html import html
        from tilesat.studies.comparison_text import report, tables

        return {**tables(self), "report.md": report(self), "report.html": html(self)}

    def __str__(self) -> str:
        from tilesat.studies.comparison_text import report

        return report(self)
