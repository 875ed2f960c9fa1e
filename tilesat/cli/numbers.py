"""Commands whose arguments are numbers: ``-64`` is one of them (and refused as one), not an option."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand


class Numbers(TyperCommand):
    """A command that takes what looks like a negative number as an argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(re.fullmatch(r"-\d+", a) for a in args):
            ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)
