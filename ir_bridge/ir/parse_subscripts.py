"""Subscripts of tensors and tiles: ``x[0:16, k:k + 64]`` is a slice, ``x[i, j]`` a read, and their assignments.

x[a:b, c:d]          =  slice(x, [b - a, d - c], [a, c])
x[i, j]              =  read(x, [i, j])
x[a:b, c:d] = v      :  x = assemble(x, v, [a, c])
x[i, j] = v          :  write(x, [i, j], v)
"""

from __future__ import annotations

from ir_bridge.ir.nodes import ZERO, Binary, Call, Const, Expr, ListExpr
from ir_bridge.ir.ops_registry import as_expr
from ir_bridge.ir.ops_types import type_of
from ir_bridge.ir.types import Dim, TensorType, TileType

#: An operation and its arguments.
Parts = tuple[str, tuple[Expr, ...]]


def _room(base: Expr) -> tuple[str, tuple[Dim, ...]] | None:
    """("tensor" or "tile", shape) of a value that can be subscripted."""
    t = type_of(base)
    if isinstance(t, TensorType):
        return "tensor", t.shape
    return ("tile", t.shape) if isinstance(t, TileType) else None


def distance(start: Expr, stop: Expr) -> Expr:
    """``stop - start``, as a number where the difference is one: of two numbers, or of ``x + n`` and ``x``."""
    if isinstance(start, Const) and isinstance(stop, Const) and type(start.value) is int and type(stop.value) is int:
        return as_expr(stop.value - start.value)
    if isinstance(stop, Binary) and stop.op == "+":
        if stop.left == start:
            return stop.right
        if stop.right == start:
            return stop.left
    return stop if start == ZERO else Binary("-", stop, start)


def _window(shape: tuple[Dim, ...], index: tuple[Expr, ...]) -> tuple[ListExpr, ListExpr] | None:
    """(sizes, offsets) of a subscript that slices every axis it names; None when some part is no plain slice."""
    if len(index) > len(shape):
        return None
    sizes: list[Expr] = []
    offsets: list[Expr] = []
    for axis, part in enumerate(index):
        if not isinstance(part, Call) or part.op != "slice" or len(part.args) != 2:
            return None
        start, stop = part.args
        start = ZERO if start == Const(None) else from_end(start, shape[axis])
        stop = as_expr(shape[axis]) if stop == Const(None) else from_end(stop, shape[axis])
        sizes.append(distance(start, stop))
        offsets.append(start)
    for d in shape[len(index) :]:
        sizes.append(as_expr(d))
        offsets.append(ZERO)
    return ListExpr(tuple(sizes)), ListExpr(tuple(offsets))


def from_end(e: Expr, d: Dim) -> Expr:
    """A position on an axis of ``d`` elements; a negative number counts from its end."""
    if isinstance(e, Const) and type(e.value) is int and e.value < 0:
        return as_expr(d + e.value) if isinstance(d, int) else Binary("-", d, as_expr(-e.value))
    return e


def _element(shape: tuple[Dim, ...], index: tuple[Expr, ...]) -> bool:
    """Does the subscript name one element?"""
    return len(index) == len(shape) and not any(isinstance(p, Call) and p.op == "slice" for p in index)


def _position(shape: tuple[Dim, ...], index: tuple[Expr, ...]) -> ListExpr:
    return ListExpr(tuple([from_end(e, d) for e, d in zip(index, shape, strict=True)]))


def read_subscript(base: Expr, index: tuple[Expr, ...]) -> Parts | None:
    """The operation ``base[index]`` stands for; None when it is neither a window nor an element."""
    room = _room(base)
    if room is None:
        return None
    family, shape = room
    window = _window(shape, index)
    if window is not None:
        return f"{family}.slice", (base, *window)
    return (f"{family}.read", (base, _position(shape, index))) if _element(shape, index) else None


def write_subscript(base: Expr, index: tuple[Expr, ...], value: Expr) -> Parts | None:
    """The operation ``base[index] = value`` stands for: an assemble (which makes a new state of ``base``) or a write."""
    room = _room(base)
    if room is None:
        return None
    family, shape = room
    window = _window(shape, index)
    if window is not None:
        return f"{family}.assemble", (base, value, window[1])
    return (f"{family}.write", (base, _position(shape, index), value)) if _element(shape, index) else None
