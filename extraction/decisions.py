"""Decisions: what an extraction says of each product, chain and pipeline; and the walk over a program that all policies share.

Two policies. ``documented`` (:mod:`extraction.documented`) goes through the statements in order as the reference pass does;
``cheapest`` (:mod:`extraction.cheapest`) takes the plan that costs least, whatever its tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from egraph_rules.language import WHOLE
from egraph_rules.plan import Form
from egraph_rules.program import NO_VALUE, ChainSite, ProductSite, Refusal
from extraction.policy import Priced
from extraction.snapshot import Node, Snapshot


@dataclass(slots=True)
class Decision:
    """What was decided for one product (or chain): its form, the row of its problem's schedules it takes, and why not more.

    ``problem`` is the problem whose schedules ``row`` counts in; ``node`` the placement node taken (None: as it stands).
    ``chosen`` is the row the policy picked for the product's own problem, taken or not. ``hints`` are in the documented order.
    """

    v: int
    form: Form = Form.AS_IT_STANDS
    problem: int = NO_VALUE
    row: int | None = None
    chosen: int | None = None
    node: Node | None = None
    scratch: str | None = None
    cast: int = NO_VALUE
    store: int = NO_VALUE
    hints: list[Refusal] = field(default_factory=list)


@dataclass(slots=True)
class Decisions:
    """Every decision, by SSA number in statement order; ``pipelines`` are loops that get two accumulators."""

    products: dict[int, Decision] = field(default_factory=dict)
    chains: dict[int, Decision] = field(default_factory=dict)
    pipelines: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What every policy decides from: the ``snapshot`` of the saturated e-graph, its schedules ``priced`` by problem; ``forced``
    gives the row of a product whose tile the user fixed; ``refusals`` the reason a product's split-K chain was not recognised;
    ``stopped`` the limit that ended saturation, if one did.
    """

    snap: Snapshot
    priced: Mapping[int, Priced]
    forced: Mapping[int, int]
    refusals: Mapping[int, str]
    stopped: str | None


class Extraction:
    """One run of a policy, which says how a problem's schedule is chosen and how products are decided."""

    def __init__(self, evidence: Evidence) -> None:
        self.snap = evidence.snap
        self.priced = evidence.priced
        self.forced = evidence.forced
        self.refusals = evidence.refusals
        self.stopped = evidence.stopped
        self.choices: dict[int, int | None] = {}

    def best(self, priced: Priced) -> int | None:
        """The row that the policy takes of a problem's schedules, None where there is none."""
        raise NotImplementedError

    def products(self, sites: list[ProductSite]) -> dict[int, Decision]:
        """A decision for each of these products, in their order."""
        raise NotImplementedError

    def run(self) -> Decisions:
        """Chains first: a product inside a chain that is cut is not looked at by itself."""
        program = self.snap.program
        chains = {c.v: decision for c in program.chains if (decision := self.chain(c)) is not None}
        chained = {v for c in program.chains if c.v in chains for v in c.products}
        pipelines = [v for v in program.loops if self.snap.of("TwoAccumulators", v)]
        return Decisions(self.products([s for s in program.products if s.v not in chained]), chains, pipelines)

    def choice(self, problem: int) -> int | None:
        """The row of a problem's schedules that the policy takes."""
        if problem not in self.choices:
            priced = self.priced.get(problem)
            self.choices[problem] = None if priced is None else self.best(priced)
        return self.choices[problem]

    def chain(self, site: ChainSite) -> Decision | None:
        """A chain is cut where its schedule cuts its output; otherwise its products are looked at one by one."""
        row = self.forced.get(site.v, self.choice(site.problem))
        if row is None:
            return None
        scope = int(self.priced[site.problem].schedules.scope[row])
        if scope == WHOLE:
            return None
        for node in self.snap.of("ChainGrid", site.v):
            if node.schedule == (site.problem, scope):
                return Decision(site.v, Form.GRID_STORE, site.problem, row, row, node, store=site.store)
        return None
