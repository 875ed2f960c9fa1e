"""Extraction by cost alone: the cheapest legal plan for the whole program, read off the solution of its classes."""

from __future__ import annotations

from collections.abc import Callable

from egraph_rules.plan import Form
from egraph_rules.program import NO_VALUE, ProductSite, Refusal
from extraction.decisions import Decision, Decisions, Evidence, Extraction
from extraction.policy import Priced, cheapest
from extraction.reasons import no_placement, nothing_legal
from extraction.snapshot import Snapshot
from extraction.solver import DEAR, Costs, Solver

#: How each placement node reads as a form.
_FORMS = {"KLoop": Form.K_LOOP, "GridStore": Form.GRID_STORE, "GridScratch": Form.GRID_SCRATCH}


def extract_cheapest(evidence: Evidence, solver: Callable[[Snapshot, Costs], Solver]) -> Decisions:
    """The cheapest plan; ``solver`` makes what solves the classes."""
    return _Cheapest(evidence, solver).run()


class _Cheapest(Extraction):
    def __init__(self, evidence: Evidence, solver: Callable[[Snapshot, Costs], Solver]) -> None:
        super().__init__(evidence)
        self.costs = Costs(self.snap, self.priced, self.forced)
        self.solver = solver(self.snap, self.costs)
        self.demanded: set[int] = set()

    def best(self, priced: Priced) -> int | None:
        return cheapest(priced)

    def products(self, sites: list[ProductSite]) -> dict[int, Decision]:
        """Consumers are decided first: they say where operands must be."""
        decided = {s.v: self.product(s) for s in reversed(sites)}
        return {s.v: decided[s.v] for s in sites}

    def product(self, site: ProductSite) -> Decision:
        """Walk the solution of the class that the product's users want."""
        decision = Decision(site.v)
        root = self.root(site)
        if root is not None:
            self.demand(root)
            self.read(root, site, decision)
        if decision.form is Form.AS_IT_STANDS:
            decision.chosen = self.costs.whole_row(site.v)
            if decision.chosen is None:
                decision.hints.extend(self.why(site))
        return decision

    def root(self, site: ProductSite) -> int | None:
        """The class to realise: the store; else where a consumer wants the value; else the accumulator, if it can be had."""
        place = self.snap.place
        if site.store != NO_VALUE and ("Done", site.store) in place:
            return place["Done", site.store]
        value = site.cast if site.cast != NO_VALUE else site.v
        wanted = [place[key] for key in (("In", value, "Mat"), ("In", value, "Vec")) if key in place]
        for klass in wanted:
            if klass in self.demanded:
                return klass
        accumulator = place.get(("In", site.v, "Acc"))
        if site.cast != NO_VALUE and wanted:
            return min(wanted, key=self.solver.cost)
        if accumulator is not None and self.solver.cost(accumulator) >= DEAR and wanted:
            return min(wanted, key=self.solver.cost)
        return accumulator

    def demand(self, root: int) -> None:
        """Mark every class the solution below ``root`` realises."""
        stack = [root]
        while stack:
            klass = stack.pop()
            if klass not in self.demanded:
                self.demanded.add(klass)
                node = self.solver.node(klass)
                stack.extend(self.solver.children(node) if node is not None else ())

    def read(self, root: int, site: ProductSite, decision: Decision) -> None:
        """The decision that the solution of ``root`` means for its product."""
        node = self.solver.node(root)
        while node is not None and node.op in ("StoreFrom", "Fold", "VectorCast"):
            if node.op == "Fold":
                decision.cast, decision.scratch = site.cast, str(node.detail[0])
            node = self.solver.node(node.children[0])
        if node is None or node.op not in _FORMS or node.schedule is None:
            return
        row = self.costs.row(node)
        if row is None:  # a dear operand is no reason to leave its reader as it stands
            return
        form = _FORMS[node.op]
        if form is Form.K_LOOP and self.priced[node.schedule[0]].is_whole_problem(row):
            return
        decision.form, decision.problem, decision.row, decision.chosen, decision.node = form, node.schedule[0], row, row, node
        if form is Form.GRID_STORE:
            decision.store = site.store
        elif form is Form.GRID_SCRATCH:
            decision.scratch, decision.cast = str(node.detail[0]), int(node.detail[1])

    def why(self, site: ProductSite) -> list[Refusal]:
        """Why a product that exceeds L0 stays as it stands."""
        if site.refusal is not None:
            return [site.refusal]
        if site.problem == NO_VALUE or ("In", site.right, "Mat") not in self.snap.place:
            resident = site.problem != NO_VALUE and {site.left, site.right} <= self.snap.resident
            return [nothing_legal(self.snap, site, self.stopped)] if resident and self.stopped is not None else []
        if self.priced.get(site.problem) is None:
            return [nothing_legal(self.snap, site, self.stopped)]
        in_mat = ("In", site.left, "Mat") in self.snap.place
        return no_placement(self.snap, site, in_mat, self.refusals.get(site.v))
