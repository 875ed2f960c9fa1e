"""Core regions of a function as functions of their own, so that they can be converted.

Authors write ``with pl.at(level=pl.Level.CORE_GROUP):`` or ``for i in pl.spmd(n):`` around tensor work in a function that
otherwise only calls others. Each such region becomes an InCore function: what it uses from outside are its parameters, what is
used after it are its results. (PyPTO does this before ConvertTensorToTileOps, which demands it.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ir_bridge.convert.copying import with_own_values
from ir_bridge.convert.registry import conversion_of
from ir_bridge.ir.nodes import (
    CORE_KINDS,
    Assign,
    Block,
    Call,
    Const,
    Expr,
    For,
    Function,
    If,
    LoopKind,
    Param,
    Program,
    Return,
    Scope,
    Stmt,
    Symbol,
    Var,
    Yield,
    defined,
    expressions_of,
    subexpressions,
    vars_in,
    walk,
)
from ir_bridge.ir.types import TensorType, TileType, Type

_LEVELS = ("pl.Level.CORE_GROUP", "pl.Level.CORE")


def is_core_region(s: Stmt) -> bool:
    """Is this core code: ``with pl.at(level=pl.Level.CORE_GROUP)``, ``with pl.incore()``, a ``pl.spmd`` loop of tensor work?"""
    if isinstance(s, Scope):
        header = s.header
        if not isinstance(header, Call):
            return False
        level = header.kwarg("level")
        return header.op == "incore" or (header.op == "at" and isinstance(level, Symbol) and level.text in _LEVELS)
    return isinstance(s, For) and s.kind is LoopKind.SPMD and computes(s.body)


def computes(block: Block) -> bool:
    """Does a block compute on tensors itself (and not only call functions that do, or allocate)?"""
    for s in walk(block):
        for e in expressions_of(s):
            for x in subexpressions(e):
                if isinstance(x, Call) and x.op != "tensor.create":
                    c = conversion_of(x.op)
                    if c is not None and not c.stays:
                        return True
    return False


def has_core_regions(f: Function) -> bool:
    """Does a function that is no core function hold core regions?"""
    return f.kind not in CORE_KINDS and any(is_core_region(s) for s in walk(f.body))


def outline(program: Program) -> Program:
    """The program with every core region a function of its own, placed before the function it came from."""
    names = {f.name for f in program.functions}
    functions: list[Function] = []
    for f in program.functions:
        if has_core_regions(f):
            functions.extend(_Outliner(f, names, frozenset(program.dynamic)).outlined())
        else:
            functions.append(f)
    return replace(program, functions=tuple(functions))


class _Outliner:
    """Takes the core regions out of one function."""

    def __init__(self, f: Function, names: set[str], shared: frozenset[Var]) -> None:
        self.f = f
        self.names = names
        self.shared = shared
        self.made: list[Function] = []

    def outlined(self) -> list[Function]:
        """The new functions, then what is left of the old one."""
        body = self._block(self.f.body, frozenset())
        return [*self.made, replace(self.f, body=body)]

    def _block(self, block: Block, after: frozenset[Var]) -> Block:
        """A block whose values in ``after`` are used outside of it."""
        out: list[Stmt] = []
        needed: list[frozenset[Var]] = [after]
        for s in reversed(block):
            needed.append(needed[-1] | frozenset(_used((s,))))
        needed.reverse()
        for i, s in enumerate(block):
            live = needed[i + 1]
            if isinstance(s, Scope) and is_core_region(s):
                out.append(self._region(s.body, live, s))
            elif isinstance(s, For) and is_core_region(s):
                out.append(self._spmd(s))
            elif isinstance(s, (For, Scope)):
                out.append(replace(s, body=self._block(s.body, live)))
            elif isinstance(s, If):
                orelse = None if s.orelse is None else self._block(s.orelse, live)
                out.append(replace(s, then=self._block(s.then, live), orelse=orelse))
            else:
                out.append(s)
        return tuple(out)

    def _spmd(self, s: For) -> Stmt:
        """The body of an SPMD loop as a function: each trip calls it."""
        tail = s.body[-1:] if s.body and isinstance(s.body[-1], Yield) else ()
        work = s.body[: len(s.body) - len(tail)]
        call = self._region(work, frozenset(_used(tail)), s)
        return replace(s, body=(call, *tail))

    def _region(self, body: Block, live: frozenset[Var], s: Scope | For) -> Stmt:
        """A call of a new function with this body."""
        inside = set(_definitions(body))
        params = [v for v in _used(body) if v not in inside and v not in self.shared]
        results = [v for v in _definitions(body) if v in live]
        name = self._name(s)
        returns: tuple[Type, ...] = tuple([v.type for v in results])
        tail = (Return(tuple(results), s.loc),) if results else ()
        given = tuple([Param(v) for v in params])
        new = Function(name, given, (*body, *tail), returns, "InCore", has_self=self.f.has_self, loc=s.loc)
        self.made.append(with_own_values(new))
        return Assign(tuple(results), Call(f"self.{name}", tuple(params)), s.loc)

    def _name(self, s: Scope | For) -> str:
        given = s.header.kwarg("name_hint") if isinstance(s, Scope) and isinstance(s.header, Call) else None
        stem = given.value if isinstance(given, Const) and isinstance(given.value, str) else f"{self.f.name}_incore"
        name, k = f"{stem}_{len(self.made)}" if given is None else stem, 1
        while name in self.names:
            name, k = f"{stem}_{k}", k + 1
        self.names.add(name)
        return name


def _definitions(block: Block) -> list[Var]:
    """Every value a block defines that is visible behind its statements, in order; then those of inner loops and branches."""
    found: dict[Var, None] = {}
    for s in block:
        found.update(dict.fromkeys(defined(s)))
        if isinstance(s, Scope):
            found.update(dict.fromkeys(_definitions(s.body)))
            if s.name is not None:
                found[s.name] = None
    for s in walk(block):
        found.update(dict.fromkeys(defined(s)))
        if isinstance(s, For):
            found.update(dict.fromkeys(s.carried))
            if s.counter is not None:
                found[s.counter] = None
        elif isinstance(s, Scope) and s.name is not None:
            found[s.name] = None
    return list(found)


def _used(block: Iterable[Stmt]) -> list[Var]:
    """Every value a block uses, in order of first use; sizes that only types name count as well."""
    found: dict[Var, None] = {}
    for s in walk(tuple(block)):
        for e in expressions_of(s):
            found.update(dict.fromkeys(vars_in(e)))
        for v in defined(s):
            found.update(dict.fromkeys(_dims(v.type)))
    for v in list(found):
        found.update(dict.fromkeys(_dims(v.type)))
    return list(found)


def _dims(t: Type) -> list[Var]:
    shape: tuple[object, ...] = t.shape if isinstance(t, (TensorType, TileType)) else ()
    return [v for d in shape if not isinstance(d, int) for v in vars_in(_expr(d))]


def _expr(d: object) -> Expr:
    return d  # type: ignore[return-value]
