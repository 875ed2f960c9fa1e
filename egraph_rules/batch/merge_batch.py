"""MergeBatch: several small products as one large one, of which only the diagonal blocks are kept.

    [b, M, K] @ [b, K, N]  =  BlockTrace([bM, K] @ [K, bN])

The cross terms between different batches are computed and dropped, (b − 1)/b of the cube's work: multiply cycles are given
away for larger transfers, fuller fractals and fewer drains (specification 3, "MergeBatch").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.batch.conditions import (
    bias_fits,
    block_fits_l0a,
    block_fits_l0b,
    block_fits_l0c,
    boxed_k,
    copies,
    equal_batches,
    has_depth,
    merged_columns,
    merged_rows,
    no_bias,
    panels_fit_l1,
    pick,
)
from egraph_rules.batch.language import (
    CHIP,
    MergeBatch,
    Q,
    Result,
    count,
    double,
    merge_home,
    merge_size,
    read_as,
    the_batch,
    the_chip,
)
from egraph_rules.expr import Comparison, Int, Integer, align_up, ceil_div, larger_of, literal, predicate, smaller_of
from egraph_rules.rule import Rule, family, rule, union, variables

b, x = variables("b x")
TWO = literal(2)


@predicate
def two_groups_a_core(batches: Integer, b0: Integer) -> Comparison:
    """condition 1: b_core = B/C is at least 2·b0 (B = {batches}, b0 = {b0}), as B against 2·b0·C"""
    return batches >= b0 * 2 * CHIP.C


@predicate
def merged_fits_l0c(M: Integer, N: Integer, b: Integer) -> Comparison:
    """condition 2: two accumulators of {b} merged {M} × {N} batches, of 4-byte sums in 16 × 16 boxes, fit L0C, in bytes"""
    return align_up(b * M, 16) * align_up(b * N, 16) * 8 <= CHIP.l0c


@predicate
def moves_enough(B: Integer) -> Comparison:
    """condition 3: b_core·(MK + KN)·dtype reaches the floor of what a core moves, in bytes of all cores"""
    return B * (Q.M + Q.N) * Q.K * Q.bytes >= CHIP.min_core * CHIP.C


@predicate
def tile_large_enough(M: Integer, N: Integer, K: Integer) -> Comparison:
    """condition 4: max(MK, KN)·dtype = max({M}, {N})·{K}·dtype reaches the floor of one transfer, in bytes"""
    return larger_of(M, N) * K * Q.bytes >= CHIP.min_tile


@predicate
def memory_bound(M: Integer, N: Integer, b: Integer) -> Comparison:
    """condition 5: 2MN/(M + N) is below R/b for M = {M}, N = {N}, b = {b}, as 2000·MN·b against 1000·R·(M + N)"""
    return M * N * b * 2000 < CHIP.balance * (M + N)


@predicate
def merges(b: Integer, b0: Integer) -> Comparison:
    """{b} batches are at least b0 = {b0}"""
    return b >= b0


@predicate
def within_a_core(b: Integer, B: Integer) -> Comparison:
    """{b} batches are no more than a core's share b_core = B/C, as b·C against B"""
    return b * CHIP.C <= B


@predicate
def panel_cut(depth: Integer) -> Comparison:
    """k_L1 = {depth} cuts K"""
    return depth < boxed_k()


def deepest_l0_panel(b: Integer) -> Integer:
    """k_L0_max: min(k_L0a, k_L0b) of b merged batches."""
    left, right = merged_rows(b) * Q.bytes * copies(), merged_columns(b) * Q.bytes * copies()
    return smaller_of(CHIP.l0a // left, CHIP.l0b // right)


def least_l0_panel() -> Integer:
    """The floor of k_L0: a run of k_thr = 32 B / dtype along K, in whole boxes and no more than K."""
    return smaller_of(align_up(ceil_div(CHIP.k_run, Q.bytes), Q.box_k), boxed_k())


@predicate
def l0_panel_deep_enough(l0_depth: Integer, floor: Integer) -> Comparison:
    """min(k_L0a, k_L0b) = {l0_depth} of the merged batches reaches a run of 32 B / dtype along K"""
    return l0_depth >= floor


@predicate
def panel_deep_enough(depth: Integer, l0_depth: Integer) -> Comparison:
    """k_L1 = {depth} is at least min(k_L0_max, 128 B / dtype), k_L0_max = {l0_depth}"""
    return depth >= larger_of(smaller_of(l0_depth, CHIP.run // Q.bytes), least_l0_panel())


@predicate
def panel_in_boxes(depth: Integer, floor: Integer) -> Comparison:
    """k_L1 = {depth} is whole L0 panels of {floor}, the least there are"""
    return (depth % floor).equals(0)


# -- the operator's gate ---------------------------------------------------------------------------------------------


def four_rows() -> Integer:
    """tM: ⌈4M⌉16, or 4⌈M⌉16 where A is stored transposed and M > 1."""
    boxed_each = Q.trans_a * smaller_of(Q.M - 1, literal(1))
    return pick(boxed_each, align_up(Q.M, 16) * 4, align_up(Q.M * 4, 16))


def four_columns() -> Integer:
    """tN: 4⌈N⌉16."""
    return align_up(Q.N, 16) * 4


def thinnest_panel() -> Integer:
    """32/s, rounded up to 16 where A is stored transposed or B is not."""
    run = literal(32) // Q.bytes
    return pick(larger_of(Q.trans_a, literal(1) - Q.trans_b), align_up(run, 16), run)


@predicate
def not_fp32(bytes: Integer) -> Comparison:
    """it needs elements other than fp32; they have {bytes} bytes"""
    return bytes < 4


@predicate
def four_batches_a_core(batches: Integer) -> Comparison:
    """B = {batches} is at least 4 batches a core"""
    return batches >= CHIP.C * 4


@predicate
def deep_enough(K: Integer) -> Comparison:
    """K = {K}, rounded up to 32 bytes, is at least 64 elements"""
    return align_up(K, literal(32) // Q.bytes) >= 64


@predicate
def no_taller_than_wide(M: Integer, N: Integer) -> Comparison:
    """M = {M} is at most N = {N}"""
    return M <= N


@predicate
def four_fit_l0a(rows: Int) -> Comparison:
    """two 32-byte deep panels of four merged batches ({rows} rows) fit L0A, in bytes"""
    return literal(rows) * thinnest_panel() * Q.bytes * 2 <= CHIP.l0a


@predicate
def four_fit_l0b(columns: Int) -> Comparison:
    """two 32-byte deep panels of four merged batches ({columns} columns) fit L0B, in bytes"""
    return literal(columns) * thinnest_panel() * Q.bytes * 2 <= CHIP.l0b


def _gates() -> Iterator[Rule]:
    """Where the branch is entered, as the analysis has it and as the operator does."""
    yield rule(
        "enter_merge_batch",
        "the five entry conditions of MergeBatch",
        stage="batch_enter",
        reads=[the_batch(), the_chip(), read_as("analysis")],
        when=[
            equal_batches(Q.batch_a, Q.batch_b, Q.equal),
            has_depth(Q.K),
            two_groups_a_core(Q.B, CHIP.b0),
            merged_fits_l0c(Q.M, Q.N, CHIP.b0),
            moves_enough(Q.B),
            tile_large_enough(Q.M, Q.N, Q.K),
            memory_bound(Q.M, Q.N, CHIP.b0),
        ],
        then=[merge_home(Q.p)],
    )
    yield rule(
        "enter_merge_batch_operator",
        "the operator's gate of MergeBatch",
        stage="batch_enter",
        reads=[the_batch(), the_chip(), read_as("operator")],
        when=[
            equal_batches(Q.batch_a, Q.batch_b, Q.equal),
            no_bias(Q.bias),
            not_fp32(Q.bytes),
            four_batches_a_core(Q.B),
            deep_enough(Q.K),
            no_taller_than_wide(Q.M, Q.N),
            four_fit_l0a(four_rows()),
            four_fit_l0b(four_columns()),
            block_fits_l0c(four_rows(), four_columns(), TWO),
        ],
        then=[merge_home(Q.p)],
    )


def _sizes() -> Iterator[Rule]:
    """How many batches may be merged."""
    fits = [
        merges(b, CHIP.b0),
        within_a_core(b, Q.B),
        block_fits_l0a(merged_rows(b)),
        block_fits_l0b(merged_columns(b)),
        block_fits_l0c(merged_rows(b), merged_columns(b), TWO),
        l0_panel_deep_enough(deepest_l0_panel(b), least_l0_panel()),
        bias_fits(merged_columns(b)),
    ]
    yield rule(
        "merged_sizes",
        "b ≤ min(b_i, b_ii, b_core): what L0C, the balance point and a core's share allow",
        stage="batch_extents",
        reads=[merge_home(Q.p), the_batch(), the_chip(), read_as("analysis"), count(b)],
        when=[*fits, memory_bound(Q.M, Q.N, b)],
        then=[merge_size(Q.p, b)],
    )
    yield rule(
        "merged_sizes_operator",
        "b ≤ what L0C, L0B and a core's share allow",
        stage="batch_extents",
        reads=[merge_home(Q.p), the_batch(), the_chip(), read_as("operator"), count(b)],
        when=fits,
        then=[merge_size(Q.p, b)],
    )


def _panels() -> Iterator[Rule]:
    """How much of K the merged batches have in L1."""
    yield rule(
        "merge_whole_k",
        "[b, M, K] @ [b, K, N] = BlockTrace([bM, K] @ [K, bN]), all of K in L1",
        stage="batch_choose",
        reads=[merge_size(Q.p, b), the_batch(), the_chip()],
        when=[panels_fit_l1(merged_rows(b), merged_columns(b), align_up(Q.K, least_l0_panel()), TWO, literal(0))],
        then=[union(Result(Q.p), MergeBatch(Q.p, b, boxed_k()))],
    )
    yield rule(
        "merge_k_panels",
        "[b, M, K] @ [b, K, N] = BlockTrace(Σ [bM, k] @ [k, bN]), panels of K through L1",
        stage="batch_choose",
        reads=[merge_size(Q.p, b), the_batch(), the_chip(), double(x)],
        when=[
            panel_cut(x),
            panel_in_boxes(x, least_l0_panel()),
            panel_deep_enough(x, deepest_l0_panel(b)),
            panels_fit_l1(merged_rows(b), merged_columns(b), x, copies(), literal(0)),
        ],
        then=[union(Result(Q.p), MergeBatch(Q.p, b, x))],
    )


@family("merge_batch")
def MERGE_BATCH() -> Iterator[Rule]:
    """[b, M, K] @ [b, K, N] = BlockTrace([bM, K] @ [K, bN]): several batches as one product."""
    yield from _gates()
    yield from _sizes()
    yield from _panels()
