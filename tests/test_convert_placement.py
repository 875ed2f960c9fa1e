"""Placements: values wanted in two spaces, their legal ways in the e-graph, and the choice by the cost of transfers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generate_tensors import inputs_for
from tensor_texts import equal_results, kernel, lines, program, tensor

import tilesat
from cost.errors import CostModelError
from cost.hardware import get_target
from cost.transfers import FIXPIPE_CAST, LOAD, MOVE, VECTOR_CAST, Step, transfer_cycles
from egraph_rules.report import Limits
from ir_bridge.convert import convert as convert_by
from ir_bridge.convert.placement import Question
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.nodes import Var
from ir_bridge.ir.parser import parse
from ir_bridge.ir.verifier import verify
from tilesat.placing import placements

BF = "BF16"


def window(rows: int = 32) -> str:
    """A window that a product and vector work both take."""
    return program(
        kernel(
            f"x: {tensor('128, 64', BF)}, w: {tensor('64, 64', BF)}",
            f"s = pl.slice(x, [{rows}, 64], [0, 0])\nreturn pl.matmul(s, w, out_dtype=pl.FP32), pl.add(s, s)",
        )
    )


def cast(rows: int, columns: int, dtype: str = BF, mode: str = "rint") -> str:
    """A product that is cast, multiplied again, and worked on by the vector unit."""
    return program(
        kernel(
            f"x: {tensor(f'{rows}, 64', BF)}, w: {tensor(f'64, {columns}', BF)}, e: {tensor(f'{columns}, 32', dtype)}",
            f"""
            c = pl.matmul(x, w, out_dtype=pl.FP32)
            h = pl.cast(c, pl.{dtype}, mode="{mode}")
            return pl.matmul(h, e, out_dtype=pl.FP32), pl.add(h, h)
            """,
        )
    )


def step_into_mat(text: str, target: str, **options: Any) -> str:
    out = str(tilesat.convert(parse(text), target, **options))
    if any("tile.move" in line and "Mem.Mat)" in line for line in lines(out, "tile.move")):
        return "move"
    return "fixpipe" if "tile.assemble" in out else "load" if len(lines(out, "load(x, [0, 0]")) == 2 else "vector"


# -- choices, with the cycles worked by hand -----------------------------------------------------------------------------


def test_two_loads_where_moving_costs_as_much_as_loading() -> None:
    """ascend910b: global memory and the crossing both give 40 bytes a cycle. A tie goes as the document has it."""
    assert step_into_mat(window(), "ascend910b") == "load"


def test_one_load_and_a_move_where_the_crossing_is_wider() -> None:
    """ascend950: 31 bytes a cycle from global memory, 128 across."""
    assert step_into_mat(window(), "ascend950") == "move"


def test_a_boxed_operand_is_not_moved() -> None:
    """30 rows are 32 in Mat and 30 in Vec: a move can't change that."""
    assert step_into_mat(window(30), "ascend950") == "load"


def test_a_wide_product_is_cast_by_fixpipe_beside_the_vector_cast() -> None:
    """64 × 256 to bf16 on ascend910b: back from Vec 64·256·2 / 40 = 819 cycles; drained again 164 + 64 · 256·4/118 = 719."""
    assert step_into_mat(cast(64, 256), "ascend910b") == "fixpipe"


def test_a_narrow_product_is_cast_on_the_vector_unit() -> None:
    """256 × 64: back from Vec 819 cycles as well, drained 164 + 256 · 4.45 = 1303 (the floor of a row)."""
    assert step_into_mat(cast(256, 64), "ascend910b") == "vector"


@pytest.mark.parametrize(("dtype", "mode"), [(BF, "floor"), ("INT8", "rint")])
def test_casts_that_fixpipe_does_not_make(dtype: str, mode: str) -> None:
    text = cast(64, 256, dtype, mode).replace("return pl.matmul(h, e, out_dtype=pl.FP32)", "return pl.matmul(h, e)")
    assert step_into_mat(text, "ascend910b") == "vector"


def test_the_model_decides() -> None:
    def dear_loads(steps: Any, target: Any) -> Any:
        return np.array([1000.0 if s.kind == LOAD else 1.0 for s in steps])

    assert step_into_mat(window(), "ascend910b", transfer_model=dear_loads) == "move"


def test_a_broken_model_is_reported() -> None:
    with pytest.raises(CostModelError, match="give a number of cycles"):
        tilesat.convert(parse(window()), transfer_model=lambda steps, target: np.full(len(steps), np.nan))
    with pytest.raises(CostModelError, match="give one for each"):
        tilesat.convert(parse(window()), transfer_model=lambda steps, target: np.zeros(1))


def test_transfer_cycles() -> None:
    target = get_target("ascend910b")
    steps = [Step(LOAD, 4000, 10, 10), Step(MOVE, 4000, 10, 10), Step(VECTOR_CAST, 5120, 10, 10), Step(FIXPIPE_CAST, 0, 64, 256)]
    expected = [100.0, 100.0, 5120 / 40 + 5120 / 256, 164 + 64 * (256 * 4 / 118)]
    assert np.allclose(transfer_cycles(steps, target), expected)


# -- every way is sound ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
@pytest.mark.parametrize("text", [window(), cast(64, 256), cast(32, 32)])
@pytest.mark.parametrize("rank", [0, 1])
def test_every_way_computes_the_same(text: str, target: str, rank: int) -> None:
    """Not only the chosen way: each one in the e-graph, put into the program, gives the same numbers."""
    source = parse(text)
    inputs = inputs_for(source, 5)
    count = 0

    def choose(questions: Any, machine: Any) -> dict[Var, str]:
        nonlocal count
        found = placements(questions, machine)
        count = len(found[0][1])
        return {q.value: dict(ways[rank].steps)["Mat"] for q, ways in found}

    tiles = convert_by(source, target, choose)
    assert count == 2
    assert not list(verify(tiles, target))
    assert equal_results(execute(source, **inputs), execute(tiles, **inputs))
    assert equal_results(execute(source, **inputs), execute(tilesat.tile(tiles, target=target).program, **inputs))


def test_a_limit_leaves_values_as_the_document_has_them() -> None:
    question = Question(Var("s"), None, False, 32, 64, 4096, 4096)
    assert placements([question], get_target("ascend950"), limits=Limits(nodes=0))[0][1] == []


def test_values_wanted_in_one_space_are_no_question() -> None:
    asked: list[Any] = []

    def choose(questions: Any, target: Any) -> dict[Var, str]:
        asked.extend(questions)
        return {}

    text = program(kernel(f"x: {tensor('64, 64', BF)}, w: {tensor('64, 64', BF)}",
                          "s = pl.slice(x, [32, 64], [0, 0])\nreturn pl.matmul(s, w, out_dtype=pl.FP32)"))  # fmt: skip
    convert_by(parse(text), "ascend910b", choose)
    assert asked == []
