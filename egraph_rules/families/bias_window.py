"""Bias windows: a grid of a biased product loads the bias piece by piece.

    store(A @ B + 1·b, base)  =  ⋃ store(A[mi, :] @ B[:, ni] + 1·b[ni : ni+n], base + (mi, ni))

A bias in Mat is loaded again for each window of columns, from the tensor it came from; one already in the bias table cannot be
cut, so only grids of full rows are open to it. The store must come first after the product, so that no effect is crossed
(specification 1, "N 切分时").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import whole_fractals
from egraph_rules.families.direct_store import more_than_one_window, s, scope, stored_grid, stored_product, v
from egraph_rules.families.k_split import k_loop
from egraph_rules.language import GRID, ROWS, WHOLE, bias_in, bias_rebuildable, cuttable, store_follows
from egraph_rules.rule import Rule, family, rule


@family("bias_window")
def BIAS_WINDOW() -> Iterator[Rule]:
    """store(A @ B + 1·b) = ⋃ store(A[mi, :] @ B[:, ni] + 1·b[ni:ni+n]): cut the bias with its columns."""
    yield rule(
        "bias_rebuilt",
        "b = ⋃ load(b, [0, ni], [1, n]): each window's bias is loaded from the tensor again",
        stage="placements",
        reads=[bias_in(v, "Mat"), bias_rebuildable(v)],
        then=[cuttable(v, WHOLE), cuttable(v, ROWS), cuttable(v, GRID)],
    )
    yield rule(
        "bias_held",
        "a bias in the bias table serves every grid of full rows",
        stage="placements",
        reads=[bias_in(v, "Bias")],
        then=[cuttable(v, WHOLE), cuttable(v, ROWS)],
    )
    yield k_loop(
        "bias_first",
        "matmul_bias",
        "A @ B + 1·b = (A[:, :k] @ B[:k, :] + 1·b) + Σ A[:, ko:ko+k] @ B[ko:ko+k, :]: the bias goes into the first panel, once",
    )
    yield rule(
        "biased_direct_store",
        "store(A @ B + 1·b, base) = ⋃ store(A[mi, :] @ B[:, ni] + 1·b[ni:ni+n], base + (mi, ni))",
        stage="placements",
        reads=[*stored_product("matmul_bias"), store_follows(v, s)],
        when=[more_than_one_window(scope), *whole_fractals()],
        then=[stored_grid()],
    )
