"""What must hold of every tiled program: legality, meaning, stability, and what is not the tiler's to touch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.interpreter_inputs import random_inputs
from ir_bridge.ir.nodes import Loc, Program, walk
from ir_bridge.ir.parser import parse
from ir_bridge.ir.verifier import Finding, verify
from tilesat.result import Tiling
from tilesat.tiling import tile

DATA = Path(__file__).parent / "data"
TARGETS = ("ascend910b", "ascend950")
PLANNERS = ("pypto", "dsa_rp", "ptoas")
L0 = ("l0a", "l0b", "l0c")


def same_program() -> Callable[[str, str], tuple[bool, str]]:
    """The golden data's own comparer of data flow."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("same_program", DATA / "same_program.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    same: Callable[[str, str], tuple[bool, str]] = module.same
    return same


def where_kept(before: Program, after: Program) -> set[Loc]:
    """The places of statements that are in both programs, as the same objects."""
    old = {id(s) for f in before.functions for s in walk(f.body)}
    return {s.loc for f in after.functions for s in walk(f.body) if id(s) in old}


def new_findings(before: Program, result: Tiling, target: str) -> list[Finding]:
    """Findings that the tiled program has and its source has not, and L0 overflows at anything but what stands as it stood.

    A product that is left stands where it stood, its operands renamed perhaps; a window of a chain whose call is left whole with
    a hint (the documented pass would cut it again; a limit ended the run) stands as it stood, narrowed.
    """
    had = {f.key for f in verify(before, target)}
    kept = where_kept(before, result.program)
    left = [d.where for d in result.diagnostics if "window of the chain" in d.message]
    left += [d.where for d in result.decisions if d.form == "as_it_stands"]

    def excused(f: Finding) -> bool:
        return f.loc in kept or any(where.endswith(str(f.loc)) for where in left)

    has = verify(result.program, target)
    overflows = [f for f in has if f.code == "capacity" and f.subject in L0 and not excused(f)]
    return [*(f for f in has if f.key not in had), *overflows]


def check_legal(before: Program, result: Tiling, target: str) -> None:
    found = new_findings(before, result, target)
    assert not found, "\n".join(map(str, found)) + f"\n{result.program}"


def check_meaning(before: Program, after: Program, seed: int = 0) -> None:
    """Bit for bit the same on whole numbers."""
    if after is before:
        return
    inputs = random_inputs(before, seed)
    one, two = execute(before, **inputs), execute(after, **inputs)
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(two[name], array, err_msg=f"{name}\n{after}")


def check_numbers(before: Program, after: Program, rtol: float, seed: int = 0) -> None:
    """Close on standard normal numbers: sums in another order differ in rounding alone, relative to the largest result."""
    inputs = random_inputs(before, seed, integer=False)
    one, two = execute(before, **inputs), execute(after, **inputs)
    for name, array in one.items():
        expected = np.asarray(array, dtype=np.float64)
        scale = float(np.max(np.abs(expected), initial=1.0))
        np.testing.assert_allclose(np.asarray(two[name], dtype=np.float64), expected, rtol=rtol, atol=rtol * scale, err_msg=name)


def check_signatures(before: Program, after: Program) -> None:
    """Names, kinds, decorators, parameters (order, types, directions) and returns of all functions stay."""
    assert before.name == after.name
    assert len(before.functions) == len(after.functions)
    for f, g in zip(before.functions, after.functions, strict=True):
        assert (f.name, f.kind, f.decorator, f.returns) == (g.name, g.kind, g.decorator, g.returns)
        assert [(p.var, p.direction, p.default) for p in f.params] == [(p.var, p.direction, p.default) for p in g.params]


def check_printed(after: Program) -> None:
    """The text reads back as the program, and holds no name that PyPTO reserves."""
    text = str(after)
    assert parse(text) == after
    assert "__" not in text


def check_stable(result: Tiling, **options: Any) -> None:
    """Tiling twice is tiling once."""
    again = tile(result.program, **options).program
    assert again == result.program, f"{result.program}\n--- again ---\n{again}"


def checked(program: Program | str, *, stable: bool = True, **options: Any) -> Tiling:
    """Tile a program and check everything that must hold of it; ``options`` go to :func:`tile`."""
    before = parse(program) if isinstance(program, str) else program
    result = tile(before, **options)
    check_legal(before, result, options.get("target", "ascend910b"))
    check_meaning(before, result.program)
    check_signatures(before, result.program)
    check_printed(result.program)
    if stable:
        check_stable(result, **{k: v for k, v in options.items() if k != "force"})
    return result


def codes(result: Tiling) -> list[str]:
    """The codes of the diagnostics, in order."""
    return [d.code for d in result.diagnostics]


def decision(result: Tiling, name: str) -> Any:
    """The one decision about the product called ``name``."""
    (found,) = [d for d in result.decisions if d.name == name]
    return found


def tile_of(result: Tiling, name: str) -> tuple[int, int, int]:
    d = decision(result, name)
    return (d.m, d.n, d.k)
