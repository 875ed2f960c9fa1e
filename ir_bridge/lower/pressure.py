"""How full Mat is: what the source keeps there at every point, and whose scratch would be alive then.

For exact extraction, which must not choose scratches that do not fit together (specification 1 leaves this check to later work).
"""

from __future__ import annotations

from collections.abc import Iterator

from cost.hardware import Target
from egraph_rules.program import MatPoint
from ir_bridge.ir.nodes import CORE_KINDS, Function, Program
from ir_bridge.ir.verifier_memory import LiveRange, live_ranges
from ir_bridge.lower.lower import Lowered


def mat_points(program: Program, lowered: Lowered, target: Target) -> list[MatPoint]:
    """The points where Mat could overflow: wherever a tile or a scratch comes to life."""
    points: list[MatPoint] = []
    for f in program.functions:
        if f.kind in CORE_KINDS:
            points.extend(_points(f, lowered, target))
    return points


def _points(f: Function, lowered: Lowered, target: Target) -> Iterator[MatPoint]:
    ranges = live_ranges(f, target)
    fixed = [r for r in ranges if r.buffer == "mat"]
    scratches = _scratch_ranges(f, ranges, lowered)
    for at in sorted({r.start for r in (*fixed, *scratches.values())}):
        alive = frozenset(v for v, r in scratches.items() if r.start <= at <= r.end)
        if alive:
            yield MatPoint(target.mat - sum(r.total for r in fixed if r.start <= at <= r.end), alive)


def _scratch_ranges(f: Function, ranges: list[LiveRange], lowered: Lowered) -> dict[int, LiveRange]:
    """The range of each value that might be kept in Mat: from its product on, to its last use (or its cast's)."""
    by_name = {r.name: r for r in reversed(ranges) if r.buffer != "mat"}  # the definition's range, not an operand's copy
    found: dict[int, LiveRange] = {}
    for s in lowered.facts.products:
        if lowered.where[s.v][0] != f.name:
            continue
        own = by_name.get(lowered.values[s.v].name)
        cast = by_name.get(lowered.values[s.cast].name) if s.cast >= 0 else None
        if own is not None:
            found[s.v] = own
        if own is not None and cast is not None:
            found[s.cast] = LiveRange(cast.name, "mat", cast.bytes, 1, own.start, cast.end, cast.loc)
    return found
