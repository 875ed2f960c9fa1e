"""Do the windows by which tiles are loaded and stored lie in their tensors, and those of extracts and assembles in their tiles?

Judged is only what numbers say for certain: a window of static size, along an axis of static extent, at an offset that is a
number or a sum of multiples of loop counters whose loops have static bounds. A window that may be empty lies anywhere. A tile
bounds its windows by its physical shape, whatever of it is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Const,
    Expr,
    For,
    Function,
    If,
    ListExpr,
    Loc,
    LoopKind,
    Scope,
    Unary,
    Var,
)
from ir_bridge.ir.ops import OpError, canonical, lookup, type_of
from ir_bridge.ir.ops_registry import dims, show
from ir_bridge.ir.types import Dim, ScalarType, Space, TensorType, TileType
from ir_bridge.ir.verifier_findings import Report

#: Loops that run their body once for every value of their counter, whatever those of the loops around them are.
COUNTING = frozenset({LoopKind.RANGE, LoopKind.PARALLEL, LoopKind.UNROLL, LoopKind.PIPELINE, LoopKind.SPMD})


@dataclass(frozen=True, slots=True)
class Linear:
    """``constant`` + Σ factor · counter."""

    constant: int
    factors: tuple[tuple[Var, int], ...] = ()

    def plus(self, other: Linear, times: int = 1) -> Linear:
        sums = dict(self.factors)
        for v, factor in other.factors:
            sums[v] = sums.get(v, 0) + times * factor
        return Linear(self.constant + times * other.constant, tuple((v, f) for v, f in sums.items() if f))


#: The least and the largest value of a counter; both are taken in every run of the block that is looked at.
Ranges = dict[Var, tuple[int, int]]
Known = dict[Var, Linear]
#: How far a window goes along each axis; None where that is no number.
Sizes = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """One window of ``what``, a tensor or a tile of ``extents``, and what to do where it reaches beyond it."""

    op: str
    what: str
    extents: tuple[Dim, ...]
    offsets: tuple[Expr, ...]
    sizes: Sizes
    repair: str


def check_windows(function: Function, report: Report) -> None:
    """Findings of kind "bounds" of one function."""
    _block(function.body, {}, {}, report)


def _block(block: Block, known: Known, ranges: Ranges, report: Report) -> None:
    """``known`` are the scalars whose values are known; names are single, so that it may grow as the block goes."""
    for s in block:
        if isinstance(s, Assign):
            _assign(s, known, ranges, report)
        elif isinstance(s, Scope):
            _block(s.body, known, ranges, report)
        elif isinstance(s, If):
            for arm in (s.then, s.orelse or ()):
                _block(arm, _numbers(known), {}, report)
        elif isinstance(s, For):
            _loop(s, known, ranges, report)


def _numbers(known: Known) -> Known:
    """What is known in a block that may not run for every value of the counters around it: plain numbers."""
    return {v: x for v, x in known.items() if not x.factors}


def _loop(s: For, known: Known, ranges: Ranges, report: Report) -> None:
    trips = _trips(s, known)
    if trips is None or s.counter is None:
        _block(s.body, _numbers(known), {}, report)
    else:
        first, last = trips
        counter = Linear(first) if first == last else Linear(0, ((s.counter, 1),))
        _block(s.body, {**known, s.counter: counter}, {**ranges, s.counter: trips}, report)


def _trips(s: For, known: Known) -> tuple[int, int] | None:
    """The first and the last value of a loop's counter; None where it is not known, or where there is none."""
    bounds = [linear(e, known) for e in (s.start, s.stop, s.step)]
    if s.kind not in COUNTING or any(b is None or b.factors for b in bounds):
        return None
    start, stop, step = (b.constant for b in bounds if b is not None)
    if step <= 0 or start >= stop:
        return None
    return start, start + (stop - start - 1) // step * step


def linear(e: Expr, known: Known) -> Linear | None:
    """An integer expression as a :class:`Linear`; None where it is none, or reads what is not known."""
    if isinstance(e, Const):
        return Linear(e.value) if type(e.value) is int else None
    if isinstance(e, Var):
        return known.get(e)
    if isinstance(e, Unary):
        x = linear(e.operand, known)
        return Linear(0).plus(x, -1) if x is not None and e.op == "-" else None
    if not isinstance(e, Binary):
        return None
    left, right = linear(e.left, known), linear(e.right, known)
    if left is None or right is None:
        return None
    if e.op in ("+", "-"):
        return left.plus(right, 1 if e.op == "+" else -1)
    if e.op == "*" and not (left.factors and right.factors):
        number, other = (left, right) if not left.factors else (right, left)
        return Linear(0).plus(other, number.constant)
    return None


def _assign(s: Assign, known: Known, ranges: Ranges, report: Report) -> None:
    if isinstance(s.value, Call):
        if s.value.op in _WINDOWS:
            window = window_of(s.value)
            if window is not None:
                _judge(window, known, ranges, s.loc, report)
    elif len(s.targets) == 1 and isinstance(s.targets[0].type, ScalarType):
        value = linear(s.value, known)
        if value is not None:
            known[s.targets[0]] = value


# -- the window of a call --------------------------------------------------------------------------------------------------------


def window_of(call: Call) -> Window | None:
    """What a load or an extract reads, a store or an assemble writes.

    None where it cannot be told, or where the type check has refused the call already.
    """
    d = lookup(call.op)
    assert d is not None
    try:
        args, kwargs = canonical(call.op, call.args, call.kwargs)
        d.rule(args, dict(kwargs))
        return _WINDOWS[d.name](args)
    except OpError:
        return None


def _loaded(args: tuple[Expr, ...]) -> Window | None:
    return _window("tile.load", args[0], args[1], _sizes(dims("tile.load", "valid_shape", args[3])), "load a smaller valid shape")


def _stored(args: tuple[Expr, ...]) -> Window | None:
    tile = type_of(args[0])
    assert isinstance(tile, TileType)
    sizes, leading = _sizes(tile.valid), _rank(args[2]) - len(tile.valid)
    if len(args) > 3 and isinstance(args[3], ListExpr):
        given = _sizes(dims("tile.store", "shapes", args[3]))
        sizes = tuple(map(_least, given, sizes)) if len(given) == len(sizes) else given
    if leading > 0 and tile.space is not Space.ACC and sizes[:1] != (0,):
        sizes = (1, *sizes[1:])  # a tile that is declared flat: its rows may lie along several of the leading axes
    return _window("tile.store", args[2], args[1], sizes, "narrow the tile by tile.set_validshape")


def _extracted(args: tuple[Expr, ...]) -> Window | None:
    source, sizes = type_of(args[0]), _sizes(dims("tile.extract", "shape", args[3]))
    assert isinstance(source, TileType)
    return Window("tile.extract", "tile", source.shape, (args[1], args[2]), sizes, "extract a smaller shape")


def _assembled(args: tuple[Expr, ...]) -> Window | None:
    dst, src = type_of(args[0]), type_of(args[1])
    assert isinstance(dst, TileType)
    assert isinstance(src, TileType)
    if not isinstance(args[2], ListExpr):
        return None
    return Window("tile.assemble", "tile", dst.shape, args[2].items, _sizes(src.valid), "narrow the tile by tile.set_validshape")


#: The operations whose windows are judged. The type check has seen their operands.
_WINDOWS = {"tile.load": _loaded, "tile.store": _stored, "tile.extract": _extracted, "tile.assemble": _assembled}


def _sizes(shape: tuple[Dim, ...]) -> Sizes:
    return tuple([d if isinstance(d, int) else None for d in shape])


def _least(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


def _rank(tensor: Expr) -> int:
    t = type_of(tensor)
    return len(t.shape) if isinstance(t, TensorType) else 0


def _window(op: str, tensor: Expr, offsets: Expr, sizes: Sizes, repair: str) -> Window | None:
    """The window, one element thick along the leading axes that ``sizes`` says nothing of."""
    t = type_of(tensor)
    if not isinstance(t, TensorType) or not isinstance(offsets, ListExpr):
        return None
    sizes = (*([1] * (len(t.shape) - len(sizes))), *sizes)
    if not len(offsets.items) == len(t.shape) == len(sizes):
        return None
    return Window(op, "tensor", t.shape, offsets.items, sizes, repair)


# -- the judgement ------------------------------------------------------------------------------------------------------------


def _judge(w: Window, known: Known, ranges: Ranges, loc: Loc, report: Report) -> None:
    if any(size is None or size == 0 for size in w.sizes):
        return
    for problem in _problems(w, known, ranges):
        report.add("bounds", w.op, f"{w.op}: {problem}", loc)


def _problems(w: Window, known: Known, ranges: Ranges) -> Iterator[str]:
    for axis, (extent, at, size) in enumerate(zip(w.extents, w.offsets, w.sizes, strict=True)):
        offset = linear(at, known)
        if offset is None or not isinstance(extent, int) or size is None:
            continue
        low, high = _reach(offset, ranges)
        where = f"along axis {axis} of the {w.what} {show(w.extents)}{_as_they_count(offset)}"
        if low < 0:
            yield f"the window begins at {low} {where}; offsets are 0 or more"
        if high + size > extent:
            repair = f"{w.repair} ({extent - high} there)" if extent > high else "move it back"
            yield f"the window ends at {high} + {size} = {high + size} {where}; {repair}"


def _as_they_count(offset: Linear) -> str:
    names = " and ".join(f"'{base_name(v.name)}'" for v, _ in offset.factors)
    return f", as {names} counts" if names else ""


def _reach(offset: Linear, ranges: Ranges) -> tuple[int, int]:
    """The least and the largest value of an offset."""
    ends = [sorted((factor * ranges[v][0], factor * ranges[v][1])) for v, factor in offset.factors]
    return offset.constant + sum(x for x, _ in ends), offset.constant + sum(x for _, x in ends)
