"""Why a branch was refused: the conditions of its own rules that fail, with their numbers.

A branch is entered through stages, each with one rule or several alternatives. The reasons are those of the first stage that no
alternative passes; where a rule has free variables (b, Step, grid_K, …) they are shown for the candidate that fails least.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cost.batch.chip import Chip
from cost.batch.problem import BatchProblem
from egraph_rules.batch import language as L
from egraph_rules.batch.catalogue import FAMILIES
from egraph_rules.batch.saturate import batch_row, chip_row
from egraph_rules.engine import Frozen
from egraph_rules.expr import Variable
from egraph_rules.rule import Family, Rule, Term, Text

#: Rules by branch and reading, in stages; any rule of a stage will do. ``*`` stands for both readings.
STAGES: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("to_matmul", "analysis"): (("fold_rows_analysis", "fold_batches_analysis", "broadcast_a"),),
    ("to_matmul", "operator"): (("fold_rows_operator", "fold_batches_operator"),),
    ("special_k0", "analysis"): (("k0",),),
    ("special_k0", "operator"): (("k0_operator",),),
    ("special_k1", "analysis"): (("k1",),),
    ("special_k1", "operator"): (("k1_operator_short", "k1_operator_long"),),
    ("merge_batch", "analysis"): (("enter_merge_batch",), ("merged_sizes",), ("merge_whole_k", "merge_k_panels")),
    ("merge_batch", "operator"): (
        ("enter_merge_batch_operator",),
        ("merged_sizes_operator",),
        ("merge_whole_k", "merge_k_panels"),
    ),
    ("iter_batch", "analysis"): (
        ("enter_iter_batch",),
        ("iter_a", "iter_b", "iter_c_left", "iter_c_right", "iter_d_left", "iter_d_right", "iter_e"),
    ),
    ("iter_batch", "operator"): (
        ("enter_iter_batch_l0", "enter_iter_batch_balanced"),
        ("iter_b", "iter_d_left_operator", "iter_d_right_operator"),
    ),
    ("asw_basic", "analysis"): (
        ("enter_asw_basic", "enter_asw_basic_idle_deep", "enter_asw_basic_idle_spread"),
        ("block_rows", "whole_rows"),
        ("block_columns", "whole_columns"),
        ("blocks_in_l0",),
    ),
    ("asw_basic", "operator"): (("enter_asw_basic_operator",), ("blocks_in_l0",)),
    ("stream_k", "analysis"): (
        ("enter_stream_k",),
        ("stream_k_grid_analysis",),
        ("stream_k_workspace_analysis", "stream_k_atomic_analysis"),
    ),
    ("stream_k", "operator"): (
        ("enter_stream_k_operator",),
        ("stream_k_grid_operator",),
        ("stream_k_workspace_operator", "stream_k_atomic_operator"),
    ),
}

_RULES: dict[str, Rule] = {r.name: r for f in FAMILIES.values() for r in f.rules}
_FAMILY_OF = {r.name: f.name for f in FAMILIES.values() for r in f.rules}
#: Conditions that say what a choice may be at all (b ≥ b0, Step > 1, …): a candidate that breaks one explains nothing.
RANGES = frozenset({"merges", "cuts", "cuts_k", "several_loads", "few_loads", "piece_cuts", "panel_cut", "panel_in_boxes"})
#: What it means that a fact without numbers is missing.
_MISSING = {
    "any_order": "deterministic results are asked for, and the branch adds partial sums in any order",
    "asynchronous": "partial sums may only be added in C where the order may vary and C has the accumulators' type",
}


def why_refused(
    branch: str,
    reading: str,
    p: BatchProblem,
    chip: Chip,
    b0: int,
    frozen: Frozen,
    families: tuple[Family, ...],
) -> tuple[str, ...]:
    """The reasons why ``branch`` has no schedule for ``p``, each with its numbers; () where it is not refused at all."""
    switched_on = {f.name for f in families}
    stages = STAGES[branch, reading]
    if _FAMILY_OF[stages[0][0]] not in switched_on:
        return (f"the rule family {_FAMILY_OF[stages[0][0]]} is switched off",)
    env = {**batch_row(p), **chip_row(chip, p, b0)}
    for stage in stages:
        tried = {name: _failing(_RULES[name], env, frozen) for name in stage}
        if all(tried.values()):
            several = len(stage) > 1
            reasons = (f"{name}: {reason}" if several else reason for name, failing in tried.items() for reason in failing)
            return tuple(dict.fromkeys(reasons))
    return ()


def _failing(rule: Rule, env: Mapping[str, int], frozen: Frozen) -> list[str]:
    """The rule's failing conditions for the candidate that fails least; [] where some candidate passes them all."""
    for term in rule.reads:
        if term.head in _MISSING and not frozen.rows(_TABLES[term.head]):
            return [_MISSING[term.head]]
    domain = _domain(rule, frozen)
    rows = len(next(iter(domain.values()))) if domain else 1
    if rows == 0:
        return [f"nothing reaches {rule.name}"]
    values: dict[str, Any] = {**env, **domain}
    held = np.array([np.broadcast_to(np.asarray(c.holds(values), dtype=bool), (rows,)) for c in rule.when]).reshape(-1, rows)
    at = _closest(rule, held)
    scalars = {**env, **{name: int(column[at]) for name, column in domain.items()}}
    return [c.explain(scalars) for c, h in zip(rule.when, held, strict=True) if not h[at]]


def _closest(rule: Rule, held: Any) -> int:
    """The candidate that comes closest: within the choice's range, fewest failures, the first of them as late as can be."""
    in_range = np.array([c.name in RANGES for c in rule.when], dtype=bool)
    outside = (~held[in_range]).sum(axis=0)
    first = np.argmin(held, axis=0)
    return int(np.lexsort((-first, (~held).sum(axis=0), outside))[0])


_TABLES = {t.name: t for t in L.TABLES}
_FIXED = frozenset({"batch", "chip", "reading"})


def _domain(rule: Rule, frozen: Frozen) -> dict[str, Any]:
    """Values of the rule's free variables, one row a combination, from the tables it reads (of the given problem)."""
    columns: dict[str, Any] = {}
    for term in rule.reads:
        if term.head in _FIXED or term.head in _MISSING:
            continue
        mine = _rows(term, frozen)
        have = len(next(iter(columns.values()))) if columns else 1
        left, right = np.repeat(np.arange(have), len(mine)), np.tile(np.arange(len(mine)), have)
        columns = {name: x[left] for name, x in columns.items()}
        for i, a in enumerate(term.arguments):
            if isinstance(a, Variable) and a.name not in L.BATCH_COLUMNS:
                columns[a.name] = mine[right, i]
    return columns


def _rows(term: Term, frozen: Frozen) -> Any:
    """The rows of a pattern's table that belong to the given problem."""
    table = _TABLES[term.head]
    rows = np.array(frozen.rows(table), dtype=np.int64).reshape(-1, len(table.columns))
    rows = rows[np.lexsort(rows.T[::-1])]
    if table.columns[0][0] == "p":
        rows = rows[rows[:, 0] == 0]
    assert not any(isinstance(a, Text) for a in term.arguments)
    return rows
