"""The worked examples of specification 1 node by node: operands, offsets, predicates, types and the order of what is emitted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from lift_programs import Case, Chain, load, program
from tiling_checks import checked, codes, tile_of

import tilesat
from cost.dtypes import dtype
from cost.physical import accumulator_bytes, align_up, box
from ir_bridge.ir.nodes import Assign, Binary, Call, Const, Expr, For, If, ListExpr, LoopKind, Program, Stmt, Var, walk
from ir_bridge.ir.types import Space, TileType
from tilesat.result import Tiling


def statements(p: Program) -> list[Stmt]:
    return [s for f in p.functions for s in walk(f.body)]


def calls(p: Program) -> list[tuple[Var, Call]]:
    """(result, call) of every operation, in order."""
    found = [s for s in statements(p) if isinstance(s, Assign)]
    return [(s.targets[0], s.value) for s in found if isinstance(s.value, Call)]


def of(p: Program, op: str) -> list[tuple[Var, Call]]:
    return [(v, c) for v, c in calls(p) if c.op == f"tile.{op}"]


def loops(p: Program) -> list[For]:
    return [s for s in statements(p) if isinstance(s, For)]


def numbers(e: Expr) -> list[Any]:
    """A list of literals, its other items as None."""
    assert isinstance(e, ListExpr)
    return [x.value if isinstance(x, Const) else None for x in e.items]


def made(v: Expr) -> TileType:
    assert isinstance(v, Var)
    assert isinstance(v.type, TileType)
    return v.type


def bounds(loop: For) -> tuple[Any, ...]:
    return tuple(e.value if isinstance(e, Const) else None for e in (loop.start, loop.stop, loop.step))


def is_first_block(e: Expr, loop: For) -> bool:
    """Is ``e`` the test ``ko == 0`` of the loop's own variable?"""
    return isinstance(e, Binary) and e.op == "==" and e.left is loop.counter and e.right == Const(0)


def windows(p: Program) -> list[tuple[list[Any], list[Any]]]:
    """(offset, physical shape) of every store; each must store into the state that the one before it made."""
    stores = of(p, "store")
    for (state, _), (_, call) in pairwise(stores):
        assert call.args[2] is state
    return [(numbers(c.args[1]), list(made(c.args[0]).shape)) for _, c in stores]


def tiled(text: str, target: str = "ascend910b", **options: Any) -> Tiling:
    return checked(text, target=target, planner="pypto", **options)


# -- one output tile, split along K -------------------------------------------------------------------------------------------


def test_the_k_loop_of_128_128_256() -> None:
    """Two buffers of 128 × 64 in fp32 are 64 KiB: L0A to the byte."""
    p = tiled(Case.full(128, 128, 256, dtype="fp32").text()).program
    (loop,) = loops(p)
    assert (loop.kind, bounds(loop), loop.stage) == (LoopKind.PIPELINE, (0, 256, 64), 2)
    ((seed, _),) = of(p, "create")
    assert (made(seed).shape, made(seed).dtype.name, made(seed).space) == ((128, 128), "fp32", Space.ACC)
    assert loop.inits == (seed,)
    (left, a), (right, b) = of(p, "extract")
    assert (a.args[1], a.args[2], numbers(a.args[3]), made(left).space) == (Const(0), loop.counter, [128, 64], Space.LEFT)
    assert (b.args[1], b.args[2], numbers(b.args[3]), made(right).space) == (loop.counter, Const(0), [64, 128], Space.RIGHT)
    ((_, more),) = of(p, "matmul_acc")
    assert more.args[:3] == (loop.carried[0], left, right)
    assert is_first_block(more.args[3], loop)
    assert not of(p, "matmul")  # one predicated accumulate
    assert not any(isinstance(s, If) for s in statements(p))  # one accumulator, no phi
    assert of(p, "store")[0][1].args[0] is loop.results[0]


def test_half_of_it_is_the_size_of_l0_already() -> None:
    result = tiled(Case.full(128, 128, 64, dtype="fp32").text())
    assert result.program is result.source
    assert not result.diagnostics


# -- narrowed rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_sixteen_valid_rows_of_sixty_four(target: str) -> None:
    """The document's int8 seed: created compact in full, narrowed to 16 × 128, and compact through the whole chain."""
    p = tiled(Case(64, 128, 1024, (16, 1024, 128), "int8").text(), target=target).program
    ((storage, create),) = of(p, "create")
    assert (made(storage).shape, made(storage).dtype.name, made(storage).space) == ((64, 128), "int32", Space.ACC)
    assert create.kwarg("compact") == Const(True)
    ((seed, narrow),) = of(p, "set_validshape")
    assert narrow.args == (storage, Const(16), Const(128))
    (loop,) = loops(p)
    assert loop.inits == (seed,)
    for v in (seed, of(p, "matmul_acc")[0][0], loop.carried[0], loop.results[0]):
        assert (made(v).shape, made(v).valid, made(v).view.compact) == ((64, 128), (16, 128), "normal")


def test_full_rows_take_a_plain_seed() -> None:
    p = tiled(Case.full(64, 128, 1024, dtype="int8").text()).program
    ((_, create),) = of(p, "create")
    assert create.kwarg("compact") in (None, Const(False))
    assert not of(p, "set_validshape")


# -- accumulations ------------------------------------------------------------------------------------------------------------


def test_the_callers_accumulator_goes_through_the_loop_and_is_never_overwritten() -> None:
    p = tiled(Case.full(128, 128, 256, dtype="fp32", op="acc").text()).program
    (loop,) = loops(p)
    assert loop.inits == (of(p, "matmul")[0][0],)
    ((_, more),) = of(p, "matmul_acc")
    assert len(more.args) == 3
    assert not of(p, "create")


def callers_flag(p: Program) -> Var:
    (found,) = [x.var for x in p.functions[0].params if x.var.name == "flag"]
    return found


def test_the_callers_predicate_is_joined_with_the_first_block_and_the_tail_has_none() -> None:
    """K = 336 = 5 · 64 + 16: five whole blocks in the loop, then 16 as a straight line that is never the first block."""
    result = tiled(Case.full(128, 128, 336, dtype="fp32", op="acc_if").text())
    assert tile_of(result, "c") == (128, 128, 64)
    p = result.program
    (loop,) = loops(p)
    assert (bounds(loop), loop.stage) == ((0, 320, 64), 2)
    (_, more), (_, tail) = of(p, "matmul_acc")
    both = more.args[3]
    assert isinstance(both, Binary)
    assert (both.op, both.left) == ("and", callers_flag(p))
    assert is_first_block(both.right, loop)
    (left, a), (right, b) = of(p, "extract")[-2:]
    assert tail.args == (loop.results[0], left, right)
    assert (a.args[2], numbers(a.args[3])) == (Const(320), [128, 16])
    assert (b.args[1], numbers(b.args[3])) == (Const(320), [16, 128])


def test_the_tail_has_no_predicate_on_the_other_target() -> None:
    """K = 272 of bf16 on 950, under the default planner."""
    p = checked(Case.full(64, 64, 272, op="acc_if").text(), target="ascend950").program
    assert [len(c.args) for _, c in of(p, "matmul_acc")] == [4, 3]


def test_a_single_whole_block_takes_the_callers_predicate_as_it_is() -> None:
    """K = 80 at k = 64: one whole block and the tail, both straight lines."""
    p = tiled(Case.full(128, 128, 80, dtype="fp32", op="acc_if").text(), force={"c": (128, 128, 64)}).program
    assert not loops(p)
    (one, first), (_, tail) = of(p, "matmul_acc")
    assert first.args[3] is callers_flag(p)
    assert len(tail.args) == 3
    assert tail.args[0] is one


def test_a_literal_predicate_is_joined_too() -> None:
    text = Case.full(128, 128, 256, dtype="fp32", op="acc_if").text()
    p = tiled(text.replace("b_mat, flag)", "b_mat, True)")).program
    ((_, more),) = of(p, "matmul_acc")
    both = more.args[3]
    assert isinstance(both, Binary)
    assert (both.op, both.left) == ("and", Const(True))
    assert is_first_block(both.right, loops(p)[0])


# -- grids --------------------------------------------------------------------------------------------------------------------


def test_four_windows_of_512_cubed() -> None:
    """1 MB of output, 256 KB of L0C on 950: columns outer, rows inner, each window reads its own rows and columns."""
    p = tiled(Case.full(512, 512, 512, dtype="fp32").text(), target="ascend950").program
    offsets = [[0, 0], [256, 0], [0, 256], [256, 256]]
    assert windows(p) == [(o, [256, 256]) for o in offsets]
    assert [(bounds(x), x.stage) for x in loops(p)] == [((0, 512, 32), 2)] * 4
    panels = [c for _, c in of(p, "extract")]
    assert [[a.args[1], b.args[2]] for a, b in zip(panels[::2], panels[1::2], strict=True)] == [
        [Const(row), Const(col)] for row, col in offsets
    ]
    for (_, more), loop in zip(of(p, "matmul_acc"), loops(p), strict=True):
        assert is_first_block(more.args[3], loop)


def test_a_drain_bound_product_takes_tiles_that_drain_well() -> None:
    assert tile_of(tiled(Case.full(320, 320, 64).text()), "c") == (160, 128, 64)


@pytest.mark.parametrize(("K", "k"), [(64, 16), (256, 32)])
def test_boundary_windows_are_what_is_left(K: int, k: int) -> None:
    """256 − 192 = 64 rows and 256 − 160 = 96 columns."""
    p = tiled(Case.full(256, 256, K, dtype="fp32").text(), stable=K == 64, force={"c": (192, 160, k)}).program
    assert [list(made(v).shape) for v, _ in of(p, "create")] == [[192, 160], [64, 160], [192, 96], [64, 96]]
    assert windows(p) == [([0, 0], [192, 160]), ([192, 0], [64, 160]), ([0, 160], [192, 96]), ([192, 160], [64, 96])]


# -- split-K chains -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", ["pypto", "dsa_rp"])
@pytest.mark.parametrize("branch", [False, True])
def test_every_window_of_the_144_kib_chain_runs_all_eight_blocks_before_the_next(branch: bool, planner: str) -> None:
    """16 × 1152 of int32 take 32 rows in 910B's L0C, and are cut along N."""
    assert accumulator_bytes(tilesat.get_target("ascend910b"), 16, 1152, dtype("int32")) == 32 * 1152 * 4 == 144 * 1024
    result = checked(Chain(16, 1152, 64, 8, branch=branch).text(), target="ascend910b", planner=planner)
    p = result.program
    m, n, _ = tile_of(result, "acc_r")
    assert m == 16
    assert 32 * n * 4 <= 128 * 1024
    assert n < 1152
    cut = windows(p)
    assert [offset for offset, _ in cut] == [[16, col] for col in range(32, 32 + 1152, n)]  # the chain's own base is [16, 32]
    assert sum(shape[1] for _, shape in cut) == 1152
    source = [x for x in loops(p) if any(isinstance(s, Assign) and _is_load(s) for s in x.body)]
    assert [bounds(x) for x in source] == [(0, 8, 1)] * len(cut)
    for loop, (offset, shape) in zip(source, cut, strict=True):
        left, right = [s.value for s in loop.body if isinstance(s, Assign) and _is_load(s)]
        assert isinstance(left, Call)
        assert isinstance(right, Call)
        assert numbers(left.args[2]) == [16, 64]
        assert (numbers(right.args[1])[1], numbers(right.args[2])) == (offset[1] - 32, [64, shape[1]])
    assert [c.op for _, c in calls(p) if c.op in ("tile.create", "tile.store")] == ["tile.create", "tile.store"] * len(cut)
    phis = [s for s in statements(p) if isinstance(s, If)]
    assert len(phis) == (len(cut) if branch else 0)  # the source's spelling is kept


def _is_load(s: Assign) -> bool:
    return isinstance(s.value, Call) and s.value.op == "tile.load"


def test_columns_are_boxed_before_capacity_is_judged() -> None:
    """int8 N = 80 is 96 in Mat: 320 × 96 × 4 = 120 KiB fit 910B's L0C, 352 × 96 × 4 = 132 KiB do not, 352 × 80 × 4 would."""
    assert 352 * 80 * 4 <= 128 * 1024 < 352 * 96 * 4
    text = Chain(704, 80, 32, 8).text()
    with pytest.raises(tilesat.TilesatError, match=r"'acc_r' is not legal: 1 accumulator\(s\) of 96 columns"):
        tilesat.tile(tilesat.parse(text), target="ascend910b", planner="pypto", force={"acc_r": (352, 80, 32)})
    p = tiled(text, force={"acc_r": (320, 80, 32)}).program
    assert [offset for offset, _ in windows(p)] == [[16, 32], [336, 32], [656, 32]]
    right = [made(v) for v, _ in of(p, "load")][1::2]
    assert [(t.shape, t.valid) for t in right] == [((32, 96), (32, 80))] * 3
    sums = [made(v) for v, _ in of(p, "matmul_acc")]
    assert [(t.shape[1], t.valid[1]) for t in sums] == [(96, 80)] * 3


def test_n_80_of_int8_is_boxed_to_96() -> None:
    rows, columns = box("row_major", dtype("int8"))
    assert (rows, align_up(80, columns)) == (16, 96)
    p = checked(Chain(576, 80, 128, 2).text(), target="ascend910b").program
    narrowed = [made(v) for v, _ in of(p, "load") if made(v).view.valid_shape is not None]
    assert any(t.shape[1] % 32 == 0 and t.valid[1] != t.shape[1] for t in narrowed)


def test_a_tail_of_sixteen_columns_is_loaded_as_thirty_two() -> None:
    """ "N 尾块为 16 列的 INT8 Right tile": [K, 32] with [K, 16] valid, accumulated 32 wide, stored at its logical offset."""
    result = tiled(Chain(512, 80, 64, 8).text())
    assert tile_of(result, "acc_r") == (512, 64, 64)
    tail, call = of(result.program, "load")[-1]
    assert numbers(call.args[1])[1] == 64
    assert (made(tail).shape, made(tail).valid) == ((64, 32), (64, 16))
    for v in (of(result.program, "set_validshape")[-1][0], of(result.program, "matmul_acc")[-1][0]):
        assert (made(v).shape, made(v).valid) == ((512, 32), (512, 16))
    assert windows(result.program)[-1] == ([16, 32 + 64], [512, 32])


# -- cast folding -------------------------------------------------------------------------------------------------------------


def chained(K: int) -> str:
    """ "Fits-L0c 链式 matmul": c = a @ b; cb = bf16(c); d = cb @ e; out = d."""
    shapes = {"a": (128, K), "b": (K, 128), "e": (128, 128)}
    out = "pl.Tensor[[128, 128], pl.FP32]"
    body = [
        *(load(f"{t}_mat", t, s, s) for t, s in shapes.items()),
        "c = pl.tile.matmul(a_mat, b_mat)",
        "cb = pl.tile.cast(c, target_type=pl.BF16, mode='rint')",
        "d = pl.tile.matmul(cb, e_mat)",
        "out_1 = pl.tile.store(d, [0, 0], out)",
        "return out_1",
    ]
    return program([*(f"{t}: pl.Tensor[{list(s)}, pl.BF16]" for t, s in shapes.items()), f"out: pl.Out[{out}]"], out, body)


@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_a_folded_cast_statement_by_statement(target: str) -> None:
    p = tiled(chained(64), target=target).program
    assert [c.op.removeprefix("tile.") for _, c in calls(p)] == [*["load"] * 3, "matmul", "create", "assemble", "matmul", "store"]
    (c, first), (d, second) = of(p, "matmul")
    ((scratch, _),), ((placed, assemble),), ((_, store),) = (of(p, op) for op in ("create", "assemble", "store"))
    (a, _), (b, _), (e, _) = of(p, "load")
    assert first.args == (a, b)
    assert (made(c).dtype.name, made(c).space) == ("fp32", Space.ACC)
    assert (made(scratch).shape, made(scratch).dtype.name, made(scratch).space) == ((128, 128), "bf16", Space.MAT)
    assert made(scratch).layout[:2] == ("col_major", "row_major")  # a matrix operand's own
    assert assemble.args[:2] == (scratch, c)
    assert numbers(assemble.args[2]) == [0, 0]
    assert made(placed) == made(scratch)
    assert second.args == (placed, e)
    assert store.args[0] is d


def test_a_producer_that_needs_a_k_loop_feeds_the_same_assemble() -> None:
    result = tiled(chained(512))
    producer = loops(result.program)[0]
    assert bounds(producer)[1] == 512
    ((_, assemble),) = of(result.program, "assemble")
    assert assemble.args[1] is producer.results[0]
    assert not of(result.program, "cast")
    assert not codes(result)
