"""Each rule family, on its own: what it makes computes the same numbers, and it refuses what it must.

A family runs with the few others it needs to show (loads, and for placements the schedules they place). The right side of each
equation is what `tile` emits, the left side the program as it was; both run in the reference interpreter on whole numbers, where
they must agree bit for bit. A refusal is a case just beyond a side condition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lift_programs import Case, Chain
from tiling_checks import TARGETS, checked, decision

import tilesat
from egraph_rules.catalogue import CORE, FAMILIES
from tilesat.result import Tiling

SETTINGS = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FRACTALS = st.integers(1, 16).map(lambda x: 16 * x)


@dataclass(frozen=True)
class Show:
    """How a family shows: the rule set it runs in, the form its product then has, a case that shows it and one it must refuse."""

    rules: str
    form: str
    shows: Case | Chain
    refuses: Case | Chain
    target: str = "ascend910b"
    name: str = "c"


SHOWS = {
    # K = 512 does not fit two panels deep; K = 16 is one fractal, which cannot be cut
    "k_split": Show("k_split,loads", "k_loop", Case.full(64, 64, 512), Case.full(64, 64, 16)),
    # 192 × 512 accumulators of 4 bytes exceed L0C; 128 × 128 ones fit
    "mn_grid": Show("mn_grid,k_split,direct_store,loads", "grid_store", Case.full(192, 512, 64), Case.full(128, 128, 64)),
    # only full-K schedules are left without k_split: K = 64 fits twice, K = 4096 never does
    "stationarity": Show(
        "stationarity,mn_grid,direct_store,loads", "grid_store", Case.full(192, 512, 64), Case.full(192, 512, 4096)
    ),
    # a store that is the only use; two products read from Mat are no store
    "direct_store": Show(
        "mn_grid,k_split,direct_store,loads",
        "grid_store",
        Case.full(192, 512, 64),
        Case.full(256, 256, 64, dtype="fp32", place="scratch"),
    ),
    # fp32 scratch on the 950; the 910B wants bf16 or fp16 there
    "mat_scratch": Show(
        "reference",
        "grid_scratch",
        Case.full(512, 128, 64, dtype="fp32", place="scratch"),
        Case.full(1024, 512, 64, dtype="fp32", place="scratch"),  # 2 MiB of scratch exceed Mat
        "ascend950",
    ),
    "cast_fold": Show(
        "reference", "grid_scratch", Case.full(256, 256, 192, place="cast"), Case.full(1024, 1024, 64, place="cast")
    ),
    "accumulate": Show("accumulate,k_split,loads", "k_loop", Case.full(32, 64, 1024, op="acc"), Case.full(32, 64, 16, op="acc")),
    "bias_window": Show(
        "bias_window,mn_grid,k_split,stationarity,loads",
        "grid_store",
        Case.full(96, 768, 64, op="bias"),
        Case.full(32, 64, 64, op="bias"),
    ),
    "vec_staging": Show(
        "vec_staging,k_split,loads", "k_loop", Case.full(16, 64, 2048, left="Vec"), Case.full(16, 64, 16, left="Vec")
    ),
    "split_k_chain": Show("reference", "grid_store", Chain(272, 144, 128, 2), Chain(64, 64, 128, 2), "ascend910b", "acc_r"),
}


def run(show: Show, case: Case | Chain) -> Tiling:
    return checked(case.text(), stable=False, target=show.target, rules=show.rules)


def forms(result: Tiling, name: str) -> set[str]:
    return {d.form for d in result.decisions if d.name == name}


@pytest.mark.parametrize("family", SHOWS)
def test_what_the_family_makes(family: str) -> None:
    """The equation holds where the family applies, and the family is what makes it apply."""
    show = SHOWS[family]
    result = run(show, show.shows)
    assert show.form in forms(result, show.name), result.decisions
    fired = [r.name for r in result.report.rules if r.family == family and r.matches]
    assert fired, f"no rule of {family} matched"
    without = checked(show.shows.text(), stable=False, target=show.target, rules=f"{show.rules},-{family}")
    assert without.program != result.program


@pytest.mark.parametrize("family", SHOWS)
def test_what_the_family_refuses(family: str) -> None:
    show = SHOWS[family]
    result = run(show, show.refuses)
    assert show.form not in forms(result, show.name), result.decisions


def test_every_family_is_shown_here_or_below() -> None:
    below = {"loads", "double_buffer", "vector_cast", "drained_pipeline", "planners", "free_hoist"}
    assert set(SHOWS) | below | set(CORE) == set(FAMILIES)


# -- the equations on generated extents ------------------------------------------------------------------------------------


@SETTINGS
@given(FRACTALS, FRACTALS, FRACTALS, st.sampled_from(["bf16", "fp32", "int8"]), st.sampled_from(TARGETS))
def test_sum_of_panels(M: int, N: int, K: int, dtype: str, target: str) -> None:
    """k_split: Σ A[:, ko:ko+k] @ B[ko:ko+k, :], K tails included, whatever k is forced."""
    step = 32 if dtype == "int8" else 16
    case = Case.full(M, N, -(-K // step) * step * 2, dtype=dtype)
    checked(case.text(), stable=False, target=target, rules="k_split,loads")


@SETTINGS
@given(FRACTALS, FRACTALS, st.integers(1, 12), st.integers(1, 12), st.sampled_from(["store", "scratch", "cast"]))
def test_union_of_windows(M: int, N: int, m: int, n: int, place: str) -> None:
    """mn_grid with each placement: ⋃ A[mi:mi+m, :] @ B[:, ni:ni+n], boundary windows included, for forced tiles."""
    case = Case.full(M, N, 64, dtype="fp32" if place == "scratch" else "bf16", place=place)
    tile = (min(16 * m, M), min(16 * n, N), 16)
    smaller = (tile[0], min(tile[1], 128), 16)  # at most 192 × 128: fits L0C of either target, two panels fit L0
    result = checked(case.text(), stable=False, target="ascend950", force={"c": smaller})
    d = decision(result, "c")
    assert (d.m, d.n, d.k) in (smaller, (None, None, None))


@SETTINGS
@given(st.integers(2, 12), st.integers(2, 40), st.sampled_from([16, 32, 64]), st.sampled_from(["matmul", "bias"]))
def test_loop_orders_and_two_accumulators(M: int, N: int, K: int, op: str) -> None:
    """stationarity, free_hoist and double_buffer: every order of the two loops computes the same, as do two accumulators."""
    case = Case.full(16 * M, 16 * N, K, op=op)
    for rules in ("reference", "all", "reference,-double_buffer", "all,-k_split"):
        checked(case.text(), stable=False, target="ascend910b", rules=rules)


@SETTINGS
@given(st.integers(1, 20), st.integers(1, 12), st.sampled_from([32, 96, 128, 384]), st.integers(2, 4), st.booleans())
def test_chains_around_their_own_loop(M: int, N: int, K: int, blocks: int, branch: bool) -> None:
    """split_k_chain: ⋃ Σ A[mi, k0] @ B[k0, ni], in both spellings, boxed windows included."""
    checked(Chain(16 * M, 16 * N, K, blocks, branch=branch).text(), stable=False, target="ascend910b")


@SETTINGS
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 64), st.sampled_from(["acc", "acc_if", "bias"]), st.booleans())
def test_accumulation_and_bias_begin_their_sums_once(M: int, N: int, K: int, op: str, narrowed: bool) -> None:
    """accumulate and bias_window: the accumulator, the predicate and the bias take part exactly once, narrowed rows included."""
    case = Case.full(16 * M, 16 * N, 32 * K, op=op)
    if narrowed:
        case = replace(case, valid=(16 * M - 5, 32 * K, 16 * N - 3))
    checked(case.text(), stable=False, target="ascend950")


# -- the families that need a case of their own ------------------------------------------------------------------------------


def test_double_buffer_needs_two_full_windows_on_the_moving_axis() -> None:
    two = tilesat.tile(tilesat.parse(Case.full(128, 256, 64).text()), force={"c": (64, 128, 64)})
    assert decision(two, "c").double_buffer_c
    one = tilesat.tile(tilesat.parse(Case.full(112, 240, 64).text()), force={"c": (64, 128, 64)})
    assert not decision(one, "c").double_buffer_c
    never = tilesat.tile(
        tilesat.parse(Case.full(128, 256, 64).text()), force={"c": (64, 128, 64)}, rules="reference,-double_buffer"
    )
    assert not decision(never, "c").double_buffer_c


def test_loads_are_what_operands_come_from() -> None:
    assert decision(tilesat.tile(tilesat.parse(Case.full(16, 64, 2048).text())), "c").form == "k_loop"
    without = tilesat.tile(tilesat.parse(Case.full(16, 64, 2048).text()), rules="reference,-loads")
    assert decision(without, "c").form == "as_it_stands"


def test_a_vector_cast_is_staged_and_feeds_a_k_loop() -> None:
    """vector_cast: a cast FIXPIPE cannot do stays on the Vector unit, and its reader is tiled from Vec."""
    text = Case.full(32, 1024, 16, place="cast").text().replace("rint", "floor")
    result = checked(text, stable=False, target="ascend950")
    assert [d.code for d in result.diagnostics] == ["PH-AT-010"]
    assert decision(result, "d").form == "k_loop"
    without = checked(text, stable=False, target="ascend950", rules="reference,-vector_cast")
    assert decision(without, "d").form == "as_it_stands"


def test_pypto_takes_output_stationary_scratch_schedules() -> None:
    """planners: under pypto a Mat-scratch producer pins no operand; the others keep the chooser's schedule."""
    case = Case.full(256, 256, 192, place="cast").text()
    assert decision(checked(case, stable=False, planner="dsa_rp"), "c").stationarity != "output"
    assert decision(checked(case, stable=False, planner="pypto"), "c").stationarity == "output"
    without = checked(case, stable=False, planner="pypto", rules="reference,-planners")
    assert decision(without, "c").form == "as_it_stands"


def test_free_hoisting_only_adds() -> None:
    """free_hoist: both loop orders are candidates, and the cheapest plan is never dearer for it."""
    program = tilesat.parse(Case.full(192, 512, 64).text())
    with_it, without = (tilesat.tile(program, rules=r) for r in ("all", "all,-free_hoist"))
    assert decision(with_it, "c").candidates > decision(without, "c").candidates
    assert with_it.cycles <= without.cycles
