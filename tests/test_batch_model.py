"""Derived parameters and the latency model of batch matmul, against numbers worked by hand and against laws."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from cost.batch import tiling, work
from cost.batch.chip import Chip, chip_from, describe, get_chip
from cost.batch.latency import Work, latencies
from cost.batch.problem import BatchInputError, BatchProblem, batch_problem
from cost.batch.schedule import iter_cut, iter_l1
from cost.errors import Rejected, TargetError, TilesatError
from tilesat.batch import plan_batch

PR = get_chip("ascend950pr")
CYCLE = 1 / 1650  # µs of a 1.65 GHz clock


def problem(**arguments: Any) -> BatchProblem:
    return batch_problem(**{"operand": "bf16", **arguments})


def one(*numbers: int) -> list[Any]:
    return [np.array([n]) for n in numbers]


def blocks(p: BatchProblem, *choice: int, chip: Chip = PR) -> Any:
    return latencies(work.blocks_work(p, chip, *one(*choice)), chip, 1).row(0)


# -- the chip --------------------------------------------------------------------------------------------------------


def test_the_chip_is_the_specification_s_table() -> None:
    assert (PR.cores, PR.vector_cores) == (32, 64)
    assert (PR.l1_bytes, PR.l0a_bytes, PR.l0b_bytes, PR.l0c_bytes) == (512 << 10, 64 << 10, 64 << 10, 256 << 10)
    assert (PR.l2_bytes, PR.l2_tb_s, PR.gm_tb_s) == (128 << 20, 5.2, 1.6)
    assert (PR.min_tile_bytes, PR.min_bytes_per_core) == (16 << 10, 480 << 10)
    assert PR.min_active_cores == 26  # ⌈0.8 · 32⌉ = ⌈25.6⌉
    assert PR.window == 4  # the largest divisor of 32 not above ⌊√32⌋ = 5


@pytest.mark.parametrize(("cores", "window"), [(1, 1), (20, 4), (24, 4), (25, 5), (31, 1), (36, 6)])
def test_the_swizzle_window_divides_the_cores(cores: int, window: int) -> None:
    assert dataclasses.replace(PR, cores=cores).window == window


def test_the_balance_point_scales_with_the_element() -> None:
    """R(dtype) = R · 2 / bytes, in thousandths."""
    assert [PR.balance_milli(problem(B=1, M=1, N=1, K=1, operand=d).operand) for d in ("bf16", "fp16", "fp32", "int8")] == [
        607500,
        607500,
        303750,
        1215000,
    ]


def test_chips_are_described_as_data(tmp_path: Any) -> None:
    assert chip_from(describe(PR)) == PR
    mine = get_chip({"base": "ascend950pr", "name": "mine", "cores": 36})
    assert (mine.cores, mine.l1_bytes, mine.name) == (36, PR.l1_bytes, "mine")
    path = tmp_path / "mine.toml"
    path.write_text('base = "950PR"\nname = "mine"\ncores = 36\n', encoding="utf-8")
    assert get_chip(path) == mine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cores": 0}, "cores must be positive"),
        ({"cores": 2.5}, "cores must be a whole number"),
        ({"l1_byte": 1}, "did you mean 'l1_bytes'"),
        ({"l1_bytes": 1 << 30}, "a core of ascend950 has 524288"),
        ({"l0c_bytes": 4096}, "too little for the smallest tiles"),
        ({"min_active_fraction": 1.5}, "at most 1"),
        ({"gm_tb_s": float("nan")}, "gm_tb_s must be positive"),
        ({"cube_flop_per_cycle": {"bf17": 1}}, "unknown element type"),
        ({"core": "ascend951"}, "unknown target"),
    ],
)
def test_bad_descriptions_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TilesatError, match=message):
        chip_from(describe(PR) | change)


def test_unknown_chips_are_named_with_the_known_ones() -> None:
    with pytest.raises(TargetError, match="Did you mean 'ascend950pr'"):
        get_chip("ascend950p")
    with pytest.raises(TargetError, match="no_such"):
        get_chip("no_such.json")
    with pytest.raises(TargetError, match="a chip is a name"):
        get_chip(7)  # type: ignore[arg-type]


# -- problems --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["B", "M", "N"])
def test_empty_results_are_refused(name: str) -> None:
    with pytest.raises(Rejected, match=rf"{name} = 0"):
        problem(**{"B": 2, "M": 3, "N": 4, "K": 5, name: 0})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"M": -1}, "M = -1 is negative"),
        ({"M": 2.0}, "M must be a whole number"),
        ({"M": True}, "M must be a whole number"),
        ({"operand": "fp8e4m3fn"}, "operands may be bf16"),
        ({"batch_a": 3}, "do not broadcast"),
        ({"batch_a": 1, "batch_b": 1}, "do not broadcast"),
        ({"bias": "row"}, "bias = 'row'"),
        ({"transpose_a": 1}, "transpose_a must be True or False"),
    ],
)
def test_arguments_that_make_no_problem(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BatchInputError, match=message):
        problem(**{"B": 2, "M": 3, "N": 4, "K": 5, **change})


def test_sizes_beyond_counting_are_refused() -> None:
    with pytest.raises(Rejected, match="beyond the longest extent"):
        problem(B=1, M=1 << 31, N=1, K=1)
    with pytest.raises(Rejected, match="more than the"):
        problem(B=1 << 20, M=1 << 20, N=1 << 20, K=1)


@pytest.mark.parametrize(
    ("operand", "ta", "tb", "boxes"),
    [
        ("bf16", False, False, (16, 16, 16)),
        ("fp32", True, True, (16, 16, 16)),
        ("int8", False, False, (16, 32, 32)),
        ("int8", True, True, (32, 16, 32)),
    ],
)
def test_boxes(operand: str, ta: bool, tb: bool, boxes: tuple[int, int, int]) -> None:
    """16 elements, and 32 bytes along the axis that is contiguous in memory."""
    p = problem(B=1, M=1, N=1, K=1, operand=operand, transpose_a=ta, transpose_b=tb)
    assert (p.box_m, p.box_n, p.box_k) == boxes


# -- derived parameters ----------------------------------------------------------------------------------------------


def test_merge_step_2_k_l0() -> None:
    """b = 4, M = N = 32: 128 rows and columns; 2·128·k·2 ≤ 65536 gives k = 128; M = 80, b = 3: 240 rows give 68 → 64."""
    p = problem(B=256, M=32, N=32, K=1024)
    assert (tiling.merged_rows(p, 4), tiling.merged_columns(p, 4)) == (128, 128)
    assert tiling.panel_depth(p, PR, 128, 128) == 128
    assert tiling.panel_depth(problem(B=256, M=80, N=16, K=1024), PR, 240, 48) == 64
    # never deeper than K, in whole boxes, and never below the floor of 32 bytes while it fits: 2·1024·16·2 = 65536
    assert tiling.panel_depth(problem(B=256, M=32, N=32, K=40), PR, 128, 128) == 48
    assert tiling.panel_depth(problem(B=1, M=1024, N=16, K=99), PR, 1024, 16) == 16
    assert tiling.panel_depth(problem(B=1, M=1040, N=16, K=99), PR, 1040, 16) == 0
    # a bias peels the first panel: four copies instead of two
    assert tiling.panel_depth(problem(B=256, M=32, N=32, K=1024, bias="shared"), PR, 128, 128) == 64


def test_merge_packs_what_lies_together() -> None:
    """M = 17, b = 3: 51 rows → 64 packed, 96 batch by batch. N likewise, packed where B is stored transposed."""
    assert tiling.merged_rows(problem(B=9, M=17, N=17, K=8), 3) == 64
    assert tiling.merged_rows(problem(B=9, M=17, N=17, K=8, transpose_a=True), 3) == 96
    assert tiling.merged_rows(problem(B=9, M=17, N=17, K=8, batch_a=1), 3) == 96
    assert tiling.merged_columns(problem(B=9, M=17, N=17, K=8), 3) == 96
    assert tiling.merged_columns(problem(B=9, M=17, N=17, K=8, transpose_b=True), 3) == 64
    assert tiling.merged_columns(problem(B=9, M=17, N=17, K=8, transpose_b=True, bias="shared"), 3) == 96


def test_merge_step_3_b_l1() -> None:
    """M = N = 16, K = 512, b = 2: a group is (32 + 32)·512·2 = 65536 bytes; 2·g·65536 ≤ 524288 gives g = 4, b_L1 = 8."""
    p = problem(B=256, M=16, N=16, K=512)
    assert tiling.merged_groups(p, PR, 2, 512) == 4
    # K = 1024: two groups; K cut in L1, or shares that 2 does not divide: one
    assert tiling.merged_groups(problem(B=256, M=16, N=16, K=1024), PR, 2, 1024) == 2
    assert tiling.merged_groups(p, PR, 2, 256) == 1
    assert tiling.merged_groups(problem(B=250, M=16, N=16, K=512), PR, 2, 512) == 1


@pytest.mark.parametrize(
    ("M", "N", "accumulators", "tile"),
    [
        (256, 256, 1, (256, 256, 64)),  # 256·256·4 = L0C; 65536/(2·256·2) = 64
        (256, 256, 2, (128, 256, 64)),  # half of L0C for each: not M < N, so N is whole; 65536/(2·256·2) = 64
        (255, 256, 2, (256, 128, 64)),
        (100, 500, 1, (112, 512, 32)),  # 112·512·4 = 229376 fits whole
        (100, 700, 1, (112, 576, 16)),  # 65536/112 = 585 → 576; 65536/(2·576·2) = 28 → 16
        (700, 100, 1, (576, 112, 16)),
        (4096, 16, 1, (1024, 16, 16)),  # BaseM is bounded by L0A too: 2·1024·16·2 = 65536
    ],
)
def test_iter_base_tiles(M: int, N: int, accumulators: int, tile: tuple[int, int, int]) -> None:
    p = problem(B=64, M=M, N=N, K=4096)
    found = tiling.base_tile(p, PR, M, N, accumulators)
    assert found == tile
    m, n, k = found
    assert m * n * 4 * accumulators <= PR.l0c_bytes
    assert 2 * m * k * 2 <= PR.l0a_bytes
    assert 2 * n * k * 2 <= PR.l0b_bytes


@pytest.mark.parametrize(
    ("operand", "M", "N", "K", "tile"),
    [
        ("bf16", 128, 200, 300, (128, 208, 64)),  # 2·128·208·4 fits L0C: whole; 65536/(2·208·2) = 78
        # M < N: BaseK = min(65536/(2·64·2) = 256, K), BaseN = min(262144/(2·4·64) = 512, 65536/(2·128·2) = 128)
        ("bf16", 64, 640, 128, (64, 128, 128)),
        ("bf16", 640, 64, 128, (128, 64, 128)),
        ("bf16", 200, 400, 200, (208, 144, 64)),  # BaseK = 78 → 64; BaseN = min(157 → 144, 256)
        ("bf16", 256, 256, 128, (128, 256, 64)),  # BaseN = 256, BaseK = 64, BaseM = min(128, 256)
        # L0A holds 65536/(2·16) = 2048 deep panels, with 16 columns of B; a box of B has 32, so 1024
        ("int8", 16, 4096, 4096, (16, 32, 1024)),
    ],
)
def test_iter_base_tiles_in_turn(operand: str, M: int, N: int, K: int, tile: tuple[int, int, int]) -> None:
    """Situation b: the smaller side, then BaseK, then the other side. BaseN came before BaseK, and (64, 640, 128) had k = 32."""
    p = problem(B=64, M=M, N=N, K=K, operand=operand)
    assert tiling.base_tile(p, PR, M, N, 2, K) == tile


def test_iter_base_n_is_bounded_by_the_bias_table() -> None:
    """Two rows of n·4 bytes in 4096: n ≤ 512; L0B with four copies: 4·n·16·2 ≤ 65536, n ≤ 512."""
    assert tiling.base_tile(problem(B=64, M=16, N=4096, K=512, bias="shared"), PR, 16, 4096, 1)[1] == 512


@pytest.mark.parametrize(
    ("plane", "block", "grid"),
    [
        # 245760 usable bytes / 24 = 10240 elements at once
        ((100, 64, 64), (64, 64), (1, 1)),
        ((1, 1000, 16), (16, 16), (63, 1)),  # ⌈1000/64⌉ rows, so that all cores have some; 640 would fit
        ((5, 4, 20), (1, 32), (4, 1)),  # ⌈20/64⌉
        ((64, 2000, 16), (640, 16), (4, 1)),
        ((64, 2, 20000), (1, 10240), (2, 2)),
    ],
)
def test_blocks_of_the_vector_cores(plane: tuple[int, int, int], block: tuple[int, int], grid: tuple[int, int]) -> None:
    assert tiling.vector_block(PR, *plane) == block
    assert tiling.vector_grid(PR, *plane) == grid


def test_iter_pieces() -> None:
    """⌈K/Step⌉ in boxes; of M where A alone is cut."""
    p = problem(B=32, M=1000, N=100, K=1000)
    assert iter_cut(p, tiling.ONE_LEFT, 7) == 144  # ⌈1000/7⌉ = 143
    assert iter_cut(p, tiling.ONE_RIGHT, 4) == 256  # ⌈1000/4⌉ = 250
    c = {"case": tiling.ONE_LEFT, "step": 7, "batches": 1, "accumulators": 1}
    # A whole, 1008 × 1008 with blocks of 16 (k = 16), and two pieces of 144 × 112: 2032128 + 2·32256
    assert iter_l1(p, c, 16, 112, 16, 2) == 1008 * 1008 * 2 + 2 * 144 * 112 * 2


def test_stream_panels() -> None:
    """256 + 256 columns of 2 bytes: 524288 / (2·1024) = 256 deep; four buffers of 128 move 256·128·2 = 64 KiB each."""
    p = problem(B=1, M=4096, N=4096, K=4096)
    assert tiling.stream_panels(p, PR, 256, 256, 64, 4096, tiling.NOTHING) == (128, 2)
    # 31 panels of 128 cannot be paired, so two buffers of 256
    assert tiling.stream_panels(p, PR, 256, 256, 64, 31 * 128, tiling.NOTHING) == (256, 1)
    # four buffers of 128 would move 16·128·2 = 4 KiB of A at a time: two of 524288/(2·512·2) = 256
    assert tiling.stream_panels(problem(B=1, M=16, N=496, K=4096), PR, 16, 496, 64, 4096, tiling.NOTHING) == (256, 1)


def test_stream_k_segments() -> None:
    assert tiling.segment(problem(B=1, M=16, N=16, K=6800), 2) == 3408  # 3400 in boxes of 16


@pytest.mark.parametrize("reading", ["analysis", "operator"])
def test_stream_k_workspace(reading: str) -> None:
    """A buffer of 256 × 256 sums for each of 32 cores, 8388608 bytes, and 20 MiB: 29360128 whatever the problem.

    It was grid_K·B·M·N·4 + 20 MiB. The program's tensor lies in it: B = 2, 8 segments of [100, 30] sums are 192000 bytes.
    """
    plan = plan_batch(B=2, M=100, N=30, K=120_000, dtype="bf16", deterministic=False, reading=reading, branch="stream_k")
    assert plan.params["workspace_bytes"] == tiling.workspace_bytes(PR) == 29_360_128
    sums = plan.params["grid_k"] * 2 * 100 * 30 * 4
    assert sums <= 32 * 256 * 256 * 4
    assert f"workspace: pl.Tensor[[{plan.params['grid_k'] * 2 * 100}, 30], pl.FP32]" in str(plan.program)


# -- the latency model -----------------------------------------------------------------------------------------------


def test_terms_of_one_block_a_core_by_hand() -> None:
    """B = 32, M = N = 64, K = 512, one block of 64 × 64 a core, two accumulators.

    MMAD: k_L0 = 65536/(2·64·2) = 256, two heads of 25 cycles and 2·64·64·512/8192 = 512 cycles: 562.
    MTE1: 64·512·2/206.3 + 64·512·2/223.8 = 317.67 + 292.83 = 610.5.
    Fixpipe: 343.4 + 64·max(4.59, 4·64/30) = 889.53; n = 64 is 8 fractals of 32 bytes, no odd part.
    MTE2: all of K in one panel (2·128·512·2 = 262144 ≤ L1), 2 transfers of 132 cycles and 131072 bytes at 31 a cycle: 4492.1;
    the chip moves 32·131072 + 32·64·64·2 = 4456448 bytes at 1.6e6 a µs: 2.785 µs, against 4492.1/1650 = 2.722.
    """
    found = blocks(problem(B=32, M=64, N=64, K=512), 64, 64, 2, tiling.NOTHING, 1, 1)
    assert found.terms["MMAD"] == pytest.approx(562 * CYCLE)
    assert found.terms["MTE1"] == pytest.approx((65536 / 206.3 + 65536 / 223.8) * CYCLE)
    assert found.terms["Fixpipe"] == pytest.approx((343.4 + 64 * 256 / 30) * CYCLE)
    assert found.terms["MTE2"] == pytest.approx(4456448 / 1.6e6)
    assert found.total == max(found.terms.values())
    assert found.bound == "MTE2"


def test_one_accumulator_makes_the_cube_wait() -> None:
    p = problem(B=32, M=64, N=64, K=512)
    one_c, two_c = (blocks(p, 64, 64, n, tiling.NOTHING, 1, 1) for n in (1, 2))
    drain = (343.4 + 64 * 256 / 30) * CYCLE
    assert one_c.terms["MMAD"] == pytest.approx(two_c.terms["MMAD"] + drain)
    assert one_c.terms["MTE1"] == pytest.approx(two_c.terms["MTE1"] + drain)
    assert one_c.terms["MTE2"] == two_c.terms["MTE2"]


def test_waves_are_counted_by_the_busiest_core() -> None:
    """33 equal blocks on 32 cores take as long as 64."""
    t = [blocks(problem(B=b, M=64, N=64, K=4096), 64, 64, 2, tiling.NOTHING, 1, 1).terms["MMAD"] for b in (32, 33, 64)]
    assert t[1] == t[2] == 2 * t[0]


def test_repeated_reads_come_from_l2_where_it_holds_them() -> None:
    """M = 2048 in 8 row blocks of 256: B [512, 256] is read 8 times, once from memory and 7 times from L2."""
    w = work.blocks_work(problem(B=1, M=2048, N=256, K=512), PR, *one(256, 256, 1, tiling.NOTHING, 1, 1)).arrays(1)
    a, b = 2048 * 512 * 2, 512 * 256 * 2
    assert w["gm_read"][0] == a + b
    assert w["l2_read"][0] == 7 * b
    tiny = dataclasses.replace(PR, name="no L2", l2_bytes=4096)
    w = work.blocks_work(problem(B=1, M=2048, N=256, K=512), tiny, *one(256, 256, 1, tiling.NOTHING, 1, 1)).arrays(1)
    assert w["gm_read"][0] == a + 8 * b
    assert w["l2_read"][0] == 0


def test_l2_parts_read_each_side_once_a_part_of_the_other() -> None:
    w = work.blocks_work(problem(B=1, M=16384, N=16384, K=4096), PR, *one(256, 256, 1, tiling.NOTHING, 4, 2)).arrays(1)
    assert w["gm_read"][0] == 16384 * 4096 * 2 * (2 + 4)


def test_short_runs_are_billed_at_their_floor() -> None:
    """Rows of 16 elements are 32 bytes, a quarter of the floor of 128."""
    p = problem(B=32, M=16, N=16, K=4096)
    w = work.blocks_work(p, PR, *one(16, 16, 2, tiling.NOTHING, 1, 1)).arrays(1)
    assert w["gm"][0] == 16 * 4096 * 2 * (1 + 4)


def test_merging_wastes_multiplies_and_saves_transfers_and_drains() -> None:
    p = problem(B=1024, M=16, N=16, K=512)
    two, eight = (work.merge_work(p, PR, *one(b, 512)).arrays(1) for b in (2, 8))
    # per core 32 batches: 16 products of 32 × 32, or 4 of 128 × 128 with four times the multiplies
    volume = 2 * 512 / 8192
    assert two["mmad"][0] == pytest.approx(16 * (25 + 32 * 32 * volume))
    assert eight["mmad"][0] == pytest.approx(4 * (4 * 25 + 128 * 128 * volume))
    assert eight["drain"][0] < two["drain"][0]
    assert eight["gm"][0] == two["gm"][0]


def test_one_piece_at_a_time_makes_the_cube_wait() -> None:
    """B = C, M = 496, N = 64, K = 512, A whole (507904 bytes): 16384 bytes are left, one piece of 128 × 64 or two of 64 × 64."""
    p = problem(B=32, M=496, N=64, K=512)
    single, double = (
        work.iter_work(p, PR, np.array([tiling.ONE_LEFT]), np.array([cut]), *one(1, 1)).arrays(1) for cut in (128, 64)
    )
    assert (single["serial"][0], double["serial"][0]) == (1, 0)
    waits = latencies(work.iter_work(p, PR, np.array([tiling.ONE_LEFT]), np.array([128]), *one(1, 1)), PR, 1).row(0)
    overlaps = latencies(work.iter_work(p, PR, np.array([tiling.ONE_LEFT]), np.array([64]), *one(1, 1)), PR, 1).row(0)
    assert waits.total > overlaps.total


def test_the_reduction_grows_with_grid_k() -> None:
    p = problem(B=1, M=64, N=64, K=200_000)
    few, many = (work.stream_k_work(p, PR, *one(1, 1, g, 0)).arrays(1) for g in (2, 8))
    c = 64 * 64
    assert few["reduced"][0] == 2 * c * 4 + c * 2
    assert many["reduced"][0] == 8 * c * 4 + c * 2
    assert many["written"][0] == 4 * few["written"][0] == 8 * c * 4
    assert many["mmad"][0] < few["mmad"][0]


def three_ways(M: int, N: int, K: int) -> tuple[float, float, float]:
    """32 products on 32 cores, in µs: one whole batch a core; each batch in 32 blocks; each batch in 32 segments of K, one batch
    after another. Every way keeps all cores busy with the same number of multiplies."""
    p = problem(B=32, M=M, N=N, K=K)
    alone = problem(B=1, M=M, N=N, K=K)
    by_depth = 32 * latencies(work.stream_k_work(alone, PR, *one(1, 1, 32, 0)), PR, 1).row(0).total
    whole, plane = (blocks(p, m, n, 1, tiling.NOTHING, 1, 1).total for m, n in ((M, N), (M // 8, N // 4)))
    return whole, plane, by_depth


@pytest.mark.parametrize(("M", "N", "K"), [(256, 256, 512), (256, 256, 1024), (128, 256, 512), (128, 128, 512)])
def test_the_price_order_comes_out_of_the_model(M: int, N: int, K: int) -> None:
    """Cutting B is cheapest, cutting M and N costs repeated reads, cutting K costs partial sums."""
    by_batch, by_plane, by_depth = three_ways(M, N, K)
    assert by_batch < by_plane < by_depth


def test_deep_products_turn_the_price_of_m_n_and_k_around() -> None:
    """The partial sums do not grow with K, the repeated reads do: this is where StreamK is at home."""
    by_batch, by_plane, by_depth = three_ways(64, 64, 65536)
    assert by_batch < by_depth < by_plane


def test_cutting_b_reads_nothing_twice_and_cutting_k_writes_partial_sums() -> None:
    p = problem(B=32, M=64, N=64, K=4096)
    whole = work.blocks_work(p, PR, *one(64, 64, 1, tiling.NOTHING, 1, 1)).arrays(1)
    plane = work.blocks_work(p, PR, *one(16, 16, 1, tiling.NOTHING, 1, 1)).arrays(1)
    depth = work.stream_k_work(p, PR, *one(1, 1, 2, 0)).arrays(1)
    assert whole["l2_read"][0] == depth["l2_read"][0] == 0
    assert plane["l2_read"][0] > 0
    assert whole["written"][0] == plane["written"][0] == 32 * 64 * 64 * 2
    assert depth["written"][0] == 2 * 32 * 64 * 64 * 4
    assert whole["reduced"][0] == plane["reduced"][0] == 0 < depth["reduced"][0]


def test_the_special_branches_by_hand() -> None:
    """K = 0: C is written, 2·100·64·64 bytes… by 64 vector cores; K = 1: columns and rows are read once each."""
    fill = latencies(work.fill_work(problem(B=100, M=64, N=64, K=0), PR), PR, 1).row(0)
    assert fill.terms["Fixpipe"] == pytest.approx(100 * 64 * 64 * 2 / 1.6e6)
    assert fill.terms["MMAD"] == 0
    # 100 batches on 64 cores are two for the busiest, 64 rows of 64 elements each
    assert work.fill_work(problem(B=100, M=64, N=64, K=0), PR).arrays(1)["core_written"][0] == 2 * 64 * 64 * 2
    # one batch of 1000 rows in blocks of ⌈1000/64⌉
    assert work.fill_work(problem(B=1, M=1000, N=64, K=0), PR).arrays(1)["core_written"][0] == 16 * 64 * 2
    outer = work.outer_work(problem(B=128, M=100, N=50, K=1), PR).arrays(1)
    assert outer["gm_read"][0] == 128 * 150 * 2
    assert outer["vector"][0] == 2 * 100 * 50 * 4 / 256


def test_phases_are_added_and_terms_overlap() -> None:
    w = Work(mmad=1650.0, mte1=3300.0, phased=1.6e6, barriers=2.0)
    found = latencies(w, PR, 1).row(0)
    assert found.total == pytest.approx(2.0 + 1.0 + 2 * 500 * CYCLE)
    assert found.phases == pytest.approx(1.0 + 1000 * CYCLE)


def test_prices_are_the_same_one_by_one_and_together() -> None:
    p = problem(B=3, M=700, N=500, K=300)
    choices = [(m, n, c, 0, 1, 1) for m in (16, 64, 256) for n in (32, 128) for c in (1, 2)]
    together = latencies(work.blocks_work(p, PR, *[np.array(x) for x in zip(*choices, strict=True)]), PR, len(choices))
    for i, choice in enumerate(choices):
        assert blocks(p, *choice).total == pytest.approx(together.total[i], rel=1e-12)
        assert math.isfinite(together.total[i])
