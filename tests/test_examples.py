"""The example programs: tiled, verified and executed, their numbers checked by numpy alone."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesat

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
Arrays = dict[str, Any]


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def rounded(x: Any) -> Any:
    """To bf16, to nearest even, as mode 'rint' does."""
    return wide(np.asarray(x, dtype=np.float32).astype(ml_dtypes.bfloat16))


def chain(i: Arrays) -> Arrays:
    return {"out": rounded(wide(i["a"]) @ wide(i["b"])) @ wide(i["e"])}


def decode_layer(i: Arrays) -> Arrays:
    x = wide(i["x"])
    return {"q": x @ wide(i["wq"]), "k": x @ wide(i["wk"]), "v": x @ wide(i["wv"]), "y": wide(i["context"]) @ wide(i["wo"])}


def attention_block(i: Arrays) -> Arrays:
    heads = []
    for h in range(4):
        q, k_t = (wide(i[n])[h * 128 : h * 128 + 128] for n in ("q", "k_t"))
        heads.append(rounded(q @ k_t) @ wide(i["v"])[h * 512 : h * 512 + 512])
    return {"out": np.concatenate(heads)}


def expert_mlp(i: Arrays) -> Arrays:
    x, gate, up, down = (wide(i[n]) for n in ("x", "w_gate", "w_up", "w_down"))
    hidden = np.maximum(x @ gate / 32, 0) * (x @ up / 32)
    quantised = np.rint(hidden.astype(np.float32).astype(np.float16).astype(np.float64))
    assert abs(quantised).max() <= 127, "the example must not saturate, or saturation would have to be checked too"
    return {"y": quantised @ down}


#: Each example with what it computes, and the forms its products take on an ascend910b.
PROGRAMS: dict[str, tuple[Callable[[Arrays], Arrays], Counter[str]]] = {
    "chain": (chain, Counter(grid_scratch=1, grid_store=1)),
    "decode_layer": (decode_layer, Counter(grid_store=2, k_loop=3)),
    "attention_block": (attention_block, Counter(grid_scratch=1, k_loop=1)),
    "expert_mlp": (expert_mlp, Counter(grid_store=3)),
}
CASES = [
    (name, target, planner) for name in PROGRAMS for target in ("ascend910b", "ascend950") for planner in ("dsa_rp", "pypto")
]


@pytest.mark.parametrize(("name", "target", "planner"), CASES)
@pytest.mark.parametrize("rules", ["reference", "all"])
def test_tiled_verified_executed(name: str, target: str, planner: str, rules: str) -> None:
    program = tilesat.load(EXAMPLES / f"{name}.py")
    tiling = tilesat.tile(program, target=target, planner=planner, rules=rules)
    assert tilesat.verify(tiling.program, target) == ()
    assert tiling.diagnostics == ()
    assert all(d.wall_cycles for d in tiling.decisions)
    inputs = tilesat.random_inputs(program, seed=3)
    got = tilesat.execute(tiling.program, **inputs)
    for output, expected in PROGRAMS[name][0](inputs).items():
        assert np.array_equal(wide(got[output]), expected), output


@pytest.mark.parametrize("name", PROGRAMS)
def test_forms_on_910b(name: str) -> None:
    tiling = tilesat.tile(tilesat.load(EXAMPLES / f"{name}.py"))
    assert Counter(d.form for d in tiling.decisions) == PROGRAMS[name][1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_untiled_program_does_not_fit(name: str) -> None:
    """Else the example would show nothing."""
    assert "capacity" in {f.code for f in tilesat.verify(tilesat.load(EXAMPLES / f"{name}.py"))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_tiling_twice_is_tiling_once(name: str) -> None:
    once = tilesat.tile(tilesat.load(EXAMPLES / f"{name}.py")).program
    assert tilesat.ir.same(tilesat.tile(once).program, once)
    assert tilesat.ir.same(tilesat.tile(tilesat.parse(str(once))).program, once)


@pytest.mark.parametrize("name", PROGRAMS)
def test_close_on_floats(name: str) -> None:
    """Panels add up in another order; a bf16 cast between products may then round one of them the other way."""
    program = tilesat.load(EXAMPLES / f"{name}.py")
    inputs = tilesat.random_inputs(program, seed=5, integer=False)
    before, after = tilesat.execute(program, **inputs), tilesat.execute(tilesat.tile(program).program, **inputs)
    for output in PROGRAMS[name][0](inputs) if name != "expert_mlp" else ("y",):
        gap = np.abs(wide(before[output]) - wide(after[output])).max()
        assert gap <= 2**-8 * np.abs(wide(before[output])).max()


def test_the_demo_shows_program_decisions_numbers_and_cycles() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / "demo.py")], capture_output=True, text=True, check=True, timeout=120)
    shown = done.stdout
    for piece in ("pl.matmul(a_mat, b_mat)", "pl.tile.assemble(", "256 × 256 × 256", "64 × 128 × 256", "predicted cycles: 7,294"):
        assert piece in shown
    (line,) = (row for row in shown.splitlines() if "whole numbers from -2 to 2" in row)
    assert [cell.strip() for cell in line.strip("│ ").split("│")][1:] == ["32,768", "0", "0"]
