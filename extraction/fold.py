"""A snapshot folded so that a person can read it: a box a placement class, one box for all schedules of a class.

Boxes hold lines, one a node; an edge goes from a line to the box of a class it needs. What a plan takes is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from egraph_rules.language import GRID, ROWS, WHOLE
from extraction.policy import Priced
from extraction.snapshot import Node, Snapshot
from extraction.solver import DEAR, Costs

#: What a scope is called in a picture.
SCOPES = {WHOLE: "one window", ROWS: "windows of whole rows", GRID: "windows"}


@dataclass(frozen=True, slots=True)
class Line:
    """One node of a class: what it says, whether the plan takes it, and the boxes it needs."""

    text: str
    taken: bool
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """One class: a name for edges, a title, a line a node; ``schedules``: it stands for the schedules of a class."""

    name: str
    title: str
    lines: tuple[Line, ...]
    schedules: bool = False


def fold(
    snap: Snapshot,
    priced: Mapping[int, Priced],
    taken: Collection[Node] = (),
    rows: Mapping[int, int] | None = None,
    name: Callable[[int], str] = "v{}".format,
) -> tuple[Box, ...]:
    """The boxes of a snapshot, classes in their order. ``taken`` are the nodes of the plan, ``rows`` the schedule it takes of
    each problem, ``name`` what a value is called."""
    costs = Costs(snap, priced, {})
    titles: dict[int, list[str]] = {}
    for (op, v, *space), klass in snap.place.items():
        titles.setdefault(klass, []).append(f"{op} {name(v)}" + "".join(f" in {s}" for s in space))
    boxes = []
    for klass in titles:
        nodes = snap.nodes.get(klass, [])
        lines = tuple(_line(n, n in taken, costs, name) for n in nodes)
        boxes.append(Box(f"c{klass}", " = ".join(titles[klass]), lines))
    used = {n.schedule for n in snap.all_nodes() if n.schedule is not None}
    for problem, scope in sorted(used):
        if problem in snap.schedules and (snap.schedules[problem].scope == scope).any():
            boxes.append(_schedules(snap, priced[problem], problem, scope, costs, rows or {}))
    return tuple(boxes)


def _line(node: Node, taken: bool, costs: Costs, name: Callable[[int], str]) -> Line:
    cost = costs.of(node)
    said = "cannot run" if cost >= DEAR else f"{cost:,.0f}" if cost else ""
    details = [name(d) if isinstance(d, int) and d >= 0 else str(d) for d in node.detail if d != -1]
    needs = [f"c{c}" for c in node.children]
    if node.schedule is not None and costs.row(node) is not None:
        needs.append(_schedule_name(*node.schedule))
    parts = [node.op, *details, *([f"({said})"] if said else [])]
    return Line(" ".join(parts), taken, tuple(dict.fromkeys(needs)))


def _schedule_name(problem: int, scope: int) -> str:
    return f"s{problem}_{scope}"


def _schedules(snap: Snapshot, priced: Priced, problem: int, scope: int, costs: Costs, rows: Mapping[int, int]) -> Box:
    p, schedules = priced.problem, snap.schedules[problem]
    mine = np.flatnonzero(schedules.scope == scope)
    best, row = costs.best(problem, scope), rows.get(problem)
    assert best is not None
    lines = [Line(f"{len(mine):,} schedules", False, ())]
    lines.append(Line(f"cheapest {_tile(priced, best)}", row == best, ()))
    if row is not None and row != best and schedules.scope[row] == scope:
        lines.append(Line(f"taken {_tile(priced, row)}", True, ()))
    return Box(_schedule_name(problem, scope), f"{p.M}×{p.N}×{p.K} {p.a}, {SCOPES[scope]}", tuple(lines), schedules=True)


def _tile(priced: Priced, row: int) -> str:
    t = priced.choice(row)
    twice = " ×2" if t.double_buffer_c else ""
    return f"{t.m}×{t.n}×{t.k} {t.stationarity}{twice}: {priced.prices.wall[row]:,.0f}"
