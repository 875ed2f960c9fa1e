"""Two accumulators: the FIXPIPE drain of window i overlaps the multiply of window i + 1.

    matmul₀, drain₀, matmul₁, drain₁, …   =   matmul₀, matmul₁ ∥ drain₀, matmul₂ ∥ drain₁, …

All of K must be in one panel, and the moving inner axis must hold two full windows (specification 1, "dbC=2").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import columns_c, fits_l0c, line_c
from egraph_rules.expr import Comparison, Condition, Integer, literal, predicate
from egraph_rules.language import DOUBLE_C, Cube, P, Schedule, allows, holds_a, holds_b, the_problem, window
from egraph_rules.rule import Rule, Table, Term, family, member, rule, variables

m, n, regime, scope = variables("m n regime scope")


@predicate
def two_full_windows(axis: Integer, extent: Integer) -> Comparison:
    """the inner axis of {axis} holds two full windows of {extent}"""
    return axis // extent >= 2


def full_k_schedule(holds: Table) -> list[Term]:
    """A schedule with all of K in one panel that holds the operand, and the window it works on."""
    return [
        Cube(P.p, m, n, P.max_k, regime),
        holds(regime),
        window(p=P.p, m=m, n=n, scope=scope),
        the_problem(),
        allows(P.p, "double_buffer_c"),
    ]


def two_accumulators() -> Condition:
    """Both windows in flight have an accumulator of their own."""
    return fits_l0c(line_c(m), columns_c(n), literal(2))


@family("double_buffer")
def DOUBLE_BUFFER() -> Iterator[Rule]:
    """drain(i) ∥ matmul(i + 1): two accumulators take turns."""
    yield rule(
        "double_buffer_rows_outer",
        "with A held, the drain of C[mi, ni] overlaps the multiply of C[mi, ni + 1]",
        stage="buffers",
        reads=full_k_schedule(holds_a),
        when=[two_full_windows(P.N, n), two_accumulators()],
        then=[member(Schedule(P.p, scope), Cube(P.p, m, n, P.max_k, regime + DOUBLE_C))],
    )
    yield rule(
        "double_buffer_columns_outer",
        "with B held, the drain of C[mi, ni] overlaps the multiply of C[mi + 1, ni]",
        stage="buffers",
        reads=full_k_schedule(holds_b),
        when=[two_full_windows(P.M, m), two_accumulators()],
        then=[member(Schedule(P.p, scope), Cube(P.p, m, n, P.max_k, regime + DOUBLE_C))],
    )
