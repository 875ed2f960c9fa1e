"""The op table: canonical calls, result types as PyPTO prints them, refusals, short forms."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cost.dtypes import BF16, DTYPES, FP16, FP32, INT8, INT32
from ir_bridge.ir import ops, ops_types, tile_types
from ir_bridge.ir.nodes import Binary, Call, Const, ListExpr, Program, Symbol, Var, defined, walk
from ir_bridge.ir.ops import OpError, canonical, fill, lookup, make, result_types, short_op, type_of
from ir_bridge.ir.parser import parse
from ir_bridge.ir.semantics import meaning_of
from ir_bridge.ir.types import ScalarType, Space, TensorType, TileType, Type, View

DATA = Path(__file__).parent / "data"


def tile(rows: int, cols: int, dtype: Any = BF16, space: Space = Space.MAT, **view: Any) -> Var:
    return Var("t", TileType((rows, cols), dtype, space, View(**view)))


# -- inference gives what PyPTO prints -----------------------------------------------------------------------


def without_annotations(text: str) -> str:
    """The program with every annotated assignment made a plain one."""

    class Strip(ast.NodeTransformer):
        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
            assert node.value is not None
            return ast.copy_location(ast.Assign([node.target], node.value, lineno=node.lineno), node)

    return ast.unparse(Strip().visit(ast.parse(text)))


def printed_outputs() -> list[tuple[str, str]]:
    rows = [
        json.loads(line)
        for name in ("tiled_programs.jsonl", "tensor_programs.jsonl")
        for line in (DATA / name).read_text().splitlines()
    ]
    texts: dict[str, str] = {}
    for row in rows:
        if "output" in row:
            texts.setdefault(row["output"], row["name"])
    return [(name, text) for text, name in texts.items()]


def value_types(program: Program) -> list[tuple[str, Any]]:
    """(name, type with everything implied spelled out) of every value, in order."""
    return [(v.name, spelled_out(v.type)) for f in program.functions for s in walk(f.body) for v in defined(s)]


def spelled_out(t: Type) -> Any:
    return (t.shape, t.dtype, t.space, t.valid, t.layout, t.view.compact) if isinstance(t, TileType) else t


def test_inference_alone_reproduces_every_printed_type(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    for name, text in printed_outputs():
        inferred = value_types(parse(without_annotations(text)))
        with monkeypatch.context() as patch:
            patch.setattr(ops, "fill", lambda written, inferred: written)
            written = value_types(parse(text))
        assert inferred == written, name
        count += len(written)
    assert count > 1000


def test_types_of_the_narrowed_examples_on_the_syntax_page() -> None:
    a = Var("a", TensorType((100, 512), BF16))
    load = make("tile.load", a, [0, 0], [112, 512], [100, 512], target_memory=Space.MAT)
    a_mat = type_of(load)
    assert a_mat == TileType((112, 512), BF16, Space.MAT, View(valid_shape=(100, 512)))
    b_mat = tile(512, 64, valid_shape=(512, 50))
    product = type_of(make("tile.matmul", Var("a_mat", a_mat), b_mat))
    assert product == TileType((112, 64), FP32, Space.ACC, View(valid_shape=(100, 50), compact="normal"))
    storage = Var("storage", type_of(make("tile.create", [112, 64], dtype=FP32, target_memory=Space.ACC)))
    seed = type_of(make("tile.set_validshape", storage, 100, 50))
    assert seed == TileType((112, 64), FP32, Space.ACC, View(valid_shape=(100, 50)))
    ko = Var("ko", ScalarType(DTYPES["index"]))
    right = type_of(make("tile.extract", b_mat, ko, 0, [128, 64], target_memory=Space.RIGHT))
    assert right == TileType((128, 64), BF16, Space.RIGHT, View(valid_shape=(128, 50), compact="normal"))


def test_a_product_narrowed_in_columns_only_is_not_compact() -> None:
    t = type_of(make("tile.matmul", tile(64, 32), tile(32, 64, valid_shape=(32, 50))))
    assert t == TileType((64, 64), FP32, Space.ACC, View(valid_shape=(64, 50)))


def test_compact_seed_keeps_its_mode_when_it_is_narrowed() -> None:
    storage = Var("s", type_of(make("tile.create", [64, 128], dtype=INT32, target_memory=Space.ACC, compact=True)))
    assert type_of(make("tile.set_validshape", storage, 16, 128)) == TileType(
        (64, 128), INT32, Space.ACC, View(valid_shape=(16, 128), compact="normal")
    )


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [(0, 64, 64), (64, 64, 36), (96, 16, 4), (100, 12, 0)],
)
def test_how_much_of_a_window_is_valid(offset: int, size: int, expected: int) -> None:
    assert ops_types.window_valid(112, 100, offset, size) == expected


def test_a_window_at_an_unknown_offset_of_a_narrowed_axis_is_an_expression() -> None:
    i = Var("i", ScalarType(DTYPES["index"]))
    assert ops_types.window_valid(112, 112, i, 16) == 16
    valid = ops_types.window_valid(112, 100, i, 16)
    rest = Call("max", (Binary("-", Const(100), i), Const(0)))
    assert valid == Call("min", (rest, Const(16)))


def test_direct_type_functions_agree_with_the_calls() -> None:
    a, b = tile(96, 64, INT8), tile(64, 128, INT8)
    assert isinstance(a.type, TileType)
    assert isinstance(b.type, TileType)
    assert tile_types.matmul_type(a.type, b.type) == type_of(make("tile.matmul", a, b))
    assert tile_types.extract_type(a.type, 16, 0, (32, 64), Space.LEFT) == type_of(
        make("tile.extract", a, 16, 0, [32, 64], target_memory=Space.LEFT)
    )


# -- canonical form ------------------------------------------------------------------------------------------


def lists(*items: object) -> ListExpr:
    return ListExpr(tuple(Const(i) for i in items))


def test_load_writes_valid_shape_and_space_out() -> None:
    t = Var("x", TensorType((64, 64), BF16))
    pair = ListExpr((Const(0), Const(0)), is_tuple=True)
    args, kwargs = canonical("tile.load", (t, pair), (("shape", lists(16, 64)),))
    assert args == (t, lists(0, 0), lists(16, 64), lists(16, 64))
    assert kwargs == (("target_memory", Symbol("pl.Mem.Vec")),)


def test_positions_and_keywords_come_to_the_same_call() -> None:
    t = tile(16, 64)
    by_position = canonical("tile.cast", (t, Symbol("pl.DataType.FP32")), ())
    by_keyword = canonical("tile.cast", (t,), (("mode", Const("round")), ("target_type", Symbol("pl.FP32"))))
    assert by_position == by_keyword == ((t,), (("target_type", Symbol("pl.FP32")), ("mode", Const("round"))))
    assert canonical("tile.move", (t, Symbol("pl.MemorySpace.Left")), ()) == ((t,), (("target_memory", Symbol("pl.Mem.Left")),))


def test_canonical_form_is_a_fixed_point() -> None:
    for _, text in printed_outputs():
        for f in parse(text).functions:
            for s in walk(f.body):
                value = getattr(s, "value", None)
                if isinstance(value, Call) and lookup(value.op) is not None:
                    assert canonical(value.op, value.args, value.kwargs) == (value.args, value.kwargs)


def test_defaults_that_mean_nothing_are_left_out() -> None:
    _, kwargs = canonical("tile.create", (lists(16, 16),), (("dtype", Symbol("pl.FP32")), ("compact", Const(False))))
    assert kwargs == (("dtype", Symbol("pl.FP32")), ("target_memory", Symbol("pl.Mem.Vec")))


def test_a_condition_by_keyword_becomes_the_fourth_operand() -> None:
    acc, left, right = tile(16, 16, FP32, Space.ACC), tile(16, 32), tile(32, 16)
    cond = Var("first", ScalarType(DTYPES["bool"]))
    args, kwargs = canonical("tile.matmul_acc", (acc, left, right), (("init_cond", cond),))
    assert args == (acc, left, right, cond)
    assert kwargs == ()


def test_keywords_of_newer_versions_are_carried_along() -> None:
    t = Var("x", TensorType((64, 64), BF16))
    args = (t, lists(0, 0), lists(16, 64))
    _, kwargs = canonical("tile.load", args, (("cache", Symbol("pl.CachePolicy.BYPASS")),))
    assert kwargs[-1] == ("cache", Symbol("pl.CachePolicy.BYPASS"))


@pytest.mark.parametrize(
    ("op", "args", "kwargs", "words"),
    [
        ("tile.matmul", (tile(16, 32),), (), "'rhs' is missing"),
        ("tile.matmul", (tile(16, 32),) * 4, (), "at most 2"),
        ("tile.move", (tile(16, 32),), (("target_memry", Symbol("pl.Mem.Left")),), "did you mean 'target_memory'"),
        ("tile.move", (tile(16, 32),), (("target_memory", Symbol("pl.Mem.L0A")),), "known: pl.Mem.DDR"),
        ("tile.create", (lists(16, 16),), (("dtype", Symbol("pl.FP17")),), "must be an element type, not pl.FP17"),
        ("tile.extract", (tile(16, 32), Const(0), Const(0), Const(16)), (("target_memory", Symbol("pl.Mem.Left")),), "a list"),
        ("tile.store", (tile(16, 32), lists(0, 0)), (("offsets", lists(0, 0)),), "given twice"),
    ],
)
def test_calls_that_do_not_fit_their_signature(op: str, args: Any, kwargs: Any, words: str) -> None:
    with pytest.raises(OpError, match=words) as error:
        canonical(op, args, kwargs)
    assert str(error.value).startswith(op)


# -- type rules refuse ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (make("tile.matmul", tile(16, 64), tile(32, 16)), "disagree on K"),
        (make("tile.matmul", tile(16, 64), tile(64, 16, FP16)), "different element types, bf16 and fp16"),
        (make("tile.matmul", tile(16, 64), Var("x", TensorType((64, 16), BF16))), "must be a tile, not a tensor"),
        (
            make("tile.matmul_acc", tile(16, 32, FP32), tile(16, 64), tile(64, 16)),
            r"accumulator is \[16, 32\], the product \[16, 16\]",
        ),
        (make("tile.matmul_acc", tile(16, 16, BF16), tile(16, 64), tile(64, 16)), "holds bf16, the product fp32"),
        (make("tile.matmul_bias", tile(16, 64), tile(64, 16), tile(2, 16, FP32)), r"expected \[1, 16\]"),
        (make("tile.cast", tile(16, 64), BF16, "rint"), "drop the cast"),
        (make("tile.cast", tile(16, 64), FP32, "nearest"), "unknown mode 'nearest'"),
        (make("tile.extract", tile(16, 64), 0, 48, [16, 32], target_memory=Space.LEFT), "reaches beyond"),
        (make("tile.assemble", tile(16, 64), tile(16, 32, INT32), [0, 0]), "int32 does not go into bf16"),
        (make("tile.assemble", tile(16, 64), tile(16, 32), [0, 48]), "reaches beyond"),
        (make("tile.set_validshape", tile(16, 64), 17, 64), "does not lie in"),
        (make("tile.reshape", tile(16, 64), [16, 32]), "different numbers of elements"),
        (make("tile.create", [16, Var("n")], dtype=FP32), "must be static"),
        (make("tile.load", Var("x", TensorType((16, 64), BF16)), [0, 0], [32, 64]), "reaches beyond"),
        (make("tile.add", tile(16, 64), tile(16, 32)), "have shapes"),
        (make("tile.row_expand_mul", tile(16, 64), tile(1, 64)), "does not stretch"),
    ],
)
def test_operands_that_break_the_type_rule(call: Call, words: str) -> None:
    with pytest.raises(OpError, match=words) as error:
        result_types(call.op, call.args, call.kwargs)
    assert str(error.value).startswith(call.op)


# -- making calls, short forms, annotations ------------------------------------------------------------------


def test_make_turns_python_values_into_expressions() -> None:
    t = tile(64, 64)
    assert make("tile.extract", t, 0, 16, [16, 32], target_memory=Space.LEFT) == Call(
        "tile.extract", (t, Const(0), Const(16), lists(16, 32)), (("target_memory", Symbol("pl.Mem.Left")),)
    )
    assert make("tile.set_validshape", t, 16, 64) == Call("tile.set_validshape", (t, Const(16), Const(64)))


@pytest.mark.parametrize(
    ("name", "args", "op"),
    [
        ("matmul", (tile(16, 16), tile(16, 16)), "tile.matmul"),
        ("load", (Var("x", TensorType((16, 16), BF16)),), "tile.load"),
        ("store", (tile(16, 16),), "tile.store"),
        ("cast", (tile(16, 16),), "tile.cast"),
        ("cast", (Const(3), Symbol("pl.INDEX")), None),
        ("add", (tile(16, 16), tile(16, 16)), "tile.add"),
        ("add", (tile(16, 16), Const(2.0)), "tile.adds"),
        ("read", (Var("x", TensorType((16,), BF16)),), "tensor.read"),
        ("read", (tile(16, 16),), "tile.read"),
        ("create_tensor", (lists(4, 4),), "tensor.create"),
        ("frobnicate", (tile(16, 16),), None),
    ],
)
def test_short_forms_dispatch_on_the_operand(name: str, args: Any, op: str | None) -> None:
    assert short_op(name, args) == op


def test_an_annotation_wins_and_inference_fills_its_gaps() -> None:
    inferred = TileType((16, 64), BF16, Space.VEC, View(blayout="col_major", slayout="row_major"))
    assert fill(TileType((16, 64), BF16), inferred) == inferred
    narrowed = TileType((16, 64), BF16, Space.VEC, View(valid_shape=(8, 64)))
    assert fill(narrowed, inferred) == TileType((16, 64), BF16, Space.VEC, View((8, 64), None, None, "col_major", "row_major"))
    elsewhere = TileType((16, 64), BF16, Space.MAT)
    assert fill(elsewhere, inferred) == elsewhere


def test_types_of_scalar_expressions() -> None:
    k = Var("k", ScalarType(DTYPES["index"]))
    x = Var("x", ScalarType(FP32))
    assert type_of(Binary("==", k, Const(0))) == ScalarType(DTYPES["bool"])
    assert type_of(Binary("*", Const(2), x)) == ScalarType(FP32)
    assert type_of(Call("min", (Const(16), Binary("-", k, Const(1))))) == ScalarType(DTYPES["index"])
    assert type_of(Call("cast", (x, Symbol("pl.UINT64")))) == ScalarType(DTYPES["uint64"])
    assert type_of(Const(3, DTYPES["int64"])) == ScalarType(DTYPES["int64"])


# -- the table holds together --------------------------------------------------------------------------------

#: Operations between the lanes of a split region: the loop around them gives them meaning, no single call has one.
CROSS_CORE = {"tensor.aiv_shard", "tensor.aic_gather", "tile.aiv_shard", "tile.aic_gather"}


def test_every_operation_has_reference_semantics() -> None:
    missing = {d.name for d in ops.all_ops() if meaning_of(d.name) is None}
    assert missing <= CROSS_CORE


def test_signatures_are_consistent() -> None:
    for d in ops.all_ops():
        names = [name for a in d.args + d.keywords for name in (a.name, *a.aliases)]
        assert len(names) == len(set(names)), d.name
        effects = [i for i in (*d.effects.reads, *d.effects.writes, d.effects.in_place, d.effects.view) if i is not None]
        assert all(i < len(d.args) for i in effects), d.name
        optional = [a.default is not ops.REQUIRED for a in d.args]
        assert optional == sorted(optional), d.name


def test_an_operation_is_registered_once() -> None:
    d = lookup("tile.matmul")
    assert d is not None
    with pytest.raises(OpError, match="registered twice"):
        ops.register(d)


def test_the_table_loads_without_numpy() -> None:
    code = "import sys, ir_bridge.ir.ops, ir_bridge.ir.verifier; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
