"""IterBatch and MergeBatch as programs: every core takes its share of batches, one after another or several as one."""

from __future__ import annotations

from collections.abc import Callable

from cost.batch import tiling
from cost.batch.chip import Chip
from cost.batch.problem import BatchProblem
from cost.batch.schedule import Schedule, iter_piece, iter_stage
from cost.physical import align_up, ceil_div
from ir_bridge.batch.builder import Builder, Index, add, div, mul, smaller, sub
from ir_bridge.batch.operands import Side, Tensors
from ir_bridge.batch.product import Panels, Tile, accumulate
from ir_bridge.ir.nodes import LoopKind, Var

Core = Callable[[Builder, Index, Var], Var]
RANGE, PIPELINE = LoopKind.RANGE, LoopKind.PIPELINE


def share(b: Builder, p: BatchProblem, chip: Chip, core: Index) -> tuple[Index, Index]:
    """First and one past the last batch of a core's share, ⌈B/C⌉ batches each."""
    per = ceil_div(p.B, chip.cores)
    start = b.scalar("start", mul(core, per))
    if per * chip.cores == p.B:
        return start, b.scalar("stop", add(start, per))
    return start, b.scalar("stop", smaller(add(start, per), p.B))


# -- IterBatch -------------------------------------------------------------------------------------------------------


def iter_core(t: Tensors, chip: Chip, s: Schedule) -> Core:
    """The body of a core: its batches in turn."""
    p, c = t.problem, s.columns
    assert s.tile is not None
    tile = s.tile
    per, several = ceil_div(p.B, chip.cores), c["batches"]
    doubled = c["case"] in (tiling.PING_PONG, tiling.PING_LEFT, tiling.PING_RIGHT)

    def run(b: Builder, core: Index, state: Var) -> Var:
        start, stop = share(b, p, chip, core)
        one = {
            tiling.PING_PONG: _resident(t, tile, several),
            tiling.ONE_BATCH: _resident(t, tile, 1),
            tiling.ONE_LEFT: _left_whole(t, chip, s, tile),
            tiling.PING_LEFT: _left_whole(t, chip, s, tile),
            tiling.ONE_RIGHT: _right_whole(t, chip, s, tile),
            tiling.PING_RIGHT: _right_whole(t, chip, s, tile),
            tiling.BOTH_CUT: _both_cut(t, chip, s, tile),
        }[c["case"]]
        if per == 1:
            return one(b, core, stop, state)

        def body(inner: Builder, u: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            return (one(inner, u, stop, carried[0]),)

        two = c["accumulators"] == 2
        kind = PIPELINE if doubled else RANGE
        (done,) = b.loop(kind, "u", (start, stop, several), [state], body, double_c=two)
        return done

    return run


#: What a core does at batch u, its share ending at stop: C's state in, C's state out.
One = Callable[[Builder, Index, Index, Var], Var]


def grid(
    b: Builder,
    p: BatchProblem,
    tile: Tile,
    rows: Index,
    state: Var,
    window: Callable[[Builder, Index, Index, Index, Index, Var], Var],
) -> Var:
    """A rows × N product in m × n windows; ``window(builder, row, held rows, column, held columns, state)``."""
    m, n, _ = tile

    def row(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        held_rows = inner.clipped("rows", i, m, rows)

        def column(innermost: Builder, j: Index, states: tuple[Var, ...]) -> tuple[Var, ...]:
            held = innermost.clipped("columns", j, n, p.N)
            return (window(innermost, i, held_rows, j, held, states[0]),)

        return inner.loop(RANGE, "j", (0, p.N, n), carried, column)

    (done,) = b.loop(RANGE, "i", (0, rows, m), [state], row)
    return done


def _window(
    b: Builder,
    t: Tensors,
    tile: Tile,
    panels: Panels,
    load: Callable[[Builder, Index, Index], tuple[Side, Side]],
    at: tuple[Index, Index, Index, Index, Index],
    state: Var,
) -> Var:
    """One m × n window of a batch, summed and stored; ``at`` is (batch, row, held rows, column, held columns)."""
    batch, row, rows, column, columns = at
    bias = t.bias_row(b, batch, column, tile[1], columns)
    acc = accumulate(b, tile, panels, load, t.problem.sums, (rows, columns), bias)
    return t.store(b, acc, batch, row, column, state)


def _resident(t: Tensors, tile: Tile, several: int) -> One:
    """(a), (b): the operands of ``several`` batches whole in L1."""
    p = t.problem
    m, n, k = align_up(p.M, tile[0]), align_up(p.N, tile[1]), align_up(p.K, tile[2])

    def product(b: Builder, u: Index, left: Side, right: Side, state: Var) -> Var:
        def window(x: Builder, i: Index, rows: Index, j: Index, columns: Index, s: Var) -> Var:
            sides = Side(left.mat, add(left.row, i), left.column), Side(right.mat, right.row, add(right.column, j))
            return _window(x, t, tile, Panels(k, 0, p.K), lambda *_: sides, (u, i, rows, j, columns), s)

        return grid(b, p, tile, p.M, state, window)

    def one(b: Builder, u: Index, stop: Index, state: Var) -> Var:
        if several == 1:
            left = t.a.load(b, u, 0, m, p.M, 0, k, p.K)
            right = t.b.load(b, u, 0, n, p.N, 0, k, p.K)
            return product(b, u, left, right, state)
        count = b.scalar("count", smaller(several, sub(stop, u)))
        left = t.a.stack(b, u, (several, 1, count), m, p.M, 0, k, p.K)
        right = t.b.stack(b, u, (several, 1, count), n, p.N, 0, k, p.K)

        def body(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            row, column = inner.scalar("row", mul(i, m)), inner.scalar("column", mul(i, n))
            batch = inner.scalar("batch", add(u, i))
            return (product(inner, batch, Side(left.mat, row), Side(right.mat, 0, column), carried[0]),)

        (done,) = b.loop(RANGE, "part", (0, count, 1), [state], body)
        return done

    return one


def _left_whole(t: Tensors, chip: Chip, s: Schedule, tile: Tile) -> One:
    """(c), (d): A whole in L1, B in pieces of K past it."""
    p, c = t.problem, s.columns
    m, n, k = tile
    cut = int(iter_piece(p, c, m, k))
    stage = int(iter_stage(p, chip, c, m, n, k))

    def one(b: Builder, u: Index, stop: Index, state: Var) -> Var:
        left = t.a.load(b, u, 0, align_up(p.M, m), p.M, 0, align_up(p.K, k), p.K)

        def window(x: Builder, i: Index, rows: Index, j: Index, columns: Index, state_in: Var) -> Var:
            def load(y: Builder, ks: Index, held: Index) -> tuple[Side, Side]:
                return Side(left.mat, i, ks), t.b.load(y, u, j, n, columns, ks, cut, held)

            return _window(x, t, tile, Panels(cut, 0, p.K, 1, stage), load, (u, i, rows, j, columns), state_in)

        return grid(b, p, tile, p.M, state, window)

    return one


def _right_whole(t: Tensors, chip: Chip, s: Schedule, tile: Tile) -> One:
    """(c), (d): B whole in L1, A in pieces of M past it."""
    p, c = t.problem, s.columns
    m, n, k = tile
    cut = int(iter_piece(p, c, m, k))
    stage = int(iter_stage(p, chip, c, m, n, k))
    depth = align_up(p.K, k)

    def one(b: Builder, u: Index, stop: Index, state: Var) -> Var:
        right = t.b.load(b, u, 0, align_up(p.N, n), p.N, 0, depth, p.K)

        def piece(inner: Builder, r: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            held = inner.clipped("piece", r, cut, p.M)
            left = t.a.load(inner, u, r, cut, held, 0, depth, p.K)

            def window(x: Builder, i: Index, rows: Index, j: Index, columns: Index, state_in: Var) -> Var:
                sides = Side(left.mat, i), Side(right.mat, 0, j)
                return _window(x, t, tile, Panels(depth, 0, p.K), lambda *_: sides, (u, add(r, i), rows, j, columns), state_in)

            return (grid(inner, p, tile, held, carried[0], window),)

        kind = PIPELINE if stage > 1 else RANGE
        (done,) = b.loop(kind, "piece_row", (0, p.M, cut), [state], piece)
        return done

    return one


def _both_cut(t: Tensors, chip: Chip, s: Schedule, tile: Tile) -> One:
    """(e): A and B in pieces of K."""
    p, c = t.problem, s.columns
    m, n, k = tile
    cut = int(iter_piece(p, c, m, k))
    stage = int(iter_stage(p, chip, c, m, n, k))

    def one(b: Builder, u: Index, stop: Index, state: Var) -> Var:
        def window(x: Builder, i: Index, rows: Index, j: Index, columns: Index, state_in: Var) -> Var:
            def load(y: Builder, ks: Index, held: Index) -> tuple[Side, Side]:
                return t.a.load(y, u, i, m, rows, ks, cut, held), t.b.load(y, u, j, n, columns, ks, cut, held)

            return _window(x, t, tile, Panels(cut, 0, p.K, 1, stage), load, (u, i, rows, j, columns), state_in)

        return grid(b, p, tile, p.M, state, window)

    return one


# -- MergeBatch ------------------------------------------------------------------------------------------------------


def merge_core(t: Tensors, chip: Chip, s: Schedule) -> Core:
    """The body of a core: b_L1 batches into L1, b of them at a time as one product, its diagonal blocks to C."""
    p, c = t.problem, s.columns
    assert s.tile is not None
    tile, b_l0, k_l1 = s.tile, c["b"], c["k_l1"]
    groups = tiling.merged_groups(p, chip, b_l0, k_l1)
    whole = k_l1 >= align_up(p.K, p.box_k)
    panels = Panels(align_up(p.K, tile[2]) if whole else k_l1, 0, p.K)
    merge = _Merge(t, tile, b_l0, panels)

    def run(b: Builder, core: Index, state: Var) -> Var:
        start, stop = share(b, p, chip, core)

        def load_groups(inner: Builder, u: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            if groups == 1:
                return (merge.one(inner, u, stop, carried[0]),)
            return (merge.several(inner, u, stop, groups, carried[0]),)

        bounds = (start, stop, b_l0 * groups)
        (done,) = b.loop(PIPELINE, "u", bounds, [state], load_groups, double_c=True)
        return done

    return run


class _Merge:
    """Loads and products of merged groups."""

    def __init__(self, t: Tensors, tile: Tile, b: int, panels: Panels) -> None:
        self.t, self.tile, self.b, self.panels = t, tile, b, panels
        p = t.problem
        self.packed_rows, self.packed_columns = tiling.packs_rows(p), tiling.packs_columns(p)
        self.down = p.M if self.packed_rows else align_up(p.M, p.box_m)
        self.right = p.N if self.packed_columns else align_up(p.N, p.box_n)

    def side(self, b: Builder, right: bool, u: Index, groups: int, count: Index, ks: Index, held: Index) -> Side:
        """[b·M, K] or [K, b·N] of each group: packed where batches lie so, else boxed batch by batch."""
        operand = self.t.b if right else self.t.a
        packed, pitch = (self.packed_columns, self.right) if right else (self.packed_rows, self.down)
        deep, extent = self.panels.depth, operand.extent
        if not packed:
            return operand.stack(b, u, (groups * self.b, 1, count), pitch, extent, ks, deep, held)
        size = self.tile[1] if right else self.tile[0]
        if groups == 1:
            return operand.load(b, u, 0, size, mul(count, extent), ks, deep, held)
        return operand.stack(b, u, (groups, self.b, div(count, self.b)), size, self.b * extent, ks, deep, held)

    def load(self, b: Builder, u: Index, groups: int, count: Index, ks: Index, held: Index) -> tuple[Side, Side]:
        return self.side(b, False, u, groups, count, ks, held), self.side(b, True, u, groups, count, ks, held)

    def one(self, b: Builder, u: Index, stop: Index, state: Var) -> Var:
        """One group: its panels loaded where they are summed."""
        count = b.scalar("count", smaller(self.b, sub(stop, u)))
        return self.product(b, u, count, lambda x, ks, held: self.load(x, u, 1, count, ks, held), state)

    def several(self, b: Builder, u: Index, stop: Index, groups: int, state: Var) -> Var:
        """Groups that one transfer brings, all of K in L1."""
        count = b.scalar("count", smaller(self.b * groups, sub(stop, u)))
        left, right = self.load(b, u, groups, count, 0, self.t.problem.K)

        def body(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            row, column = inner.scalar("row", mul(i, self.tile[0])), inner.scalar("column", mul(i, self.tile[1]))
            batch = inner.scalar("batch", add(u, mul(i, self.b)))
            sides = Side(left.mat, row), Side(right.mat, 0, column)
            return (self.product(inner, batch, self.b, lambda *_: sides, carried[0]),)

        (done,) = b.loop(PIPELINE, "group", (0, div(count, self.b), 1), [state], body, double_c=True)
        return done

    def product(
        self, b: Builder, u: Index, count: Index, load: Callable[[Builder, Index, Index], tuple[Side, Side]], state: Var
    ) -> Var:
        """BlockTrace of one merged product, to C."""
        p = self.t.problem
        bias = self.t.bias_rows(b, u, self.b, count, self.right)
        acc = accumulate(b, self.tile, self.panels, load, p.sums, self.tile[:2], bias)
        blocks, pitch = [count, p.M, p.N], [self.down, self.right]
        return b.let("c_state", "tile.store_diagonal", acc, [mul(u, p.M), 0], state, blocks, pitch)
