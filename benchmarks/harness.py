"""What the benchmarks share: results with a budget, timing, the table."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One figure against its budget: ``measured`` must be at most ``budget``, in ``unit``; ``note`` says how it came about."""

    what: str
    measured: float
    budget: float
    unit: str
    note: str = ""

    @property
    def within(self) -> bool:
        return self.measured <= self.budget


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def best_of(times: int, *runs: Callable[[], object]) -> list[float]:
    """The best wall time of each function over ``times`` rounds, in which they take turns: what disturbs one disturbs all."""
    best = [float("inf")] * len(runs)
    for _ in range(times):
        best = [min(b, seconds(run)) for b, run in zip(best, runs, strict=True)]
    return best


def python(*arguments: str) -> Callable[[], object]:
    """A fresh interpreter of this environment, to be timed."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def table(results: Iterable[Result]) -> str:
    """The results as a Markdown table."""
    lines = ["| what | measured | budget | | how |", "|---|---:|---:|---|---|"]
    for r in results:
        verdict = "within" if r.within else "**over**"
        lines.append(f"| {r.what} | {_figure(r.measured)} {r.unit} | {_figure(r.budget)} {r.unit} | {verdict} | {r.note} |")
    return "\n".join(lines)


def _figure(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"
