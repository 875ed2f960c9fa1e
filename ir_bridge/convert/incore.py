"""Phase 1: one InCore, AIC or AIV function, from tensors to tiles (specification 2, phase 1).

Loads at the entry, the converted body, stores at the exit into new output parameters, and directions from what the body does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cost.hardware import Target
from ir_bridge.convert.access import (
    Signatures,
    access_of,
    attribute,
    has_opaque_effects,
    refuse_mixed_stores,
    with_directions,
)
from ir_bridge.convert.body import BodyConverter, stray_use
from ir_bridge.convert.demands import demands_of
from ir_bridge.convert.errors import refuse
from ir_bridge.convert.flow import Flow, flow_of
from ir_bridge.convert.memory import promote_fills, stage_updates
from ir_bridge.convert.placement import Chooser, as_documented, questions_of
from ir_bridge.convert.storage import promoted_allocations
from ir_bridge.ir.nodes import (
    Assign,
    Call,
    Const,
    DictExpr,
    Direction,
    Expr,
    For,
    Function,
    ListExpr,
    Param,
    Program,
    Return,
    Stmt,
    Symbol,
    Var,
    defined,
    expressions_of,
    vars_in,
    walk,
)
from ir_bridge.ir.ops import OpError, make, type_of
from ir_bridge.ir.types import UNKNOWN, OtherType, TensorType, TileType, Type

#: Policies that a load may name, by the number the outlining step writes.
_CACHE_POLICIES = {0: "pl.CachePolicy.DEFAULT", 1: "pl.CachePolicy.BYPASS"}
_COMMUNICATION = re.compile(r"Comm\w*(Ctx|Context|Group)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted function, and the output parameters it gained: they stand at ``at``, in this order. ``results`` are the types
    of its results, in its own terms."""

    function: Function
    outputs: tuple[Param, ...] = ()
    at: int = 0
    results: tuple[Type, ...] = ()


def convert_function(
    f: Function, program: Program, target: Target, signatures: Signatures, choose: Chooser = as_documented
) -> Converted:
    """The tile program of one function; raises ConvertError naming what can't be converted, where, and the repair."""
    original = f
    f = stage_updates(promote_fills(f, signatures))
    promoted = promoted_allocations(f, target)
    flow = flow_of(f, promoted)
    demands = demands_of(f, flow)
    questions = questions_of(f, flow, demands)
    placed = choose(questions, target) if questions else {}
    body = BodyConverter(f, flow, demands, _shared(f, flow, signatures), _cache_policies(f), promoted, placed)
    statements = body.convert()
    exit_ = _Exit(f, body, promoted, _extents(f, program))
    last = f.body[-1] if f.body else None
    tail = exit_.leave(last) if isinstance(last, Return) else []
    entry = [a for _, a in sorted(body.entry.items(), key=lambda item: _position(f, item[0][0]))]
    done = replace(f, body=tuple(_without_unused([*entry, *statements, *tail])))
    at = insertion(f)
    outputs = tuple(exit_.outputs)
    done = replace(done, params=(*f.params[:at], *outputs, *f.params[at:]), returns=f.returns, loc=original.loc)
    done = _without_attribute(done, "cache_policy")
    _refuse_lost_uses(f, done)
    found = access_of(done, signatures)
    refuse_mixed_stores(done, found)
    return Converted(with_directions(done, found), outputs, at, result_types_of(original))


def result_types_of(f: Function) -> tuple[Type, ...]:
    """The types of a function's results: declared, or those of what it returns."""
    last = f.body[-1] if f.body else None
    return f.returns or (tuple([type_or_unknown(e) for e in last.values]) if isinstance(last, Return) else ())


def type_or_unknown(e: Expr) -> Type:
    """The type of an expression; unknown where an operation in it takes something of unknown type."""
    try:
        return type_of(e)
    except OpError:
        return UNKNOWN


def _position(f: Function, v: Var) -> int:
    for i, p in enumerate(f.params):
        if p.var is v:
            return i
    return len(f.params)


def insertion(f: Function) -> int:
    """Where new parameters go: before trailing communication contexts."""
    at = len(f.params)
    while at and isinstance(t := f.params[at - 1].var.type, OtherType) and _COMMUNICATION.search(t.text):
        at -= 1
    return at


# -- loads that may be shared ------------------------------------------------------------------------------------------


def _shared(f: Function, flow: Flow, signatures: Signatures) -> frozenset[Var]:
    """Parameters whose load at the entry may serve every use: nothing in the function writes them, or a value made from them."""
    if has_opaque_effects(f.body):
        return frozenset()
    written = access_of(f, signatures, _derived(f, flow)).writes
    return frozenset(p.var for p in f.params if isinstance(p.var.type, TensorType) and p.var not in written)


def _derived(f: Function, flow: Flow) -> Flow:
    """The flow with values that only show a parameter (windows, views) counted as the parameter itself."""
    roots = dict(flow.roots)
    for s in walk(f.body):
        if isinstance(s, Assign) and len(s.targets) == 1 and isinstance(s.value, Call) and s.value.args:
            source = s.value.args[0]
            if s.value.op in _SHOWING and isinstance(source, Var) and source in roots:
                roots[s.targets[0]] = roots.get(s.targets[0], frozenset()) | roots[source]
        elif isinstance(s, For):
            for c, i in zip(s.carried, s.inits, strict=True):
                if isinstance(i, Var) and i in roots:
                    roots[c] = roots.get(c, frozenset()) | roots[i]
    return Flow(flow.tiles, roots, flow.sources)


_SHOWING = frozenset({"tensor.slice", "tensor.view", "tensor.reshape", "tensor.reinterpret_view", "tensor.set_validshape"})


def _cache_policies(f: Function) -> dict[Var, Expr]:
    """The cache policy declared for each parameter: the attribute ``cache_policy`` holds (parameter index, policy) pairs."""
    found: dict[Var, Expr] = {}
    declared = attribute(f, "cache_policy")
    for pair in declared.items if isinstance(declared, ListExpr) else ():
        if not isinstance(pair, ListExpr) or len(pair.items) != 2:
            continue
        index, policy = pair.items
        if isinstance(index, Const) and isinstance(index.value, int) and index.value < len(f.params):
            named = _CACHE_POLICIES.get(policy.value) if isinstance(policy, Const) and isinstance(policy.value, int) else None
            found[f.params[index.value].var] = Symbol(named) if named is not None else policy
    return found


def _without_attribute(f: Function, name: str) -> Function:
    """The function without one of its attributes; parameter indices in it no longer hold."""
    if attribute(f, name) is None:
        return f

    def trimmed(e: Expr) -> Expr:
        return DictExpr(tuple([(k, v) for k, v in e.items if k != Const(name)])) if isinstance(e, DictExpr) else e

    decorator = tuple([(k, trimmed(v) if k == "attrs" else v) for k, v in f.decorator])
    body: list[Stmt] = []
    for s in f.body:
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "func_attr":
            kept = tuple([trimmed(a) for a in s.value.args])
            if all(isinstance(a, DictExpr) and not a.items for a in kept):
                continue
            s = replace(s, value=replace(s.value, args=kept))
        body.append(s)
    kept_decorator = tuple([(k, v) for k, v in decorator if not (k == "attrs" and isinstance(v, DictExpr) and not v.items)])
    return replace(f, decorator=kept_decorator, body=tuple(body))


# -- the exit ----------------------------------------------------------------------------------------------------------


def _extents(f: Function, program: Program) -> frozenset[Var]:
    """The names a new parameter's type may use: parameters and module-level dimensions."""
    return frozenset([p.var for p in f.params] + list(program.dynamic))


class _Exit:
    """Makes the end of a function: each logical result gets its storage, once."""

    def __init__(self, f: Function, body: BodyConverter, promoted: frozenset[Var], extents: frozenset[Var]) -> None:
        self.f = f
        self.body = body
        self.promoted = promoted
        self.extents = extents
        self.outputs: list[Param] = []
        self.stored: dict[Var, Var] = {}
        self.statements: list[Stmt] = []

    def leave(self, s: Return) -> list[Stmt]:
        """The stores and the return."""
        self.body.loc = s.loc
        values = tuple([self._result(i, e) for i, e in enumerate(s.values)])
        return [*self.statements, Return(values, s.loc)]

    def _result(self, index: int, e: Expr) -> Expr:
        if not isinstance(e, Var):
            return self.body.scalar(e)
        now = self.body.env.get(e)
        if now is not None and isinstance(e.type, TensorType):
            return self._stored(index, e)
        for root in self.body.flow.roots_of(e):
            if root in self.promoted and all(p.var is not root for p in self.outputs):
                self._checked(root.type, root.name)
                self.outputs.append(Param(root, Direction.OUT))
        return self.body.memory(e)

    def _stored(self, index: int, e: Var) -> Var:
        """A computed result: a new output parameter, and one store of the tile into it."""
        outer, self.body.out = self.body.out, self.statements
        tile = self.body.tile(e)
        self.body.out = outer
        found = self.stored.get(tile)
        if found is not None:
            return found
        t = self._declared(index, e)
        self._checked(t, e.name)
        out = Var(f"ret{index}_out", t)
        self.outputs.append(Param(out, Direction.OUT))
        store = Var(f"ret{index}_store", t)
        tile = self._as_element(tile, t, e.name)
        assert isinstance(t, TensorType)
        self.statements.append(Assign((store,), make("tile.store", tile, [0] * len(t.shape), out), self.body.loc))
        self.stored[tile] = store
        return store

    def _as_element(self, tile: Var, t: Type, name: str) -> Var:
        assert isinstance(tile.type, TileType)
        if isinstance(t, TensorType) and tile.type.dtype != t.dtype:
            raise refuse(
                self.f.name,
                f"{name} holds {tile.type.dtype.name} and is returned as {t.dtype.name}",
                f"cast it: pl.cast({name}, pl.{t.dtype.spelling})",
                self.body.loc,
            )
        return tile

    def _declared(self, index: int, e: Var) -> Type:
        """The type of a result: as the function declares it, else that of the returned expression."""
        returns = self.f.returns
        declared = returns[index] if index < len(returns) else None
        return declared if isinstance(declared, TensorType) else e.type

    def _checked(self, t: Type, name: str) -> None:
        """Refuse a type that names a value computed in the body: the caller could not allocate it."""
        assert isinstance(t, TensorType)
        for d in t.shape:
            for v in vars_in(d) if not isinstance(d, int) else ():
                if v not in self.extents:
                    raise refuse(
                        self.f.name,
                        f"the type of the result {name} names {v.name}, which the function computes itself",
                        f"pass {v.name} as a scalar parameter, or give the result as a pl.Out parameter",
                        self.body.loc,
                    )


def _refuse_lost_uses(before: Function, after: Function) -> None:
    """Refuse what still names a tensor that has become a tile, in a place where no tile may stand."""
    had = {v for s in walk(before.body) for v in _values_of(s)}
    lost = had - {v for s in walk(after.body) for v in _values_of(s)} - {p.var for p in after.params}
    for s in walk(after.body):
        for e in expressions_of(s):
            for v in vars_in(e):
                if v in lost:
                    raise refuse(after.name, *stray_use(e, v), s.loc)


def _values_of(s: Stmt) -> list[Var]:
    """What a statement defines, inside of it as well."""
    if not isinstance(s, For):
        return list(defined(s))
    return [*defined(s), *s.carried, *(() if s.counter is None else (s.counter,))]


def _without_unused(statements: list[Stmt]) -> list[Stmt]:
    """Drop allocations that nothing uses (seeds that were declared again)."""
    used = {v for s in walk(tuple(statements)) for e in expressions_of(s) for v in vars_in(e)}

    def kept(s: Stmt) -> bool:
        if not isinstance(s, Assign) or not isinstance(s.value, Call) or s.value.op != "tile.create":
            return True
        return any(v in used for v in defined(s))

    return [s for s in statements if kept(s)]
