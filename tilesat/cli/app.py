"""The application: every command in the order ``tilesat --help`` lists them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from tilesat.cli.outcome import BAD_INPUT, DONE, complain

#: Modules with a ``register(app)``; each adds its command, or a group of commands of its own.
COMMANDS = ("tile", "verify", "run", "simulate", "explain", "rules", "targets", "choose", "batch", "egraph", "study")


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """The application with all its commands; with only the one that ``arguments`` ask for, where they begin with one."""
    wanted = arguments[:1] if arguments and arguments[0] in COMMANDS else COMMANDS
    app = Application(
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


class Application(typer.Typer):
    """Commands, and one way for all of them to end: a word that is no option or argument is an error as any other."""

    def __call__(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:
        try:
            code = typer.main.get_command(self).main(args, "tilesat", standalone_mode=False, **extra)
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            code = _misused(error)
        sys.exit(code if isinstance(code, int) else DONE)


def _misused(error: Any) -> int:
    """Tell what is wrong with the words of a command (an error of click, or of the copy of it that typer has)."""
    context = getattr(error, "ctx", None)
    if context is None:
        return complain(error.format_message())
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help())
        return BAD_INPUT
    return complain(f"{error.format_message()}\n{context.get_usage()}\nMore: {context.command_path} --help")


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
