"""Each rule family switched off by name: what is left is still legal, still computes the same, and says what it could not do."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from generate import program_text
from lift_programs import Case, Chain
from test_rules_soundness import drained
from tiling_checks import PLANNERS, TARGETS, check_legal, checked, decision

import tilesat
from egraph_rules.catalogue import CORE, FAMILIES, RuleSet, rules
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.interpreter_inputs import random_inputs
from ir_bridge.ir.nodes import Program
from ir_bridge.ir.parser import parse
from tilesat.result import Tiling
from tilesat.tiling import tile

OPTIONAL = [name for name in FAMILIES if name not in CORE]

#: A program that each family has work in.
CORPUS = {
    "store": Case.full(256, 512, 64).text(),
    "deep": Case.full(64, 64, 1040).text(),
    "chain": Case.full(256, 256, 192, place="cast").text(),
    "fold": Case.full(128, 128, 512, place="cast").text(),
    "floor": Case.full(128, 128, 64, place="cast").text().replace("rint", "floor"),
    "raw": Case.full(256, 256, 64, dtype="fp32", place="scratch").text(),
    "vec": Case.full(64, 64, 512, left="Vec").text(),
    "acc": Case.full(64, 64, 1040, op="acc_if").text(),
    "bias": Case.full(256, 512, 64, op="bias").text(),
    "split_k": Chain(256, 512, 64, 2, "bf16").text(),
    "drained": drained(4, 2, 64, 64, "store"),
    "mixed": program_text(5, max_matmuls=8),
}


@functools.cache
def source(name: str) -> tuple[Program, dict[str, Any], dict[str, Any]]:
    """A program of the corpus, whole-numbered inputs for it, and what it makes of them."""
    program = parse(CORPUS[name])
    inputs = random_inputs(program, 3)
    return program, inputs, execute(program, **inputs)


def tiled(name: str, i: int, spec: str | RuleSet) -> Tiling:
    """A program of the corpus under a rule set; legal, and computing the same."""
    program, inputs, expected = source(name)
    target = TARGETS[i % 2]
    result = tile(program, target, PLANNERS[i % 3], spec)
    check_legal(program, result, target)
    if result.program is not program:
        got = execute(result.program, **inputs)
        for key, array in expected.items():
            np.testing.assert_array_equal(got[key], array, err_msg=f"{name}: {key}")
    return result


@pytest.mark.parametrize("family", OPTIONAL)
@pytest.mark.parametrize("base", ["reference", "all"])
def test_a_family_switched_off_leaves_legal_programs(base: str, family: str) -> None:
    for i, name in enumerate(CORPUS):
        fired = {r.family for r in tiled(name, i, f"{base},-{family}").report.rules}
        assert family not in fired, name


@pytest.mark.parametrize("family", OPTIONAL)
def test_a_family_alone_leaves_legal_programs(family: str) -> None:
    for i, name in enumerate(CORPUS):
        tiled(name, i, family)


@pytest.mark.parametrize("pair", list(itertools.combinations(["k_split", "mn_grid", "stationarity", "direct_store"], 2)))
def test_pairs_switched_off(pair: tuple[str, str]) -> None:
    without = rules("reference") - pair
    for i, name in enumerate(CORPUS):
        tiled(name, i, without)


def form(name: str, spec: str, **options: str) -> tuple[str, list[str]]:
    """The form of the first product (or chain), and the codes of what is said about it."""
    result = checked(CORPUS[name], rules=spec, **options)
    first = result.decisions[0] if name == "split_k" else decision(result, "c")
    return first.form, [d.code for d in result.diagnostics if d.where.startswith(f"{first.name} in ")]


def test_what_each_family_is_for() -> None:
    """The form a program takes with the documented rules, and without the family that makes it."""
    assert form("store", "reference") == ("grid_store", [])
    assert form("store", "reference,-mn_grid") == ("as_it_stands", ["PH-AT-005"])
    assert form("store", "reference,-direct_store") == ("as_it_stands", ["PH-AT-006"])
    assert form("store", "reference,-loads") == ("as_it_stands", [])
    assert form("deep", "reference", planner="pypto") == ("k_loop", [])
    assert form("deep", "reference,-k_split", planner="pypto")[0] == "as_it_stands"
    assert form("raw", "reference", target="ascend950") == ("grid_scratch", [])
    assert form("raw", "reference,-mat_scratch", target="ascend950") == ("as_it_stands", ["PH-AT-006"])
    assert form("chain", "reference") == ("grid_scratch", [])
    assert form("chain", "reference,-cast_fold") == ("as_it_stands", ["PH-AT-006"])
    assert form("chain", "reference,-planners") == ("as_it_stands", ["PH-AT-006"])
    assert form("vec", "reference", planner="pypto") == ("k_loop", [])
    assert form("vec", "reference,-vec_staging", planner="pypto")[0] == "as_it_stands"
    assert form("acc", "reference", planner="pypto") == ("k_loop", [])
    assert form("acc", "reference,-accumulate", planner="pypto")[0] == "as_it_stands"
    assert form("bias", "reference") == ("grid_store", [])
    assert form("bias", "reference,-bias_window")[0] == "as_it_stands"
    assert form("split_k", "reference") == ("grid_store", [])
    assert form("split_k", "reference,-split_k_chain") == ("as_it_stands", ["PH-AT-006"])


def test_schedules_that_families_open() -> None:
    def chosen(spec: str) -> tuple[str, bool]:
        d = decision(checked(Case.full(512, 512, 512).text(), rules=spec), "c")
        return d.stationarity, d.double_buffer_c

    assert chosen("reference") == ("b", True)
    assert chosen("reference,-double_buffer")[1] is False
    assert chosen("reference,-stationarity") == ("output", False)


def test_folding_and_markers_that_families_open() -> None:
    def text(name: str, spec: str, **options: str) -> str:
        return str(checked(CORPUS[name], rules=spec, **options).program)

    assert "tile.cast" not in text("fold", "reference")
    assert "tile.cast" in text("fold", "reference,-cast_fold")
    assert "pipeline_double_buffer_c" in text("drained", "reference", planner="pypto")
    assert "pipeline_double_buffer_c" not in text("drained", "reference,-drained_pipeline", planner="pypto")


def test_core_families_cannot_be_taken_away() -> None:
    for spec in ("reference,-whole", "all,-whole"):
        with pytest.raises(tilesat.RuleSetError, match="'whole' cannot be taken away"):
            rules(spec)


@pytest.mark.parametrize(("spec", "near"), [("refrence", "reference"), ("all,-mat_scrath", "mat_scratch"), ("ksplit", "k_split")])
def test_unknown_names_list_the_known_and_the_nearest(spec: str, near: str) -> None:
    with pytest.raises(tilesat.RuleSetError, match=f"did you mean '{near}'") as refused:
        rules(spec)
    assert all(name in str(refused.value) for name in FAMILIES)


def test_sets_compose() -> None:
    everything = rules("all")
    assert set(everything.names) == set(FAMILIES)
    assert "mat_scratch" not in everything - {"mat_scratch"}
    assert (everything - {"mat_scratch"}) + "mat_scratch" == everything
    assert rules("reference").names == tuple(n for n in FAMILIES if n != "free_hoist")
    assert rules("k_split,mn_grid").names == ("whole", "k_split", "mn_grid")
    assert rules("none").names == CORE
    assert rules(everything) is everything
    assert rules("reference,free_hoist").policy == rules("reference").policy != everything.policy
