"""Stationarity: with all of K in one panel, the outer loop can hold an operand still while the other moves past it.

    for mi:  a = A[mi:mi+m, :]                for ni:  b = B[:, ni:ni+n]
      for ni:  C[mi, ni] = a @ B[:, ni:ni+n]    for mi:  C[mi, ni] = A[mi:mi+m, :] @ b

Output-stationary keeps both loops pipelined (two buffers of each operand) and puts outside what loads less. A- and
B-stationary pin one operand in a single buffer, so its panel may be twice as large (specification 1, "stationarity").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from egraph_rules.conditions import bias_window_fits, fits_l0a, fits_l0b
from egraph_rules.expr import Comparison, Condition, Integer, ceil_div, literal, predicate
from egraph_rules.language import (
    A_STATIONARY,
    B_STATIONARY,
    OUTPUT_HOLDING_A,
    OUTPUT_HOLDING_B,
    Cube,
    P,
    Schedule,
    pinned,
    the_problem,
    window,
)
from egraph_rules.rule import Rule, Term, family, member, rule, variables
from egraph_rules.straight_lines import straight_blocks_fit

m, n, scope, a, b = variables("m n scope deep_a deep_b")


def _load_holding_a(m: Integer) -> Integer:
    """Cycles to load A once and B once per row of windows, times bw_a · bw_b / K: integers, so no rounding decides."""
    return P.M * P.bytes_a * P.bw_b + P.N * P.bytes_b * P.bw_a * ceil_div(P.M, m)


def _load_holding_b(n: Integer) -> Integer:
    return P.M * P.bytes_a * P.bw_b * ceil_div(P.N, n) + P.N * P.bytes_b * P.bw_a


@predicate
def holding_a_loads_less(m: Integer, n: Integer) -> Comparison:
    """at {m} × {n} windows, holding A takes no more load cycles (weighted by bandwidth) than holding B"""
    return _load_holding_a(m) <= _load_holding_b(n)


@predicate
def holding_b_loads_less(m: Integer, n: Integer) -> Comparison:
    """at {m} × {n} windows, holding B takes fewer load cycles (weighted by bandwidth) than holding A"""
    return _load_holding_a(m) > _load_holding_b(n)


def full_depth(regime: int) -> Term:
    """The candidate that takes all of K in one panel."""
    return Cube(P.p, m, n, P.max_k, regime)


def full_k(
    name: str,
    statement: str,
    regime: int,
    depths: tuple[int, int],
    bias_slots: int,
    *,
    reads: Iterable[Term] = (),
    when: Iterable[Condition] = (),
) -> Rule:
    """The rule for one regime: so many buffers of a panel of A and of B, and slots of a bias window."""
    in_a, in_b = map(literal, depths)
    return rule(
        name,
        statement,
        stage="schedules",
        reads=[window(p=P.p, m=m, n=n, scope=scope, deep_a=a, deep_b=b), the_problem(), *reads],
        when=[
            fits_l0a(P.max_k, in_a, a),
            fits_l0b(P.max_k, in_b, b),
            *when,
            bias_window_fits(n, scope, literal(bias_slots)),
            *straight_blocks_fit(m, n, scope),
        ],
        then=[member(Schedule(P.p, scope), full_depth(regime))],
    )


@family("stationarity")
def STATIONARITY() -> Iterator[Rule]:
    """C[mi, ni] = A[mi, :] @ B[:, ni] with all of K in one panel: hold A or B in the outer loop."""
    yield full_k(
        "output_stationary_rows_outer",
        "for mi, for ni: C[mi, ni] = A[mi, :] @ B[:, ni], both operands two buffers deep",
        OUTPUT_HOLDING_A,
        depths=(2, 2),
        bias_slots=4,
        when=[holding_a_loads_less(m, n)],
    )
    yield full_k(
        "output_stationary_columns_outer",
        "for ni, for mi: C[mi, ni] = A[mi, :] @ B[:, ni], both operands two buffers deep",
        OUTPUT_HOLDING_B,
        depths=(2, 2),
        bias_slots=2,
        when=[holding_b_loads_less(m, n)],
    )
    yield full_k(
        "a_stationary",
        "for mi: hold A[mi, :] in one buffer; for ni: C[mi, ni] = A[mi, :] @ B[:, ni]",
        A_STATIONARY,
        depths=(1, 2),
        bias_slots=2,
        reads=[pinned(P.p)],
    )
    yield full_k(
        "b_stationary",
        "for ni: hold B[:, ni] in one buffer; for mi: C[mi, ni] = A[mi, :] @ B[:, ni]",
        B_STATIONARY,
        depths=(2, 1),
        bias_slots=1,
        reads=[pinned(P.p)],
    )
