"""`choose_tile` against the reference chooser's answers (tests/data/l0_tile_choices.jsonl)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tilesat
from tilesat.choose import choose_tile

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "l0_tile_choices.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32", "int8"])
def test_every_golden_choice(target: str, dtype: str) -> None:
    rows = [r for r in ROWS if r["case"]["target"] == target and r["case"]["dtype"] == dtype]
    assert len(rows) > 90
    wrong = [message for r in rows if (message := difference(r["case"], r["expect"]))]
    assert not wrong, "\n".join(wrong[:10])


def difference(case: dict[str, object], expect: dict[str, object]) -> str:
    """What is not as expected about one choice; empty when all is."""
    if expect.get("rejected"):
        try:
            return f"{case}: not refused but {choose_tile(**case)}"  # type: ignore[arg-type]
        except tilesat.Rejected:
            return ""
    try:
        got = choose_tile(**case)  # type: ignore[arg-type]
    except tilesat.Rejected as refusal:
        return f"{case}: refused: {refusal}"
    names = set(expect) - {"os_holds_a"}
    if expect["stationarity"] == "output" and expect["k"] == case["K"]:
        names.add("os_holds_a")
    off = {name: (getattr(got, name), expect[name]) for name in sorted(names) if getattr(got, name) != expect[name]}
    return f"{case}: (got, expected) {off}" if off else ""
