"""An ablation of rule sets as CSV tables and as a Markdown report."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tilesat.studies.ablation import LEGAL
from tilesat.studies.effects import Ablation, Effect, Interaction
from tilesat.studies.tables import csv_text, markdown, number

Table = tuple[Sequence[str], list[Sequence[str]]]

_ITEMS = ("set", "program", "status", "why", "products", "tiled", "predicted", "simulated", "nodes", "classes", "iterations")
EFFECTS_NOTE = (
    "Effect: how much slower the simulator has the program under the set than under the one it is measured against (the mean "
    "is geometric, ± its standard error), over programs that are legal under both. Lost: programs that only the other set has a "
    "legal plan for. Predicted: the same mean by the cost model's own figures, where a split-K chain counts one of its K blocks."
)
RULES_NOTE = "Matches under the set that effects are measured against, in how many programs, and under all sets together."
INTERACTIONS_NOTE = (
    "What taking two families away costs beyond the sum of taking each: above 0, one stands in for the other; below, one is of "
    "use through the other only."
)


def tables(a: Ablation) -> dict[str, str]:
    """The CSV tables, by file name."""
    matches = ("rule", "family", "matches", "programs", "all_sets", "statement")
    found = {
        "effects.csv": csv_text([f.name for f in dataclasses.fields(Effect)], map(dataclasses.asdict, a.effects)),
        "programs.csv": csv_text((*_ITEMS, "stop", "error"), _items(a)),
        "matches.csv": csv_text(("set", "program", "rule", "matches"), _matches(a)),
        "rules.csv": csv_text(matches, a.rules),
        "timings.csv": csv_text(("set", "program", "phase", "seconds"), timing_rows(a)),
    }
    if a.interactions:
        names = [f.name for f in dataclasses.fields(Interaction)]
        found["interactions.csv"] = csv_text(names, map(dataclasses.asdict, a.interactions))
    return found


def _items(a: Ablation) -> Iterator[dict[str, Any]]:
    for row in a.rows:
        name, program = a.study.about(row["item"])
        about = {"set": name, "program": program}
        if "error" in row:
            yield {**about, "error": row["error"]}
        else:
            yield {**about, **row["result"], "why": "; ".join(row["result"]["why"])}


def _matches(a: Ablation) -> Iterator[dict[str, Any]]:
    for row in a.rows:
        name, program = a.study.about(row["item"])
        for rule, count in row.get("result", {}).get("matches", {}).items():
            if count:
                yield {"set": name, "program": program, "rule": rule, "matches": count}


def timing_rows(a: Ablation) -> Iterator[dict[str, Any]]:
    """Seconds by set, program and phase."""
    for row in a.rows:
        name, program = a.study.about(row["item"])
        for phase, seconds in row.get("seconds", {}).get("phases", {}).items():
            yield {"set": name, "program": program, "phase": phase, "seconds": seconds}


def report(a: Ablation) -> str:
    """The Markdown report: the same every time."""
    parts = [f"# Rules on `{a.study.corpus}`, {a.study.target.name}\n", statement(a) + "\n"]
    parts += ["## Effects\n", markdown(*effects_table(a)), EFFECTS_NOTE + "\n"]
    if a.interactions:
        parts += ["## Interactions\n", markdown(*interactions_table(a)), INTERACTIONS_NOTE + "\n"]
    parts += ["## Rules\n", never_fired(a) + "\n", markdown(*rules_table(a)), RULES_NOTE + "\n"]
    for title, columns, rows in trouble(a):
        parts += [f"## {title}\n", markdown(columns, rows)]
    return "\n".join(parts)


def statement(a: Ablation) -> str:
    """What was done, in a paragraph."""
    first = a.results(a.base)
    legal = sum(r["status"] == LEGAL for r in first.values())
    s = a.study
    return (
        f"{len(s.entries)} programs under {len(s.sets)} rule sets ({s.design}), measured against `{a.base.name}`, which has a "
        f"legal plan for {legal} of them. Planner {s.planner}, chosen by {s.cost_model.name} ({s.extractor}), simulated with "
        f"operands in {'Mat' if s.residency == 'mat' else 'global memory'}."
    )


def effect_text(x: float | None, digits: int = 1) -> str:
    """A log effect as per cent: 0.0488 as "+5.0 %"."""
    if x is None:
        return "–"
    percent = 100 * math.expm1(x)
    return "0" if abs(x) < 1e-9 else f"{percent:+.{digits}f} %"


def effects_table(a: Ablation) -> Table:
    """The table of all sets."""
    columns: tuple[str, ...] = ("set", ">programs", ">changed", ">lost", ">gained", ">mean", ">±", ">median", ">worst", "where")
    columns += (">predicted", ">nodes", ">classes")
    rows: list[Sequence[str]] = []
    for e in a.effects:
        cells = [e.name, str(e.programs), str(e.changed), str(len(e.lost)), str(len(e.gained)), effect_text(e.mean)]
        cells += [f"{100 * e.error:.1f} %" if e.error else "–", effect_text(e.median), effect_text(e.most), e.most_program or "–"]
        rows.append([*cells, effect_text(e.predicted), number(e.nodes), number(e.classes)])
    return columns, rows


def interactions_table(a: Ablation) -> Table:
    """The table of pairs that interact at all, the strongest first."""
    found = [i for i in a.interactions if i.lost or (i.most is not None and abs(i.most) > 1e-9)]
    found.sort(key=lambda i: (-len(i.lost), -abs(i.most or 0.0), i.a, i.b))
    rows: list[Sequence[str]] = [
        (i.a, i.b, str(i.programs), effect_text(i.mean), effect_text(i.most), i.most_program or "–", str(len(i.lost)))
        for i in found
    ]
    return ("a", "b", ">programs", ">mean", ">strongest", "where", ">lost by both only"), rows


def rules_table(a: Ablation) -> Table:
    """The table of all rules."""
    rows: list[Sequence[str]] = [
        (r["family"], r["rule"], f"{r['matches']:,}", str(r["programs"]), f"{r['all_sets']:,}", r["statement"]) for r in a.rules
    ]
    return ("family", "rule", ">matches", ">programs", ">under all sets", "what it says"), rows


def never_fired(a: Ablation) -> str:
    """The rules that never fired, by name."""
    names = a.never_fired
    return "Every rule fired somewhere." if not names else f"Never fired, under any set: {', '.join(names)}."


def trouble(a: Ablation) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """Programs without a legal plan (reasons without their numbers, which programs.csv has), and what went wrong."""
    lost = []
    for v in a.study.sets:
        without = {name: r["why"] for name, r in a.results(v).items() if r["status"] != LEGAL}
        if without:
            reasons = Counter(re.sub(r"\d[\d ×·,]*", "… ", w).strip() for why in without.values() for w in why)
            said = "; ".join(f"{w} ({n}×)" for w, n in sorted(reasons.items(), key=lambda x: (-x[1], x[0]))[:4])
            lost.append((v.name, str(len(without)), said, ", ".join(without)))
    if lost:
        yield "Programs without a legal plan", ("set", ">how many", "why", "which"), lost
    if a.errors:
        yield "Items that failed", ("item", "why"), list(a.errors.items())
    limits = [(v.name, n, r["stop"]) for v in a.study.sets for n, r in a.results(v).items() if r["stop"] != "saturated"]
    if limits:
        yield "Runs that a limit ended", ("set", "program", "limit"), limits
