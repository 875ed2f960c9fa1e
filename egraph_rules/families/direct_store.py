"""Direct store: each window of a grid goes from its accumulator straight to the output.

    store(A @ B, base, out)  =  for each window (mi, ni):  out = store(A[mi, :] @ B[:, ni], base + (mi, ni), out)

The product must be used by that store alone (specification 1, "DirectGmPlacer").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import whole_fractals
from egraph_rules.expr import Comparison, Integer, predicate
from egraph_rules.language import WHOLE, Done, GridStore, In, P, Schedule, cuttable, product, stored_once, the_problem
from egraph_rules.rule import Merge, Rule, Term, family, rule, union, variables

v, s, left, right, scope = variables("v s left right scope")


@predicate
def more_than_one_window(scope: Integer) -> Comparison:
    """the output is cut into more than one window (scope {scope}: 0 is the whole)"""
    return scope.differs(WHOLE)


def stored_product(op: str) -> list[Term]:
    """A product whose only use is a plain store, with both operands in Mat, in a scope it may be cut in."""
    return [
        product(v=v, p=P.p, left=left, right=right, op=op),
        the_problem(),
        stored_once(v, s),
        cuttable(v, scope),
        In(left, "Mat"),
        In(right, "Mat"),
    ]


def stored_grid() -> Merge:
    """The store happens as a grid of windows."""
    return union(Done(s), GridStore(v, Schedule(P.p, scope), In(left, "Mat"), In(right, "Mat")))


@family("direct_store")
def DIRECT_STORE() -> Iterator[Rule]:
    """store(A @ B, base) = ⋃ store(A[mi, :] @ B[:, ni], base + (mi, ni)): store each window."""
    yield rule(
        "direct_store",
        "store(A @ B, base) = ⋃ store(A[mi, :] @ B[:, ni], base + (mi, ni))",
        stage="placements",
        reads=stored_product("matmul"),
        when=[more_than_one_window(scope), *whole_fractals()],
        then=[stored_grid()],
    )
