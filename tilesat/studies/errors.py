"""What studies refuse."""

from __future__ import annotations

from cost.errors import TilesatError


class StudyError(TilesatError):
    """A study that cannot be run or resumed as asked; the message says what is in the way and what helps."""
