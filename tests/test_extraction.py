"""Extraction: the documented order of regimes on walls made by hand, one saturation for many models, the cheapest plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generate import program_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lift_programs import Case, load, program
from tiling_checks import PLANNERS, TARGETS, checked, decision

import tilesat
from cost.dtypes import dtype as element_type
from cost.errors import CostModelError
from cost.hardware import get_target
from cost.models import cost_model
from cost.models.base import FunctionModel, wall_only
from cost.problem import Candidates, Problem
from egraph_rules import language as L
from egraph_rules.catalogue import rules
from extraction.policy import Priced, cheapest, documented, price
from extraction.snapshot import Schedules
from ir_bridge.ir.parser import parse
from tilesat.choose import choose_tile, saturate
from tilesat.tiling import tile

# -- the documented policy, on candidates and walls written out ------------------------------------------------------------------

OUTPUT, A, B = (L.OUTPUT_HOLDING_A, 0), (L.A_STATIONARY, 1), (L.B_STATIONARY, 2)
TWO = L.DOUBLE_C
PROBLEM = Problem.of(64, 64, 64, element_type("bf16"))


def priced(*rows: tuple[tuple[int, int], int, int, int, int, float]) -> Priced:
    """Candidates as (kind, accumulators, m, n, k, wall)."""
    candidates = Candidates.of((m, n, k, kind[1], kind[0] != L.B_STATIONARY, acc) for kind, acc, m, n, k, _ in rows)
    regime = np.array([kind[0] + (TWO if acc == 2 else 0) for kind, acc, *_ in rows])
    scope = np.array([L.WHOLE if (m, n) == (64, 64) else L.GRID for _, _, m, n, _, _ in rows])
    return Priced(PROBLEM, Schedules(candidates, regime, scope), wall_only([r[-1] for r in rows]))


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        # the baseline is the whole problem: nothing else is explored
        ([(OUTPUT, 1, 64, 64, 64, 100.0), (A, 1, 32, 32, 64, 50.0)], 0),
        # it is not: a richer regime with a smaller wall is taken
        ([(OUTPUT, 1, 32, 32, 64, 100.0), (A, 1, 32, 32, 64, 50.0)], 1),
        # but not for an equal one, nor for one that is equal when rounded
        ([(OUTPUT, 1, 32, 32, 64, 100.0), (A, 1, 32, 32, 64, 100.0)], 0),
        ([(OUTPUT, 1, 32, 32, 64, 100.4), (A, 1, 32, 32, 64, 99.6)], 0),
        ([(OUTPUT, 1, 32, 32, 64, 100.4), (A, 1, 32, 32, 64, 99.4)], 1),
        # in order: output with two, A with one, A with two, B with one, B with two; the first of equals stays
        ([(OUTPUT, 1, 32, 32, 64, 100.0), (B, 1, 16, 32, 64, 80.0), (A, 2, 32, 16, 64, 80.0)], 2),
        ([(OUTPUT, 1, 32, 32, 64, 100.0), (OUTPUT, 2, 16, 16, 64, 80.0), (A, 1, 32, 16, 64, 80.0)], 1),
        ([(OUTPUT, 1, 32, 32, 64, 100.0), (B, 2, 16, 16, 64, 70.0), (B, 1, 32, 16, 64, 80.0)], 1),
        # a regime's own candidate is its best by wall, then padded volume, K blocks, load, larger m·n, larger k
        ([(OUTPUT, 1, 32, 32, 64, 90.0), (OUTPUT, 1, 48, 32, 64, 90.0)], 0),  # 48 pads 64 rows to 96
        ([(OUTPUT, 1, 32, 32, 16, 90.0), (OUTPUT, 1, 32, 32, 32, 90.0)], 1),
        ([(OUTPUT, 1, 16, 16, 64, 90.0), (OUTPUT, 1, 32, 16, 64, 90.0)], 1),
        # no output-stationary schedule at all: the others are still looked at
        ([(A, 1, 32, 32, 64, 50.0), (B, 1, 32, 32, 64, 40.0)], 1),
    ],
)
def test_the_documented_policy(rows: list[Any], chosen: int) -> None:
    assert documented(priced(*rows)) == chosen


def test_the_cheapest_policy_looks_at_the_wall_alone() -> None:
    rows = [(OUTPUT, 1, 64, 64, 64, 100.0), (A, 1, 32, 32, 64, 50.0), (B, 2, 32, 32, 64, 49.0)]
    assert documented(priced(*rows)) == 0
    assert cheapest(priced(*rows)) == 2
    assert cheapest(priced(*rows), L.WHOLE) == 0
    assert cheapest(priced(rows[1]), L.WHOLE) is None


# -- one saturation, many models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rule_set", ["reference", "all"])
def test_one_snapshot_serves_every_model(target: str, rule_set: str) -> None:
    chip = get_target(target)
    problem = Problem.of(384, 512, 96, element_type("bf16"))
    taken, report = saturate(problem, chip, rules(rule_set))
    pick = documented if rule_set == "reference" else cheapest
    for name in ("roofline", "roofline-tails", "traffic", "padded", "overlap", "random:3", "random:4"):
        prices = price(taken.schedules[0], problem, cost_model(name), chip)
        row = pick(prices)
        assert row is not None
        t = choose_tile(
            M=384, N=512, K=96, dtype="bf16", target=target, operand_stationary=True, double_buffer_c=True,
            rules=rule_set, cost_model=name,
        )  # fmt: skip
        c = prices.choice(row)
        assert (t.m, t.n, t.k, t.stationarity, t.double_buffer_c) == (c.m, c.n, c.k, c.stationarity, c.double_buffer_c), name
    assert report.classes > 0


def test_models_differ_in_what_they_choose() -> None:
    chosen = {
        name: decision(tile(parse(Case.full(384, 512, 512).text()), cost_model=name, rules="all"), "c")
        for name in ("roofline", "traffic", "padded", "random:1", "random:2")
    }
    assert len({(d.m, d.n, d.k, d.stationarity) for d in chosen.values()}) >= 4


def test_candidates_come_in_a_fixed_order() -> None:
    taken, _ = saturate(Problem.of(128, 128, 64, element_type("fp16")), get_target("910B"), rules("all"))
    s = taken.schedules[0]
    rows = list(zip(s.candidates.m, s.candidates.n, s.candidates.k, s.regime, strict=True))
    assert rows == sorted(rows)
    assert len(set(rows)) == len(rows)


def test_a_broken_model_is_reported_with_its_candidate() -> None:
    def broken(candidates: Candidates, problem: Problem, target: object) -> Any:
        walls = np.ones(len(candidates))
        walls[5] = np.nan
        return walls

    with pytest.raises(CostModelError, match=r"'?mine'?.*candidate 5"):
        tile(parse(Case.full(256, 512, 64).text()), cost_model=FunctionModel("mine", broken))


# -- placements as nodes ---------------------------------------------------------------------------------------------------------


def test_equal_loads_meet_in_one_node() -> None:
    """Two products of one tensor, loaded twice: one class for both loads."""
    out = "pl.Tensor[[64, 64], pl.FP32]"
    body = [
        load("a1", "a", (64, 64), (64, 64)),
        load("a2", "a", (64, 64), (64, 64)),
        load("b_mat", "b", (64, 64), (64, 64)),
        "c = pl.tile.matmul(a1, b_mat)",
        "d = pl.tile.matmul(a2, b_mat)",
        "s = pl.tile.store(c, [0, 0], out)",
        "t = pl.tile.store(d, [0, 0], out2)",
        "return s, t",
    ]
    params = ["a: pl.Tensor[[64, 64], pl.BF16]", "b: pl.Tensor[[64, 64], pl.BF16]", f"out: pl.Out[{out}]", f"out2: pl.Out[{out}]"]
    result = checked(program(params, f"tuple[{out}, {out}]", body))
    assert [r.matches for r in result.report.rules if r.name == "load_to_mat"] == [3]
    assert [(d.name, d.form) for d in result.decisions] == [("c", "as_it_stands"), ("d", "as_it_stands")]


# -- the cheapest plan -----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 24), st.integers(1, 24), st.integers(1, 40), st.sampled_from(TARGETS), st.sampled_from(PLANNERS))
def test_the_cheapest_plan_of_a_stored_product_costs_no_more(m: int, n: int, k: int, target: str, planner: str) -> None:
    text = Case.full(16 * m, 16 * n, 16 * k).text()
    reference, best = (
        decision(tile(parse(text), target, planner, rules=r, pypto_double_buffer_c=True), "c") for r in ("reference", "all")
    )
    assert best.wall_cycles is not None
    assert best.wall_cycles <= (reference.wall_cycles or best.wall_cycles)


@pytest.mark.parametrize("extractor", ["tree", "dag", "exact"])
def test_a_reader_is_tiled_whether_or_not_its_producer_is(extractor: str) -> None:
    """A product that stays as it stands needs its operands too, so that a tiled one is not the dearer for needing them."""
    text = Case.full(256, 256, 64, place="cast").text()
    result = checked(text, rules="all", extractor=extractor)
    assert decision(result, "c").form == "grid_scratch"
    assert decision(result, "d").form in ("grid_store", "k_loop")
    assert "tile.cast" not in str(result.program)


@pytest.mark.parametrize("seed", range(6))
def test_extractors_agree_on_what_programs_compute(seed: int) -> None:
    text = program_text(300 + seed, max_matmuls=4, max_pieces=3)
    cycles = {e: checked(text, rules="all", extractor=e, target=TARGETS[seed % 2]).cycles for e in ("tree", "dag", "exact")}
    assert all(c >= 0 for c in cycles.values())


def test_unknown_extractors_are_refused() -> None:
    with pytest.raises(tilesat.TilesatError, match=r"unknown extractor 'greedy'.*Known: dag"):
        tile(parse(Case.full(16, 16, 16).text()), extractor="greedy")
