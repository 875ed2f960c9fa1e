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


MAT = "m = pl.tile.load(x, [0, 0], [64, 64], target_memory=pl.Mem.Mat)\n"
PRODUCT = (
    MAT + "l = pl.tile.extract(m, 0, 0, [32, 64], target_memory=pl.Mem.Left)\n"
    "r = pl.tile.extract(m, 0, 0, [64, 32], target_memory=pl.Mem.Right)\np = pl.tile.matmul(l, r)\n"
    "whole = pl.tile.create([64, 48], dtype=pl.FP32, target_memory=pl.Mem.Mat)\n"
)
EXTRACT = "    e = pl.tile.extract(m, {}, {}, [32, 16], target_memory=pl.Mem.Left)\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            MAT + "for i in pl.range(0, 64, 16):\n" + EXTRACT.format("i", 0),
            "ends at 48 + 32 = 80 along axis 0 of the tile [64, 64], as 'i' counts; extract a smaller shape (16 there)",
        ),
        (
            MAT + "for i in pl.pipeline(0, 64, 16, stage=2):\n" + EXTRACT.format(0, "i + 16"),
            "ends at 64 + 16 = 80 along axis 1 of the tile [64, 64], as 'i' counts; move it back",
        ),
        (
            MAT + "for i in pl.range(0, 3):\n" + EXTRACT.format("32 - i * 32", 0),
            "tile.extract: the window begins at -32 along axis 0 of the tile [64, 64], as 'i' counts; offsets are 0 or more",
        ),
        (MAT + "for i in pl.range(0, n):\n" + EXTRACT.format(0, -16), "tile.extract: the window begins at -16 along axis 1"),
        # what is valid of the source does not matter: 17 of its rows are, and the last of three windows lies beyond all 64
        (
            MAT
            + "v = pl.tile.set_validshape(m, 17, 64)\nfor i in pl.range(0, 96, 32):\n"
            + EXTRACT.format("i", 0).replace("(m,", "(v,"),
            "ends at 64 + 32 = 96 along axis 0 of the tile [64, 64]",
        ),
        (
            PRODUCT + "for i, (w,) in pl.range(0, 64, 16, init_values=(whole,)):\n"
            "    w2 = pl.tile.assemble(w, p, [i, 0])\n    w3 = pl.yield_(w2)",
            "tile.assemble: the window ends at 48 + 32 = 80 along axis 0 of the tile [64, 48], as 'i' counts; narrow the tile",
        ),
        (
            PRODUCT + "q = pl.tile.set_validshape(p, 32, 17)\nfor i, (w,) in pl.range(0, 48, 16, init_values=(whole,)):\n"
            "    w2 = pl.tile.assemble(w, q, [0, i])\n    w3 = pl.yield_(w2)",
            "tile.assemble: the window ends at 32 + 17 = 49 along axis 1 of the tile [64, 48]",
        ),
        (
            PRODUCT + "at: pl.Scalar[pl.INDEX] = 8 - 24\nw = pl.tile.assemble(whole, p, [0, at])",
            "tile.assemble: the window begins at -16 along axis 1 of the tile [64, 48]; offsets are 0 or more",
        ),
    ],
)
def test_windows_that_reach_beyond_their_tile(body: str, words: str) -> None:
    (found,) = bounds(kernel(body))
    assert words in found.message


@pytest.mark.parametrize(
    "body",
    [
        MAT + "for i in pl.range(0, 64, 32):\n" + EXTRACT.format("i", "i + 16"),
        # 17 rows are valid, and of the second window none: the physical shape is what bounds it
        MAT
        + "v = pl.tile.set_validshape(m, 17, 64)\nfor i in pl.range(0, 64, 32):\n"
        + EXTRACT.format("i", 0).replace("(m,", "(v,"),
        MAT + "for i in pl.range(0, n):\n" + EXTRACT.format("i * 64", 0),
        MAT + "for i in pl.range(0, 4):\n    if i < 2:\n    " + EXTRACT.format("i * 32", 0),
        MAT + EXTRACT.format("n", 0).strip(),
        PRODUCT + "q = pl.tile.set_validshape(p, 32, n)\nw = pl.tile.assemble(whole, q, [0, n])",
        PRODUCT + "w = pl.tile.assemble(whole, p, [32, 16])",
    ],
)
def test_windows_of_tiles_that_are_not_judged_or_fit(body: str) -> None:
    assert bounds(kernel(body)) == []


def test_an_extract_that_its_type_rule_refuses_is_told_once() -> None:
    body = MAT + "v = pl.tile.extract(m, 0, 0, [32, 16], target_memory=pl.Mem.Left)"
    (f,) = kernel(body).functions
    load, extract = f.body
    assert isinstance(extract, Assign)
    assert isinstance(extract.value, Call)
    moved = dataclasses.replace(extract.value, args=(extract.value.args[0], Const(48), *extract.value.args[2:]))
    program = Program("P", (dataclasses.replace(f, body=(load, dataclasses.replace(extract, value=moved))),))
    assert [x.code for x in verify(program, "ascend910b")] == ["type"]


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
    kind=st.sampled_from(["store", "extract", "assemble"]),
)
@settings(max_examples=150, deadline=None)
def test_a_window_is_refused_when_running_it_fails(
    trips: list[tuple[int, int, int]], constant: int, factors: tuple[int, int], valid: int, named: bool, kind: str
) -> None:
    """Loops with static bounds around one window: there is a finding exactly where a trip's window leaves its tensor or tile."""
    body, indent = T + f"v = pl.tile.set_validshape(t, 32, {valid})\n", ""
    if kind == "extract":
        body, indent = f"m = pl.tile.load(x, [0, 0], [64, 48], [64, {valid}], target_memory=pl.Mem.Mat)\n", ""
    if kind == "assemble":
        body += "whole = pl.tile.create([64, 48], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
    offset = str(constant)
    for depth, (start, more, step) in enumerate(trips):
        body += f"{indent}for i{depth} in pl.range({start}, {start + more}, {step}):\n"
        indent += "    "
        offset += f" + i{depth} * ({factors[depth]})"
    if named or not trips:  # a bare number is the type rule's business
        body += f"{indent}at: pl.Scalar[pl.INDEX] = {offset}\n"
        offset = "at"
    window = {
        "store": f"out = pl.store(v, [0, {offset}], out)",
        "extract": f"e = pl.tile.extract(m, 0, {offset}, [64, 16], target_memory=pl.Mem.Left)",
        "assemble": f"w = pl.tile.assemble(whole, v, [0, {offset}])",
    }
    program = kernel(f"{body}{indent}{window[kind]}\n")
    x = np.zeros((64, 64), np.float32)
    if bounds(program):
        with pytest.raises(ExecuteError, match="reaches out of"):
            execute(program, x=x, n=1)
    else:
        execute(program, x=x, n=1)
