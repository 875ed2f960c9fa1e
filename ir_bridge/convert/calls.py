"""Phases 2a and 2b: new outputs are forwarded by wrappers and allocated by callers (specification 2, phase 2).

A wrapper (Spmd, Group) gains a private output parameter for every output of every call in it; nothing is allocated inside, and
its results stay as they are. Any other caller allocates each output with ``tensor.create`` before the call. A task submitted by
an orchestration keeps its outputs left out, for the runtime to allocate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ir_bridge.convert.access import access_of, arguments, called, with_directions
from ir_bridge.convert.binding import Binding, bind, instantiated
from ir_bridge.convert.errors import refuse
from ir_bridge.convert.incore import Converted, insertion, type_or_unknown
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    Assign,
    Block,
    Call,
    Const,
    DictExpr,
    Direction,
    Expr,
    For,
    Function,
    If,
    ListExpr,
    Param,
    Return,
    Scope,
    Stmt,
    Var,
    expressions_of,
    subexpressions,
    vars_in,
    walk,
)
from ir_bridge.ir.ops import as_expr, make
from ir_bridge.ir.types import UNKNOWN, TensorType, Type

#: Kinds that only forward to the functions they call.
WRAPPERS = frozenset({"Spmd", "Group"})
_SUBMITS = ("submit", "spmd_submit")


class CallUpdater:
    """Updates the calls in one function; :attr:`outputs` are the parameters a wrapper gained."""

    def __init__(self, caller: Function, done: Mapping[str, Converted], originals: Mapping[str, Function]) -> None:
        self.caller = caller
        self.done = done
        self.originals = originals
        self.wrapper = caller.kind in WRAPPERS
        self.outputs: list[Param] = []
        self.names = {base_name(p.var.name) for p in caller.params}
        self.known: dict[Var, Type] = {}
        self.out: list[Stmt] = []

    def updated(self) -> Converted:
        """The caller with its calls updated, and what it gained."""
        body = self._block(self.caller.body)
        at = insertion(self.caller)
        params = (*self.caller.params[:at], *self.outputs, *self.caller.params[at:])
        done = replace(self.caller, params=params, body=body)
        return Converted(done, tuple(self.outputs), at, self._results())

    def _results(self) -> tuple[Type, ...]:
        last = self.caller.body[-1] if self.caller.body else None
        if self.caller.returns or not isinstance(last, Return):
            return self.caller.returns
        return tuple([self.known.get(e, e.type) if isinstance(e, Var) else type_or_unknown(e) for e in last.values])

    def _block(self, block: Block) -> Block:
        outer, self.out = self.out, []
        changed = False
        for s in block:
            new = self._statement(s)
            changed = changed or new is not s
            self.out.append(new)
        mine, self.out = self.out, outer
        return tuple(mine) if changed or len(mine) != len(block) else block

    def _statement(self, s: Stmt) -> Stmt:
        self._refuse_nested(s)
        if isinstance(s, Assign) and isinstance(s.value, Call):
            return self._assign(s, s.value)
        if isinstance(s, (For, Scope)):
            body = self._block(s.body)
            return s if body is s.body else replace(s, body=body)
        if isinstance(s, If):
            then, orelse = self._block(s.then), None if s.orelse is None else self._block(s.orelse)
            return s if then is s.then and orelse is s.orelse else replace(s, then=then, orelse=orelse)
        return s

    def _refuse_nested(self, s: Stmt) -> None:
        """Refuse a call inside of an expression that needs storage for its outputs: there is no place to allocate it."""
        for e in expressions_of(s):
            for x in subexpressions(e):
                found = called(x) if isinstance(x, Call) and not (isinstance(s, Assign) and x is s.value) else None
                done = self.done.get(found[0]) if found is not None else None
                if done is not None and done.outputs:
                    raise refuse(
                        self.caller.name,
                        f"a call of {done.function.name} inside of an expression, which has no room for its outputs",
                        f"give its result a name first: y = self.{done.function.name}(...)",
                        s.loc,
                    )

    def _assign(self, s: Assign, call: Call) -> Stmt:
        found = called(call)
        done = self.done.get(found[0]) if found is not None else None
        if found is None or done is None:
            return s
        submitted = call.op in _SUBMITS
        callee = self.originals[found[0]]
        given = arguments(callee, found[1], call.kwargs)
        binding = bind(callee, given, self.known)
        s = self._assign_with(s, call, done, found[1], binding, given) if self.wrapper or not submitted else s
        for v, t in zip(s.targets, done.results, strict=False):
            if v.type == UNKNOWN:
                self.known[v] = instantiated(t, binding)
        return s

    def _assign_with(
        self, s: Assign, call: Call, done: Converted, given_args: tuple[Expr, ...], binding: Binding, given: dict[int, Expr]
    ) -> Assign:
        """The call with storage for its new outputs, and for those a submission leaves out."""
        submitted = call.op in _SUBMITS
        callee = self.originals[done.function.name]
        missing = _left_out(callee, given) if submitted else []
        if not done.outputs and not missing:
            return s
        filled, kwargs = list(given_args), call.kwargs
        names = {base_name(p.var.name) for p in callee.params}
        if sorted(given) == list(range(len(given))) and any(base_name(k) in names for k, _ in kwargs):
            filled = [given[i] for i in range(len(given))]  # by position, so that outputs can be put behind them
            kwargs = tuple([(k, v) for k, v in kwargs if base_name(k) not in names])
        for p in missing:
            filled.append(self._storage(p, binding, s))
        extra = [self._storage(p, binding, s) for p in done.outputs]
        at = min(done.at, len(filled))
        args = (*filled[:at], *extra, *filled[at:])
        first = call.args[:1] if submitted else ()
        attrs = _shifted(call.attrs, at, len(extra))
        return replace(s, value=replace(call, args=(*first, *args), kwargs=kwargs, attrs=attrs))

    def _storage(self, p: Param, binding: Binding, s: Assign) -> Var:
        """Storage for one output of one call, in the caller's terms; later outputs may name it."""
        t = instantiated(p.var.type, binding)
        assert isinstance(t, TensorType)
        v = Var(self._name(p.var.name), t)
        if self.wrapper:
            self._check(t, p, s)
            self.outputs.append(Param(v, Direction.OUT))
        else:
            self.out.append(Assign((v,), make("tensor.create", [as_expr(d) for d in t.shape], dtype=t.dtype), s.loc))
        binding[p.var] = v
        return v

    def _check(self, t: TensorType, p: Param, s: Assign) -> None:
        mine = {q.var for q in self.caller.params} | {q.var for q in self.outputs}
        local = {v for inner in walk(self.caller.body) if isinstance(inner, Assign) for v in inner.targets}
        for d in t.shape:
            for v in () if isinstance(d, int) else vars_in(d):
                if v in local and v not in mine:
                    raise refuse(
                        self.caller.name,
                        f"the output {base_name(p.var.name)} of the call has a size, {v.name}, that the wrapper computes itself",
                        f"pass {v.name} to {self.caller.name} as a scalar parameter",
                        s.loc,
                    )

    def _name(self, wanted: str) -> str:
        name, k = base_name(wanted), 1
        while name in self.names:
            name, k = f"{base_name(wanted)}_{k}", k + 1
        self.names.add(name)
        return name


def _left_out(callee: Function, given: dict[int, Expr]) -> list[Param]:
    """The output parameters a submission leaves to the runtime."""
    return [p for i, p in enumerate(callee.params) if i not in given and p.direction is Direction.OUT]


def _shifted(attrs: tuple[tuple[str, Expr], ...], at: int, by: int) -> tuple[tuple[str, Expr], ...]:
    """Call attributes with argument positions moved behind inserted arguments."""
    if not by:
        return attrs

    def moved(key: str, e: Expr) -> Expr:
        if "arg" not in key or not isinstance(e, ListExpr):
            return e
        items = tuple(
            [Const(i.value + by) if isinstance(i, Const) and type(i.value) is int and i.value >= at else i for i in e.items]
        )
        return ListExpr(items, e.is_tuple)

    return tuple([(k, moved(k, v)) for k, v in attrs])


def directed(f: Function, signatures: Mapping[str, Function]) -> Function:
    """A caller with its parameters' directions raised to what the functions it calls do with them."""
    return with_directions(f, access_of(f, signatures))


def stated_attributes(f: Function) -> Function:
    """Decorator attributes as a ``pl.func_attr`` statement, which is how PyPTO writes them in a converted program."""
    entries = [v for k, v in f.decorator if k == "attrs" and isinstance(v, DictExpr) and v.items]
    if not entries:
        return f
    decorator = tuple([(k, v) for k, v in f.decorator if k != "attrs"])
    statement = Assign((), Call("func_attr", tuple(entries)), f.loc)
    return replace(f, decorator=decorator, body=(statement, *f.body))
