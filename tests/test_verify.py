"""The verifier: golden programs are clean, planted faults of every kind are found, buffers are counted as worked by hand."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.dtypes import BF16, FP32
from cost.errors import TargetError
from cost.hardware import get_target
from ir_bridge.ir.nodes import (
    Assign,
    Block,
    Call,
    For,
    Function,
    If,
    LoopKind,
    Program,
    Return,
    Stmt,
    Symbol,
    Var,
    Yield,
    walk,
)
from ir_bridge.ir.ops import lookup, type_of
from ir_bridge.ir.parser import parse
from ir_bridge.ir.types import Space, TileType, View
from ir_bridge.ir.verifier import KINDS, Finding, VerifyError, verify
from ir_bridge.ir.verifier_memory import live_ranges, peak_bytes

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "tiled_programs.jsonl").read_text().splitlines()]


def codes(findings: tuple[Finding, ...]) -> Counter[str]:
    return Counter(f.code for f in findings)


# -- golden programs -----------------------------------------------------------------------------------------


def all_in_l0(program: Program) -> bool:
    """Does every product of the program read operands that are in their own buffers already?"""
    for f in program.functions:
        for s in walk(f.body):
            value = getattr(s, "value", None)
            d = lookup(value.op) if isinstance(value, Call) else None
            if isinstance(value, Call) and d is not None and d.kind == "cube":
                for a, e in zip(d.args, value.args, strict=False):
                    t = type_of(e)
                    if isinstance(t, TileType) and a.spaces and t.space is not a.spaces[0]:
                        return False
    return True


def test_tiled_programs_add_no_finding_to_their_inputs() -> None:
    fully_tiled = 0
    for row in ROWS:
        if "output" not in row:
            continue
        before, after = verify(parse(row["input"]), row["target"]), verify(out := parse(row["output"]), row["target"])
        assert not codes(after) - codes(before), row["name"]
        assert {f.key for f in after} <= {f.key for f in before}, row["name"]
        if all_in_l0(out):
            fully_tiled += 1
            assert not [f for f in after if f.code != "box" and f.subject != "mat"], row["name"]
    assert fully_tiled > 100


def test_refused_programs_are_those_with_an_oversize_l0_operand() -> None:
    for row in ROWS:
        if "error" in row:
            found = verify(parse(row["input"]), row["target"])
            assert [f.subject for f in found] == ["l0a" if "left operand" in row["error"] else "l0b"], row["name"]
            assert "131072 bytes" in found[0].message
            assert "65536" in found[0].message


# -- a small program, and ways to break it -------------------------------------------------------------------

GOOD = """
import pypto.language as pl

@pl.program
class Good:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[64, 512], pl.BF16], b: pl.Tensor[[512, 64], pl.BF16],
               out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:
        a_mat = pl.tile.load(a, [0, 0], [64, 512], target_memory=pl.Mem.Mat)
        b_mat = pl.tile.load(b, [0, 0], [512, 64], target_memory=pl.Mem.Mat)
        seed = pl.tile.create([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for ko, (c,) in pl.pipeline(0, 512, 128, stage=2, init_values=(seed,)):
            left = pl.tile.extract(a_mat, 0, ko, [64, 128], target_memory=pl.Mem.Left)
            right = pl.tile.extract(b_mat, ko, 0, [128, 64], target_memory=pl.Mem.Right)
            if ko == 0:
                first = pl.tile.matmul(left, right)
                phi = pl.yield_(first)
            else:
                more = pl.tile.matmul_acc(c, left, right)
                phi = pl.yield_(more)
            done = pl.yield_(phi)
        out_1 = pl.tile.store(done, [0, 0], out)
        return out_1
"""


def good() -> Program:
    return parse(GOOD)


def with_body(program: Program, change: Callable[[Block], Block], at: int = 0) -> Program:
    """The program with every block of one function changed by ``change``, inner blocks first."""

    def block(stmts: Block) -> Block:
        return change(tuple(stmt(s) for s in stmts))

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, For):
            return dataclasses.replace(s, body=block(s.body))
        if isinstance(s, If):
            return dataclasses.replace(s, then=block(s.then), orelse=None if s.orelse is None else block(s.orelse))
        return s

    functions = list(program.functions)
    functions[at] = dataclasses.replace(functions[at], body=block(functions[at].body))
    return Program(program.name, tuple(functions), program.dynamic)


def value(program: Program, name: str) -> Var:
    for f in program.functions:
        for s in walk(f.body):
            targets = s.targets if isinstance(s, Assign) else getattr(s, "results", ())
            for v in (*targets, *getattr(s, "carried", ())):
                if v.name == name:
                    return v
    raise KeyError(name)


def defines(s: Stmt, name: str) -> bool:
    return isinstance(s, Assign) and any(t.name == name for t in s.targets)


def branch_first(block: Block) -> Block:
    """The block with its branch moved to the front, before what the branch uses."""
    return tuple(sorted(block, key=lambda s: not isinstance(s, If)))


def operand(op: str, index: int, new: Var) -> Callable[[Block], Block]:
    """Replace one operand of every call of ``op``."""

    def change(block: Block) -> Block:
        return tuple(
            dataclasses.replace(
                s, value=dataclasses.replace(s.value, args=(*s.value.args[:index], new, *s.value.args[index + 1 :]))
            )
            if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == op
            else s
            for s in block
        )

    return change


def retyped(name: str, **fields: Any) -> Callable[[Program], Program]:
    """The program with one value declared of another type (everywhere it occurs)."""

    def change(program: Program) -> Program:
        old = value(program, name)
        assert isinstance(old.type, TileType)
        new = Var(name, dataclasses.replace(old.type, **fields))
        return substituted(program, {old: new})

    return change


def substituted(program: Program, mapping: dict[Var, Var]) -> Program:
    def deep(x: Any) -> Any:
        if isinstance(x, Var):
            return mapping.get(x, x)
        if isinstance(x, tuple):
            return tuple(deep(y) for y in x)
        if dataclasses.is_dataclass(x) and not isinstance(x, (type, Function)):
            return dataclasses.replace(x, **{f.name: deep(getattr(x, f.name)) for f in dataclasses.fields(x) if f.init})
        return x

    return with_body(program, lambda block: tuple(deep(s) for s in block))


def test_the_good_program_is_clean() -> None:
    assert verify(good(), "910B") == ()
    assert verify(good(), get_target("ascend950"), raise_=True) == ()


def drop(name: str) -> Callable[[Program], Program]:
    return lambda p: with_body(p, lambda b: tuple(s for s in b if not defines(s, name)))


def twice(name: str) -> Callable[[Program], Program]:
    return lambda p: with_body(p, lambda b: tuple(x for s in b for x in ((s, s) if defines(s, name) else (s,))))


def replace_stmts(kind: type, change: Callable[[Any], Stmt | None]) -> Callable[[Program], Program]:
    def block(b: Block) -> Block:
        stmts = [change(s) if isinstance(s, kind) else s for s in b]
        return tuple(s for s in stmts if s is not None)

    return lambda p: with_body(p, block)


FAULTS: dict[str, tuple[str, str, Callable[[Program], Program]]] = {
    "a use before its definition": ("ssa", "'a_mat' is used before", drop("a_mat")),
    "statements out of order": ("ssa", "'right' is used before", lambda p: with_body(p, branch_first)),
    "a value defined twice": ("ssa", "'left' is defined twice", twice("left")),
    "a loop's inner value used after it": (
        "ssa",
        "'phi' is used outside the block",
        lambda p: with_body(p, operand("tile.store", 0, value(p, "phi"))),
    ),
    "a branch's inner value used after it": (
        "ssa",
        "'first' is used outside the block",
        lambda p: with_body(
            p,
            lambda b: (
                (*b[:-1], Yield((value(p, "first"),))) if isinstance(b[-1], Yield) and any(isinstance(s, If) for s in b) else b
            ),
        ),
    ),
    "a body without its yield": ("structure", "yields 0 values where 1", replace_stmts(Yield, lambda y: None)),
    "a yield of too many": (
        "structure",
        "yields 2 values where 1",
        replace_stmts(Yield, lambda y: dataclasses.replace(y, values=y.values * 2)),
    ),
    "a yield in the middle": (
        "structure",
        "a yield is the last statement",
        lambda p: with_body(p, lambda b: (b[-1], *b) if isinstance(b[-1], Yield) else b),
    ),
    "a branch with results and no else": (
        "structure",
        "needs an else",
        replace_stmts(If, lambda s: dataclasses.replace(s, orelse=None)),
    ),
    "a pipeline without stage": ("structure", "stage >= 1", replace_stmts(For, lambda s: dataclasses.replace(s, stage=None))),
    "a while loop without condition": (
        "structure",
        "has a condition",
        replace_stmts(For, lambda s: dataclasses.replace(s, kind=LoopKind.WHILE)),
    ),
    "a loop that forgets a result": (
        "structure",
        "needs one of each",
        replace_stmts(For, lambda s: dataclasses.replace(s, carried=(*s.carried, Var("extra")))),
    ),
    "a return inside a loop": (
        "structure",
        "not inside a block",
        lambda p: with_body(p, lambda b: (*b, Return(())) if isinstance(b[-1], Yield) else b),
    ),
    "no return": ("structure", "declares 1 results and returns 0", replace_stmts(Return, lambda s: None)),
    "a returned value of another type": (
        "type",
        "the returned value",
        lambda p: with_body(p, lambda b: (*b[:-1], Return((value(p, "a_mat"),))) if isinstance(b[-1], Return) else b),
    ),
    "a result declared in another element type": ("type", "tile.extract: result 'left'", retyped("left", dtype=FP32)),
    "a result declared in another shape": ("type", "tile.extract: result 'left'", retyped("left", shape=(64, 64))),
    "a result declared in another space": ("type", "found it in Mat", retyped("left", space=Space.MAT, view=View())),
    "a result declared narrower": (
        "type",
        r"expected valid shape [64, 128], found [60, 128]",
        retyped("left", view=View((60, 128), blayout="row_major")),
    ),
    "a result declared compact": ("type", "found compact=normal", retyped("first", view=View(compact="normal"))),
    "a Left tile that lost its stamp": ("type", "expected layout row_major", retyped("left", view=View())),
    "a carried value of another type": ("type", "the initial value 'seed'", retyped("c", shape=(64, 32))),
    "a result of another type than is carried": ("type", "the carried value 'c'", retyped("done", dtype=BF16)),
    "a branch that yields another type": ("type", "the yielded value 'first'", retyped("phi", shape=(64, 128))),
    "operands that disagree": (
        "type",
        "disagree on K",
        lambda p: with_body(p, operand("tile.matmul", 1, Var("b", TileType((64, 64), BF16, Space.RIGHT)))),
    ),
    "too many operands": (
        "type",
        "takes at most",
        replace_stmts(
            Assign,
            lambda s: dataclasses.replace(s, value=dataclasses.replace(s.value, args=s.value.args * 3)),
        ),
    ),
    "a right operand in Vec": ("space", "rhs 'right' is in Vec; it must be in Right or Mat", retyped("right", space=Space.VEC)),
    "an accumulator in Vec": ("space", "acc 'c' is in Vec", retyped("c", space=Space.VEC)),
    "a store from Mat": (
        "space",
        "tile 'a_mat' is in Mat; it must be in Vec or Acc",
        lambda p: with_body(p, operand("tile.store", 0, value(p, "a_mat"))),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str) -> None:
    code, words, plant = FAULTS[name]
    found = verify(plant(good()), "ascend910b")
    assert any(f.code == code and words in f.message for f in found), [str(f) for f in found]


def test_findings_carry_their_place() -> None:
    found = verify(drop("a_mat")(good()), "ascend910b")
    line = next(i for i, text in enumerate(GOOD.splitlines(), 1) if "left = " in text)
    assert [(f.function, f.loc.line, f.severity) for f in found] == [("kernel", line, "error")]
    assert f"kernel, <string>:{line}:" in found[0].where
    assert str(found[0]).startswith("[ssa] 'a_mat'")


def test_raising_on_request() -> None:
    broken = drop("a_mat")(good())
    with pytest.raises(VerifyError, match=r"'a_mat' is used before") as error:
        verify(broken, "ascend910b", raise_=True)
    assert error.value.findings == verify(broken, "ascend910b")


def test_unknown_targets_are_named() -> None:
    with pytest.raises(TargetError, match="ascend910b"):
        verify(good(), "ascend911")


# -- statements written out: spaces, element types, boxes, calls ---------------------------------------------


def kernel(body: str, params: str = "x: pl.Tensor[[256, 256], pl.BF16]", more: str = "") -> Program:
    """A program of one InCore function without results, its body given as lines."""
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return parse(
        "import pypto.language as pl\n\n@pl.program\nclass P:\n"
        + more
        + f"    @pl.function(type=pl.FunctionType.InCore)\n    def kernel(self, {params}):\n{lines}\n"
    )


LOADS = """
m = pl.tile.load(x, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
v = pl.tile.load(x, [0, 0], [64, 64], target_memory=pl.Mem.Vec)
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("t = pl.tile.load(x, [0, 0], [64, 64], target_memory=pl.Mem.Left)", "nothing is loaded straight into Left"),
        ("t = pl.tile.move(v, target_memory=pl.Mem.Left)", "'v' in Vec cannot go to Left; it is filled from Mat"),
        ("t = pl.tile.move(m, target_memory=pl.Mem.Acc)", "'m' in Mat cannot go to Acc; no transfer reaches it"),
        ("t = pl.tile.extract(v, 0, 0, [16, 16], target_memory=pl.Mem.Right)", "'v' in Vec cannot go to Right"),
        ("t = pl.tile.add(m, v)", "lhs 'm' is in Mat; it must be in Vec"),
        ("t = pl.tile.cast(m, pl.FP32)", "tile 'm' is in Mat; it must be in Vec"),
        ("t = pl.tile.matmul_bias(m, m, pl.tile.load(x, [0, 0], [1, 64]))", "bias"),
        (
            "s = pl.tile.create([64, 64], dtype=pl.BF16, target_memory=pl.Mem.Left)\nt = pl.tile.assemble(s, v, [0, 0])",
            "'v' in Vec cannot go into Left",
        ),
    ],
)
def test_spaces_that_no_operation_or_transfer_reaches(line: str, words: str) -> None:
    found = [f for f in verify(kernel(LOADS + line), "ascend910b") if f.code == "space"]
    assert len(found) == 1
    assert words in found[0].message


STORE = """
l = pl.tile.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
c = pl.tile.matmul(l, l)
"""


@pytest.mark.parametrize(
    ("element", "out", "words"),
    [
        ("BF16", "FP32", ""),
        ("BF16", "FP16", ""),
        ("BF16", "INT32", "'c' holds fp32, the tensor int32"),
        ("INT8", "INT32", ""),
        ("INT8", "FP16", "'c' holds int32, the tensor fp16"),
    ],
)
def test_element_types_that_a_store_can_write(element: str, out: str, words: str) -> None:
    params = f"a: pl.Tensor[[64, 64], pl.{element}], o: pl.Out[pl.Tensor[[64, 64], pl.{out}]]"
    found = verify(kernel(STORE + "o1 = pl.tile.store(c, [0, 0], o)", params), "ascend910b")
    assert [f.code for f in found] == (["type"] if words else [])
    assert not words or words in found[0].message


@pytest.mark.parametrize(
    ("target", "scratch", "fine"),
    [("ascend910b", "BF16", True), ("ascend910b", "FP32", False), ("ascend950", "FP32", True), ("ascend950", "FP16", True)],
)
def test_what_fixpipe_writes_into_mat(target: str, scratch: str, fine: bool) -> None:
    body = (
        STORE + f"s = pl.tile.create([64, 64], dtype=pl.{scratch}, target_memory=pl.Mem.Mat)\nt = pl.tile.assemble(s, c, [0, 0])"
    )
    found = verify(kernel(body, "a: pl.Tensor[[64, 64], pl.BF16]"), target)
    assert (found == ()) == fine
    assert fine or "only as bf16 or fp16" in found[0].message


@pytest.mark.parametrize(
    ("target", "bias", "fine"),
    [("ascend910b", "FP32", True), ("ascend910b", "FP16", True), ("ascend910b", "BF16", False), ("ascend950", "BF16", True)],
)
def test_element_types_that_reach_the_bias_table(target: str, bias: str, fine: bool) -> None:
    body = """
l = pl.tile.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
r = pl.tile.load(b, [0, 0], [1, 64], target_memory=pl.Mem.Mat)
c = pl.tile.matmul_bias(l, l, r)
"""
    found = verify(kernel(body, f"a: pl.Tensor[[64, 64], pl.BF16], b: pl.Tensor[[1, 64], pl.{bias}]"), target)
    assert codes(found) == ({} if fine else {"type": 1})


@pytest.mark.parametrize(("rows", "compact", "fine"), [(64, "", True), (16, "", False), (16, ", compact=True", True)])
def test_a_row_narrowed_product_accumulates_into_a_compact_tile(rows: int, compact: str, fine: bool) -> None:
    body = f"""
l = pl.tile.load(a, [0, 0], [64, 64], [{rows}, 64], target_memory=pl.Mem.Mat)
s = pl.tile.create([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc{compact})
n = pl.tile.set_validshape(s, {rows}, 64)
r = pl.tile.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
c = pl.tile.matmul_acc(n, l, r)
"""
    found = verify(kernel(body, "a: pl.Tensor[[64, 64], pl.BF16]"), "ascend910b")
    assert [(f.code, f.subject) for f in found] == ([] if fine else [("type", "compact accumulator")])
    assert fine or "create(compact=True)" in found[0].message


@pytest.mark.parametrize(
    ("line", "box"),
    [
        ("t = pl.tile.load(x, [0, 0], [100, 64], target_memory=pl.Mem.Mat)", "[16, 16]"),
        ("t = pl.tile.load(x, [0, 0], [64, 40], target_memory=pl.Mem.Mat)", "[16, 16]"),
        ("t = pl.tile.load(q, [0, 0], [16, 80], target_memory=pl.Mem.Mat)", "[16, 32]"),
        ("t = pl.tile.load(f, [0, 0], [8, 16], target_memory=pl.Mem.Mat)", "[16, 8]"),
        ("t = pl.tile.create([16, 24], dtype=pl.FP32, target_memory=pl.Mem.Acc)", "[16, 16]"),
        ("t = pl.tile.create([16, 24], dtype=pl.INT8, target_memory=pl.Mem.Left)", "[16, 16]"),
        ("t = pl.tile.create([24, 16], dtype=pl.INT8, target_memory=pl.Mem.Right)", "[16, 16]"),
        ("t = pl.tile.create([16, 16], dtype=pl.INT8, target_memory=pl.Mem.Right)", ""),
        ("t = pl.tile.create([16, 8], dtype=pl.FP32, target_memory=pl.Mem.Left)", ""),
        ("t = pl.tile.create([8, 16], dtype=pl.FP32, target_memory=pl.Mem.Right)", ""),
        ("t = pl.tile.load(x, [0, 0], [1, 100], target_memory=pl.Mem.Mat)", ""),
        ("t = pl.tile.load(x, [0, 0], [7, 5], target_memory=pl.Mem.Vec)", ""),
        ("t = pl.tile.load(x, [0, 0], [112, 64], [100, 64], target_memory=pl.Mem.Mat)", ""),
    ],
)
def test_fractal_boxes(line: str, box: str) -> None:
    params = "x: pl.Tensor[[256, 256], pl.BF16], q: pl.Tensor[[256, 256], pl.INT8], f: pl.Tensor[[256, 256], pl.FP32]"
    found = verify(kernel(line, params), "ascend910b")
    assert [f.code for f in found] == (["box"] if box else [])
    assert not box or f"must be a multiple of {box}" in found[0].message


CALLEE = """    @pl.function(type=pl.FunctionType.InCore)
    def add(self, p: pl.Tensor[[256, 256], pl.BF16], o: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        return o
"""


CALLER = "x: pl.Tensor[[256, 256], pl.BF16], y: pl.Out[pl.Tensor[[16, 16], pl.FP32]]"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("r = self.add(x, y)", ""),
        ("r = self.add(x)", ""),
        ("r = self.add(x, y, y)", "takes 2 arguments, 3 given"),
        ("r = self.add(y, x)", "argument 'y' for 'p'"),
    ],
)
def test_arguments_of_sibling_functions(line: str, words: str) -> None:
    found = verify(kernel(line, CALLER, CALLEE), "ascend910b")
    assert {f.code for f in found} == ({"call"} if words else set())
    assert not words or words in found[0].message


@pytest.mark.parametrize(
    ("line", "change", "words"),
    [
        ("r = self.add(x, y)", {"op": "self.sub"}, "self.sub: no such function"),
        ("r = pl.submit(self.add, x, y)", {"args": (Symbol("self.sub"),)}, "self.sub: no such function"),
    ],
)
def test_calls_of_functions_that_are_not_there(line: str, change: dict[str, Any], words: str) -> None:
    def redirect(s: Assign) -> Assign:
        assert isinstance(s.value, Call)
        return dataclasses.replace(s, value=dataclasses.replace(s.value, **change))

    program = kernel(line, CALLER, CALLEE)
    broken = with_body(program, lambda b: tuple(redirect(s) if isinstance(s, Assign) else s for s in b), at=1)
    found = verify(broken, "ascend910b")
    assert [(f.code, words in f.message) for f in found] == [("call", True)]


def test_as_many_names_as_a_function_has_results() -> None:
    program = kernel("r = self.add(x, y)", CALLER, CALLEE)
    doubled = with_body(program, lambda b: tuple(dataclasses.replace(s, targets=(*s.targets, Var("more"))) for s in b), at=1)
    found = verify(doubled, "ascend910b")
    assert [(f.code, f.message) for f in found] == [("call", "self.add has 1 results, 2 names")]


def test_functions_and_parameters_have_names_of_their_own() -> None:
    p = good()
    f = p.functions[0]
    again = dataclasses.replace(f, params=(*f.params, f.params[0]))
    messages = [x.message for x in verify(Program(p.name, (f, again)), "ascend910b")]
    assert "two functions are called 'kernel'" in messages
    assert "two parameters are called 'a'" in messages
    assert "'a' is defined twice" in messages


def test_every_kind_of_finding_is_tested_here() -> None:
    planted = {code for code, _, _ in FAULTS.values()}
    assert planted | {"box", "call", "capacity", "bounds"} == set(KINDS)


# -- memory: numbers worked by hand --------------------------------------------------------------------------


def peaks(body: str, target: str = "ascend910b", params: str = "x: pl.Tensor[[1024, 1024], pl.BF16]") -> dict[str, int]:
    return {b: n for b, n in peak_bytes(kernel(body, params).functions[0], get_target(target)).items() if n}


KB = 1024
MAT = "m = pl.tile.load(x, [0, 0], [256, 256], target_memory=pl.Mem.Mat)\n"  # 256 * 256 * 2 = 128 KiB


def test_tiles_die_at_their_last_use() -> None:
    body = """
a = pl.tile.load(x, [0, 0], [256, 512], target_memory=pl.Mem.Mat)
l = pl.tile.extract(a, 0, 0, [16, 16], target_memory=pl.Mem.Left)
b = pl.tile.load(x, [0, 0], [256, 512], target_memory=pl.Mem.Mat)
r = pl.tile.extract(b, 0, 0, [16, 16], target_memory=pl.Mem.Right)
"""
    assert peaks(body)["mat"] == 256 * KB
    together = body + "q = pl.tile.extract(a, 0, 0, [16, 16], target_memory=pl.Mem.Left)"
    assert peaks(together)["mat"] == 512 * KB


def test_a_pipeline_gives_what_it_transfers_one_slot_a_stage() -> None:
    def body(loop: str) -> str:
        return (
            MAT
            + f"for i in {loop}:\n"
            + "    l = pl.tile.extract(m, i, 0, [64, 256], target_memory=pl.Mem.Left)\n"
            + "    r = pl.tile.extract(m, 0, i, [256, 64], target_memory=pl.Mem.Right)\n"
            + "    c = pl.tile.matmul(l, r)\n"
        )

    once = {"mat": 128 * KB, "l0a": 32 * KB, "l0b": 32 * KB, "l0c": 16 * KB}
    assert peaks(body("pl.range(0, 256, 64)")) == once
    assert peaks(body("pl.pipeline(0, 256, 64, stage=1)")) == once
    assert peaks(body("pl.pipeline(0, 256, 64, stage=2)")) == {**once, "l0a": 64 * KB, "l0b": 64 * KB}
    assert peaks(body("pl.pipeline(0, 256, 64, stage=4)")) == {**once, "l0a": 128 * KB, "l0b": 128 * KB}


def test_nested_pipelines_do_not_multiply_an_extract() -> None:
    body = (
        MAT
        + """
for o in pl.pipeline(0, 256, 128, stage=2):
    l = pl.tile.extract(m, o, 0, [64, 256], target_memory=pl.Mem.Left)
    for i in pl.pipeline(0, 256, 64, stage=3):
        r = pl.tile.extract(m, 0, i, [256, 32], target_memory=pl.Mem.Right)
        c = pl.tile.matmul(l, r)
"""
    )
    assert peaks(body)["l0a"] == 2 * 32 * KB
    assert peaks(body)["l0b"] == 3 * 16 * KB


def test_panels_have_the_slots_of_the_loop_they_stand_in() -> None:
    """A plain loop runs to its end within one copy of the pipeline's body, and so does the pipeline with fewer stages."""
    body = (
        MAT
        + """
for o in pl.pipeline(0, 256, 64, stage=3):
    for i in pl.range(0, 256, 64):
        l = pl.tile.extract(m, i, 0, [64, 256], target_memory=pl.Mem.Left)
        for j in pl.pipeline(0, 256, 64, stage=2):
            r = pl.tile.extract(m, 0, j, [256, 32], target_memory=pl.Mem.Right)
            c = pl.tile.matmul(l, r)
"""
    )
    assert peaks(body)["l0a"] == 32 * KB
    assert peaks(body)["l0b"] == 2 * 16 * KB


def test_panels_are_counted_while_they_live() -> None:
    body = (
        MAT
        + """
for o in pl.pipeline(0, 256, 64, stage=2):
    l = pl.tile.extract(m, o, 0, [64, 128], target_memory=pl.Mem.Left)
    r = pl.tile.extract(m, 0, o, [128, 64], target_memory=pl.Mem.Right)
    c = pl.tile.matmul(l, r)
    l2 = pl.tile.extract(m, o, 128, [64, 128], target_memory=pl.Mem.Left)
    r2 = pl.tile.extract(m, 128, o, [128, 64], target_memory=pl.Mem.Right)
    d = pl.tile.matmul_acc(c, l2, r2)
"""
    )
    assert peaks(body)["l0a"] == 2 * 16 * KB


def test_loads_in_a_pipeline_have_their_slots_through_the_loop() -> None:
    body = """
for i in pl.pipeline(0, 512, 128, stage=2):
    a = pl.tile.load(x, [0, i], [128, 128], target_memory=pl.Mem.Mat)
    l = pl.tile.extract(a, 0, 0, [16, 16], target_memory=pl.Mem.Left)
    b = pl.tile.load(x, [0, i], [128, 128], target_memory=pl.Mem.Mat)
    r = pl.tile.extract(b, 0, 0, [16, 16], target_memory=pl.Mem.Right)
"""
    assert peaks(body)["mat"] == 2 * 2 * 32 * KB  # both keep their slots, though a dies before b is loaded


def test_accumulators_have_one_slot_or_two_when_marked() -> None:
    def body(attrs: str) -> str:
        return (
            MAT
            + "l = pl.tile.extract(m, 0, 0, [128, 128], target_memory=pl.Mem.Left)\n"
            + f"for i in pl.pipeline(0, 256, 64, stage=2{attrs}):\n"
            + "    r = pl.tile.extract(m, 0, i, [128, 64], target_memory=pl.Mem.Right)\n"
            + "    c = pl.tile.matmul(l, r)\n"
        )

    assert peaks(body(""))["l0c"] == 32 * KB
    assert peaks(body(', attrs={"pipeline_double_buffer_c": True}'))["l0c"] == 64 * KB
    assert peaks(body(', attrs={"pipeline_double_buffer_c": False}'))["l0c"] == 32 * KB


@pytest.mark.parametrize(
    ("outer", "inner", "slots"), [("range", "range", 1), ("range", "pipeline", 2), ("pipeline", "pipeline", 4)]
)
def test_every_pipeline_around_a_bias_window_keeps_its_own_slots(outer: str, inner: str, slots: int) -> None:
    stage = {"range": "", "pipeline": ", stage=2"}
    body = f"""
for o in pl.{outer}(0, 64, 32{stage[outer]}):
    for i in pl.{inner}(0, 64, 16{stage[inner]}):
        b = pl.tile.load(x, [0, i], [1, 64], target_memory=pl.Mem.Mat)
        t = pl.tile.move(b, target_memory=pl.Mem.Bias)
"""
    assert peaks(body, params="x: pl.Tensor[[64, 128], pl.FP32]")["bias"] == slots * 64 * 4


def test_rows_of_an_int32_accumulator_on_910b() -> None:
    body = "c = pl.tile.create([16, 1152], dtype=pl.INT32, target_memory=pl.Mem.Acc)"
    assert peaks(body)["l0c"] == 144 * KB  # 32 physical rows
    assert peaks(body, "ascend950")["l0c"] == 72 * KB
    found = verify(kernel(body), "ascend910b")
    assert [(f.code, f.subject) for f in found] == [("capacity", "l0c")]
    assert "147456 bytes here, 131072 are available" in found[0].message
    assert verify(kernel(body), "ascend950") == ()


def test_a_product_straight_on_mat_counts_its_operands_whole_at_that_point() -> None:
    body = """
a = pl.tile.load(x, [0, 0], [64, 768], target_memory=pl.Mem.Mat)
b = pl.tile.load(x, [0, 0], [768, 32], target_memory=pl.Mem.Mat)
l = pl.tile.extract(a, 0, 0, [64, 64], target_memory=pl.Mem.Left)
r = pl.tile.extract(b, 0, 0, [64, 32], target_memory=pl.Mem.Right)
d = pl.tile.matmul(l, r)
c = pl.tile.matmul(a, b)
"""
    program = kernel(body, "x: pl.Tensor[[1024, 1024], pl.BF16]")
    assert peaks(body) == {"mat": 144 * KB, "l0a": 96 * KB, "l0b": 48 * KB, "l0c": 8 * KB}
    found = verify(program, "ascend910b")
    assert [(f.subject, f.loc.line) for f in found] == [("l0a", 12)]
    assert "'a' 98304" in found[0].message


def test_a_biased_product_on_mat_counts_its_bias_in_the_accumulators_type() -> None:
    body = """
l = pl.tile.load(x, [0, 0], [16, 16], target_memory=pl.Mem.Mat)
r = pl.tile.load(x, [0, 0], [16, 320], target_memory=pl.Mem.Mat)
b = pl.tile.load(x, [0, 0], [1, 320], target_memory=pl.Mem.Mat)
c = pl.tile.matmul_bias(l, r, b)
"""
    assert peaks(body, params="x: pl.Tensor[[512, 512], pl.FP16]")["bias"] == 320 * 4
    assert [f.subject for f in verify(kernel(body, "x: pl.Tensor[[512, 512], pl.FP16]"), "ascend910b")] == ["bias"]


def test_views_and_in_place_operations_are_no_new_buffer() -> None:
    body = """
s = pl.tile.create([256, 256], dtype=pl.BF16, target_memory=pl.Mem.Mat)
n = pl.tile.set_validshape(s, 256, 100)
t = pl.tile.transpose_view(s)
w = pl.tile.slice(s, [16, 16], [0, 0])
c = pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Acc)
s1 = pl.tile.assemble(s, c, [0, 0])
s2 = pl.tile.assemble(s1, c, [16, 0])
l = pl.tile.extract(s2, 0, 0, [16, 16], target_memory=pl.Mem.Left)
"""
    assert peaks(body)["mat"] == 128 * KB
    assert len([r for r in live_ranges(kernel(body).functions[0], get_target("910B")) if r.buffer == "mat"]) == 1


def test_a_view_keeps_its_source_alive() -> None:
    body = """
a = pl.tile.load(x, [0, 0], [256, 256], target_memory=pl.Mem.Mat)
w = pl.tile.slice(a, [16, 16], [0, 0])
b = pl.tile.load(x, [0, 0], [256, 256], target_memory=pl.Mem.Mat)
l = pl.tile.extract(w, 0, 0, [16, 16], target_memory=pl.Mem.Left)
r = pl.tile.extract(b, 0, 0, [16, 16], target_memory=pl.Mem.Right)
"""
    assert peaks(body)["mat"] == 256 * KB


def test_a_carried_chain_and_the_arms_of_a_branch_are_one_buffer() -> None:
    ranges = live_ranges(good().functions[0], get_target("910B"))
    assert [(r.name, r.bytes, r.slots) for r in ranges if r.buffer == "l0c"] == [("seed", 64 * 64 * 4, 1)]


def test_what_a_loop_uses_from_outside_lives_through_it() -> None:
    body = """
a = pl.tile.load(x, [0, 0], [256, 256], target_memory=pl.Mem.Mat)
for i in pl.range(4):
    l = pl.tile.extract(a, 0, 0, [16, 16], target_memory=pl.Mem.Left)
    b = pl.tile.load(x, [0, 0], [256, 128], target_memory=pl.Mem.Mat)
    r = pl.tile.extract(b, 0, 0, [16, 16], target_memory=pl.Mem.Right)
c = pl.tile.load(x, [0, 0], [256, 128], target_memory=pl.Mem.Mat)
"""
    assert peaks(body)["mat"] == (128 + 64) * KB


def test_an_overflow_is_reported_where_it_begins_each_time() -> None:
    big = "pl.tile.load(x, [0, 0], [512, 384], target_memory=pl.Mem.Mat)"  # 384 KiB
    body = f"""
a = {big}
b = {big}
la = pl.tile.extract(a, 0, 0, [16, 16], target_memory=pl.Mem.Left)
lb = pl.tile.extract(b, 0, 0, [16, 16], target_memory=pl.Mem.Left)
c = {big}
d = {big}
lc = pl.tile.extract(c, 0, 0, [16, 16], target_memory=pl.Mem.Left)
ld = pl.tile.extract(d, 0, 0, [16, 16], target_memory=pl.Mem.Left)
"""
    found = verify(kernel(body, "x: pl.Tensor[[1024, 1024], pl.BF16]"), "ascend910b")
    assert [(f.subject, f.loc.line) for f in found] == [("mat", 8), ("mat", 12)]
    assert "786432 bytes here, 524288 are available: 'a' 393216, 'b' 393216" in found[0].message


def test_tiles_of_unknown_size_or_place_are_not_counted() -> None:
    body = """
n = pl.tensor.dim(x, 0)
a = pl.tile.load(x, [0, 0], [n, 64], target_memory=pl.Mem.Vec)
"""
    assert peaks(body) == {}


# -- memory against an oracle: unrolled traces ---------------------------------------------------------------

Tree = list[Any]


def trees(depth: int) -> st.SearchStrategy[Tree]:
    """Blocks of loads ("load", rows), uses ("use", how many tiles back) and loops."""
    leaf = st.one_of(
        st.tuples(st.just("load"), st.integers(1, 8)),
        st.tuples(st.just("use"), st.integers(0, 6)),
    )
    if depth == 0:
        return st.lists(leaf, min_size=1, max_size=5)
    return st.lists(st.one_of(leaf, leaf, st.tuples(st.just("loop"), trees(depth - 1))), min_size=1, max_size=6)


class Written:
    """A tree as program text and, independently, as a trace with every loop unrolled three times."""

    def __init__(self, tree: Tree) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.trace: list[tuple[str, int, int]] = []
        self.write(tree, "", [])

    def write(self, tree: Tree, indent: str, visible: list[tuple[str, int]]) -> None:
        mine = list(visible)
        for kind, what in tree:
            if kind == "load":
                name = f"t{len(self.lines)}"
                self.lines.append(f"{indent}{name} = pl.tile.load(x, [0, 0], [{what}, 64], target_memory=pl.Mem.Vec)")
                mine.append((name, what * 128))
            elif kind == "use" and what < len(mine):
                name = mine[-1 - what][0]
                self.lines.append(f"{indent}pl.tile.write({name}, [0, 0], 1.0)")
            elif kind == "loop":
                self.lines.append(f"{indent}for i{len(self.lines)} in pl.range(3):")
                self.lines.append(f"{indent}    pass")
                self.write(what, indent + "    ", mine)

    def unrolled_peak(self) -> int:
        """Run the text line by line, loops three times, and count what is still to be used."""
        instances: list[list[int]] = []  # [bytes, born, last use]
        clock = 0

        def run(first: int, last: int, depth: int, names: dict[str, list[int]]) -> None:
            nonlocal clock
            i = first
            while i < last:
                text = self.lines[i]
                if text.lstrip().startswith("for"):
                    end = i + 1
                    while end < last and self.lines[end].startswith(" " * (4 * depth + 4)):
                        end += 1
                    for _ in range(3):
                        run(i + 1, end, depth + 1, dict(names))
                    i = end
                    continue
                clock += 1
                if "load" in text:
                    rows = int(text.split("[0, 0], [")[1].split(",")[0])
                    instances.append([rows * 128, clock, clock])
                    names[text.split("=")[0].strip()] = instances[-1]
                elif "write" in text:
                    names[text.split("(")[1].split(",")[0]][2] = clock
                i += 1

        run(0, len(self.lines), 0, {})
        return max((sum(b for b, s, e in instances if s <= t <= e) for t in range(1, clock + 1)), default=0)


@settings(deadline=None, max_examples=150)
@given(trees(2))
def test_peaks_equal_those_of_the_unrolled_trace(tree: Tree) -> None:
    written = Written(tree)
    if not written.lines:
        return
    program = kernel("\n".join(written.lines), "x: pl.Tensor[[64, 64], pl.BF16]")
    assert peak_bytes(program.functions[0], get_target("910B"))["vec"] == written.unrolled_peak()


# -- speed ---------------------------------------------------------------------------------------------------


BLOCK = """
a@ = pl.tile.load(x, [0, 0], [64, 512], target_memory=pl.Mem.Mat)
b@ = pl.tile.load(x, [0, 0], [512, 64], target_memory=pl.Mem.Mat)
s@ = pl.tile.create([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
for k@, (c@,) in pl.pipeline(0, 512, 128, stage=2, init_values=(s@,)):
    l@ = pl.tile.extract(a@, 0, k@, [64, 128], target_memory=pl.Mem.Left)
    r@ = pl.tile.extract(b@, k@, 0, [128, 64], target_memory=pl.Mem.Right)
    n@ = pl.tile.matmul_acc(c@, l@, r@, k@ == 0)
    d@ = pl.yield_(n@)
"""


def test_a_thousand_products_verify_in_two_seconds() -> None:
    program = kernel("".join(BLOCK.replace("@", str(i)) for i in range(1000)), "x: pl.Tensor[[1024, 1024], pl.BF16]")
    start = time.process_time()
    assert verify(program, "ascend910b") == ()
    assert time.process_time() - start < 2.0
