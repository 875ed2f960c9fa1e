"""Extraction of placements: the cheapest way to have each value in every space it is wanted in.

A value's ways share steps (a move starts from the load into Vec that vector work needs anyhow), so they are counted as a graph,
each step once. A value has a handful of ways, and all of them are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cost.hardware import Target
from cost.transfers import FIXPIPE_CAST, LOAD, MOVE, VECTOR_CAST, Step, TransferModel, checked
from egraph_rules.engine import Frozen
from egraph_rules.placement import language as L
from egraph_rules.rule import Table

#: Constructors and the transfer each stands for, in the order that breaks ties: as the document has it first.
_STEPS: tuple[tuple[Table, int], ...] = (
    (L.Load, LOAD),
    (L.VectorCast, VECTOR_CAST),
    (L.Move, MOVE),
    (L.FixpipeCast, FIXPIPE_CAST),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a value, bytes of what it is cast from (the same where it is not cast), rows and columns."""

    bytes: int
    bytes_in: int
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Way:
    """One way to have a value where it is wanted: the step that fills each space, and the cycles of all steps together."""

    steps: tuple[tuple[str, str], ...]
    cycles: float


@dataclass(frozen=True, slots=True)
class _Node:
    op: str
    kind: int
    below: int | None


def ways(frozen: Frozen, sizes: Mapping[int, Size], target: Target, model: TransferModel) -> dict[int, list[Way]]:
    """Every way to place each value, cheapest first; the document's own comes first among equals."""
    nodes: dict[int, list[tuple[int, _Node]]] = {}
    steps: list[Step] = []
    for table, kind in _STEPS:
        for row in sorted(frozen.rows(table)):
            v, klass = row[0], row[-1]
            below = row[1] if table is L.Move else None
            nodes.setdefault(klass, []).append((len(steps), _Node(table.name, kind, below)))
            size = sizes[v]
            steps.append(Step(kind, size.bytes_in if kind == VECTOR_CAST else size.bytes, size.rows, size.columns))
    prices = checked(model, steps, target)
    wanted: dict[int, list[tuple[str, int]]] = {}
    for v, space, klass in sorted(frozen.rows(L.At)):
        wanted.setdefault(v, []).append((space, klass))
    return {v: _ways_of(places, nodes, prices) for v, places in wanted.items()}


def _ways_of(
    places: Sequence[tuple[str, int]], nodes: Mapping[int, list[tuple[int, _Node]]], prices: Sequence[float]
) -> list[Way]:
    found: list[Way] = []
    for choice in itertools.product(*[nodes.get(klass, ()) for _, klass in places]):
        chosen = {klass: picked for (_, klass), picked in zip(places, choice, strict=True)}
        if any(node.below is not None and node.below not in chosen for _, node in choice):
            continue
        cycles = sum(prices[step] for step, _ in choice)
        found.append(Way(tuple([(space, chosen[klass][1].op) for space, klass in places]), cycles))
    return sorted(found, key=lambda w: w.cycles)
