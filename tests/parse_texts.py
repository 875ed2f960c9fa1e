"""Texts and checks that the tests of parser and printer share."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from ir_bridge.ir.nodes import For, Function, Program, Scope, Stmt, Var, blocks_of, defined, expressions_of, vars_in
from ir_bridge.ir.parser import parse

DATA = Path(__file__).parent / "data"
SPEC = importlib.util.spec_from_file_location("same_program", DATA / "same_program.py")
assert SPEC is not None
assert SPEC.loader is not None
same_program = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(same_program)


def golden() -> list[tuple[str, str]]:
    """(name, text) of every program text of the golden data; an output that is an error message is none."""
    found: dict[str, str] = {}
    for file in ("tiled_programs.jsonl", "tensor_programs.jsonl"):
        for line in (DATA / file).read_text().splitlines():
            row = json.loads(line)
            for key in ("input", "output"):
                text = row.get(key) or ""
                if text.startswith(("import", "#")):
                    found.setdefault(text, f"{row['name']}-{row.get('planner', '')}-{key}")
    return [(name, text) for text, name in found.items()]


GOLDEN = golden()
WHOLE = (DATA / "whole_program.txt").read_text()

HEAD = """import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[16, 256], pl.BF16], b: pl.Tensor[[256, 64], pl.BF16], n: pl.Scalar[pl.INT64],
               out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
"""


def text_of(body: str, head: str = HEAD) -> str:
    return head + "\n".join(f"        {line}" for line in body.strip("\n").split("\n")) + "\n"


def kernel(body: str, head: str = HEAD) -> Function:
    return parse(text_of(body, head)).functions[0]


def only(body: str) -> Stmt:
    (s,) = kernel(body).body
    return s


def assert_ssa(program: Program) -> None:
    """Every value is defined once, before its uses, in a scope that encloses them."""
    for f in program.functions:
        outer = {*program.dynamic, *(p.var for p in f.params)}
        _assert_block(f.body, set(outer), set(outer))


def _assert_block(stmts: tuple[Stmt, ...], known: set[Var], defined_anywhere: set[Var]) -> None:
    for s in stmts:
        bound: list[Var] = []
        if isinstance(s, For):
            bound = [*s.carried, *([s.counter] if s.counter else [])]
        elif isinstance(s, Scope) and s.name is not None:
            bound = [s.name]
        inside = known if isinstance(s, Scope) else {*known, *bound}
        for e in expressions_of(s):
            scope = inside if isinstance(s, For) and e is s.cond else known
            assert all(v in scope for v in vars_in(e))
        for new in (bound, defined(s)):
            assert defined_anywhere.isdisjoint(new)
            defined_anywhere.update(new)
        if isinstance(s, Scope):
            known.update(bound)
        for b in blocks_of(s):
            _assert_block(b, inside if isinstance(s, Scope) else set(inside), defined_anywhere)
        known.update(defined(s))


#: A split-K loop as people write it: the accumulator rebound, nothing yielded.
SPLIT_K = """
c = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
for k in pl.pipeline(0, 256, 64, stage=2):
    l = pl.load(a, [0, k], [16, 64], target_memory=pl.Mem.Mat)
    r = pl.load(b, [k, 0], [64, 64], target_memory=pl.Mem.Mat)
    if k == 0:
        c = pl.matmul(l, r)
    else:
        c = pl.matmul_acc(c, l, r)
out = pl.store(c, [0, 0], out)
return out
"""
