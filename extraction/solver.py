"""What placements cost, and the cheapest solution of each class.

Each placement class gets the node whose whole solution costs least. ``tree`` adds up the costs of a node's children; ``dag``
counts a class that two children share once (the greedy set-union extraction of the egg and extraction-gym projects).

A schedule's cost is the model's wall; moves the model does not price (loads from global memory, cube-vector crossings) count at
the target's nominal rates; a statement that cannot run as it stands is dearer than anything that can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from cost.hardware import Target
from extraction.policy import Priced, cheapest
from extraction.snapshot import Node, Snapshot

#: Dearer than any plan: a statement that exceeds L0 and stays so.
DEAR = 1e15

#: (cost, node, own cost of every class in the solution) of a class.
Solution = tuple[float, Node | None, dict[int, float]]


class Costs:
    """What each node costs by itself, in the model's unit."""

    def __init__(self, snap: Snapshot, priced: Mapping[int, Priced], forced: Mapping[int, int]) -> None:
        self.snap = snap
        self.priced = priced
        self.forced = forced
        self.sites = {s.v: s for s in snap.program.products}
        self.rows: dict[tuple[int, int], int | None] = {}

    def row(self, node: Node) -> int | None:
        """The schedule row a node takes: the best of its scope, or the forced one."""
        assert node.schedule is not None
        if node.v in self.forced:
            return self.forced_row(node.v, *node.schedule)
        return self.best(*node.schedule)

    def forced_row(self, v: int, problem: int, scope: int) -> int | None:
        """The forced tile in this scope of a problem: the product's own, or the one its planner substitutes for it."""
        own, priced = self.sites.get(v), self.priced.get(problem)
        if own is None or priced is None:
            return None
        row: int | None = self.forced[v]
        if own.problem != problem:
            row = priced.same_tile(self.priced[own.problem], self.forced[v])
        return row if row is not None and priced.schedules.scope[row] == scope else None

    def best(self, problem: int, scope: int) -> int | None:
        key = (problem, scope)
        if key not in self.rows:
            priced = self.priced.get(problem)
            self.rows[key] = None if priced is None else cheapest(priced, scope)
        return self.rows[key]

    def of(self, node: Node) -> float:
        """The node's own cost; its children's come on top."""
        if node.schedule is not None:
            row = self.row(node)  # None: this placement has no schedule to take, it cannot be had at any price
            return math.inf if row is None else float(self.priced[node.schedule[0]].prices.wall[row])
        if node.op == "AsItStands":
            return self.as_it_stands(node.v)
        return _MOVES[node.op](self.snap.program.sizes.get(node.v, 0), self.snap.target) if node.op in _MOVES else 0.0

    def as_it_stands(self, v: int) -> float:
        """A product that is already the size of L0 costs its wall; any other cannot run as it stands."""
        row = self.whole_row(v)
        return DEAR if row is None else float(self.priced[self.sites[v].problem].prices.wall[row])

    def whole_row(self, v: int) -> int | None:
        """The schedule of a product that is already the size of L0: one window, one panel; None of any other."""
        site = self.sites.get(v)
        priced = None if site is None or v in self.forced else self.priced.get(site.problem)
        if priced is None:
            return None
        c, p = priced.schedules.candidates, priced.problem
        return priced.best_of(((c.m >= p.M) & (c.n >= p.N) & (c.k >= p.K)).nonzero()[0])


def _gm(size: int, target: Target) -> float:
    return size / target.machine.gm_bytes_per_cycle


def _crossing(size: int, target: Target) -> float:
    return size / target.machine.acc_vec_crossing_bytes_per_cycle


#: Costs of moves by node, from the bytes moved (nominal, uncalibrated rates).
_MOVES: dict[str, Callable[[int, Target], float]] = {"LoadTo": _gm, "FromVec": _crossing, "VectorCast": _crossing}


class Solver:
    """The cheapest solution of every class, by ``tree`` or ``dag`` cost."""

    def __init__(self, snap: Snapshot, costs: Costs, extractor: str) -> None:
        self.snap = snap
        self.costs = costs
        self.shares = extractor == "dag"
        self.best: dict[int, Solution] = {}

    def cost(self, klass: int) -> float:
        return self.solve(klass)[0]

    def children(self, node: Node) -> tuple[int, ...]:
        """The classes a node needs. A statement as it stands needs its operands too, in Mat or wherever else they can be had."""
        return self.operands.get(node.v, ()) if node.op == "AsItStands" else node.children

    @cached_property
    def operands(self) -> dict[int, tuple[int, ...]]:
        place = self.snap.place
        found = {}
        for s in self.snap.program.products:
            classes = [place.get(("In", v, "Mat"), place.get(("In", v, "Vec"))) for v in (s.left, s.right)]
            found[s.v] = tuple([c for c in classes if c is not None])
        return found

    def node(self, klass: int) -> Node | None:
        return self.solve(klass)[1]

    def solve(self, klass: int) -> Solution:
        """(cost, node, own cost of every class in the solution); children first, without recursion."""
        stack = [klass]
        below: set[int] = set()  # classes whose children are being solved
        while stack:
            top = stack[-1]
            if top in self.best:
                stack.pop()
                continue
            nodes = self.snap.nodes.get(top, [])
            missing = [c for n in nodes for c in self.children(n) if c not in self.best]
            if not missing:
                stack.pop()
                self.best[top] = self._cheapest(top, nodes)
            elif below.isdisjoint(missing):
                below.add(top)
                stack.extend(missing)
            else:
                self._settle_all()
        return self.best[klass]

    def _settle_all(self) -> None:
        """Where rules made classes depend on each other: costs come down from infinity until none changes (egg's extraction)."""
        for klass in self._all_classes():
            self.best.setdefault(klass, (math.inf, None, {klass: math.inf}))
        changed = True
        while changed:
            changed = False
            for klass, nodes in self.snap.nodes.items():
                found = self._cheapest(klass, nodes)
                if found[0] < self.best[klass][0]:
                    self.best[klass], changed = found, True

    def _all_classes(self) -> Iterator[int]:
        for klass, nodes in self.snap.nodes.items():
            yield klass
            for node in nodes:
                yield from self.children(node)

    def _cheapest(self, klass: int, nodes: list[Node]) -> Solution:
        found: Solution = (math.inf, None, {klass: math.inf})
        for node in nodes:
            own = self.costs.of(node)
            below: dict[int, float] = {}
            children = self.children(node)
            for child in children:
                below.update(self.best[child][2])
            total = own + (sum(below.values()) if self.shares else sum(self.best[c][0] for c in children))
            if total < found[0] and klass not in below:
                found = (total, node, {**below, klass: own} if self.shares else {})
        return found


def greedy_solver(extractor: str) -> Callable[[Snapshot, Costs], Solver]:
    """The solver of extractor "tree" or "dag"."""
    return lambda snap, costs: Solver(snap, costs, extractor)
