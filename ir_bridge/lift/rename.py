"""Replacing values in expressions and statements; what does not change comes back as the same object."""

from __future__ import annotations

from collections.abc import Mapping

from ir_bridge.ir.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Const,
    DictExpr,
    Expr,
    For,
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

Renames = Mapping[Var, Expr]
Pairs = tuple[tuple[str, Expr], ...]


def renamed(e: Expr, table: Renames) -> Expr:
    """``e`` with every value of ``table`` replaced."""
    kind = type(e)
    if kind is Var:
        return table.get(e, e)  # type: ignore[arg-type]
    if kind is Const or kind is Symbol:
        return e
    if isinstance(e, Call):
        args, kwargs, attrs = renamed_all(e.args, table), _pairs(e.kwargs, table), _pairs(e.attrs, table)
        same = args is e.args and kwargs is e.kwargs and attrs is e.attrs
        return e if same else Call(e.op, args, kwargs, attrs)
    if isinstance(e, ListExpr):
        items = renamed_all(e.items, table)
        return e if items is e.items else ListExpr(items, e.is_tuple)
    if isinstance(e, Binary):
        left, right = renamed(e.left, table), renamed(e.right, table)
        return e if left is e.left and right is e.right else Binary(e.op, left, right)
    if isinstance(e, Unary):
        operand = renamed(e.operand, table)
        return e if operand is e.operand else Unary(e.op, operand)
    if isinstance(e, Index):
        base, index = renamed(e.base, table), renamed_all(e.index, table)
        return e if base is e.base and index is e.index else Index(base, index)
    if isinstance(e, DictExpr):
        return DictExpr(tuple([(renamed(k, table), renamed(v, table)) for k, v in e.items]))
    return e


def renamed_all(es: tuple[Expr, ...], table: Renames) -> tuple[Expr, ...]:
    """Several expressions; the same tuple when none changes."""
    new = [renamed(e, table) for e in es]
    for a, b in zip(new, es, strict=True):
        if a is not b:
            return tuple(new)
    return es


def _pairs(pairs: Pairs, table: Renames) -> Pairs:
    for _, v in pairs:
        if renamed(v, table) is not v:
            return tuple([(k, renamed(x, table)) for k, x in pairs])
    return pairs


def renamed_stmt(s: Stmt, table: Renames) -> Stmt:
    """A statement with the expressions written directly in it replaced; its inner blocks are left as they are."""
    if isinstance(s, Assign):
        value = renamed(s.value, table)
        return s if value is s.value else Assign(s.targets, value, s.loc)
    if isinstance(s, For):
        return _renamed_loop(s, table)
    if isinstance(s, If):
        cond = renamed(s.cond, table)
        return s if cond is s.cond else If(cond, s.then, s.orelse, s.results, s.loc)
    if isinstance(s, Yield):
        values = renamed_all(s.values, table)
        return s if values is s.values else Yield(values, s.loc)
    if isinstance(s, Return):
        values = renamed_all(s.values, table)
        return s if values is s.values else Return(values, s.loc)
    if isinstance(s, Scope):
        header = renamed(s.header, table)
        return s if header is s.header else Scope(header, s.body, s.name, s.loc)
    return s


def _renamed_loop(s: For, table: Renames) -> For:
    start, stop, step = renamed(s.start, table), renamed(s.stop, table), renamed(s.step, table)
    inits, attrs, options = renamed_all(s.inits, table), _pairs(s.attrs, table), _pairs(s.options, table)
    cond = None if s.cond is None else renamed(s.cond, table)
    new = (start, stop, step, inits, attrs, options, cond)
    if all(a is b for a, b in zip(new, (s.start, s.stop, s.step, s.inits, s.attrs, s.options, s.cond), strict=True)):
        return s
    return For(
        s.kind, s.counter, start, stop, step, s.body, s.carried, inits, s.results, s.stage, attrs, options, cond, s.loc
    )  # fmt: skip


def with_blocks(s: Stmt, blocks: tuple[Block, ...]) -> Stmt:
    """A statement with its inner blocks replaced, in the order of :func:`~ir_bridge.ir.nodes.blocks_of`."""
    if isinstance(s, For):
        return For(
            s.kind, s.counter, s.start, s.stop, s.step, blocks[0], s.carried, s.inits, s.results,
            s.stage, s.attrs, s.options, s.cond, s.loc,
        )  # fmt: skip
    if isinstance(s, If):
        return If(s.cond, blocks[0], blocks[1] if len(blocks) > 1 else None, s.results, s.loc)
    if isinstance(s, Scope):
        return Scope(s.header, blocks[0], s.name, s.loc)
    return s
