"""Def-use facts of a function, found in one walk: where each value is defined, where it is used, and in which operand slot.

``lower`` asserts them as relations that rules read, and the recognisers of source patterns ask them; nothing here decides
anything. Dimensions written inside types are not uses: they name scalars, never tiles.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ir_bridge.ir.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Const,
    DictExpr,
    Expr,
    For,
    Function,
    If,
    Index,
    ListExpr,
    Return,
    Scope,
    Stmt,
    Symbol,
    Unary,
    Var,
    Yield,
)
from ir_bridge.ir.ops_registry import lookup
from ir_bridge.ir.ops_types import type_of
from ir_bridge.ir.types import ScalarType

#: The slot of a use inside a larger expression: an offset, arithmetic, a loop bound, a keyword, an attribute.
INSIDE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One statement list of a function, compared by identity.

    ``owner`` is the For, If or Scope it belongs to (None: the function's body), which stands at ``position`` of ``parent``.
    ``loops`` are the loops around the statements of this list, outermost first.
    """

    statements: Block
    owner: Stmt | None = None
    parent: Site | None = None
    position: int = 0
    loops: tuple[For, ...] = ()

    def within(self, other: Site) -> bool:
        """Is this list ``other``, or nested in it?"""
        site: Site | None = self
        while site is not None:
            if site is other:
                return True
            site = site.parent
        return False


class Origin(enum.Enum):
    """What makes a value."""

    PARAM = "param"
    ASSIGN = "assign"
    COUNTER = "counter"
    CARRIED = "carried"
    LOOP_RESULT = "loop_result"
    BRANCH_RESULT = "branch_result"
    SCOPE_NAME = "scope_name"


class Definition(NamedTuple):
    """Where a value comes from: its statement, at ``position`` of ``site``.

    Parameters have no statement and stand at -1 of the body; counters and carried values have their loop, at -1 of its body.
    """

    origin: Origin
    stmt: Stmt | None
    site: Site
    position: int


class Use(NamedTuple):
    """One use: the statement that reads the value, at ``position`` of ``site``, and the operand slot.

    The slot is the index among a call's positional arguments, the values of a yield or return, or a loop's ``inits``, where the
    value stands there by itself; :data:`INSIDE` otherwise.
    """

    stmt: Stmt
    site: Site
    position: int
    slot: int

    @property
    def call(self) -> Call | None:
        """The call whose operand the value is, or None when it is used in another way."""
        stmt = self.stmt
        if self.slot != INSIDE and isinstance(stmt, Assign) and isinstance(stmt.value, Call):
            return stmt.value
        return None


@dataclass(slots=True)
class Facts:
    """The facts of one function. ``sites`` lists its statement lists, outer before inner; a value without uses has no entry in
    ``uses``."""

    function: Function
    body: Site
    sites: list[Site] = field(default_factory=list)
    definitions: dict[Var, Definition] = field(default_factory=dict)
    uses: dict[Var, list[Use]] = field(default_factory=dict)

    def uses_of(self, value: Var) -> Sequence[Use]:
        """Every use, in program order."""
        return self.uses.get(value, ())

    def only_use(self, value: Var) -> Use | None:
        """The use of a value that is used exactly once."""
        uses = self.uses.get(value)
        return uses[0] if uses is not None and len(uses) == 1 else None

    def call_of(self, value: Expr) -> Call | None:
        """The call that makes a value, or None."""
        found = self.definitions.get(value) if isinstance(value, Var) else None
        if found is not None and isinstance(found.stmt, Assign) and isinstance(found.stmt.value, Call):
            return found.stmt.value
        return None

    def assigns(self) -> Iterator[tuple[Site, int, Assign]]:
        """Every assignment with its place, lists in the order of ``sites``."""
        for site in self.sites:
            for position, stmt in enumerate(site.statements):
                if isinstance(stmt, Assign):
                    yield site, position, stmt


def facts_of(function: Function) -> Facts:
    """The facts of ``function``; linear in its size."""
    body = Site(function.body)
    facts = Facts(function, body)
    for p in function.params:
        facts.definitions[p.var] = Definition(Origin.PARAM, None, body, -1)
    _Walk(facts).site(body)
    return facts


class _Walk:
    """One pass over a function that fills its :class:`Facts`."""

    def __init__(self, facts: Facts) -> None:
        self.sites = facts.sites
        self.definitions = facts.definitions
        self.uses = facts.uses

    def site(self, site: Site) -> None:
        self.sites.append(site)
        for position, stmt in enumerate(site.statements):
            if isinstance(stmt, Assign):
                self.assign(stmt, site, position)
            elif isinstance(stmt, For):
                self.loop(stmt, site, position)
            elif isinstance(stmt, If):
                self.branch(stmt, site, position)
            elif isinstance(stmt, (Yield, Return)):
                self.operands(stmt.values, stmt, site, position)
            elif isinstance(stmt, Scope):
                self.scope(stmt, site, position)

    def assign(self, stmt: Assign, site: Site, position: int) -> None:
        value = stmt.value
        if type(value) is Call:
            self.operands(value.args, stmt, site, position)
            for _, e in value.kwargs:
                self.inside(e, stmt, site, position)
            for _, e in value.attrs:
                self.inside(e, stmt, site, position)
        else:
            self.operands((value,), stmt, site, position)
        for target in stmt.targets:
            self.definitions[target] = Definition(Origin.ASSIGN, stmt, site, position)

    def loop(self, stmt: For, site: Site, position: int) -> None:
        for e in (stmt.start, stmt.stop, stmt.step):
            self.inside(e, stmt, site, position)
        self.operands(stmt.inits, stmt, site, position)
        for _, e in (*stmt.attrs, *stmt.options):
            self.inside(e, stmt, site, position)
        body = Site(stmt.body, stmt, site, position, (*site.loops, stmt))
        if stmt.counter is not None:
            self.definitions[stmt.counter] = Definition(Origin.COUNTER, stmt, body, -1)
        for v in stmt.carried:
            self.definitions[v] = Definition(Origin.CARRIED, stmt, body, -1)
        if stmt.cond is not None:  # a while condition reads the carried values
            self.inside(stmt.cond, stmt, site, position)
        self.site(body)
        for v in stmt.results:
            self.definitions[v] = Definition(Origin.LOOP_RESULT, stmt, site, position)

    def branch(self, stmt: If, site: Site, position: int) -> None:
        self.inside(stmt.cond, stmt, site, position)
        self.site(Site(stmt.then, stmt, site, position, site.loops))
        if stmt.orelse is not None:
            self.site(Site(stmt.orelse, stmt, site, position, site.loops))
        for v in stmt.results:
            self.definitions[v] = Definition(Origin.BRANCH_RESULT, stmt, site, position)

    def scope(self, stmt: Scope, site: Site, position: int) -> None:
        self.inside(stmt.header, stmt, site, position)
        inner = Site(stmt.body, stmt, site, position, site.loops)
        if stmt.name is not None:
            self.definitions[stmt.name] = Definition(Origin.SCOPE_NAME, stmt, inner, -1)
        self.site(inner)

    def operands(self, values: tuple[Expr, ...], stmt: Stmt, site: Site, position: int) -> None:
        uses = self.uses
        for slot, e in enumerate(values):
            if type(e) is Var:
                found = uses.get(e)
                if found is None:
                    uses[e] = [Use(stmt, site, position, slot)]
                else:
                    found.append(Use(stmt, site, position, slot))
            elif type(e) is not Const:
                self.inside(e, stmt, site, position)

    def inside(self, e: Expr, stmt: Stmt, site: Site, position: int) -> None:
        kind = type(e)
        if kind is Const or kind is Symbol:
            return
        if kind is Var:
            self.uses.setdefault(e, []).append(Use(stmt, site, position, INSIDE))  # type: ignore[arg-type]
        else:
            for part in parts_of(e):
                self.inside(part, stmt, site, position)


def parts_of(e: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside an expression, left to right."""
    if isinstance(e, ListExpr):
        return e.items
    if isinstance(e, Binary):
        return (e.left, e.right)
    if isinstance(e, Unary):
        return (e.operand,)
    if isinstance(e, Call):
        return (*e.args, *[v for _, v in e.kwargs], *[v for _, v in e.attrs])
    if isinstance(e, Index):
        return (e.base, *e.index)
    if isinstance(e, DictExpr):
        return tuple([x for item in e.items for x in item])
    return ()


def is_scalar_arithmetic(s: Stmt) -> bool:
    """A scalar computed from scalars: no memory, no effect."""
    return isinstance(s, Assign) and len(s.targets) == 1 and isinstance(s.targets[0].type, ScalarType) and _arithmetic(s.value)


def _arithmetic(e: Expr) -> bool:
    if isinstance(e, Var):
        return isinstance(e.type, ScalarType)
    if isinstance(e, (Const, Symbol)):
        return True
    if isinstance(e, Binary):
        return _arithmetic(e.left) and _arithmetic(e.right)
    if isinstance(e, Unary):
        return _arithmetic(e.operand)
    builtin = isinstance(e, Call) and "." not in e.op and isinstance(type_of(e), ScalarType)
    return builtin and all(_arithmetic(a) for a in e.args)  # type: ignore[union-attr]


# -- which values are states of one memory -----------------------------------------------------------------------------


def memory_of(value: Var, facts: Facts) -> Var | None:
    """The value that first stood for the memory ``value`` lies in: stores, updates in place, views and loops are followed back.

    Different parameters are different memories. None when it cannot be told (results of opaque calls, arms that differ).
    """
    while True:
        found = facts.definitions.get(value)
        if found is None or found.origin is Origin.PARAM:
            return value
        if found.origin is Origin.BRANCH_RESULT:
            return _memory_of_arms(value, found.stmt, facts)
        before = _state_before(value, found)
        if before is value or not isinstance(before, Var):
            return before
        value = before


def may_share_memory(a: Var, b: Var, facts: Facts) -> bool:
    """Could the two values be states of one memory?"""
    one, other = memory_of(a, facts), memory_of(b, facts)
    return one is None or other is None or one is other


def _state_before(value: Var, found: Definition) -> Var | None:
    """The value whose memory ``value`` continues: itself where it is new, None where that is not known."""
    stmt = found.stmt
    if isinstance(stmt, For):
        values = stmt.carried if found.origin is Origin.CARRIED else stmt.results
        return _var_or_none(stmt.inits[values.index(value)]) if value in values else value
    if not isinstance(stmt, Assign) or not isinstance(stmt.value, Call):
        return None
    op = lookup(stmt.value.op)
    if op is None:
        return None
    effects = op.effects
    operand = effects.in_place if effects.in_place is not None else effects.view
    if operand is None and effects.writes:
        operand = effects.writes[0]
    return value if operand is None else _var_or_none(stmt.value.args[operand])


def _memory_of_arms(value: Var, stmt: Stmt | None, facts: Facts) -> Var | None:
    assert isinstance(stmt, If)
    i = stmt.results.index(value)
    ends = [block[-1] for block in (stmt.then, stmt.orelse or ()) if block]
    handed_on = [_var_or_none(end.values[i]) for end in ends if isinstance(end, Yield)]
    memories = [memory_of(v, facts) if v is not None else None for v in handed_on]
    return memories[0] if len(memories) == 2 and memories[0] is memories[1] else None


def _var_or_none(e: Expr) -> Var | None:
    return e if isinstance(e, Var) else None
