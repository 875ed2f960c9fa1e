"""StreamK: K cut between cores, when nothing else fills them.

    C[u][i, j]  =  Σ over c of  A[u][i, K_c] @ B[u][K_c, j],    each K_c on a core of its own

Partial sums leave their cores and are reduced: through a workspace by the vector cores, in a fixed order, or by atomic additions
in any order (specification 3, "StreamK").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.batch.conditions import (
    bias_fits,
    bias_without_batch,
    block_fits_l0a,
    block_fits_l0b,
    block_fits_l0c,
    copies,
    equal_batches,
    fractal_blocks,
    panels_fit_l1,
    pick,
)
from egraph_rules.batch.language import (
    CHIP,
    Q,
    Result,
    StreamK,
    any_order,
    asynchronous,
    count,
    double,
    read_as,
    stream_grid,
    stream_home,
    the_batch,
    the_chip,
)
from egraph_rules.expr import Comparison, Int, Integer, align_up, ceil_div, larger_of, literal, predicate
from egraph_rules.rule import Rule, family, rule, union, variables

r, n, g = variables("r n g")
WORKSPACE, ATOMIC = 0, 1


@predicate
def cores_left_over(blocks: Integer) -> Comparison:
    """condition 1: P = B·⌈M/16⌉·⌈N/16⌉ = {blocks} is below C"""
    return blocks < CHIP.C


@predicate
def two_cores_a_batch(B: Integer) -> Comparison:
    """⌊C/B⌋ gives each of {B} batches at least 2 cores, as 2·B against C"""
    return B * 2 <= CHIP.C


@predicate
def segment_long_enough(depth: Integer, grid_k: Integer) -> Comparison:
    """condition 2: K/grid_K = {depth}/{grid_k} is at least 256, as K against 256·grid_K"""
    return depth >= grid_k * CHIP.min_segment


@predicate
def reduction_pays(depth: Integer, grid_k: Integer) -> Comparison:
    """condition 2: K = {depth} is at least grid_K²·θ, grid_K = {grid_k}"""
    return depth >= grid_k * grid_k * CHIP.theta


@predicate
def segments_differ(K: Integer, grid_k: Integer) -> Comparison:
    """each of {grid_k} segments of {K}, in whole boxes, holds something"""
    return (grid_k - 1) * align_up(ceil_div(K, grid_k), Q.box_k) < K


@predicate
def cuts_k(grid_k: Integer) -> Comparison:
    """grid_K = {grid_k} is more than 1"""
    return grid_k >= 2


@predicate
def grid_within_cores(rows: Integer, columns: Integer, grid_k: Integer) -> Comparison:
    """mCnt·nCnt·grid_K = {rows}·{columns}·{grid_k} is within blocksPerBatch = ⌊C/B⌋"""
    return rows * columns * grid_k <= CHIP.C // Q.B


@predicate
def grid_divides_cores(rows: Integer, columns: Integer) -> Comparison:
    """mCnt·nCnt = {rows}·{columns} divides blocksPerBatch (rest)"""
    return (CHIP.C // Q.B % (rows * columns)).equals(0)


@predicate
def sums_fit_a_buffer(rows: Integer, columns: Integer) -> Comparison:
    """the {rows} × {columns} partial sums of a core, 4 bytes each, fit its buffer in the workspace, in bytes"""
    return rows * columns * 4 <= CHIP.workspace_tile


@predicate
def pieces_hold_a_fractal(pieces: Integer, extent: Integer) -> Comparison:
    """{pieces} pieces of {extent} are at most one a fractal"""
    return pieces <= ceil_div(extent, 16)


# -- the operator's gate ---------------------------------------------------------------------------------------------


def grain() -> Integer:
    """Block grain: 256, for fp32 32."""
    return pick(Q.bytes // 4, 32, 256)


@predicate
def short_fp32(K: Integer, bytes: Integer) -> Comparison:
    """it needs K ≤ 2000000 for elements of {bytes} bytes; K is {K}"""
    return K * (bytes // 4) <= 2_000_000


@predicate
def very_deep(K: Integer) -> Comparison:
    """K = {K}, rounded up to 256, is at least max(8192, 256·C)/s"""
    return align_up(K, 256) >= larger_of(literal(8192), CHIP.C * 256) // Q.bytes


@predicate
def half_the_cores(grain: Int) -> Comparison:
    """B·⌈M/{grain}⌉·⌈N/{grain}⌉ blocks leave half the cores, as twice the blocks against C"""
    return Q.B * ceil_div(Q.M, literal(grain)) * ceil_div(Q.N, literal(grain)) * 2 <= CHIP.C


def _gates() -> Iterator[Rule]:
    """Where the branch is entered, as the analysis has it and as the operator does."""
    yield rule(
        "enter_stream_k",
        "entry condition 1 of StreamK",
        stage="batch_enter",
        reads=[the_batch(), the_chip(), read_as("analysis")],
        when=[cores_left_over(fractal_blocks()), two_cores_a_batch(Q.B)],
        then=[stream_home(Q.p)],
    )
    yield rule(
        "enter_stream_k_operator",
        "the operator's gate of StreamK",
        stage="batch_enter",
        reads=[the_batch(), the_chip(), any_order(Q.p), read_as("operator")],
        when=[
            equal_batches(Q.batch_a, Q.batch_b, Q.equal),
            bias_without_batch(Q.bias),
            short_fp32(Q.K, Q.bytes),
            very_deep(Q.K),
            half_the_cores(grain()),
        ],
        then=[stream_home(Q.p)],
    )


def _block() -> tuple[Integer, Integer]:
    """Rows and columns of the largest of mCnt × nCnt blocks, in whole boxes."""
    return align_up(ceil_div(Q.M, r), Q.box_m), align_up(ceil_div(Q.N, n), Q.box_n)


def _grids() -> Iterator[Rule]:
    """Into how many blocks a batch may be cut."""
    rows, columns = _block()
    fits = [
        pieces_hold_a_fractal(r, Q.M),
        pieces_hold_a_fractal(n, Q.N),
        grid_within_cores(r, n, literal(2)),
        block_fits_l0a(rows),
        block_fits_l0b(columns),
        block_fits_l0c(rows, columns, literal(1)),
        bias_fits(columns),
        panels_fit_l1(rows, columns, Q.box_k, copies(), literal(0)),
    ]
    for name, more in (("analysis", [grid_divides_cores(r, n)]), ("operator", [])):
        yield rule(
            f"stream_k_grid_{name}",
            "mCnt × nCnt blocks of a batch, with at least two cores for each",
            stage="batch_extents",
            reads=[stream_home(Q.p), the_batch(), the_chip(), read_as(name), count(r), count(n)],
            when=[*fits, *more],
            then=[stream_grid(Q.p, r, n)],
        )


def _segments() -> Iterator[Rule]:
    """Into how many segments K is cut, and where their partial sums meet."""
    paying = {"analysis": [segment_long_enough(Q.K, g), reduction_pays(Q.K, g)], "operator": []}
    for name, more in paying.items():
        common = [cuts_k(g), segments_differ(Q.K, g), grid_within_cores(r, n, g), *more]
        yield rule(
            f"stream_k_workspace_{name}",
            "partial sums in a workspace, added up in order by the vector cores",
            stage="batch_choose",
            reads=[stream_grid(Q.p, r, n), the_batch(), the_chip(), read_as(name), double(g)],
            when=[*common, sums_fit_a_buffer(*_block())],
            then=[union(Result(Q.p), StreamK(Q.p, r, n, g, WORKSPACE))],
        )
        yield rule(
            f"stream_k_atomic_{name}",
            "partial sums added to C as they come, in any order",
            stage="batch_choose",
            reads=[stream_grid(Q.p, r, n), the_batch(), the_chip(), asynchronous(Q.p), read_as(name), double(g)],
            when=common,
            then=[union(Result(Q.p), StreamK(Q.p, r, n, g, ATOMIC))],
        )


@family("stream_k")
def STREAM_K() -> Iterator[Rule]:
    """C[u][i, j] = Σ A[u][i, K_c] @ B[u][K_c, j]: segments of K on cores of their own, reduced afterwards."""
    yield from _gates()
    yield from _grids()
    yield from _segments()
