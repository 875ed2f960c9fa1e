"""What a tiling run tells: the tiled program, a decision per product, diagnostics, the engine's report, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from egraph_rules.report import Report
    from extraction.explain import Explanation
    from ir_bridge.ir.misspelt import UnknownOperation
    from ir_bridge.ir.nodes import Program


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
    ``breakdown`` are the cost model's; in its ``unit``; ``candidates`` counts the legal schedules they were picked from.
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
    unit: str = "cycles"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Whether a rule fired at a product; if not, the condition or fact that failed, with its numbers."""

    rule: str
    statement: str
    name: str
    fired: bool
    reason: str

    def __str__(self) -> str:
        head = f"{self.rule} at {self.name}: {'fired' if self.fired else 'did not fire'}"
        return f"{head}\n  {self.statement}\n  {self.reason}"


class Explains(Protocol):
    """What answers questions about a finished run."""

    def explain(self, name: str, against: tuple[int, int, int] | None = None) -> Explanation: ...

    def why_not(self, rule: str, name: str) -> tuple[WhyNot, ...]: ...


class Tiling:
    """The result of :func:`tilesat.tile`: ``program``, ``decisions``, ``diagnostics``, ``report``; ``explain`` tells why.

    ``source`` is the program as it came; ``converted`` its tile program, which is the same unless it was a tensor program.
    ``explainer`` makes what answers questions, when one is first asked.
    """

    def __init__(
        self,
        source: Program,
        converted: Program,
        program: Program,
        decisions: tuple[ProductDecision, ...],
        diagnostics: tuple[PerfHint, ...],
        report: Report,
        explainer: Callable[[], Explains],
    ) -> None:
        self.source = source
        self.converted = converted
        self.program = program
        self.decisions = decisions
        self.diagnostics = diagnostics
        self.report = report
        self._make_explainer = explainer

    @property
    def cycles(self) -> float:
        """What the cost model predicts for all products, in its :attr:`unit` (statements left as they stand count nothing)."""
        return float(sum(d.wall_cycles or 0 for d in self.decisions))

    @property
    def unit(self) -> str:
        """What the cost model counts: cycles, and of some models bytes, multiply-adds or points."""
        return next((d.unit for d in self.decisions if d.wall_cycles is not None), "cycles")

    @cached_property
    def unknown_operations(self) -> tuple[UnknownOperation, ...]:
        """Operations of the source that are not known and were carried along as they stand, though one of nearly that name is
        known: they may be misspelt."""
        from ir_bridge.ir.misspelt import misspelt

        return misspelt(self.source)

    def explain(self, name: str, against: tuple[int, int, int] | None = None) -> Explanation:
        """Why product ``name`` got its schedule: against the runner-up and, if given, the tile (m, n, k), term by term in the
        model's unit, with the limits that bind and the rules that made it. TilesatError names the products there are."""
        return self._explainer.explain(name, against)

    def why_not(self, rule: str, at: str) -> tuple[WhyNot, ...]:
        """Why ``rule`` (or each rule of a family) did not fire at product ``at``: the side condition, with its numbers."""
        return self._explainer.why_not(rule, at)

    @cached_property
    def _explainer(self) -> Explains:
        return self._make_explainer()
