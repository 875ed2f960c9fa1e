"""Extraction as documented: statement by statement, as the reference pass goes.

Choose the tile by the chooser's own order, then see which placement the e-graph has for it; if none, leave the statement and say
why.
"""

from __future__ import annotations

from egraph_rules.language import WHOLE
from egraph_rules.plan import Form
from egraph_rules.program import NO_VALUE, ProductSite, Refusal
from extraction.decisions import Decision, Decisions, Evidence, Extraction
from extraction.policy import Priced, documented
from extraction.reasons import no_placement, nothing_legal
from extraction.snapshot import Node, Snapshot

#: Nodes that realise a placement without any decision.
_GIVEN = frozenset({"Given", "LoadTo"})


class Availability:
    """Which placements are realised so far: given ones from the start, others once a decision settles them."""

    def __init__(self, snap: Snapshot) -> None:
        self.place = snap.place
        self.nodes = snap.nodes
        self.settled: dict[int, bool] = {}

    def settle(self, space: str, v: int) -> None:
        """A decision puts value ``v`` in ``space``."""
        klass = self.place.get(("In", v, space))
        if klass is not None:
            self.settled[klass] = True

    def has(self, space: str, v: int) -> bool:
        """Can value ``v`` be had in ``space`` now?"""
        klass = self.place.get(("In", v, space))
        return klass is not None and self.realised(klass)

    def realised(self, klass: int) -> bool:
        """Is some way to have this placement open now?"""
        found = self.settled.get(klass)
        if found is None:
            self.settled[klass] = False  # a ring realises nothing
            found = any(self._node(n) for n in self.nodes.get(klass, ()))
            if found:
                self.settled[klass] = True
            else:
                del self.settled[klass]  # a later decision may
        return found

    def _node(self, node: Node) -> bool:
        if node.op in _GIVEN:
            return True
        return node.op in ("FromMat", "FromVec") and self.realised(node.children[0])

    def children(self, node: Node) -> bool:
        """Is everything a node needs realised?"""
        return all(map(self.realised, node.children))


def extract_documented(evidence: Evidence) -> Decisions:
    """Decide as the documented pass does."""
    return _Documented(evidence).run()


class _Documented(Extraction):
    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self.at = Availability(self.snap)

    def best(self, priced: Priced) -> int | None:
        return documented(priced)

    def products(self, sites: list[ProductSite]) -> dict[int, Decision]:
        return {s.v: self.product(s) for s in sites}

    # -- products --------------------------------------------------------------------------------------------------------

    def product(self, site: ProductSite) -> Decision:
        """One product: its residency, the refusals of its types, its tile, then the form the e-graph has for that tile."""
        decision = Decision(site.v)
        row = self.tile_of(site, decision)
        decision.chosen = row
        if row is None or self.is_whole_window(site, row):
            if row is not None and not self.priced[site.problem].is_whole_problem(row):
                self.take_k_loop(site, row, decision)
            self.fold(site, decision)
        else:
            self.grid(site, row, decision)
        if site.cast != NO_VALUE and decision.cast == NO_VALUE and self.snap.of("VectorCast", site.cast):
            self.at.settle("Vec", site.cast)
        return decision

    def tile_of(self, site: ProductSite, decision: Decision) -> int | None:
        """The row of the tile the product gets, or None with (or without) a hint."""
        left_in_mat = self.at.has("Mat", site.left)
        if not self.at.has("Mat", site.right) or not (left_in_mat or self.at.has("Vec", site.left)):
            if self.stopped is not None and {site.left, site.right} <= self.snap.resident:
                decision.hints.append(nothing_legal(self.snap, site, self.stopped))
            return None
        if site.bias is not None and not left_in_mat:
            decision.hints.append(Refusal("PH-AT-011", "the left operand of a biased product must lie in Mat, it lies in Vec"))
            return None
        if site.refusal is not None:
            decision.hints.append(site.refusal)
            return None
        row = self.forced.get(site.v, self.choice(site.problem))
        if row is None:
            decision.hints.append(nothing_legal(self.snap, site, self.stopped))
        return row

    def is_whole_window(self, site: ProductSite, row: int) -> bool:
        return int(self.priced[site.problem].schedules.scope[row]) == WHOLE

    def take_k_loop(self, site: ProductSite, row: int, decision: Decision) -> None:
        for node in self.snap.of("KLoop", site.v):
            if self.at.children(node):
                decision.form, decision.problem, decision.row, decision.node = Form.K_LOOP, site.problem, row, node
                return

    def fold(self, site: ProductSite, decision: Decision) -> None:
        """A cast of a whole window goes into one assemble where FIXPIPE can do it."""
        for node in self.snap.of("Fold", site.cast) if site.cast != NO_VALUE else ():
            decision.cast, decision.scratch = site.cast, str(node.detail[0])
            self.at.settle("Mat", site.cast)
            return
        if site.fold_refusal is None or not site.one_window:  # what is too large for one window folds by windows, if at all
            return
        if "cast_fold" in self.snap.families and self.at.has("Mat", site.left):
            decision.hints.insert(0, site.fold_refusal)

    # -- grids -----------------------------------------------------------------------------------------------------------

    def grid(self, site: ProductSite, row: int, decision: Decision) -> None:
        """Place a product whose tile cuts the output: Mat scratch first, then the store; else leave it with the reason."""
        scope = int(self.priced[site.problem].schedules.scope[row])
        for node in self.snap.of("GridScratch", site.v):
            taken = self.scratch_row(node, site, row, scope)
            if taken is not None and self.at.children(node):
                assert node.schedule is not None
                decision.form, decision.problem, decision.row, decision.node = Form.GRID_SCRATCH, node.schedule[0], taken, node
                decision.scratch, decision.cast = str(node.detail[0]), int(node.detail[1])
                self.at.settle("Mat", site.v if decision.cast == NO_VALUE else decision.cast)
                return
        for node in self.snap.of("GridStore", site.v):
            if node.schedule == (site.problem, scope) and self.at.children(node):
                decision.form, decision.problem, decision.row, decision.node = Form.GRID_STORE, site.problem, row, node
                decision.store = site.store
                return
        decision.hints.extend(no_placement(self.snap, site, self.at.has("Mat", site.left), self.refusals.get(site.v)))

    def scratch_row(self, node: Node, site: ProductSite, row: int, scope: int) -> int | None:
        """The schedule a scratch grid takes: the product's own, or (another problem: the planner says so) chosen again."""
        assert node.schedule is not None
        problem, node_scope = node.schedule
        if problem == site.problem:
            return row if node_scope == scope else None
        priced = self.priced.get(problem)
        if site.v in self.forced:
            again = None if priced is None else priced.same_tile(self.priced[site.problem], row)
        else:
            again = self.choice(problem)
        if again is None or int(self.priced[problem].schedules.scope[again]) != node_scope:
            return None
        return again
