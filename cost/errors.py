"""The error family of tilesat: every refusal derives from :class:`TilesatError`; and the nearest name, for those that name one.

It lives in the lowest room so that each room can raise it; users reach it as ``tilesat.TilesatError``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TilesatError(Exception):
    """Anything tilesat refuses. The message names the place and, where there is one, the repair."""


class TargetError(TilesatError):
    """An unknown target, or a hardware description that does not hold together."""


class CostModelError(TilesatError):
    """A cost model that is unknown, or that priced a candidate as no number."""


class Rejected(TilesatError):
    """A problem with no legal tile on the target; the message is the chooser's reason."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?``, or nothing where no known name is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""
