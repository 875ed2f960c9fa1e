"""Direct store: each window of a grid goes from its accumulator straight to the output.

    store(A @ B, base, out)  =  for each window (mi, ni):  out = store(A[mi, :] @ B[:, ni], base + (mi, ni), out)

The product must be used by that store alone (specification 1, "DirectGmPlacer").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.language import GRID, ROWS, Done, GridStore, In, Schedule, product, stored_once
from egraph_rules.rule import Merge, Rule, Term, family, rule, union, variables

v, s, p, left, right = variables("v s p left right")


def stored_grid(scope: int) -> Merge:
    """The store happens as a grid of windows of this scope; both operands lie in Mat."""
    return union(Done(s), GridStore(v, Schedule(p, scope), In(left, "Mat"), In(right, "Mat")))


def operands_in_mat() -> list[Term]:
    return [In(left, "Mat"), In(right, "Mat")]


@family("direct_store")
def DIRECT_STORE() -> Iterator[Rule]:
    """store(A @ B, base) = ⋃ store(A[mi, :] @ B[:, ni], base + (mi, ni)): store each window."""
    yield rule(
        "direct_store",
        "store(A @ B, base) = ⋃ store(A[mi, :] @ B[:, ni], base + (mi, ni))",
        stage="placements",
        reads=[product(v=v, p=p, left=left, right=right, op="matmul"), stored_once(v, s), *operands_in_mat()],
        then=[stored_grid(ROWS), stored_grid(GRID)],
    )
