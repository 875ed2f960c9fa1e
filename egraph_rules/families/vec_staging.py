"""Staging: a left operand that lies in Vec crosses to Mat once, before the K-loop.

    extract(In(a, Vec), …)  for every block   =   t = move(a, Mat);  extract(t, …)  for every block

The crossing stays a `move`, which the cube side can pair with the vector side (specification 1, "Vec 左操作数预存").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.language import FromVec, In, Left, stageable
from egraph_rules.rule import Rule, family, rule, union, variables

(v,) = variables("v")


@family("vec_staging")
def VEC_STAGING() -> Iterator[Rule]:
    """Left(v) = move(In(v, Vec), Mat): a left operand in Vec is staged in Mat once."""
    yield rule(
        "stage_left_operand",
        "Left(v) = move(In(v, Vec), Mat), once, before the loop",
        stage="placements",
        reads=[In(v, "Vec"), stageable(v)],
        then=[union(Left(v), FromVec(v, In(v, "Vec")))],
    )
