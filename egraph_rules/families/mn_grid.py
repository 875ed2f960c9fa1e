"""M/N gridding: an output too large for L0C is a grid of windows, each summed over all of K.

    C[M, N]  =  ⋃ over (mi, ni) of  A[mi : mi+m, :] @ B[:, ni : ni+n]

m and n need not divide M and N: boundary windows are narrower (specification 1, "M/N 切分").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import bias_window_fits, fits_l0a, fits_l0b, fits_l0c, fractal_aligned, smaller, within
from egraph_rules.expr import literal
from egraph_rules.language import FRACTAL, GRID, ROWS, P, axis_m, axis_n, extent, the_problem, window
from egraph_rules.rule import Rule, family, rule, variables

m, n = variables("m n")
ONE, LEAST = literal(1), literal(FRACTAL)


@family("mn_grid")
def MN_GRID() -> Iterator[Rule]:
    """C[M, N] = ⋃ A[mi:mi+m, :] @ B[:, ni:ni+n]: cut the output into windows that fit L0C."""
    yield rule(
        "tile_rows",
        "m rows may be cut when the thinnest panel and window of them fit",
        stage="extents",
        reads=[the_problem(), extent(m)],
        when=[within(m, P.max_m), fits_l0a(m, LEAST, ONE), fits_l0c(m, LEAST, ONE)],
        then=[axis_m(P.p, m)],
    )
    yield rule(
        "tile_columns",
        "n columns may be cut when the thinnest panel and window of them fit",
        stage="extents",
        reads=[the_problem(), extent(n)],
        when=[within(n, P.max_n), fits_l0b(LEAST, n, ONE), fits_l0c(LEAST, n, ONE), bias_window_fits(n, literal(ROWS), ONE)],
        then=[axis_n(P.p, n)],
    )
    yield rule(
        "grid_of_rows",
        "C[M, N] = ⋃ A[mi:mi+m, :] @ B",
        stage="windows",
        reads=[the_problem(), axis_m(P.p, m), axis_n(P.p, P.max_n)],
        when=[smaller(m, P.max_m), fractal_aligned(P.max_k), fits_l0c(m, P.max_n, ONE)],
        then=[window(P.p, m, P.max_n, ROWS)],
    )
    yield rule(
        "grid_of_windows",
        "C[M, N] = ⋃ A[mi:mi+m, :] @ B[:, ni:ni+n]",
        stage="windows",
        reads=[the_problem(), axis_m(P.p, m), axis_n(P.p, n)],
        when=[smaller(n, P.max_n), fractal_aligned(P.max_k), fits_l0c(m, n, ONE)],
        then=[window(P.p, m, n, GRID)],
    )
