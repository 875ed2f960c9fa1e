"""Limits far too small: still a legal program, and the report and the hints say which limit ended the run."""

from __future__ import annotations

import pytest
from generate import program_text
from lift_programs import Case, Chain
from tiling_checks import check_legal, check_meaning

import tilesat

PROGRAMS = {
    "grid": Case.full(192, 512, 64).text(),
    "cast": Case.full(256, 256, 192, place="cast").text(),
    "chain": Chain(272, 144, 384, 2).text(),
    "several": program_text(7, max_matmuls=6),
}
LIMITS = {
    "node limit": [tilesat.Limits(nodes=n) for n in (0, 10, 300, 400, 800, 2000)],
    "time limit": [tilesat.Limits(seconds=0.0)],
    "iteration limit": [tilesat.Limits(iterations=n) for n in (0, 1)],
}


@pytest.mark.parametrize("rules", ["reference", "all"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("reason", LIMITS)
def test_a_run_that_is_ended_gives_a_legal_program(reason: str, name: str, rules: str) -> None:
    program = tilesat.parse(PROGRAMS[name])
    for limits in LIMITS[reason]:
        result = tilesat.tile(program, rules=rules, limits=limits)
        assert result.report.stop.value in (reason, "saturated")
        check_legal(program, result, "ascend910b")
        check_meaning(program, result.program)


def test_what_was_not_found_in_time_stands_with_a_hint() -> None:
    program = tilesat.parse(PROGRAMS["grid"])
    result = tilesat.tile(program, limits=tilesat.Limits(nodes=1))
    assert result.report.stop.value == "node limit"
    assert result.program == program
    (hint,) = result.diagnostics
    assert hint.code == "PH-AT-008"
    assert "node limit" in hint.message


def test_more_room_never_makes_a_worse_plan() -> None:
    program = tilesat.parse(PROGRAMS["grid"])
    cycles = [tilesat.tile(program, rules="all", limits=tilesat.Limits(nodes=n)).cycles for n in (800, 2000, 200_000)]
    known = [c for c in cycles if c]
    assert known
    assert known == sorted(known, reverse=True)
