"""An ablation of rule sets as one HTML file: effects and their spread, size against speed, the worst case as it runs."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import numpy as np

from ir_bridge.ir.nodes import CORE_KINDS
from tilesat.simulation import simulate
from tilesat.studies import page
from tilesat.studies.ablation_text import (
    EFFECTS_NOTE,
    INTERACTIONS_NOTE,
    RULES_NOTE,
    effect_text,
    effects_table,
    interactions_table,
    never_fired,
    rules_table,
    statement,
    timing_rows,
    trouble,
)
from tilesat.studies.tables import seconds
from tilesat.studies.timelines import timeline

if TYPE_CHECKING:
    from tilesat.corpus import Entry
    from tilesat.studies.effects import Ablation
    from tilesat.studies.rule_sets import Variant

#: Sets that the picture of effects shows at most: those that matter most.
SHOWN = 24


def html(a: Ablation) -> str:
    """The page."""
    plots = page.has_plots()
    about = page.text(statement(a))
    parts = [about] if plots else [about, page.text(page.NO_PLOTS)]
    pictures = [_effects(a), _pareto(a)] if plots and any(e.programs for e in a.effects) else []
    parts.append(page.section("Effects", page.table(*effects_table(a)), page.text(EFFECTS_NOTE), *pictures))
    if a.interactions:
        parts.append(page.section("Interactions", page.table(*interactions_table(a)), page.text(INTERACTIONS_NOTE)))
    if plots:
        parts += _worst(a)
    rules = page.folded("every rule", page.table(*rules_table(a)))
    parts.append(page.section("Rules", page.text(never_fired(a)), page.text(RULES_NOTE), rules))
    parts += [page.section(title, page.table(columns, rows)) for title, columns, rows in trouble(a)]
    parts.append(page.section("Times", _times(a)))
    return page.page(f"Rules on {a.study.corpus}, {a.study.target.name}", parts)


def _effects(a: Ablation) -> str:
    strength = {e.name: max(abs(e.least or 0.0), abs(e.most or 0.0)) for e in a.effects}
    order = sorted((e for e in a.effects if e.programs), key=lambda e: -strength[e.name])[:SHOWN]
    by_name = {v.name: v for v in a.study.sets}
    figure, axes = page.new_figure("effects", 9, 0.9 + 0.32 * len(order))
    for row, e in enumerate(order):
        values = 100 * np.expm1(np.sort(np.array(list(a.logs(by_name[e.name]).values()))))
        spread = row + 0.28 * (np.arange(len(values)) % 5 - 2) / 2
        axes.plot(values, spread, ".", ms=5, alpha=0.55, color="#4c78a8", mew=0)
        axes.plot([100 * math.expm1(e.mean or 0.0)] * 2, [row - 0.36, row + 0.36], "-", color="#e45756", lw=2)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_yticks(range(len(order)), [_label(a, e.name) for e in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.axvline(0, color="#9aa7b3", lw=0.8)
    axes.grid(axis="x", color="#e0e6ec", lw=0.7)
    axes.set_xlabel("simulated cycles against the base, % (logarithmic beyond 1 %)")
    left = len(a.effects) - len(order)
    more = f" The {len(order)} strongest of {len(a.effects)} sets." if left > 0 else ""
    return page.figure(page.svg_of(figure), f"Effects and their spread: a dot a program, the red bar the geometric mean.{more}")


def _label(a: Ablation, name: str) -> str:
    """A set's name as what it changes."""
    return name.removeprefix(f"{a.base.name},")


def _pareto(a: Ablation) -> str:
    """Mean e-graph size against mean slowdown; sets that lose a program are hollow."""
    points = [(1.0, 0.0, a.base.name, False)]
    points += [(e.nodes, 100 * math.expm1(e.mean), e.name, bool(e.lost)) for e in a.effects if e.nodes and e.mean is not None]
    figure, axes = page.new_figure("pareto", 7.5, 4.6)
    for nodes, slower, name, lost in points:
        front = not lost and not any(n <= nodes and s <= slower and (n, s) != (nodes, slower) and not x for n, s, _, x in points)
        axes.plot(nodes, slower, "o", ms=6, mfc="none" if lost else "#4c78a8", mec="#e45756" if front else "#4c78a8", mew=1.4)
        if front or slower > 1 or nodes < 0.8:
            axes.annotate(_label(a, name), (nodes, slower), xytext=(5, 3), textcoords="offset points", fontsize=7)
    axes.set(xlabel="e-nodes, as a share of the base", ylabel="simulated cycles against the base, % (mean)")
    axes.grid(color="#e8edf2", lw=0.6)
    said = "Size of the e-graph against speed of the plan. Red rim: no other set is smaller and faster. Hollow: loses a program."
    return page.figure(page.svg_of(figure), said)


def _worst(a: Ablation) -> list[str]:
    """The program that suffers most from any set, as it runs under the base and under that set."""
    worst = max((e for e in a.effects if e.most_program), key=lambda e: e.most or 0.0, default=None)
    if worst is None:
        return []
    v = next(v for v in a.study.sets if v.name == worst.name)
    entry = next(e for e in a.study.entries if e.name == worst.most_program)
    said = page.text(f"{entry.name} suffers most: {effect_text(worst.most)} under {v.name}.")
    pictures = [_run(a, x, entry, f"run{i}") for i, x in enumerate((a.base, v))]
    return [page.section("The worst case", said, *pictures)]


def _run(a: Ablation, v: Variant, entry: Entry, label: str) -> str:
    tiling = a.study.tiled(v, entry)
    core = [f.name for f in tiling.program.functions if f.kind in CORE_KINDS]
    runs = [simulate(tiling.program, a.study.target, a.study.residency, name) for name in core]
    longest = max(runs, key=lambda r: r.cycles)
    caption = (
        f"{v.name}: {longest.function}, {longest.cycles:,.0f} cycles, {longest.distance:.0%} above the work of {longest.bound_by}"
    )
    return page.figure(timeline(longest.timeline, f"{entry.name} under {v.name}", label), caption)


def _times(a: Ablation) -> str:
    by_phase: dict[str, list[float]] = {}
    for r in timing_rows(a):
        by_phase.setdefault(r["phase"], []).append(r["seconds"])
    rows = [(p, seconds(statistics.median(x)), seconds(max(x)), seconds(sum(x))) for p, x in by_phase.items()]
    by_rule: dict[str, float] = {}
    for row in a.rows:
        for rule, s in row.get("seconds", {}).get("rules", {}).items():
            by_rule[rule] = by_rule.get(rule, 0.0) + s
    dearest = sorted(by_rule.items(), key=lambda x: (-x[1], x[0]))[:10]
    phases = page.table(("phase, a program", ">median", ">longest", ">all together"), rows)
    return phases + page.table(("the dearest rules", ">all together"), [(name, seconds(s)) for name, s in dearest])
