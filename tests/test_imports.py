"""What is loaded when: importing tilesat, asking for help, parsing; and what takes how long is in ``benchmarks/``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHAIN = Path(__file__).resolve().parents[1] / "examples" / "chain.py"
HEAVY = ("numpy", "scipy", "networkx", "egglog", "ml_dtypes", "matplotlib", "dask", "typer", "rich", "click")
MAIN = """
import sys
from tilesat.cli import main
sys.argv = ["tilesat", {arguments}]
try:
    main()
except SystemExit:
    pass
"""


def loaded(script: str) -> set[str]:
    """The top-level modules and packages that a fresh interpreter has loaded after ``script``."""
    tail = "\nimport json, sys\nprint('\\n' + json.dumps(sorted(m for m in sys.modules if '.' not in m)))"
    done = subprocess.run([sys.executable, "-c", script + tail], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


def of(names: set[str]) -> list[str]:
    return [n for n in HEAVY if n in names]


@pytest.mark.parametrize(
    "script",
    [
        "import tilesat",
        "import tilesat; dir(tilesat); tilesat.ir.Program",
        "import tilesat; tilesat.parse; tilesat.targets(); tilesat.TilesatError",
    ],
)
def test_tilesat_loads_nothing_heavy(script: str) -> None:
    assert of(loaded(script)) == []


def test_parsing_and_printing_load_nothing_heavy() -> None:
    script = (
        "import tilesat\np = tilesat.parse('''import pypto.language as pl\n@pl.program\nclass P:\n"
        "    @pl.function(type=pl.FunctionType.InCore)\n"
        "    def kernel(self, a: pl.Tensor[[16, 16], pl.FP32]):\n        return a\n''')\nstr(p)"
    )
    assert of(loaded(script)) == []


@pytest.mark.parametrize("arguments", ["'--help'", "'tile', '--help'", "'--version'"])
def test_help_loads_no_engine(arguments: str) -> None:
    found = loaded(MAIN.format(arguments=arguments))
    assert "typer" in found
    assert not found & {"egglog", "numpy", "scipy", "networkx", "ml_dtypes", "egraph_rules", "extraction"}


def test_tiling_from_the_command_line_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """On the way from a file to a tiled file: numpy and the engine's native module, but none of the packages around."""
    found = loaded(MAIN.format(arguments=f"'tile', {str(CHAIN)!r}, '-o', {str(tmp_path / 'tiled.py')!r}"))
    assert (tmp_path / "tiled.py").exists()
    assert "numpy" in found
    assert not found & {"scipy", "networkx", "ml_dtypes", "rich", "egglog"}


def test_egglog_can_be_imported_afterwards() -> None:
    """The engine loads egglog's native module by itself; whoever wants the whole package still gets it."""
    script = (
        "import egraph_rules.engine as e\nfrom egglog import EGraph, i64\nimport egglog.bindings as b\n"
        "assert b.EGraph is e.bindings.EGraph\nassert str(EGraph().extract(i64(3) + 4)) == 'i64(7)'\n"
    )
    loaded(script)
