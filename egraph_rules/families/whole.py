"""The whole product in one go: what every other family improves on.

    C = A @ B            one accumulator, one panel of each operand

A product that fits L0 entirely is already the size of L0 and is left as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import (
    bias_window_fits,
    box_aligned,
    columns_c,
    deepest_a,
    deepest_b,
    deepest_streamed,
    fits_l0c,
    fractal_aligned,
    line_c,
)
from egraph_rules.expr import literal
from egraph_rules.language import WHOLE, AsItStands, Done, In, P, StoreFrom, product, stored_once, the_problem, window
from egraph_rules.rule import Rule, family, rule, union, variables

v, s = variables("v s")
deep_a, deep_b = deepest_a(P.max_m), deepest_b(P.max_n)


@family("whole")
def WHOLE_PRODUCT() -> Iterator[Rule]:
    """C = A @ B: one accumulator of M × N; and each statement as it stands."""
    yield rule(
        "whole_window",
        "C[M, N] is one window",
        stage="windows",
        reads=[the_problem()],
        when=[
            fractal_aligned(P.max_m),
            box_aligned(P.max_n, P.align_n),
            box_aligned(P.max_k, P.align_k),
            fits_l0c(line_c(P.max_m), columns_c(P.max_n), literal(1)),
            bias_window_fits(P.max_n, literal(WHOLE), literal(1)),
        ],
        then=[window(P.p, P.max_m, P.max_n, WHOLE, deep_a, deep_b, deepest_streamed(deep_a, deep_b))],
    )
    yield rule(
        "product_as_it_stands",
        "In(A @ B, Acc) = A @ B",
        stage="placements",
        reads=[product(v=v)],
        then=[union(In(v, "Acc"), AsItStands(v))],
    )
    yield rule(
        "store_as_it_stands",
        "Done(store(c)) = store(In(c, Acc))",
        stage="placements",
        reads=[stored_once(v, s), product(v=v)],
        then=[union(Done(s), StoreFrom(s, In(v, "Acc")))],
    )
