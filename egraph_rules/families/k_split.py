"""K-splitting: a product too deep for L0A/L0B is a sum of products of k-deep panels.

    A[m, K] @ B[K, n]  =  Σ over ko in 0, k, 2k, … of  A[m, ko:ko+k] @ B[ko:ko+k, n]

The partial sums stay in one L0C accumulator, so splitting K moves no extra output; both operands stream, two buffers deep.
k need not divide K: the last panel is narrower and is peeled (specification 1, "K 边界剥离").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import box_aligned, fits_l0a, fits_l0b, line_a, line_b, smaller
from egraph_rules.expr import literal
from egraph_rules.language import (
    FRACTAL,
    STREAMED,
    WHOLE,
    Cube,
    In,
    KLoop,
    Left,
    P,
    Schedule,
    axis_k,
    extent,
    product,
    the_problem,
    window,
)
from egraph_rules.rule import Rule, family, rule, union, variables

m, n, k, scope, a, b = variables("m n k scope line_a line_b")
v, left, right = variables("v left right")
TWO, LEAST = literal(2), literal(FRACTAL)


@family("k_split")
def K_SPLIT() -> Iterator[Rule]:
    """A[m, K] @ B[K, n] = Σ A[m, ko:ko+k] @ B[ko:ko+k, n]: sum k-deep panels in one accumulator."""
    yield rule(
        "panel_depth",
        "k may be a panel's depth when two of the thinnest panels fit",
        stage="extents",
        reads=[the_problem(), extent(k)],
        when=[smaller(k, P.max_k), box_aligned(k, P.align_k), fits_l0a(line_a(LEAST), k, TWO), fits_l0b(line_b(LEAST), k, TWO)],
        then=[axis_k(P.p, k)],
    )
    yield rule(
        "k_split",
        "A[m, K] @ B[K, n] = Σ A[m, ko:ko+k] @ B[ko:ko+k, n]",
        stage="schedules",
        reads=[window(P.p, m, n, scope, a, b), the_problem(), axis_k(P.p, k)],
        when=[fits_l0a(a, k, TWO), fits_l0b(b, k, TWO)],
        then=[union(Schedule(P.p, scope), Cube(P.p, m, n, k, STREAMED))],
    )
    yield rule(
        "k_loop",
        "In(A @ B, Acc) = the sum of panels, over whichever source A is extracted from",
        stage="placements",
        reads=[product(v=v, p=P.p, left=left, right=right), Left(left), In(right, "Mat")],
        then=[union(In(v, "Acc"), KLoop(v, Schedule(P.p, WHOLE), Left(left), In(right, "Mat")))],
    )
