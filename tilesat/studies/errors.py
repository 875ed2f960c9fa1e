"""What studies refuse."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from cost.errors import TilesatError


class StudyError(TilesatError):
    """A study that cannot be run or resumed as asked; the message says what is in the way and what helps."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?``, or nothing where no known name is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""
