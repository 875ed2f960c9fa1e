"""``tilesat targets``: the hardware descriptions that are built in."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tilesat.cli import options
from tilesat.cli.outcome import DONE, command
from tilesat.cli.output import show_json, show_table


def register(app: typer.Typer) -> None:
    app.command("targets")(command(targets))


def targets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show this one (or the description at this path).", show_default=False)
    ] = None,
    json: options.AsJson = False,
) -> int:
    """List the targets, or show one whole.

    What the fields mean is in docs/hardware.md.
    """
    from cost.hardware import BUFFERS, describe, get_target
    from cost.hardware import targets as built_in

    if name is not None:
        target = get_target(name)
        if json:
            show_json({"schema": "tilesat.target/1", **describe(target)})
        else:
            _show(dataclasses.asdict(target))
        return DONE
    if json:
        show_json({"schema": "tilesat.targets/1", "targets": [describe(t) for t in built_in()]})
        return DONE
    columns = ("target", "aliases", *(f">{b}" for b in BUFFERS), "calibration")
    rows = [(t.name, ", ".join(t.aliases), *(f"{t.capacity(b):,}" for b in BUFFERS), t.calibration or "-") for t in built_in()]
    show_table(columns, rows)
    return DONE


def _show(fields: dict[str, object]) -> None:
    rows: list[tuple[str, str]] = []
    for key, value in fields.items():
        if isinstance(value, dict):
            rows += [(f"{key}.{k}", _text(v)) for k, v in value.items()]
        else:
            rows.append((key, _text(value)))
    show_table(("field", "value"), rows)


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, (tuple, list)):
        return ", ".join(" → ".join(map(str, x)) if isinstance(x, (tuple, list)) else str(x) for x in value) or "-"
    return "-" if value is None or value == "" else str(value)
