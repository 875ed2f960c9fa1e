"""The worked examples of specification 1, each with the target, element type and planner it holds for."""

from __future__ import annotations

from lift_programs import Case, Chain
from tiling_checks import checked, decision, tile_of

import tilesat
from cost.dtypes import dtype
from cost.physical import accumulator_bytes, align_up, box
from ir_bridge.ir.nodes import Assign, Call, Const, For, ListExpr, Program, walk
from ir_bridge.ir.types import TileType


def calls(program: Program, op: str) -> list[Call]:
    """Every call of an operation, in program order."""
    found = [s.value for f in program.functions for s in walk(f.body) if isinstance(s, Assign)]
    return [c for c in found if isinstance(c, Call) and c.op == op]


def loops(program: Program) -> list[For]:
    return [s for f in program.functions for s in walk(f.body) if isinstance(s, For)]


def numbers(e: object) -> list[object]:
    assert isinstance(e, ListExpr)
    return [x.value for x in e.items if isinstance(x, Const)]


def seeds(program: Program) -> list[list[object]]:
    return [numbers(c.args[0]) for c in calls(program, "tile.create")]


def test_plain_matmul_128_128_256_fp32_910b_pypto() -> None:
    result = checked(Case.full(128, 128, 256, dtype="fp32").text(), target="ascend910b", planner="pypto")
    assert tile_of(result, "c") == (128, 128, 64)
    (loop,) = loops(result.program)
    assert (loop.stop, loop.step, loop.stage) == (Const(256), Const(64), 2)
    assert len(calls(result.program, "tile.matmul_acc")) == 1
    assert not calls(result.program, "tile.matmul")  # one predicated accumulate, no phi


def test_two_by_two_grid_512_fp32_950_pypto() -> None:
    result = checked(Case.full(512, 512, 512, dtype="fp32").text(), target="ascend950", planner="pypto")
    assert tile_of(result, "c") == (256, 256, 32)
    stores = calls(result.program, "tile.store")
    assert [numbers(c.args[1]) for c in stores] == [[0, 0], [256, 0], [0, 256], [256, 256]]
    assert len(loops(result.program)) == 4


def test_boundary_windows_of_a_forced_tile_256_256_fp32_910b() -> None:
    text = Case.full(256, 256, 256, dtype="fp32").text()
    result = checked(text, stable=False, target="ascend910b", force={"c": (192, 160, 32)})
    assert sorted(seeds(result.program)) == [[64, 96], [64, 160], [192, 96], [192, 160]]


def test_drain_bound_320_320_64_bf16_910b_pypto() -> None:
    result = checked(Case.full(320, 320, 64).text(), target="ascend910b", planner="pypto")
    assert tile_of(result, "c") == (160, 128, 64)


def test_int32_rows_on_910b_take_144_kib_and_are_cut_along_n() -> None:
    chip = tilesat.get_target("ascend910b")
    assert accumulator_bytes(chip, 16, 1152, dtype("int32")) == 32 * 1152 * 4 == 144 * 1024
    result = checked(Chain(16, 1152, 64, 8).text(), target="ascend910b")
    d = decision(result, "acc_r")
    assert d.m == 16
    assert d.n < 1152
    assert all(loop.stop == Const(8) for loop in loops(result.program) if loop.start == Const(0) and loop.step == Const(1))


def test_n_80_of_int8_is_boxed_to_96() -> None:
    rows, columns = box("row_major", dtype("int8"))
    assert (rows, align_up(80, columns)) == (16, 96)
    result = checked(Chain(576, 80, 128, 2).text(), target="ascend910b")
    loads = [s.targets[0].type for f in result.program.functions for s in walk(f.body) if isinstance(s, Assign)]
    narrowed = [t for t in loads if isinstance(t, TileType) and t.view.valid_shape is not None]
    assert any(t.shape[1] % 32 == 0 and t.valid[1] != t.shape[1] for t in narrowed)


def test_accumulate_with_a_predicate_and_a_tail() -> None:
    result = checked(Case.full(64, 64, 272, op="acc_if").text(), target="ascend950")
    products = calls(result.program, "tile.matmul_acc")
    predicated = [c for c in products if len(c.args) == 4]
    assert len(predicated) == 1  # the tail runs after every full block and has no predicate
    assert len(products) == 2


def test_a_row_narrowed_seed_is_compact() -> None:
    case = Case(64, 64, 4096, (16, 4096, 64), dtype="int8", op="matmul")
    result = checked(case.text(), stable=False, target="ascend950", force={"c": (64, 64, 128)})
    creates = calls(result.program, "tile.create")
    assert creates
    assert all(c.kwarg("compact") == Const(True) for c in creates)
    assert calls(result.program, "tile.set_validshape")


def test_a_cast_that_fits_is_one_whole_window_assemble() -> None:
    result = checked(Case.full(128, 128, 64, place="cast").text(), target="ascend910b")
    assert not calls(result.program, "tile.cast")
    (assemble,) = calls(result.program, "tile.assemble")
    assert numbers(assemble.args[2]) == [0, 0]
    assert seeds(result.program) == [[128, 128]]
    assert len(calls(result.program, "tile.matmul")) == 2
