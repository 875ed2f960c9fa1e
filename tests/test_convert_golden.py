"""The golden tensor programs: what the reference conversion of 2026-08 made of them (aligned shapes only)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_texts import assert_same, equal_results, golden

from ir_bridge.convert import convert, needs_conversion
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.interpreter_inputs import random_inputs
from ir_bridge.ir.nodes import CORE_KINDS, Call, expressions_of, subexpressions, walk
from ir_bridge.ir.parser import parse
from ir_bridge.ir.verifier import verify

ROWS = golden()
#: Tensor operations that a tile program may hold: they work on global memory.
STAY = {"tensor.read", "tensor.write", "tensor.dim"}


@pytest.fixture(params=ROWS, ids=[r["name"] for r in ROWS])
def row(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def test_same_as_the_reference(row: dict[str, Any]) -> None:
    assert_same(str(convert(parse(row["input"]))), row["output"])


def test_functions_keep_their_kind_and_signature(row: dict[str, Any]) -> None:
    before = parse(row["input"])
    after = convert(before)
    assert [f.name for f in after.functions] == [f.name for f in before.functions]
    for f, g in zip(before.functions, after.functions, strict=True):
        assert g.kind == f.kind
        assert g.returns == f.returns
        assert [p.var for p in g.params[: len(f.params)]] == [p.var for p in f.params]


def test_no_tensor_work_is_left_in_core_functions(row: dict[str, Any]) -> None:
    after = convert(parse(row["input"]))
    for f in after.functions:
        if f.kind in CORE_KINDS:
            ops = {x.op for s in walk(f.body) for e in expressions_of(s) for x in subexpressions(e) if isinstance(x, Call)}
            assert not {op for op in ops if op.startswith("tensor.")} - STAY
    assert not needs_conversion(after)
    assert convert(after) is after


def test_text_verifies_and_computes_the_same(row: dict[str, Any]) -> None:
    before = parse(row["input"])
    after = convert(before)
    assert parse(str(after)) == after
    assert not list(verify(after, "ascend910b"))
    inputs = random_inputs(before, seed=1)
    if row["name"] == "scatter-update":
        inputs["index"] = np.abs(inputs["index"])
    assert equal_results(execute(before, **inputs), execute(after, **inputs))
