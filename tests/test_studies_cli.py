"""``tilesat study`` and ``tilesat egraph`` from the command line: exit codes, output, interrupts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHAIN = ROOT / "examples" / "chain.py"
TILESAT = [sys.executable, "-c", "from tilesat.cli import main; main()"]


def cli(*arguments, cwd=None):
    return subprocess.run([*TILESAT, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "shapes.csv"
    path.write_text("M,N,K\n64,64,64\n32,128,64\n")
    return path


def test_cost_models(table, tmp_path):
    out = tmp_path / "out"
    asked = ("study", "cost-models", "--corpus", table, "--model", "roofline", "--model", "padded", "-o", out, "--workers", 1)
    done = cli(*asked)
    assert done.returncode == 0, done.stderr
    assert "roofline" in done.stdout
    assert "against device times" in done.stdout
    assert f"results are in {out}" in done.stderr
    assert (out / "report.html").exists()
    again = cli(*asked, "--json")
    assert "2 of 2 items are done already" in again.stderr
    data = json.loads(again.stdout)
    assert data["schema"] == "tilesat.cost_models/1"
    assert {s["model"] for s in data["summary"]} == {"roofline", "padded"}


def test_ablation(table, tmp_path):
    sets = ("--set", "reference", "--set", f"all,-mn_grid,{ROOT / 'examples' / 'user_rule.py'}:POWERS_OF_TWO")
    done = cli("study", "ablation", "--corpus", table, *sets, "--workers", 0, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "POWERS_OF_TWO" in done.stdout
    assert "Never fired" in done.stdout
    data = json.loads(cli("study", "ablation", "--corpus", table, "--design", "one-in", "--workers", 0, "--json").stdout)
    assert data["schema"] == "tilesat.ablation/1"
    assert data["effects"][0]["name"] == "+loads"


def test_batch(tmp_path):
    done = cli("study", "batch", "--suite", "smoke", "-o", tmp_path / "out", "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "problems (smoke) on ascend950pr, reading analysis" in done.stdout
    bad = cli("study", "batch", "--suite", "smoky")
    assert bad.returncode == 2
    assert "Did you mean 'smoke'" in bad.stderr


def test_all_in_one_command(table, tmp_path):
    done = cli("study", "all", "--corpus", table, "-o", tmp_path / "results", "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "cost-models" / "report.md").exists()
    assert (tmp_path / "results" / "ablation" / "report.md").exists()


def test_rows_that_fail_are_told_and_the_rest_runs(table):
    table.write_text(table.read_text() + "64,64,banana\n")
    done = cli("study", "cost-models", "--corpus", table, "--model", "roofline", "--workers", 0)
    assert done.returncode == 1
    assert "failed: entry shapes.csv line 4: CorpusError: " in done.stderr
    assert "2 products" in done.stdout


MODELS = """
def broken(candidates, problem, target):
    return [1 // 0]


def on_squares(candidates, problem, target):
    if problem.M != problem.N:
        raise ValueError("no square")
    return candidates.m
"""


def test_a_model_that_prices_nothing_is_an_error(table, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(MODELS)
    asked = ("study", "cost-models", "--corpus", table, "--workers", 0)
    for others in ((), ("--model", "roofline")):
        done = cli(*asked, *others, "--model", f"{mine}:broken", "--json")
        assert done.returncode == 1
        block = done.stderr[done.stderr.index("error: ") :]
        assert block.startswith("error: cost model 'broken' priced no product; first it failed so:\n")
        assert "on 64x64x64 bf16: raised ZeroDivisionError" in block
        assert "candidate 0: 16x16x16" in block
        assert "Traceback" not in block
        assert json.loads(done.stdout)["summary"] or not others
    done = cli(*asked, "--model", f"{mine}:on_squares", "--json")  # it prices one of two
    assert "priced no product" not in done.stderr
    done = cli(*asked, "--model", "roofline", "--model", f"{mine}:on_squares", "--json")
    assert done.returncode == 0
    assert list(json.loads(done.stdout)["failures"]["on_squares"]) == ["32x128x64-bf16"]


def test_a_model_that_nobody_asked_for_may_not_know_the_target(table):
    asked = ("study", "cost-models", "--corpus", table, "--workers", 0, "--target", "950", "--sample", 20, "--json")
    done = cli(*asked)
    assert done.returncode == 0
    assert "roofline-v1 failed" in done.stderr
    assert cli(*asked, "--model", "roofline", "--model", "roofline-v1").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cost-models", "--model", "roofine"), "Did you mean 'roofline'?"),
        (("cost-models", "--corpus", "smok"), "Did you mean 'smoke'?"),
        (("cost-models", "--executor", "here"), "give dask://HOST:PORT"),
        (("ablation", "--base", "al"), "did you mean 'all'"),
        (("ablation", "--design", "pair"), "Did you mean 'pairs'?"),
        (("cost-models", "-o", "/proc/x"), "cannot keep results here"),
    ],
)
def test_bad_input(arguments, message):
    done = cli("study", *arguments, *(() if "--corpus" in arguments else ("--corpus", "smoke")))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_study_says_what_is_kept(tmp_path):
    out = tmp_path / "out"
    command = [*TILESAT, "study", "ablation", "--corpus", "standard", "--workers", "1", "-o", str(out)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (out / "results.jsonl").exists() or not (out / "results.jsonl").read_bytes().count(b"\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C in a terminal does, to the workers too
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"interrupted; what is done is kept in {out}, and the same command goes on from there" in stderr
    assert (out / "results.jsonl").read_bytes().endswith(b"\n")


def test_kill_9_in_the_middle_and_the_same_table(tmp_path):
    """A real study with two workers is killed; what goes on gives the same bytes as one that ran through with one."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    asked = ("study", "ablation", "--corpus", "smoke", "--set", "reference", "--set", "all,-mn_grid", "--set", "all,-k_split")
    assert cli(*asked, "-o", whole, "--workers", 1).returncode == 0
    running = subprocess.Popen([*TILESAT, *asked, "-o", str(cut), "--workers", "2"], stdout=subprocess.DEVNULL)
    kept, deadline = cut / "results.jsonl", time.monotonic() + 60
    while not kept.exists() or kept.read_bytes().count(b"\n") < 10:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    running.kill()
    running.wait()
    done = kept.read_bytes().count(b"\n")
    assert done < len((whole / "results.jsonl").read_bytes().splitlines())
    again = cli(*asked, "-o", cut, "--workers", 2)
    assert again.returncode == 0, again.stderr
    assert f"{done} of 60 items are done already" in again.stderr
    for name in ("effects.csv", "programs.csv", "matches.csv", "rules.csv", "report.md"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes(), name


def test_the_findings_page_is_whole():
    """Every table of docs/findings.md is filled in, and `make findings` knows each (a missing mark stops it)."""
    page = (ROOT / "docs" / "findings.md").read_text()
    found = re.findall(r"<!-- table: ([^>]+) -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert len(found) == page.count("<!-- table:") == 10
    made = (ROOT / "benchmarks" / "findings.py").read_text()
    for mark, table in found:
        assert table.count("\n|") >= 4, mark
        assert f'found["{mark}"]' in made or f'found[f"{mark.split()[0]} {{target}}"]' in made


# -- egraph --------------------------------------------------------------------------------------------------------------


def test_egraph_formats(tmp_path):
    data = json.loads(cli("egraph", CHAIN, "--format", "json").stdout)
    assert data["root_eclasses"]
    assert len(data["nodes"]) > 1000
    assert cli("egraph", CHAIN, "--format", "dot").stdout.startswith("digraph egraph {")
    done = cli("egraph", CHAIN, "-o", tmp_path / "egraph.svg")
    assert (done.returncode, done.stdout) == (0, "")
    assert ET.parse(tmp_path / "egraph.svg").getroot().tag.endswith("svg")
    bad = cli("egraph", CHAIN, "--format", "pdf")
    assert bad.returncode == 2
    assert "known: json, dot, svg" in bad.stderr
