"""What consumers demand of each tensor value: the spaces its tiles must be loaded into, and the boxing of cube operands.

Driven by the registry's ``inputs`` alone (specification 2, "consumer-driven memory spaces"): nothing here asks whether an
operation is a matmul. A demand runs back through views of operand 0, through loops and through branches, to what makes the value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from cost.dtypes import DType
from cost.physical import align_up, box
from ir_bridge.convert.flow import Flow
from ir_bridge.convert.registry import Conversion, Input, conversion_of
from ir_bridge.ir.nodes import Assign, Block, Call, Const, Expr, For, Function, If, Return, Scope, Var
from ir_bridge.ir.types import Dim, Space, TensorType


class Box(NamedTuple):
    """One axis of a cube operand, to be rounded up to a multiple of ``align`` elements."""

    axis: int
    align: int


class Demand(NamedTuple):
    """A consumer wants the value in ``space``; ``box`` when the tile's physical size must be whole fractals."""

    space: Space
    box: Box | None = None


@dataclass(slots=True)
class Demands:
    """What is demanded of each value, in the order of the consumers."""

    table: dict[Var, list[Demand]] = field(default_factory=dict)
    accumulators: dict[Var, int] = field(default_factory=dict)

    def spaces(self, v: Var) -> tuple[Space, ...]:
        """The spaces a load of ``v`` must fill; Vec when nobody asks."""
        found = tuple(dict.fromkeys(d.space for d in self.table.get(v, ())))
        return found or (Space.VEC,)

    def box(self, v: Var, space: Space) -> Box | None:
        """The boxing of ``v`` in ``space``: only when every consumer there asks for it on the same axis."""
        asked = [d.box for d in self.table.get(v, ()) if d.space is space]
        first = asked[0] if asked else None
        if first is None or any(b is None or b.axis != first.axis for b in asked):
            return None
        return Box(first.axis, max(b.align for b in asked if b is not None))

    def accumulator_rows(self, v: Var) -> int | None:
        """The granularity of M of the accumulator that ``v`` is a state of; None when it is not accumulated into."""
        return self.accumulators.get(v)


def is_transposed(call: Call, keyword: str | None) -> bool:
    """Is the literal keyword set at this call?"""
    value = call.kwarg(keyword) if keyword is not None else None
    return isinstance(value, Const) and bool(value.value)


def granularity(call: Call, i: Input, dtype: DType) -> int:
    """What the boxed axis must be a multiple of: the blocks of every tile it runs through (all are powers of two).

    M runs through the left operand in Mat and the accumulator. N runs through the right operand in Mat, where a block is
    16 rows by 32 bytes, the same operand in Right, where it is the other way round, and the accumulator.
    """
    loaded = box("row_major", dtype, Space.MAT.value)[boxed_axis(call, i)]
    accumulator = box("row_major", dtype, Space.ACC.value)
    if i.cube_axis == "m":
        return max(loaded, accumulator[0])
    return max(loaded, box("col_major", dtype, Space.RIGHT.value)[1], accumulator[1])


def boxed_axis(call: Call, i: Input) -> int:
    """The axis of the loaded tile that M or N lies on: a transposed operand is loaded as it is in memory."""
    natural = 0 if i.cube_axis == "m" else 1
    return 1 - natural if is_transposed(call, i.transposed_by) else natural


def boxed(shape: tuple[Dim, ...], box: Box) -> tuple[Dim, ...]:
    """The shape with one axis rounded up to whole fractals; an extent that is no number stays."""
    extent = shape[box.axis]
    if not isinstance(extent, int):
        return shape
    rounded = align_up(extent, box.align)
    return (rounded, shape[1]) if box.axis == 0 else (shape[0], rounded)


def demands_of(f: Function, flow: Flow) -> Demands:
    """Every demand in a function, propagated to the producers."""
    found = Demands()
    calls: list[tuple[Assign, Call, Conversion]] = []
    plain: list[Expr] = []
    views: list[tuple[Var, Var, bool]] = []
    _walk(f.body, calls, plain, views)
    _accumulators(found, flow, calls)
    work: list[tuple[Var, Demand]] = []
    for s, call, c in calls:
        _call_demands(found, s, call, c, work)
    work.extend([(e, Demand(Space.VEC)) for e in plain if type(e) is Var])
    back: dict[Var, list[tuple[Var, bool]]] = {}
    for target, source, boxes in views:
        back.setdefault(target, []).append((source, boxes))
    for target, sources in flow.sources.items():
        back.setdefault(target, []).extend([(s, True) for s in sources])
    _spread(found, work, back)
    return found


def _walk(
    block: Block, calls: list[tuple[Assign, Call, Conversion]], plain: list[Expr], views: list[tuple[Var, Var, bool]]
) -> None:
    for s in block:
        if isinstance(s, Assign):
            _assign(s, calls, views)
        elif isinstance(s, Return):
            plain.extend(s.values)
        elif isinstance(s, (For, Scope)):
            _walk(s.body, calls, plain, views)
        elif isinstance(s, If):
            _walk(s.then, calls, plain, views)
            _walk(s.orelse or (), calls, plain, views)


def _assign(s: Assign, calls: list[tuple[Assign, Call, Conversion]], views: list[tuple[Var, Var, bool]]) -> None:
    if not isinstance(s.value, Call):
        return
    c = conversion_of(s.value.op)
    if c is None:
        return
    calls.append((s, s.value, c))
    source = s.value.args[0] if s.value.args else None
    if c.view and type(source) is Var and len(s.targets) == 1:
        views.append((s.targets[0], source, c.boxes_through))


def _is_matrix(e: Expr) -> bool:
    return type(e) is Var and isinstance(e.type, TensorType) and len(e.type.shape) == 2


def _accumulator_input(c: Conversion) -> int | None:
    for i in c.inputs:
        if i.demand.space is Space.ACC:
            return i.index
    return None


def _accumulators(found: Demands, flow: Flow, calls: list[tuple[Assign, Call, Conversion]]) -> None:
    """Join the states of each accumulator, and take the largest granularity of M that any product into it needs."""
    parent: dict[Var, Var] = {}

    def top(v: Var) -> Var:
        while (up := parent.get(v, v)) is not v:
            parent[v] = parent.get(up, up)
            v = up
        return v

    for target, sources in flow.sources.items():
        for source in sources:
            parent[top(source)] = top(target)
    accumulating = []
    for s, call, c in calls:
        at = _accumulator_input(c)
        acc = call.args[at] if at is not None else None
        if type(acc) is Var and len(s.targets) == 1:
            parent[top(acc)] = top(s.targets[0])
            accumulating.append((s.targets[0], call, c))
    rows: dict[Var, int] = {}
    for target, call, c in accumulating:
        for i in c.inputs:
            operand = call.args[i.index]
            if i.cube_axis == "m" and _is_matrix(operand):
                rows[top(target)] = max(rows.get(top(target), 1), granularity(call, i, operand.type.dtype))  # type: ignore[union-attr]
    if rows:
        members = {*parent, *(t for t, _, _ in accumulating), *(s.targets[0] for s, _, _ in calls if len(s.targets) == 1)}
        found.accumulators.update({v: rows[top(v)] for v in members if top(v) in rows})


def _call_demands(found: Demands, s: Assign, call: Call, c: Conversion, work: list[tuple[Var, Demand]]) -> None:
    for index, operand in enumerate(call.args):
        if type(operand) is not Var or index in c.memory or (c.view and index == 0):
            continue
        i = c.input_at(index)
        if i is None:
            work.append((operand, Demand(Space.VEC)))
        elif i.demand.space is Space.ACC:
            work.append((operand, Demand(Space.ACC)))
        elif i.demand.landing is not None:
            work.append((operand, Demand(i.demand.landing, box_of(found, s, call, c, i))))


def box_of(found: Demands, s: Assign, call: Call, c: Conversion, i: Input) -> Box | None:
    """The boxing a cube operand needs at this call; the table of specification 2, "scope, and what is left out"."""
    operand = call.args[i.index]
    if i.cube_axis is None or not all(_is_matrix(call.args[j.index]) for j in c.inputs):
        return None
    align = granularity(call, i, operand.type.dtype)  # type: ignore[union-attr]
    rows = found.accumulators.get(s.targets[0]) if len(s.targets) == 1 else None
    if i.cube_axis == "m":
        return Box(boxed_axis(call, i), max(align, rows or 1))
    # an accumulator that other products go into must keep their N, which is not rounded
    return None if rows is not None else Box(boxed_axis(call, i), align)


def _spread(found: Demands, work: list[tuple[Var, Demand]], back: dict[Var, list[tuple[Var, bool]]]) -> None:
    while work:
        v, demand = work.pop()
        have = found.table.setdefault(v, [])
        if demand in have:
            continue
        have.append(demand)
        for source, boxes in back.get(v, ()):
            work.append((source, demand if boxes else Demand(demand.space)))
