"""Split-K chains: an author's own K-loop, with its accumulator and its store, is the product it computes.

    store(Σ over k0 of A[:, k0] @ B[k0, :], base)  =  ⋃ store(Σ over k0 of A[mi, k0] @ B[k0, ni], base + (mi, ni))

The grid goes outside the source loop, and each window is reduced over all of K before the next begins: cutting the finished
accumulator instead would need the impossible whole one first (specification 1, "split-K").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.language import GRID, ROWS, WHOLE, ChainGrid, Done, Schedule, chain
from egraph_rules.rule import Rule, family, rule, union, variables

s, v, p = variables("s v p")


@family("split_k_chain")
def SPLIT_K_CHAIN() -> Iterator[Rule]:
    """store(Σ A[:, k0] @ B[k0, :]) = ⋃ store(Σ A[mi, k0] @ B[k0, ni]): grid the output around the source K-loop."""
    yield rule(
        "split_k_chain",
        "store(Σ A[:, k0] @ B[k0, :], base) = ⋃ store(Σ A[mi, k0] @ B[k0, ni], base + (mi, ni))",
        stage="placements",
        reads=[chain(s, v, p)],
        then=[union(Done(s), ChainGrid(v, Schedule(p, scope))) for scope in (WHOLE, ROWS, GRID)],
    )
