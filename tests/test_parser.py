"""The parser: every text of the golden data and of dumps is read unharmed; hand-written forms become SSA."""

from __future__ import annotations

import ast
import re
import time

import generate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parse_texts import GOLDEN, HEAD, SPLIT_K, WHOLE, assert_ssa, kernel, only, same_program, text_of

from cost.dtypes import BF16, BOOL, FP32, INDEX, INT32, INT64
from ir_bridge.ir import parse_text
from ir_bridge.ir.nodes import (
    Assign,
    Binary,
    Call,
    Const,
    Direction,
    For,
    If,
    ListExpr,
    LoopKind,
    Return,
    Scope,
    Symbol,
    Var,
    Yield,
    defined,
    expressions_of,
    walk,
)
from ir_bridge.ir.ops import lookup
from ir_bridge.ir.parser import ParseError, parse, parse_expr
from ir_bridge.ir.printer import print_expr
from ir_bridge.ir.types import OtherType, ScalarType, Space, TensorType, TileType, View

# -- real text ---------------------------------------------------------------------------------------------------------------


def test_golden_data_was_found() -> None:
    assert len(GOLDEN) > 240


def test_every_golden_program_survives_printing() -> None:
    for name, text in GOLDEN:
        program = parse(text, name)
        printed = str(program)
        again = parse(printed)
        assert again == program, name
        assert str(again) == printed, name
        assert_ssa(program)
        if "tile." in text.partition("def ")[2] and "pl.tensor" not in printed:
            same, why = same_program.same(text, printed)
            assert same, f"{name}: {why}"


def test_what_pypto_printed_comes_back_word_for_word() -> None:
    """But for the SSA suffixes, which a program that PyPTO is to read must not have: annotations, decorators, views, bounds."""
    printed = [(name, text) for name, text in GOLDEN if text.startswith("# pypto.program")]
    assert len(printed) > 140
    for name, text in printed:
        plain = re.sub(r"(?<!\")__(?!compiler)", "_", re.sub(r"__(ssa|idx|rv)_v\d+", "", text))
        assert str(parse(text)).strip() == plain.strip(), name


def test_whole_program_dump_survives() -> None:
    program = parse(WHOLE)
    printed = str(program)
    assert parse(printed) == program
    assert_ssa(program)
    assert [f.name for f in program.functions] == ["gather_rows", "project", "rope", "gather_rows_spmd", "main"]
    assert [f.kind for f in program.functions] == ["AIV", "InCore", "InCore", "Spmd", "Orchestration"]
    for f, g in zip(program.functions, parse(printed).functions, strict=True):
        assert [p.direction for p in f.params] == [p.direction for p in g.params]
    assert "__" not in printed
    # nothing is dropped: each call of the source is there again, as often
    assert sorted(calls(printed)) == sorted(calls(WHOLE))


def calls(text: str) -> list[str]:
    return [ast.unparse(n.func) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]


def test_dump_is_read_in_detail() -> None:
    program = parse(WHOLE)
    n, seq = program.dynamic
    gather, project, rope, spmd, main = program.functions
    assert (n.name, seq.name) == ("N", "SEQ")
    assert gather.params[0].var.type == TensorType((n, 256), BF16)
    loop = next(s for s in gather.body if isinstance(s, For))
    assert [v.name for v in loop.carried] == ["out_1", "seen_1"]
    assert loop.carried[1].type == OtherType("pl.Array[16, pl.INT32]")
    rows = gather.body[1]
    assert isinstance(rows, Assign)
    wide = next(s for s in gather.body if isinstance(s, Assign) and s.targets and s.target.name == "wide")
    assert wide.target.type == TileType((16, 256), BF16, Space.VEC, View(valid_shape=(rows.target, 256)))
    unknown = next(s for s in gather.body if isinstance(s, Assign) and s.targets and s.target.name == "sorted")
    assert isinstance(unknown.value, Call)
    assert unknown.value.op == "tile.mrgsort_format1"
    assert unknown.value.kwargs == (("exhausted", Const(False)),)
    assert project.decorator == (("level", Symbol("pl.Level.CHIP_DIE")), ("role", Symbol("pl.Role.SubWorker")))
    assert not project.has_self
    assert project.params[4].direction is Direction.INOUT
    assert len(rope.returns) == 2
    scope = next(s for s in main.body if isinstance(s, Scope))
    bare, several, _submitted, spmd_submitted = scope.body
    assert isinstance(bare, Assign)
    assert bare.targets == ()
    assert isinstance(several, Assign)
    assert [t.type for t in several.targets] == [TensorType((16, 256), FP32), TensorType((16, 256), BF16)]
    assert isinstance(spmd_submitted, Assign)
    assert isinstance(spmd_submitted.value, Call)
    assert spmd_submitted.value.args[0] == Symbol("self.gather_rows")
    assert spmd_submitted.value.attrs == (("early", Const(True)),)
    assert spmd.has_self
    loop = main.body[-2]  # type: ignore[assignment]
    assert loop.kind is LoopKind.WHILE
    assert loop.counter is None
    assert loop.cond is not None


@settings(deadline=None, max_examples=40)
@given(generate.programs(aligned=False))
def test_generated_programs_survive_printing(text: str) -> None:
    program = parse(text)
    printed = str(program)
    assert parse(printed) == program
    assert_ssa(program)
    same, why = same_program.same(text, printed)
    assert same, why


def test_long_printed_text_is_read_in_pieces_with_the_same_result() -> None:
    """A text long enough to be cut gives what its functions give one by one, places included."""
    text = str(parse(generate.program_text(3, max_matmuls=8, max_pieces=5)))
    head, start, functions = text.partition("class Generated:\n")
    long = head + start + "".join([functions.replace("def kernel(", f"def kernel_{i}(") for i in range(40)])
    assert long.count("\n") > 400
    program = parse(long)
    single = parse(text).functions[0]
    first_line = single.loc.line
    length = functions.count("\n")
    for i, f in enumerate(program.functions):
        assert f.name == f"kernel_{i}"
        assert f.loc.line == first_line + i * length
        for s, t in zip(walk(single.body), walk(f.body), strict=True):
            assert type(s) is type(t)
            assert t.loc.line == s.loc.line + i * length
            assert t.loc.col == s.loc.col
    assert parse(str(program)) == program


def test_every_cut_gives_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of all kinds, cut as often as can be: the same programs, places and types as from one tree."""
    texts = [text for _, text in GOLDEN] + [WHOLE, text_of(SPLIT_K)] + [generate.program_text(i) for i in range(20)]
    uncut = [parse(text) for text in texts]
    cut = 0
    monkeypatch.setattr(parse_text, "_WORTH_CUTTING", 0)
    monkeypatch.setattr(parse_text, "_PIECE_LINES", 1)
    for text, program in zip(texts, uncut, strict=True):
        cut += parse_text.in_pieces(text) is not None
        again = parse(text)
        assert again == program
        for f, g in zip(program.functions, again.functions, strict=True):
            assert f.loc == g.loc
            assert [s.loc for s in walk(f.body)] == [s.loc for s in walk(g.body)]
            assert [v.name for s in walk(f.body) for v in defined(s)] == [v.name for s in walk(g.body) for v in defined(s)]
    assert cut > 240


def test_other_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    text = text_of(SPLIT_K)
    program = parse(text)
    for other in ("\ufeff" + text, text.replace("\n", "\r\n"), text.replace("    ", "\t")):
        assert parse(other) == program
        assert parse(other).functions[0].loc.line == program.functions[0].loc.line


def test_error_in_long_text_names_its_place() -> None:
    text = str(parse(WHOLE))
    lines = text.split("\n")
    extra = ["        x: pl.Scalar[pl.INDEX] = 1"] * 400
    at = next(i for i, x in enumerate(lines) if x.startswith("        return"))
    long = "\n".join([*lines[:at], *extra, "        y: pl.Scalar[pl.INDEX] = nowhere + 1", *lines[at:]])
    with pytest.raises(ParseError) as caught:
        parse(long)
    assert caught.value.line == at + 401
    assert caught.value.text == "nowhere"


# -- types -------------------------------------------------------------------------------------------------------------------


def test_annotation_and_inference_fill_each_other() -> None:
    """Where both speak the annotation wins; inference fills what it leaves open."""
    f = kernel("""
a_mat: pl.Tile[[16, 256], pl.BF16, pl.Mem.Mat] = pl.load(a, [0, 0], [16, 256], [8, 256], target_memory=pl.Mem.Mat)
l: pl.Tile[[16, 64], pl.BF16, pl.Mem.Left] = pl.tile.extract(a_mat, 0, 0, [16, 64], target_memory=pl.Mem.Left)
v: pl.Tile[[16, 256], pl.BF16, pl.Mem.Vec, pl.TileView(valid_shape=[4, 256])] = pl.load(a, [0, 0], [16, 256])
t: pl.Tile[[16, 256], pl.FP32] = pl.tile.cast(v, target_type=pl.FP32)
""")
    types = [s.target.type for s in f.body if isinstance(s, Assign)]
    assert types[0] == TileType((16, 256), BF16, Space.MAT, View(valid_shape=(8, 256)))
    assert types[1].view.blayout == "row_major"
    assert types[1].view.valid_shape == (8, 64)
    assert types[2].view.valid_shape == (4, 256)
    assert types[3].space is Space.VEC
    assert types[3].view.valid_shape == (4, 256)


def test_space_left_to_its_default_is_the_annotated_one() -> None:
    s = only("m: pl.Tile[[16, 64], pl.BF16, pl.Mem.Mat] = pl.load(a, [0, 0], [16, 64])")
    assert isinstance(s, Assign)
    assert isinstance(s.value, Call)
    assert s.value.kwarg("target_memory") == Symbol("pl.Mem.Mat")
    assert s.target.type == TileType((16, 64), BF16, Space.MAT)


def test_types_without_annotations() -> None:
    f = kernel("""
m = pl.load(a, [0, 0], [16, 256], target_memory=pl.Mem.Mat)
w = pl.tile.load(b, [0, 0], [256, 64], target_memory=pl.MemorySpace.Mat)
c = pl.matmul(m, w)
d = pl.tensor.dim(a, 1)
i = d // 2 + 1
j = pl.cast(i, pl.INT32)
k = i < 3 and not d == 2
out = pl.store(c, [0, 0], out)
return out
""")
    types = [s.target.type for s in f.body if isinstance(s, Assign)]
    assert types == [
        TileType((16, 256), BF16, Space.MAT),
        TileType((256, 64), BF16, Space.MAT),
        TileType((16, 64), FP32, Space.ACC),
        ScalarType(INDEX),
        ScalarType(INDEX),
        ScalarType(INT32),
        ScalarType(BOOL),
        TensorType((16, 64), FP32),
    ]
    assert [s.value.op for s in f.body[:3]] == ["tile.load", "tile.load", "tile.matmul"]  # type: ignore[union-attr]


def test_results_of_functions_are_known_before_their_text() -> None:
    program = parse(
        text_of("r, s = self.later(a)\nreturn r")
        + "    @pl.function\n    def later(x: pl.Tensor[[16, 256], pl.BF16])"
        + " -> tuple[pl.Tensor[[16, 256], pl.BF16], pl.Scalar[pl.INT32]]:\n        return x, 1\n"
    )
    (s, _) = program.functions[0].body
    assert [t.type for t in defined(s)] == [TensorType((16, 256), BF16), ScalarType(INT32)]


def test_result_dimensions_as_the_caller_knows_them() -> None:
    program = parse(
        text_of("r = self.f(n, 64)\nreturn r")
        + "    @pl.function\n    def f(p: pl.Scalar[pl.INT64], q: pl.Scalar[pl.INT64]) -> pl.Tensor[[p, q + 1, 8], pl.BF16]:\n"
        + "        x: pl.Tensor[[p, q + 1, 8], pl.BF16] = pl.tensor.create([p, q + 1, 8], dtype=pl.BF16)\n        return x\n"
    )
    kernel_ = program.functions[0]
    (s, _) = kernel_.body
    n = kernel_.params[2].var
    assert defined(s)[0].type == TensorType((n, Binary("+", Const(64), Const(1)), 8), BF16)


def test_module_level_names() -> None:
    head = HEAD.replace("@pl.program", "M, TILE = 16, 4 * 16\nDT = pl.BF16\nS = [M, TILE]\nR = pl.dynamic('R')\n@pl.program")
    program = parse(text_of("x: pl.Tile[S, DT, pl.Mem.Mat] = pl.load(a, [0, 0], S, target_memory=pl.Mem.Mat)\ny = R + M", head))
    x, y = program.functions[0].body
    assert isinstance(x, Assign)
    assert x.target.type == TileType((16, 64), BF16, Space.MAT)
    assert isinstance(y, Assign)
    assert y.value == Binary("+", program.dynamic[0], Const(16))
    assert 'R = pl.dynamic("R")' in str(program)
    assert parse(str(program)) == program


def test_other_module_lines_are_kept() -> None:
    head = "import pypto.language as pl\nimport pypto.language.distributed as pld\ndef helper():\n    return 1\n" + HEAD[28:]
    text = text_of("r = pld.tile.remote_load(a, peer=n)\nreturn r", head) + "\nif __name__ == '__main__':\n    helper()\n"
    program = parse(text)
    assert program.preamble == ("import pypto.language.distributed as pld", "def helper():\n    return 1")
    assert program.epilogue == ("if __name__ == '__main__':\n    helper()",)
    assert "r = pld.tile.remote_load(a, peer=n)" in str(program)
    assert parse(str(program)) == program


def test_forms_of_vector_operations_that_the_table_refuses_are_carried_along() -> None:
    """An annotated statement says itself what it gives; nothing of the call is lost, and no type rule is asked about it."""
    program = parse(
        text_of("""
v: pl.Tile[[16, 256], pl.BF16, pl.Mem.Vec] = pl.tile.load(a, [0, 0], [16, 256], target_memory=pl.Mem.Vec)
s: pl.Tile[[16, 256], pl.BF16, pl.Mem.Vec] = pl.tile.scatter(v, v, v, v, v, extra=3)
r: pl.Tile[[4, 4], pl.BF16, pl.Mem.Vec] = pl.tile.add(s, v)
pl.tile.write(r)
""")
    )
    s, r, w = program.functions[0].body[1:]
    assert isinstance(s, Assign)
    assert isinstance(s.value, Call)
    assert s.value.op == "tile.scatter?"
    assert lookup(s.value.op) is None
    assert s.target.type == TileType((16, 256), BF16, Space.VEC)
    assert isinstance(r, Assign)
    assert r.target.type == TileType((4, 4), BF16, Space.VEC)
    assert isinstance(w, Assign)
    printed = str(program)
    assert "= pl.tile.scatter(v, v, v, v, v, extra=3)" in printed
    assert "        pl.tile.write(r)\n" in printed
    assert parse(printed) == program


# -- names become SSA ----------------------------------------------------------------------------------------------------------


def test_rebound_name_is_a_new_value() -> None:
    f = kernel("""
m = pl.load(a, [0, 0], [16, 256], target_memory=pl.Mem.Mat)
w = pl.load(b, [0, 0], [256, 64], target_memory=pl.Mem.Mat)
out = pl.store(pl.matmul(m, w), [0, 0], out)
out = pl.store(pl.matmul(m, w), [0, 0], out)
return out
""")
    stores = [s for s in f.body if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.store"]
    first, second = stores
    assert first.value.args[2] is f.params[3].var  # type: ignore[union-attr]
    assert second.value.args[2] is first.target  # type: ignore[union-attr]
    assert f.body[-1] == Return((second.target,), f.body[-1].loc)
    assert len({s.target.name for s in f.body[:-1] if isinstance(s, Assign)}) == 6


def test_loop_and_branch_without_yields_carry_what_they_rebind() -> None:
    """The hand-written split-K loop is the dump's: one carried accumulator, a branch that gives one value."""
    program = parse(text_of(SPLIT_K))
    explicit = """
c = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
for k, (held,) in pl.pipeline(0, 256, 64, stage=2, init_values=(c,)):
    l = pl.load(a, [0, k], [16, 64], target_memory=pl.Mem.Mat)
    r = pl.load(b, [k, 0], [64, 64], target_memory=pl.Mem.Mat)
    if k == 0:
        first = pl.matmul(l, r)
        phi = pl.yield_(first)
    else:
        more = pl.matmul_acc(held, l, r)
        phi = pl.yield_(more)
    total = pl.yield_(phi)
done = pl.store(total, [0, 0], out)
return done
"""
    assert program == parse(text_of(explicit))
    assert_ssa(program)


def test_loop_carries_only_what_is_read_again() -> None:
    """A scratch name that each trip writes first is not carried; one that is read after the loop is."""
    f = kernel("""
scratch = 1
last = 2
count = 3
for i in pl.range(4):
    scratch = i + 1
    last = scratch * 2
    count = count + last
return last, count
""")
    loop = f.body[3]
    assert isinstance(loop, For)
    assert [v.name.partition("_")[0] for v in loop.carried] == ["last", "count"]
    ret = f.body[4]
    assert isinstance(ret, Return)
    assert ret.values == loop.results


def test_inner_loop_carries_for_the_outer_one() -> None:
    f = kernel("""
total = 0
for i in pl.range(4):
    for j in pl.range(3):
        if i < j:
            total = total + j
    i2 = total
return total
""")
    outer = f.body[1]
    assert isinstance(outer, For)
    inner = outer.body[0]
    assert isinstance(inner, For)
    branch = inner.body[0]
    assert isinstance(branch, If)
    assert len(outer.carried) == len(inner.carried) == len(branch.results) == 1
    assert inner.inits == outer.carried
    assert branch.orelse is not None
    last = branch.orelse[-1]
    assert isinstance(last, Yield)
    assert last.values == inner.carried
    assert f.body[2] == Return(outer.results, f.body[2].loc)


def test_explicit_and_implicit_carries_go_together() -> None:
    f = kernel("""
s = 5
for i, (x,) in pl.range(4, init_values=(1,)):
    s = s + x
    y = pl.yield_(x + 1)
return s, y
""")
    loop = f.body[1]
    assert isinstance(loop, For)
    assert [v.name for v in loop.carried] == ["x", "s_1"]
    assert [v.name for v in loop.results] == ["y", "s_3"]
    last = loop.body[-1]
    assert isinstance(last, Yield)
    assert len(last.values) == 2


def test_branch_defines_names_of_both_arms() -> None:
    f = kernel("""
if n == 0:
    x = 1
    dead = 2
elif n == 1:
    x = 2
    dead = 3
else:
    x = 3
    dead = 4
return x
""")
    branch = f.body[0]
    assert isinstance(branch, If)
    assert len(branch.results) == 1
    assert f.body[1] == Return(branch.results, f.body[1].loc)


def test_while_loop_by_hand() -> None:
    program = parse(text_of("x = 0\nwhile x < n:\n    x = x + 1\nreturn x"))
    loop = program.functions[0].body[1]
    assert isinstance(loop, For)
    assert loop.kind is LoopKind.WHILE
    assert loop.cond == Binary("<", loop.carried[0], program.functions[0].params[2].var)
    assert parse(str(program)) == program
    bare = parse(text_of("while n > 0:\n    pl.tensor.write(out, [0, 0], pl.const(1.0, pl.FP32))"))
    assert "while n > 0:" in str(bare)
    assert parse(str(bare)) == bare


def test_names_of_scopes_stay_visible() -> None:
    program = parse(text_of("with pl.scope(mode=pl.ScopeMode.MANUAL) as s, pl.at(level=1):\n    x = 1\ny = x + 1\nreturn y"))
    scope = program.functions[0].body[0]
    assert isinstance(scope, Scope)
    assert isinstance(scope.body[0], Scope)
    assert_ssa(program)
    assert parse(str(program)) == program


def test_nested_calls_get_statements_of_their_own() -> None:
    f = kernel("return pl.store(pl.matmul(pl.load(a, [0, 0], [16, 64], target_memory=pl.Mem.Mat), "
               "pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)), [0, 0], out)")  # fmt: skip
    ops = [s.value.op for s in f.body[:-1] if isinstance(s, Assign) and isinstance(s.value, Call)]
    assert ops == ["tile.load", "tile.load", "tile.matmul", "tile.store"]
    assert all(isinstance(v, Var) for s in f.body for e in expressions_of(s) if isinstance(e, Call) for v in e.args[:1])


def test_swapped_names_are_read_before_they_are_bound() -> None:
    f = kernel("x, y = n + 1, n + 2\nx, y = y, x\nreturn x, y")
    ret = f.body[-1]
    assert isinstance(ret, Return)
    table = {s.target: s.value for s in f.body[:-1] if isinstance(s, Assign)}
    n = f.params[2].var
    assert [table[table[v]] for v in ret.values] == [Binary("+", n, Const(2)), Binary("+", n, Const(1))]  # type: ignore[index]


def test_names_of_integers_stand_for_them() -> None:
    """Sizes that an author names or computes are numbers: a tile of them is static."""
    f = kernel(
        "rows, cols = a.shape\nhalf = cols // 2\nx = a[:, half:]\nfor i in pl.range(rows // 4):\n    half = i * 4\nreturn half"
    )
    window = next(s.value for s in f.body if isinstance(s, Assign) and isinstance(s.value, Call))
    assert window.args[1:] == (ListExpr((Const(16), Const(128))), ListExpr((Const(0), Const(128))))
    loop = next(s for s in f.body if isinstance(s, For))
    assert (loop.stop, loop.inits) == (Const(4), (Const(128),))
    one = parse(text_of("t = 4\nreturn t"))
    assert one.functions[0].body[-1].values == (Const(4),)  # type: ignore[union-attr]
    assert parse(str(one)) == one


@pytest.mark.parametrize(
    ("text", "value"), [("7 // 2", 3), ("-7 // 2", -4), ("-7 % 4", 1), ("2 * 3 - 1", 5), ("1.0 / 4", None), ("1 // 0", None)]
)
def test_arithmetic_on_integers_is_done(text: str, value: int | None) -> None:
    s = only(f"x = pl.foo({text})")
    assert isinstance(s, Assign)
    assert isinstance(s.value, Call)
    assert (s.value.args[0] == Const(value)) if value is not None else isinstance(s.value.args[0], Binary)


# -- subscripts ------------------------------------------------------------------------------------------------------------------


def test_subscripts_of_tensors() -> None:
    f = kernel("""
k = n * 2
w = a[0:8, k:k + 64]
e = a[3, -1]
r = a[:, 128:]
out[0:8, 0:16] = out[8:, 16:32]
out[1, 2] = e
s = a.shape[1]
return out
""")
    values = [s.value for s in f.body if isinstance(s, Assign)]
    k = f.body[0].target  # type: ignore[union-attr]
    a, out = f.params[0].var, f.params[3].var
    assert values[1] == Call("tensor.slice", (a, ListExpr((Const(8), Const(64))), ListExpr((Const(0), k))))
    assert values[2] == Call("tensor.read", (a, ListExpr((Const(3), Const(255)))))
    assert values[3] == Call("tensor.slice", (a, ListExpr((Const(16), Const(128))), ListExpr((Const(0), Const(128)))))
    assert isinstance(values[5], Call)
    assert values[5].op == "tensor.assemble"
    assert values[5].args[0] is out
    assert isinstance(values[6], Call)
    assert values[6].op == "tensor.write"
    state = f.body[5].target  # type: ignore[union-attr]
    assert values[6].args[0] is state
    assert values[7] == Const(256)
    assert f.body[-1] == Return((state,), f.body[-1].loc)


def test_operators_on_tensors_are_operations() -> None:
    f = kernel("x = pl.load(a, [0, 0], [16, 256])\ny = x + x\nz = a[:, 0:16] * a[:, 16:32]\nx += y")
    ops = [s.value.op for s in f.body if isinstance(s, Assign) and isinstance(s.value, Call)]
    assert ops == ["tile.load", "tile.add", "tensor.slice", "tensor.slice", "tensor.mul", "tile.add"]


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        ("-x", ["tensor.neg"]),
        ("+x", []),
        ("2.0 * x", ["tensor.mul"]),
        ("1.0 + x", ["tensor.add"]),
        ("1.0 - x", ["tensor.neg", "tensor.add"]),
        ("2.0 * (1.0 - -x)", ["tensor.neg", "tensor.neg", "tensor.add", "tensor.mul"]),
    ],
)
def test_signs_and_scalars_before_tensors_are_operations(text: str, ops: list[str]) -> None:
    import numpy as np

    from ir_bridge.ir.interpreter import execute

    program = parse(
        text_of(f"out = {text}\nreturn out", HEAD.replace("a: pl.Tensor[[16, 256], pl.BF16]", "x: pl.Tensor[[2, 3], pl.FP32]"))
    )
    calls = [s.value.op for s in program.functions[0].body if isinstance(s, Assign) and isinstance(s.value, Call)]
    assert calls == ops
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    b = np.zeros((256, 64), np.float32)
    assert np.array_equal(execute(program, x=x, b=b, n=0)["return"], eval(text, {"x": x}))


def test_not_is_written_with_an_underscore() -> None:
    """``not`` is a keyword of Python, so no name: PyPTO's functions for keywords end in an underscore."""
    head = HEAD.replace("pl.BF16", "pl.INT32")
    one = parse(text_of("x = pl.not_(a)\ny = pl.tensor.not_(x)\nz = ~y\nreturn z", head))
    assert [s.value.op for s in one.functions[0].body[:-1]] == ["tensor.not"] * 3  # type: ignore[union-attr]
    assert "pl.tensor.not_(a)" in str(one)
    assert parse(str(one)) == one


def test_unified_forms_on_tensors_are_tensor_operations() -> None:
    f = kernel("""
x = pl.create_tensor([16, 64], dtype=pl.FP32)
y = pl.full([16, 64], dtype=pl.FP32, value=-1)
z = pl.maximum(pl.exp(x), y)
m = pl.matmul(a, b, out_dtype=pl.FP32)
for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
    half = pl.aiv_shard(m)
with pl.at(level=pl.Level.CORE_GROUP):
    out = pl.assemble(out, z, [0, 0])
return out
""")
    ops = [s.value.op for s in walk(f.body) if isinstance(s, Assign) and isinstance(s.value, Call)]
    families = [op.partition(".")[0] for op in ops]
    assert families == ["tensor"] * 7
    assert [op.partition(".")[2] for op in ops[3:6]] == ["maximum", "matmul", "aiv_shard"]
    shard = next(s for s in walk(f.body) if isinstance(s, Assign) and s.targets and s.target.name == "half")
    assert isinstance(shard.value, Call)
    assert shard.value.kwarg("split") == Const(1)
    assert shard.target.type == TensorType((8, 64), FP32)


# -- expressions -----------------------------------------------------------------------------------------------------------------

_LEAVES = ["x", "y", "z", "7", "0.5", "1099511627776", "pl.const(3, pl.INT64)", "pl.Mem.Mat", "'text'", "None", "True"]
_BINARY = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "and", "or"]
_AROUND = [
    "({}) {op} ({})",
    "{} {op} {}",
    "-({})",
    "~{}",
    "(not {})",
    "(not ({}))",
    "+{}",
    "pl.foo({}, key=[{}], attrs={{'a': ({},)}})",
    "x[{}:{}, y]",
    "x[:, {}]",
    "x.dims[{}].name",
    "({}, {})",
]


@st.composite
def _expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(_LEAVES))
    around = draw(st.sampled_from(_AROUND))
    parts = [draw(_expressions(depth - 1)) for _ in range(around.replace("{{", "").count("{}"))]
    return around.format(*parts, op=draw(st.sampled_from(_BINARY)))


@settings(deadline=None, max_examples=200)
@given(_expressions())
def test_printed_expressions_read_back_as_the_same_tree(text: str) -> None:
    values = {name: Var(name) for name in "xyz"}
    e = parse_expr(text, values)
    assert parse_expr(print_expr(e), values) == e


def test_precedence_worked_by_hand() -> None:
    values = {name: Var(name) for name in "abc"}
    a, b, c = values.values()
    assert parse_expr("a - (b - c)", values) == Binary("-", a, Binary("-", b, c))
    assert parse_expr("a - b - c", values) == Binary("-", Binary("-", a, b), c)
    assert parse_expr("a < b < c", values) == Binary("and", Binary("<", a, b), Binary("<", b, c))
    assert parse_expr("-3", values) == Const(-3)
    assert parse_expr("pl.const(-3, pl.INT64)", values) == Const(-3, INT64)
    assert parse_expr("pl.const(7, pl.INDEX)", values) == Const(7)


def test_parsing_takes_linear_time() -> None:
    """Eight times the statements take about eight times as long (generously bounded: the machine may be busy)."""

    def took(count: int) -> float:
        body = "\n".join(f"x{i}: pl.Scalar[pl.INDEX] = n + {i}" for i in range(count))
        text = text_of(body)
        best = 1e9
        for _ in range(3):
            began = time.process_time()
            parse(text)
            best = min(best, time.process_time() - began)
        return best

    assert took(8000) < 25 * took(1000)
