"""A comparison of cost models as one HTML file: tables, distributions, the worst case as it runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cost.simulator.schedule import run_schedule
from tilesat.studies import measured, page
from tilesat.studies.comparison_text import (
    MEASURED_NOTE,
    SUMMARY_NOTE,
    audit_table,
    measured_table,
    statement,
    summary_table,
    timing_rows,
    trouble,
)
from tilesat.studies.cost_models import candidate_of, tile_text
from tilesat.studies.tables import number, percent, seconds
from tilesat.studies.timelines import timeline

if TYPE_CHECKING:
    from tilesat.studies.comparison import Comparison


def html(c: Comparison) -> str:
    """The page."""
    plots = page.has_plots()
    about = page.text(statement(c))
    parts = [about] if plots else [about, page.text(page.NO_PLOTS)]
    models = [page.table(*summary_table(c)), page.text(SUMMARY_NOTE)]
    if plots and c.priced:
        models += [_regrets(c), _taus(c)]
    parts.append(page.section("Models", *models))
    device = [page.text(MEASURED_NOTE), page.table(*measured_table(c.measured))]
    parts.append(page.section("Against device times", *device, *([_measured(c)] if plots else [])))
    parts.append(page.section("Where models choose differently", page.table(*audit_table(c)), _differences(c)))
    if plots and c.priced:
        parts.append(page.section("The worst case", *_worst(c)))
    parts += [page.section(title, page.table(columns, rows)) for title, columns, rows in trouble(c)]
    parts.append(page.section("Products", page.folded("every product and model", _products(c))))
    parts.append(page.section("Times", _times(c)))
    return page.page(f"Cost models on {c.study.corpus}, {c.study.target.name}", parts)


# -- pictures ----------------------------------------------------------------------------------------------------------


def _regrets(c: Comparison) -> str:
    figure, axes = page.new_figure("regret", 9, 0.9 + 0.42 * len(c.priced))
    for row, model in enumerate(c.priced):
        values = 100 * np.sort(np.array(list(c.figures(model, "regret@1").values())))
        spread = row + 0.28 * (np.arange(len(values)) % 5 - 2) / 2
        axes.plot(values, spread, ".", ms=5, alpha=0.55, color="#4c78a8", mew=0)
        axes.plot([np.median(values)] * 2, [row - 0.36, row + 0.36], "-", color="#e45756", lw=2)
    axes.set_xscale("symlog", linthresh=1.0)
    _rows_of_models(axes, c.priced)
    axes.set_xlabel("regret of the pick, % (logarithmic above 1 %)")
    axes.grid(axis="x", color="#e0e6ec", lw=0.7)
    return page.figure(page.svg_of(figure), "Regret per model: a dot a product, the red bar the median.")


def _taus(c: Comparison) -> str:
    figure, axes = page.new_figure("tau", 9, 0.9 + 0.42 * len(c.priced))
    boxes = [list(c.figures(m, "tau").values()) for m in c.priced]
    style = {"color": "#4c78a8"}
    axes.boxplot(
        *(boxes,),
        positions=range(len(boxes)),
        orientation="horizontal",
        widths=0.55,
        medianprops={"color": "#e45756", "lw": 2},
        boxprops=style,
        whiskerprops=style,
        capprops=style,
        flierprops={"marker": ".", "ms": 4, "mec": "#4c78a8"},
    )
    _rows_of_models(axes, c.priced)
    axes.set_xlim(-1.02, 1.02)
    axes.axvline(0, color="#9aa7b3", lw=0.8)
    axes.grid(axis="x", color="#e0e6ec", lw=0.7)
    axes.set_xlabel("Kendall's τ-b between model and referee, within a product")
    return page.figure(page.svg_of(figure), "Distribution of τ-b over the products: 1 is the referee's order, 0 is none.")


def _rows_of_models(axes: object, models: Sequence[str]) -> None:
    axes.set_yticks(range(len(models)), models)  # type: ignore[attr-defined]
    axes.set_ylim(len(models) - 0.5, -0.5)  # type: ignore[attr-defined]


def _measured(c: Comparison) -> str:
    from matplotlib.ticker import FixedLocator, NullLocator

    figure, axes = page.new_figure("measured", 6.5, 5)
    device = [float(p["device"]) for p in measured.pairs()]
    markers = "osD^vPX*<>"
    for i, r in enumerate(r for r in c.measured if "ratios" in r):
        ratios = [np.nan if x is None else x for x in r["ratios"]]
        axes.plot(device, ratios, markers[i % len(markers)], ms=6, alpha=0.8, mew=0, label=r["model"])
    axes.plot([0.5, 6], [0.5, 6], "-", color="#9aa7b3", lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="device: time(old tile) / time(new tile)", ylabel="predicted")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator([0.5, 1, 2, 3, 4, 5, 6]))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    axes.grid(color="#e8edf2", lw=0.6)
    axes.legend(fontsize=8, frameon=False)
    return page.figure(page.svg_of(figure), "Five measured pairs: on the line a ratio is predicted exactly.")


def _worst(c: Comparison) -> list[str]:
    """The product where the first model's pick is worst, as the simulator runs the pick and the referee's best."""
    model = c.priced[0]
    product = c.of(model, "regret@1").worst_product
    r = c.results[product]
    problem = next(p.problem for p in c.study.problems if p.name == product)
    assert problem is not None
    said = f"{model} chooses worst on {product}: regret {percent(r['models'][model]['regret@1'])}."
    parts = [page.text(said)]
    for which, tile in (("the model's pick", r["models"][model]["tile"]), ("the referee's best", r["best"]["tile"])):
        run = run_schedule(candidate_of(tile), 0, problem, c.study.target)
        caption = f"{which}: {tile_text(tile)}, {run.cycles:,.0f} cycles; the busiest lane is {run.bound_by}"
        parts.append(page.figure(timeline(run, f"{product}: {which}", f"run{len(parts)}"), caption))
    return parts


# -- long tables -------------------------------------------------------------------------------------------------------


def _differences(c: Comparison) -> str:
    rows = [
        (d.product, d.a, tile_text(d.tile_a), number(d.cycles_a, 0), d.b, tile_text(d.tile_b), number(d.cycles_b, 0))
        for d in c.differences
        if "random" not in (d.a, d.b)
    ]
    columns = ("product", "a", "its tile", ">cycles", "b", "its tile", ">cycles")
    return page.folded(f"{len(rows)} differences one by one (without the random model)", page.table(columns, rows))


def _products(c: Comparison) -> str:
    rows = []
    for product, r in c.results.items():
        best = f"{tile_text(r['best']['tile'])}: {number(r['best']['cycles'], 0)}"
        for m in c.priced:
            f = r["models"][m]
            if "tile" in f:
                cells = (tile_text(f["tile"]), number(f["referee"], 0), percent(f["regret@1"]), number(f["tau"]))
                rows.append((product, str(r["candidates"]), best, m, *cells))
    columns = ("product", ">candidates", "best", "model", "its tile", ">cycles", ">regret", ">τ-b")
    return page.table(columns, rows)


def _times(c: Comparison) -> str:
    rows = list(timing_rows(c))
    table = []
    for m in c.priced:
        mine = [r["selection"] for r in rows if r["model"] == m]
        if mine:
            table.append((f"selection by {m}", *_spread(mine)))
    by_product = {r["product"]: r for r in rows}.values()
    for phase in ("saturate", "referee"):
        if by_product:
            table.append((phase, *_spread([r[phase] for r in by_product])))
    return page.table(("what, a product", ">median", ">longest", ">all together"), table)


def _spread(values: Sequence[float]) -> tuple[str, str, str]:
    return seconds(statistics.median(values)), seconds(max(values)), seconds(sum(values))
