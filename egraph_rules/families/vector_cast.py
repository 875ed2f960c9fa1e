"""Vector cast: how a cast runs when FIXPIPE cannot do it, and what folding is measured against.

    In(cast(v), Vec) = tcvt(move(In(v, Acc), Vec))

It honours every rounding mode, and crosses from cube to vector and, for a matrix operand, back.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.language import In, VectorCast, cast
from egraph_rules.rule import Rule, family, rule, union, variables

v, c = variables("v c")


@family("vector_cast")
def VECTOR_CAST() -> Iterator[Rule]:
    """In(cast(v), Vec) = the Vector unit's cast of v, with its crossings."""
    yield rule(
        "vector_cast",
        "In(cast(v), Vec) = tcvt(move(In(v, Acc), Vec))",
        stage="placements",
        reads=[cast(c=c, v=v)],
        then=[union(In(c, "Vec"), VectorCast(c, In(v, "Acc")))],
    )
