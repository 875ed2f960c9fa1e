"""How long a run may last, and what it tells afterwards: every rule accounted for, and what ended it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from cost.errors import TilesatError


class StopReason(enum.Enum):
    """Why a run ended."""

    SATURATED = "saturated"
    SECONDS = "time limit"
    NODES = "node limit"
    ITERATIONS = "iteration limit"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run: wall seconds, rows of the e-graph (nodes and facts), iterations of one stage."""

    seconds: float = 10.0
    nodes: int = 200_000
    iterations: int = 10_000

    def __post_init__(self) -> None:
        for name in ("seconds", "nodes", "iterations"):
            if not getattr(self, name) >= 0:  # not a number is no limit either
                raise TilesatError(f"limit {name} = {getattr(self, name)} is no limit; give 0 or more")


@dataclass(frozen=True, slots=True)
class RuleRow:
    """What one rule did: matches, seconds of search and application, and rows added to the e-graph.

    ``nodes`` is None unless rules were run one by one (see :class:`~egraph_rules.engine.Engine`); below 0 where rows became one
    that were several.
    """

    name: str
    family: str
    statement: str
    matches: int
    seconds: float
    nodes: int | None = None


@dataclass(slots=True)
class Report:
    """What a run did: seconds per phase, iterations, rows and e-classes, a row for every rule (zero rows too), why it ended.

    ``nodes`` are all rows at the end; ``given`` of them were there before any rule. ``added`` by rule, where that was counted.
    """

    stop: StopReason = StopReason.SATURATED
    iterations: int = 0
    nodes: int = 0
    given: int = 0
    classes: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    matches: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    added: dict[str, int] | None = None
    families: tuple[tuple[str, str, str], ...] = ()

    @property
    def rules(self) -> tuple[RuleRow, ...]:
        """A row for every rule of the rule set, in catalogue order."""
        added = self.added
        return tuple(
            RuleRow(
                *(name, family, statement, self.matches.get(name, 0), self.seconds.get(name, 0.0)),
                None if added is None else added.get(name, 0),
            )
            for family, name, statement in self.families
        )

    def costliest(self, count: int = 3) -> tuple[RuleRow, ...]:
        """The rules that took most time, dearest first (name breaks ties)."""
        return tuple(sorted(self.rules, key=lambda r: (-r.seconds, r.name))[:count])
