"""What an ablation found: the effect of every rule set on every program, its spread, interactions, rules that never fired.

The effect of a set on a program is ln(its simulated cycles / those of the set effects are measured against), where both are
legal: 0.05 is 5 % slower, −0.05 5 % faster. Effects are averaged over programs, so a mean effect is the log of a geometric mean.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilesat.studies.ablation import LEGAL, UNSOUND, AblationStudy
from tilesat.studies.rule_sets import Variant
from tilesat.studies.work import Row

#: Effects smaller than this are none: the same plan.
NONE = 1e-9


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one rule set over the corpus.

    ``programs`` compared, ``changed`` of them; ``lost`` are legal under the first set only, ``gained`` under this one only.
    Of the effects: ``mean`` with its standard error, median, quartiles, least, most, and the program that suffers most.
    ``predicted`` is the mean effect on the model's own figure, ``nodes`` and ``classes`` the mean ratio of e-graph sizes.
    """

    name: str
    changed_families: tuple[str, ...]
    programs: int
    changed: int
    lost: tuple[str, ...]
    gained: tuple[str, ...]
    mean: float | None
    error: float | None
    median: float | None
    quartiles: tuple[float, float] | None
    least: float | None
    most: float | None
    most_program: str
    predicted: float | None
    nodes: float | None
    classes: float | None


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two families taken away together: what that costs beyond the sum of taking away each (positive: one stands in for the
    other). ``lost`` are programs that only both together leave without a legal plan."""

    a: str
    b: str
    programs: int
    mean: float | None
    most: float | None
    most_program: str
    lost: tuple[str, ...]


@dataclass(frozen=True)
class Ablation:
    """The rows of a study, in the order of its items, and everything that follows from them. ``str()`` is the Markdown report."""

    study: AblationStudy
    rows: tuple[Row, ...]

    @cached_property
    def _results(self) -> dict[str, dict[str, Any]]:
        return {r["item"]: r["result"] for r in self.rows if "result" in r}

    @property
    def errors(self) -> dict[str, str]:
        """Items that failed ("set | program"; "entry program" where it cannot be read at all), and why."""
        return {r["item"]: r["error"] for r in self.rows if "error" in r}

    @property
    def base(self) -> Variant:
        """The set that effects are measured against."""
        return self.study.sets[0]

    def results(self, v: Variant) -> dict[str, dict[str, Any]]:
        """What a set gave, by program."""
        found = ((e.name, self._results.get(self.study.item(v, e))) for e in self.study.entries)
        return {name: r for name, r in found if r is not None}

    def logs(self, v: Variant, figure: str = "simulated") -> dict[str, float]:
        """The effect of a set by program, on ``figure`` ("simulated" or "predicted" cycles)."""
        first, found = self.results(self.base), {}
        for name, r in self.results(v).items():
            before = first.get(name, {}).get(figure)
            if before and r[figure]:
                found[name] = math.log(r[figure] / before)
        return found

    def _legal(self, v: Variant) -> set[str]:
        return {name for name, r in self.results(v).items() if r["status"] == LEGAL}

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """The effect of every set but the first."""
        return tuple(self._effect(v) for v in self.study.sets[1:])

    def _effect(self, v: Variant) -> Effect:
        logs = self.logs(v)
        values = list(logs.values())
        most = max(logs, key=lambda n: logs[n], default="")
        spread = np.quantile(values, (0.25, 0.75)).tolist() if values else None
        before, after = self._legal(self.base), self._legal(v)
        both = self.results(self.base).keys() & self.results(v).keys()
        return Effect(
            name=v.name,
            changed_families=v.changed,
            programs=len(values),
            changed=sum(abs(x) > NONE for x in values),
            lost=tuple(sorted((before - after) & both)),
            gained=tuple(sorted((after - before) & both)),
            mean=statistics.fmean(values) if values else None,
            error=statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None,
            median=statistics.median(values) if values else None,
            quartiles=(spread[0], spread[1]) if spread else None,
            least=min(values, default=None),
            most=logs.get(most),
            most_program=most if abs(logs.get(most, 0.0)) > NONE else "",
            predicted=statistics.fmean(p) if (p := list(self.logs(v, "predicted").values())) else None,
            nodes=self._ratio(v, "nodes"),
            classes=self._ratio(v, "classes"),
        )

    def _ratio(self, v: Variant, figure: str) -> float | None:
        first = self.results(self.base)
        found = [r[figure] / first[n][figure] for n, r in self.results(v).items() if first.get(n, {}).get(figure)]
        return statistics.fmean(found) if found else None

    @cached_property
    def interactions(self) -> tuple[Interaction, ...]:
        """Every pair of families of which both, and each alone, were taken away."""
        alone = {v.changed[0]: v for v in self.study.sets if len(v.changed) == 1}
        pairs = [v for v in self.study.sets if len(v.changed) == 2 and all(f in alone for f in v.changed)]
        return tuple(self._interaction(v, alone[v.changed[0]], alone[v.changed[1]]) for v in pairs)

    def _interaction(self, both: Variant, a: Variant, b: Variant) -> Interaction:
        log_a, log_b = self.logs(a), self.logs(b)
        found = {n: x - log_a[n] - log_b[n] for n, x in self.logs(both).items() if n in log_a and n in log_b}
        most = max(found, key=lambda n: abs(found[n]), default="")
        lost = (self._legal(a) & self._legal(b)) - self._legal(both)
        mean = statistics.fmean(found.values()) if found else None
        shown = most if abs(found.get(most, 0.0)) > NONE else ""
        first, second = both.changed
        return Interaction(first, second, len(found), mean, found.get(most), shown, tuple(sorted(lost)))

    # -- rules ---------------------------------------------------------------------------------------------------------

    @cached_property
    def rules(self) -> tuple[dict[str, Any], ...]:
        """A row for every rule: matches and programs under the set effects are measured against, matches under all sets."""
        known = {r.name: (f.name, r.statement) for v in self.study.sets for f in v.rule_set().families for r in f.rules}
        first = [r["matches"] for r in self.results(self.base).values()]
        every = [r["matches"] for r in self._results.values()]
        return tuple(
            {
                "rule": name,
                "family": family,
                "matches": sum(m.get(name, 0) for m in first),
                "programs": sum(m.get(name, 0) > 0 for m in first),
                "all_sets": sum(m.get(name, 0) for m in every),
                "statement": statement,
            }
            for name, (family, statement) in known.items()
        )

    @property
    def never_fired(self) -> tuple[str, ...]:
        """Rules that matched nothing in any program under any set."""
        return tuple(r["rule"] for r in self.rules if not r["all_sets"])

    @property
    def unsound(self) -> tuple[str, ...]:
        """Items whose tiled program has a finding that its source has not: defects."""
        return tuple(item for item, r in self._results.items() if r["status"] == UNSOUND)

    # -- as files ------------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        """The tables and reports by file name; all the same every time but ``timings.csv`` and the times in ``report.html``."""
        from tilesat.studies.ablation_html import html
        from tilesat.studies.ablation_text import report, tables

        return {**tables(self), "report.md": report(self), "report.html": html(self)}

    def __str__(self) -> str:
        from tilesat.studies.ablation_text import report

        return report(self)
