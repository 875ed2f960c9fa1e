"""A rule family of one's own: windows whose sides are powers of two, in place of every multiple of 16.

    C[M, N] = ⋃ A[mi:mi+m, :] @ B[:, ni:ni+n],   m and n powers of two

Every rule of it is one of `mn_grid`'s with one more condition, so it is as sound. What it is worth is a question for a study: how
much smaller does the e-graph get, and what do the plans cost?

    tilesat study ablation --set "all,-mn_grid,examples/user_rule.py:POWERS_OF_TWO"
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from egraph_rules.expr import Comparison, Integer, literal, predicate
from egraph_rules.families.mn_grid import MN_GRID
from egraph_rules.rule import Rule, family, variables

m, n = variables("m n")

#: No tile extent is larger.
LARGEST = 1 << 20


@predicate
def power_of_two(extent: Integer) -> Comparison:
    """{extent} is a power of two"""
    return (literal(LARGEST) % extent).equals(0)


@family("powers_of_two")
def POWERS_OF_TWO() -> Iterator[Rule]:
    """C[M, N] = ⋃ A[mi:mi+m, :] @ B[:, ni:ni+n], m and n powers of two."""
    sides = {"tile_rows": m, "tile_columns": n}
    for r in MN_GRID.rules:
        more = (power_of_two(sides[r.name]),) if r.name in sides else ()
        yield replace(r, name=f"{r.name}_of_powers", when=(*r.when, *more))
