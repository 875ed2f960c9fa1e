"""`plan_batch`: its arguments and answers, the choice among branches, completeness down to the L0 tile, and what it refuses."""

from __future__ import annotations

import itertools
import json
import operator
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import batch_problems as problems
import numpy as np
import pytest

import tilesat
from cost.batch import tiling
from cost.batch.latency import latencies
from cost.batch.problem import batch_problem
from egraph_rules.batch.catalogue import FAMILIES, branch_rules
from egraph_rules.batch.saturate import saturate, state
from egraph_rules.report import Limits, StopReason
from extraction.batch import BRANCHES, OPERATOR_ORDER, best_by_branch, work_of
from ir_bridge.batch.blocks import swizzled
from ir_bridge.batch.builder import Builder
from ir_bridge.batch.coverage import check_coverage
from ir_bridge.batch.lift import Cores, lift_batch
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.nodes import INDEX_SCALAR, Assign, Var
from ir_bridge.ir.verifier import verify


def plan(**arguments: Any) -> tilesat.BatchPlan:
    return tilesat.plan_batch(**{"dtype": "bf16", **arguments})


def sound(found: tilesat.BatchPlan) -> None:
    assert verify(found.program, found.chip.target) == ()
    check_coverage(found.program, found.problem)
    given, wanted = problems.arrays(found.problem, 5)
    assert np.array_equal(execute(found.program, **given)["c"], wanted)


# -- the answer ------------------------------------------------------------------------------------------------------


def test_a_plan_says_everything() -> None:
    found = plan(B=64, M=96, N=80, K=200)
    assert found.branch == "iter_batch"
    assert found.split == {"B"}
    assert found.params["case"] == "b"
    assert found.params["b_core"] == 2
    assert set(found.latency.terms) == {"MMAD", "MTE2", "MTE1", "Fixpipe"}
    assert found.latency.total == max(found.latency.terms.values()) + found.latency.phases
    assert found.latency == found.alternatives["iter_batch"]
    assert (found.latency["MTE2"], found.latency["Reduce"]) == (found.latency.terms["MTE2"], 0)
    assert float(found.latency) == found.latency.total
    with pytest.raises(KeyError, match="MTE4: a latency has the terms MMAD"):
        found.latency["MTE4"]
    assert set(found.refused) == {"to_matmul", "special_k0", "special_k1", "merge_batch", "stream_k"}
    assert "iter_batch" in str(found)
    sound(found)


@pytest.mark.parametrize(
    ("arguments", "branch", "split"),
    [
        ({"B": 256, "M": 32, "N": 32, "K": 1024}, "merge_batch", "B"),
        ({"B": 64, "M": 96, "N": 80, "K": 64}, "iter_batch", "B"),
        ({"B": 1, "M": 400, "N": 300, "K": 64}, "to_matmul", "MN"),
        ({"B": 3, "M": 400, "N": 300, "K": 64}, "asw_basic", "BMN"),
        ({"B": 3, "M": 2000, "N": 16, "K": 64}, "asw_basic", "BM"),
        ({"B": 2, "M": 16, "N": 16, "K": 9000}, "stream_k", "BK"),
        ({"B": 1, "M": 16, "N": 16, "K": 9000}, "to_matmul", "K"),
        ({"B": 40, "M": 16, "N": 16, "K": 64, "batch_b": 1}, "to_matmul", "B"),
        ({"B": 200, "M": 4, "N": 20, "K": 1}, "special_k1", "B"),
        ({"B": 5, "M": 4, "N": 20, "K": 0}, "special_k0", "BM"),
        ({"B": 64, "M": 4, "N": 20, "K": 0}, "special_k0", "B"),  # a batch for each vector core
        ({"B": 1, "M": 400, "N": 20, "K": 0}, "special_k0", "M"),
        ({"B": 1, "M": 1, "N": 1, "K": 1}, "to_matmul", "B"),
    ],
)
def test_branch_and_split_class(arguments: dict[str, int], branch: str, split: str) -> None:
    found = plan(**arguments)
    assert (found.branch, found.split) == (branch, set(split))


def test_k_1_keeps_a_batch_on_one_vector_core() -> None:
    """A core's buffer of 16 KiB holds 16384/24 = 682 elements at once: 14 rows of 48, so 3 blocks of 40 × 40. They were dealt to
    different cores, against the split {B}; the first of 8 cores has batches 0 and 8 whole."""
    found = plan(B=16, M=40, N=40, K=1, chip=problems.SMALL, branch="special_k1")
    assert found.split == {"B"}
    assert tiling.vector_grid(problems.SMALL, 16, 40, 40) == (3, 1)
    given, wanted = problems.arrays(found.problem, 3)
    first = execute(lift_batch(found.schedule, found.chip, Cores((0, 0), (0, 1))), **given)["c"]
    assert [u for u in range(16) if np.array_equal(first[u], wanted[u])] == [0, 8]
    sound(found)


def test_the_cheapest_plan_is_the_cheapest_of_all_candidates() -> None:
    """Extraction against pricing every candidate of the e-graph by itself."""
    for arguments in (
        {"B": 256, "M": 24, "N": 40, "K": 512},
        {"B": 40, "M": 100, "N": 60, "K": 300},
        {"B": 2, "M": 300, "N": 200, "K": 500},
        {"B": 2, "M": 30, "N": 20, "K": 30_000},
    ):
        p = batch_problem(operand="bf16", **arguments)
        frozen, _ = saturate(state(p, problems.PR, "analysis", True, 2), branch_rules())
        least: dict[str, float] = {}
        for c in problems.candidates(frozen, p):
            columns = {name: np.array([x]) for name, x in c.columns.items()}
            total = float(latencies(work_of(c.kind, p, problems.PR, columns), problems.PR, 1).total[0])
            least[c.branch] = min(total, least.get(c.branch, total))
        found = best_by_branch(frozen, p, problems.PR)
        assert {b: c.latency.total for b, c in found.items()} == pytest.approx(least)
        assert plan(**arguments).latency.total == pytest.approx(min(least.values()))


def test_merged_batches_divide_a_core_s_share_where_that_costs_nothing() -> None:
    """704 batches are 22 a core. b = 6 (4 groups, k_L1 = 256: 4·2·2 transfers) and b = 11 (2 groups, 128: 2·4·2) take equally
    long, and terms alone would take 6, whose last group is 4."""
    found = plan(B=704, M=2, N=61, K=512, branch="merge_batch")
    assert (found.params["b_core"], found.params["b"], found.params["k_l1"]) == (22, 11, 128)
    p, columns = found.problem, {"b": np.array([6, 11]), "k_l1": np.array([256, 128])}
    six, eleven = latencies(work_of("MergeBatch", p, problems.PR, columns), problems.PR, 2).total
    assert six == pytest.approx(eleven, rel=1e-12)
    assert eleven == pytest.approx(found.latency.total)


def test_orders() -> None:
    arguments = {"B": 128, "M": 48, "N": 48, "K": 256}
    by_latency, by_operator = plan(**arguments), plan(**arguments, order="operator")
    assert by_latency.latency.total == min(x.total for x in by_latency.alternatives.values())
    assert by_operator.branch == next(b for b in OPERATOR_ORDER if b in by_operator.alternatives)
    for branch, latency in by_latency.alternatives.items():
        forced = plan(**arguments, branch=branch)
        assert (forced.branch, forced.latency) == (branch, latency)
        sound(forced)


def test_a_side_without_batch_always_becomes_a_matmul() -> None:
    """Whatever ASW_Basic could do with the broadcast problem, a reduced problem can do too: the reduction never loses."""
    rng = random.Random(11)
    for _ in range(40):
        arguments: dict[str, Any] = {
            "B": rng.choice((2, 7, 32, 60, 210)),
            "M": rng.choice((1, 4, 17, 100, 300)),
            "N": rng.choice((1, 20, 64, 150)),
            "K": rng.choice((2, 33, 177, 500)),
            "dtype": rng.choice(tuple(problems.HELD)),
            "transpose_b": rng.random() < 0.5,
            "bias": rng.choice((None, "shared", "batched")),
            rng.choice(("batch_a", "batch_b")): 1,
        }
        found = plan(**arguments)
        assert found.branch in ("to_matmul", "special_k1")


def test_three_ways_for_an_a_without_batch() -> None:
    """Each of the three is the cheapest somewhere: single columns under an A that fits L1 or does not, and many small batches."""
    for way, (B, M, N, K) in {
        "hold_a": (8, 16, 1, 3000),
        "fold_columns": (8, 512, 1, 1024),
        "broadcast_a": (64, 16, 1, 100),
    }.items():
        assert plan(B=B, M=M, N=N, K=K, batch_a=1).params["way"] == way


def test_switching_a_family_off() -> None:
    arguments = {"B": 256, "M": 32, "N": 32, "K": 1024}
    full = plan(**arguments)
    without = plan(**arguments, rules="all,-merge_batch")
    assert full.branch == "merge_batch" != without.branch
    assert without.refused["merge_batch"] == ("the rule family merge_batch is switched off",)
    assert without.latency.total >= full.latency.total
    with pytest.raises(tilesat.Rejected, match=r"no branch is capable.*merge_batch: .*condition 1"):
        plan(B=3, M=32, N=32, K=64, rules="merge_batch,stream_k")
    with pytest.raises(tilesat.TilesatError, match="did you mean 'merge_batch'"):
        plan(**arguments, rules="all,-merge")


def test_every_rule_is_in_the_report() -> None:
    found = plan(B=256, M=32, N=32, K=1024)
    assert {r.name for r in found.report.rules} == {r.name for f in FAMILIES.values() for r in f.rules}
    matches = {r.name: r.matches for r in found.report.rules}
    assert matches["enter_merge_batch"] == 1
    assert matches["k0"] == 0


# -- the core's product goes through the L0 rules --------------------------------------------------------------------


def test_the_l0_tile_is_the_chooser_s_where_nothing_else_binds() -> None:
    for M, N, K in ((64, 64, 64), (128, 256, 64), (96, 80, 208)):
        found = plan(B=64, M=M, N=N, K=K, branch="iter_batch")
        chosen = tilesat.choose_tile(M=M, N=N, K=K, dtype="bf16", target="ascend950")
        if found.params["l0c_buffers"] == 1 or chosen.m * chosen.n * 8 <= 262144:
            assert (found.params["m"], found.params["n"], found.params["k"]) == (chosen.m, chosen.n, chosen.k)


def test_a_streamed_block_is_one_window() -> None:
    found = plan(B=1, M=4096, N=4096, K=4096)
    assert (found.params["m"], found.params["n"]) == (found.params["m_t"], found.params["n_t"])
    assert found.params["k_l1"] % found.params["k"] == 0


# -- the swizzle -----------------------------------------------------------------------------------------------------


def places(rows: int, columns: int, window: int) -> list[tuple[int, int]]:
    """The blocks in the order of the swizzle, by evaluating the index arithmetic that programs hold."""
    found = []
    for i in range(rows * columns):
        b = Builder()
        index = Var("index", INDEX_SCALAR)
        place = swizzled(b, index, rows, columns, window)
        env = {"index": i}
        for s in b.out:
            assert isinstance(s, Assign)
            env[s.target.name] = value(s.value, env)
        found.append((value(place[0], env), value(place[1], env)))
    return found


def value(e: Any, env: dict[str, int]) -> int:
    from ir_bridge.ir.nodes import Binary, Call, Const

    if isinstance(e, int):
        return e
    if isinstance(e, Var):
        return env[e.name]
    if isinstance(e, Const):
        return int(e.value)  # type: ignore[arg-type]
    if isinstance(e, Call):
        return (min if e.op == "min" else max)(value(a, env) for a in e.args)
    assert isinstance(e, Binary)
    return ARITHMETIC[e.op](value(e.left, env), value(e.right, env))


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (5, 1), (4, 6), (8, 3), (9, 5), (11, 7), (3, 2)])
def test_the_swizzle_visits_every_block_once_window_by_window_there_and_back(rows: int, columns: int) -> None:
    order = places(rows, columns, 4)
    assert sorted(order) == sorted(itertools.product(range(rows), range(columns)))
    if min(rows, columns) == 1:
        return
    windows = [row // 4 for row, _ in order]
    assert windows == sorted(windows)
    for w in range(-(-rows // 4)):
        visited = [column for row, column in order if row // 4 == w]
        forwards = sorted(visited)
        assert visited == (forwards if w % 2 == 0 else forwards[::-1])


# -- degenerate and large problems -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(problems.HELD))
def test_one_element(dtype: str) -> None:
    for bias in (None, "shared", "batched"):
        sound(plan(B=1, M=1, N=1, K=1, dtype=dtype, bias=bias))


@pytest.mark.parametrize("reading", ["analysis", "operator"])
@pytest.mark.parametrize("bias", [None, "shared", "batched"])
def test_no_depth(bias: str | None, reading: str) -> None:
    for sides in ({}, {"batch_b": 1}):
        found = plan(B=3, M=5, N=40, K=0, bias=bias, reading=reading, order=reading.replace("analysis", "latency"), **sides)
        assert found.latency.terms["MMAD"] == 0
        sound(found)


@pytest.mark.parametrize("K", [217_211, 524_288, 2_000_001])
def test_very_deep_products_are_planned(K: int) -> None:
    for sizes in ({"B": 2, "M": 133, "N": 204}, {"B": 1, "M": 1, "N": 1}, {"B": 64, "M": 20, "N": 20}):
        found = plan(K=K, **sizes)
        assert verify(found.program, found.chip.target) == ()


def test_a_deep_product_is_summed_right() -> None:
    sound(plan(B=1, M=3, N=5, K=120_000, dtype="fp32"))


@pytest.mark.parametrize("name", ["B", "M", "N"])
def test_nothing_to_compute(name: str) -> None:
    with pytest.raises(tilesat.Rejected, match=rf"{name} = 0.*nothing to compute"):
        plan(**{"B": 2, "M": 3, "N": 4, "K": 5, name: 0})


def test_more_than_global_memory_is_planned_with_a_note() -> None:
    found = plan(B=128, M=320, N=9, K=2_000_001)
    assert any("global memory" in note for note in found.notes)
    assert plan(B=2, M=3, N=4, K=5).notes == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reading": "mine"}, "reading = 'mine': give one of 'analysis', 'operator'"),
        ({"order": "best"}, "order = 'best'"),
        ({"branch": "merge"}, "unknown branch 'merge'; known: to_matmul"),
        ({"branch": "merge_batch"}, "merge_batch is not capable.*condition 1"),
        ({"chip": "ascend951"}, "unknown chip"),
        ({"b0": 1}, "b0 = 1: MergeBatch merges at least 2"),
        ({"dtype": "int4"}, "operands may be"),
        ({"batch_a": 2}, "do not broadcast"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    with pytest.raises(tilesat.TilesatError, match=message):
        plan(**{"B": 3, "M": 40, "N": 50, "K": 60, **change})


def test_limits_end_with_a_legal_plan_and_say_so() -> None:
    for limits in (Limits(nodes=1), Limits(seconds=0.0), Limits(iterations=0)):
        found = plan(B=3, M=40, N=50, K=60, limits=limits)
        assert found.report.stop is not StopReason.SATURATED
        assert any("ended the search" in note for note in found.notes)
        sound(found)


def test_a_chip_of_one_s_own() -> None:
    found = plan(B=40, M=50, N=60, K=70, chip={"base": "ascend950pr", "name": "mine", "cores": 20})
    assert found.chip.name == "mine"
    assert found.params["b_core"] == 2
    sound(found)


# -- the same answer everywhere --------------------------------------------------------------------------------------

SCRIPT = """
import json, tilesat
for arguments in json.loads(input()):
    p = tilesat.plan_batch(**arguments)
    print(json.dumps([p.branch, sorted(p.split), p.params, p.latency.total, p.refused, str(p.program)]))
"""


def test_the_same_bytes_in_every_process_and_hash_seed() -> None:
    asked = json.dumps(
        [
            {"B": 256, "M": 32, "N": 32, "K": 512, "dtype": "bf16"},
            {"B": 9, "M": 300, "N": 50, "K": 70, "dtype": "fp32", "batch_a": 1, "bias": "batched"},
            {"B": 2, "M": 20, "N": 50, "K": 40_000, "dtype": "int8", "deterministic": False},
        ]
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=asked,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(outputs) == 1
    assert len(next(iter(outputs)).splitlines()) == 3


def test_branches_are_the_documented_ones() -> None:
    assert set(BRANCHES) == set(OPERATOR_ORDER)
    assert tiling.CASE_NAMES == ("a", "b", "c-left", "c-right", "d-left", "d-right", "e")
