"""The ablation of rule sets: every program of a corpus tiled under every rule set of a design.

A set that leaves a product without a legal plan is a result: the program's row says so and why. Cycles are predicted by the cost
model that chose, and simulated, summed over the program's core functions.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cost.hardware import Target, describe
from cost.models import CostModel
from cost.models import cost_model as find_model
from egraph_rules.report import Limits
from ir_bridge.ir.nodes import CORE_KINDS, Program
from ir_bridge.ir.verifier import verify
from tilesat.corpus import Entry
from tilesat.simulation import SimulationError, simulate
from tilesat.studies import manifest
from tilesat.studies.errors import StudyError
from tilesat.studies.rule_sets import Variant
from tilesat.tiling import tile

if TYPE_CHECKING:
    from tilesat.result import Tiling

KIND = "ablation"
#: What became of a program: every product has a legal plan; a buffer overflows, as it does in the source, because a product
#: is left as it stands; the tiled program has a finding that its source has not (a defect of a rule).
LEGAL, NO_PLAN, UNSOUND = "legal", "no legal plan", "unsound"
SEPARATOR = " | "


@dataclass(frozen=True)
class AblationStudy:
    """Which ``entries`` are tiled under which ``sets``, and how."""

    corpus: str
    digest: str
    entries: tuple[Entry, ...]
    sets: tuple[Variant, ...]
    design: str
    target: Target
    planner: str
    model: object
    extractor: str
    residency: str
    limits: Limits

    @property
    def kind(self) -> str:
        return KIND

    def items(self) -> Sequence[str]:
        readable: list[Entry] = []
        broken: list[Entry] = []
        for e in self.entries:
            (readable if self._can_be_read(e) else broken).append(e)
        return [*(self.item(v, e) for v in self.sets for e in readable), *map(self.broken_item, broken)]

    def _can_be_read(self, e: Entry) -> bool:
        """Does an entry come as far as the rules? What it raises before them, it raises under every set."""
        try:
            e.problems(self.target, self.planner)
        except Exception:  # of whatever kind: its row tells it
            return False
        return True

    @staticmethod
    def item(v: Variant, e: Entry) -> str:
        """The name of a program's row under a rule set."""
        return f"{v.name}{SEPARATOR}{e.name}"

    @staticmethod
    def broken_item(e: Entry) -> str:
        """The name of the one row of an entry that no rule set comes to see, because it cannot be read."""
        return f"entry {e.name}"

    @cached_property
    def _by_name(self) -> dict[str, tuple[Variant | None, Entry]]:
        found: dict[str, tuple[Variant | None, Entry]] = {self.broken_item(e): (None, e) for e in self.entries}
        return found | {self.item(v, e): (v, e) for v in self.sets for e in self.entries}

    def about(self, item: str) -> tuple[str, str]:
        """The rule set (none where it could not be read) and the program of a row."""
        v, e = self._by_name[item]
        return "" if v is None else v.name, e.name

    @cached_property
    def cost_model(self) -> CostModel:
        """The model that chooses. Raises CostModelError for an unknown one."""
        return find_model(self.model)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k in self.__dataclass_fields__}

    def identity(self) -> dict[str, Any]:
        return {
            "corpus": {"name": self.corpus, "digest": self.digest, "programs": len(self.entries)},
            "design": self.design,
            "sets": {v.name: manifest.rule_set(v.rule_set()) for v in self.sets},
            "target": describe(self.target),
            "planner": self.planner,
            "model": manifest.model(self.cost_model),
            "extractor": self.extractor,
            "residency": self.residency,
            "limits": dataclasses.asdict(self.limits),
        }

    def tiled(self, v: Variant, e: Entry) -> Tiling:
        """A program under a rule set."""
        rules = v.rule_set()
        return tile(e.program(), self.target, self.planner, rules, self.cost_model, self.extractor, self.limits)

    def run(self, item: str) -> tuple[dict[str, Any], dict[str, Any]]:
        v, e = self._by_name[item]
        if v is None:
            e.problems(self.target, self.planner)
            raise StudyError(f"{e.name} could not be read and now can; run the study again in a new folder")
        result = self.tiled(v, e)
        report = result.report
        status, why = _status(result, self.target)
        began = time.perf_counter()
        simulated, trouble = self.simulated(result.program) if status == LEGAL else (None, [])
        seconds = {**report.phases, "simulate": time.perf_counter() - began}
        walls = [d.wall_cycles for d in result.decisions]
        row = {
            "status": status,
            "why": [*why, *trouble],
            "products": len(result.decisions),
            "tiled": sum(d.m is not None for d in result.decisions),
            "predicted": None if status != LEGAL or None in walls else sum(w for w in walls if w is not None),
            "simulated": simulated,
            "nodes": report.nodes,
            "classes": report.classes,
            "iterations": report.iterations,
            "stop": report.stop.value,
            "matches": {r.name: r.matches for r in report.rules},
        }
        return row, {"phases": seconds, "rules": {r.name: r.seconds for r in report.rules if r.matches}}

    def simulated(self, program: Program) -> tuple[float | None, list[str]]:
        """(cycles of all core functions, nothing), or (None, why there are none)."""
        total = 0.0
        for f in program.functions:
            if f.kind in CORE_KINDS:
                try:
                    total += simulate(program, self.target, self.residency, f.name).cycles
                except SimulationError as e:
                    return None, [f"not simulated: {e}"]
        return total, []


def _status(result: Tiling, target: Target) -> tuple[str, list[str]]:
    """What became of the program, and why it is not better."""
    before = {f.key for f in verify(result.source, target)}
    after = verify(result.program, target)
    new = [str(f) for f in after if f.key not in before]
    if new:
        return UNSOUND, new
    hints = [f"{h.code}: {h.message}" for h in result.diagnostics]
    over = sorted({f"{f.subject} overflows" for f in after if f.code == "capacity"})
    return (NO_PLAN, [*hints, *over]) if over else (LEGAL, hints)
