"""`tile`: the whole way from a program to its tiled form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cost.hardware import Target
    from egraph_rules.catalogue import RuleSet
    from egraph_rules.report import Limits
    from ir_bridge.ir.nodes import Program
    from tilesat.result import Tiling


def tile(
    program: Program,
    target: str | os.PathLike[str] | Target = "ascend910b",
    planner: str = "dsa_rp",
    rules: str | RuleSet = "reference",
    cost_model: object = "roofline",
    extractor: str = "dag",
    limits: Limits | None = None,
    pypto_double_buffer_c: bool = False,
    force: Mapping[str, tuple[int, int, int]] | None = None,
    profile: bool = False,
) -> Tiling:
    """Tile every product of ``program`` for one core of ``target``; a tensor program is converted first (specification 2).

    ``planner`` is who will place buffers ("pypto", "dsa_rp", "ptoas"); ``pypto_double_buffer_c`` opts in to two accumulators
    under "pypto". ``rules`` names a rule set, ``cost_model`` a model or is one. ``extractor`` is "tree", "dag" (shared work
    counts once) or "exact" (a mixed-integer program that also keeps Mat's capacity), for rule sets that take the cheapest plan,
    such as "all". ``limits`` bound saturation. ``force`` fixes the tile (m, n, k) of products by name. ``profile``: the report
    says how many e-graph rows each rule added too, for which rules are run one by one.

    Raises TilesatError (or a subclass) for an unknown name, an operand placed in L0 by hand that cannot fit, or a forced tile
    that is not legal; the message says which limit it breaks.
    """
    from tilesat.explain import Explainer
    from tilesat.pipeline import Run

    run = Run(program, target, planner, rules, cost_model, extractor, limits, pypto_double_buffer_c, force or {}, profile)
    return run.tiling(partial(Explainer, run))
