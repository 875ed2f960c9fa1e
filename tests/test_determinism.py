"""The same input gives the same bytes: under any hash seed, in worker processes, and after other work in the same process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import tilesat

DATA = Path(__file__).parent / "data" / "tiled_programs.jsonl"
NAMES = (
    "chain-rint-256x256x192x64-910b",
    "bias-96x768x256-fp16-950",
    "splitk-branch-272x144x384x2-int8-950",
    "store-272x416x32-bf16-910b",
)
ROWS = [r for r in map(json.loads, DATA.read_text().splitlines()) if r["name"] in NAMES and r["planner"] == "dsa_rp"]

SCRIPT = """
import sys
sys.path.insert(0, {here!r})
from test_determinism import ROWS, digest
for row in ROWS:
    print(digest(row))
"""


def everything(row: dict[str, str]) -> str:
    """The program, decisions, hints and rule counts of one run, as text."""
    result = tilesat.tile(tilesat.parse(row["input"]), target=row["target"], planner=row["planner"])
    counts = [(r.name, r.matches) for r in result.report.rules]
    name = result.decisions[0].name
    return "\n".join(map(str, (result.program, result.decisions, result.diagnostics, counts, result.explain(name))))


def digest(row: dict[str, str]) -> str:
    return hashlib.sha256(everything(row).encode()).hexdigest()


def in_a_process(seed: str) -> list[str]:
    script = SCRIPT.format(here=str(Path(__file__).parent))
    run = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
    )
    return run.stdout.split()


def test_every_row_is_there() -> None:
    assert len(ROWS) == len(NAMES)


def test_same_bytes_under_every_hash_seed() -> None:
    expected = [digest(r) for r in ROWS]
    assert in_a_process("0") == expected
    assert in_a_process("4711") == expected


def test_same_bytes_in_a_pool_of_processes() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(digest, ROWS)) == [digest(r) for r in ROWS]


FORKED = """
import faulthandler, sys
faulthandler.dump_traceback_later(60, exit=True)
sys.path.insert(0, {here!r})
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from test_determinism import ROWS, digest
print(*map(digest, ROWS))
with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
    print(*pool.map(digest, ROWS * 3))
print(*map(digest, ROWS))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_same_bytes_in_forked_processes_after_their_parent_has_tiled() -> None:
    """A forked child has none of its parent's native threads, which egglog waits for when it drops an e-graph."""
    script = FORKED.format(here=str(Path(__file__).parent))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    before, pooled, after = (line.split() for line in run.stdout.splitlines())
    assert before == after
    assert pooled == before * 3


def test_same_bytes_in_threads() -> None:
    expected = [digest(r) for r in ROWS]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(digest, ROWS * 2)) == expected * 2
    assert [digest(r) for r in ROWS] == expected


def test_same_bytes_after_other_programs_targets_and_rule_sets() -> None:
    before = [everything(r) for r in ROWS]
    for row in ROWS:
        for rules in ("all", "reference,-mn_grid", "none"):
            tilesat.tile(tilesat.parse(row["input"]), target="ascend950", rules=rules)
    tilesat.choose_tile(M=512, N=512, K=512, dtype="fp32", target="ascend950", rules="all")
    assert [everything(r) for r in ROWS] == before
