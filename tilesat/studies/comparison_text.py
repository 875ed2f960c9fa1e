"""A comparison of cost models as CSV tables and as a Markdown report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from tilesat.studies.comparison import METRICS, Comparison, Difference, Summary
from tilesat.studies.cost_models import KS, tile_text
from tilesat.studies.metrics import NOISE
from tilesat.studies.tables import csv_text, markdown, number, percent

_PRODUCT_COLUMNS = (
    *("product", "entries", "candidates", "sample", "asked", "strata", "left_out", "best_cycles", "best_tile"),
    *("model", "tile", "predicted", "referee"),
    *(m.name for m in METRICS),
    "failed",
)
SUMMARY_NOTE = (
    "Regret: how much longer the referee has the best of a model's first k take than the best there is; its mean is geometric, "
    "of 1 + regret. Recall: the share of a model's first k among the referee's best k, averaged. τ-b and ρ (Spearman): within a "
    f"product, never pooled. Pairs right: pairs of candidates that differ by more than {NOISE:.0%}, ordered as the referee has "
    "them. MAPE is of models in cycles only.\n"
)
MEASURED_NOTE = (
    "Five products under two tiles each, measured on one cube core of a 910B2 (noise 3–4 %). Error: the mean of "
    "|ln(predicted ratio / device ratio)|; correlations are of the log ratios.\n"
)


def tables(c: Comparison) -> dict[str, str]:
    """The CSV tables, by file name."""
    differences = ({**dataclasses.asdict(d), "tile_a": tile_text(d.tile_a), "tile_b": tile_text(d.tile_b)} for d in c.differences)
    return {
        "summary.csv": csv_text([f.name for f in dataclasses.fields(Summary)], map(dataclasses.asdict, c.summary)),
        "products.csv": csv_text(_PRODUCT_COLUMNS, _product_rows(c)),
        "audit.csv": csv_text(("a", "b", "products", "differ", "a_better", "b_better", "ratio"), c.audit),
        "differences.csv": csv_text([f.name for f in dataclasses.fields(Difference)], differences),
        "measured.csv": csv_text(("model", "ordered", "pairs", "error", "pearson", "spearman", "ratios", "failed"), c.measured),
        "timings.csv": csv_text(("product", "saturate", "referee", "model", "selection"), timing_rows(c)),
    }


def _product_rows(c: Comparison) -> Iterator[dict[str, Any]]:
    entries = {p.name: p.entries for p in c.study.problems}
    for row in c.rows:
        about = {"product": row["item"], "entries": entries[row["item"]]}
        if "error" in row:
            yield {**about, "failed": row["error"]}
            continue
        r = row["result"]
        about |= {k: r[k] for k in ("candidates", "sample", "asked", "strata", "left_out")}
        about |= {"best_cycles": r["best"]["cycles"], "best_tile": tile_text(r["best"]["tile"])}
        for model, found in r["models"].items():
            tile = {"tile": tile_text(found["tile"])} if "tile" in found else {}
            yield {**about, "model": model, **found, **tile}


def timing_rows(c: Comparison) -> Iterator[dict[str, Any]]:
    """Seconds by product and model."""
    for row in c.rows:
        s = row.get("seconds", {})
        for model, selection in s.get("selection", {}).items():
            about = {"product": row["item"], "saturate": s["saturate"], "referee": s["referee"]}
            yield {**about, "model": model, "selection": selection}


def report(c: Comparison) -> str:
    """The Markdown report: the same every time."""
    parts = [f"# Cost models on `{c.study.corpus}`, {c.study.target.name}\n", statement(c)]
    parts += ["## Models\n", markdown(*summary_table(c)), SUMMARY_NOTE]
    parts += ["## Against device times\n", MEASURED_NOTE, markdown(*measured_table(c.measured))]
    parts += ["## Where models choose differently\n", markdown(*audit_table(c))]
    for title, columns, rows in trouble(c):
        parts += [f"## {title}\n", markdown(columns, rows)]
    return "\n".join(parts)


def trouble(c: Comparison) -> Iterator[tuple[str, Sequence[str], list[tuple[str, str]]]]:
    """What went wrong, as titled tables; nothing where nothing did."""
    failed = [(m, why) for m in c.models for why in dict.fromkeys(c.failures(m).values())]
    if failed:
        yield "Models that failed", ("model", "why"), failed
    if c.errors:
        yield "Products that could not be studied", ("product", "why"), list(c.errors.items())


def statement(c: Comparison) -> str:
    """What was asked of whom, in a paragraph."""
    found = list(c.results.values())
    total, asked = sum(r["candidates"] for r in found), sum(r["asked"] for r in found)
    whole = sum(r["asked"] == r["candidates"] for r in found)
    left = sum(r["left_out"] for r in found)
    text = f"{len(found)} products with {total:,} legal candidates. Referee: {c.study.referee.name}, asked about "
    if c.study.sample:
        text += (
            f"{asked:,} of them: a sample of {c.study.sample:,} a product, stratified by regime and length (seed "
            f"{c.study.seed}), and every model's first {max(KS)}; of {whole} products these are all candidates. "
        )
    else:
        text += "every one. "
    return text + (f"{left:,} candidates were too long to ask about.\n" if left else "None was too long to ask about.\n")


Table = tuple[Sequence[str], list[Sequence[str]]]


def summary_table(c: Comparison) -> Table:
    """The table of all models."""
    columns: tuple[str, ...] = (
        "model",
        ">regret@1: median",
        ">mean",
        ">worst",
        ">regret@5: mean",
        ">worst",
        ">regret@10: mean",
        ">worst",
    )
    columns += (">recall@1", ">@5", ">@10", ">τ-b: median", ">worst", ">ρ: median", ">worst")
    columns += (">pairs right: median", ">worst", ">MAPE: median")
    rows: list[Sequence[str]] = []
    for m in c.priced:
        of = {s.metric: s for s in c.summary if s.model == m}
        cells = [m, percent(of["regret@1"].median), percent(of["regret@1"].mean), percent(of["regret@1"].worst)]
        for k in ("regret@5", "regret@10"):
            cells += [percent(of[k].mean), percent(of[k].worst)]
        cells += [percent(of[f"recall@{k}"].mean, 0) for k in KS]
        for k in ("tau", "spearman"):
            cells += [number(of[k].median), number(of[k].worst)]
        cells += [percent(of["pairwise"].median), percent(of["pairwise"].worst), percent(of["mape"].median, 0)]
        rows.append(cells)
    return columns, rows


def audit_table(c: Comparison) -> Table:
    """The table of pairs of models."""
    rows: list[Sequence[str]] = [
        (r["a"], r["b"], f"{r['differ']} of {r['products']}", str(r["a_better"]), str(r["b_better"]), number(r["ratio"], 3))
        for r in c.audit
    ]
    return ("a", "b", ">differ", ">a is better", ">b is better", ">cycles of b / a"), rows


def measured_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The table of models against device times."""
    table: list[Sequence[str]] = []
    for r in rows:
        if "failed" in r:
            table.append((r["model"], "–", "–", "–", "–"))
        else:
            ordered = f"{r['ordered']} of {r['pairs']}"
            table.append((r["model"], number(r["error"]), ordered, number(r["pearson"]), number(r["spearman"])))
    return ("model", ">error", ">ordered as the device", ">r", ">ρ"), table
