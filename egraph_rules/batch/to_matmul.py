"""To matmul: a product in which one side has no batch is a plain matmul (specification 3, "可转 Matmul 分支").

    [B, M, K] @ [1, K, N]  =  [B·M, K] @ [K, N]                                    the fold is a view
    [1, M, K] @ [B, K, N]  =  [M, K] @ [K, B·N], laid out anew before and after    a copy of B, a scatter of C
                           =  every core keeps A, and takes its share of B          no copy at all
                           =  [B, M, K] @ [B, K, N] with A repeated by addressing   whatever branch suits that

What the reduced problem becomes is the business of the other families, in the same e-graph.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.batch.asw_basic import in_boxes, no_larger_than
from egraph_rules.batch.conditions import (
    a_bytes,
    bias_fits,
    bias_row,
    block_fits_l0a,
    block_fits_l0b,
    block_fits_l0c,
    boxed_k,
    boxed_m,
    boxed_n,
    copies,
    has_depth,
)
from egraph_rules.batch.language import (
    ALIGNED,
    BROADCAST,
    CHIP,
    FOLDED,
    GIVEN,
    NO_BIAS,
    RELAID,
    HoldA,
    Q,
    Reduced,
    Result,
    accumulators,
    batch,
    read_as,
    the_batch,
    the_chip,
    tile,
)
from egraph_rules.expr import Comparison, Condition, Integer, align_up, predicate
from egraph_rules.rule import Action, Rule, family, rule, union, variables

m, n, c = variables("m n c")


@predicate
def right_without_batch(batch_b: Integer) -> Comparison:
    """it needs BatchB = 1; BatchB is {batch_b}"""
    return batch_b.equals(1)


@predicate
def left_without_batch(batch_a: Integer) -> Comparison:
    """it needs BatchA = 1; BatchA is {batch_a}"""
    return batch_a.equals(1)


@predicate
def several_batches(B: Integer) -> Comparison:
    """it needs B > 1; B is {B}"""
    return B >= 2


@predicate
def rows_follow_batches(trans_a: Integer, B: Integer) -> Comparison:
    """it needs A not stored transposed, or B = 1, so that its rows follow one another; A is stored transposed, B is {B}"""
    return trans_a * (B - 1) < 1


@predicate
def left_with_batch(batch_a: Integer) -> Comparison:
    """it needs BatchA > 1; BatchA is {batch_a}"""
    return batch_a >= 2


@predicate
def left_not_transposed(trans_a: Integer) -> Comparison:
    """it needs A not stored transposed; it is"""
    return trans_a.equals(0)


@predicate
def bias_follows_columns(bias: Integer, B: Integer) -> Comparison:
    """it needs a bias without a batch, or B = 1, so that one row serves all folded rows; the bias is batched, B is {B}"""
    return (bias // 2) * (B - 1) < 1


@predicate
def held_a_fits(m: Integer, n: Integer) -> Comparison:
    """MK·dtype, in blocks of {m} rows, with the thinnest panels of {n} columns of B and the bias beside it fits L1"""
    return a_bytes(align_up(Q.M, m), boxed_k()) + a_bytes(n, Q.box_k) * copies() + bias_row(n) * 2 <= CHIP.l1


def _reduced(role: int, **changed: Integer | int) -> tuple[Action, ...]:
    """Assert the reduced problem, and that its result is the given problem's."""
    p = Q.p + role
    columns = {name: getattr(Q, name) for name, _ in batch.columns} | {"p": p, "role": role} | changed
    return (batch(*columns.values()), union(Result(Q.p), Reduced(Q.p, role, Result(p))))


def _right_without_batch() -> Iterator[Rule]:
    """BatchB = 1: the batches of A are rows of one product."""
    folded: dict[str, Integer | int] = {"B": 1, "M": Q.B * Q.M, "batch_a": 1, "batch_b": 1, "equal": 1}
    may_fold = [has_depth(Q.K), right_without_batch(Q.batch_b), rows_follow_batches(Q.trans_a, Q.B)]
    operator = [right_without_batch(Q.batch_b), left_with_batch(Q.batch_a), left_not_transposed(Q.trans_a)]
    for name, gate in (("analysis", may_fold), ("operator", operator)):
        yield rule(
            f"fold_rows_{name}",
            "[B, M, K] @ [1, K, N] = [B·M, K] @ [K, N]",
            stage="batch_reduce",
            reads=[the_batch(role=GIVEN), read_as(name)],
            when=[*gate, bias_follows_columns(Q.bias, Q.B)],
            then=_reduced(FOLDED, **folded),
        )
        yield rule(
            f"fold_batches_{name}",
            "[B, M, K] @ [1, K, N] = [B·M, K] @ [K, N], row blocks ending where batches end",
            stage="batch_reduce",
            reads=[the_batch(role=GIVEN), read_as(name)],
            when=[*gate, several_batches(Q.B)],
            then=_reduced(ALIGNED),
        )


def _left_shared() -> list[Condition]:
    """BatchA = 1, beside several batches of B."""
    return [has_depth(Q.K), left_without_batch(Q.batch_a), several_batches(Q.B)]


def _left_held() -> Iterator[Rule]:
    """BatchA = 1, A staying in L1: whole, or in blocks of rows."""
    for name, rows, more, tiles in (
        ("hold_a_whole", boxed_m(), [], [tile(n)]),
        ("hold_a_rows", m, [no_larger_than(m, boxed_m()), in_boxes(m, Q.box_m)], [tile(m), tile(n)]),
    ):
        yield rule(
            name,
            "C[u] = ⋃ A[0] @ B[u][:, j], A staying in L1",
            stage="batch_choose",
            reads=[the_batch(role=GIVEN), the_chip(), read_as("analysis"), *tiles, accumulators(c)],
            when=[
                *_left_shared(),
                held_a_fits(rows, n),
                *more,
                no_larger_than(n, boxed_n()),
                in_boxes(n, Q.box_n),
                block_fits_l0a(rows),
                block_fits_l0b(n),
                block_fits_l0c(rows, n, c),
                bias_fits(n),
            ],
            then=[union(Result(Q.p), HoldA(Q.p, rows, n, c))],
        )


def _left_repeated() -> Iterator[Rule]:
    """BatchA = 1, by laying B out anew, or by addressing A again."""
    yield rule(
        "fold_columns",
        "[1, M, K] @ [B, K, N] = [M, K] @ [K, B·N], laid out anew",
        stage="batch_reduce",
        reads=[the_batch(role=GIVEN), read_as("analysis")],
        when=_left_shared(),
        then=_reduced(RELAID, B=1, N=Q.B * Q.N, batch_a=1, batch_b=1, equal=1, bias=NO_BIAS),
    )
    yield rule(
        "broadcast_a",
        "[1, M, K] @ [B, K, N] = [B, M, K] @ [B, K, N], A repeated by addressing",
        stage="batch_reduce",
        reads=[the_batch(role=GIVEN), read_as("analysis")],
        when=_left_shared(),
        then=_reduced(BROADCAST, equal=1),
    )


@family("to_matmul")
def TO_MATMUL() -> Iterator[Rule]:
    """[B, M, K] @ [1, K, N] = [B·M, K] @ [K, N]: a side without a batch makes a plain matmul."""
    yield from _right_without_batch()
    yield from _left_held()
    yield from _left_repeated()
