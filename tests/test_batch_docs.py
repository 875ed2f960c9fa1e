"""docs/batch.md: the table of readings is what the planner says, and the map is what its picture was made of."""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys
from pathlib import Path

from tilesat.batch import plan_batch
from tilesat.batch_map import arbitration, draw

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| (\d+) \| (.*)\|$", re.MULTILINE)


def test_the_table_of_readings() -> None:
    counted: collections.Counter[tuple[str, str]] = collections.Counter()
    for line in (ROOT / "tests" / "data" / "batch_branches.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        operator = row.pop("branch")
        counted[operator, plan_batch(**{"deterministic": False, **row}).branch] += 1
    table = PAGE.partition("<!-- readings")[2].partition("<!-- end -->")[0]
    written = {(operator, analysis): int(n) for operator, analysis, n, _ in ROW.findall(table)}
    assert written == counted
    for operator, analysis, _, why in ROW.findall(table):
        assert bool(why.strip()) == (operator != analysis)


def test_the_map_s_claims(tmp_path: Path) -> None:
    points = arbitration(extents=(8, 40, 96), depths=(128, 512))
    gains = {(p.K, p.M, p.N): p.gain for p in points}
    assert gains[128, 8, 8] is None  # 8·128·2 bytes are below the floor of a transfer
    assert gains[128, 96, 96] is None  # 192·192·8 bytes are beyond L0C
    assert gains[128, 8, 96] is not None
    assert gains[128, 8, 96] > 1.1
    shallow, deep = gains[128, 8, 96], gains[512, 8, 96]
    assert deep is not None
    assert shallow > deep > 1
    draw(points, tmp_path / "map.svg")
    draw(points, tmp_path / "again.svg")
    assert (tmp_path / "map.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_the_example_runs() -> None:
    example = ROOT / "examples" / "batch_plan.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=True, timeout=120)
    assert "equal to numpy, bit for bit" in done.stdout
    assert done.stdout.count("L0 tile") == 5
