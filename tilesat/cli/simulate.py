"""``tilesat simulate``: run a tiled program on a model of one core, cycle by cycle."""

from __future__ import annotations

from typing import Annotated

import typer

from tilesat.cli import options
from tilesat.cli.files import read_program
from tilesat.cli.outcome import DONE, command
from tilesat.cli.output import note, progress, show_json

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

    options.one_of(residency, RESIDENCIES, "--residency")
    scalars = options.whole_numbers(scalar, "--scalar", "--scalar T=64")
    sizes = options.whole_numbers(capacity, "--capacity", "--capacity l0c=262144")
    program = read_program(file)
    with progress(f"simulating {file}"):
        result = tilesat.simulate(program, target, residency, function, scalars, sizes)
    if trace is not None:
        result.write_trace(trace)
        note(f"wrote {trace}")
    if plot is not None:
        result.plot(plot)
        note(f"wrote {plot}")
    if json:
        show_json({"schema": "tilesat.simulate/1", "file": file, **result.as_dict()})
    else:
        print(result)
    return DONE
