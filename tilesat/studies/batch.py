"""The study of batch plans: which branch rules carry the gain, and how far the latency model agrees with the simulator.

For every problem of a suite: the plan with all branch rules, the plan without each family (ablation), and every capable branch's
best plan under the latency model and under the multi-core approximation of the simulator (:mod:`tilesat.batch_simulation`).

    rows = tilesat.studies.batch.study_batch("standard", out="results/batch").rows
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cost.batch.chip import Chip, describe, get_chip
from cost.errors import Rejected, suggestion
from tilesat.batch import plan_batch
from tilesat.corpus.shapes import SHAPES
from tilesat.studies.errors import StudyError
from tilesat.studies.tables import markdown, number, percent
from tilesat.studies.work import Row

if TYPE_CHECKING:
    from tilesat.batch import BatchPlan

#: Every suite with one line that says what is in it.
SUITES: dict[str, str] = {
    "smoke": "eight small published problems",
    "standard": "every published problem, and 48 drawn ones (seeded), all branches among them",
    "full": "standard, and 200 more",
}
SEED = 20_260_801
_DRAWN = {"smoke": 0, "standard": 48, "full": 248}
#: Published problems with more elements of C than this are left out of ``smoke``.
_SMALL = 1 << 20


@dataclass(frozen=True, slots=True)
class BatchCase:
    """A problem of a suite: its name, where it comes from, and the arguments of ``plan_batch``."""

    name: str
    source: str
    arguments: tuple[tuple[str, Any], ...]

    @property
    def kwargs(self) -> dict[str, Any]:
        return dict(self.arguments)


def batch_suite(name: str = "standard") -> tuple[BatchCase, ...]:
    """The problems of a suite; :class:`StudyError` lists the known ones."""
    if name not in SUITES:
        raise StudyError(f"unknown batch suite {name!r}.{suggestion(name, SUITES)} Known: {', '.join(SUITES)}")
    published = json.loads(SHAPES.read_text(encoding="utf-8"))["batch"]
    if name == "smoke":
        published = [r for r in published if r["B"] * r["M"] * r["N"] <= _SMALL][:8]
    found = {c.name: c for c in map(_case, published)}
    for row in _drawn():
        if len(found) >= len(published) + _DRAWN[name]:
            break
        case = _case({"source": f"drawn (seed {SEED})", **row})
        found.setdefault(case.name, case)
    return tuple(found.values())


def _case(row: dict[str, Any]) -> BatchCase:
    arguments = {k: v for k, v in row.items() if k != "source"}
    words = "x".join(str(arguments[x]) for x in "BMNK")
    more = [f"{k}={v}" for k, v in arguments.items() if k not in ("B", "M", "N", "K", "dtype") and v]
    return BatchCase("-".join([words, arguments["dtype"], *more]), row["source"], tuple(arguments.items()))


def _drawn() -> Iterator[dict[str, Any]]:
    """Endless problems around the homes of the branches, a sixth each, drawn from a fixed seed."""
    rng = random.Random(SEED)
    homes = (
        ((128, 256, 1024), (16, 32, 48, 64), (16, 32, 48, 64), (256, 512, 1024)),  # merged
        ((32, 64, 96, 128), (64, 96, 128, 256), (64, 96, 128, 256), (64, 128, 512)),  # iterated
        ((1, 4, 16), (512, 768, 2048), (256, 512, 1024), (128, 1024, 4096)),  # blocks
        ((1, 2, 4), (16, 32), (16, 32, 48), (8192, 32768, 131072)),  # K cut
        ((8, 64, 200), (1, 16, 100), (64, 100, 256), (64, 128, 256)),  # one side without a batch
        ((128, 512, 1000), (8, 16, 100), (33, 65, 200), (1, 8, 16)),  # shallow
    )
    for i in itertools.count():
        home = homes[i % len(homes)]
        row: dict[str, Any] = dict(zip("BMNK", (rng.choice(x) for x in home), strict=True))
        row["dtype"] = rng.choice(("bf16", "fp16", "fp32"))
        if i % len(homes) == 4:
            row[rng.choice(("batch_a", "batch_b"))] = 1
        if rng.random() < 0.25:
            row["bias"] = "shared"
        yield row


@dataclass(frozen=True)
class BatchStudy:
    """Which ``cases`` are planned on which ``chip``, under which reading; a study of the harness (tilesat.studies.work)."""

    suite: str
    cases: tuple[BatchCase, ...]
    chip: Chip
    reading: str = "analysis"

    @property
    def kind(self) -> str:
        return "batch"

    def items(self) -> Sequence[str]:
        return [c.name for c in self.cases]

    @cached_property
    def _by_name(self) -> dict[str, BatchCase]:
        return {c.name: c for c in self.cases}

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k in self.__dataclass_fields__}

    def identity(self) -> dict[str, Any]:
        return {
            "suite": self.suite,
            "cases": [[c.name, list(map(list, c.arguments))] for c in self.cases],
            "chip": describe(self.chip),
            "reading": self.reading,
        }

    def run(self, item: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """One problem's row: its plan, the plan without each family, and every capable branch by model and simulator."""
        from egraph_rules.batch.catalogue import FAMILIES

        case = self._by_name[item]
        began = time.perf_counter()
        plan = self.plan(case)
        planned = time.perf_counter() - began
        branches = {b: _priced(self.plan(case, branch=b)) for b in plan.alternatives}
        without = {family: self.without(case, family) for family in FAMILIES}
        row = {
            "branch": plan.branch,
            "predicted": plan.latency.total,
            "bound": plan.latency.bound,
            "refused": {b: list(r) for b, r in plan.refused.items()},
            "branches": branches,
            "without": without,
            "nodes": plan.report.nodes,
            "matches": {r.name: r.matches for r in plan.report.rules},
        }
        return row, {"plan": planned, "all": time.perf_counter() - began}

    def plan(self, case: BatchCase, **more: Any) -> BatchPlan:
        return plan_batch(**case.kwargs, chip=self.chip, reading=self.reading, **more)

    def without(self, case: BatchCase, family: str) -> dict[str, Any]:
        """What is planned when a family is switched off: branch and predicted microseconds, or the reason there is none."""
        try:
            plan = self.plan(case, rules=f"all,-{family}")
        except Rejected as nothing:
            return {"branch": None, "predicted": None, "why": str(nothing)}
        return {"branch": plan.branch, "predicted": plan.latency.total}


def _priced(plan: BatchPlan) -> dict[str, float]:
    from tilesat.batch_simulation import simulate_batch

    return {"predicted": plan.latency.total, "simulated": simulate_batch(plan).microseconds}


@dataclass(frozen=True)
class BatchFindings:
    """The rows of a study and the tables made of them."""

    study: BatchStudy
    rows: list[Row] = field(repr=False)

    @property
    def results(self) -> list[tuple[str, dict[str, Any]]]:
        return [(r["item"], r["result"]) for r in self.rows if "result" in r]

    def ablation(self) -> list[dict[str, Any]]:
        """One row a family: problems without a plan when it is off, those that get slower, and how much (geometric mean)."""
        from egraph_rules.batch.catalogue import FAMILIES

        found = []
        for family in FAMILIES:
            pairs = [(r["predicted"], r["without"][family]["predicted"]) for _, r in self.results]
            slower = [b / a for a, b in pairs if b is not None and b > a * (1 + 1e-9)]
            found.append(
                {
                    "family": family,
                    "lost": sum(b is None for _, b in pairs),
                    "slower": len(slower),
                    "mean": math.exp(statistics.fmean(map(math.log, slower))) - 1 if slower else None,
                    "worst": max(slower) - 1 if slower else None,
                }
            )
        return found

    def agreement(self) -> list[dict[str, Any]]:
        """One row a problem with several capable branches: the model's pick, the simulator's, and what the pick costs there."""
        found = []
        for item, r in self.results:
            prices = r["branches"]
            if len(prices) < 2:
                continue
            best = min(prices, key=lambda b: prices[b]["simulated"])
            found.append(
                {
                    "item": item,
                    "model": r["branch"],
                    "simulator": best,
                    "regret": prices[r["branch"]]["simulated"] / prices[best]["simulated"] - 1,
                }
            )
        return found

    def ratios(self) -> list[float]:
        """Simulated over predicted microseconds of every chosen plan."""
        return [r["branches"][r["branch"]]["simulated"] / r["branches"][r["branch"]]["predicted"] for _, r in self.results]

    def markdown(self) -> str:
        """Both tables and the summary, in Markdown."""
        ablated = [
            (a["family"], str(a["lost"]), str(a["slower"]), percent(a["mean"]), percent(a["worst"])) for a in self.ablation()
        ]
        agreed = self.agreement()
        regrets = [a["regret"] for a in agreed]
        logs = [abs(math.log(x)) for x in self.ratios()]
        lines = [
            f"{len(self.results)} problems ({self.study.suite}) on {self.study.chip.name}, reading {self.study.reading}.\n",
            markdown(("without", ">no plan", ">slower", ">geometric mean", ">worst"), ablated),
        ]
        if agreed:
            same = sum(a["model"] == a["simulator"] for a in agreed)
            lines.append(
                f"Of {len(agreed)} problems with several capable branches, model and simulator pick the same in {same}; in the "
                f"simulator the model's pick costs {percent(statistics.fmean(regrets))} more on average, "
                f"{percent(max(regrets))} at most.\n"
            )
        if logs:
            lines.append(f"Simulated over predicted time: |ln| is {number(statistics.fmean(logs))} on average.\n")
        return "\n".join(lines)


def study_batch(
    suite: str | Sequence[BatchCase] = "standard",
    *,
    chip: object = "ascend950pr",
    reading: str = "analysis",
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    executor: str | None = None,
    progress: bool = False,
) -> BatchFindings:
    """Plan every problem of a suite, with and without each branch family, and simulate every capable branch.

    ``out``, ``workers``, ``executor``: as in :func:`tilesat.studies.ablate`. Raises :class:`StudyError` for an unknown suite.
    """
    from tilesat.studies.harness import run

    cases = batch_suite(suite) if isinstance(suite, str) else tuple(suite)
    name = suite if isinstance(suite, str) else "given"
    study = BatchStudy(name, cases, get_chip(chip), reading)  # type: ignore[arg-type]
    rows = run(
        study,
        out=out,
        workers=workers,
        executor=executor,
        progress=progress,
        finish=lambda found: {"batch.md": BatchFindings(study, found).markdown()},
    )
    return BatchFindings(study, rows)
