"""A function with values of its own: every definition and parameter made anew, so that no two functions share one."""

from __future__ import annotations

from dataclasses import replace

from ir_bridge.ir.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    DictExpr,
    Expr,
    For,
    Function,
    If,
    Index,
    ListExpr,
    Param,
    Return,
    Scope,
    Stmt,
    Unary,
    Var,
    Yield,
)
from ir_bridge.ir.types import Dim, TensorType, TileType, Type


def with_own_values(f: Function) -> Function:
    """``f`` with fresh values; names that it does not define (module-level dimensions) stay."""
    copy = _Copy()
    params = tuple([Param(copy.define(p.var), p.direction, p.default) for p in f.params])
    return replace(f, params=params, body=copy.block(f.body), returns=tuple([copy.type(t) for t in f.returns]))


class _Copy:
    """Copies statements in order; each definition enters the table before its uses."""

    def __init__(self) -> None:
        self.table: dict[Var, Var] = {}

    def define(self, v: Var) -> Var:
        """The fresh value for a definition."""
        new = self.table[v] = Var(v.name, self.type(v.type))
        return new

    def type(self, t: Type) -> Type:
        if isinstance(t, TensorType):
            return replace(t, shape=tuple([self._dim(d) for d in t.shape]))
        if isinstance(t, TileType):
            valid = t.view.valid_shape
            view = t.view if valid is None else replace(t.view, valid_shape=tuple([self._dim(d) for d in valid]))
            return replace(t, shape=tuple([self._dim(d) for d in t.shape]), view=view)
        return t

    def _dim(self, d: Dim) -> Dim:
        return d if isinstance(d, int) else self.expr(d)

    def expr(self, e: Expr) -> Expr:
        """The expression with fresh values in it."""
        if isinstance(e, Var):
            return self.table.get(e, e)
        if isinstance(e, Call):
            kwargs = tuple([(k, self.expr(v)) for k, v in e.kwargs])
            return Call(e.op, self.exprs(e.args), kwargs, tuple([(k, self.expr(v)) for k, v in e.attrs]))
        if isinstance(e, Binary):
            return Binary(e.op, self.expr(e.left), self.expr(e.right))
        if isinstance(e, Unary):
            return Unary(e.op, self.expr(e.operand))
        if isinstance(e, ListExpr):
            return ListExpr(self.exprs(e.items), e.is_tuple)
        if isinstance(e, Index):
            return Index(self.expr(e.base), self.exprs(e.index))
        if isinstance(e, DictExpr):
            return DictExpr(tuple([(self.expr(k), self.expr(v)) for k, v in e.items]))
        return e

    def exprs(self, items: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple([self.expr(i) for i in items])

    def block(self, block: Block) -> Block:
        return tuple([self.stmt(s) for s in block])

    def stmt(self, s: Stmt) -> Stmt:
        """The statement with fresh values for all it defines."""
        if isinstance(s, Assign):
            value = self.expr(s.value)
            return replace(s, targets=tuple([self.define(v) for v in s.targets]), value=value)
        if isinstance(s, For):
            return self._loop(s)
        if isinstance(s, If):
            cond, then = self.expr(s.cond), self.block(s.then)
            orelse = None if s.orelse is None else self.block(s.orelse)
            return replace(s, cond=cond, then=then, orelse=orelse, results=tuple([self.define(v) for v in s.results]))
        if isinstance(s, Scope):
            header = self.expr(s.header)
            name = None if s.name is None else self.define(s.name)
            return replace(s, header=header, name=name, body=self.block(s.body))
        if isinstance(s, (Yield, Return)):
            return replace(s, values=self.exprs(s.values))
        return s

    def _loop(self, s: For) -> For:
        start, stop, step = self.exprs((s.start, s.stop, s.step))
        inits = self.exprs(s.inits)
        options = tuple([(k, self.expr(v)) for k, v in s.options])
        counter = None if s.counter is None else self.define(s.counter)
        carried = tuple([self.define(v) for v in s.carried])
        cond = None if s.cond is None else self.expr(s.cond)
        body = self.block(s.body)
        results = tuple([self.define(v) for v in s.results])
        return replace(
            s,
            start=start,
            stop=stop,
            step=step,
            inits=inits,
            options=options,
            counter=counter,
            carried=carried,
            cond=cond,
            body=body,
            results=results,
        )
