"""A program as the e-graph sees it: facts for the rules, and what extraction needs to read its answer back.

`lower` makes it, the engine runs on ``facts``, extraction walks ``products`` in statement order. Values are SSA numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from egraph_rules.rule import Table

NO_VALUE = -1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a statement is left as it stands before any rule looks at it: a PH-AT code and the reason, with its numbers."""

    code: str
    reason: str


@dataclass(slots=True)
class ProductSite:
    """One matmul, matmul_acc or matmul_bias statement.

    ``v`` is its result, ``left`` and ``right`` its matrix operands, ``store`` and ``cast`` the results of the one plain store or
    the one cast that uses it (or NO_VALUE), all SSA numbers; ``problem`` the index of its problem (NO_VALUE: it has none, see
    ``refusal``). ``waits``: other statements stand between it and its store. ``bias`` is the space of its bias.
    ``one_window``: its whole output would be one accumulator of whole fractals, as a folded cast needs it. ``fold_refusal`` says
    why its cast stays on the Vector unit all the same, ``store_refusal`` why no grid may take its store's place, ``bias_refusal``
    why its bias cannot be loaded window by window.
    """

    v: int
    op: str
    left: int
    right: int
    problem: int
    store: int = NO_VALUE
    cast: int = NO_VALUE
    waits: bool = False
    bias: str | None = None
    refusal: Refusal | None = None
    one_window: bool = True
    fold_refusal: Refusal | None = None
    store_refusal: str | None = None
    bias_refusal: str | None = None


@dataclass(slots=True)
class ChainSite:
    """One canonical split-K chain: its loop's result, its store's result, its problem, and its products' results."""

    v: int
    store: int
    problem: int
    products: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MatPoint:
    """One point of the program: bytes of Mat left free by the tiles the source keeps there, and the values whose scratch would be
    alive then (a product's or its cast's SSA number)."""

    free: int
    scratches: frozenset[int]


@dataclass(slots=True)
class ProgramFacts:
    """``problems`` by index; ``facts`` by table name; the sites in statement order; ``sizes`` of values in bytes."""

    problems: list[Any] = field(default_factory=list)
    facts: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    products: list[ProductSite] = field(default_factory=list)
    chains: list[ChainSite] = field(default_factory=list)
    loops: list[int] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)

    def state(self, table: Table, *values: Any) -> None:
        """Assert one fact."""
        self.facts[table.name].append(values)

    def state_all(self, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
        self.facts[table.name].extend(rows)
