"""The ablation of rule sets: its rows found again by tiling, effects and interactions by hand, designs, users' rules, reports."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from pathlib import Path

import pytest
from test_studies_models import read_page

import tilesat
from cost.places import load_object
from cost.problem import Problem
from egraph_rules.catalogue import CORE, FAMILIES
from tilesat import corpus
from tilesat.corpus import Entry, programs
from tilesat.studies import StudyError, ablate
from tilesat.studies.effects import Ablation
from tilesat.studies.rule_sets import variants

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
POWERS = f"{EXAMPLES / 'user_rule.py'}:POWERS_OF_TWO"


def entry(name, program):
    return Entry(name, "test", str(program))


ENTRIES = (
    entry("plain", programs.plain(256, 256, 64, "bf16")),
    entry("chain", programs.chain(64, 256, 128, 64, "bf16")),
    entry("small", programs.plain(32, 32, 32, "bf16")),
)


@pytest.fixture(scope="module")
def one_out():
    return ablate(ENTRIES, workers=0)


# -- rows ----------------------------------------------------------------------------------------------------------------


def test_rows_are_what_tiling_gives(one_out):
    for v in one_out.study.sets[:4]:
        for e in ENTRIES:
            row = one_out.results(v)[e.name]
            result = tilesat.tile(e.program(), "910B", rules=v.rule_set())
            over = [f for f in tilesat.verify(result.program, "910B") if f.code == "capacity"]
            assert (row["status"] == "legal") == (not over), (v.name, e.name)
            assert row["nodes"] == result.report.nodes
            assert row["classes"] == result.report.classes > 0
            assert row["iterations"] == result.report.iterations > 0
            assert row["matches"] == {r.name: r.matches for r in result.report.rules}
            assert row["stop"] == "saturated"
            if not over:
                assert row["simulated"] == tilesat.simulate(result.program, "910B", residency="mat").cycles
                assert row["predicted"] == result.cycles


def test_a_set_without_a_plan_is_a_result(one_out):
    """256 x 256 fp32 accumulators are twice L0C: without a grid, or without a place for it, nothing is left."""
    found = {e.name: e.lost for e in one_out.effects}
    assert "plain" in found["all,-mn_grid"]
    assert "plain" in found["all,-direct_store"]
    (without,) = (v for v in one_out.study.sets if v.name == "all,-direct_store")
    row = one_out.results(without)["plain"]
    assert row["status"] == "no legal plan"
    assert row["simulated"] is row["predicted"] is None
    assert any("PH-AT-006" in why for why in row["why"])
    assert "l0c overflows" in row["why"]
    assert "Programs without a legal plan" in str(one_out)


def test_effects_by_hand(one_out):
    for e, v in zip(one_out.effects, one_out.study.sets[1:], strict=True):
        base, mine = one_out.results(one_out.base), one_out.results(v)
        logs = {
            n: math.log(mine[n]["simulated"] / base[n]["simulated"])
            for n in base
            if base[n]["simulated"] is not None and mine[n]["simulated"] is not None
        }
        assert e.programs == len(logs)
        assert e.changed == sum(abs(x) > 1e-9 for x in logs.values())
        assert e.mean == pytest.approx(statistics.fmean(logs.values()))
        assert e.median == pytest.approx(statistics.median(logs.values()))
        assert e.most == max(logs.values())
        assert e.nodes == pytest.approx(statistics.fmean(mine[n]["nodes"] / base[n]["nodes"] for n in base))
        if len(logs) > 1:
            assert e.error == pytest.approx(statistics.stdev(logs.values()) / math.sqrt(len(logs)))
    assert any(e.changed for e in one_out.effects)


def test_taking_away_never_predicts_a_better_plan(one_out):
    """The cheapest of fewer plans is no cheaper: predicted cycles only grow where the plan was the cheapest by that figure."""
    for v in one_out.study.sets[1:]:
        for name, x in one_out.logs(v, "predicted").items():
            if name != "chain":  # a chain's predicted cycles leave out moves, which count in its choice
                assert x >= -1e-9, (v.name, name)


def test_rules_that_never_fired_are_named(one_out):
    fired = {name for r in one_out.rows for name, n in r["result"]["matches"].items() if n}
    every = {r.name for f in FAMILIES.values() for r in f.rules}
    assert set(one_out.never_fired) == every - fired
    assert "scratch_under_pypto" in one_out.never_fired  # planner dsa_rp
    assert "scratch_under_pypto" in str(one_out)
    k_split = next(r for r in one_out.rules if r["rule"] == "k_split")
    assert k_split["matches"] == sum(r["matches"]["k_split"] for r in one_out.results(one_out.base).values()) > 0
    assert k_split["programs"] == 3


# -- designs -------------------------------------------------------------------------------------------------------------


def test_designs():
    optional = [f for f in FAMILIES if f not in CORE]
    one_out, one_in, pairs = (variants("all", d) for d in ("one-out", "one-in", "pairs"))
    assert [v.changed for v in one_out] == [(), *((f,) for f in optional)]
    assert all(set(v.rule_set().names) == set(FAMILIES) - set(v.changed) for v in one_out)
    assert [v.rule_set().names for v in one_in[:2]] == [CORE, (*CORE, optional[0])]
    assert {v.rule_set().policy for v in (*one_out, *one_in)} == {"cheapest"}
    assert len(pairs) == 1 + len(optional) + len(optional) * (len(optional) - 1) // 2
    few = variants("reference", ["reference,-k_split", "all", ["mn_grid", "loads"]])
    assert [v.name for v in few] == ["reference", "reference,-k_split", "all", "set 3"]
    assert few[1].changed == ("k_split",)
    with pytest.raises(StudyError, match=r"Did you mean 'one-out'\? Known: one-out, one-in, pairs, or a list"):
        variants("all", "one-ou")
    with pytest.raises(tilesat.RuleSetError, match="did you mean 'k_split'"):
        variants("all", ["all,-k_spit"])


def test_pairs_and_interactions_by_hand():
    base = "whole,loads,mn_grid,k_split,stationarity,direct_store"
    found = ablate(ENTRIES, base, "pairs", workers=0)
    sims = {v.changed: {n: r["simulated"] for n, r in found.results(v).items()} for v in found.study.sets}
    assert len(found.interactions) == 10
    for i in found.interactions:
        a, b, both, base_ = sims[i.a,], sims[i.b,], sims[i.a, i.b], sims[()]
        logs = [math.log(both[n] * base_[n] / (a[n] * b[n])) for n in base_ if None not in (a[n], b[n], both[n], base_[n])]
        assert i.programs == len(logs)
        assert i.mean == (pytest.approx(statistics.fmean(logs), abs=1e-12) if logs else None)
        lost = {n for n in base_ if a[n] is not None and b[n] is not None and both[n] is None}
        assert set(i.lost) == lost
    # either K panels or a held operand makes the plan of `chain`'s products; without both little is left
    assert any(i.lost or abs(i.most or 0) > 1e-6 for i in found.interactions)
    assert "interactions.csv" in found.files()


def test_one_in():
    found = ablate(ENTRIES[2:], design="one-in", workers=0)
    assert found.base.name == "none"
    assert all(e.programs == 1 for e in found.effects)


def test_a_users_family(tmp_path):
    spec = f"all,-mn_grid,{POWERS}"
    found = ablate(ENTRIES, design=[spec], workers=1)
    (effect,) = found.effects
    assert effect.programs == 3
    assert effect.lost == ()
    assert effect.nodes < 0.9  # fewer windows
    fired = {r["rule"]: r["all_sets"] for r in found.rules if r["family"] == "powers_of_two"}
    assert fired["tile_rows_of_powers"] > 0
    assert fired["grid_of_windows_of_powers"] > 0
    for d in tilesat.tile(ENTRIES[0].program(), rules=tilesat.rules(spec)).decisions:
        assert d.m.bit_count() == 1
        assert d.n.bit_count() == 1
    family = load_object(POWERS)
    object_given = ablate(ENTRIES, design=[tilesat.rules(["all", "-mn_grid", family])], workers=0)
    assert object_given.effects[0].nodes == effect.nodes
    with pytest.raises(tilesat.RuleSetError, match="is int, no rule family"):
        tilesat.rules(f"all,{EXAMPLES / 'user_rule.py'}:LARGEST")


# -- trouble -------------------------------------------------------------------------------------------------------------


def test_a_program_that_cannot_be_read_is_a_row_and_only_one():
    bad, worse = Entry("bad", "test", "class nonsense("), Entry("a | b", "test", error="it is no UTF-8 text")
    found = ablate([ENTRIES[2], bad, worse], design=["reference", "none"], workers=0)
    assert list(found.errors) == ["entry bad", "entry a | b"]
    assert found.errors["entry bad"].startswith("ParseError: bad:1:")
    assert found.errors["entry a | b"] == "CorpusError: a | b: it is no UTF-8 text"
    assert str(found).count("ParseError") == 1
    assert [e.programs for e in found.effects] == [1, 1]
    rows = list(csv.DictReader(io.StringIO(found.files()["programs.csv"])))
    assert [(r["set"], r["program"]) for r in rows if r["error"]] == [("", "bad"), ("", "a | b")]
    assert [r["set"] for r in rows if r["program"] == "small"] == ["all", "reference", "none"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"planner": "dsa"}, "unknown planner 'dsa'. Did you mean 'dsa_rp'?"),
        ({"extractor": "dog"}, "Did you mean 'dag'?"),
        ({"residency": "l1"}, "unknown residency 'l1'"),
        ({"cost_model": "roofin"}, "Did you mean 'roofline'?"),
    ],
)
def test_names_that_mean_nothing(given, message):
    with pytest.raises(tilesat.TilesatError, match=re.escape(message)):
        ablate(ENTRIES[2:], workers=0, **given)


def test_limits_that_end_a_run_are_told():
    found = ablate(ENTRIES[:1], design=["reference"], limits=tilesat.Limits(nodes=300), workers=0)
    assert found.results(found.base)["plain"]["stop"] == "node limit"
    assert "Runs that a limit ended" in str(found)


def test_a_defect_is_told_apart():
    rows = [dict(r) for r in ablate(ENTRIES[2:], design=["reference"], workers=0).rows]
    study = ablate(ENTRIES[2:], design=["reference"], workers=0).study
    rows[1] = {**rows[1], "result": {**rows[1]["result"], "status": "unsound", "simulated": None}}
    assert Ablation(study, tuple(rows)).unsound == ("reference | small",)


# -- files ---------------------------------------------------------------------------------------------------------------

SAME = ("effects.csv", "programs.csv", "matches.csv", "rules.csv", "report.md")


def test_files(tmp_path):
    one = ablate(ENTRIES, out=tmp_path / "one", workers=0)
    ablate(ENTRIES, out=tmp_path / "two", workers=2)
    for name in SAME:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    effects = {r["name"]: r for r in csv.DictReader(io.StringIO((tmp_path / "one" / "effects.csv").read_text()))}
    for e in one.effects:
        assert effects[e.name]["mean"] == ("" if e.mean is None else format(e.mean, ".10g"))
        assert effects[e.name]["lost"] == ", ".join(e.lost)
    page, text = read_page(tmp_path / "one" / "report.html")
    assert page.open == []
    assert all(link.startswith("#") for link in page.links)
    assert page.pictures == 4  # effects, nodes against cycles, the worst case twice
    assert len(page.ids) == len(set(page.ids))
    assert max((e for e in one.effects if e.most_program), key=lambda e: e.most).most_program in text


def test_a_killed_study_goes_on_to_the_same_table(tmp_path):
    ablate(ENTRIES, out=tmp_path / "whole", workers=0)
    ablate(ENTRIES, out=tmp_path / "cut", workers=0)
    kept = (tmp_path / "cut" / "results.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut" / "results.jsonl").write_bytes(b"".join(kept[:20]) + kept[20][:100])  # killed in the middle of a line
    for name in SAME:
        (tmp_path / "cut" / name).unlink()
    ablate(ENTRIES, out=tmp_path / "cut", workers=2)
    for name in SAME:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_every_kind_of_the_standard_suite_is_tiled_soundly():
    """One of each kind, under everything and under the documented pass: nothing new for the verifier."""
    found, kinds = [], set()
    for e in corpus.suite("standard"):
        if (kind := e.name.partition("-")[0]) not in kinds:
            kinds.add(kind)
            found.append(e)
    assert len(found) >= 10
    result = ablate(found, design=["reference"], workers=0)
    assert result.errors == {}
    assert result.unsound == ()


def test_shapes_are_programs_too():
    found = ablate([Problem.of(64, 64, 64)], design=["reference"], workers=0)
    assert found.results(found.base)["problem-64x64x64-bf16"]["products"] == 1
