"""What conversion refuses."""

from __future__ import annotations

from cost.errors import TilesatError
from ir_bridge.ir.nodes import NOWHERE, Loc


class ConvertError(TilesatError):
    """A tensor program that can't become a tile program. The message names the place and the repair."""


def refuse(function: str, what: str, repair: str, loc: Loc = NOWHERE) -> ConvertError:
    """The error for something in ``function``: what is wrong, where, and what to write instead."""
    where = f" at {loc}" if loc.line else ""
    return ConvertError(f"{function}: {what}{where}; {repair}")
