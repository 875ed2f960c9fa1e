"""The application: every command in the order ``tilesat --help`` lists them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated

import typer

#: Modules with a ``register(app)``; each adds its command, or a group of commands of its own.
COMMANDS = ("tile", "verify", "run", "simulate", "explain", "rules", "targets", "choose", "batch", "egraph", "study")


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """The application with all its commands; with only the one that ``arguments`` ask for, where they begin with one."""
    wanted = arguments[:1] if arguments and arguments[0] in COMMANDS else COMMANDS
    app = typer.Typer(
        name="tilesat",
        help="Tile matrix programs for the cube cores of Ascend chips, by equality saturation.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_common)
    for name in wanted:
        importlib.import_module(f"tilesat.cli.{name}").register(app)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        import tilesat

        typer.echo(f"tilesat {tilesat.__version__}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.", show_default=False)
    ] = False,
) -> None:
    pass
