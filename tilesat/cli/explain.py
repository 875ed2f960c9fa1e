"""``tilesat explain``: why a product got its schedule, and why a rule did not fire."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from tilesat.cli import options
from tilesat.cli.files import read_program
from tilesat.cli.outcome import DONE, UsageError, command
from tilesat.cli.output import show_json
from tilesat.cli.tile import tiled


def register(app: typer.Typer) -> None:
    app.command("explain")(command(explain))


def explain(
    file: options.File,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A product, as written or as function.name.", show_default=False)],
    against: Annotated[str | None, typer.Option(metavar="m,n,k", help="Compare with this tile too.", show_default=False)] = None,
    why_not: Annotated[
        str | None, typer.Option(metavar="RULE", help="Say why this rule or family did not fire.", show_default=False)
    ] = None,
    target: options.TargetName = "ascend910b",
    planner: options.Planner = "dsa_rp",
    pypto_double_buffer_c: options.DoubleBufferC = False,
    rules: options.Rules = "reference",
    cost_model: options.CostModel = "roofline",
    extractor: options.Extractor = "dag",
    force: options.Force = None,
    json: options.AsJson = False,
) -> int:
    """Explain the schedule of one product, term by term.

    The chosen one against the runner-up and any tile of yours: what binds, which rules made it.
    """
    if against is not None and why_not is not None:
        raise UsageError("give --against or --why-not, not both")
    other = None if against is None else options.three(against, "--against")
    forced = options.tiles(force, "--force")
    program = read_program(file)
    tiling = tiled(program, file, target, planner, rules, cost_model, extractor, None, pypto_double_buffer_c, forced)
    if why_not is None:
        explanation = tiling.explain(name, other)
        _tell("tilesat.explain/1", file, explanation, str(explanation), json)
    else:
        answers = tiling.why_not(why_not, name)
        _tell("tilesat.why_not/1", file, answers, "\n".join(map(str, answers)), json)
    return DONE


def _tell(schema: str, file: str, what: Any, text: str, json: bool) -> None:
    if not json:
        print(text)
    elif isinstance(what, tuple):
        show_json({"schema": schema, "file": file, "answers": [dataclasses.asdict(x) for x in what]})
    else:
        show_json({"schema": schema, "file": file, **dataclasses.asdict(what)})
