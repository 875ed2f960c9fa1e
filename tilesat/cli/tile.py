"""``tilesat tile``: a program in, its tiled form out."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilesat.cli import options
from tilesat.cli.files import read_program, write_whole
from tilesat.cli.outcome import DONE, command
from tilesat.cli.output import note, progress, show_json, show_table

if TYPE_CHECKING:
    from egraph_rules.report import Limits
    from ir_bridge.ir.nodes import Program
    from tilesat.result import ProductDecision, Tiling

STAGES = ("convert",)


def register(app: typer.Typer) -> None:
    app.command("tile")(command(tile))


def tile(
    file: options.File,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="OUT", help="Write the tiled program here (may be FILE).", show_default=False),
    ] = None,
    target: options.TargetName = "ascend910b",
    planner: options.Planner = "dsa_rp",
    pypto_double_buffer_c: options.DoubleBufferC = False,
    rules: options.Rules = "reference",
    cost_model: options.CostModel = "roofline",
    extractor: options.Extractor = "dag",
    force: options.Force = None,
    limit_seconds: options.LimitSeconds = None,
    limit_nodes: options.LimitNodes = None,
    stop_after: Annotated[
        str | None, typer.Option(metavar="STAGE", help="convert: print the tile program before it is tiled.", show_default=False)
    ] = None,
    json: options.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No decisions and hints on stderr.", show_default=False)] = False,
) -> int:
    """Tile every matrix product of a program.

    The tiled program goes to stdout, or to OUT in one step; decisions and hints go to stderr.
    """
    forced = options.tiles(force, "--force")
    program = read_program(file)
    if stop_after is not None:
        options.one_of(stop_after, STAGES, "--stop-after")
        if not quiet:
            tell_misspelt(program)
        return _deliver(str(_converted(program, target)), out)
    tiling = tiled(
        program,
        file,
        target,
        planner,
        rules,
        cost_model,
        extractor,
        limits(limit_seconds, limit_nodes),
        pypto_double_buffer_c,
        forced,
    )
    text = str(tiling.program)
    if out is not None or not json:
        _deliver(text, out)
    if json:
        show_json(as_data(tiling, text, file, target, planner, rules, cost_model, extractor))
    elif not quiet:
        tell(tiling)
    return DONE


def tiled(program: Program, file: str, *options_of_tile: Any) -> Tiling:
    """The program tiled, with progress shown. ``options_of_tile`` are those of :func:`tilesat.tile`, in its order."""
    import tilesat

    with progress(f"tiling {file}"):
        return tilesat.tile(program, *options_of_tile)


def limits(seconds: float | None, nodes: int | None) -> Limits | None:
    """The limits the options ask for; None for the defaults."""
    import tilesat

    given: dict[str, Any] = {k: v for k, v in (("seconds", seconds), ("nodes", nodes)) if v is not None}
    return tilesat.Limits(**given) if given else None


def _converted(program: Program, target: str) -> Program:
    import tilesat

    converted: Program = tilesat.convert(program, target)
    return converted


def _deliver(text: str, out: str | None) -> int:
    if out is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    else:
        write_whole(out, text)
    return DONE


# -- telling --------------------------------------------------------------------------------------------------------------

COLUMNS = ("product", "operation", ">M × N × K", "type", ">tile m × n × k", "stationary", ">L0C", "result in")


def tell(tiling: Tiling) -> None:
    """Decisions, hints and how the run ended, on stderr."""
    if tiling.decisions:
        show_table((*COLUMNS, f">{tiling.unit}"), [decision_row(d) for d in tiling.decisions], sys.stderr)
    for hint in tiling.diagnostics:
        note(str(hint))
    for unknown in tiling.unknown_operations:
        note(f"note: {unknown}")
    report = tiling.report
    products = f"{len(tiling.decisions)} product{'' if len(tiling.decisions) == 1 else 's'}"
    ended = f"{report.stop.value} after {report.iterations} iterations, {report.nodes:,} e-graph rows"
    note(f"{products}, {tiling.cycles:,.0f} {tiling.unit} predicted; {ended}")


def tell_misspelt(program: Program) -> None:
    """Operations that may be misspelt, on stderr."""
    from ir_bridge.ir.misspelt import misspelt

    for unknown in misspelt(program):
        note(f"note: {unknown}")


def decision_row(d: ProductDecision) -> tuple[str, ...]:
    """A decision as a row of :data:`COLUMNS`, and what the cost model says of it."""
    extents = f"{d.M} × {d.N} × {d.K}"
    if d.m is None:
        tile, held, accumulators = "-", "-", "-"
    else:
        tile, held = f"{d.m} × {d.n} × {d.k}", str(d.stationarity)
        accumulators = "2" if d.double_buffer_c else "1"
    cycles = "-" if d.wall_cycles is None else f"{d.wall_cycles:,}"
    return (d.name, d.op, extents, d.dtype, tile, held, accumulators, d.placement, cycles)


def as_data(
    tiling: Tiling, text: str, file: str, target: str, planner: str, rules: str, cost_model: str, extractor: str
) -> dict[str, Any]:
    """The result as plain data; ``docs/cli.md`` lists its fields."""
    from cost.hardware import get_target

    report = tiling.report
    return {
        "schema": "tilesat.tile/1",
        "file": file,
        "target": get_target(target).name,
        "planner": planner,
        "rules": rules,
        "cost_model": cost_model,
        "extractor": extractor,
        "cycles": tiling.cycles,
        "decisions": [dataclasses.asdict(d) for d in tiling.decisions],
        "diagnostics": [{"code": h.code, "op": h.op, "message": h.message, "where": h.where} for h in tiling.diagnostics],
        "unknown_operations": [
            {"op": u.op, "nearest": u.nearest, "function": u.function, "where": str(u.loc)} for u in tiling.unknown_operations
        ],
        "report": {
            "stop": report.stop.value,
            "iterations": report.iterations,
            "nodes": report.nodes,
            "seconds": report.phases,
            "rules": [{"name": r.name, "family": r.family, "matches": r.matches, "seconds": r.seconds} for r in report.rules],
        },
        "program": text,
    }
