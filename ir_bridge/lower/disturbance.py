"""What may change between a product and its store: a grid that stands at the store reads its operands there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ir_bridge.analysis import Facts, may_share_memory
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import Assign, Block, Call, Var, vars_in, walk
from ir_bridge.ir.ops_registry import lookup
from ir_bridge.ir.types import Space, TileType


def disturbance(operands: Iterable[Var], between: Block, facts: Facts) -> str | None:
    """What in ``between`` (nested statements too) may change an operand where it lies, with its place; None when nothing may."""
    for s in walk(between):
        if not isinstance(s, Assign) or not isinstance(s.value, Call):
            continue
        for touched in _may_be_changed(s.value):
            for operand in operands:
                if _same_space(touched, operand) and may_share_memory(touched, operand, facts):
                    return f"{s.value.op} at {s.loc} may change {base_name(operand.name)!r} before its store"
    return None


def _may_be_changed(call: Call) -> Iterator[Var]:
    """Tiles that a call may write to: what an operation updates in place, every tile that an unknown one is given."""
    op = lookup(call.op)
    if op is None:
        yield from (v for v in vars_in(call) if isinstance(v.type, TileType))
        return
    written = op.effects.writes if op.effects.in_place is None else (op.effects.in_place, *op.effects.writes)
    for i in written:
        v = call.args[i] if i < len(call.args) else None
        if isinstance(v, Var) and isinstance(v.type, TileType) and v.type.space is not Space.ACC:
            yield v


def _same_space(a: Var, b: Var) -> bool:
    """Could the two tiles lie in the same memory space?"""
    assert isinstance(a.type, TileType)
    assert isinstance(b.type, TileType)
    return a.type.space is None or b.type.space is None or a.type.space is b.type.space
