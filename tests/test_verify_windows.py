"""Windows of tensors, held against their bounds: planted faults, what is not judged, and the interpreter as the judge."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import numpy as np
import pytest
from generate import program_text
from hypothesis import given, settings
from hypothesis import strategies as st

from ir_bridge.ir.interpreter import ExecuteError, execute
from ir_bridge.ir.nodes import Assign, Call, Const, ListExpr, Program
from ir_bridge.ir.parser import parse
from ir_bridge.ir.verifier import Finding, verify

DATA = Path(__file__).parent / "data"
PARAMS = "x: pl.Tensor[[64, 64], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[64, 48], pl.FP32]]"
T = "t = pl.tile.load(x, [0, 0], [32, 32], target_memory=pl.Mem.Vec)\n"


def kernel(body: str, params: str = PARAMS, head: str = "") -> Program:
    lines = "\n".join(8 * " " + line for line in body.splitlines())
    return parse(
        f"import pypto.language as pl\n{head}\n@pl.program\nclass P:\n    @pl.function(type=pl.FunctionType.InCore)\n"
        f"    def kernel(self, {params}):\n{lines}\n"
    )


def bounds(program: Program) -> list[Finding]:
    return [f for f in verify(program, "ascend910b") if f.code == "bounds"]


# -- found ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            T + "out = pl.store(t, [0, 32], out)",
            "ends at 32 + 32 = 64 along axis 1 of the tensor [64, 48]; narrow the tile by tile.set_validshape (16 there)",
        ),
        (T + "out = pl.store(t, [64, 0], out)", "ends at 64 + 32 = 96 along axis 0 of the tensor [64, 48]; move it back"),
        (T + "out = pl.store(t, [-16, 0], out)", "begins at -16 along axis 0 of the tensor [64, 48]; offsets are 0 or more"),
        (T + "v = pl.tile.set_validshape(t, 32, 17)\nout = pl.store(v, [0, 32], out)", "ends at 32 + 17 = 49 along axis 1"),
        (T + "out = pl.store(t, [0, 32], out, [32, 17])", "ends at 32 + 17 = 49 along axis 1"),
        (
            T + "for i in pl.range(0, 64, 16):\n    out = pl.store(t, [i, 0], out)",
            "48 + 32 = 80 along axis 0 of the tensor [64, 48], as 'i' counts",
        ),
        (
            T + "for i in pl.range(0, 3):\n    r = 48 - i * 24\n    out = pl.store(t, [0, r], out)",
            "ends at 48 + 32 = 80 along axis 1",
        ),
        (T + "for i in pl.range(0, 3):\n    r = 24 - i * 24\n    out = pl.store(t, [r, 0], out)", "begins at -24 along axis 0"),
        (
            "for i in pl.range(0, 64, 16):\n    for j in pl.pipeline(0, 32, 16, stage=2):\n"
            "        t = pl.tile.load(x, [i, i + j], [16, 16], target_memory=pl.Mem.Vec)\n        out = pl.store(t, [i, 0], out)",
            "tile.load: the window ends at 64 + 16 = 80 along axis 1 of the tensor [64, 64], as 'i' and 'j' counts; move it back",
        ),
        # certain wherever it stands: under a loop that may not run, and in the arm of a branch, with a loop of its own
        (T + "for i in pl.range(0, n):\n    out = pl.store(t, [0, 32], out)", "ends at 32 + 32 = 64 along axis 1"),
        (
            T + "if n == 0:\n    for j in pl.range(0, 2):\n        out = pl.store(t, [0, j * 32], out)\n",
            "ends at 32 + 32 = 64 along axis 1 of the tensor [64, 48], as 'j' counts",
        ),
    ],
)
def test_windows_that_reach_beyond_their_tensor(body: str, words: str) -> None:
    program = kernel(body)
    (found,) = bounds(program)
    assert words in found.message
    assert found.where.startswith(f"kernel, <string>:{found.loc.line}:")
    assert found.loc.line >= 6
    assert found.subject == found.message.partition(":")[0]


def test_a_load_that_its_type_rule_refuses_is_told_once() -> None:
    """The parser refuses such text; a program that was put together by hand is told of it by the type check."""
    program = kernel(T + "out = pl.store(t, [0, 0], out)")
    (f,) = program.functions
    load = f.body[0]
    assert isinstance(load, Assign)
    assert isinstance(load.value, Call)
    offsets = ListExpr((Const(0), Const(48)))
    moved = dataclasses.replace(
        load, value=dataclasses.replace(load.value, args=(load.value.args[0], offsets, *load.value.args[2:]))
    )
    found = verify(Program("P", (dataclasses.replace(f, body=(moved, *f.body[1:])),)), "ascend910b")
    assert [x.code for x in found] == ["type"]
    assert "reaches beyond its source" in found[0].message


def test_a_thinner_window_of_a_tensor_of_more_axes() -> None:
    params = "x: pl.Tensor[[4, 32, 64], pl.FP32], out: pl.Out[pl.Tensor[[4, 32, 64], pl.FP32]]"
    load = "t = pl.tile.load(x, [{}, 0, 0], [1, 32, 64], target_memory=pl.Mem.Vec)\n"
    for b, beyond in ((3, False), (4, True)):
        (*found,) = bounds(kernel(load.format(0) + f"out = pl.store(t, [{b}, 0, 0], out)", params))
        assert bool(found) is beyond
    flat = "t: pl.Tile[[128, 64], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [0, 0, 0], [4, 32, 64], target_memory=pl.Mem.Vec)\n"
    assert not bounds(kernel(flat + "out = pl.store(t, [0, 0, 0], out)", params))  # its 128 rows are those of two axes
    (only,) = bounds(kernel(flat + "out = pl.store(t, [0, 0, 16], out)", params))
    assert "axis 2" in only.message


# -- not judged ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        T + "out = pl.store(t, [32, 16], out)",  # it fits
        T + "v = pl.tile.set_validshape(t, 32, 16)\nout = pl.store(v, [0, 32], out)",  # what is valid fits
        T + "v = pl.tile.set_validshape(t, 32, n)\nout = pl.store(v, [0, 32], out)",  # dynamic size
        T + "v = pl.tile.set_validshape(t, n, 32)\nout = pl.store(v, [0, 32], out)",  # it may be empty
        T + "v = pl.tile.set_validshape(t, 0, 32)\nout = pl.store(v, [0, 32], out)",  # it is
        T + "out = pl.store(t, [0, n], out)",  # dynamic offset
        T + "out = pl.store(t, [0, 32], out, [32, 16])",  # a smaller window is asked for
        T + "for i in pl.range(0, n):\n    out = pl.store(t, [0, i * 32], out)",  # the loop may have one trip
        T + "for i in pl.range(0, 2):\n    if i == 0:\n        out = pl.store(t, [0, i * 32], out)",  # the branch guards it
        T + "for i in pl.range(0, 2):\n    for j in pl.range(i, 1):\n        out = pl.store(t, [0, i * 32], out)",
        T + "for i in pl.range(0, 2):\n    out = pl.store(t, [0, pl.min(i * 32, 16)], out)",
        T + "for i in pl.range(4, 4):\n    out = pl.store(t, [0, i * 32], out)",  # it has no trip
        T + "for i in pl.range(0, 64, 16):\n    out = pl.store(t, [i - i, 0], out)",
    ],
)
def test_what_numbers_do_not_say_is_not_judged(body: str) -> None:
    assert bounds(kernel(body)) == []


def test_dynamic_extents_are_not_judged() -> None:
    params = "x: pl.Tensor[[N, 64], pl.FP32], out: pl.Out[pl.Tensor[[N, 48], pl.FP32]]"
    body = "t = pl.tile.load(x, [512, 0], [32, 32], target_memory=pl.Mem.Vec)\nout = pl.store(t, [512, {}], out)"
    assert bounds(kernel(body.format(16), params, 'N = pl.dynamic("N")')) == []
    (found,) = bounds(kernel(body.format(32), params, 'N = pl.dynamic("N")'))
    assert "axis 1" in found.message


@pytest.mark.parametrize("name", ["tiled_programs", "tensor_programs"])
def test_no_golden_program_reaches_beyond_its_tensors(name: str) -> None:
    texts = [t for line in (DATA / f"{name}.jsonl").read_text().splitlines() for t in (json.loads(line)).values()]
    programs = [parse(t) for t in texts if isinstance(t, str) and "@pl.program" in t]
    assert len(programs) > 50
    assert [str(f) for p in programs for f in bounds(p)] == []


@pytest.mark.parametrize("seed", range(20))
def test_no_generated_program_reaches_beyond_its_tensors(seed: int) -> None:
    assert bounds(parse(program_text(random.Random(seed)))) == []


# -- the interpreter as the judge -------------------------------------------------------------------------------------------


@given(
    trips=st.lists(st.tuples(st.integers(0, 8), st.integers(1, 30), st.integers(1, 9)), max_size=2),
    constant=st.integers(-4, 24),
    factors=st.tuples(st.integers(-2, 2), st.integers(-2, 2)),
    valid=st.integers(1, 32),
    named=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_window_is_refused_when_running_it_fails(
    trips: list[tuple[int, int, int]], constant: int, factors: tuple[int, int], valid: int, named: bool
) -> None:
    """Loops with static bounds around one store: there is a finding exactly where a trip's window leaves the tensor."""
    body, indent = T + f"v = pl.tile.set_validshape(t, 32, {valid})\n", ""
    offset = str(constant)
    for depth, (start, more, step) in enumerate(trips):
        body += f"{indent}for i{depth} in pl.range({start}, {start + more}, {step}):\n"
        indent += "    "
        offset += f" + i{depth} * ({factors[depth]})"
    if named:
        body += f"{indent}at: pl.Scalar[pl.INDEX] = {offset}\n"
        offset = "at"
    program = kernel(body + f"{indent}out = pl.store(v, [0, {offset}], out)\n")
    x = np.zeros((64, 64), np.float32)
    if bounds(program):
        with pytest.raises(ExecuteError, match="reaches out of"):
            execute(program, x=x, n=1)
    else:
        execute(program, x=x, n=1)
