"""Loads and values that already lie where they are wanted.

    In(load(t, …), space) = one load of t into that space        In(v, space) = v, where the source has it

Equal loads meet in one node, so an extractor that counts shared work counts them once.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.language import FromMat, Given, In, Left, LoadTo, given, load
from egraph_rules.rule import Rule, family, rule, union, variables

v, key = variables("v key")


@family("loads")
def LOADS() -> Iterator[Rule]:
    """In(load(t), space) = load(t) into the space: operands are found where the source put them."""
    for space in ("Mat", "Vec"):
        yield rule(
            f"load_to_{space.lower()}",
            f"In(load(t), {space}) = one load of t into {space}",
            stage="placements",
            reads=[load(v, key, space)],
            then=[union(In(v, space), LoadTo(key, space))],
        )
        yield rule(
            f"given_in_{space.lower()}",
            f"In(v, {space}) = v, which lies there",
            stage="placements",
            reads=[given(v, space)],
            then=[union(In(v, space), Given(v))],
        )
    yield rule(
        "left_from_mat",
        "Left(v) = In(v, Mat): L0A is filled from Mat",
        stage="placements",
        reads=[In(v, "Mat")],
        then=[union(Left(v), FromMat(v, In(v, "Mat")))],
    )
