"""Side conditions of batch matmul, each with the sentence it stands for (specification 3, and the operator's gates).

They guard the rules, and the same objects say with numbers why a branch was refused.
"""

from __future__ import annotations

from egraph_rules.batch.language import BATCHED_BIAS, CHIP, NO_BIAS, Q
from egraph_rules.expr import Comparison, Int, Integer, align_up, ceil_div, literal, predicate, smaller_of

FRACTAL = 16

# -- sizes, as expressions -------------------------------------------------------------------------------------------


def pick(flag: Int, then: Int, otherwise: Int) -> Integer:
    """``then`` where ``flag`` is 1, ``otherwise`` where it is 0."""
    return literal(flag) * then + (literal(1) - literal(flag)) * otherwise


def boxed_m() -> Integer:
    return align_up(Q.M, Q.box_m)


def boxed_n() -> Integer:
    return align_up(Q.N, Q.box_n)


def boxed_k() -> Integer:
    return align_up(Q.K, Q.box_k)


def has_bias() -> Integer:
    """1 where there is a bias."""
    return (Q.bias + 1) // 2


def a_bytes(rows: Int, depth: Int) -> Integer:
    """Bytes of L1 that rows × depth of A take."""
    return literal(rows) * depth * Q.bytes


def bias_row(columns: Int) -> Integer:
    """Bytes of L1 that a bias row takes, as accumulators hold it."""
    return has_bias() * columns * 4


def copies() -> Integer:
    """Buffers of a streamed panel: two, and two of the first one where it is peeled for a bias."""
    return has_bias() * 2 + 2


def one_batch(times: int = 1) -> Integer:
    """Bytes of L1 for one batch's operands and bias, boxed."""
    return (a_bytes(boxed_m(), boxed_k()) + a_bytes(boxed_n(), boxed_k()) + bias_row(boxed_n())) * times


def merged_rows(b: Int) -> Integer:
    """Rows of b merged batches (:func:`cost.batch.tiling.merged_rows`)."""
    packed = (literal(1) - Q.trans_a) * smaller_of(Q.batch_a - 1, literal(1))
    return pick(packed, align_up(literal(b) * Q.M, FRACTAL), literal(b) * boxed_m())


def merged_columns(b: Int) -> Integer:
    """Columns of b merged batches (:func:`cost.batch.tiling.merged_columns`)."""
    packed = Q.trans_b * smaller_of(Q.batch_b - 1, literal(1)) * (literal(1) - has_bias())
    return pick(packed, align_up(literal(b) * Q.N, FRACTAL), literal(b) * boxed_n())


def fractal_blocks() -> Integer:
    """P at the cube's smallest output: B · ⌈M/16⌉ · ⌈N/16⌉."""
    return Q.B * ceil_div(Q.M, FRACTAL) * ceil_div(Q.N, FRACTAL)


# -- shared conditions -----------------------------------------------------------------------------------------------


@predicate
def has_depth(K: Integer) -> Comparison:
    """it needs K ≥ 1; K is {K}"""
    return K >= 1


@predicate
def equal_batches(batch_a: Integer, batch_b: Integer, equal: Integer) -> Comparison:
    """it needs BatchA = BatchB; BatchA is {batch_a}, BatchB is {batch_b}"""
    return equal.equals(1)


@predicate
def no_bias(bias: Integer) -> Comparison:
    """it needs no bias; there is one"""
    return bias.equals(NO_BIAS)


@predicate
def bias_without_batch(bias: Integer) -> Comparison:
    """it needs a bias without a batch, or none; the bias is batched"""
    return bias < BATCHED_BIAS


@predicate
def block_fits_l0a(m: Integer) -> Comparison:
    """two of the thinnest panels of {m} rows of A (four with a bias) fit L0A, in bytes"""
    return m * Q.box_k * Q.bytes * copies() <= CHIP.l0a


@predicate
def block_fits_l0b(n: Integer) -> Comparison:
    """two of the thinnest panels of {n} columns of B (four with a bias) fit L0B, in bytes"""
    return n * Q.box_k * Q.bytes * copies() <= CHIP.l0b


@predicate
def block_fits_l0c(m: Integer, n: Integer, depth: Integer) -> Comparison:
    """M^t · N^t · 4 · DB = {m} · {n} · 4 · {depth} bytes fit L0C"""
    return m * n * 4 * depth <= CHIP.l0c


@predicate
def bias_fits(n: Integer) -> Comparison:
    """two bias windows of {n} columns fit the bias table, in bytes"""
    return has_bias() * n * 8 <= CHIP.bias_table


@predicate
def panels_fit_l1(m: Integer, n: Integer, depth: Integer, buffers: Integer, resident: Integer) -> Comparison:
    """{buffers} buffers of {depth} deep panels of {m} rows and {n} columns fit L1 beside {resident} bytes and the bias"""
    return (m + n) * depth * Q.bytes * buffers + resident + bias_row(n) * 2 <= CHIP.l1
