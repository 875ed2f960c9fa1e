"""Limits far too small: the program that comes back is legal and computes the same, and it is said which limit ended the run."""

from __future__ import annotations

import pytest
from generate import program_text
from lift_programs import Case, Chain
from tiling_checks import check_legal, check_meaning, codes, decision

import tilesat
from egraph_rules.report import Limits, StopReason
from ir_bridge.ir.parser import parse
from tilesat.result import Tiling
from tilesat.tiling import tile

PROGRAMS = {
    "store": Case.full(256, 512, 512).text(),
    "chain": Case.full(256, 256, 192, place="cast").text(),
    "split_k": Chain(256, 512, 512, 2, "bf16").text(),
    "bias": Case.full(256, 512, 64, op="bias").text(),
    "mixed": program_text(11, max_matmuls=8),
}
NODES = [0, 1, 10, 50, 200, 1_000, 3_000]
ITERATIONS = [0, 1, 2, 3]
SECONDS = [0.0, 1e-9, 2e-4]


def limited(name: str, limits: Limits, rules: str) -> Tiling:
    before = parse(PROGRAMS[name])
    result = tile(before, rules=rules, limits=limits)
    check_legal(before, result, "ascend910b")
    check_meaning(before, result.program)
    return result


@pytest.mark.parametrize("rules", ["reference", "all"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("limits", "stop"),
    [
        *((Limits(nodes=n), StopReason.NODES) for n in NODES),
        *((Limits(iterations=n), StopReason.ITERATIONS) for n in ITERATIONS),
        *((Limits(seconds=s), StopReason.SECONDS) for s in SECONDS),
    ],
    ids=lambda x: x.name if isinstance(x, StopReason) else str(min(x.nodes, x.iterations, x.seconds)),
)
def test_any_limit_leaves_a_legal_program(limits: Limits, stop: StopReason, name: str, rules: str) -> None:
    result = limited(name, limits, rules)
    assert result.report.stop in (stop, StopReason.SATURATED)
    if min(limits.nodes, limits.iterations) <= 1 or limits.seconds < 1e-6:
        assert result.report.stop is stop


@pytest.mark.parametrize("rules", ["reference", "all"])
@pytest.mark.parametrize(
    ("limits", "words"),
    [(Limits(nodes=1), "node limit"), (Limits(iterations=0), "iteration limit"), (Limits(seconds=0), "time limit")],
)
def test_a_product_the_limit_left_untiled_says_so(limits: Limits, words: str, rules: str) -> None:
    result = limited("store", limits, rules)
    assert result.report.stop.value == words
    assert codes(result) == ["PH-AT-008"]
    assert f"the {words} ended the run" in result.diagnostics[0].message
    assert "raise the limit" in result.diagnostics[0].message
    assert decision(result, "c").form == "as_it_stands"


def test_a_limit_that_is_reached_late_still_gives_the_best_found_so_far() -> None:
    """One row less than the whole e-graph has: the last stage is not run, and the schedules of the others are there."""
    nodes = limited("store", Limits(), "reference").report.nodes
    late = limited("store", Limits(nodes=nodes - 1), "reference")
    assert late.report.stop is StopReason.NODES
    assert decision(late, "c").form == "grid_store"
    assert codes(late) == []


def test_enough_is_enough() -> None:
    one, two = (limited("mixed", limits, "reference") for limits in (Limits(), Limits(60.0, 10**7, 10**6)))
    assert one.report.stop is two.report.stop is StopReason.SATURATED
    assert str(one.program) == str(two.program)


@pytest.mark.parametrize("name", ["seconds", "nodes", "iterations"])
def test_negative_limits_are_refused(name: str) -> None:
    with pytest.raises(tilesat.TilesatError, match=f"limit {name} = -1 is no limit"):
        Limits(**{name: -1})
