"""Bias windows: a grid of a biased product loads the bias piece by piece.

    store(A @ B + 1·b, base)  =  ⋃ store(A[mi, :] @ B[:, ni] + 1·b[ni : ni+n], base + (mi, ni))

A bias in Mat is loaded again for each window of columns, from the tensor it came from; one already in the bias table cannot be
cut, so only grids of full rows are open to it. The store must come first after the product, so that no effect is crossed
(specification 1, "N 切分时").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.families.direct_store import operands_in_mat, stored_grid
from egraph_rules.language import GRID, ROWS, bias_in, bias_rebuildable, product, store_follows, stored_once
from egraph_rules.rule import Rule, Term, family, rule, variables

v, s, p, left, right = variables("v s p left right")


def biased_store() -> list[Term]:
    return [
        product(v=v, p=p, left=left, right=right, op="matmul_bias"),
        stored_once(v, s),
        store_follows(v, s),
        *operands_in_mat(),
    ]


@family("bias_window")
def BIAS_WINDOW() -> Iterator[Rule]:
    """store(A @ B + 1·b) = ⋃ store(A[mi, :] @ B[:, ni] + 1·b[ni:ni+n]): cut the bias with its columns."""
    yield rule(
        "bias_windows_rebuilt",
        "b = ⋃ load(b, [0, ni], [1, n]): each window's bias is loaded from the tensor again",
        stage="placements",
        reads=[*biased_store(), bias_in(v, "Mat"), bias_rebuildable(v)],
        then=[stored_grid(ROWS), stored_grid(GRID)],
    )
    yield rule(
        "bias_held",
        "a bias in the bias table serves every grid of full rows",
        stage="placements",
        reads=[*biased_store(), bias_in(v, "Bias")],
        then=[stored_grid(ROWS)],
    )
