"""What a corpus is made of: entries, each a program, and the problem it stands for where it stands for one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cost.errors import TilesatError
from cost.problem import Problem

if TYPE_CHECKING:
    from cost.hardware import Target
    from ir_bridge.ir.nodes import Program


class CorpusError(TilesatError):
    """A suite that is unknown, or an entry that cannot be read; the message names it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One program of a corpus, as PyPTO text.

    ``name`` is unique in its corpus. ``source`` says where it comes from. ``problem`` is set where the entry is a shape: one
    product, whose program is ``text``. ``error`` is set where the entry could not be read: asking for its program raises it.
    """

    name: str
    source: str
    text: str = ""
    problem: Problem | None = None
    error: str = ""

    def program(self) -> Program:
        """The program. Raises :class:`CorpusError` for an entry that could not be read, ParseError for a text that is none."""
        if self.error:
            raise CorpusError(self.error if self.name in self.error else f"{self.name}: {self.error}")
        from ir_bridge.ir.parser import parse

        return parse(self.text, self.name)

    def problems(self, target: Target, planner: str = "dsa_rp") -> tuple[Problem, ...]:
        """The distinct products of the entry as problems of one core, in statement order."""
        if self.problem is not None and not self.error:
            return (self.problem,)
        from ir_bridge.convert import convert, needs_conversion
        from ir_bridge.lower import lower

        program = self.program()
        tiles = convert(program, target) if needs_conversion(program) else program
        lowered = lower(tiles, target, planner, double_buffer_c=True)
        return tuple(dict.fromkeys(lowered.facts.problems))


@dataclass(frozen=True, slots=True)
class Corpus:
    """A named sequence of entries."""

    name: str
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for e in self.entries:
            if e.name in seen:
                raise CorpusError(f"corpus {self.name!r} has two entries called {e.name!r}; rename one")
            seen.add(e.name)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def digest(self) -> str:
        """A fingerprint of all entries: the same for the same programs under the same names."""
        found = hashlib.sha256()
        for e in self.entries:
            found.update(repr((e.name, e.text, str(e.problem), e.error)).encode())
        return found.hexdigest()[:16]
