"""Which global tensors a function reads and writes, on which path, and what that makes of its parameters.

Who reads and writes what is declared in the op table (specification 2, "upgrading directions"): an operation that declares
nothing reads all its operands; a sibling function does what its parameters' directions say; an atomic store also reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ir_bridge.convert.errors import refuse
from ir_bridge.convert.flow import Flow, flow_of
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    Assign,
    Block,
    Call,
    Const,
    DictExpr,
    Direction,
    Expr,
    Function,
    Loc,
    Symbol,
    Var,
    expressions_of,
    subexpressions,
    walk,
)
from ir_bridge.ir.ops import lookup

#: The two paths to global memory that are not coherent with each other: MTE3, and the scalar unit's data cache.
BULK, SCALAR = "bulk store", "scalar write"

_PATHS = {"tensor.assemble": BULK, "tile.store": BULK, "tensor.write": SCALAR}


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of one operand: ``value`` as written, whether it is read and written, by which path, where."""

    value: Var
    reads: bool
    writes: bool
    path: str | None
    loc: Loc


@dataclass(slots=True)
class Access:
    """What a function does to each global tensor (parameter): read, written, and the writes by path."""

    reads: set[Var] = field(default_factory=set)
    writes: set[Var] = field(default_factory=set)
    paths: dict[Var, dict[str, Loc]] = field(default_factory=dict)


Signatures = Mapping[str, Function]


def touches(body: Block, signatures: Signatures) -> Iterator[Touch]:
    """Every access of an operand that is a value, in program order."""
    for s in walk(body):
        for e in expressions_of(s):
            for x in subexpressions(e):
                if isinstance(x, Call):
                    yield from _call(x, s.loc, signatures)


def _call(call: Call, loc: Loc, signatures: Signatures) -> Iterator[Touch]:
    callee = called(call)
    if callee is not None:
        yield from _sibling(call, callee[1], signatures.get(callee[0]), loc)
        return
    op = lookup(call.op)
    if op is None:
        for a in call.args:
            if isinstance(a, Var):
                yield Touch(a, True, False, None, loc)
        return
    effects = op.effects
    atomic = call.kwarg("atomic") is not None
    for index, a in enumerate(call.args):
        if not isinstance(a, Var):
            continue
        writes = index in effects.writes
        if writes or index in effects.reads:
            yield Touch(a, index in effects.reads or (writes and atomic), writes, _PATHS.get(call.op) if writes else None, loc)
        elif effects.view is None and op.kind != "scalar":
            yield Touch(a, True, False, None, loc)


def called(call: Call) -> tuple[str, tuple[Expr, ...]] | None:
    """(name, arguments) of a call of a sibling function: ``self.f(…)``, ``pl.submit(self.f, …)``; None for anything else."""
    if call.op.startswith("self."):
        return call.op[5:], call.args
    if call.op in ("submit", "spmd_submit") and call.args:
        first = call.args[0]
        if isinstance(first, Symbol) and first.text.startswith("self."):
            return first.text[5:], call.args[1:]
    return None


def arguments(callee: Function, args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...]) -> dict[int, Expr]:
    """The argument given for each parameter of ``callee``, by position."""
    given = dict(enumerate(args))
    names = {base_name(p.var.name): i for i, p in enumerate(callee.params)}
    for key, value in kwargs:
        if base_name(key) in names:
            given[names[base_name(key)]] = value
    return given


def _sibling(call: Call, args: tuple[Expr, ...], callee: Function | None, loc: Loc) -> Iterator[Touch]:
    if callee is None:
        for a in args:
            if isinstance(a, Var):
                yield Touch(a, True, True, None, loc)
        return
    for i, a in arguments(callee, args, call.kwargs).items():
        if isinstance(a, Var) and i < len(callee.params):
            direction = callee.params[i].direction
            yield Touch(a, direction is not Direction.OUT, direction is not Direction.IN, None, loc)


def access_of(f: Function, signatures: Signatures, flow: Flow | None = None) -> Access:
    """What ``f`` does to the global tensors its values may be."""
    flow = flow or flow_of(f)
    found = Access()
    for t in touches(f.body, signatures):
        for root in flow.roots_of(t.value):
            if t.reads:
                found.reads.add(root)
            if t.writes:
                found.writes.add(root)
                if t.path is not None:
                    found.paths.setdefault(root, {}).setdefault(t.path, t.loc)
    return found


def with_directions(f: Function, found: Access) -> Function:
    """``f`` with each parameter that it writes declared so: Out where it is only written, InOut where it is read as well."""
    params = []
    for p in f.params:
        if p.direction is Direction.IN and p.var in found.writes:
            p = replace(p, direction=Direction.INOUT if p.var in found.reads else Direction.OUT)
        params.append(p)
    return f if all(a is b for a, b in zip(params, f.params, strict=True)) else replace(f, params=tuple(params))


def refuse_mixed_stores(f: Function, found: Access) -> None:
    """Refuse a function that writes one global tensor by bulk stores and by scalar writes: nothing keeps the two coherent."""
    for p in f.params:
        paths = found.paths.get(p.var, {})
        if len(paths) > 1:
            raise refuse(
                f.name,
                f"{base_name(p.var.name)} is written by bulk stores (first at {paths[BULK]}) and by scalar writes",
                "update a local value made with pl.full and store it once, or write every element with pl.write",
                paths[SCALAR],
            )


def has_opaque_effects(body: Block) -> bool:
    """Does the body hold a call that does something nobody declared: a bare call of an unknown operation?"""
    return any(
        isinstance(s, Assign)
        and not s.targets
        and isinstance(s.value, Call)
        and s.value.op != "func_attr"
        and lookup(s.value.op) is None
        for s in walk(body)
    )


def attributes(f: Function) -> list[tuple[Expr, Expr]]:
    """The entries of a function's attributes, from its decorator or its ``pl.func_attr`` statement."""
    groups = [v for k, v in f.decorator if k == "attrs"]
    for s in f.body:
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "func_attr":
            groups.extend(s.value.args)
    return [entry for g in groups if isinstance(g, DictExpr) for entry in g.items]


def attribute(f: Function, name: str) -> Expr | None:
    """One attribute of a function; None when it has none of that name."""
    for key, value in attributes(f):
        if key == Const(name):
            return value
    return None
