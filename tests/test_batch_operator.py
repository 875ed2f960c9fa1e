"""The operator's reading: the branch the vendor operator takes, for every golden row, and its gates one by one.

Numbers by hand for 32 cube cores, L1 512 KiB, L0A = L0B = 64 KiB, L0C 256 KiB, vector buffer 248 KiB.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cost.batch.chip import get_chip
from cost.batch.problem import batch_problem
from egraph_rules.batch import language as L
from egraph_rules.batch.catalogue import branch_rules
from egraph_rules.batch.saturate import saturate, state
from ir_bridge.batch.coverage import check_coverage
from ir_bridge.ir.verifier import verify
from tilesat.batch import BatchPlan, plan_batch

GOLDEN = [json.loads(line) for line in (Path(__file__).parent / "data" / "batch_branches.jsonl").read_text().splitlines()]


def operator(**arguments: Any) -> BatchPlan:
    return plan_batch(**{"dtype": "bf16", "deterministic": False, "reading": "operator", "order": "operator", **arguments})


def refused(branch: str, **arguments: Any) -> bool:
    return branch in operator(**arguments).refused


@pytest.mark.parametrize("part", range(6))
def test_golden_branches(part: int) -> None:
    wrong = []
    for row in GOLDEN[part::6]:
        arguments = {k: v for k, v in row.items() if k != "branch"}
        plan = operator(**arguments)
        if plan.branch != row["branch"]:
            wrong.append((row, plan.branch))
        assert verify(plan.program, plan.chip.target) == ()
    assert not wrong


def test_every_branch_is_among_the_golden_rows() -> None:
    assert {row["branch"] for row in GOLDEN} == {
        *("special_k0", "to_matmul", "special_k1", "stream_k", "merge_batch", "iter_batch", "asw_basic")
    }


def test_special_k0_takes_no_bias() -> None:
    assert operator(B=3, M=40, N=50, K=0).branch == "special_k0"
    assert operator(B=3, M=40, N=50, K=0, bias="shared").branch == "asw_basic"


def test_to_matmul_folds_an_untransposed_a_only() -> None:
    assert operator(B=3, M=40, N=50, K=60, batch_b=1).branch == "to_matmul"
    assert operator(B=3, M=40, N=50, K=60, batch_b=1, transpose_a=True).branch == "asw_basic"
    assert operator(B=3, M=40, N=50, K=60, batch_a=1).branch == "asw_basic"
    assert operator(B=1, M=40, N=50, K=60).branch == "asw_basic"  # BatchA > 1 is asked for


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"B": 127}, False),
        ({"bias": "shared"}, False),
        ({"N": 1}, False),
        ({"N": 16}, True),  # 32 bytes: not beyond 32/s
        ({"N": 17}, False),  # in (16, 128]
        ({"N": 128}, False),
        ({"N": 129}, True),
        ({"N": 256}, False),  # a multiple of 128
        ({"M": 208, "N": 592}, True),  # (208 + 592 + 123136)·2 = 247872 ≤ 253952
        ({"M": 224, "N": 592}, False),  # (224 + 592 + 132608)·2 = 266848
        ({"batch_b": 1}, False),
    ],
)
def test_special_k1_gate(change: dict[str, Any], taken: bool) -> None:
    assert (not refused("special_k1", **{"B": 128, "M": 4, "N": 200, "K": 1, **change})) is taken


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"deterministic": True}, False),
        ({"bias": "shared"}, True),
        ({"bias": "batched"}, False),
        ({"K": 3841}, True),  # ⌈3841⌉256 = 4096 = max(8192, 256·32)/2
        ({"K": 3840}, False),
        ({"B": 17}, False),  # 17 blocks of 256 × 256 leave 15 cores
        ({"B": 16}, True),
        ({"M": 2048, "N": 512}, True),  # 8·2 = 16 blocks
        ({"M": 2049, "N": 512}, False),
        ({"dtype": "fp32", "M": 128, "N": 128, "K": 2048}, True),  # grain 32: 16 blocks; 8192/4 = 2048
        ({"dtype": "fp32", "M": 129, "N": 128, "K": 2048}, False),
        ({"dtype": "fp32", "M": 32, "N": 32, "K": 2_000_000}, True),
        ({"dtype": "fp32", "M": 32, "N": 32, "K": 2_000_001}, False),
        ({"batch_a": 1, "B": 2}, False),
    ],
)
def test_stream_k_gate(change: dict[str, Any], taken: bool) -> None:
    assert (not refused("stream_k", **{"B": 1, "M": 200, "N": 200, "K": 4096, **change})) is taken


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"B": 127}, False),
        ({"bias": "shared"}, False),
        ({"dtype": "fp32"}, False),
        ({"K": 49}, True),  # ⌈49⌉16 = 64
        ({"K": 48}, False),
        ({"M": 33, "N": 32}, False),  # M ≤ N
        ({"M": 32, "N": 32}, True),
        ({"M": 40, "N": 48}, True),  # ⌈160⌉16 · 4·48 · 8 = 245760 ≤ L0C
        ({"M": 44, "N": 48}, False),  # ⌈176⌉16 · 4·48 · 8 = 270336 > L0C
        ({"batch_a": 1}, False),
    ],
)
def test_merge_batch_gate(change: dict[str, Any], taken: bool) -> None:
    assert (not refused("merge_batch", **{"B": 128, "M": 8, "N": 16, "K": 64, **change})) is taken


def test_merge_batch_gate_counts_a_transposed_a_batch_by_batch() -> None:
    """⌈4·40⌉16 = 160, but 4·⌈40⌉16 = 192 where A is stored transposed: 160·192·8 fits L0C, 192·192·8 = 294912 does not."""
    assert not refused("merge_batch", B=128, M=40, N=48, K=64)
    assert refused("merge_batch", B=128, M=40, N=48, K=64, transpose_a=True)
    assert not refused("merge_batch", B=128, M=1, N=48, K=64, transpose_a=True)


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"B": 32}, False),
        ({"bias": "shared"}, True),
        ({"bias": "batched"}, False),
        ({"batch_b": 1}, False),
        # half of L0A: 64·256·2 = 32768 fits, 64·272·2 does not; then the balance counts: 33 batches, i = 2 loads of
        # (64·272 + 272·64)·2 = 69632 bytes give 3 to half of L1: (33/32)/(1·3) = 0.34 < 0.8
        ({"M": 64, "N": 64, "K": 256}, True),
        ({"M": 64, "N": 64, "K": 272}, False),
        # 96 batches of it: ⌈⌈96/3⌉/32⌉·3 = 3, 3/3 = 1
        ({"M": 64, "N": 64, "K": 272, "B": 96}, True),
        # two batches of 131072 bytes fill L1 exactly; i = 1 and 64 batches are even
        ({"M": 128, "N": 128, "K": 512, "B": 64}, True),
        ({"M": 128, "N": 128, "K": 513, "B": 64}, False),
    ],
)
def test_iter_batch_gate(change: dict[str, Any], taken: bool) -> None:
    assert (not refused("iter_batch", **{"B": 33, "M": 20, "N": 30, "K": 40, **change})) is taken


@pytest.mark.parametrize(
    ("size", "loads"),
    [
        # (16·16 + 16·16)·2 = 1024 bytes, eight are 8 KiB: up to a core's 75, as powers of two, 2·64·1024 being within L1
        ({"B": 2400, "M": 16, "N": 16, "K": 16}, {1, 2, 4, 8, 16, 32, 64}),
        # (32·64 + 64·32)·2 = 8192 bytes, eight are 64 KiB and no more: up to L1/(2·8192) = 32
        ({"B": 2400, "M": 32, "N": 32, "K": 64}, {1, 2, 4, 8, 16, 32}),
        # (48·64 + 64·32)·2 = 10240 bytes, eight are 80 KiB: L1 would hold 16 twice
        ({"B": 2400, "M": 48, "N": 32, "K": 64}, {1, 2, 4, 8}),
    ],
)
def test_iter_batch_loads(size: dict[str, int], loads: set[int]) -> None:
    p = batch_problem(operand="bf16", **size)
    frozen, _ = saturate(state(p, get_chip("ascend950pr"), "operator", False, 2), branch_rules())
    assert {r[3] for r in frozen.rows(L.IterBatch) if r[0] == 0} == loads


def test_many_batches_a_load_are_a_sound_program() -> None:
    plan = operator(B=2400, M=3, N=5, K=7, branch="iter_batch")
    assert plan.params["batches_per_load"] > 8
    assert verify(plan.program, plan.chip.target) == ()
    check_coverage(plan.program, plan.problem)


def test_asw_basic_takes_everything_else() -> None:
    plan = operator(B=5, M=40, N=50, K=60, bias="batched", transpose_a=True)
    assert plan.branch == "asw_basic"
    assert "asw_basic" not in plan.refused


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ({"N": 512}, True),  # 64·⌈512/256⌉ = 128 = 4·32 blocks
        ({"N": 257}, True),
        ({"N": 256}, True),  # 64 blocks only, but 64·512·256·2 = 16777216 bytes of B, L1·32
        ({"N": 255}, False),  # 64·512·255·2 = 16711680; the analysis counts blocks of 128 columns, and holds A
        ({"N": 512, "M": 257}, False),
        ({"N": 512, "K": 513}, False),  # 2·256·528·2 = 540672 > 524288
        ({"N": 512, "batch_a": 64}, False),
    ],
)
def test_asw_basic_full_load_gate(change: dict[str, Any], held: bool) -> None:
    """A without a batch, M ≤ 256, 2·⌈M⌉16⌈K⌉16·2 ≤ L1 (2·256·512·2 = 524288), and enough blocks or bytes of B. And B likewise."""
    size: dict[str, Any] = {"B": 64, "M": 256, "K": 512, "batch_a": 1, **change}

    def holds(side: int, reading: str, **arguments: Any) -> bool:
        p = batch_problem(operand="bf16", **arguments)
        frozen, _ = saturate(state(p, get_chip("ascend950pr"), reading, False, 2), branch_rules())
        return any(r[0] == 0 and r[4] == side for r in frozen.rows(L.Blocks))

    mirrored = {"M": size["N"], "N": size["M"], "B": 64, "K": size["K"], "batch_b": size["batch_a"]}
    assert holds(1, "operator", **size) == held
    assert holds(2, "operator", **mirrored) == held
    if change == {"N": 255}:
        assert holds(1, "analysis", **size)


def test_latency_order_takes_the_cheapest_of_the_operator_s_branches() -> None:
    row = {"B": 128, "M": 16, "N": 32, "K": 512}
    first, cheapest = operator(**row), operator(**row, order="latency")
    assert first.branch == "merge_batch"
    assert cheapest.latency.total == min(x.total for x in cheapest.alternatives.values())
    assert cheapest.latency.total <= first.latency.total
