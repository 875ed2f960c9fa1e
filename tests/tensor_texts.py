"""Texts of tensor programs for the tests of conversion, and the comparison by data flow that the golden programs came with."""

from __future__ import annotations

import importlib.util
import json
import textwrap
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"

_spec = importlib.util.spec_from_file_location("same_program", DATA / "same_program.py")
assert _spec is not None
assert _spec.loader is not None
same_program: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(same_program)

HEAD = """import pypto.language as pl

N = pl.dynamic("N")
M = pl.dynamic("M")

@pl.program
class P:
"""


def kernel(parameters: str, body: str, returns: str = "", kind: str = "InCore", name: str = "kernel", decorator: str = "") -> str:
    """One function of a program class."""
    arrow = f" -> {returns}" if returns else ""
    inner = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return f"    @pl.function(type=pl.FunctionType.{kind}{decorator})\n    def {name}(self, {parameters}){arrow}:\n{inner}\n"


def program(*functions: str) -> str:
    """A program of functions made by :func:`kernel`."""
    return HEAD + "\n".join(functions)


def tensor(shape: str, dtype: str = "FP32") -> str:
    """A tensor annotation: ``tensor("16, 64")``."""
    return f"pl.Tensor[[{shape}], pl.{dtype}]"


def converted(*functions: str, target: str = "ascend910b") -> str:
    """The text of a converted program."""
    from ir_bridge.convert import convert
    from ir_bridge.ir.parser import parse

    return str(convert(parse(program(*functions)), target))


def lines(text: str, word: str) -> list[str]:
    """The statements of a text that hold ``word``, without their annotations."""
    found = [line.strip() for line in text.splitlines() if word in line]
    return [line.split(" = ", 1)[1] if " = " in line and not line.startswith("def") else line for line in found]


def assert_same(one: str, two: str) -> None:
    """Both programs have the same data flow."""
    same, why = same_program.same(one, two)
    assert same, why


def golden() -> list[dict[str, Any]]:
    """The golden tensor programs."""
    with (DATA / "tensor_programs.jsonl").open() as rows:
        return [json.loads(row) for row in rows]


def equal_results(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Bit for bit (a NaN equals a NaN), over what the first run returned."""
    import numpy as np

    return all(np.array_equal(a[k], b[k], equal_nan=np.asarray(a[k]).dtype.kind in "fV") for k in a)
