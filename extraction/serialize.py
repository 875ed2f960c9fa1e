"""A snapshot as egraph-serialize JSON, the format that the e-graph community's extraction tools read, and back.

Nodes have an operation, children (nodes, standing for their classes), a class and a cost; numbers and strings are leaves, as
egglog writes them. Costs are such that an extractor which counts shared nodes once and one which does not both find the cheapest
plan: a placement costs what it costs with the best schedule it may take, and a schedule what it takes longer than the best of
its class. ``In``, ``Left``, ``Done`` and ``Loop`` terms say what a class is; they realise nothing, are dearer than anything that
does, and are marked subsumed.

What is ours and not of the format (the target, the rule families, the problems) is under the key "tilesat", and every schedule's
own wall is in its field "wall"; readers of the format pass over both.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost.dtypes import dtype
from cost.errors import TilesatError
from cost.hardware import Target, describe, get_target
from cost.problem import Problem
from egraph_rules import language as L
from egraph_rules.program import NO_VALUE, ProgramFacts
from egraph_rules.rule import Table
from extraction.policy import Priced
from extraction.snapshot import PLACEMENTS, Node, Schedules, Snapshot, schedules_of
from extraction.solver import DEAR, Costs, Solver

SCHEMA = "tilesat.egraph/1"
_TERMS: dict[str, Table] = {t.name: t for t in (L.In, L.Left, L.Done, L.Loop)}
_PLACEMENTS: dict[str, Table] = {t.name: t for t in PLACEMENTS}


class SerializeError(TilesatError):
    """JSON that is no snapshot of ours; the message says what is missing or wrong."""


# -- out -----------------------------------------------------------------------------------------------------------------


def to_egraph_json(snap: Snapshot, priced: Mapping[int, Priced]) -> dict[str, Any]:
    """The whole e-graph, every schedule a node, with the costs of ``priced`` and one root a product."""
    return _Writer(snap, priced).written()


class _Writer:
    """Collects nodes; a class's first node stands for it as a child."""

    def __init__(self, snap: Snapshot, priced: Mapping[int, Priced]) -> None:
        self.snap, self.priced = snap, priced
        self.costs = Costs(snap, priced, {})
        self.solver = Solver(snap, self.costs, "tree")
        self.nodes: dict[str, dict[str, Any]] = {}
        self.classes: dict[str, dict[str, str]] = {}

    def written(self) -> dict[str, Any]:
        for problem, schedules in self.snap.schedules.items():
            self.schedules(problem, schedules)
        for key, klass in self.snap.place.items():
            self.term(key, klass)
        for klass, nodes in self.snap.nodes.items():
            for i, node in enumerate(nodes):
                self.placement(klass, i, node)
        problems = [{**dataclasses.asdict(p), "a": str(p.a), "b": str(p.b), "c": str(p.c)} for p in self.snap.program.problems]
        families = list(self.snap.families)
        ours = {"schema": SCHEMA, "target": describe(self.snap.target), "families": families, "problems": problems}
        return {
            "nodes": self.nodes,
            "root_eclasses": [_place(k) for k in roots(self.snap)],
            "class_data": self.classes,
            "tilesat": ours,
        }

    def add(self, name: str, op: str, children: list[str], klass: str, sort: str, cost: float, **more: Any) -> str:
        self.nodes[name] = {"op": op, "children": children, "eclass": klass, "cost": cost, "subsumed": False, **more}
        self.classes.setdefault(klass, {"type": sort})
        return name

    def leaf(self, value: int | str) -> str:
        """The node of a number or string."""
        sort = "String" if isinstance(value, str) else "i64"
        name = f"{sort}-{value}"
        if name not in self.nodes:
            self.add(name, json.dumps(value, ensure_ascii=False), [], name, sort, 0.0)
        return name

    def schedules(self, problem: int, schedules: Schedules) -> None:
        priced = self.priced[problem]
        walls = priced.prices.wall
        least = {int(s): walls[self.costs.best(problem, int(s))] for s in np.unique(schedules.scope)}
        columns = zip(*_columns(schedules), schedules.scope.tolist(), walls.tolist(), strict=True)
        for i, (m, n, k, regime, scope, wall) in enumerate(columns):
            children = [self.leaf(x) for x in (problem, m, n, k, regime)]
            above = max(0.0, wall - float(least[scope]))
            self.add(f"cube-{problem}-{i}", "Cube", children, _schedule(problem, scope), L.SCHEDULE.name, above, wall=wall)

    def term(self, key: tuple[Any, ...], klass: int) -> None:
        name = self.term_name(klass)
        children = [self.leaf(x) for x in key[1:]]
        if name in self.nodes:  # two terms of one class
            name = f"{name}-{'-'.join(map(str, key))}"
        self.add(name, key[0], children, _place(klass), L.PLACE.name, DEAR)
        self.nodes[name]["subsumed"] = True

    @staticmethod
    def term_name(klass: int) -> str:
        return f"term-{klass}"

    def placement(self, klass: int, i: int, node: Node) -> None:
        table = _PLACEMENTS[node.op]
        places, details = iter(self.solver.children(node)), iter(node.detail)
        children = [self.leaf(node.v)]
        for _, kind in table.columns[1:]:
            if kind == L.PLACE.name:
                children.append(self.term_name(next(places)))
            elif kind == L.SCHEDULE.name:
                assert node.schedule is not None
                children.append(self.first_cube(*node.schedule))
            else:
                children.append(self.leaf(next(details)))
        children += map(self.term_name, places)  # a statement as it stands needs its operands too
        cost = min(self.costs.of(node), DEAR)
        self.add(f"node-{klass}-{i}", node.op, children, _place(klass), L.PLACE.name, cost)

    def first_cube(self, problem: int, scope: int) -> str:
        """The node that stands for a schedule class; where no candidate is legal, one that realises nothing."""
        schedules = self.snap.schedules.get(problem)
        rows = np.zeros(0, np.intp) if schedules is None else np.flatnonzero(schedules.scope == scope)
        if len(rows):
            return f"cube-{problem}-{int(rows[0])}"
        name = f"schedule-{problem}-{scope}"
        if name not in self.nodes:
            self.add(name, "Schedule", [self.leaf(problem), self.leaf(scope)], _schedule(problem, scope), L.SCHEDULE.name, DEAR)
            self.nodes[name]["subsumed"] = True
        return name


def roots(snap: Snapshot) -> list[int]:
    """The class each product is wanted for, each once: its store, else where its result or its cast is wanted, else Acc."""
    found: dict[int, None] = {}
    wanted = [(c.v, c.store, NO_VALUE) for c in snap.program.chains] + [(s.v, s.store, s.cast) for s in snap.program.products]
    for v, store, cast in wanted:
        value = cast if cast != NO_VALUE else v
        keys = (("Done", store), ("In", value, "Mat"), ("In", value, "Vec"), ("In", v, "Acc"))
        klass = next((snap.place[k] for k in keys if k in snap.place), None)
        if klass is not None:
            found[klass] = None
    below = {c for nodes in snap.nodes.values() for n in nodes for c in n.children}
    return [k for k in found if k not in below]


def _place(klass: int) -> str:
    return f"place-{klass}"


def _schedule(problem: int, scope: int) -> str:
    return f"schedule-{problem}-{scope}"


def _columns(s: Schedules) -> tuple[list[int], list[int], list[int], list[int]]:
    c = s.candidates
    return c.m.tolist(), c.n.tolist(), c.k.tolist(), s.regime.tolist()


# -- in ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Imported:
    """What was read: the ``snapshot`` (without the facts of its source program), the ``roots`` among its classes, and every
    problem's ``walls`` by the model that priced the export."""

    snapshot: Snapshot
    roots: tuple[int, ...]
    walls: dict[int, Any]


def from_egraph_json(data: Mapping[str, Any], target: Target | None = None) -> Imported:
    """The snapshot that :func:`to_egraph_json` wrote; other models can price it again. ``target``: instead of the one it names.

    Raises :class:`SerializeError` for JSON of another origin, or that does not hold together.
    """
    if (
        not isinstance(data, Mapping)
        or not isinstance(data.get("tilesat"), Mapping)
        or not isinstance(data.get("nodes"), Mapping)
    ):
        raise SerializeError('this is no snapshot of tilesat: it has no "nodes" or no "tilesat" part')
    if data["tilesat"].get("schema") != SCHEMA:
        raise SerializeError(f"the snapshot's schema is {data['tilesat'].get('schema')!r}, this reads {SCHEMA!r}")
    try:
        return _Reader(data, target).read()
    except (KeyError, IndexError, ValueError, TypeError, StopIteration) as e:
        raise SerializeError(f"the snapshot does not hold together: {type(e).__name__}: {e}") from e


class _Reader:
    def __init__(self, data: Mapping[str, Any], target: Target | None) -> None:
        self.nodes: Mapping[str, Any] = data["nodes"]
        self.ours = data["tilesat"]
        self.roots = data.get("root_eclasses", [])
        self.target = target or get_target(self.ours["target"]["name"])

    def read(self) -> Imported:
        facts = ProgramFacts(problems=[_problem(p) for p in self.ours["problems"]])
        schedules, walls = self.schedules()
        nodes: dict[int, list[Node]] = {}
        place: dict[tuple[Any, ...], int] = {}
        for name, n in self.nodes.items():
            if n["op"] in _TERMS:
                place[n["op"], *(self.value(c) for c in n["children"])] = _number(n["eclass"])
            elif n["op"] in _PLACEMENTS:
                nodes.setdefault(_number(n["eclass"]), []).append(self.placement(name, n))
        snapshot = Snapshot(facts, self.target, tuple(self.ours["families"]), schedules, nodes, place)
        return Imported(snapshot, tuple(map(_number, self.roots)), walls)

    def value(self, name: str) -> Any:
        """The number or string of a leaf."""
        return json.loads(self.nodes[name]["op"])

    def schedules(self) -> tuple[dict[int, Schedules], dict[int, Any]]:
        rows: dict[int, list[tuple[int, ...]]] = {}
        walls: dict[int, list[float]] = {}
        for n in self.nodes.values():
            if n["op"] == "Cube":
                problem, m, n_, k, regime = (self.value(c) for c in n["children"])
                scope = int(n["eclass"].rpartition("-")[2])
                rows.setdefault(problem, []).append((m, n_, k, regime, scope))
                walls.setdefault(problem, []).append(float(n["wall"]))
        found = {}
        for problem, listed in rows.items():
            m, n_, k, regime, scope = np.array(listed, dtype=np.int64).T
            found[problem] = schedules_of(m, n_, k, regime, scope)
        return found, {p: np.array(w) for p, w in walls.items()}

    def placement(self, name: str, n: Mapping[str, Any]) -> Node:
        table = _PLACEMENTS[n["op"]]
        children: Iterator[str] = iter(n["children"])
        v = self.value(next(children))
        places, details, schedule = [], [], None
        for _, kind in table.columns[1:]:
            child = next(children)
            klass = self.nodes[child]["eclass"]
            if kind == L.PLACE.name:
                places.append(_number(klass))
            elif kind == L.SCHEDULE.name:
                _, problem, scope = klass.split("-")
                schedule = int(problem), int(scope)
            else:
                details.append(self.value(child))
        return Node(n["op"], v, _number(n["eclass"]), tuple(places), schedule, tuple(details))


def _number(klass: str) -> int:
    return int(klass.rpartition("-")[2])


def _problem(fields: Mapping[str, Any]) -> Problem:
    types = {name: dtype(fields[name]) for name in ("a", "b", "c")}
    return Problem(**{**fields, **types})
