"""``tilesat simulate``: run a tiled program on a model of one core, cycle by cycle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from tilesat.cli import options
from tilesat.cli.files import not_over, read_program, write_together
from tilesat.cli.outcome import DONE, UsageError, command
from tilesat.cli.output import note, progress, show_json

if TYPE_CHECKING:
    from tilesat.simulation import SimulationResult

RESIDENCIES = ("gm", "mat")


def register(app: typer.Typer) -> None:
    app.command("simulate")(command(simulate))


def simulate(
    file: options.File,
    target: options.TargetName = "ascend910b",
    residency: Annotated[
        str, typer.Option(metavar="WHERE", help="gm: operands start in global memory; mat: in Mat, as the roofline has it.")
    ] = "gm",
    function: options.FunctionName = None,
    scalar: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N", help="Value of a scalar parameter or dynamic dimension.", show_default=False),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(metavar="BUFFER=BYTES", help="Another size for a buffer, as l0c=262144.", show_default=False),
    ] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="JSON", help="Write a trace for ui.perfetto.dev here.", show_default=False)
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="SVG", help="Draw the timeline here (.svg or .png; extra plots).", show_default=False)
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Run a tiled program on a model of one core, cycle by cycle.

    Prints cycles, what each lane did and waited for, peak bytes of each buffer. See docs/simulator.md.
    """
    import tilesat
    from cost.simulator.picture import kind_of

    options.one_of(residency, RESIDENCIES, "--residency")
    scalars = options.whole_numbers(scalar, "--scalar", "--scalar T=64")
    sizes = options.whole_numbers(capacity, "--capacity", "--capacity l0c=262144")
    if plot is not None:
        kind_of(plot)
    if trace is not None and plot is not None and os.path.realpath(trace) == os.path.realpath(plot):
        raise UsageError(f"--trace and --plot both name {plot}; give them files of their own")
    not_over(file, trace, "--trace")
    not_over(file, plot, "--plot")
    program = read_program(file)
    with progress(f"simulating {file}"):
        result = tilesat.simulate(program, target, residency, function, scalars, sizes)
        _write(result, trace, plot)
    if json:
        show_json({"schema": "tilesat.simulate/1", "file": file, **result.as_dict()})
    else:
        print(result)
    return DONE


def _write(result: SimulationResult, trace: str | None, plot: str | None) -> None:
    """The files that are asked for, all or none."""
    makers = {path: make for path, make in ((trace, result.write_trace), (plot, result.plot)) if path is not None}
    write_together(makers)
    for path in makers:
        note(f"wrote {path}")
