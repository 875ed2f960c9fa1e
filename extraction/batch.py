"""Extraction of batch matmul plans: price every schedule of a saturated e-graph; take the cheapest, or the first capable branch.

Candidates are legal by construction, so extraction only prices and orders. The same conditions that guard the rules say, with
numbers, why a branch has no candidate (:func:`why_refused`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cost.batch import tiling, work
from cost.batch.chip import Chip
from cost.batch.latency import Latency, Work, latencies
from cost.batch.problem import BatchProblem
from cost.batch.schedule import pieces
from cost.physical import ceil_div
from egraph_rules.batch import language as L
from egraph_rules.engine import Frozen
from egraph_rules.rule import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

#: Branches in the order of the derivation, which breaks ties, and in the operator's order.
BRANCHES = ("to_matmul", "special_k0", "special_k1", "merge_batch", "iter_batch", "asw_basic", "stream_k")
OPERATOR_ORDER = ("special_k0", "to_matmul", "special_k1", "stream_k", "merge_batch", "iter_batch", "asw_basic")

BRANCH_OF: dict[str, str] = {
    "MergeBatch": "merge_batch",
    "IterBatch": "iter_batch",
    "Blocks": "asw_basic",
    "StreamK": "stream_k",
    "Fill": "special_k0",
    "Outer": "special_k1",
    "HoldA": "to_matmul",
    "Reduced": "to_matmul",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One schedule of one problem: the constructor's name, its columns, its predicted latency.

    A reduced problem's schedule is in ``inner``, and ``role`` says how the problem was reduced (egraph_rules.batch.language).
    """

    kind: str
    problem: BatchProblem
    columns: dict[str, int]
    latency: Latency
    inner: Choice | None = None

    @property
    def branch(self) -> str:
        return BRANCH_OF[self.kind]

    @property
    def key(self) -> tuple[float, float, int, tuple[int, ...]]:
        """Order of plans: total, then the sum of the terms, then the derivation's order, then ascending columns."""
        terms = sum(self.latency.terms.values())
        return (round(self.latency.total, 9), round(terms, 9), BRANCHES.index(self.branch), tuple(self.columns.values()))


def reduced_problem(p: BatchProblem, role: int) -> BatchProblem:
    """The problem that ``p`` is reduced to in ``role``."""
    if role == L.FOLDED:
        flat = replace(p, B=1, M=p.B * p.M, batch_a=1, batch_b=1)
        return replace(flat, bias=p.bias and "shared", transpose_a=p.transpose_a and p.B == 1)
    if role == L.RELAID:
        return replace(p, B=1, N=p.B * p.N, batch_a=1, batch_b=1, bias=None)
    return p


# -- pricing ---------------------------------------------------------------------------------------------------------


def work_of(kind: str, p: BatchProblem, chip: Chip, c: Mapping[str, Ints]) -> Work:
    """The work of all schedules of one kind for one problem."""
    if p.K == 0:
        return work.fill_work(p, chip)
    if kind == "MergeBatch":
        return work.merge_work(p, chip, c["b"], c["k_l1"])
    if kind == "IterBatch":
        return work.iter_work(p, chip, c["case"], pieces(p, c["case"], c["step"]), c["batches"], c["accumulators"])
    if kind == "Blocks":
        return work.blocks_work(p, chip, c["m"], c["n"], c["accumulators"], c["held"], c["cut_m"], c["cut_n"])
    if kind == "HoldA":
        one = np.ones_like(c["m"])
        return work.blocks_work(p, chip, c["m"], c["n"], c["accumulators"], one * tiling.HELD_A, one, one)
    if kind == "StreamK":
        return work.stream_k_work(p, chip, c["rows"], c["columns"], c["grid_k"], c["atomic"])
    return work.outer_work(p, chip)


def _best_rows(kind: str, p: BatchProblem, chip: Chip, table: Ints, names: list[str]) -> Choice:
    """The best schedule among the rows of one constructor (columns ``names``) for one problem."""
    if names:
        table = table[np.lexsort(table.T[::-1])]
    columns = {name: table[:, i] for i, name in enumerate(names)}
    prices = latencies(work_of(kind, p, chip, columns), chip, len(table))
    terms = np.sum(np.stack(list(prices.terms.values())), axis=0)
    at = int(np.lexsort((terms.round(9), _uneven(kind, p, chip, columns, len(table)), prices.total.round(9)))[0])
    return Choice(kind, p, {n: int(x[at]) for n, x in columns.items()}, prices.row(at))


def _uneven(kind: str, p: BatchProblem, chip: Chip, c: Mapping[str, Ints], rows: int) -> NDArray[np.bool_]:
    """Where merged batches do not divide a core's share: b is a factor of b_core where that is free ("MergeBatch, Step 1")."""
    if kind == "MergeBatch":
        return tiling.batches_per_core(p, chip) % c["b"] > 0
    return np.zeros(rows, dtype=np.bool_)


#: Constructors of schedules, whose columns are all numbers, the problem's first.
SCHEDULES: tuple[Table, ...] = (L.MergeBatch, L.IterBatch, L.Blocks, L.HoldA, L.StreamK, L.Fill, L.Outer)


def best_by_branch(frozen: Frozen, p: BatchProblem, chip: Chip) -> dict[str, Choice]:
    """The cheapest schedule of every branch that has one, for the given problem (number 0)."""
    by_problem: dict[int, list[Choice]] = {}
    for table in SCHEDULES:
        names = [c for c, _ in table.columns][1:]
        rows = np.array(frozen.numbers(table)[0], dtype=np.int64).reshape(-1, len(names) + 1)
        for number in np.unique(rows[:, 0]).tolist():
            problem = reduced_problem(p, number % L.STRIDE)
            mine = rows[rows[:, 0] == number, 1:]
            by_problem.setdefault(number, []).append(_best_rows(table.name, problem, chip, mine, names))
    given = by_problem.get(0, [])
    for number, role, *_ in sorted(frozen.rows(L.Reduced)):
        inner = by_problem.get(number + role)
        if inner:
            given.append(_wrapped(p, chip, role, min(inner, key=lambda c: c.key)))
    found: dict[str, Choice] = {}
    for choice in sorted(given, key=lambda c: c.key):
        found.setdefault(choice.branch, choice)
    return found


def _wrapped(p: BatchProblem, chip: Chip, role: int, inner: Choice) -> Choice:
    """A reduced problem's schedule as one of the given problem: folding columns adds the re-layouts around it."""
    latency = inner.latency
    if role == L.RELAID:
        extra = latencies(Work(phased=work.relaid_bytes(p), barriers=1.0 if p.transpose_b else 2.0), chip, 1).row(0)
        latency = Latency(latency.terms, latency.phases + extra.total, latency.total + extra.total)
    return Choice("Reduced", p, {"role": role}, latency, inner)


def pick(found: Mapping[str, Choice], order: str) -> Choice | None:
    """The plan to take: the cheapest (``latency``), or the first capable branch (``operator``); None where there is none."""
    if order == "operator":
        return next((found[b] for b in OPERATOR_ORDER if b in found), None)
    return min(found.values(), key=lambda c: c.key, default=None)


def fallback(p: BatchProblem, chip: Chip) -> Choice:
    """A plan that needs no rules, for runs that a limit ended early: the smallest blocks, dealt to the cores."""
    if p.K == 0:
        return _best_rows("Fill", p, chip, np.empty((1, 0), dtype=np.int64), [])
    names = [c for c, _ in L.Blocks.columns][1:]
    return _best_rows("Blocks", p, chip, np.array([[p.box_m, p.box_n, 1, tiling.NOTHING, 1, 1]]), names)


# -- split classes ---------------------------------------------------------------------------------------------------


def split_of(choice: Choice, chip: Chip) -> frozenset[str]:
    """The dimensions that are cut between cores, one of the 15 classes; ``{"B"}`` where one core does everything."""
    return frozenset(_cut(choice, chip)) or frozenset("B")


def _cut(choice: Choice, chip: Chip) -> Iterator[str]:
    p, c = choice.problem, choice.columns
    if choice.kind == "Reduced":
        assert choice.inner is not None
        yield from _cut_reduced(p, chip, c["role"], choice.inner)
    elif choice.kind in ("Blocks", "HoldA"):
        held = c.get("held", tiling.HELD_A)
        yield from (d for d, n in (("B", p.B), *_planes(p, c["m"], c["n"])) if n > 1 and held != {"M": 1, "N": 2}.get(d))
    elif choice.kind == "StreamK":
        yield from (d for d, n in (("B", p.B), ("M", c["rows"]), ("N", c["columns"]), ("K", c["grid_k"])) if n > 1)
    elif choice.kind == "Fill":
        down, across = tiling.vector_grid(chip, p.B, p.M, p.N)
        yield from (d for d, n in (("B", p.B), ("M", down), ("N", across)) if n > 1)
    elif p.B > 1:
        yield "B"


def _planes(p: BatchProblem, m: int, n: int) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("M", ceil_div(p.M, m)), ("N", ceil_div(p.N, n))


def _cut_reduced(p: BatchProblem, chip: Chip, role: int, inner: Choice) -> Iterator[str]:
    """Cuts of a folded axis are cuts of the batch, and of the axis too where blocks do not end at batch boundaries."""
    axis, extent = {L.FOLDED: ("M", p.M), L.RELAID: ("N", p.N)}.get(role, ("", 0))
    cut = set(_cut(inner, chip))
    if axis not in cut or p.B == 1:
        yield from sorted(cut)
        return
    yield from sorted(cut - {axis} | {"B"})
    q = inner.problem
    if inner.kind == "StreamK":
        size = ceil_div(q.M if axis == "M" else q.N, inner.columns["rows" if axis == "M" else "columns"])
    else:
        size = inner.columns["m" if axis == "M" else "n"]
    if size % extent:
        yield axis
