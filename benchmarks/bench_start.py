"""Starting up: imports, help, and the demo program from a cold start to the written file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import Result, best_of, python

DEMO = Path(__file__).resolve().parents[1] / "examples" / "chain.py"
COMMAND = "import sys; from tilesat.cli import main; sys.argv[0] = 'tilesat'; main()"


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "tiled.py")
        bare, ours, helped, egglog, tiled = best_of(
            7,
            python("-c", "pass"),
            python("-c", "import tilesat"),
            python("-c", COMMAND, "--help"),
            python("-c", "import egglog"),
            python("-c", COMMAND, "tile", str(DEMO), "-o", out),
        )
    note = f"a bare interpreter starts in {bare:.3f} s; best of 7"
    yield Result("import tilesat", ours, 0.15, "s", note)
    yield Result("tilesat --help", helped, 0.5, "s", "best of 7")
    times = f"{tiled:.2f} s against {egglog:.2f} s for import egglog; best of 7"
    yield Result("tilesat tile on the demo, cold", tiled / egglog, 3.0, "times", times)
