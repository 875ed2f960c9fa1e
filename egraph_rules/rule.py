"""Rules as data: what they match, the named conditions that guard them, what they add, and the equation they state.

A rule family is one file: a module docstring with its idea and its equation, and one function under :func:`family` that
yields :class:`Rule` objects. The engine renders them to egglog; ``why_not`` reads their conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from egraph_rules.expr import Condition, Int, Integer, Literal, Variable, literal


@dataclass(frozen=True, slots=True)
class Text:
    """A string constant of the e-graph language: a space, a kind, a planner."""

    value: str

    def render(self) -> str:
        return f'"{self.value}"'


#: An argument of a pattern or term: an i64 expression, a string, a nested term, or None for "anything".
Argument = Union[Integer, int, str, "Term", Text, None]


def render_argument(x: Argument) -> str:
    if x is None:
        return "_"
    if isinstance(x, str):
        return Text(x).render()
    return literal(x).render() if isinstance(x, int) else x.render()


@dataclass(frozen=True, slots=True)
class Term:
    """``(head arguments…)``: a fact to match, a term to build."""

    head: str
    arguments: tuple[Argument, ...]

    def render(self) -> str:
        return f"({self.head} {' '.join(map(render_argument, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Merge:
    """The action ``union left right``: the two terms are one. ``placed``: the right one is put into the left one's class."""

    left: Term
    right: Term
    placed: bool = False

    def render(self) -> str:
        left, right = self.left.render(), self.right.render()
        return f"(set {right} {left})" if self.placed else f"(union {left} {right})"


def union(left: Term, right: Term) -> Merge:
    """State that two terms are equal."""
    return Merge(left, right)


def member(klass: Term, node: Term) -> Merge:
    """Put a node of a ``placed`` table into a class: as :func:`union`, for nodes that never are in a class of their own."""
    return Merge(klass, node, placed=True)


Action = Union[Term, Merge]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite: where ``reads`` match and ``when`` holds, do ``then``.

    ``statement`` is the one-line equation; ``stage`` the ruleset it runs in (see language.STAGES).
    """

    name: str
    statement: str
    stage: str
    reads: tuple[Term, ...]
    when: tuple[Condition, ...]
    then: tuple[Action, ...]

    def render(self, ruleset: str = "") -> str:
        """The rule in egglog, in the ruleset of its stage unless another is given. A variable that is mentioned once constrains
        nothing and is written ``_``: joins stay narrow."""
        mentions = Counter(variables_of(self))
        alone = {name for name, count in mentions.items() if count == 1}
        body = " ".join([*(_without(x, alone).render() for x in self.reads), *(c.render() for c in self.when)])
        head = " ".join(a.render() for a in self.then)
        return f'(rule ({body}) ({head}) :ruleset {ruleset or self.stage} :name "{self.name}")'


def variables_of(r: Rule) -> Iterator[str]:
    """Names of the variables a rule mentions, with repeats."""
    for part in (*r.reads, *r.when, *r.then):
        yield from _variables(part)


def _variables(part: Term | Condition | Merge) -> Iterator[str]:
    """Names of the variables in a pattern, condition or action, with repeats."""
    if isinstance(part, Condition):
        yield from part.test.left.variables()
        yield from part.test.right.variables()
    elif isinstance(part, Merge):
        yield from _variables(part.left)
        yield from _variables(part.right)
    else:
        for x in part.arguments:
            if isinstance(x, Term):
                yield from _variables(x)
            elif isinstance(x, Integer):
                yield from x.variables()


def _without(pattern: Term, names: set[str]) -> Term:
    """The pattern with these variables matching anything."""
    slots = [None if isinstance(x, Variable) and x.name in names else x for x in pattern.arguments]
    return Term(pattern.head, tuple(slots))


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A named group of rules that is switched on and off together. Compared by identity."""

    name: str
    statement: str
    rules: tuple[Rule, ...]
    module: str = ""


@dataclass(frozen=True, slots=True)
class Sort_:
    """An equality sort of the language."""

    name: str

    def declare(self) -> str:
        return f"(sort {self.name})"


@dataclass(frozen=True, slots=True)
class Table:
    """A relation or constructor of the language, with named columns.

    Calling it makes a :class:`Term`: positionally, or by column name, the columns left out matching anything.
    ``sort`` is None for a relation, else the sort that the constructor builds.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    sort: str | None = None
    about: str = ""
    placed: bool = False

    def __call__(self, *values: Argument, **named: Argument) -> Term:
        if not named:
            if len(values) != len(self.columns):
                raise TypeError(f"{self.name} takes {len(self.columns)} columns: {', '.join(c for c, _ in self.columns)}")
            return Term(self.name, values)
        slots: dict[str, Argument] = {c: None for c, _ in self.columns}
        slots.update(zip(slots, values, strict=False))
        for column, value in named.items():
            if column not in slots:
                raise TypeError(f"{self.name} has no column {column!r}; it has {', '.join(slots)}")
            slots[column] = value
        return Term(self.name, tuple(slots.values()))

    def declare(self) -> str:
        types = " ".join(t for _, t in self.columns)
        if self.sort is None:
            return f"(relation {self.name} ({types}))"
        if self.placed:
            return f"(function {self.name} ({types}) {self.sort} :merge old)"
        return f"(constructor {self.name} ({types}) {self.sort})"


class Columns:
    """A table's columns as rule variables: ``P = Columns(problem)`` gives ``P.M``, ``P.l0a``, …"""

    __slots__ = ("_table", "_variables")

    def __init__(self, table: Table) -> None:
        self._table = table
        self._variables = {name: Variable(name) for name, _ in table.columns}

    def __getattr__(self, name: str) -> Variable:
        try:
            return self._variables[name]
        except KeyError:
            raise AttributeError(f"{self._table.name} has no column {name!r}") from None

    def row(self) -> Term:
        """The pattern that binds every column of the table."""
        return Term(self._table.name, tuple(self._variables.values()))


def table(name: str, columns: str, sort: str | None = None, about: str = "", *, placed: bool = False) -> Table:
    """Declare a table from a column list such as ``"p m n space:String place:Place"`` (i64 where no type is given).

    A constructor's node makes a class of its own until it is united with another; a ``placed`` one is put into its class by
    :func:`member` when it is made, which saves thousands of unions.
    """
    parsed = (c.partition(":") for c in columns.split())
    return Table(name, tuple((c, t or "i64") for c, _, t in parsed), sort, about, placed)


def variables(names: str) -> tuple[Variable, ...]:
    """Rule variables by name: ``m, n, k = variables("m n k")``."""
    return tuple(map(Variable, names.split()))


RuleMaker = Callable[[], Iterator[Rule]]


def family(name: str) -> Callable[[RuleMaker], Family]:
    """Collect the rules a function yields under ``name``; its docstring's first line is the family's statement."""

    def collect(make: RuleMaker) -> Family:
        statement = (make.__doc__ or name).strip().splitlines()[0]
        return Family(name, statement, tuple(make()), make.__module__)

    return collect


def rule(
    name: str, statement: str, *, stage: str, reads: Iterable[Term], when: Iterable[Condition] = (), then: Iterable[Action]
) -> Rule:
    """A rule from its parts; see :class:`Rule`."""
    return Rule(name, statement, stage, tuple(reads), tuple(when), tuple(then))


__all__ = [
    "Action",
    "Argument",
    "Columns",
    "Family",
    "Int",
    "Literal",
    "Merge",
    "Rule",
    "Sort_",
    "Table",
    "Term",
    "Text",
    "family",
    "member",
    "rule",
    "table",
    "union",
    "variables",
    "variables_of",
]
