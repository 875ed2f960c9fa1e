"""Are two programs the same, up to the names of values, SSA suffixes of function names, source places, docstrings and ``pass``?

Values are paired where they first meet and must then meet again everywhere; so uses and definitions may be compared in any order,
and a worklist replaces recursion: the work is linear, and depth is no limit.
"""

from __future__ import annotations

from typing import Any

from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Const,
    DictExpr,
    For,
    Function,
    If,
    Index,
    ListExpr,
    Param,
    Pass,
    Program,
    Return,
    Scope,
    Symbol,
    Unary,
    Var,
    Yield,
)
from ir_bridge.ir.types import TensorType, TileType, View

_Pair = tuple[Any, Any]


def same(p: Program, q: Program) -> bool:
    """Do the two programs hold the same functions, statement for statement and type for type?"""
    if p is q:
        return True
    if base_name(p.name) != base_name(q.name) or p.preamble != q.preamble or p.epilogue != q.epilogue:
        return False
    if len(p.functions) != len(q.functions) or len(p.dynamic) != len(q.dynamic):
        return False
    shared = _Pairs()
    return all(shared.pair(v, w) for v, w in zip(p.dynamic, q.dynamic, strict=True)) and all(
        _same_function(f, g, shared) for f, g in zip(p.functions, q.functions, strict=True)
    )


def same_function(f: Function, g: Function) -> bool:
    """Are two functions the same in this sense?"""
    return _same_function(f, g, _Pairs())


def same_block(a: Block, b: Block) -> bool:
    """Are two blocks the same in this sense, free values paired where they first meet?"""
    return _same_items(_block(a), _block(b), _Pairs())


class _Pairs:
    """Which value of one program is which of the other."""

    __slots__ = ("_back", "_there")

    def __init__(self) -> None:
        self._there: dict[Var, Var] = {}
        self._back: dict[Var, Var] = {}

    def pair(self, v: Var, w: Var) -> bool:
        """Let ``v`` be ``w`` from now on; False when either is already another."""
        known = self._there.get(v)
        if known is not None:
            return known is w
        if w in self._back:
            return False
        self._there[v] = w
        self._back[w] = v
        return True

    def known(self, v: Var, w: Var) -> bool:
        """Are the two already paired?"""
        return self._there.get(v) is w


def _same_function(f: Function, g: Function, pairs: _Pairs) -> bool:
    if base_name(f.name) != base_name(g.name) or f.kind != g.kind or f.has_self != g.has_self:
        return False
    return _same_items(
        (f.params, f.returns, f.decorator, _block(f.body)), (g.params, g.returns, g.decorator, _block(g.body)), pairs
    )


def _same_items(a: object, b: object, pairs: _Pairs) -> bool:
    """Compare two trees of nodes, tuples and plain values."""
    work: list[_Pair] = [(a, b)]
    push = work.append
    seen: set[tuple[int, int]] = set()
    while work:
        x, y = work.pop()
        if x is y and not isinstance(x, (Var, tuple)) and type(x) not in _INNER:
            continue
        kind = type(x)
        if kind is not type(y):
            return False
        if kind is Var:
            if not pairs.known(x, y):
                if not pairs.pair(x, y):
                    return False
                types = (id(x.type), id(y.type))  # both live as long as the programs; values of one type often share it
                if types not in seen:
                    seen.add(types)
                    push((x.type, y.type))
        elif kind is tuple:
            if len(x) != len(y):
                return False
            work.extend(zip(x, y, strict=True))
        elif kind in _INNER:
            push((_INNER[kind](x), _INNER[kind](y)))
        elif x != y:
            return False
    return True


def _block(block: Block | None) -> Block | None:
    """A block without ``pass``, which is how an empty one is written."""
    return tuple([s for s in block if type(s) is not Pass]) if block else block


def _name(text: str) -> str:
    """The name of an operation or function; a function's SSA suffix does not count."""
    return base_name(text) if "__" in text else text


def _tile(t: TileType) -> object:
    v: View = t.view
    valid = None if v.valid_shape == t.shape else v.valid_shape
    return (t.shape, t.dtype, t.space, valid, v.stride, v.start_offset, t.layout, v.pad, v.compact)


#: What there is to compare of a node that holds other things, as a tuple; everything else compares with ``==``.
_INNER: dict[type, Any] = {
    Assign: lambda s: (s.targets, s.value),
    For: lambda s: (
        s.kind,
        s.counter,
        (s.start, s.stop, s.step, s.cond),
        s.inits,
        s.carried,
        s.stage,
        s.attrs,
        s.options,
        _block(s.body),
        s.results,
    ),
    If: lambda s: (s.cond, _block(s.then), _block(s.orelse), s.results),
    Scope: lambda s: (s.header, s.name, _block(s.body)),
    Yield: lambda s: s.values,
    Return: lambda s: s.values,
    Param: lambda p: (p.direction, p.var, p.default),
    Call: lambda e: (_name(e.op), e.args, e.kwargs, e.attrs),
    Symbol: lambda e: _name(e.text),
    ListExpr: lambda e: (e.is_tuple, e.items),
    Binary: lambda e: (e.op, e.left, e.right),
    Unary: lambda e: (e.op, e.operand),
    Index: lambda e: (e.base, e.index),
    DictExpr: lambda e: e.items,
    Const: lambda e: (type(e.value), e.value, e.dtype),
    TileType: _tile,
    TensorType: lambda t: (t.shape, t.dtype, t.view, t.distributed),
}
