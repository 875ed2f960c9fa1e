"""K-splitting: a product too deep for L0A/L0B is a sum of products of k-deep panels.

    A[m, K] @ B[K, n]  =  Σ over ko in 0, k, 2k, … of  A[m, ko:ko+k] @ B[ko:ko+k, n]

The partial sums stay in one L0C accumulator, so splitting K moves no extra output; both operands stream, two buffers deep.
k need not divide K: the last panel is narrower and is peeled (specification 1, "K 边界剥离").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import box_aligned, deepest_a, deepest_b, fits_l0a, fits_l0b, smaller, within
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
    panel,
    product,
    streamed_depth,
    the_problem,
    window,
)
from egraph_rules.rule import Rule, family, member, rule, union, variables
from egraph_rules.straight_lines import straight_panels_fit

m, n, k, scope, deepest = variables("m n k scope deepest")
v, left, right = variables("v left right")
TWO, LEAST = literal(2), literal(FRACTAL)


def k_loop(name: str, op: str, statement: str) -> Rule:
    """The rule that sums a product's panels in one accumulator, over whichever source its left operand is extracted from."""
    return rule(
        name,
        statement,
        stage="placements",
        reads=[product(v=v, p=P.p, left=left, right=right, op=op), Left(left), In(right, "Mat")],
        then=[union(In(v, "Acc"), KLoop(v, Schedule(P.p, WHOLE), Left(left), In(right, "Mat")))],
    )


@family("k_split")
def K_SPLIT() -> Iterator[Rule]:
    """A[m, K] @ B[K, n] = Σ A[m, ko:ko+k] @ B[ko:ko+k, n]: sum k-deep panels in one accumulator."""
    yield rule(
        "panel_depth",
        "k may be a panel's depth when two of the thinnest panels fit",
        stage="extents",
        reads=[the_problem(), extent(k)],
        when=[
            smaller(k, P.max_k),
            box_aligned(k, P.align_k),
            fits_l0a(k, TWO, deepest_a(LEAST)),
            fits_l0b(k, TWO, deepest_b(LEAST)),
        ],
        then=[axis_k(P.p, k)],
    )
    yield rule(
        "deepest_panel",
        "beside a window, panels stream as deep as two of each fit",
        stage="windows",
        reads=[window(p=P.p, streams=deepest)],
        then=[streamed_depth(P.p, deepest)],
    )
    yield rule(
        "shallower_panel",
        "a panel k deep fits wherever a deeper one does",
        stage="windows",
        reads=[streamed_depth(P.p, deepest), axis_k(P.p, k), the_problem()],
        when=[within(k, deepest), straight_panels_fit(k, deepest)],
        then=[panel(P.p, deepest, k)],
    )
    yield rule(
        "k_split",
        "A[m, K] @ B[K, n] = Σ A[m, ko:ko+k] @ B[ko:ko+k, n]",
        stage="schedules",
        reads=[window(p=P.p, m=m, n=n, scope=scope, streams=deepest), panel(P.p, deepest, k)],
        then=[member(Schedule(P.p, scope), Cube(P.p, m, n, k, STREAMED))],
    )
    yield k_loop("k_loop", "matmul", "In(A @ B, Acc) = Σ A[:, ko:ko+k] @ B[ko:ko+k, :] in one accumulator")
