"""ASW_Basic: the M × N plane of every batch in blocks, dealt to the cores in swizzled order.

    C[u]  =  ⋃ over (i, j) of  A[u][i·M^t : (i+1)·M^t, :] @ B[u][:, j·N^t : (j+1)·N^t]

Blocks share operands, so they are read again, from L2 where the order of execution keeps the active set small (specification 3,
"ASW_Basic"). An operand without a batch that is small enough can stay in L1 for all blocks of a core.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.batch.conditions import (
    a_bytes,
    bias_fits,
    block_fits_l0a,
    block_fits_l0b,
    block_fits_l0c,
    boxed_k,
    boxed_m,
    boxed_n,
    copies,
    fractal_blocks,
    has_depth,
    panels_fit_l1,
)
from egraph_rules.batch.language import (
    CHIP,
    Blocks,
    Q,
    Result,
    accumulators,
    block,
    block_home,
    column_cut,
    double,
    l2_cut,
    read_as,
    row_cut,
    the_batch,
    the_chip,
    tile,
)
from egraph_rules.expr import Comparison, Condition, Integer, align_up, ceil_div, larger_of, literal, predicate, smaller_of
from egraph_rules.rule import Rule, family, rule, union, variables

m, n, c, x, y, least = variables("m n c x y least")
#: What stays in L1, numbered as :mod:`cost.batch.work` does.
NOTHING, HELD_A, HELD_B = 0, 1, 2
#: Rows or columns up to which a side is "small" for the full load ("ASW_Basic, 5"), and rounds a core must have.
SMALL_SIDE, ROUNDS = 256, 4


def boxed_blocks() -> Integer:
    """Blocks of the smallest tiles, which for one-byte elements are larger than 16 × 16."""
    return Q.B * ceil_div(Q.M, Q.box_m) * ceil_div(Q.N, Q.box_n)


@predicate
def enough_blocks(blocks: Integer) -> Comparison:
    """condition 1: P = B·⌈M/M^t⌉·⌈N/N^t⌉ = {blocks}, at 16 × 16, is at least C"""
    return blocks >= CHIP.C


@predicate
def too_few_blocks(blocks: Integer) -> Comparison:
    """P = {blocks} blocks of 16 × 16 are fewer than C, so cores stay idle"""
    return blocks < CHIP.C


def least_streamed() -> Integer:
    """The least K that StreamK takes: grid_K = 2 segments, K ≥ grid_K²·θ, each long enough, and two boxes at all."""
    return larger_of(larger_of(CHIP.theta * 4, CHIP.min_segment * 2), Q.box_k + 1)


@predicate
def too_shallow_to_stream(depth: Integer, least: Integer) -> Comparison:
    """K = {depth} is below {least}, the least that StreamK takes (grid_K = 2)"""
    return depth < least


@predicate
def too_many_batches_to_stream(B: Integer) -> Comparison:
    """⌊C/B⌋ leaves fewer than 2 cores for each of {B} batches, as 2·B against C"""
    return B * 2 > CHIP.C


@predicate
def blocks_reach(m: Integer, n: Integer, least: Integer) -> Comparison:
    """condition 1: B·⌈M/{m}⌉·⌈N/{n}⌉ blocks are at least {least}"""
    return Q.B * ceil_div(Q.M, m) * ceil_div(Q.N, n) >= least


@predicate
def no_larger_than(extent: Integer, whole: Integer) -> Comparison:
    """a block's extent {extent} is no more than the boxed {whole}"""
    return extent <= whole


@predicate
def in_boxes(extent: Integer, box: Integer) -> Comparison:
    """{extent} is whole boxes of {box}"""
    return (extent % box).equals(0)


def active_set(rows: Integer, columns: Integer) -> Integer:
    """Bytes of a rows × columns part of one batch: its operands and its result."""
    return (rows + columns) * Q.K * Q.bytes + rows * columns * 4


@predicate
def part_fits_l2(rows: Integer, columns: Integer) -> Comparison:
    """a {rows} × {columns} part of C with its operands fits L2, in bytes"""
    return active_set(rows, columns) <= CHIP.l2


@predicate
def part_exceeds_l2(rows: Integer, columns: Integer) -> Comparison:
    """a {rows} × {columns} part of C with its operands exceeds L2, in bytes"""
    return active_set(rows, columns) > CHIP.l2


@predicate
def cuts_something(pieces: Integer, whole: Integer) -> Comparison:
    """{pieces} parts of {whole} hold at least a fractal each"""
    return pieces * 16 <= whole


@predicate
def part_holds_a_block(parts: Integer, whole: Integer, extent: Integer) -> Comparison:
    """each of {parts} L2 parts of {whole} holds a block of {extent}, as parts against blocks"""
    return parts <= ceil_div(whole, extent)


@predicate
def without_batch(batches: Integer) -> Comparison:
    """it needs a side without a batch; this one has {batches}"""
    return batches.equals(1)


@predicate
def small_side(extent: Integer) -> Comparison:
    """the held side's extent {extent} is at most 256"""
    return extent <= SMALL_SIDE


@predicate
def held_twice_fits(extent: Integer) -> Comparison:
    """two copies of the held side, {extent} by K, fit L1, in bytes"""
    return a_bytes(extent, boxed_k()) * 2 <= CHIP.l1


@predicate
def rounds_enough(blocks: Integer) -> Comparison:
    """{blocks} blocks of the other side are at least 4 rounds a core, as blocks against 4·C"""
    return blocks >= CHIP.C * ROUNDS


def _entries() -> Iterator[Rule]:
    yield rule(
        "enter_asw_basic",
        "entry condition 1 of ASW_Basic",
        stage="batch_enter",
        reads=[the_batch(), the_chip(), read_as("analysis")],
        when=[has_depth(Q.K), enough_blocks(fractal_blocks())],
        then=[block_home(Q.p, smaller_of(CHIP.C, boxed_blocks()))],
    )
    for name, reason in (("deep", too_shallow_to_stream(Q.K, least_streamed())), ("spread", too_many_batches_to_stream(Q.B))):
        yield rule(
            f"enter_asw_basic_idle_{name}",
            "fewer cores: neither blocks nor K segments fill them all",
            stage="batch_enter",
            reads=[the_batch(), the_chip(), read_as("analysis")],
            when=[has_depth(Q.K), too_few_blocks(fractal_blocks()), reason],
            then=[block_home(Q.p, 1)],
        )
    yield rule(
        "enter_asw_basic_operator",
        "the operator's default branch",
        stage="batch_enter",
        reads=[the_batch(), read_as("operator")],
        then=[block_home(Q.p, 1)],
    )


def _blocks() -> Iterator[Rule]:
    """Blocks whose panels fit L0 and L1."""
    yield rule(
        "block_rows",
        "M^t rows of a block",
        stage="batch_extents",
        reads=[block_home(Q.p, least), the_batch(), the_chip(), tile(m)],
        when=[no_larger_than(m, boxed_m()), in_boxes(m, Q.box_m), block_fits_l0a(m)],
        then=[row_cut(Q.p, m)],
    )
    yield rule(
        "block_columns",
        "N^t columns of a block",
        stage="batch_extents",
        reads=[block_home(Q.p, least), the_batch(), the_chip(), tile(n)],
        when=[no_larger_than(n, boxed_n()), in_boxes(n, Q.box_n), block_fits_l0b(n), bias_fits(n)],
        then=[column_cut(Q.p, n)],
    )
    yield rule(
        "whole_rows",
        "M^t = M",
        stage="batch_extents",
        reads=[block_home(Q.p, least), the_batch(), the_chip()],
        when=[block_fits_l0a(boxed_m())],
        then=[row_cut(Q.p, boxed_m())],
    )
    yield rule(
        "whole_columns",
        "N^t = N",
        stage="batch_extents",
        reads=[block_home(Q.p, least), the_batch(), the_chip()],
        when=[block_fits_l0b(boxed_n()), bias_fits(boxed_n())],
        then=[column_cut(Q.p, boxed_n())],
    )
    yield rule(
        "blocks_in_l0",
        "M^t · N^t · 4 · DB ≤ L0C, and P at least what was demanded",
        stage="batch_extents",
        reads=[block_home(Q.p, least), the_batch(), the_chip(), row_cut(Q.p, m), column_cut(Q.p, n), accumulators(c)],
        when=[block_fits_l0c(m, n, c), blocks_reach(m, n, least), panels_fit_l1(m, n, Q.box_k, copies(), literal(0))],
        then=[block(Q.p, m, n, c)],
    )


def _l2_parts() -> Iterator[Rule]:
    """Parts of C that L2 holds, one after another."""
    yield rule(
        "l2_holds_c",
        "no L2 cut: the swizzle alone",
        stage="batch_extents",
        reads=[block_home(Q.p, least), the_batch()],
        then=[l2_cut(Q.p, 1, 1)],
    )
    for name, halves in (("l2_cuts", True), ("l2_row_cuts", False)):
        columns = y if halves else literal(1)
        parts = (ceil_div(Q.M, x), ceil_div(Q.N, columns))
        larger = part_exceeds_l2(parts[0], smaller_of(ceil_div(Q.N, columns // 2), Q.N)) if halves else None
        yield rule(
            name,
            "mL2TileNum × nL2TileNum parts that L2 holds, no more of them than it takes",
            stage="batch_extents",
            reads=[block_home(Q.p, least), the_batch(), the_chip(), double(x), *([double(y)] if halves else [])],
            when=[
                part_exceeds_l2(Q.M, Q.N),
                cuts_something(x, align_up(Q.M, 16)),
                *([cuts_something(y, align_up(Q.N, 16)), in_boxes(y, literal(2))] if halves else []),
                part_fits_l2(*parts),
                *([larger] if larger is not None else []),
            ],
            then=[l2_cut(Q.p, x, columns)],
        )


# -- the operator's gate of the full load ----------------------------------------------------------------------------


@predicate
def held_twice_fits_in_fractals(extent: Integer) -> Comparison:
    """two copies of the held side, {extent} by K, each rounded up to 16, fit L1, in bytes"""
    return align_up(extent, 16) * align_up(Q.K, 16) * Q.bytes * 2 <= CHIP.l1


@predicate
def other_side_fills_l1(batches: Integer, extent: Integer) -> Comparison:
    """the other side, {batches} batches of {extent} by K, has at least L1·C bytes"""
    return batches * extent * Q.K * Q.bytes >= CHIP.l1 * CHIP.C


def _full_loads() -> Iterator[Rule]:
    """One side in L1 for all blocks of a core; rounds are counted in the blocks at hand, by the operator in 256 × 256."""
    sides = (
        ("a", "A[0] stays in L1: C[u] = ⋃ A[0] @ B[u][:, j]", HELD_A, Q.batch_a, Q.M, boxed_m(), m, Q.batch_b, Q.N, n),
        ("b", "B[0] stays in L1: C[u] = ⋃ A[u][i, :] @ B[0]", HELD_B, Q.batch_b, Q.N, boxed_n(), n, Q.batch_a, Q.M, m),
    )
    for tag, statement, held, batches, extent, boxed, block_extent, others, other, piece in sides:
        streamed = (literal(0), n) if held == HELD_A else (m, literal(0))
        common = [
            without_batch(batches),
            small_side(extent),
            no_larger_than(boxed, block_extent),
            panels_fit_l1(*streamed, Q.box_k, copies(), a_bytes(boxed, boxed_k())),
        ]
        rounds = rounds_enough(others * ceil_div(other, 256))
        by_reading: dict[str, tuple[str, list[Condition]]] = {
            "analysis": ("analysis", [held_twice_fits(boxed), rounds_enough(others * ceil_div(other, piece))]),
            "operator_bytes": ("operator", [held_twice_fits_in_fractals(extent), other_side_fills_l1(others, other)]),
            "operator_rounds": ("operator", [held_twice_fits_in_fractals(extent), rounds]),
        }
        for name, (reading, more) in by_reading.items():
            yield rule(
                f"full_load_{tag}_{name}",
                statement,
                stage="batch_choose",
                reads=[block(Q.p, m, n, c), the_batch(), the_chip(), read_as(reading)],
                when=[*common, *more],
                then=[union(Result(Q.p), Blocks(Q.p, m, n, c, held, 1, 1))],
            )


def _choices() -> Iterator[Rule]:
    yield rule(
        "asw_blocks",
        "C[u] = ⋃ A[u][i, :] @ B[u][:, j]",
        stage="batch_choose",
        reads=[block(Q.p, m, n, c), l2_cut(Q.p, x, y), the_batch()],
        when=[part_holds_a_block(x, Q.M, m), part_holds_a_block(y, Q.N, n)],
        then=[union(Result(Q.p), Blocks(Q.p, m, n, c, NOTHING, x, y))],
    )
    yield from _full_loads()


@family("asw_basic")
def ASW_BASIC() -> Iterator[Rule]:
    """C[u] = ⋃ A[u][i, :] @ B[u][:, j]: blocks of the M × N plane, dealt to the cores in swizzled order."""
    yield from _entries()
    yield from _blocks()
    yield from _l2_parts()
    yield from _choices()
