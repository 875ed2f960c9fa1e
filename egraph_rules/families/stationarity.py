"""Stationarity: with all of K in one panel, the outer loop can hold an operand still while the other moves past it.

    for mi:  a = A[mi:mi+m, :]                for ni:  b = B[:, ni:ni+n]
      for ni:  C[mi, ni] = a @ B[:, ni:ni+n]    for mi:  C[mi, ni] = A[mi:mi+m, :] @ b

Output-stationary keeps both loops pipelined (two buffers of each operand) and puts outside what loads less. A- and
B-stationary pin one operand in a single buffer, so its panel may be twice as large (specification 1, "stationarity").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import bias_window_fits, fits_l0a, fits_l0b
from egraph_rules.expr import Comparison, Integer, ceil_div, literal, predicate
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

m, n, scope, a, b, copies = variables("m n scope deep_a deep_b copies")
ONE, TWO, FOUR = literal(1), literal(2), literal(4)


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


def held_depth(moving: Integer, extent: Integer) -> Integer:
    """Buffers of a held panel: one; but where the moving axis leaves a boundary, the panel is fetched once more for it, as a
    straight line of whatever loop the product stands in, and a pipeline keeps copies of that."""
    boundary = ceil_div(moving % extent, extent)  # 0 or 1
    return literal(1) + (copies - 1) * boundary


def full_depth(regime: int) -> Term:
    """The candidate that takes all of K in one panel."""
    return Cube(P.p, m, n, P.max_k, regime)


@family("stationarity")
def STATIONARITY() -> Iterator[Rule]:
    """C[mi, ni] = A[mi, :] @ B[:, ni] with all of K in one panel: hold A or B in the outer loop."""
    yield rule(
        "output_stationary_rows_outer",
        "for mi, for ni: C[mi, ni] = A[mi, :] @ B[:, ni], both operands two buffers deep",
        stage="schedules",
        reads=[window(p=P.p, m=m, n=n, scope=scope, deep_a=a, deep_b=b), the_problem()],
        when=[fits_l0a(P.max_k, TWO, a), fits_l0b(P.max_k, TWO, b), holding_a_loads_less(m, n), bias_window_fits(n, scope, FOUR)],
        then=[member(Schedule(P.p, scope), full_depth(OUTPUT_HOLDING_A))],
    )
    yield rule(
        "output_stationary_columns_outer",
        "for ni, for mi: C[mi, ni] = A[mi, :] @ B[:, ni], both operands two buffers deep",
        stage="schedules",
        reads=[window(p=P.p, m=m, n=n, scope=scope, deep_a=a, deep_b=b), the_problem()],
        when=[fits_l0a(P.max_k, TWO, a), fits_l0b(P.max_k, TWO, b), holding_b_loads_less(m, n), bias_window_fits(n, scope, TWO)],
        then=[member(Schedule(P.p, scope), full_depth(OUTPUT_HOLDING_B))],
    )
    yield rule(
        "a_stationary",
        "for mi: hold A[mi, :] in one buffer; for ni: C[mi, ni] = A[mi, :] @ B[:, ni]",
        stage="schedules",
        reads=[window(p=P.p, m=m, n=n, scope=scope, deep_a=a, deep_b=b), the_problem(), pinned(P.p, copies)],
        when=[fits_l0a(P.max_k, held_depth(P.N, n), a), fits_l0b(P.max_k, TWO, b), bias_window_fits(n, scope, TWO)],
        then=[member(Schedule(P.p, scope), full_depth(A_STATIONARY))],
    )
    yield rule(
        "b_stationary",
        "for ni: hold B[:, ni] in one buffer; for mi: C[mi, ni] = A[mi, :] @ B[:, ni]",
        stage="schedules",
        reads=[window(p=P.p, m=m, n=n, scope=scope, deep_a=a, deep_b=b), the_problem(), pinned(P.p, copies)],
        when=[fits_l0a(P.max_k, TWO, a), fits_l0b(P.max_k, held_depth(P.M, m), b), bias_window_fits(n, scope, ONE)],
        then=[member(Schedule(P.p, scope), full_depth(B_STATIONARY))],
    )
