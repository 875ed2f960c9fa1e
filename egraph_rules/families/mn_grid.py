"""M/N gridding: an output too large for L0C is a grid of windows, each summed over all of K.

    C[M, N]  =  ⋃ over (mi, ni) of  A[mi : mi+m, :] @ B[:, ni : ni+n]

m and n need not divide M and N: boundary windows are narrower (specification 1, "M/N 切分"). What depends on one extent alone is
computed once per extent, so that the join of both does the least.
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
    fits_l0a,
    fits_l0b,
    fits_l0c,
    line_c,
    smaller,
    within,
)
from egraph_rules.expr import Comparison, Int, Integer, literal, predicate, smaller_of
from egraph_rules.language import FRACTAL, GRID, ROWS, WHOLE, P, axis_m, axis_n, cuttable, extent, product, the_problem, window
from egraph_rules.rule import Rule, Term, family, rule, variables

(v,) = variables("v")
m, n, deep_a, deep_b, line, columns = variables("m n deep_a deep_b line_c columns")
ONE, LEAST = literal(1), literal(FRACTAL)


def least_depth() -> Integer:
    """The least that must fit of an operand: two of the thinnest panels, which stream, or one of all K, which is held."""
    return smaller_of(P.align_k * 2, P.max_k)


@predicate
def bias_can_be_cut(held: Integer) -> Comparison:
    """no bias lies in the bias table already, where it cannot be cut into windows"""
    return held.equals(0)


@predicate
def boundary_is_boxed(columns: Integer, step: Integer, rebuilt: Integer) -> Comparison:
    """beside a bias, {columns} columns are whole boxes of {step}, so that the last window is one too"""
    return (columns % step * rebuilt).equals(0)


def fitting_window(columns: Int, scope: int, a: Integer, b: Integer) -> Term:
    """A window of m rows, with the deepest panels that fit beside it."""
    return window(P.p, m, columns, scope, a, b, deepest_streamed(a, b))


def _axes() -> Iterator[Rule]:
    """What one extent alone decides: may an axis be cut into so much, and how deep are the panels beside it?"""
    yield rule(
        "tile_rows",
        "m rows may be cut when the thinnest panel and window of them fit",
        stage="extents",
        reads=[the_problem(), extent(m)],
        when=[
            within(m, P.max_m),
            box_aligned(P.max_k, P.align_k),
            fits_l0a(least_depth(), ONE, deepest_a(m)),
            fits_l0c(line_c(m), columns_c(LEAST), ONE),
        ],
        then=[axis_m(P.p, m, deepest_a(m), line_c(m))],
    )
    yield rule(
        "tile_columns",
        "n columns may be cut when the thinnest panel and window of them fit",
        stage="extents",
        reads=[the_problem(), extent(n)],
        when=[
            smaller(n, P.max_n),
            box_aligned(n, P.align_n),
            boundary_is_boxed(P.max_n, P.align_n, P.bias_rebuilt),
            bias_can_be_cut(P.bias_held),
            fits_l0b(least_depth(), ONE, deepest_b(n)),
            fits_l0c(line_c(LEAST), columns_c(n), ONE),
            bias_window_fits(n, literal(GRID), ONE),
        ],
        then=[axis_n(P.p, n, deepest_b(n), columns_c(n))],
    )


def _windows() -> Iterator[Rule]:
    """The axes joined, where a window of both fits L0C."""
    yield rule(
        "grid_of_rows",
        "C[M, N] = ⋃ A[mi:mi+m, :] @ B",
        stage="windows",
        reads=[axis_m(P.p, m, deep_a, line), the_problem()],
        when=[
            smaller(m, P.max_m),
            box_aligned(P.max_n, P.align_n),
            bias_window_fits(P.max_n, literal(ROWS), ONE),
            fits_l0c(line, columns_c(P.max_n), ONE),
        ],
        then=[fitting_window(P.max_n, ROWS, deep_a, deepest_b(P.max_n))],
    )
    yield rule(
        "grid_of_windows",
        "C[M, N] = ⋃ A[mi:mi+m, :] @ B[:, ni:ni+n]",
        stage="windows",
        reads=[axis_m(P.p, m, deep_a, line), axis_n(P.p, n, deep_b, columns), the_problem()],
        when=[fits_l0c(line, columns, ONE)],
        then=[fitting_window(n, GRID, deep_a, deep_b)],
    )


@family("mn_grid")
def MN_GRID() -> Iterator[Rule]:
    """C[M, N] = ⋃ A[mi:mi+m, :] @ B[:, ni:ni+n]: cut the output into windows that fit L0C."""
    yield from _axes()
    yield from _windows()
    yield rule(
        "cut_freely",
        "(A @ B)[mi, ni] = A[mi, :] @ B[:, ni]: an unbiased product may be cut anywhere",
        stage="placements",
        reads=[product(v=v, op="matmul")],
        then=[cuttable(v, WHOLE), cuttable(v, ROWS), cuttable(v, GRID)],
    )
