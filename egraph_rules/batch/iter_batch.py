"""IterBatch: whole batches over the cores, one after another in each.

    C[u] = A[u] @ B[u]  for u in the core's share of 0 … B−1

Nothing is read twice, nothing depends on another core. What L1 holds of a batch decides the case (specification 3, "IterBatch",
condition 3): (a) one batch whole, (b) two in turn, (c, d) one operand whole and the other in pieces, (e) both in pieces of K.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from egraph_rules.batch.conditions import (
    a_bytes,
    bias_row,
    bias_without_batch,
    boxed_k,
    boxed_m,
    boxed_n,
    equal_batches,
    has_bias,
    has_depth,
    one_batch,
    pick,
)
from egraph_rules.batch.language import (
    CHIP,
    IterBatch,
    Q,
    Result,
    accumulators,
    count,
    double,
    iter_home,
    read_as,
    the_batch,
    the_chip,
)
from egraph_rules.expr import Comparison, Condition, Int, Integer, align_up, ceil_div, larger_of, literal, predicate, smaller_of
from egraph_rules.rule import Rule, Term, family, rule, union, variables

step, i, c = variables("step i c")
ONE, TWO = literal(1), literal(2)
#: Cases, numbered as :mod:`cost.batch.work` does.
ONE_BATCH, PING_PONG, ONE_LEFT, ONE_RIGHT, PING_LEFT, PING_RIGHT, BOTH_CUT = range(7)


@predicate
def batch_for_every_core(batches: Integer) -> Comparison:
    """condition 1: b_core = B/C is at least 1, as B against C"""
    return batches >= CHIP.C


@predicate
def last_wave_busy(batches: Integer) -> Comparison:
    """condition 2: B mod C is 0 or at least minCoreNum (B = {batches}), as idle cores of the last wave against C − minCoreNum"""
    return CHIP.C - (batches - 1) % CHIP.C - 1 <= CHIP.C - CHIP.min_active


@predicate
def one_each(batches: Integer) -> Comparison:
    """it needs b_core = 1, so B = C; B is {batches}"""
    return batches.equals(CHIP.C)


@predicate
def more_than_one_each(batches: Integer) -> Comparison:
    """it needs b_core > 1, so B > C; B is {batches}"""
    return batches > CHIP.C


@predicate
def batch_fits(times: Integer, share: Integer) -> Comparison:
    """{times} × (MK + KN)·dtype, boxed, with the bias fits L1"""
    return one_batch() * times * share <= CHIP.l1


@predicate
def batch_does_not_fit(share: Integer) -> Comparison:
    """(MK + KN)·dtype, boxed, with the bias exceeds L1/{share}"""
    return one_batch() * share > CHIP.l1


@predicate
def left_whole_fits(step: Integer, share: Integer) -> Comparison:
    """(MK + KN/{step})·dtype, boxed, with the bias fits L1/{share}"""
    return (
        a_bytes(boxed_m(), boxed_k()) + a_bytes(boxed_n(), k_piece(step)) * peeled() + bias_row(boxed_n()) * 2
    ) * share <= CHIP.l1


@predicate
def right_whole_fits(step: Integer, share: Integer) -> Comparison:
    """(MK/{step} + KN)·dtype, boxed, with the bias fits L1/{share}"""
    return (a_bytes(m_piece(step), boxed_k()) + a_bytes(boxed_n(), boxed_k()) + bias_row(boxed_n()) * 2) * share <= CHIP.l1


@predicate
def both_cut_fit(step: Integer) -> Comparison:
    """(M·K/{step} + K/{step}·N)·dtype, boxed, with the bias fits L1"""
    return (boxed_m() + boxed_n()) * k_piece(step) * Q.bytes * peeled() + bias_row(boxed_n()) * 2 <= CHIP.l1


@predicate
def piece_large_enough(extent: Integer, piece: Integer) -> Comparison:
    """condition 4: a piece of {extent} × {piece} elements reaches the floor of one transfer, in bytes"""
    return extent * piece * Q.bytes >= CHIP.min_tile


@predicate
def run_long_enough(run: Integer) -> Comparison:
    """condition 4: a contiguous run of {run} elements reaches dValue ≥ 128 B, in bytes"""
    return run * Q.bytes >= CHIP.run


@predicate
def cuts(step: Integer) -> Comparison:
    """Step = {step} is more than 1"""
    return step >= 2


@predicate
def piece_cuts(piece: Integer, whole: Integer) -> Comparison:
    """a piece of {piece} elements cuts {whole}"""
    return piece < whole


@predicate
def whole_loads(i: Integer, B: Integer) -> Comparison:
    """{i} batches a load are no more than a core's share, as {i}·C against B"""
    return i * CHIP.C <= B


@predicate
def several_loads(i: Integer) -> Comparison:
    """{i} batches a load are more than one"""
    return i >= 2


def peeled() -> Integer:
    """Pieces in L1 at once: one, and the first one beside it where it is peeled for a bias."""
    return has_bias() + 1


def k_piece(step: Int) -> Integer:
    """⌈K/Step⌉ in whole boxes."""
    return align_up(ceil_div(Q.K, literal(step)), Q.box_k)


def m_piece(step: Int) -> Integer:
    """⌈M/Step⌉ in whole boxes."""
    return align_up(ceil_div(Q.M, literal(step)), Q.box_m)


def _left_pieces() -> list[Condition]:
    """Condition 4 for pieces of A along M."""
    piece = m_piece(step)
    return [piece_large_enough(Q.K, piece), run_long_enough(pick(Q.trans_a, piece, Q.K)), piece_cuts(piece, Q.M)]


def _right_pieces() -> list[Condition]:
    """Condition 4 for pieces of B along K."""
    piece = k_piece(step)
    return [piece_large_enough(Q.N, piece), run_long_enough(pick(Q.trans_b, piece, Q.N)), piece_cuts(piece, Q.K)]


# -- the operator's gate ---------------------------------------------------------------------------------------------


def _fractals(m: Integer) -> Integer:
    return align_up(m, 16)


def operator_batch() -> Integer:
    """Bytes of one batch as the operator counts them: extents rounded up to 16, the bias as n·4."""
    m, n, k = _fractals(Q.M), _fractals(Q.N), _fractals(Q.K)
    return (m * k + k * n) * Q.bytes + has_bias() * n * 4


@predicate
def few_loads(i: Integer, eight: Integer) -> Comparison:
    """{i} batches a load are no more than 8, where eight take {eight} bytes and that is more than 64 KiB"""
    return i * smaller_of(eight // (65536 + 1), 1) <= 8


@predicate
def more_batches_than_cores(batches: Integer) -> Comparison:
    """B = {batches} is more than the cores"""
    return batches > CHIP.C


@predicate
def two_batches_fit_l1(batch: Int) -> Comparison:
    """two batches of {batch} bytes, extents rounded up to 16, fit L1"""
    return literal(batch) * 2 <= CHIP.l1


@predicate
def batch_fits_l0a() -> Comparison:
    """one batch's A fits half of L0A, in bytes"""
    return _fractals(Q.M) * _fractals(Q.K) * Q.bytes * 2 <= CHIP.l0a


@predicate
def batch_fits_l0b() -> Comparison:
    """one batch's B fits half of L0B, in bytes"""
    return _fractals(Q.K) * _fractals(Q.N) * Q.bytes * 2 <= CHIP.l0b


@predicate
def batch_fits_l0c() -> Comparison:
    """one batch's C fits half of L0C, in bytes"""
    return _fractals(Q.M) * _fractals(Q.N) * 8 <= CHIP.l0c


@predicate
def batch_fits_bias() -> Comparison:
    """one batch's bias fits half of its table, in bytes"""
    return has_bias() * _fractals(Q.N) * 8 <= CHIP.bias_table


@predicate
def waves_balanced(batches: Integer, load: Int) -> Comparison:
    """B/C over ⌈⌈B/i⌉/C⌉·i is at least 0.8, i = {load} being the batches in half of L1, as 5·B against 4·C·⌈⌈B/i⌉/C⌉·i"""
    return batches * 5 >= ceil_div(ceil_div(batches, literal(load)), CHIP.C) * load * CHIP.C * 4


def _operator_gate(name: str, more: Iterable[Condition]) -> Rule:
    return rule(
        name,
        "the operator's gate of IterBatch",
        stage="batch_enter",
        reads=[the_batch(), the_chip(), read_as("operator")],
        when=[
            equal_batches(Q.batch_a, Q.batch_b, Q.equal),
            bias_without_batch(Q.bias),
            more_batches_than_cores(Q.B),
            two_batches_fit_l1(operator_batch()),
            *more,
        ],
        then=[iter_home(Q.p)],
    )


def _case(name: str, statement: str, when: Iterable[Condition], case: int, *, reads: Iterable[Term] = (), loads: Int = 1) -> Rule:
    return rule(
        name,
        statement,
        stage="batch_choose",
        reads=[iter_home(Q.p), the_batch(), the_chip(), accumulators(c), *reads],
        when=when,
        then=[union(Result(Q.p), IterBatch(Q.p, case, step if reads and loads == 1 else 1, loads, c))],
    )


def _gates() -> Iterator[Rule]:
    """Where the branch is entered, as the analysis has it and as the operator does."""
    yield rule(
        "enter_iter_batch",
        "entry conditions 1 and 2 of IterBatch",
        stage="batch_enter",
        reads=[the_batch(), the_chip(), read_as("analysis")],
        when=[
            equal_batches(Q.batch_a, Q.batch_b, Q.equal),
            has_depth(Q.K),
            batch_for_every_core(Q.B),
            last_wave_busy(Q.B),
        ],
        then=[iter_home(Q.p)],
    )
    yield _operator_gate("enter_iter_batch_l0", [batch_fits_l0a(), batch_fits_l0b(), batch_fits_l0c(), batch_fits_bias()])
    in_half = larger_of(CHIP.l1 // 2 // larger_of(operator_batch(), literal(1)), literal(1))
    yield _operator_gate("enter_iter_batch_balanced", [waves_balanced(Q.B, in_half)])


def _whole_batches() -> Iterator[Rule]:
    """Cases (a) and (b): L1 holds whole batches."""
    yield _case("iter_a", "(a) the one batch lies in L1 whole", [one_each(Q.B), batch_fits(ONE, ONE)], ONE_BATCH)
    yield _case(
        "iter_b", "(b) batches lie in L1 in turn, two at a time", [more_than_one_each(Q.B), batch_fits(TWO, ONE)], PING_PONG
    )
    yield _case(
        "iter_b_loads",
        "(b) as the operator has it: one transfer brings several batches, up to eight where eight exceed 64 KiB",
        [
            more_than_one_each(Q.B),
            several_loads(i),
            few_loads(i, operator_batch() * 8),
            whole_loads(i, Q.B),
            batch_fits(TWO, i),
        ],
        PING_PONG,
        reads=[double(i), read_as("operator")],
        loads=i,
    )


def _one_side_whole() -> Iterator[Rule]:
    """Cases (c) and (d): L1 holds one operand whole, the other comes in pieces."""
    for share, each, tag, left, right in (
        (ONE, one_each, "c", ONE_LEFT, ONE_RIGHT),
        (TWO, more_than_one_each, "d", PING_LEFT, PING_RIGHT),
    ):
        too_large = [each(Q.B), batch_does_not_fit(share), cuts(step)]
        yield _case(
            f"iter_{tag}_left",
            f"({tag}) A lies in L1 whole, B comes in Step pieces of K",
            [*too_large, left_whole_fits(step, share), *_right_pieces()],
            left,
            reads=[count(step)],
        )
        yield _case(
            f"iter_{tag}_right",
            f"({tag}) B lies in L1 whole, A comes in Step pieces of M",
            [*too_large, right_whole_fits(step, share), *_left_pieces()],
            right,
            reads=[count(step)],
        )
    # One-byte elements lie in boxes of 32, the operator counts 16: it enters with batches of which L1 does not hold two.
    narrow = [more_than_one_each(Q.B), batch_does_not_fit(TWO), cuts(step)]
    yield _case(
        "iter_d_left_operator",
        "(d) A lies in L1 whole, B comes in pieces of K; the operator asks for no floor of a piece",
        [*narrow, left_whole_fits(step, TWO), piece_cuts(k_piece(step), Q.K)],
        PING_LEFT,
        reads=[count(step), read_as("operator")],
    )
    yield _case(
        "iter_d_right_operator",
        "(d) B lies in L1 whole, A comes in pieces of M; the operator asks for no floor of a piece",
        [*narrow, right_whole_fits(step, TWO), piece_cuts(m_piece(step), Q.M)],
        PING_RIGHT,
        reads=[count(step), read_as("operator")],
    )


def _both_cut() -> Rule:
    """Case (e)."""
    piece = k_piece(step)
    return _case(
        "iter_e",
        "(e) A and B come in Step pieces of K each",
        [
            cuts(step),
            both_cut_fit(step),
            piece_large_enough(Q.M, piece),
            run_long_enough(pick(Q.trans_a, Q.M, piece)),
            *_right_pieces(),
        ],
        BOTH_CUT,
        reads=[count(step)],
    )


@family("iter_batch")
def ITER_BATCH() -> Iterator[Rule]:
    """C[u] = A[u] @ B[u] for each batch of the core's share: nothing read twice, nothing shared."""
    yield from _gates()
    yield from _whole_batches()
    yield from _one_side_whole()
    yield _both_cut()
