"""ASW_Basic and StreamK as programs: blocks of C dealt to the cores, with and without cuts of K between cores."""

from __future__ import annotations

from cost.batch import tiling
from cost.batch.chip import Chip
from cost.batch.schedule import Schedule
from cost.physical import align_up, ceil_div
from ir_bridge.batch.builder import Builder, Index, add, div, larger, mod, mul, smaller, sub
from ir_bridge.batch.iterate import PIPELINE, RANGE, Core
from ir_bridge.batch.operands import Side, Tensors
from ir_bridge.batch.product import Panels, Tile, accumulate
from ir_bridge.ir.nodes import Binary, Symbol, Var
from ir_bridge.ir.ops_registry import as_expr

Place = tuple[Index, Index]
ATOMIC_ADD = Symbol("pl.AtomicType.Add")


def swizzled(b: Builder, index: Index, rows: Index, columns: Index, window: int) -> Place:
    """(row, column) of the index-th block: windows of rows, columns within a window there and back ("ASW 滑窗蛇形").

    Even windows run forwards, odd ones backwards, so that a window begins with the columns the last one ended with.
    """
    if isinstance(rows, int) and rows == 1:
        return 0, index
    if isinstance(columns, int) and columns == 1:
        return index, 0
    per_window = mul(window, columns)
    w = b.scalar("window", div_by(index, per_window))
    inside = b.scalar("inside", mod(index, per_window))
    height = b.scalar("height", smaller(window, sub(rows, mul(w, window))))
    forward = b.scalar("forward", div_by(inside, height))
    row = b.scalar("block_row", add(mul(w, window), mod(inside, height)))
    turn = mul(mod(w, 2), sub(sub(columns, 1), mul(2, forward)))
    return row, b.scalar("block_column", add(forward, turn))


def div_by(a: Index, b: Index) -> Index:
    """⌊a / b⌋ for any index b."""
    if isinstance(b, int):
        return div(a, b)
    return Binary("//", as_expr(a), as_expr(b))


def blocks_core(t: Tensors, chip: Chip, s: Schedule) -> Core:
    """The body of a core: every ``cores``-th block, in swizzled order."""
    p, c = t.problem, s.columns
    assert s.tile is not None
    held = c.get("held", tiling.HELD_A)
    work = _Blocks(t, chip, s.tile, held, (c["m"], c["n"]), c["accumulators"] == 2)
    rows = 1 if held == tiling.HELD_A else ceil_div(p.M, c["m"])
    columns = 1 if held == tiling.HELD_B else ceil_div(p.N, c["n"])
    cuts = c.get("cut_m", 1), c.get("cut_n", 1)

    def run(b: Builder, core: Index, state: Var) -> Var:
        kept = work.keep(b)
        if cuts == (1, 1):
            return work.deal(b, kept, (core, p.B * rows * columns, chip.cores), None, (rows, columns), state)

        def batch(inner: Builder, u: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            def part(innermost: Builder, i: Index, states: tuple[Var, ...]) -> tuple[Var, ...]:
                return (work.part(innermost, kept, core, u, i, (rows, columns), cuts, states[0]),)

            return inner.loop(RANGE, "part", (0, cuts[0] * cuts[1], 1), carried, part)

        (done,) = b.loop(RANGE, "u", (0, p.B, 1), [state], batch)
        return done

    return run


class _Blocks:
    """One core's blocks; ``sizes`` are M^t and N^t, ``two`` whether accumulators take turns."""

    def __init__(self, t: Tensors, chip: Chip, tile: Tile, held: int, sizes: tuple[int, int], two: bool) -> None:
        self.t, self.chip, self.tile, self.held, self.two = t, chip, tile, held, two
        p = t.problem
        self.m, self.n = sizes
        depth, trip = tiling.stream_panels(p, chip, self.m, self.n, tile[2], p.K, held)
        self.panels = Panels(depth, 0, p.K, trip)
        self.deep = align_up(p.K, tile[2])

    def keep(self, b: Builder) -> Side | None:
        """The held operand, loaded once a core."""
        p = self.t.problem
        if self.held == tiling.HELD_A:
            return self.t.a.load(b, 0, 0, align_up(p.M, self.m), p.M, 0, self.deep, p.K)
        if self.held == tiling.HELD_B:
            return self.t.b.load(b, 0, 0, align_up(p.N, self.n), p.N, 0, self.deep, p.K)
        return None

    def deal(
        self,
        b: Builder,
        kept: Side | None,
        bounds: tuple[Index, Index, Index],
        batch: Index | None,
        plane: tuple[int, int],
        state: Var,
    ) -> Var:
        """Blocks ``bounds`` of the plane, of all batches one after another where ``batch`` is None."""
        rows, columns = plane

        def body(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            u = inner.scalar("batch", div(i, rows * columns)) if batch is None else batch
            inside = inner.scalar("index", mod(i, rows * columns)) if batch is None else i
            place = swizzled(inner, inside, rows, columns, self.chip.window)
            return (self.block(inner, kept, u, place, carried[0]),)

        (done,) = b.loop(PIPELINE, "item", bounds, [state], body, double_c=self.two)
        return done

    def part(
        self,
        b: Builder,
        kept: Side | None,
        core: Index,
        u: Index,
        part: Index,
        plane: tuple[int, int],
        cuts: tuple[int, int],
        state: Var,
    ) -> Var:
        """The blocks of one L2 part, dealt along its diagonals so that cores do not read the same addresses at once."""
        rows, columns = (ceil_div(x, c) for x, c in zip(plane, cuts, strict=True))
        first_row, first_column = mul(div(part, cuts[1]), rows), mul(mod(part, cuts[1]), columns)
        high = b.scalar("part_rows", larger(smaller(rows, sub(plane[0], first_row)), 0))
        wide = b.scalar("part_columns", larger(smaller(columns, sub(plane[1], first_column)), 0))

        def body(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            row = inner.scalar("part_row", mod(i, high))
            column = mod(add(div_by(i, high), row), wide)
            place = (
                inner.scalar("block_row", add(first_row, row)),
                inner.scalar("block_column", add(first_column, column)),
            )
            return (self.block(inner, kept, u, place, carried[0]),)

        bounds = (core, mul(high, wide), self.chip.cores)
        (done,) = b.loop(PIPELINE, "item", bounds, [state], body, double_c=self.two)
        return done

    def block(self, b: Builder, kept: Side | None, u: Index, place: Place, state: Var) -> Var:
        """One block; under a held operand, all blocks of its extent."""
        row, column = b.scalar("row", mul(place[0], self.m)), b.scalar("column", mul(place[1], self.n))
        if self.held == tiling.NOTHING:
            return self.window(b, kept, u, row, column, state)
        p = self.t.problem
        along = p.M if self.held == tiling.HELD_A else p.N
        size = self.m if self.held == tiling.HELD_A else self.n

        def body(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            at = (i, column) if self.held == tiling.HELD_A else (row, i)
            return (self.window(inner, kept, u, *at, carried[0]),)

        (done,) = b.loop(RANGE, "i", (0, along, size), [state], body)
        return done

    def window(self, b: Builder, kept: Side | None, u: Index, row: Index, column: Index, state: Var) -> Var:
        """C[u] at (row, column), summed over panels of K."""
        p, t = self.t.problem, self.t
        rows, columns = b.clipped("rows", row, self.m, p.M), b.clipped("columns", column, self.n, p.N)

        def load(x: Builder, ks: Index, held: Index) -> tuple[Side, Side]:
            depth = self.panels.depth
            if kept is not None and self.held == tiling.HELD_A:
                left = Side(kept.mat, row, ks)
            else:
                left = t.a.load(x, u, row, self.m, rows, ks, depth, held)
            if kept is not None and self.held == tiling.HELD_B:
                return left, Side(kept.mat, ks, column)
            return left, t.b.load(x, u, column, self.n, columns, ks, depth, held)

        bias = t.bias_row(b, u, column, self.n, columns)
        acc = accumulate(b, self.tile, self.panels, load, p.sums, (rows, columns), bias)
        return t.store(b, acc, u, row, column, state)


# -- StreamK ---------------------------------------------------------------------------------------------------------


def stream_core(t: Tensors, chip: Chip, s: Schedule, atomic: bool) -> Core:
    """The body of a core: one segment of K of one block, to its place in the workspace, or added to C.

    The state is the workspace [grid_K · B · M, N] (segment by segment), or C itself.
    """
    p, c = t.problem, s.columns
    assert s.tile is not None
    tile = s.tile
    m, n = align_up(ceil_div(p.M, c["rows"]), p.box_m), align_up(ceil_div(p.N, c["columns"]), p.box_n)
    seg = tiling.segment(p, c["grid_k"])
    depth, _ = tiling.stream_panels(p, chip, m, n, tile[2], seg, tiling.NOTHING)
    rows, columns = ceil_div(p.M, m), ceil_div(p.N, n)
    items = p.B * rows * columns * c["grid_k"]

    def run(b: Builder, core: Index, state: Var) -> Var:
        def body(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            part = inner.scalar("segment", mod(i, c["grid_k"]))
            block = inner.scalar("block", div(i, c["grid_k"]))
            u = inner.scalar("batch", div(block, rows * columns))
            row = inner.scalar("row", mul(mod(div(block, columns), rows), m))
            column = inner.scalar("column", mul(mod(block, columns), n))
            start = inner.scalar("k_start", mul(part, seg))
            stop = inner.scalar("k_stop", smaller(add(start, seg), p.K))
            return (segment(inner, u, row, column, start, stop, part, carried[0]),)

        (done,) = b.loop(RANGE, "item", (core, items, chip.cores), [state], body)
        return done

    def segment(b: Builder, u: Index, row: Index, column: Index, start: Index, stop: Index, part: Index, state: Var) -> Var:
        held_rows, held_columns = b.clipped("rows", row, m, p.M), b.clipped("columns", column, n, p.N)

        def load(x: Builder, ks: Index, held: Index) -> tuple[Side, Side]:
            left = t.a.load(x, u, row, m, held_rows, ks, depth, held)
            return left, t.b.load(x, u, column, n, held_columns, ks, depth, held)

        acc = accumulate(b, tile, Panels(depth, start, stop), load, p.sums, (held_rows, held_columns))
        if atomic:
            return t.store(b, acc, u, row, column, state, atomic=ATOMIC_ADD)
        at = [add(mul(add(mul(part, p.B), u), p.M), row), column]
        return b.let("partial", "tile.store", acc, at, state)

    return run
