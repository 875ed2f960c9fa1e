"""Batch plans that once went wrong: each test names what happened."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilesat
from cost.errors import TilesatError
from egraph_rules.batch.catalogue import branch_rules
from egraph_rules.batch.saturate import saturate

#: 64 batches of 32 × 32 are 256 blocks of 16 × 16, far more than 32 cores: K must not be cut.
MANY: dict[str, Any] = {"B": 64, "M": 32, "N": 32, "K": 512, "dtype": "bf16"}


def test_facts_that_the_engine_refuses_are_forgotten() -> None:
    """The problem's own facts stayed in the kept engine, and later problems were planned with the conditions of two at once."""
    before = tilesat.plan_batch(**MANY)
    half = {"batch": [(0, 0, 1, 16, 16, 100_000, 1, 1, 1, 2, 0, 0, 0, 16, 16, 16)], "chip": [(10**30,) * 17]}
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
