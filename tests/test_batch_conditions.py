"""Every numbered entry condition of specification 3, on both sides of its bound; the numbers are worked by hand.

Chip: C = 32, L1 = 524288, L0A = L0B = 65536, L0C = 262144 bytes, R = 607.5 FLOP per 2-byte element, 480 KiB a core, 16 KiB a
transfer, minCoreNum = ⌈0.8·32⌉ = 26. bf16: 2 bytes an element.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from cost.batch.chip import get_chip
from cost.batch.problem import BatchProblem, batch_problem
from egraph_rules.batch import language as L
from egraph_rules.batch.catalogue import branch_rules
from egraph_rules.batch.saturate import saturate, state
from egraph_rules.rule import Table
from ir_bridge.ir.verifier import verify
from tilesat.batch import BatchPlan, plan_batch

PR = get_chip("ascend950pr")


def plan(**arguments: Any) -> BatchPlan:
    return plan_batch(**{"dtype": "bf16", **arguments})


def refusal(branch: str, **arguments: Any) -> str:
    """The reasons a branch is refused; "" where it is capable."""
    return " | ".join(plan(**arguments).refused.get(branch, ()))


def rows(table: Table, chip: Any = PR, **arguments: Any) -> list[tuple[int, ...]]:
    """The rows of a constructor for the given problem (number 0), without number and class."""
    given: dict[str, Any] = {"operand": "bf16", **arguments}
    p: BatchProblem = batch_problem(**given)
    frozen, _ = saturate(state(p, chip, "analysis", False, 2), branch_rules())
    return sorted(r[1:-1] for r in frozen.rows(table) if r[0] == 0)


def cases(**arguments: Any) -> set[str]:
    from cost.batch.tiling import CASE_NAMES

    return {CASE_NAMES[r[0]] for r in rows(L.IterBatch, **arguments)}


# -- to matmul -------------------------------------------------------------------------------------------------------


def test_to_matmul_needs_a_side_without_batch() -> None:
    assert plan(B=8, M=40, N=50, K=60, batch_b=1).branch == "to_matmul"
    assert plan(B=8, M=40, N=50, K=60, batch_a=1).branch == "to_matmul"
    assert plan(B=1, M=40, N=50, K=60).branch == "to_matmul"
    reason = refusal("to_matmul", B=8, M=40, N=50, K=60)
    assert "it needs BatchB = 1; BatchB is 8" in reason
    assert "it needs BatchA = 1; BatchA is 8" in reason


def test_rows_fold_only_where_they_follow_one_another() -> None:
    """A stored [B, K, M] has no view [B·M, K]; with B = 1 there is nothing to fold."""
    assert "not stored transposed" in refusal("to_matmul", B=8, M=40, N=50, K=60, batch_b=1, transpose_a=True)
    assert plan(B=1, M=40, N=50, K=60, transpose_a=True).branch == "to_matmul"


def test_a_stays_in_l1_while_it_fits() -> None:
    """M = 512: MK·2 with the thinnest two panels of B, 2·16·16·2 = 1024 bytes, beside it. K = 496: 507904 + 1024 ≤ 524288.
    K = 512: 524288 is L1 whole, and nothing is left for B."""
    assert rows(L.HoldA, B=64, M=512, N=64, K=496, batch_a=1)
    assert not rows(L.HoldA, B=64, M=512, N=64, K=512, batch_a=1)
    assert plan(B=64, M=512, N=64, K=512, batch_a=1).params["way"] in ("fold_columns", "broadcast_a")


# -- special ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [None, "shared", "batched"])
def test_k_0_is_special(bias: str | None) -> None:
    assert plan(B=3, M=40, N=50, K=0, bias=bias).branch == "special_k0"
    assert "it needs K = 0; K is 1" in refusal("special_k0", B=3, M=40, N=50, K=1, bias=bias)


def test_k_1_needs_two_batches_a_vector_core() -> None:
    """64 vector cores: B ≥ 128."""
    assert "special_k1" not in plan(B=128, M=4, N=50, K=1).refused
    assert "127 < 128" in refusal("special_k1", B=127, M=4, N=50, K=1)
    assert "it needs K = 1; K is 2" in refusal("special_k1", B=128, M=4, N=50, K=2)


def test_k_1_keeps_a_batch_in_the_vector_buffer() -> None:
    """248 KiB = 253952 bytes. M = 352, N = 352: (352 + 352 + 123904)·2 = 249216; N = 368: (352 + 368 + 129536)·2 = 260512."""
    assert "special_k1" not in plan(B=128, M=352, N=352, K=1).refused
    assert "260512 > 253952" in refusal("special_k1", B=128, M=352, N=368, K=1)


# -- MergeBatch ------------------------------------------------------------------------------------------------------


def test_merge_condition_1_share_of_a_core() -> None:
    """b_core = B/C ≥ 2·b0 = 4: B ≥ 128. (B − 1 batches of 32 × 32 × 1024 still move 127·64·1024·2 > 480 KiB·32 bytes.)"""
    assert "merge_batch" not in plan(B=128, M=32, N=32, K=1024).refused
    assert "condition 1" in refusal("merge_batch", B=127, M=32, N=32, K=1024)
    assert "127 < 128" in refusal("merge_batch", B=127, M=32, N=32, K=1024)
    assert "condition 3" not in refusal("merge_batch", B=127, M=32, N=32, K=1024)
    assert "merge_batch" not in plan(B=192, M=32, N=32, K=1024, b0=3).refused
    assert "191 < 192" in refusal("merge_batch", B=191, M=32, N=32, K=1024, b0=3)


def test_merge_needs_equal_batches() -> None:
    assert "it needs BatchA = BatchB; BatchA is 1, BatchB is 256" in refusal("merge_batch", B=256, M=32, N=32, K=1024, batch_a=1)


def test_merge_condition_2_l0c() -> None:
    """2·⌈2M⌉16·⌈2N⌉16·4 ≤ 262144. M = N = 88: 176·176·8 = 247808; M = N = 89: 178 → 192, 192·192·8 = 294912."""
    assert "condition 2" not in refusal("merge_batch", B=1024, M=88, N=88, K=128, transpose_b=True)
    assert "294912 > 262144" in refusal("merge_batch", B=1024, M=89, N=89, K=128, transpose_b=True)


def test_merge_condition_2_counts_the_boxes_of_what_cannot_be_packed() -> None:
    """B stored [K, N] cannot be packed: 88 columns take 96 each, and 176·192·8 = 270336 > 262144, though condition 2 holds."""
    assert "merge_batch" not in plan(B=1024, M=88, N=88, K=128, transpose_b=True).refused
    assert "176 · 192" in refusal("merge_batch", B=1024, M=88, N=88, K=128)
    assert "270336 > 262144" in refusal("merge_batch", B=1024, M=88, N=88, K=128)


def test_merge_condition_3_bytes_of_a_core() -> None:
    """b_core = 4, M = N = 32: 4·64·K·2 ≥ 491520, K ≥ 960; of all cores 128·64·K·2 against 15728640."""
    assert "merge_batch" not in plan(B=128, M=32, N=32, K=960).refused
    assert "condition 3" in refusal("merge_batch", B=128, M=32, N=32, K=959)
    assert "15712256 < 15728640" in refusal("merge_batch", B=128, M=32, N=32, K=959)


def test_merge_condition_4_bytes_of_a_transfer() -> None:
    """max(MK, KN)·2 ≥ 16384. N = 32: K = 256 gives 16384, K = 255 gives 16320; M is smaller and does not matter."""
    assert "merge_batch" not in plan(B=4096, M=8, N=32, K=256).refused
    assert "16320 < 16384" in refusal("merge_batch", B=4096, M=8, N=32, K=255)


def test_merge_condition_5_memory_bound() -> None:
    """2MN/(M + N) < R/b0. On a chip with R = 64 (per 2 bytes), b0 = 2: M = N = 31 gives 31 < 32, M = N = 32 gives 32."""
    chip = dataclasses.replace(PR, name="balanced", balance_flop_per_element=64)
    assert "merge_batch" not in plan(B=4096, M=31, N=31, K=512, chip=chip).refused
    assert "condition 5" in refusal("merge_batch", B=4096, M=32, N=32, K=512, chip=chip)
    # R scales with the element size: one byte buys the same work, so int8 has 128 per element, fp32 has 32.
    assert "condition 5" not in refusal("merge_batch", B=4096, M=63, N=63, K=512, chip=chip, dtype="int8")
    assert "condition 5" in refusal("merge_batch", B=4096, M=64, N=64, K=512, chip=chip, dtype="int8")
    assert "condition 5" not in refusal("merge_batch", B=4096, M=15, N=15, K=512, chip=chip, dtype="fp32")
    assert "condition 5" in refusal("merge_batch", B=4096, M=16, N=16, K=512, chip=chip, dtype="fp32")


def test_merge_step_1_bounds_of_b() -> None:
    """M = N = 32, b_core = 8: L0C gives (32b)²·8 ≤ 262144, b ≤ 5; R/b > 32 gives b ≤ 18; b_core gives b ≤ 8. b0 = 2."""
    assert {b for b, _ in rows(L.MergeBatch, B=256, M=32, N=32, K=512)} == {2, 3, 4, 5}
    # M = N = 16: (16b)²·8 ≤ 262144 gives b ≤ 11, a core has 8
    assert {b for b, _ in rows(L.MergeBatch, B=256, M=16, N=16, K=1024)} == {2, 3, 4, 5, 6, 7, 8}
    # on a chip with R = 100: 32·b < 100 gives b ≤ 3
    chip = dataclasses.replace(PR, name="balanced", balance_flop_per_element=100)
    assert {b for b, _ in rows(L.MergeBatch, chip, B=256, M=32, N=32, K=512)} == {2, 3}


def test_merge_step_3_least_k_l1() -> None:
    """k_L1 ≥ min(k_L0_max, 128 B / 2 = 64). M = N = 32, b = 2: L0A gives 65536/(2·64·2) = 256, so 64; M = N = 80, b = 2:
    65536/(2·160·2) = 102, 64 again. On a chip with a quarter of L0A, 25: then 32 is the least power of two in boxes of 16."""
    assert min(k for b, k in rows(L.MergeBatch, B=256, M=32, N=32, K=1024) if b == 2) == 64
    chip = dataclasses.replace(PR, name="small L0A", l0a_bytes=16384)
    assert min(k for b, k in rows(L.MergeBatch, chip, B=256, M=80, N=80, K=1024) if b == 2) == 32


def test_merge_step_2_least_k_l0() -> None:
    """k_L0 is at least 32 B / dtype. M = N = 80, b = 2 with a quarter of L0A: 16384/(2·160·2) = 25, which is 16 in boxes, the run
    of 32 bytes. A chip that wants runs of 64 bytes along K wants 32, and there is no such panel."""
    quarter = dataclasses.replace(PR, name="small L0A", l0a_bytes=16384)
    longer = dataclasses.replace(quarter, k_run_bytes=64)
    assert {b for b, _ in rows(L.MergeBatch, quarter, B=4096, M=80, N=80, K=1024)} == {2}
    assert not rows(L.MergeBatch, longer, B=4096, M=80, N=80, K=1024)
    reason = refusal("merge_batch", B=4096, M=80, N=80, K=1024, chip=longer)
    assert "min(k_L0a, k_L0b) = 25 of the merged batches reaches a run of 32 B / dtype along K: 25 < 32" in reason
    # b = 2 of M = N = 16 have 16384/(2·32·2) = 128, and the L0 tile keeps the floor as well
    assert plan(B=4096, M=16, N=16, K=1024, chip=longer, branch="merge_batch").params["k"] >= 32


def test_merged_batches_leave_room_for_panels_of_the_least_depth() -> None:
    """K = 100 is 112 in boxes and 128 in panels of 32, the floor of a chip whose runs along K are 64 bytes. M = N = 1 stored so
    that they take 16 each, b = 2: two buffers of 64·128·2 bytes are L1 = 32768 whole, and a bias row is too much for it."""
    chip = dataclasses.replace(
        PR, name="tight", cores=5, l1_bytes=32768, l0a_bytes=8192, k_run_bytes=64, min_tile_bytes=1, min_bytes_per_core=1
    )
    problem: dict[str, Any] = {"B": 130, "M": 1, "N": 1, "K": 100, "dtype": "fp16", "transpose_a": True, "chip": chip}
    found = plan(**problem, branch="merge_batch")
    assert (found.params["b_l1"], found.params["k_l1"]) == (2, 112)
    assert verify(found.program, chip.target) == ()
    # panels of K then, four of them in L1: 4·64·64·2 would be L1 whole again
    assert plan(**problem, bias="shared", branch="merge_batch").params["k_l1"] == 32


# -- IterBatch -------------------------------------------------------------------------------------------------------


def test_iter_condition_1_a_batch_for_every_core() -> None:
    assert "iter_batch" not in plan(B=32, M=64, N=64, K=64).refused
    assert "31 < 32" in refusal("iter_batch", B=31, M=64, N=64, K=64)
    assert "it needs BatchA = BatchB; BatchA is 64, BatchB is 1" in refusal("iter_batch", B=64, M=64, N=64, K=64, batch_b=1)


def test_iter_condition_2_last_wave() -> None:
    """B mod C = 0, or at least 26: 58 = 32 + 26 leaves 6 idle, 57 leaves 7; 64 leaves none."""
    assert "iter_batch" not in plan(B=58, M=64, N=64, K=64).refused
    assert "condition 2" in refusal("iter_batch", B=57, M=64, N=64, K=64)
    assert "7 > 6" in refusal("iter_batch", B=57, M=64, N=64, K=64)
    assert "iter_batch" not in plan(B=64, M=64, N=64, K=64).refused
    assert "28 > 6" in refusal("iter_batch", B=100, M=64, N=64, K=64)
    assert "16 > 6" in refusal("iter_batch", B=1200, M=64, N=64, K=64)


def test_iter_condition_3a_one_batch_whole() -> None:
    """B = C, (256·K + K·256)·2 = 1024·K ≤ 524288: K = 512; K = 528 does not fit."""
    assert "a" in cases(B=32, M=256, N=256, K=512)
    assert "a" not in cases(B=32, M=256, N=256, K=528)
    assert "a" not in cases(B=64, M=16, N=16, K=16)


def test_iter_condition_3b_two_batches() -> None:
    """B > C, 2·(128·K + K·128)·2 = 1024·K ≤ 524288: K = 512."""
    assert "b" in cases(B=64, M=128, N=128, K=512)
    assert "b" not in cases(B=64, M=128, N=128, K=528)
    assert "b" not in cases(B=32, M=16, N=16, K=16)


def test_iter_condition_3c_one_side_whole() -> None:
    """B = C, K = 512, N = 64: A whole and pieces of B. M = 496: 507904 + 128·64·2 = 524288 = L1 (Step = 4, a piece of 16 KiB).
    M = 512 fills L1 by itself: only B whole (65536) with pieces of A is left."""
    assert {"c-left", "c-right"} <= cases(B=32, M=496, N=64, K=512)
    assert "c-left" not in cases(B=32, M=512, N=64, K=512)
    assert "c-right" in cases(B=32, M=512, N=64, K=512)
    # a batch that fits whole is case (a), not (c)
    assert not {"c-left", "c-right"} & cases(B=32, M=256, N=256, K=512)


def test_iter_condition_3d_one_side_whole_in_turn() -> None:
    """B > C: the budget is L1/2 = 262144. K = 512, N = 64: M = 240 gives 245760 + 128·64·2 = 262144; M = 256 gives 262144."""
    assert "d-left" in cases(B=64, M=240, N=64, K=512)
    assert "d-left" not in cases(B=64, M=256, N=64, K=512)
    assert "d-right" in cases(B=64, M=256, N=64, K=512)
    assert not {"d-left", "d-right"} & cases(B=64, M=64, N=64, K=512)  # 131072 bytes: two fit


def test_iter_condition_3e_both_cut() -> None:
    """(1024 + 1024)·K/Step·2 ≤ 524288: pieces of at most 128. K = 1024: Step = 8 gives 128, Step = 7 gives 147 → 160."""
    steps = {r[1] for r in rows(L.IterBatch, B=32, M=1024, N=1024, K=1024) if r[0] == 6}
    assert min(steps) == 8
    assert 7 not in steps


def test_iter_condition_4_tile() -> None:
    """A piece holds at least 16 KiB. N = 2048 lets pieces be 112 deep: (80 + 2048)·112·2 = 476672 ≤ 524288.
    M = 80: 80·112·2 = 17920 ≥ 16384; M = 64: (64 + 2048)·112·2 fits too, but 64·112·2 = 14336 < 16384, and 128 does not fit."""
    assert "e" in cases(B=32, M=80, N=2048, K=8192)
    assert "e" not in cases(B=32, M=64, N=2048, K=8192)
    assert "14336 < 16384" in refusal("iter_batch", B=32, M=64, N=2048, K=8192)


def test_iter_condition_4_run() -> None:
    """A contiguous run is at least 128 bytes. M = N = 2048: pieces of 64 (4096·64·2 = 524288), runs of A 64·2 = 128 bytes.
    M = N = 2064: pieces of at most 48, runs of 96 bytes."""
    assert "e" in cases(B=32, M=2048, N=2048, K=4096)
    assert "e" not in cases(B=32, M=2064, N=2064, K=4096)
    assert "96 < 128" in refusal("iter_batch", B=32, M=2064, N=2064, K=4096)


# -- StreamK ---------------------------------------------------------------------------------------------------------


def test_stream_condition_1_gap() -> None:
    """P = B·⌈M/16⌉·⌈N/16⌉ < 32: 31 blocks, not 32."""
    assert "stream_k" not in plan(B=1, M=496, N=16, K=8000).refused
    assert "32 ≥ 32" in refusal("stream_k", B=1, M=497, N=16, K=8000)
    assert "stream_k" not in plan(B=2, M=16, N=240, K=8000).refused
    assert "32 ≥ 32" in refusal("stream_k", B=2, M=16, N=241, K=8000)


def test_stream_needs_two_cores_a_batch() -> None:
    """⌊32/16⌋ = 2, ⌊32/17⌋ = 1."""
    assert "stream_k" not in plan(B=16, M=16, N=16, K=8000).refused
    assert "34 > 32" in refusal("stream_k", B=17, M=16, N=16, K=8000)


def test_stream_condition_2_theta() -> None:
    """K ≥ grid_K²·1700: 6800 for 2, 27200 for 4, 108800 for 8."""
    assert "stream_k" not in plan(B=1, M=16, N=16, K=6800).refused
    assert "6799 < 6800" in refusal("stream_k", B=1, M=16, N=16, K=6799)

    def grids(K: int) -> set[int]:
        return {r[2] for r in rows(L.StreamK, B=1, M=16, N=16, K=K)}

    assert grids(27199) == {2}
    assert grids(27200) == {2, 4}
    assert grids(108799) == {2, 4}
    assert grids(108800) == {2, 4, 8}


def test_stream_condition_2_segment() -> None:
    """K/grid_K ≥ 256, on a chip where θ does not bind: grid_K = 2 from K = 512 on."""
    chip = dataclasses.replace(PR, name="cheap reduction", stream_k_theta=1)
    assert rows(L.StreamK, chip, B=1, M=16, N=16, K=512)
    assert not rows(L.StreamK, chip, B=1, M=16, N=16, K=511)
    assert "511 < 512" in refusal("stream_k", B=1, M=16, N=16, K=511, chip=chip)


def test_stream_grid_stays_within_the_cores() -> None:
    """B = 2: 16 cores a batch; mCnt·nCnt divides them and mCnt·nCnt·grid_K is at most 16."""
    for m_cnt, n_cnt, grid_k, _ in rows(L.StreamK, B=2, M=48, N=64, K=200_000):
        assert 16 % (m_cnt * n_cnt) == 0
        assert m_cnt * n_cnt * grid_k <= 16
        assert grid_k in (2, 4, 8)


def test_stream_reduction_by_kind() -> None:
    """Atomic additions only where any order will do, and where C holds what accumulators hold (fp32; int8 gives int32)."""
    for dtype, exact in (("fp32", True), ("int8", True), ("bf16", False), ("fp16", False)):
        atomic = {r[3] for r in rows(L.StreamK, B=1, M=16, N=16, K=8000, operand=dtype)}
        assert atomic == ({0, 1} if exact else {0})
    assert plan(B=2, M=16, N=16, K=8000, dtype="fp32").params["reduction"] == "workspace"
    assert plan(B=2, M=16, N=16, K=8000, dtype="fp32", deterministic=False).params["reduction"] == "atomic"


def test_stream_k_partial_sums_fit_the_buffer_of_a_core() -> None:
    """M = 100, N = 30 whole are 112 × 32 sums in boxes, 14336 bytes; as 112 × 16 twice they are 7168."""
    for size, fits in ((14336, {(1, 1), (1, 2)}), (14335, {(1, 2)})):
        chip = dataclasses.replace(PR, name="narrow", workspace_tile_bytes=size)
        found = {r[:2] for r in rows(L.StreamK, chip, B=1, M=100, N=30, K=120_000)}
        assert found & {(1, 1), (1, 2)} == fits


# -- ASW_Basic -------------------------------------------------------------------------------------------------------


def test_asw_condition_1_enough_blocks() -> None:
    """P at 16 × 16 is at least 32; with fewer, StreamK takes over where K is deep enough for it, else cores stay idle."""
    assert "asw_basic" not in plan(B=1, M=512, N=16, K=8000).refused
    assert "31 < 32" in refusal("asw_basic", B=1, M=496, N=16, K=8000)
    assert "asw_basic" not in plan(B=1, M=496, N=16, K=6799).refused
    assert "asw_basic" not in plan(B=17, M=16, N=16, K=8000).refused  # ⌊32/17⌋ = 1: no cores for segments either


def test_asw_blocks_reach_the_cores_and_fit_l0c() -> None:
    for m, n, accumulators, *_ in rows(L.Blocks, B=3, M=300, N=200, K=100):
        assert 3 * -(-300 // m) * -(-200 // n) >= 32
        assert m * n * 4 * accumulators <= 262144
        assert m >= 16
        assert n >= 16
        assert m % 16 == 0
        assert n % 16 == 0


def test_asw_boxes_of_one_byte_elements_may_leave_cores_idle() -> None:
    """int8, A stored transposed: blocks have at least 32 rows. B = 3, M = 245, N = 16: 48 blocks of 16 × 16, 24 of 32 × 16."""
    found = plan(B=3, M=245, N=16, K=8, dtype="int8", transpose_a=True, transpose_b=True)
    assert found.branch == "asw_basic"
    assert (found.params["m_t"], found.params["cores"]) == (32, 24)


def test_asw_both_depths_of_accumulators() -> None:
    """256 × 256 fills L0C once, 256 × 128 twice."""
    found = {r[:3] for r in rows(L.Blocks, B=1, M=8192, N=8192, K=512)}
    assert (256, 256, 1) in found
    assert (256, 256, 2) not in found
    assert (256, 128, 2) in found


@pytest.mark.parametrize(("M", "held"), [(256, True), (257, False)])
def test_asw_full_load_small_side(M: int, held: bool) -> None:
    """A without a batch, M ≤ 256, 2·M·K·2 ≤ L1 (256·64·4 = 65536), and 64·⌈512/N^t⌉ ≥ 4·32 blocks (N^t ≤ 256)."""
    assert any(r[3] == 1 for r in rows(L.Blocks, B=64, M=M, N=512, K=64, batch_a=1)) is held


def test_asw_full_load_fits_twice_and_has_rounds() -> None:
    """2·256·K·2 ≤ 524288: K = 512, not 528. B = 64, N = 16: 64 blocks are 2 rounds, too few; N = 512 with N^t = 256 has 4."""
    assert any(r[3] == 1 for r in rows(L.Blocks, B=64, M=256, N=512, K=512, batch_a=1))
    assert not any(r[3] == 1 for r in rows(L.Blocks, B=64, M=256, N=512, K=528, batch_a=1))
    assert not any(r[3] == 1 for r in rows(L.Blocks, B=64, M=256, N=16, K=64, batch_a=1))
    assert any(r[3] == 2 for r in rows(L.Blocks, B=64, M=512, N=256, K=64, batch_b=1))
    # 127 blocks are fewer than 4 for each of 32 cores, although the busiest core has ⌈127/32⌉ = 4
    assert not any(r[3] == 1 for r in rows(L.Blocks, B=127, M=256, N=16, K=64, batch_a=1))
    assert any(r[3] == 1 for r in rows(L.Blocks, B=128, M=256, N=16, K=64, batch_a=1))


def test_asw_l2_parts_only_beyond_l2() -> None:
    """(M + N)·K·2 + M·N·4 against 128 MiB. M = N = K = 4096: 67108864 + 67108864 = 134217728 fits exactly, K = 4112 does not.
    Each part then fits, and half as many cuts of the columns would not do."""
    assert {r[4:6] for r in rows(L.Blocks, B=1, M=4096, N=4096, K=4096)} == {(1, 1)}
    parts = {r[4:6] for r in rows(L.Blocks, B=1, M=4096, N=4096, K=4112)} - {(1, 1)}
    assert parts
    for x, y in parts:
        m, n = -(-4096 // x), -(-4096 // y)
        assert (m + n) * 4112 * 2 + m * n * 4 <= 134217728
        if y > 1:
            wider = -(-4096 // (y // 2))
            assert (m + wider) * 4112 * 2 + m * wider * 4 > 134217728


def test_refusals_name_every_branch_that_is_not_capable() -> None:
    found = plan(B=7, M=40, N=50, K=60)
    assert set(found.refused) | set(found.alternatives) == {
        *("to_matmul", "special_k0", "special_k1", "merge_batch", "iter_batch", "asw_basic", "stream_k")
    }
    assert not set(found.refused) & set(found.alternatives)
    assert all(found.refused.values())
