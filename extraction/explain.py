"""Why this tile, why not that one: the chosen schedule against the runner-up and any other, term by term.

Costs come from the model that decided, limits and rules from the rules' own predicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from egraph_rules import language as L
from egraph_rules.conditions import columns_c, line_a, line_b, line_c
from egraph_rules.expr import Condition, Integer, literal
from egraph_rules.plan import TileChoice
from egraph_rules.rule import Merge, Rule, Table, Term, variables_of
from extraction.legality import environment, tile_conditions
from extraction.matching import Answer, Binding, Rows, match
from extraction.policy import Priced
from extraction.snapshot import Snapshot

TERMS = ("load", "mad", "drain", "bubble", "wall")
#: A term that the model does not break its wall into.
NOT_GIVEN = "-"
_TABLES: dict[str, Table] = {t.name: t for t in L.TABLES}


@dataclass(frozen=True, slots=True)
class Priced1:
    """One schedule with its terms, in the model's unit, and its place in the documented order (1 is best).

    ``terms`` hold the wall alone where the model gives nothing else.
    """

    label: str
    tile: TileChoice
    terms: dict[str, float]
    rank: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a product got its schedule.

    ``schedules`` are the chosen one, the runner-up and the named one; ``binding`` the limits that stop a larger tile, with
    numbers; ``used`` the bytes taken of each buffer; ``rules`` the rules that produced the choice; ``hints`` what was refused.
    """

    name: str
    summary: str
    schedules: tuple[Priced1, ...] = ()
    binding: tuple[str, ...] = ()
    used: tuple[tuple[str, int, int], ...] = ()
    rules: tuple[tuple[str, str], ...] = ()
    hints: tuple[str, ...] = ()
    unit: str = "cycles"
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(e: Explanation) -> Iterator[str]:
    yield e.summary
    if e.schedules:
        yield ""
        yield f"{'':<12}{'tile':<18}{'regime':<26}" + "".join(f"{t:>11}" for t in TERMS) + f"   {e.unit}, rank"
        for s in e.schedules:
            numbers = "".join(f"{s.terms[t]:>11.1f}" if t in s.terms else f"{NOT_GIVEN:>11}" for t in TERMS)
            yield (
                f"{s.label:<12}{s.tile.m}×{s.tile.n}×{s.tile.k:<10}"[:30].ljust(30)
                + f"{regime_of(s.tile):<26}{numbers}   #{s.rank}"
            )
    for title, lines in (
        ("buffers", [f"{b}: {u} of {c} bytes ({100 * u / c:.0f} %)" for b, u, c in e.used]),
        ("what stops a larger tile", e.binding),
        ("rules", [f"{name}: {statement}" for name, statement in e.rules]),
        ("hints", e.hints),
        ("notes", e.notes),
    ):
        if lines:
            yield ""
            yield f"{title}:"
            yield from (f"  {line}" for line in lines)


def regime_of(t: TileChoice) -> str:
    """The loop order and buffering in words."""
    held = {"output": "output", "a": "A held", "b": "B held"}[t.stationarity]
    return held + (", 2 accumulators" if t.double_buffer_c else "")


def schedule(label: str, priced: Priced, row: int) -> Priced1:
    """One row of a problem's schedules, with its rank."""
    order = priced.ranked()
    rank = int(np.flatnonzero(order == row)[0]) + 1
    return Priced1(label, priced.choice(row), priced.prices.terms(row), rank)


def runner_up(priced: Priced, row: int) -> int | None:
    """The best schedule with another tile or regime."""
    for other in priced.ranked():
        if other != row:
            return int(other)
    return None


def find_row(priced: Priced, m: int, n: int, k: int) -> int | None:
    """The best schedule with these extents, or None."""
    c = priced.schedules.candidates
    return priced.best_of(np.flatnonzero((c.m == m) & (c.n == n) & (c.k == k)))


def binding_limits(snap: Snapshot, problem: int, t: TileChoice) -> tuple[str, ...]:
    """Which conditions stop the next larger m, n and k, with their numbers."""
    env = environment(snap.program, problem)
    found = []
    for name, (m, n, k) in (("m", (t.m + 16, t.n, t.k)), ("n", (t.m, t.n + 16, t.k)), ("k", (t.m, t.n, t.k + 16))):
        broken = [c for c in tile_conditions(env, m, n, k) if not c.holds(env)]
        if broken:
            found.append(f"{name} + 16: {_first_limit(broken).explain(env)}")
    return tuple(found)


def _first_limit(broken: list[Condition]) -> Condition:
    return broken[0]


def buffers_used(snap: Snapshot, problem: int, t: TileChoice) -> tuple[tuple[str, int, int], ...]:
    """(buffer, bytes taken, capacity) of a schedule, with the depth of each buffer."""
    env = environment(snap.program, problem)
    depth_a, depth_b = (1 if t.stationarity == "a" else 2), (1 if t.stationarity == "b" else 2)
    a = int(line_a(t.m).value(env)) * t.k * depth_a
    b = int(line_b(t.n).value(env)) * t.k * depth_b
    c = int(line_c(t.m).value(env)) * int(columns_c(t.n).value(env)) * (2 if t.double_buffer_c else 1)
    return (("L0A", a, env["l0a"]), ("L0B", b, env["l0b"]), ("L0C", c, env["l0c"]))


# -- rules -----------------------------------------------------------------------------------------------------------------


def rules_behind(
    rules: tuple[Rule, ...], rows: Rows, problem: int, v: int, t: TileChoice, full_k: bool, op: str | None
) -> tuple[Rule, ...]:
    """The rules that made the chosen candidate and its placement: each is matched, and what it builds compared."""
    regime = _regime(t) if full_k else L.STREAMED
    base = regime % L.DOUBLE_C
    given = {"p": problem, "m": t.m, "n": t.n, "k": t.k, "regime": base}
    wanted: dict[str, list[tuple[int, ...]]] = {
        L.window.name: [(problem, t.m, t.n)],
        L.Cube.name: [(problem, t.m, t.n, t.k, r) for r in (base, regime)],
    }
    found = []
    for r in rules:
        built = _built(r)
        terms = [built[head] for head in wanted if head in built]
        if terms:
            matches = match(r, rows, {name: x for name, x in given.items() if name in _names(r)}).matches
            if any(_value(term, b)[: len(w)] == w for term in terms for w in wanted[term.head] for b in matches):
                found.append(r)
        elif op is not None and op in built and match(r, rows, {"v": v}).fired:
            found.append(r)
    return tuple(found)


def _value(term: Term, b: Binding) -> tuple[int, ...]:
    """The numbers a term is built from under a binding."""
    return tuple(int(literal(a).value(b)) for a in term.arguments if isinstance(a, (int, Integer)))


def _regime(t: TileChoice) -> int:
    """The number of a full-K schedule's regime."""
    base = {"a": L.A_STATIONARY, "b": L.B_STATIONARY}.get(t.stationarity)
    if base is None:
        base = L.OUTPUT_HOLDING_A if t.holds_a else L.OUTPUT_HOLDING_B
    return base + (L.DOUBLE_C if t.double_buffer_c else 0)


def _built(r: Rule) -> dict[str, Term]:
    """The terms a rule's actions build, by head."""
    found: dict[str, Term] = {}
    for action in r.then:
        for term in (action.left, action.right) if isinstance(action, Merge) else (action,):
            found.setdefault(term.head, term)
    return found


def _names(r: Rule) -> frozenset[str]:
    return frozenset(variables_of(r))


def why_not(rule: Rule, rows: Rows, problem: int, v: int, left: int, right: int) -> Answer:
    """How far a rule gets on one product: bound to the product, to its problem, or to its operands, whichever it speaks of."""
    heads = {t.head for t in rule.reads}
    if heads & {L.load.name, L.given.name} or heads <= {L.In.name, L.stageable.name}:
        answers = [match(rule, rows, {"v": operand}) for operand in (left, right)]
        return next((a for a in answers if a.fired), answers[0])
    given = {"v": v} if L.scratch_problem.name in heads else {"v": v, "p": problem}  # whose problem a scratch takes is a fact
    return match(rule, rows, {k: x for k, x in given.items() if k in _names(rule)})


def reason(answer: Answer) -> str:
    """Why a rule did not fire."""
    return answer.reason(_TABLES)
