"""Why a tile is not legal, from the rules' own predicates with the numbers put in."""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules import language as L
from egraph_rules.conditions import (
    bias_window_fits,
    box_aligned,
    columns_c,
    deepest_a,
    deepest_b,
    fits_l0a,
    fits_l0b,
    fits_l0c,
    fractal_aligned,
    line_c,
    within,
)
from egraph_rules.expr import Condition, literal
from egraph_rules.families.mn_grid import bias_can_be_cut
from egraph_rules.language import P
from egraph_rules.program import ProgramFacts


def environment(facts: ProgramFacts, problem: int) -> dict[str, int]:
    """The problem's columns by name, as rules read them."""
    (row,) = (r for r in facts.facts[L.problem.name] if r[0] == problem)
    return dict(zip((c for c, _ in L.problem.columns), row, strict=True))


def why_illegal(facts: ProgramFacts, problem: int, m: int, n: int, k: int) -> str:
    """The limits that the tile (m, n, k) breaks in its gentlest regime; says so when it breaks none of its own."""
    env = environment(facts, problem)
    broken = [c.explain(env) for c in tile_conditions(env, m, n, k) if not c.holds(env)]
    return "; ".join(broken) if broken else f"no rule makes {m} × {n} × {k} for this product: see the rule set and why-not"


def tile_conditions(env: dict[str, int], m: int, n: int, k: int) -> Iterator[Condition]:
    """What every schedule with this tile must meet; a panel of all K may be held in one buffer, a narrower one needs two."""
    yield from (within(m, P.max_m), within(n, P.max_n), within(k, P.max_k))
    yield from (fractal_aligned(m), box_aligned(n, P.align_n), box_aligned(k, P.align_k), box_aligned(P.max_k, P.align_k))
    depth = literal(1 if k >= env["max_k"] else 2)
    yield fits_l0a(k, depth, deepest_a(m))
    yield fits_l0b(k, depth, deepest_b(n))
    yield fits_l0c(line_c(m), columns_c(n), literal(1))
    yield bias_window_fits(n, literal(L.WHOLE), literal(1))
    if n < env["max_n"]:
        yield bias_can_be_cut(P.bias_held)
