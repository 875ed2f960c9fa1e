"""`tile`: the whole way from a program to its tiled form, and what is told about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cost.hardware import Target
    from egraph_rules.catalogue import RuleSet
    from egraph_rules.engine import Limits, Report
    from extraction.explain import Explanation
    from ir_bridge.ir.nodes import Program
    from tilesat.explain import Explainer, WhyNot
    from tilesat.pipeline import Run

PLANNERS = ("pypto", "dsa_rp", "ptoas")


@dataclass(frozen=True, slots=True)
class PerfHint:
    """A diagnostic: its PH-AT code, what is the matter and what helps, and where ("kernel at file:line:col")."""

    code: str
    message: str
    where: str
    op: str

    def __str__(self) -> str:
        return f"[perf_hint {self.code}] AutoTileMatmulL0: tile.{self.op}: {self.message} at {self.where}"


@dataclass(frozen=True, slots=True)
class ProductDecision:
    """What was decided for one product.

    ``name``, ``function`` and ``where`` say which; ``op`` is matmul, matmul_acc, matmul_bias or split_k_chain; ``M``, ``N``,
    ``K`` are its extents in elements, ``dtype`` its operands' type. ``form`` is as_it_stands, k_loop, grid_store or grid_scratch,
    ``placement`` where the result goes. ``m`` to ``double_buffer_c`` are None where the statement stands. ``wall_cycles`` and
    ``breakdown`` are the cost model's; ``candidates`` counts the legal schedules they were picked from.
    """

    name: str
    function: str
    op: str
    where: str
    M: int
    N: int
    K: int
    dtype: str
    form: str
    placement: str
    m: int | None
    n: int | None
    k: int | None
    stationarity: str | None
    double_buffer_c: bool | None
    wall_cycles: int | None
    breakdown: dict[str, float]
    candidates: int


def tile(
    program: Program,
    target: str | os.PathLike[str] | Target = "ascend910b",
    planner: str = "dsa_rp",
    rules: str | RuleSet = "reference",
    cost_model: object = "roofline",
    extractor: str = "dag",
    limits: Limits | None = None,
    pypto_double_buffer_c: bool = False,
    force: Mapping[str, tuple[int, int, int]] | None = None,
) -> Tiling:
    """Tile every product of ``program`` for one core of ``target``.

    ``planner`` is who will place buffers ("pypto", "dsa_rp", "ptoas"); ``pypto_double_buffer_c`` opts in to two accumulators
    under "pypto". ``rules`` names a rule set, ``cost_model`` a model or is one, ``extractor`` is "tree" or "dag". ``limits``
    bound saturation. ``force`` fixes the tile (m, n, k) of products by name.

    Raises TilesatError (or a subclass) for an unknown name, an operand placed in L0 by hand that cannot fit, or a forced tile
    that is not legal; the message says which limit it breaks.
    """
    from tilesat.pipeline import Run

    return Run(program, target, planner, rules, cost_model, extractor, limits, pypto_double_buffer_c, force or {}).tiling()


class Tiling:
    """The result of :func:`tile`: ``program``, ``decisions``, ``diagnostics``, ``report``; ``explain`` tells why."""

    def __init__(
        self,
        source: Program,
        program: Program,
        decisions: tuple[ProductDecision, ...],
        diagnostics: tuple[PerfHint, ...],
        report: Report,
        run: Run,
    ) -> None:
        self.source = source
        self.program = program
        self.decisions = decisions
        self.diagnostics = diagnostics
        self.report = report
        self._run = run

    @property
    def cycles(self) -> float:
        """Predicted cycles of all products together, as the cost model has it (statements left as they stand count nothing)."""
        return float(sum(d.wall_cycles or 0 for d in self.decisions))

    def explain(self, name: str, against: tuple[int, int, int] | None = None) -> Explanation:
        """Why product ``name`` got its schedule: against the runner-up and, if given, the tile (m, n, k), term by term in the
        model's unit, with the limits that bind and the rules that made it. TilesatError names the products there are."""
        return self._explainer.explain(name, against)

    def why_not(self, rule: str, at: str) -> tuple[WhyNot, ...]:
        """Why ``rule`` (or each rule of a family) did not fire at product ``at``: the side condition, with its numbers."""
        return self._explainer.why_not(rule, at)

    @cached_property
    def _explainer(self) -> Explainer:
        from tilesat.explain import Explainer

        return Explainer(self._run)
