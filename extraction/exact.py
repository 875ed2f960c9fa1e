"""Exact extraction: the cheapest plan as a mixed-integer program, with shared work counted once and Mat's capacity kept.

Greedy extraction prices each class by itself; this one chooses for all of them together. A binary variable says whether a node is
taken, another whether a class is realised:

    minimise    Σ cost(node) · taken(node)
    subject to  a realised class takes exactly one of its nodes;  a taken node has all its children realised;
                every store happens, and every product has a home;
                at every point of the program, the Mat scratches alive there fit beside the tiles the source keeps in Mat;
                where the placements could form a ring, a taken node comes after its children (order variables).

Solved by HiGHS through scipy (Huangfu and Hall, "Parallelizing the dual revised simplex method"; the formulation is that of
extraction-gym's ILP extractors, with the capacity rows added).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cost.errors import TilesatError
from egraph_rules.program import NO_VALUE, MatPoint
from extraction.snapshot import Node, Snapshot
from extraction.solver import DEAR, Costs, Solver

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Seconds HiGHS may take before the best plan it has is used.
TIME_LIMIT = 60.0
_SCRATCHES = ("GridScratch", "Fold")


@dataclass(slots=True)
class _Rows:
    """Constraint rows ``low <= a·x <= high``, sparse."""

    entries: list[tuple[int, int, float]] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        row = len(self.low)
        self.entries.extend((row, column, value) for column, value in terms)
        self.low.append(low)
        self.high.append(high)


class ExactSolver(Solver):
    """A :class:`Solver` whose choices come from one mixed-integer program over all classes."""

    def __init__(self, snap: Snapshot, costs: Costs, points: Sequence[MatPoint]) -> None:
        super().__init__(snap, costs, "dag")
        self.points = points
        self.chosen: dict[int, Node] = {}
        self.classes = list(snap.nodes)
        self.columns = {klass: i for i, klass in enumerate(self.classes)}
        self.all_nodes = [node for nodes in snap.nodes.values() for node in nodes]
        self._solve_program()

    def cost(self, klass: int) -> float:
        """Own cost of what the program takes for a class; a class it leaves out is dearer than anything."""
        node = self.chosen.get(klass)
        return 2 * DEAR if node is None else self.costs.of(node)

    def node(self, klass: int) -> Node | None:
        return self.chosen.get(klass)

    def needs(self, node: Node) -> list[tuple[int, ...]]:
        """What a taken node needs: of each of these, one class realised. A statement as it stands takes an operand anywhere."""
        if node.op != "AsItStands":
            return [(child,) if child in self.columns else () for child in node.children]
        site = self.costs.sites.get(node.v)
        if site is None:
            return []
        places = [[("In", v, space) for space in ("Mat", "Vec", "Acc")] for v in (site.left, site.right)]
        homes = [tuple(self.snap.place[k] for k in keys if self.snap.place.get(k) in self.columns) for keys in places]
        return [h for h in homes if h]

    # -- the program -------------------------------------------------------------------------------------------------------------

    def _solve_program(self) -> None:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        if not self.all_nodes:
            return
        prices = self._prices()
        rows = _Rows()
        self._structure(rows)
        self._homes(rows)
        self._capacity(rows)
        orders = self._order(rows) if self._has_ring() else 0
        width = len(self.classes) + len(self.all_nodes)
        cost = np.concatenate([np.zeros(len(self.classes)), prices, np.zeros(orders)])
        upper = np.concatenate([np.ones(width), np.full(orders, float(len(self.classes)))])
        upper[len(self.classes) : width][self.impossible] = 0.0
        integer = np.concatenate([np.ones(width), np.zeros(orders)])
        row, column, value = zip(*rows.entries, strict=True)
        matrix = coo_array((value, (row, column)), shape=(len(rows.low), width + orders)).tocsc()
        found = milp(
            cost,
            constraints=LinearConstraint(matrix, rows.low, rows.high),
            bounds=Bounds(np.zeros(width + orders), upper),
            integrality=integer,
            options={"time_limit": TIME_LIMIT, "mip_rel_gap": 0.0},
        )
        if found.x is None:
            raise TilesatError(f"exact extraction found no plan ({found.message}); extractor 'dag' does not weigh Mat's capacity")
        taken: NDArray[np.bool_] = np.round(found.x[len(self.classes) : width]).astype(bool)
        self.chosen = {node.klass: node for node, yes in zip(self.all_nodes, taken, strict=True) if yes}

    def _prices(self) -> NDArray[np.float64]:
        """Node costs; what cannot run costs more than all else together, at a size the solver's arithmetic can bear."""
        raw = np.array([self.costs.of(n) for n in self.all_nodes])
        self.impossible = np.isinf(raw)
        dear = raw >= DEAR
        return np.where(dear, 10.0 * (1.0 + raw[~dear].sum()), raw)

    def _node_column(self, index: int) -> int:
        return len(self.classes) + index

    def _structure(self, rows: _Rows) -> None:
        """A realised class takes one node; a taken node has its children."""
        members: dict[int, list[int]] = {}
        for i, node in enumerate(self.all_nodes):
            members.setdefault(node.klass, []).append(self._node_column(i))
            for homes in self.needs(node):
                rows.add([(self._node_column(i), -1.0), *((self.columns[h], 1.0) for h in homes)], 0.0, np.inf)
        for klass, columns in members.items():
            rows.add([(self.columns[klass], -1.0), *((c, 1.0) for c in columns)], 0.0, 0.0)

    def _homes(self, rows: _Rows) -> None:
        """Every store happens; a product without one is in its accumulator, or where its consumers read it."""
        place = self.snap.place
        for s in self.snap.program.products:
            if s.store != NO_VALUE and ("Done", s.store) in place:
                wanted = [place["Done", s.store]]
            elif s.cast != NO_VALUE:
                wanted = [place[k] for k in (("In", s.cast, "Mat"), ("In", s.cast, "Vec")) if k in place]
            else:
                wanted = [place[k] for k in (("In", s.v, "Acc"), ("In", s.v, "Mat")) if k in place]
            columns = [self.columns[k] for k in wanted if k in self.columns]
            if columns:
                rows.add([(c, 1.0) for c in columns], 1.0, np.inf)

    def _capacity(self, rows: _Rows) -> None:
        """Scratches that are alive together fit beside what the source keeps in Mat; a point over full already binds none."""
        by_value: dict[int, list[tuple[int, int]]] = {}
        for i, node in enumerate(self.all_nodes):
            if node.op in _SCRATCHES:
                value, size = self._scratch(node)
                by_value.setdefault(value, []).append((self._node_column(i), size))
        for point in self.points:
            terms = [(c, float(size)) for v in sorted(point.scratches) for c, size in by_value.get(v, ())]
            if terms and point.free >= 0:
                rows.add(terms, 0.0, float(point.free))

    def _scratch(self, node: Node) -> tuple[int, int]:
        """(value, bytes) of the Mat tile a node makes: the cast's where a cast is folded, else the product's own."""
        sizes = self.snap.program.sizes
        if node.op == "Fold":
            return node.v, sizes.get(node.v, 0)
        cast = int(node.detail[1])
        if cast != NO_VALUE:
            return cast, sizes.get(cast, 0)
        assert node.schedule is not None
        p = self.snap.program.problems[node.schedule[0]]
        return node.v, p.M * p.N * p.c.bytes

    # -- order -------------------------------------------------------------------------------------------------------------------

    def _has_ring(self) -> bool:
        import networkx as nx

        return not nx.is_directed_acyclic_graph(self.snap.graph)

    def _order(self, rows: _Rows) -> int:
        """Order variables, one a class: order(class) >= order(child) + 1 where the node is taken (Miller, Tucker and Zemlin)."""
        count = len(self.classes)
        base = len(self.classes) + len(self.all_nodes)
        big = float(count + 1)
        for i, node in enumerate(self.all_nodes):
            for child in itertools.chain.from_iterable(self.needs(node)):
                if child in self.columns:
                    terms = [(base + self.columns[node.klass], 1.0), (base + self.columns[child], -1.0)]
                    rows.add([*terms, (self._node_column(i), -big)], 1.0 - big, np.inf)
        return count


def exact_solver(points: Sequence[MatPoint]) -> Callable[[Snapshot, Costs], Solver]:
    """What :func:`extraction.cheapest.extract_cheapest` takes as its solver, with the program's Mat points."""
    return lambda snap, costs: ExactSolver(snap, costs, points)
