"""Batch plans that once went wrong: each test names what happened."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from batch_problems import arrays

import tilesat
from cost.errors import TilesatError
from egraph_rules.batch.catalogue import branch_rules
from egraph_rules.batch.saturate import saturate
from ir_bridge.ir.interpreter import execute

#: 64 batches of 32 × 32 are 256 blocks of 16 × 16, far more than 32 cores: K must not be cut.
MANY: dict[str, Any] = {"B": 64, "M": 32, "N": 32, "K": 512, "dtype": "bf16"}


def test_facts_that_the_engine_refuses_are_forgotten() -> None:
    """The problem's own facts stayed in the kept engine, and later problems were planned with the conditions of two at once."""
    before = tilesat.plan_batch(**MANY)
    half = {"batch": [(0, 0, 1, 16, 16, 100_000, 1, 1, 1, 2, 0, 0, 0, 16, 16, 16)], "chip": [(10**30,) * 19]}
    with pytest.raises(TilesatError, match="engine refused"):
        saturate(half, branch_rules())
    after = tilesat.plan_batch(**MANY)
    assert str(after) == str(before)
    assert after.alternatives == before.alternatives
    assert "stream_k" in after.refused


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"b0": 10**30}, "b0 = 10{30}: .* from 2 to 2147483647"),
        ({"chip": {"base": "ascend950pr", "cores": 10**30}}, "cores is 10{30}, more than the 1099511627776"),
        ({"chip": {"base": "ascend950pr", "gm_tb_s": 10**400}}, "gm_tb_s is 10{400}, more than"),
        ({"chip": {"base": "ascend950pr", "balance_flop_per_element": 1e300}}, "balance_flop_per_element is 1e.300, more than"),
        ({"dtype": None}, "unknown element type None"),
        ({"rules": None}, "rules = None: give a text"),
        ({"rules": "x"}, "unknown branch family 'x'; known: all"),
        ({"limits": 3}, "limits must be None or a tilesat Limits, not 3"),
        ({"deterministic": "no"}, "deterministic must be True or False, not 'no'"),
    ],
)
def test_arguments_that_crashed_or_reached_the_engine_are_refused_by_name(changed: dict[str, Any], words: str) -> None:
    """AttributeError, OverflowError, or the engine's own words for its input."""
    with pytest.raises(TilesatError, match=words):
        tilesat.plan_batch(**{**MANY, **changed})


def test_help_shows_how_transposed_operands_lie(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Square brackets were taken for markup: "A is stored ."."""
    from tilesat.cli import main

    monkeypatch.setattr("sys.argv", ["tilesat", "batch", "--help"])
    with pytest.raises(SystemExit):
        main()
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "[batch, K, M]" in shown
    assert "[batch, N, K]" in shown


@pytest.mark.parametrize(
    ("operand", "side", "taken"),
    [
        # (s + s) · bytes + s · s · 4 ≤ 253952: 224 gives 448 + 200704, 256 gives 512 + 262144.
        ("int8", 224, True),
        ("int8", 256, False),
        # 2 bytes all over: 336 gives 1344 + 225792, 368 gives 1472 + 270848.
        ("bf16", 336, True),
        ("bf16", 368, False),
    ],
)
def test_k1_counts_what_an_element_of_the_result_takes(operand: str, side: int, taken: bool) -> None:
    """Results of int8 operands are int32, and were counted with one byte: 352 × 352 "stayed" in a buffer of 248 KiB."""
    plan = tilesat.plan_batch(B=128, M=side, N=side, K=1, dtype=operand)
    assert ("special_k1" in plan.alternatives) == taken


def test_operator_iterates_int8_batches_of_which_l1_holds_no_two_in_boxes_of_32() -> None:
    """2·(16·7952 + 7952·16 + 64) ≤ 512 KiB enters by the gate, B = 64 being two even waves; in boxes N = 16 takes 32 columns."""
    plan = tilesat.plan_batch(B=64, M=15, N=16, K=7937, dtype="int8", bias="shared", reading="operator", order="operator")
    assert plan.branch == "iter_batch"
    assert plan.params["case"] == "d-left"
    assert tilesat.verify(plan.program, plan.chip.target) == ()
    given, wanted = arrays(plan.problem, 0)
    assert np.array_equal(execute(plan.program, **given)["c"], wanted)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    """They were refused, as if they were none; truth values still are, numpy's too."""
    sizes = {name: np.int64(x) if isinstance(x, int) else x for name, x in MANY.items()}
    plan = tilesat.plan_batch(**sizes, b0=np.int32(2), batch_a=np.uint8(64))
    assert str(plan) == str(tilesat.plan_batch(**MANY))
    assert type(plan.problem.M) is int
    for nothing in (True, np.True_, np.float32(64), "64"):
        with pytest.raises(TilesatError, match="M must be a whole number"):
            tilesat.plan_batch(**{**MANY, "M": nothing})
        with pytest.raises(TilesatError, match="b0 must be a whole number"):
            tilesat.plan_batch(**MANY, b0=nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "branch", "reason"),
    [
        ({}, "special_k0", "it needs K = 0; K is 512"),
        ({}, "special_k1", "it needs K = 1; K is 512"),
        ({"batch_b": 1}, "iter_batch", "it needs BatchA = BatchB; BatchA is 64, BatchB is 1"),
        ({"bias": "shared"}, "merge_batch", "it needs no bias; there is one"),
        ({"bias": "batched"}, "iter_batch", "it needs a bias without a batch, or none; the bias is batched"),
        ({"dtype": "fp32"}, "merge_batch", "it needs elements other than fp32; they have 4 bytes"),
        ({"batch_b": 1, "transpose_a": True}, "to_matmul", "it needs A not stored transposed; it is"),
        ({"B": 1, "dtype": "fp32", "K": 2_000_001}, "stream_k", "it needs K ≤ 2000000 for elements of 4 bytes; K is 2000001"),
    ],
)
def test_reasons_say_what_is_asked_for_and_what_there_is(changed: dict[str, Any], branch: str, reason: str) -> None:
    """They read "K = 64 is 0: 64 ≠ 0"."""
    plan = tilesat.plan_batch(**{**MANY, **changed}, reading="operator", order="operator", deterministic=False)
    assert any(r.endswith(reason) for r in plan.refused[branch]), plan.refused[branch]
