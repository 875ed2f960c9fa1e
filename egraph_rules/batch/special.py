"""The special branch: a product without depth is no work for the cube (specification 3, "特殊分支").

    K = 0:  C = bias, or 0                    K = 1:  C[b] = A[b] ⊙ B[b], column times row

The cube would multiply 16 × 16 × 16 fractals of which 15/16 are padding; the vector cores write or multiply the elements instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.batch.conditions import equal_batches, no_bias
from egraph_rules.batch.language import CHIP, GIVEN, Fill, Outer, Q, Result, read_as, the_batch, the_chip
from egraph_rules.expr import Comparison, Integer, align_up, literal, predicate, smaller_of
from egraph_rules.rule import Rule, family, rule, union


@predicate
def no_depth(K: Integer) -> Comparison:
    """it needs K = 0; K is {K}"""
    return K.equals(0)


@predicate
def depth_of_one(K: Integer) -> Comparison:
    """it needs K = 1; K is {K}"""
    return K.equals(1)


@predicate
def two_batches_a_vector_core(batches: Integer, aiv: Integer) -> Comparison:
    """B = {batches} is at least two batches for each of {aiv} vector cores"""
    return batches >= aiv * 2


@predicate
def batch_stays_in_ub(M: Integer, N: Integer) -> Comparison:
    """one batch's column of {M}, row of {N} and their product, in 32-byte blocks, fit the vector buffer, in bytes"""
    block = literal(32) // Q.bytes
    rows, columns = align_up(M, block), align_up(N, block)
    return (rows + columns + rows * columns) * Q.bytes <= CHIP.ub


@predicate
def result_stays_in_ub(M: Integer, N: Integer) -> Comparison:
    """one batch's column of {M}, row of {N} and their result (4 bytes an element of int8), in 32-byte blocks, fit the vector
    buffer, in bytes"""
    block = literal(32) // Q.bytes
    rows, columns = align_up(M, block), align_up(N, block)
    result = Q.bytes + (literal(1) - smaller_of(Q.bytes - 1, literal(1))) * 3
    return (rows + columns) * Q.bytes + rows * columns * result <= CHIP.ub


@predicate
def many_batches(B: Integer) -> Comparison:
    """it needs B ≥ 128; B is {B}"""
    return B >= 128


@predicate
def more_than_one_column(N: Integer) -> Comparison:
    """it needs N ≠ 1; N is {N}"""
    return N.differs(1)


@predicate
def row_within_a_block(N: Integer) -> Comparison:
    """a row of {N} elements is at most 32 bytes"""
    return N * Q.bytes <= 32


@predicate
def row_beyond_a_register(N: Integer) -> Comparison:
    """a row of {N} elements is more than the 256 bytes of a vector register"""
    return N * Q.bytes > 256


@predicate
def not_whole_registers(N: Integer) -> Comparison:
    """it needs rows that are no multiple of 256 bytes; a row of {N} elements is one"""
    return (N * Q.bytes) % 256 >= 1


@family("special")
def SPECIAL() -> Iterator[Rule]:
    """K = 0: C = bias or 0;  K = 1: C = A ⊙ B: without depth the vector cores do the work."""
    yield rule(
        "k0",
        "[B, M, 0] @ [B, 0, N] + bias = bias",
        stage="batch_enter",
        reads=[the_batch(role=GIVEN), read_as("analysis")],
        when=[no_depth(Q.K)],
        then=[union(Result(Q.p), Fill(Q.p))],
    )
    yield rule(
        "k0_operator",
        "[B, M, 0] @ [B, 0, N] = 0",
        stage="batch_enter",
        reads=[the_batch(role=GIVEN), read_as("operator")],
        when=[no_depth(Q.K), no_bias(Q.bias)],
        then=[union(Result(Q.p), Fill(Q.p))],
    )
    yield rule(
        "k1",
        "[B, M, 1] @ [B, 1, N] = A ⊙ B",
        stage="batch_enter",
        reads=[the_batch(role=GIVEN), the_chip(), read_as("analysis")],
        when=[depth_of_one(Q.K), two_batches_a_vector_core(Q.B, CHIP.aiv), result_stays_in_ub(Q.M, Q.N)],
        then=[union(Result(Q.p), Outer(Q.p))],
    )
    for name, length in (("k1_operator_short", row_within_a_block), ("k1_operator_long", row_beyond_a_register)):
        yield rule(
            name,
            "[B, M, 1] @ [B, 1, N] = A ⊙ B, for rows the vendor's kernel handles",
            stage="batch_enter",
            reads=[the_batch(role=GIVEN), the_chip(), read_as("operator")],
            when=[
                depth_of_one(Q.K),
                equal_batches(Q.batch_a, Q.batch_b, Q.equal),
                many_batches(Q.B),
                no_bias(Q.bias),
                more_than_one_column(Q.N),
                length(Q.N),
                not_whole_registers(Q.N),
                batch_stays_in_ub(Q.M, Q.N),
            ],
            then=[union(Result(Q.p), Outer(Q.p))],
        )
