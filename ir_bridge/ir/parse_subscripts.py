"""Subscripts of tensors and tiles: ``x[0:16, k:k + 64]`` is a slice, ``x[i, j]`` a read, and their assignments.

x[a:b, c:d]          =  slice(x, [b - a, d - c], [a, c])
x[i, c:d]            =  slice(x, [1, d - c], [i, c])
x[i, j]              =  read(x, [i, j])
x[a:b, c:d] = v      :  x = assemble(x, v, [a, c])
x[i, j] = v          :  write(x, [i, j], v)
"""

from __future__ import annotations

from ir_bridge.ir.nodes import ONE, ZERO, Binary, Call, Const, Expr, ListExpr
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
    """``stop - start``, as a number where the difference is one: ``(i + 1) * 16`` and ``i * 16`` are 16 apart."""
    if isinstance(stop, Binary) and stop.op == "+":
        if stop.left == start:
            return stop.right
        if stop.right == start:
            return stop.left
    a, b = _linear(start), _linear(stop)
    if a is not None and b is not None and all(a[0].get(e, 0) == b[0].get(e, 0) for e in {**a[0], **b[0]}):
        return as_expr(b[1] - a[1])
    return stop if start == ZERO else Binary("-", stop, start)


def _linear(e: Expr) -> tuple[dict[Expr, int], int] | None:
    """(factor of each part, constant) of an index that is a sum of multiples; None when it is something else."""
    if isinstance(e, Const):
        return ({}, e.value) if type(e.value) is int else None
    if not isinstance(e, Binary) or e.op not in ("+", "-", "*"):
        return {e: 1}, 0
    left, right = _linear(e.left), _linear(e.right)
    if left is None or right is None:
        return None
    if e.op == "*":
        if right[0] and left[0]:
            return {e: 1}, 0
        (parts, constant), factor = (left, right[1]) if not right[0] else (right, left[1])
        return {p: f * factor for p, f in parts.items()}, constant * factor
    sign = 1 if e.op == "+" else -1
    total = dict(left[0])
    for part, f in right[0].items():
        total[part] = total.get(part, 0) + sign * f
    return total, left[1] + sign * right[1]


def _window(shape: tuple[Dim, ...], index: tuple[Expr, ...]) -> tuple[ListExpr, ListExpr] | None:
    """(sizes, offsets) of a subscript with a slice in it, an index being a slice of one; None for steps and plain elements."""
    if len(index) > len(shape) or not any(isinstance(p, Call) and p.op == "slice" for p in index):
        return None
    sizes: list[Expr] = []
    offsets: list[Expr] = []
    for axis, part in enumerate(index):
        if not isinstance(part, Call) or part.op != "slice":
            sizes.append(ONE)
            offsets.append(from_end(part, shape[axis]))
            continue
        if len(part.args) != 2:
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
