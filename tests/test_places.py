"""Models and rules of the user's own, named by where they are written: in every command and in Python alike."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilesat
from cost.places import is_place, load_object

ROOT = Path(__file__).resolve().parents[1]
CHAIN = ROOT / "examples" / "chain.py"
MODEL = f"{ROOT / 'examples' / 'user_cost_model.py'}:PipelineFill"
RULES = f"all,-mn_grid,{ROOT / 'examples' / 'user_rule.py'}:POWERS_OF_TWO"


def cli(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tilesat.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)


def test_tile_chooses_by_the_users_model_and_rules() -> None:
    done = cli("tile", CHAIN, "--cost-model", MODEL, "--rules", RULES, "--json")
    assert done.returncode == 0, done.stderr
    from examples.user_cost_model import PipelineFill
    from examples.user_rule import POWERS_OF_TWO

    wanted = tilesat.tile(
        tilesat.load(CHAIN), cost_model=PipelineFill(), rules=tilesat.rules("all") - {"mn_grid"} + POWERS_OF_TWO
    )
    told = json.loads(done.stdout)
    assert [(d["m"], d["n"], d["k"]) for d in told["decisions"]] == [(d.m, d.n, d.k) for d in wanted.decisions]
    assert told["cycles"] == wanted.cycles
    assert "tile_rows_of_powers" in {r["name"] for r in told["report"]["rules"]}


def test_every_other_command_takes_them(tmp_path: Path) -> None:
    explained = cli("explain", CHAIN, "c", "--cost-model", MODEL, "--rules", RULES)
    assert "legal schedules by pipeline-fill" in explained.stdout, explained.stderr
    assert "grid_of_windows_of_powers" in explained.stdout
    refused = cli("explain", CHAIN, "c", "--rules", RULES, "--why-not", "powers_of_two")
    assert "tile_rows_of_powers at c: fired" in refused.stdout, refused.stderr
    assert "powers_of_two" in cli("rules", "--rules", RULES).stdout
    assert "grid_of_windows_of_powers" in cli("rules", "--rules", RULES, "--profile", CHAIN).stdout
    chosen = cli("choose", 480, 480, 64, "--cost-model", MODEL, "--rules", RULES, "--json")
    tile = json.loads(chosen.stdout)
    assert tile["m"].bit_count() == tile["n"].bit_count() == 1
    thin = tmp_path / "thin.py"
    thin.write_text("def walls(candidates, problem, target):\n    return candidates.m * 1.0\n")
    bare = cli("explain", CHAIN, "c", "--cost-model", f"{thin}:walls").stdout.splitlines()
    assert bare[3].split()[-6:] == ["-", "-", "-", "-", "16.0", "#3"]  # no term is made up
    assert "cycles\n" in cli("choose", 96, 96, 64, "--cost-model", f"{thin}:walls").stdout
    egraph = cli("egraph", CHAIN, "--format", "dot", "--cost-model", MODEL, "--rules", RULES)
    assert egraph.returncode == 0, egraph.stderr
    assert egraph.stdout.startswith("digraph")


def test_places_in_files_beside_the_caller_and_in_modules(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def thin(candidates, problem, target):\n    return candidates.m * 1.0\n")
    done = cli("tile", CHAIN, "--cost-model", "mine.py:thin", "--rules", "all", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {d["m"] for d in json.loads(done.stdout)["decisions"]} == {16}
    assert tilesat.cost_model("cost.models.roofline:MODEL").name == "roofline"
    assert "k_split" in tilesat.rules("none,egraph_rules.families.k_split:K_SPLIT")
    assert tilesat.rules(load_object("egraph_rules.families.k_split:K_SPLIT")).names == ("whole", "k_split")


def test_what_a_place_is() -> None:
    assert is_place("a.py:B")
    assert is_place("a.b:C")
    assert not is_place("roofline")
    assert not is_place("random:7")
    assert not is_place(7)


BROKEN = """
import sys
def price(candidates, problem, target):
    return candidates.m
NUMBER = 3
"""


@pytest.mark.parametrize(
    ("option", "place", "words"),
    [
        ("--cost-model", "nowhere.py:X", "nowhere.py:X: there is no file nowhere.py"),
        ("--cost-model", "no.such.module:X", "importing no.such.module failed: ModuleNotFoundError"),
        ("--cost-model", "mine.py:prize", "mine.py defines no 'prize'. Did you mean 'price'?"),
        ("--cost-model", "mine.py:", "'mine.py:' names no object; write file.py:NAME or module:NAME"),
        ("--cost-model", "mine.py:NUMBER", "mine.py:NUMBER is int: it needs a name and price"),
        ("--cost-model", "text.py:X", "importing text.py failed: SyntaxError"),
        ("--cost-model", "leaves.py:X", "importing leaves.py failed: SystemExit: 3"),
        ("--rules", "all,mine.py:NUMBER", "mine.py:NUMBER is int, no rule family (a function under @family)"),
        ("--rules", "all,nowhere.py:X", "nowhere.py:X: there is no file nowhere.py"),
        ("--rules", "all,.:X", "importing . failed"),
    ],
)
def test_places_where_nothing_is(tmp_path: Path, option: str, place: str, words: str) -> None:
    (tmp_path / "mine.py").write_text(BROKEN)
    (tmp_path / "text.py").write_text("no python\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n")
    done = cli("tile", CHAIN, option, place, "-o", tmp_path / "out.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.py").exists()


def test_a_family_needs_a_name_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from egraph_rules.families.k_split import K_SPLIT\nfrom egraph_rules.rule import family\n\n\n"
        '@family("k_split")\ndef MINE():\n    """mine."""\n    yield from K_SPLIT.rules\n'
    )
    with pytest.raises(tilesat.RuleSetError, match=re.escape("called 'k_split', as a built-in one is")):
        tilesat.rules(f"all,{file}:MINE")


def test_a_users_family_is_taken_away_by_name() -> None:
    mine = tilesat.rules(RULES)
    assert "powers_of_two" in mine
    assert (mine - "powers_of_two").names == tilesat.rules("all,-mn_grid").names
    assert "powers_of_two" not in tilesat.rules(f"{RULES},-powers_of_two")


PAIRS = """
from dataclasses import replace

from egraph_rules.batch.merge_batch import MERGE_BATCH, b
from egraph_rules.expr import predicate
from egraph_rules.rule import family


@predicate
def pair(b):
    \"\"\"{b} batches are a pair\"\"\"
    return b.equals(2)


@family("merge_pairs")
def PAIRS():
    \"\"\"two batches at a time, no more.\"\"\"
    for r in MERGE_BATCH.rules:
        yield replace(r, name=f"{r.name}_of_pairs", when=(*r.when, *([pair(b)] if r.name == "merged_sizes" else [])))
"""


def test_batch_plans_with_the_users_branch(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PAIRS)
    problem = {"B": 2048, "M": 16, "N": 16, "K": 512, "dtype": "bf16"}
    ours = tilesat.plan_batch(**problem, branch="merge_batch")
    assert ours.params["b"] > 2
    rules = f"all,-merge_batch,{tmp_path / 'mine.py'}:PAIRS"
    mine = tilesat.plan_batch(**problem, branch="merge_batch", rules=rules)
    assert mine.params["b"] == 2
    assert {"merged_sizes_of_pairs", "enter_iter_batch"} <= {r.name for r in mine.report.rules if r.matches}
    assert tilesat.verify(mine.program, mine.chip.target) == ()
    gone = tilesat.plan_batch(**problem, rules=f"{rules},-merge_pairs")
    assert gone.refused["merge_batch"] == ("the rule family merge_batch is switched off",)
    told = cli("batch", 2048, 16, 16, 512, "--rules", "mine.py:PAIRS", "--json", cwd=tmp_path)
    assert json.loads(told.stdout)["branch"] == "merge_batch", told.stderr
    assert json.loads(told.stdout)["params"]["b"] == 2


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("mine.py:NUMBER", "mine.py:NUMBER is int, no rule family (a function under @family)"),
        ("nowhere.py:X", "nowhere.py:X: there is no file nowhere.py"),
        (f"{ROOT / 'examples' / 'user_rule.py'}:POWERS_OF_TWO", "which the language does not have"),
        ("mine.py:STREAM", "a family of yours is called 'stream_k', as a built-in one is; give it a name of its own"),
        ("all,-mine.py:NUMBER", "unknown branch family"),
        ("-all", "'all' is every family; take families away, by name: to_matmul"),
    ],
)
def test_places_that_hold_no_branch(tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "mine.py").write_text(
        "from egraph_rules.rule import family\n\nNUMBER = 3\n\n\n"
        '@family("stream_k")\ndef STREAM():\n    """mine."""\n    yield from ()\n'
    )
    done = cli("batch", 64, 16, 16, 256, "--rules", place, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
