"""The bytes live in every buffer at every point of a function.

Positions number the statements in program order. Each tile gets a live range from its definition to its last use; a tile that is
defined before a loop and used in it lives through the whole loop. In-place operations, views, loop-carried chains and the values
that meet behind a branch share one buffer (facts/pypto_syntax.md; specification 1, "unified physical size contract").

Pipelines overlap their trips: what is loaded, extracted or moved in a ``pipeline(stage=F)`` body has F slots. Nested pipelines
do not multiply: what goes into L0A and L0B has the slots of the loop it stands in (an inner loop runs to its end within one copy
of the outer body), what goes into Mat and Vec those of the deepest pipeline around it, through that loop. In the bias table every
level keeps its own slots ("Bias window limits"). An accumulator has one slot, or two in a loop marked
``pipeline_double_buffer_c``.

Copies of an L0 panel are counted while the panel lives: fetching it earlier is what planners give up first where room is short.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from cost.dtypes import FP32, accumulator
from cost.hardware import Target
from cost.physical import accumulator_bytes
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    Assign,
    Block,
    Call,
    Const,
    Expr,
    For,
    Function,
    If,
    Loc,
    LoopKind,
    Scope,
    Stmt,
    Var,
    Yield,
    expressions_of,
    vars_in,
)
from ir_bridge.ir.ops import OpDef, lookup, type_of
from ir_bridge.ir.types import Space, TileType

#: The buffer of a target that holds a space.
BUFFER_OF = {
    Space.LEFT: "l0a",
    Space.RIGHT: "l0b",
    Space.ACC: "l0c",
    Space.MAT: "mat",
    Space.BIAS: "bias",
    Space.VEC: "vec",
}


#: L0 operands: fetched panel by panel.
_PANELS = (Space.LEFT, Space.RIGHT, Space.BIAS)


@dataclass(slots=True)
class LiveRange:
    """One allocation: ``slots`` copies of ``bytes`` in ``buffer``, live from position ``start`` to ``end``, both included."""

    name: str
    buffer: str
    bytes: int
    slots: int
    start: int
    end: int
    loc: Loc

    @property
    def total(self) -> int:
        return self.bytes * self.slots


@dataclass(slots=True)
class _Loop:
    start: int
    stage: int
    double_c: bool
    #: ranges that live to the end of this loop, and those that fill it from its start
    through: list[int] = field(default_factory=list)
    filling: list[int] = field(default_factory=list)


def footprint(t: TileType, target: Target) -> int | None:
    """Physical bytes of a tile in its buffer; None when its shape is not static."""
    if not t.static:
        return None
    if t.space is Space.ACC and len(t.shape) == 2:
        m, n = t.shape
        assert isinstance(m, int)
        assert isinstance(n, int)
        return accumulator_bytes(target, m, n, t.dtype)
    if t.space is Space.BIAS:  # the table holds accumulator elements, whatever was moved into it
        return max(t.dtype.bytes, FP32.bytes) * t.elements()
    return t.dtype.footprint(t.elements())


def live_ranges(function: Function, target: Target) -> list[LiveRange]:
    """Every allocation of a function, in the order of its definition.

    A product straight on Mat or Vec operands counts them whole in L0A, L0B and the bias table, at that point only.
    """
    return _Liveness(target).run(function)


def peak_bytes(function: Function, target: Target) -> dict[str, int]:
    """The most bytes live at once in each buffer of ``target`` ("l0a", "l0b", "l0c", "mat", "bias", "vec")."""
    peaks = dict.fromkeys(BUFFER_OF.values(), 0)
    for point in profile(live_ranges(function, target)):
        peaks[point.buffer] = max(peaks[point.buffer], point.bytes)
    return peaks


@dataclass(frozen=True, slots=True)
class Point:
    """``bytes`` live in ``buffer`` from ``position`` until the next point of that buffer; ``live`` says what, in order."""

    buffer: str
    position: int
    bytes: int
    live: tuple[LiveRange, ...]
    arrived: LiveRange | None


def profile(ranges: list[LiveRange], target: Target | None = None) -> Iterator[Point]:
    """The bytes live in each buffer wherever they change, in program order, one buffer after the other.

    ``live`` is filled in only where more bytes are live than the buffer of ``target`` has (without a target nowhere).
    """
    for buffer in BUFFER_OF.values():
        mine = [r for r in ranges if r.buffer == buffer]
        events: dict[int, list[tuple[int, int]]] = {}
        for i, r in enumerate(mine):
            events.setdefault(r.start, []).append((1, i))
            events.setdefault(r.end + 1, []).append((0, i))
        total = 0
        active: dict[int, None] = {}
        for position in sorted(events):
            arrived: LiveRange | None = None
            for begins, i in sorted(events[position]):
                if begins:
                    active[i] = None
                    total += mine[i].total
                    arrived = mine[i]
                else:
                    del active[i]
                    total -= mine[i].total
            full = target is not None and total > target.capacity(buffer)
            live = tuple([mine[i] for i in active]) if full else ()
            yield Point(buffer, position, total, live, arrived)


# -- the walk ------------------------------------------------------------------------------------------------------------------


class _Liveness:
    def __init__(self, target: Target) -> None:
        self.target = target
        self.position = 0
        self.ranges: list[LiveRange] = []
        self.parent: list[int] = []
        self.range_of: dict[Var, int] = {}
        self.loops: list[_Loop] = []

    def run(self, function: Function) -> list[LiveRange]:
        for p in function.params:
            self.allocate(p.var, function.loc, None)
        self.block(function.body)
        return [r for i, r in enumerate(self.ranges) if self.parent[i] == i]

    # -- ranges ------------------------------------------------------------------------------------------------------------------

    def root(self, i: int) -> int:
        parent = self.parent
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def new(self, name: str, buffer: str, size: int, loc: Loc) -> int:
        self.ranges.append(LiveRange(name, buffer, size, 1, self.position, self.position, loc))
        self.parent.append(len(self.parent))
        return len(self.parent) - 1

    def allocate(self, v: Var, loc: Loc, d: OpDef | None) -> None:
        """A buffer of its own for ``v``, if it is a placed tile of static shape."""
        t = v.type
        if type(t) is not TileType or t.space not in BUFFER_OF:
            return
        size = footprint(t, self.target)
        if size is None:
            return
        i = self.range_of[v] = self.new(v.name, BUFFER_OF[t.space], size, loc)
        if self.loops:
            self.multiply(i, t.space, d)

    def multiply(self, i: int, space: Space, d: OpDef | None) -> None:
        """The slots that the enclosing pipelines give an allocation."""
        if space is Space.ACC:
            marked = [loop for loop in self.loops if loop.double_c]
            slots = 2 if marked else 1
        else:
            marked = [loop for loop in self.loops if loop.stage > 1]
            slots = 1 if d is None or d.kind != "transfer" else self.copies(space)
        if slots > 1:
            self.ranges[i].slots = slots
            if space not in _PANELS:
                marked[-1].filling.append(i)

    def copies(self, space: Space) -> int:
        """How many copies of a transferred tile the loops around it have in flight."""
        stages = [loop.stage for loop in self.loops]
        if space is Space.BIAS:
            return math.prod(stages)
        return stages[-1] if space in _PANELS else max(stages)

    def share(self, a: int, b: int) -> int:
        """Two names of one buffer: one range that covers both."""
        a, b = self.root(a), self.root(b)
        if a == b or self.ranges[a].buffer != self.ranges[b].buffer:
            return a
        if b < a:
            a, b = b, a
        x, y = self.ranges[a], self.ranges[b]
        x.bytes, x.slots = max(x.bytes, y.bytes), max(x.slots, y.slots)
        x.start, x.end = min(x.start, y.start), max(x.end, y.end)
        self.parent[b] = a
        return a

    def alias(self, v: Var, e: Expr, loc: Loc) -> None:
        """``v`` is another name of the buffer of ``e``; of one of its own when that one is not known."""
        i = self.range_of.get(e) if type(e) is Var else None
        if i is None:
            self.allocate(v, loc, None)
        elif type(v.type) is TileType:
            self.range_of[v] = i
            self.touch(i)

    def touch(self, i: int) -> None:
        """The buffer is live here; through every loop around here that it was not born in."""
        r = self.ranges[i := self.root(i)]
        r.end = max(r.end, self.position)
        for loop in self.loops:
            if loop.start > r.start:
                loop.through.append(i)
                break

    def use(self, e: Expr) -> None:
        range_of = self.range_of
        if type(e) is Var:
            if e in range_of:
                self.touch(range_of[e])
            return
        for v in vars_in(e):
            if v in range_of:
                self.touch(range_of[v])

    # -- statements ----------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for s in block:
            self.position += 1
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, Assign):
            self.assign(s)
        elif isinstance(s, For):
            self.loop(s)
        elif isinstance(s, If):
            self.branch(s)
        else:
            for e in expressions_of(s):
                self.use(e)
            if isinstance(s, Scope):
                self.block(s.body)

    def assign(self, s: Assign) -> None:
        value = s.value
        if type(value) is not Call:
            self.use(value)
            for t in s.targets:
                self.alias(t, value, s.loc)
            return
        for e in value.args:
            self.use(e)
        for _, e in value.kwargs:
            self.use(e)
        d = lookup(value.op)
        same = None if d is None else d.effects.view if d.effects.in_place is None else d.effects.in_place
        for t in s.targets:
            if same is not None and same < len(value.args):
                self.alias(t, value.args[same], s.loc)
            else:
                self.allocate(t, s.loc, d)
        if d is not None and d.kind == "cube":
            self.operands(d, value, s.loc)

    def operands(self, d: OpDef, call: Call, loc: Loc) -> None:
        """Matrix operands that are not in their own buffer yet take their whole size there, at this point."""
        acc = None
        for a, e in zip(d.args, call.args, strict=False):
            t = type_of(e)
            if not a.spaces or a.spaces[0] is Space.ACC or not isinstance(t, TileType):
                continue
            final = a.spaces[0]
            acc = acc or accumulator(t.dtype)
            if t.space is final or final not in BUFFER_OF or not t.static:
                continue
            dtype = acc if final is Space.BIAS else t.dtype
            name = e.name if isinstance(e, Var) else d.name
            self.new(name, BUFFER_OF[final], dtype.footprint(t.elements()), loc)

    def loop(self, s: For) -> None:
        for e in expressions_of(s):
            self.use(e)
        for v, e in zip(s.carried, s.inits, strict=False):
            self.alias(v, e, s.loc)
        self.position += 1
        stage = s.stage or 1 if s.kind is LoopKind.PIPELINE else 1
        self.loops.append(_Loop(self.position, stage, _marked(s, "pipeline_double_buffer_c")))
        self.block(s.body)
        self.position += 1
        self.meet(s.body, s.carried)
        loop = self.loops.pop()
        for i in loop.through:
            r = self.ranges[i := self.root(i)]
            r.end = max(r.end, self.position)
            if self.loops:
                self.touch(i)
        for i in loop.filling:
            r = self.ranges[self.root(i)]
            r.start, r.end = min(r.start, loop.start), max(r.end, self.position)
        for v, e in zip(s.results, s.carried, strict=False):
            self.alias(v, e, s.loc)

    def branch(self, s: If) -> None:
        self.use(s.cond)
        self.block(s.then)
        if s.orelse is not None:
            self.block(s.orelse)
        self.position += 1
        last = s.then[-1] if s.then else None
        values = last.values if isinstance(last, Yield) else ()
        for v, e in zip(s.results, values, strict=False):
            self.alias(v, e, s.loc)
        if s.orelse is not None:
            self.meet(s.orelse, s.results)

    def meet(self, block: Block, receivers: tuple[Var, ...]) -> None:
        """The values a block yields share the buffers of those who receive them."""
        last = block[-1] if block else None
        if not isinstance(last, Yield):
            return
        for v, e in zip(receivers, last.values, strict=False):
            if type(e) is Var and e in self.range_of and v in self.range_of:
                self.touch(self.share(self.range_of[v], self.range_of[e]))


def _marked(s: For, attribute: str) -> bool:
    """Is the loop marked with ``attribute`` true?"""
    return any(k == attribute and isinstance(v, Const) and bool(v.value) for k, v in s.attrs)


# -- findings --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overflow:
    """A point where a buffer begins to hold more than it can, and the allocation that made it so."""

    buffer: str
    bytes: int
    capacity: int
    live: tuple[LiveRange, ...]
    loc: Loc


def overflows(function: Function, target: Target) -> list[Overflow]:
    """Where each buffer goes from fitting to not fitting."""
    found: list[Overflow] = []
    over: dict[str, bool] = {}
    for point in profile(live_ranges(function, target), target):
        capacity = target.capacity(point.buffer)
        too_much = point.bytes > capacity
        if too_much and not over.get(point.buffer):
            assert point.arrived is not None
            found.append(Overflow(point.buffer, point.bytes, capacity, point.live, point.arrived.loc))
        over[point.buffer] = too_much
    return found


def describe_overflow(o: Overflow) -> str:
    """An overflow in words: what is live, largest first, and how much too much it is."""
    largest = sorted(o.live, key=lambda r: -r.total)[:6]
    parts = [f"'{base_name(r.name)}' {r.bytes}" + (f" x {r.slots} slots" if r.slots > 1 else "") for r in largest]
    if len(o.live) > len(largest):
        parts.append(f"{len(o.live) - len(largest)} more")
    return f"{o.buffer} holds {o.bytes} bytes here, {o.capacity} are available: {', '.join(parts)}"
