"""An M × N grid of output blocks, each placed as soon as it is summed (specification 1, "M/N 切分" and "放置策略").

Where K is split too, the blocks are unrolled, columns outer and rows inner. Where K fits in one panel (full-K), the interior is
two nested loops, the held operand's panel fetched in the outer one, and the L-shaped boundary is peeled: the bottom strip across
all columns, corner included, then the right strip.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from egraph_rules.plan import TileChoice
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import INDEX_SCALAR, ZERO, Call, Const, Expr, ListExpr, LoopKind, Var
from ir_bridge.ir.ops_registry import as_expr
from ir_bridge.lift.emit import Emitter, items, plus, var
from ir_bridge.lift.k_loop import STAGES, Window, reduce_k
from ir_bridge.lift.product import Product

NO_OVERLAP = ("pipeline_overlap_stores", Const(False))
DOUBLE_BUFFER_C = ("pipeline_double_buffer_c", Const(True))


class Placer(Protocol):
    """Puts one block where the result lives: ``state`` is the place before, the returned value the place after.

    ``name`` is what states of the place are called.
    """

    @property
    def name(self) -> str: ...

    def place(self, e: Emitter, name: str, state: Var, block: Var, mi: Expr, ni: Expr, into: Var | None = None) -> Var: ...


@dataclass(frozen=True, slots=True)
class StorePlacer:
    """Straight to global memory, as the source's ``store`` did: at its base offset, with its keywords and attributes."""

    store: Call

    @property
    def name(self) -> str:
        return base_name(var(self.store.args[2]).name)

    def place(self, e: Emitter, name: str, state: Var, block: Var, mi: Expr, ni: Expr, into: Var | None = None) -> Var:
        row, col = items(self.store.args[1])
        at = ListExpr((plus(row, mi), plus(col, ni)))
        return e.assign(name, state.type, Call("tile.store", (block, at, state), self.store.kwargs, self.store.attrs), into)


@dataclass(frozen=True, slots=True)
class ScratchPlacer:
    """Into a Mat tile that stays on chip."""

    name: str

    def place(self, e: Emitter, name: str, state: Var, block: Var, mi: Expr, ni: Expr, into: Var | None = None) -> Var:
        return e.assign(name, state.type, Call("tile.assemble", (state, block, ListExpr((mi, ni)))), into)


def grid(e: Emitter, p: Product, tile: TileChoice, placer: Placer, state: Var, into: Var | None = None) -> Var:
    """Emit all blocks of the product; the state after the last one, which is ``into`` where its type allows."""
    p.stage(e)
    if tile.k < p.K:
        return _unrolled(e, p, tile, placer, state, into)
    return _nest_and_boundary(e, p, tile, placer, state, into)


def windows(M: int, N: int, m: int, n: int) -> Iterator[Window]:
    """The blocks of an M × N grid, columns outer, rows inner; the last ones as small as what is left."""
    for ni in range(0, N, n):
        for mi in range(0, M, m):
            yield Window(mi, ni, min(m, M - mi), min(n, N - ni))


def _unrolled(e: Emitter, p: Product, tile: TileChoice, placer: Placer, state: Var, into: Var | None) -> Var:
    blocks = list(windows(p.M, p.N, tile.m, tile.n))
    for i, w in enumerate(blocks):
        block = reduce_k(e, p, w, tile.k, f"{p.name}_t{i}")
        last = into if i + 1 == len(blocks) else None
        state = placer.place(e, f"{placer.name}_t{i}", state, block, as_expr(w.mi), as_expr(w.ni), last)
    return state


def _nest_and_boundary(e: Emitter, p: Product, tile: TileChoice, placer: Placer, state: Var, into: Var | None) -> Var:
    if tile.m >= p.M and tile.n >= p.N:  # one block: loops of one trip would only ask for more buffers
        return _straight(e, p, Window(0, 0, p.M, p.N), 0, placer, state, into)
    boundary = list(_boundary(p.M, p.N, tile.m, tile.n))
    state = _nest(e, p, tile, (p.M // tile.m * tile.m, p.N // tile.n * tile.n), placer, state, None if boundary else into)
    for i, w in enumerate(boundary, 1):
        last = into if i == len(boundary) else None
        state = _straight(e, p, w, i, placer, state, last)
    return state


def _straight(e: Emitter, p: Product, w: Window, i: int, placer: Placer, state: Var, into: Var | None) -> Var:
    """Block number ``i``, of full K, as straight lines."""
    mi, ni = as_expr(w.mi), as_expr(w.ni)
    block = p.whole_k(e, f"{p.name}_t{i}", mi, w.rows, ni, w.cols)
    return placer.place(e, f"{placer.name}_t{i}", state, block, mi, ni, into)


def _boundary(M: int, N: int, m: int, n: int) -> Iterator[Window]:
    """What the interior ``[0, ⌊M/m⌋·m) × [0, ⌊N/n⌋·n)`` leaves: the bottom strip with the corner, then the right strip."""
    rows, cols = M // m * m, N // n * n
    if rows < M:
        for ni in range(0, N, n):
            yield Window(rows, ni, M - rows, min(n, N - ni))
    if cols < N:
        for mi in range(0, rows, m):
            yield Window(mi, cols, m, N - cols)


def _nest(
    e: Emitter, p: Product, tile: TileChoice, interior: tuple[int, int], placer: Placer, state: Var, into: Var | None
) -> Var:
    """The interior as two loops around one block."""
    m, n, name = tile.m, tile.n, p.name
    rows_outer = tile.holds_a if tile.stationarity == "output" else tile.stationarity == "a"
    o, i = Var(f"{name}_o", INDEX_SCALAR), Var(f"{name}_i", INDEX_SCALAR)
    outer_state, inner_state, inner_result, outer_result = (
        Var(f"{placer.name}_{x}", state.type) for x in ("oc", "ic", "ir", "or")
    )
    outer, inner = e.inner(), e.inner()
    mi, ni = (o, i) if rows_outer else (i, o)
    at_left, at_right = (outer, inner) if rows_outer else (inner, outer)
    a = p.left_panel(at_left, name, mi, m, ZERO, p.K)
    b = p.right_panel(at_right, name, ZERO, p.K, ni, n)
    bias = p.bias_window(at_right, name, ni, n)
    block = inner.matmul(f"{name}_c", a, b, bias)
    placed = placer.place(inner, f"{placer.name}_t0", inner_state, block, mi, ni)
    rows, cols = (ZERO, as_expr(interior[0]), as_expr(m)), (ZERO, as_expr(interior[1]), as_expr(n))
    outer_bounds, inner_bounds = (rows, cols) if rows_outer else (cols, rows)
    attrs = (NO_OVERLAP, DOUBLE_BUFFER_C) if tile.double_buffer_c else (NO_OVERLAP,)
    outer.loop(LoopKind.PIPELINE, i, inner_bounds, inner, (outer_state, inner_state, placed), inner_result, STAGES, attrs)
    carry = (state, outer_state, inner_result)
    result = into if into is not None and into.type == state.type else outer_result
    if tile.stationarity == "output":
        return e.loop(LoopKind.PIPELINE, o, outer_bounds, outer, carry, result, STAGES, (NO_OVERLAP,))
    # A pinned operand fills its buffer and has one slot: the loop that fetches it must not be a pipeline.
    return e.loop(LoopKind.RANGE, o, outer_bounds, outer, carry, result)
