"""Planners: what the one who places buffers lets a Mat-scratch grid do.

    dsa_rp, ptoas:  a scratch grid takes any schedule of its problem        pypto:  output-stationary schedules only

The legacy planner stacks reuse classes and never subdivides freed room, so a producer that pins a whole L0 buffer would
push its consumer out (specification 1, "旧版 PYPTO planner 的限制").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.language import as_scratch, output_only, planner, product, scratch_problem
from egraph_rules.rule import Rule, family, rule, variables

v, p, q = variables("v p q")


@family("planners")
def PLANNERS() -> Iterator[Rule]:
    """Which schedules a Mat-scratch grid may take: all of them, or under `pypto` output-stationary ones."""
    for name in ("dsa_rp", "ptoas"):
        yield rule(
            f"scratch_under_{name}",
            f"{name}: a scratch grid takes any schedule",
            stage="placements",
            reads=[product(v=v, p=p), planner(name), as_scratch(p, q)],
            then=[scratch_problem(v, q)],
        )
    yield rule(
        "scratch_under_pypto",
        "pypto: a scratch grid takes output-stationary schedules",
        stage="placements",
        reads=[product(v=v, p=p), planner("pypto"), output_only(p, q)],
        then=[scratch_problem(v, q)],
    )
