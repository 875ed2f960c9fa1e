"""The coverage check finds planted faults of every kind it claims to find."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import batch_problems as problems
import pytest

from ir_bridge.batch.coverage import CoverageError, check_coverage
from ir_bridge.ir.nodes import Assign, Binary, Call, Const, For, Function, ListExpr, LoopKind, Program, Stmt
from tilesat.batch import BatchPlan, plan_batch

#: L2 large enough that blocks are dealt without L2 parts.
CHIP = dataclasses.replace(problems.SMALL, l2_bytes=1 << 20)
Rewrite = Callable[[Stmt], Stmt]


def planned(**arguments: Any) -> BatchPlan:
    return plan_batch(**{"dtype": "bf16", "chip": CHIP, **arguments})


def rewritten(program: Program, rewrite: Rewrite) -> Program:
    """The program with every statement passed through ``rewrite``, inner ones first."""

    def block(statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(rewrite(dataclasses.replace(s, body=block(s.body)) if isinstance(s, For) else s) for s in statements)

    (function,) = program.functions
    changed: Function = dataclasses.replace(function, body=block(function.body))
    return Program(program.name, (changed,))


def calls(op: str, change: Callable[[Call], Call]) -> Rewrite:
    """Change every call of an operation."""

    def rewrite(s: Stmt) -> Stmt:
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == op:
            return dataclasses.replace(s, value=change(s.value))
        return s

    return rewrite


def loops(kind: LoopKind, change: Callable[[For], For]) -> Rewrite:
    return lambda s: change(s) if isinstance(s, For) and s.kind is kind else s


def is_called(s: For, name: str) -> bool:
    return s.counter is not None and s.counter.name == name


def with_argument(call: Call, index: int, value: Any) -> Call:
    return dataclasses.replace(call, args=(*call.args[:index], value, *call.args[index + 1 :]))


def moved(index: int, axis: int, by: int) -> Callable[[Call], Call]:
    """The list argument ``index`` with ``by`` added to its element ``axis``."""

    def change(call: Call) -> Call:
        given = call.args[index]
        assert isinstance(given, ListExpr)
        items = list(given.items)
        items[axis] = Binary("+", items[axis], Const(by))
        return with_argument(call, index, ListExpr(tuple(items)))

    return change


BLOCKS = {"B": 3, "M": 70, "N": 90, "K": 40}
ITERATED = {"B": 8, "M": 33, "N": 20, "K": 200}


def test_the_programs_themselves_are_covered() -> None:
    for arguments in (BLOCKS, ITERATED):
        plan = planned(**arguments)
        found = check_coverage(plan.program, plan.problem)
        assert (found.elements, found.stores, found.atomic_adds) == (arguments["B"] * arguments["M"] * arguments["N"], 1, 0)


def test_atomic_additions_are_counted() -> None:
    plan = planned(B=1, M=16, N=16, K=700, dtype="fp32", branch="stream_k", deterministic=False)
    assert plan.params["reduction"] == "atomic"
    found = check_coverage(plan.program, plan.problem)
    assert (found.stores, found.atomic_adds) == (1, plan.params["grid_k"])


FAULTS: list[tuple[str, dict[str, Any], Rewrite, str]] = [
    ("a core is missing", BLOCKS, loops(LoopKind.SPMD, lambda s: dataclasses.replace(s, stop=Const(3))), "holds nothing"),
    (
        "cores do the same blocks",
        BLOCKS,
        loops(LoopKind.PIPELINE, lambda s: dataclasses.replace(s, start=Const(0), step=Const(1)) if is_called(s, "item") else s),
        "stored 4 times",
    ),
    ("rows of A are shifted", BLOCKS, calls("tile.load", moved(1, 0, 1)), "comes from row|reaches out|different indices"),
    ("a block is stored in another place", BLOCKS, calls("tile.store", moved(1, 1, -1)), "reaches out|column"),
    ("K begins late", ITERATED, calls("tile.load", moved(1, 1, 1)), "different indices|reaches out"),
    (
        "the accumulator is overwritten in every block",
        ITERATED,
        calls("tile.matmul_acc", lambda c: with_argument(c, 3, Const(True)) if len(c.args) > 3 else c),
        "every index of K",
    ),
    (
        "nothing sets the accumulator",
        ITERATED,
        calls("tile.matmul_acc", lambda c: dataclasses.replace(c, args=c.args[:3])),
        "nobody set",
    ),
    (
        "the bias is left out",
        {**ITERATED, "bias": "shared"},
        calls("tile.matmul_bias", lambda c: Call("tile.matmul", c.args[:2])),
        "bias added 0 times",
    ),
    (
        "the bias of another batch",
        {**BLOCKS, "bias": "batched"},
        calls("tile.load", lambda c: moved(1, 0, -1)(c) if getattr(c.args[0], "name", "") == "bias_rows" else c),
        "reaches out|of the bias added",
    ),
    (
        "a segment of K is not reduced",
        {"B": 1, "M": 16, "N": 16, "K": 700, "branch": "stream_k"},
        loops(LoopKind.RANGE, lambda s: dataclasses.replace(s, stop=Const(1)) if is_called(s, "part") else s),
        "every index of K",
    ),
]


@pytest.mark.parametrize(("what", "arguments", "fault", "message"), FAULTS, ids=[f[0] for f in FAULTS])
def test_planted_faults_are_found(what: str, arguments: dict[str, Any], fault: Rewrite, message: str) -> None:
    plan = planned(**arguments)
    broken = rewritten(plan.program, fault)
    assert str(broken) != str(plan.program), "the fault was not planted"
    with pytest.raises(CoverageError, match=message):
        check_coverage(broken, plan.problem)


def test_uncleared_memory_under_atomic_additions_is_found() -> None:
    plan = planned(B=1, M=16, N=16, K=700, dtype="fp32", branch="stream_k", deterministic=False)
    (function,) = plan.program.functions
    first = next(i for i, s in enumerate(function.body) if isinstance(s, For))
    cleared = function.body[first]
    assert isinstance(cleared, For)
    never = dataclasses.replace(cleared, stop=Const(0))
    body = (*function.body[:first], never, *function.body[first + 1 :])
    with pytest.raises(CoverageError, match="nobody cleared"):
        check_coverage(Program("P", (dataclasses.replace(function, body=body),)), plan.problem)
