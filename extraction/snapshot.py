"""A snapshot of a saturated e-graph: candidates as arrays, placements as nodes. Taken once, extracted many times.

Cost models score all candidates of a problem in one vectorised call, so one saturation serves any number of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cost.hardware import Target
from cost.problem import Candidates
from egraph_rules import language as L
from egraph_rules.engine import Frozen
from egraph_rules.program import ProgramFacts

if TYPE_CHECKING:
    import networkx
    from numpy.typing import NDArray

#: Stationarity code and "holds A" of each regime, by regime number without double buffering.
_STATIONARITY = np.array([0, 0, 0, 1, 2], dtype=np.int8)
_HOLDS_A = np.array([True, True, False, True, False])

#: Nodes of placement classes, in the order an extractor prefers them at equal cost.
PLACEMENTS = (
    *(L.Given, L.LoadTo, L.FromMat, L.FromVec, L.KLoop, L.GridStore, L.GridScratch, L.Fold),
    *(L.VectorCast, L.ChainGrid, L.TwoAccumulators, L.StoreFrom, L.AsItStands),
)


_FACTS_ABOUT_PRODUCTS = tuple(
    t.name for t in (L.matrix_operand_only, L.stored_once, L.store_follows, L.bias_rebuildable, L.cast_once)
)


@dataclass(frozen=True, slots=True, eq=False)
class Schedules:
    """All legal candidates of one problem, in ascending (m, n, k, regime); ``scope`` is each one's schedule class."""

    candidates: Candidates
    regime: NDArray[np.int64]
    scope: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.regime)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Schedules:
        return Schedules(self.candidates.take(rows), self.regime[rows], self.scope[rows])


@dataclass(frozen=True, slots=True)
class Node:
    """One way to realise a placement: its operation, its own columns, the classes below it, the class it is in.

    ``schedule`` is (problem, scope) where the node takes a schedule.
    """

    op: str
    v: int
    klass: int
    children: tuple[int, ...] = ()
    schedule: tuple[int, int] | None = None
    detail: tuple[Any, ...] = ()


@dataclass(eq=False)
class Snapshot:
    """What was saturated (``program``, on ``target``, under rule ``families``) and what came of it.

    ``schedules`` by problem; ``nodes`` by placement class; ``place`` gives the class of In, Left, Done and Loop terms.
    """

    program: ProgramFacts
    target: Target
    families: tuple[str, ...]
    schedules: dict[int, Schedules]
    nodes: dict[int, list[Node]] = field(default_factory=dict)
    place: dict[tuple[Any, ...], int] = field(default_factory=dict)
    class_count: int = 0

    def __post_init__(self) -> None:
        self.by_value: dict[tuple[str, int], list[Node]] = {}
        for node in self.all_nodes():
            self.by_value.setdefault((node.op, node.v), []).append(node)

    def all_nodes(self) -> Iterator[Node]:
        for nodes in self.nodes.values():
            yield from nodes

    def of(self, op: str, v: int) -> list[Node]:
        """The nodes of an operation that realise value ``v``."""
        return self.by_value.get((op, v), [])

    def without_mat(self, products: Collection[int]) -> Snapshot:
        """The same without what would keep more of these products in Mat: scratches, folded casts, staged operands, grids that
        stand at a later store."""
        casts = {s.cast for s in self.program.products if s.v in products}
        return replace(
            self, nodes={k: [n for n in nodes if not self._fills_mat(n, products, casts)] for k, nodes in self.nodes.items()}
        )

    def _fills_mat(self, node: Node, products: Collection[int], casts: Collection[int]) -> bool:
        if node.op == "Fold":
            return node.v in casts
        if node.v not in products:
            return False
        return node.op in ("GridScratch", "GridStore") or self.stages(node)

    def stages(self, node: Node) -> bool:
        """May the schedule's left operand have to cross from Vec to Mat?"""
        return node.op == "KLoop" and any(n.op == "FromVec" for n in self.nodes.get(node.children[0], ()))

    def facts_of(self, v: int) -> frozenset[str]:
        """Names of the unary and binary facts stated about value ``v``."""
        return self._facts_by_value.get(v, frozenset())

    @cached_property
    def _facts_by_value(self) -> dict[int, frozenset[str]]:
        found: dict[int, set[str]] = {}
        for name in _FACTS_ABOUT_PRODUCTS:
            for row in self.program.facts.get(name, ()):
                found.setdefault(row[0], set()).add(name)
        return {v: frozenset(names) for v, names in found.items()}

    @cached_property
    def resident(self) -> frozenset[int]:
        """Values that lie in Mat or Vec in the source."""
        facts = self.program.facts
        return frozenset(row[0] for table in (L.given, L.load) for row in facts.get(table.name, ()))

    @cached_property
    def graph(self) -> networkx.DiGraph[Any]:
        """The placements as a graph: class → node → child class; classes are numbers, nodes are (class, index)."""
        import networkx

        g: networkx.DiGraph[Any] = networkx.DiGraph()
        for klass, nodes in self.nodes.items():
            for i, node in enumerate(nodes):
                g.add_edge(klass, (klass, i))
                for child in node.children:
                    g.add_edge((klass, i), child)
        return g


def snapshot(frozen: Frozen, program: ProgramFacts, target: Target, families: tuple[str, ...]) -> Snapshot:
    """Read a saturated e-graph once."""
    classes = {klass: (p, scope) for p, scope, klass in frozen.rows(L.Schedule)}
    place = {(op.name, *row[:-1]): row[-1] for op in (L.In, L.Left, L.Done, L.Loop) for row in frozen.rows(op)}
    nodes: dict[int, list[Node]] = {}
    for table in PLACEMENTS:
        kinds = [kind for _, kind in table.columns]
        for row in frozen.rows(table):
            node = _node(table.name, kinds, row, classes)
            nodes.setdefault(node.klass, []).append(node)
    schedules = _schedules(frozen, classes)
    return Snapshot(program, target, families, schedules, nodes, place, frozen.class_count)


def _node(op: str, kinds: list[str], row: tuple[Any, ...], classes: dict[int, tuple[int, int]]) -> Node:
    children, detail, schedule = [], [], None
    for kind, x in zip(kinds[1:], row[1:], strict=False):
        if kind == L.PLACE.name:
            children.append(x)
        elif kind == L.SCHEDULE.name:
            schedule = classes[x]
        else:
            detail.append(x)
    return Node(op, row[0], row[-1], tuple(children), schedule, tuple(detail))


def _schedules(frozen: Frozen, classes: dict[int, tuple[int, int]]) -> dict[int, Schedules]:
    flat, in_class = frozen.numbers(L.Cube)
    if not flat:
        return {}
    scope_of = np.zeros(max(classes) + 1, dtype=np.int64)
    for klass, (_, scope) in classes.items():
        scope_of[klass] = scope
    p, m, n, k, regime = np.array(flat, dtype=np.int64).reshape(-1, len(L.Cube.columns)).T
    order = np.lexsort((((m << 13 | n) << 26 | k) << 4 | regime, p))  # tile extents take 13 bits, K at most 25
    columns = [np.ascontiguousarray(x[order]) for x in (m, n, k, regime, scope_of[np.array(in_class)])]
    problems, starts = np.unique(p[order], return_index=True)
    ends = [*starts[1:], len(order)]
    return {int(q): schedules_of(*(x[a:b] for x in columns)) for q, a, b in zip(problems, starts, ends, strict=True)}


def schedules_of(
    m: NDArray[np.int64], n: NDArray[np.int64], k: NDArray[np.int64], regime: NDArray[np.int64], scope: NDArray[np.int64]
) -> Schedules:
    """One problem's candidates from the columns of their rows, which no cost model may write to."""
    base = regime % L.DOUBLE_C
    dbc = (1 + regime // L.DOUBLE_C).astype(np.int8)
    candidates = Candidates(m, n, k, _STATIONARITY[base], _HOLDS_A[base], dbc)
    for column in (m, n, k, candidates.stationarity, candidates.holds_a, dbc):
        column.flags.writeable = False
    return Schedules(candidates, regime, scope)
