"""Free hoisting: the outer loop may hold the operand that loads more, where that lets two accumulators take turns.

    for mi, for ni: C[mi, ni] = …   =   for ni, for mi: C[mi, ni] = …

Not part of the documented pass, which fixes the hoist by bandwidth; sound all the same, so it is in `all`.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import bias_window_fits
from egraph_rules.expr import literal
from egraph_rules.families.stationarity import full_depth
from egraph_rules.language import OUTPUT_HOLDING_A, OUTPUT_HOLDING_B, P, Schedule, the_problem, window
from egraph_rules.rule import Rule, family, member, rule, variables

m, n, scope = variables("m n scope")


@family("free_hoist")
def FREE_HOIST() -> Iterator[Rule]:
    """for mi, for ni = for ni, for mi: the two loops of a full-K grid may be exchanged."""
    yield rule(
        "exchange_to_columns_outer",
        "for mi, for ni: C[mi, ni] = for ni, for mi: C[mi, ni]",
        stage="schedules",
        reads=[full_depth(OUTPUT_HOLDING_A), window(p=P.p, m=m, n=n, scope=scope), the_problem()],
        when=[bias_window_fits(n, scope, literal(2))],
        then=[member(Schedule(P.p, scope), full_depth(OUTPUT_HOLDING_B))],
    )
    yield rule(
        "exchange_to_rows_outer",
        "for ni, for mi: C[mi, ni] = for mi, for ni: C[mi, ni]",
        stage="schedules",
        reads=[full_depth(OUTPUT_HOLDING_B), window(p=P.p, m=m, n=n, scope=scope), the_problem()],
        when=[bias_window_fits(n, scope, literal(4))],
        then=[member(Schedule(P.p, scope), full_depth(OUTPUT_HOLDING_A))],
    )
