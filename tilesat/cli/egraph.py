"""``tilesat egraph``: the saturated e-graph of a program, for tools as JSON, for people as a picture."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tilesat.cli import options
from tilesat.cli.files import not_over, read_program, write_whole
from tilesat.cli.outcome import DONE, command
from tilesat.cli.output import progress
from tilesat.cli.tile import limits

if TYPE_CHECKING:
    from tilesat.pipeline import Run

FORMATS = ("json", "dot", "svg")


def register(app: typer.Typer) -> None:
    app.command("egraph")(command(egraph))


def egraph(
    file: options.File,
    format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="json: all of it; dot, svg: folded for people.")
    ] = "svg",
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="OUT", help="Write it here instead of stdout.", show_default=False)
    ] = None,
    target: options.TargetName = "ascend910b",
    planner: options.Planner = "dsa_rp",
    pypto_double_buffer_c: options.DoubleBufferC = False,
    rules: options.Rules = "all",
    cost_model: options.CostModel = "roofline",
    extractor: options.Extractor = "dag",
    limit_seconds: options.LimitSeconds = None,
    limit_nodes: options.LimitNodes = None,
) -> int:
    """Show the e-graph of a program after saturation.

    json is egraph-serialize JSON, every schedule a node, with costs and roots; dot and svg show a box a class, all schedules of a
    class in one, and what the plan takes in red.
    """
    from tilesat.explain import Explainer
    from tilesat.pipeline import Run

    options.one_of(format, FORMATS, "--format")
    not_over(file, out, "--out")
    bounds = limits(limit_seconds, limit_nodes)
    program = read_program(file)
    with progress(f"saturating {file}"):
        run = Run(program, target, planner, rules, cost_model, extractor, bounds, pypto_double_buffer_c, {})
        run.tiling(partial(Explainer, run))
        text = _json(run) if format == "json" else _picture(run, format, file)
    if out is None:
        sys.stdout.write(text)
    else:
        write_whole(out, text)
    return DONE


def _json(run: Run) -> str:
    import json

    from extraction.serialize import to_egraph_json

    return json.dumps(to_egraph_json(run.snapshot, run.priced), ensure_ascii=False) + "\n"


def _picture(run: Run, format: str, file: str) -> str:
    from extraction.draw import to_dot, to_svg
    from extraction.fold import fold
    from ir_bridge.lower.gates import shown

    decisions = (*run.decisions.chains.values(), *run.decisions.products.values())
    taken = [d.node for d in decisions if d.node is not None]
    rows = {d.problem: d.row for d in decisions if d.row is not None}
    boxes = fold(run.snapshot, run.priced, taken, rows, lambda v: shown(run.lowered.values[v]))
    return to_dot(boxes) if format == "dot" else to_svg(boxes, f"e-graph of {file}")
