"""Which names loops and branches rebind, and whether anybody looks at them: what SSA must carry.

Hand-written programs rebind names inside loops and branches. A rebound name is carried by a loop when the next trip or what
follows reads it, and is the result of a branch when what follows reads it. In a dump, which is SSA already, no name of a body
is defined outside of it, so nothing here runs beyond a look at the assigned names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

#: Names in the order they were met.
NameSet = dict[str, None]


def yielded(stmt: ast.stmt) -> ast.Call | None:
    """The ``pl.yield_(...)`` call a statement consists of."""
    value = getattr(stmt, "value", None)
    if type(value) is ast.Call:
        func = value.func
        if type(func) is ast.Attribute and func.attr == "yield_" and type(func.value) is ast.Name and func.value.id == "pl":
            return value
    return None


def target_names(stmt: ast.stmt) -> list[str]:
    """The names a simple statement binds; ``x[a:b] = v`` rebinds x, ``x[i] = v`` writes into it."""
    if type(stmt) is ast.Assign:
        targets: list[ast.expr] = stmt.targets
    elif isinstance(stmt, (ast.AnnAssign, ast.AugAssign)):
        targets = [stmt.target]
    else:
        return []
    found: list[str] = []
    for t in targets:
        for x in t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t]:
            if isinstance(x, ast.Subscript) and any(isinstance(part, ast.Slice) for part in ast.walk(x.slice)):
                x = x.value
            if isinstance(x, ast.Name):
                found.append(x.id)
    return found


def is_region(stmt: ast.stmt) -> bool:
    """Is this a block that runs once and whose names are visible after it: ``with``, or ``for lane in pl.split_aiv(…)``?"""
    if isinstance(stmt, ast.For):
        func = stmt.iter.func if isinstance(stmt.iter, ast.Call) else None
        return isinstance(func, ast.Attribute) and func.attr == "split_aiv"
    return isinstance(stmt, ast.With)


def bound_by_header(stmt: ast.stmt) -> list[str]:
    """The names a loop header binds anew on each trip: the counter and the carried values."""
    if not isinstance(stmt, ast.For):
        return []
    return [n.id for n in ast.walk(stmt.target) if isinstance(n, ast.Name)]


def _inner(stmt: ast.stmt) -> list[Sequence[ast.stmt]]:
    if isinstance(stmt, ast.If):
        return [stmt.body, stmt.orelse]
    return [stmt.body] if isinstance(stmt, (ast.For, ast.While, ast.With)) else []


def _names_read(nodes: Iterable[ast.AST | None]) -> NameSet:
    found: NameSet = {}
    for node in nodes:
        if node is not None:
            for n in ast.walk(node):
                if type(n) is ast.Name and type(n.ctx) is ast.Load:
                    found[n.id] = None
    return found


def _read_by(stmt: ast.stmt) -> NameSet:
    """The names a statement reads itself, not in its inner blocks."""
    if isinstance(stmt, ast.For):
        return _names_read([stmt.iter])
    if isinstance(stmt, (ast.If, ast.While)):
        return _names_read([stmt.test])
    if isinstance(stmt, ast.With):
        return _names_read([item.context_expr for item in stmt.items])
    found = _names_read([stmt])
    if isinstance(stmt, ast.AugAssign) and isinstance(stmt.target, ast.Name):
        found[stmt.target.id] = None
    return found


class WholeTextNeeded(Exception):
    """A function read in pieces rebinds names after all: it must be read whole."""


class Rebinds:
    """The names that matter at each loop and branch of one function, worked out when first asked for."""

    def __init__(self, body: Sequence[ast.stmt] | None) -> None:
        """``body`` is the function's whole body; None when only pieces of it are at hand."""
        self._body = body
        self._assigned: dict[int, NameSet] = {}
        self._exposed: dict[int, tuple[NameSet, set[str]]] = {}
        self._live_after: dict[int, set[str]] | None = None

    # -- assigned: what a compound statement binds inside, except what it yields -----------------------------------------------

    def assigned(self, stmt: ast.stmt) -> NameSet:
        """The names a loop or branch rebinds inside, in order; its own yields are its results and not among them."""
        found = self._assigned.get(id(stmt))
        if found is None:
            found = {}
            for block in _inner(stmt):
                found.update(self._assigned_in(block, is_region(stmt)))
            self._assigned[id(stmt)] = found
        return found

    def assigned_in_arms(self, stmt: ast.If) -> NameSet:
        """The names both arms of a branch bind."""
        other = self._assigned_in(stmt.orelse, False)
        return {n: None for n in self._assigned_in(stmt.body, False) if n in other}

    def _assigned_in(self, block: Sequence[ast.stmt], with_yields: bool) -> NameSet:
        found: NameSet = {}
        for stmt in block:
            if isinstance(stmt, (ast.For, ast.If, ast.While, ast.With)):
                found.update(self.assigned(stmt))
                found.update(self.results(stmt))
            elif with_yields or yielded(stmt) is None:
                found.update(dict.fromkeys(target_names(stmt)))
        return found

    def results(self, stmt: ast.stmt) -> NameSet:
        """The names a compound statement defines by its yields."""
        blocks = _inner(stmt)
        if is_region(stmt) or not blocks or not blocks[0]:
            return {}
        last = blocks[0][-1]
        return dict.fromkeys(target_names(last)) if yielded(last) is not None else {}

    # -- liveness ------------------------------------------------------------------------------------------------------------

    def exposed(self, stmt: ast.stmt) -> NameSet:
        """The names a loop's body (or condition) reads from outside or from the trip before."""
        found, _ = self._exposed_in(stmt.body)  # type: ignore[attr-defined]
        bound = set(bound_by_header(stmt))
        names = {n: None for n in found if n not in bound}
        return {**_names_read([stmt.test]), **names} if isinstance(stmt, ast.While) else names

    def _exposed_in(self, block: Sequence[ast.stmt]) -> tuple[NameSet, set[str]]:
        """(names read before they are bound, names bound on every path) of a block."""
        if not block:
            return {}, set()
        key = id(block[0])
        if key in self._exposed:
            return self._exposed[key]
        read: NameSet = {}
        bound: set[str] = set()
        for stmt in block:
            read.update({n: None for n in _read_by(stmt) if n not in bound})
            if isinstance(stmt, ast.If):
                then, then_bound = self._exposed_in(stmt.body)
                other, other_bound = self._exposed_in(stmt.orelse)
                read.update({n: None for n in (*then, *other) if n not in bound})
                bound |= then_bound & other_bound
            elif isinstance(stmt, (ast.For, ast.While)) and not is_region(stmt):
                read.update({n: None for n in self.exposed(stmt) if n not in bound})
            elif isinstance(stmt, (ast.For, ast.With)):
                inner, inner_bound = self._exposed_in(stmt.body)
                read.update({n: None for n in inner if n not in bound})
                bound |= inner_bound
            bound.update(target_names(stmt))
            bound.update(self.results(stmt))
        self._exposed[key] = (read, bound)
        return read, bound

    def live_after(self, stmt: ast.stmt) -> set[str]:
        """The names a loop or branch rebinds that something after it (a later trip of an outer loop included) may read."""
        if self._live_after is None:
            if self._body is None:
                raise WholeTextNeeded
            self._live_after = {}
            self._backward(self._body, set(), self._live_after)
        return self._live_after[id(stmt)]

    def _backward(self, block: Sequence[ast.stmt], live: set[str], table: dict[int, set[str]]) -> set[str]:
        """The names alive before a block, given those alive after it (a set of the callee's own, which comes back changed)."""
        for stmt in reversed(block):
            if isinstance(stmt, (ast.For, ast.If, ast.While)):
                table[id(stmt)] = {n for n in self.assigned(stmt) if n in live}
                live.difference_update(self.results(stmt))
            if isinstance(stmt, ast.If):
                other = self._backward(stmt.orelse, set(live), table)
                live = self._backward(stmt.body, live, table)
                live |= other
            elif isinstance(stmt, (ast.For, ast.While)) and not is_region(stmt):
                live.update(self.exposed(stmt))
                self._backward(stmt.body, set(live), table)
            elif isinstance(stmt, (ast.For, ast.With)):
                live = self._backward(stmt.body, live, table)
            else:
                live.difference_update(target_names(stmt))
            live.update(_read_by(stmt))
        return live
