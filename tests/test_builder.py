"""Programs made in Python equal the same programs written as text."""

from __future__ import annotations

import pytest
from parse_texts import assert_ssa

from cost.dtypes import BF16, FP32
from cost.errors import TilesatError
from ir_bridge.ir import ops
from ir_bridge.ir.build_blocks import BuildError
from ir_bridge.ir.builder import ProgramBuilder, expr, symbol
from ir_bridge.ir.nodes import Binary, Const, LoopKind, Var
from ir_bridge.ir.parser import ParseError, parse
from ir_bridge.ir.types import ScalarType, Space, TensorType, TileType

CHAIN = """import pypto.language as pl
@pl.program
class Chain:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[128, 512], pl.BF16], b: pl.Tensor[[512, 128], pl.BF16], e: pl.Tensor[[128, 64], pl.BF16],
               out: pl.Out[pl.Tensor[[128, 64], pl.FP32]]) -> pl.Tensor[[128, 64], pl.FP32]:
        a_mat = pl.load(a, [0, 0], [128, 512], target_memory=pl.Mem.Mat)
        b_mat = pl.load(b, [0, 0], [512, 128], target_memory=pl.Mem.Mat)
        e_mat = pl.load(e, [0, 0], [128, 64], target_memory=pl.Mem.Mat)
        c = pl.matmul(a_mat, b_mat)
        low = pl.cast(c, target_type=pl.BF16, mode="rint")
        d = pl.matmul(low, e_mat)
        out = pl.store(d, [0, 0], out)
        return out
"""


def test_chain_equals_its_text() -> None:
    b = ProgramBuilder("Chain")
    f = b.function("kernel")
    a, w, e = f.input("a", [128, 512], "bf16"), f.input("b", [512, 128], BF16), f.input("e", [128, 64], "BF16")
    out = f.output("out", [128, 64], "fp32")
    a_mat = f.tile.load(a, [0, 0], [128, 512], target_memory="Mat", name="a_mat")
    b_mat = f.tile.load(w, [0, 0], [512, 128], target_memory=Space.MAT, name="b_mat")
    e_mat = f.tile.load(e, [0, 0], [128, 64], target_memory="Mat", name="e_mat")
    c = f.tile.matmul(a_mat, b_mat, name="c")
    low = f.tile.cast(c, target_type="bf16", mode="rint", name="low")
    d = f.tile.matmul(low, e_mat, name="d")
    f.returns(f.tile.store(d, [0, 0], out, name="out"))
    program = b.build()
    assert program == parse(CHAIN)
    assert "c: pl.Tile[[128, 128], pl.FP32, pl.Mem.Acc] = pl.tile.matmul(a_mat, b_mat)" in str(program)
    assert parse(str(program)) == program


def split_k(predicated: bool) -> ProgramBuilder:
    b = ProgramBuilder("SplitK")
    f = b.function("kernel")
    a, w = f.input("a", [16, 256], "bf16"), f.input("w", [256, 64], "bf16")
    out = f.output("out", [16, 64], "fp32")
    seed = f.tile.create([16, 64], dtype="fp32", target_memory="Acc", name="seed")
    with f.pipeline(0, 256, 64, carry={"held": seed}, name="k") as loop:
        k, (held,) = loop.index, loop.carried
        left = f.tile.load(a, [0, k], [16, 64], target_memory="Mat", name="l")
        right = f.tile.load(w, [k, 0], [64, 64], target_memory="Mat", name="r")
        first = f.expr("k == 0", k=k)
        if predicated:
            loop.yields(f.tile.matmul_acc(held, left, right, first, name="sum"), names=["total"])
        else:
            with f.branch(first) as branch:
                with branch.then():
                    branch.yields(f.tile.matmul(left, right, name="first"), names=["phi"])
                with branch.orelse():
                    branch.yields(f.tile.matmul_acc(held, left, right, name="more"))
            loop.yields(branch.result, names=["total"])
    f.returns(f.tile.store(loop.result, [0, 0], out, name="done"))
    return b


@pytest.mark.parametrize("predicated", [False, True])
def test_split_k_equals_its_text(predicated: bool) -> None:
    body = """if k == 0:
                first = pl.matmul(l, r)
                phi = pl.yield_(first)
            else:
                more = pl.matmul_acc(held, l, r)
                phi = pl.yield_(more)"""
    if predicated:
        body = "phi = pl.matmul_acc(held, l, r, k == 0)"
    text = f"""import pypto.language as pl
@pl.program
class SplitK:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[16, 256], pl.BF16], w: pl.Tensor[[256, 64], pl.BF16],
               out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        seed = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k, (held,) in pl.pipeline(0, 256, 64, stage=2, init_values=(seed,)):
            l = pl.load(a, [0, k], [16, 64], target_memory=pl.Mem.Mat)
            r = pl.load(w, [k, 0], [64, 64], target_memory=pl.Mem.Mat)
            {body}
            total = pl.yield_(phi)
        return pl.store(total, [0, 0], out)
"""
    program = split_k(predicated).build()
    assert program == parse(text)
    assert_ssa(program)
    assert parse(str(program)) == program


def test_several_functions_dimensions_scopes_and_while() -> None:
    b = ProgramBuilder("Several")
    n = b.dynamic("N")
    f = b.function("work", "AIV", has_self=False, level=symbol("pl.Level.CHIP_DIE"))
    x, y = f.input("x", [n, 16], "fp32"), f.inout("y", [n, 16], "fp32")
    f.tensor.write(y, [0, 0], f.tensor.read(x, [0, 1]))
    f.returns(x, y)
    g = b.function("main", "Orchestration")
    p, q, limit = g.input("p", [n, 16], "fp32"), g.output("q", [n, 16], "fp32"), g.scalar("limit", "int64")
    with g.scope("pl.scope(mode=pl.ScopeMode.MANUAL)"):
        one, two = g.call("work", p, q, name="r")
    with g.while_(lambda i, j: expr("i < limit", i=i, limit=limit), carry=[0, limit]) as loop:
        i, j = loop.carried
        with g.range(4) as inner:
            g.let(expr("i * 2", i=inner.index), name="twice")
        with g.branch(expr("i == 3", i=i)) as branch, branch.then():
            g.op("tensor.write", q, [0, 0], 1.0)
        loop.yields(expr("i + 1", i=i), j)
    g.returns(one, loop.results[0])
    program = b.build()
    assert program.functions[0].returns == (TensorType((n, 16), FP32), TensorType((n, 16), FP32))
    assert two.type == TensorType((n, 16), FP32)
    assert_ssa(program)
    text = str(program)
    assert "@pl.function(type=pl.FunctionType.AIV, level=pl.Level.CHIP_DIE)\n    def work(x: pl.Tensor[[N, 16], pl.FP32]" in text
    assert "r_0, r_1 = self.work(p, q)" in text
    assert parse(text) == program


def test_every_loop_kind() -> None:
    b = ProgramBuilder()
    f = b.function()
    with f.parallel(1, 4, attrs={"hint": 1}), f.unroll(2), f.loop(LoopKind.SPMD, 8, name_hint="b"), f.pipeline(4, stage=3):
        pass
    text = str(b.build())
    for header in (
        'pl.parallel(1, 4, attrs={"hint": 1})',
        "pl.unroll(2)",
        "pl.spmd(8, name_hint='b')",
        "pl.pipeline(4, stage=3)",
    ):
        assert header in text
    assert parse(text) == b.build()


def test_types_are_inferred_or_stated() -> None:
    f = ProgramBuilder().function()
    a = f.input("a", [16, 64], "bf16")
    t = f.tile.load(a, [0, 0], [16, 64], target_memory="Vec")
    assert t.type == TileType((16, 64), BF16, Space.VEC)
    stated = f.op("tile.mystery", t, 3, type=TileType((16, 64), FP32, Space.VEC), name="m")
    assert stated.type == TileType((16, 64), FP32, Space.VEC)
    assert f.let(3, "n").type == ScalarType(ops.type_of(Const(3)).dtype)  # type: ignore[union-attr]
    x = Var("x")
    assert f.expr("x + 1", x=x) == Binary("+", x, Const(1))


def test_operands_that_do_not_fit_are_refused_at_once() -> None:
    f = ProgramBuilder().function()
    a = f.input("a", [16, 64], "bf16")
    left = f.tile.load(a, [0, 0], [16, 64], target_memory="Mat")
    with pytest.raises(ops.OpError, match="disagree on K"):
        f.tile.matmul(left, left)
    with pytest.raises(TilesatError, match="unknown memory space 'Matt'; known: DDR"):
        f.tile.load(a, [0, 0], [16, 64], target_memory="Matt")
    with pytest.raises(TilesatError, match="unknown element type"):
        f.tile.create([16, 16], dtype="bf17")
    with pytest.raises(ParseError, match="'y' is not defined"):
        f.expr("x + y", x=1)


def test_builder_used_out_of_order_is_refused() -> None:
    b = ProgramBuilder()
    f = b.function()
    a = f.input("a", [16, 64], "bf16")
    with pytest.raises(BuildError, match="parameter 'a' already"):
        f.scalar("a")
    with pytest.raises(BuildError, match="no function 'other'"):
        f.call("other")
    with pytest.raises(BuildError, match="yields nothing"), f.range(4, carry=[a]):
        pass
    with pytest.raises(BuildError, match="carries 1 values, 2"), f.range(4, carry=[a]) as loop:
        loop.yields(a, a)
    with pytest.raises(BuildError, match="4 bounds"), f.range(1, 2, 3, 4):
        pass
    with pytest.raises(BuildError, match="needs a then"), f.branch(Const(True)):
        pass
    with pytest.raises(BuildError, match="only one arm yields"), f.branch(Const(True)) as branch, branch.then():
        branch.yields(a)
    with pytest.raises(BuildError, match="leaves 0 values"), f.range(4) as empty:
        _ = empty.result
    with f.range(4), pytest.raises(BuildError, match="inside of one of its own loops"):
        b.build()
