"""The product of one core: panels of K through L1, blocks of them through L0, one accumulator.

Written as specification 1 writes a K loop: one ``matmul_acc`` with the predicate "first block", or, with a bias, the first block
straight as ``matmul_bias`` and the rest in the loop. Boundary windows are narrowed tiles of the same loops, not copies of them:
what is loaded in a pipelined loop takes slots for all of its trips, so every copy would cost L1 and L0 twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cost.dtypes import DType
from ir_bridge.batch.builder import Builder, Index, add, both, is_zero
from ir_bridge.batch.operands import Side
from ir_bridge.ir.nodes import Binary, Const, Expr, LoopKind, Var
from ir_bridge.ir.ops_registry import as_expr
from ir_bridge.ir.types import Space, TileType

Tile = tuple[int, int, int]
#: Gives the operands of K from a panel's start, as much as it holds.
Load = Callable[[Builder, Index, Index], tuple[Side, Side]]
ALWAYS = Const(True)


@dataclass(frozen=True, slots=True)
class Panels:
    """How K streams: panels ``depth`` deep from ``start`` to ``stop``, ``trip`` of them a trip of a loop of ``stage`` buffers.

    ``stage`` 1 is a loop that overlaps nothing.
    """

    depth: int
    start: Index
    stop: Index
    trip: int = 1
    stage: int = 2

    @property
    def once(self) -> bool:
        """Is there one panel only?"""
        return isinstance(self.start, int) and isinstance(self.stop, int) and self.stop - self.start <= self.depth


def block(b: Builder, left: Side, right: Side, tile: Tile, k: Index) -> tuple[Var, Var]:
    """One L0 block of both operands: [m, k] in Left, [k, n] in Right."""
    m, n, depth = tile
    row = b.let("l", "tile.extract", left.mat, left.row, add(left.column, k), [m, depth], target_memory=Space.LEFT)
    column = b.let("r", "tile.extract", right.mat, add(right.row, k), right.column, [depth, n], target_memory=Space.RIGHT)
    return row, column


def add_panel(
    b: Builder, acc: Var, sides: tuple[Side, Side], tile: Tile, depth: Index, first: Expr | None, start: int = 0
) -> Var:
    """acc + left[:, start:depth] @ right[start:depth, :]; where ``first`` holds, the block at 0 overwrites instead."""

    def body(inner: Builder, k: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        left, right = block(inner, *sides, tile, k)
        if first is None:
            return (inner.let("acc", "tile.matmul_acc", carried[0], left, right),)
        begins = None if isinstance(k, int) else is_zero(k)
        cond = both(None if first is ALWAYS else first, begins) or ALWAYS
        return (inner.let("acc", "tile.matmul_acc", carried[0], left, right, cond),)

    (total,) = b.loop(LoopKind.PIPELINE, "k", (start, depth, tile[2]), [acc], body)
    return total


def accumulate(
    b: Builder, tile: Tile, panels: Panels, load: Load, sums: DType, held: tuple[Index, Index], bias: Var | None = None
) -> Var:
    """The sum over all panels: an accumulator in Acc, valid in ``held`` rows and columns."""
    if bias is not None:
        return narrowed(b, _with_bias(b, tile, panels, load, bias), held)
    if panels.once and panels.stop - panels.start <= tile[2]:
        left, right = block(b, *load(b, panels.start, panels.stop - panels.start), tile, 0)
        return narrowed(b, b.let("acc", "tile.matmul", left, right), held)
    seed = b.accumulator("seed", tile[:2], sums, *held)
    return _panel_loop(b, tile, panels, load, seed, ALWAYS)


def narrowed(b: Builder, acc: Var, held: tuple[Index, Index]) -> Var:
    """The accumulator valid in ``held`` rows and columns only: stacked operands are valid in their padding too."""
    assert isinstance(acc.type, TileType)
    return acc if acc.type.valid == held else b.let("acc", "tile.set_validshape", acc, *held)


def _panel_loop(b: Builder, tile: Tile, panels: Panels, load: Load, acc: Var, first: Expr | None) -> Var:
    """The loop over panels; ``first`` is None where the accumulator already holds something."""

    def body(inner: Builder, ks: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        starts = [add(ks, i * panels.depth) for i in range(panels.trip)]
        held = [inner.clipped("depth", s, panels.depth, panels.stop) for s in starts]
        sides = [load(inner, s, h) for s, h in zip(starts, held, strict=True)]
        total = carried[0]
        for i, (pair, h) in enumerate(zip(sides, held, strict=True)):
            total = add_panel(inner, total, pair, tile, h, _begins(ks, panels.start, first) if i == 0 else None)
        return (total,)

    kind = LoopKind.PIPELINE if panels.stage > 1 else LoopKind.RANGE
    bounds = (panels.start, panels.stop, panels.depth * panels.trip)
    (total,) = b.loop(kind, "ks", bounds, [acc], body, stage=panels.stage)
    return total


def _begins(ks: Index, start: Index, first: Expr | None) -> Expr | None:
    if first is None or isinstance(ks, int):
        return first
    return Binary("==", ks, as_expr(start))


def _with_bias(b: Builder, tile: Tile, panels: Panels, load: Load, bias: Var) -> Var:
    """The first block brings the bias, straight; the rest of its panel and the other panels are loops."""
    start, stop = panels.start, panels.stop
    assert isinstance(start, int)
    assert isinstance(stop, int)
    held = min(panels.depth, stop - start)
    sides = load(b, start, held)
    acc = b.let("acc", "tile.matmul_bias", *block(b, *sides, tile, 0), bias)
    if held > tile[2]:
        acc = add_panel(b, acc, sides, tile, held, None, tile[2])
    if stop - start <= panels.depth:
        return acc
    rest = Panels(panels.depth, start + panels.depth, stop, 1, panels.stage)
    return _panel_loop(b, tile, rest, load, acc, None)
