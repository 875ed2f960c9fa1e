"""``tilesat rules``: the catalogue, and what each rule did for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilesat.cli import options
from tilesat.cli.files import read_program
from tilesat.cli.outcome import DONE, command
from tilesat.cli.output import note, show_json, show_table
from tilesat.cli.tile import limits, tiled

if TYPE_CHECKING:
    from egraph_rules.catalogue import RuleSet


def register(app: typer.Typer) -> None:
    app.command("rules")(command(rules))


def rules(
    rules: Annotated[
        str,
        typer.Option(metavar="SPEC", help='The rule set to list or profile: "all", "reference,-cast_fold", "file.py:FAMILY", …'),
    ] = "all",
    profile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Tile FILE and say what each rule did.", show_default=False)
    ] = None,
    target: options.TargetName = "ascend910b",
    planner: options.Planner = "dsa_rp",
    pypto_double_buffer_c: options.DoubleBufferC = False,
    limit_seconds: options.LimitSeconds = None,
    limit_nodes: options.LimitNodes = None,
    json: options.AsJson = False,
) -> int:
    """List the rule families, or profile them on a program.

    A profile has a row for every rule, also for those that matched nothing.
    """
    import tilesat

    chosen = tilesat.rules(rules)
    if profile is None:
        return _list(chosen, json)
    return _profile(profile, chosen, target, planner, pypto_double_buffer_c, limit_seconds, limit_nodes, json)


def _list(chosen: RuleSet, json: bool) -> int:
    from egraph_rules.catalogue import NAMED

    families = [{"name": f.name, "statement": f.statement, "rules": [r.name for r in f.rules]} for f in chosen.families]
    if json:
        show_json({"schema": "tilesat.rules/1", "families": families, "policy": chosen.policy, "sets": dict(NAMED)})
        return DONE
    show_table(("family", ">rules", "what it says"), [(f.name, str(len(f.rules)), f.statement) for f in chosen.families])
    print()
    show_table(("set", "what it is"), list(NAMED.items()))
    return DONE


def _profile(
    file: str,
    chosen: RuleSet,
    target: str,
    planner: str,
    pypto_double_buffer_c: bool,
    limit_seconds: float | None,
    limit_nodes: int | None,
    json: bool,
) -> int:
    bounds = limits(limit_seconds, limit_nodes)
    report = tiled(
        read_program(file), file, target, planner, chosen, "roofline", "dag", bounds, pypto_double_buffer_c, None, True
    ).report
    if json:
        rows = [
            {"rule": r.name, "family": r.family, "matches": r.matches, "nodes": r.nodes, "seconds": r.seconds}
            for r in report.rules
        ]
        show_json(
            {
                "schema": "tilesat.profile/1",
                "file": file,
                "stop": report.stop.value,
                "iterations": report.iterations,
                "nodes": report.nodes,
                "given": report.given,
                "seconds": report.phases,
                "rules": rows,
            }
        )
        return DONE
    rows_of_text = [(r.family, r.name, f"{r.matches:,}", f"{r.nodes or 0:,}", f"{r.seconds * 1e3:.2f}") for r in report.rules]
    show_table(("family", "rule", ">matches", ">nodes", ">ms"), rows_of_text)
    print()
    phases = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in report.phases.items())
    rows_in_all = f"{report.nodes:,} e-graph rows, {report.given:,} of them facts"
    print(f"{report.stop.value} after {report.iterations} iterations, {rows_in_all}; {phases}")
    note("most time: " + ", ".join(f"{r.name} {r.seconds * 1e3:.2f} ms" for r in report.costliest()))
    return DONE
