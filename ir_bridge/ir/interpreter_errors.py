"""What the reference interpreter refuses."""

from __future__ import annotations

from cost.errors import TilesatError
from ir_bridge.ir.nodes import Loc


class ExecuteError(TilesatError):
    """A program that cannot be executed on these inputs; the message names the place or the array, and the repair."""


def at(function: str, loc: Loc, problem: object) -> ExecuteError:
    """The error of a statement, with its place."""
    return ExecuteError(f"{problem} [{function}, {loc}]")
