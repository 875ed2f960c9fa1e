"""The printer: names PyPTO accepts, fields in PyPTO's order, the same text in every process; and equality up to names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import generate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parse_texts import GOLDEN, HEAD, SPLIT_K, WHOLE, text_of

from cost.dtypes import BF16, FP32, INDEX, INT64
from ir_bridge.ir.equality import same_block, same_function
from ir_bridge.ir.names import Names, base_name
from ir_bridge.ir.nodes import (
    INDEX_SCALAR,
    ONE,
    ZERO,
    Assign,
    Binary,
    Call,
    Const,
    Expr,
    For,
    Function,
    If,
    ListExpr,
    LoopKind,
    Param,
    Pass,
    Program,
    Return,
    Stmt,
    Symbol,
    Var,
    Yield,
)
from ir_bridge.ir.parser import parse
from ir_bridge.ir.printer import PrintError, print_expr, print_function, print_program
from ir_bridge.ir.types import Space, TensorType, TileType, View


def program_of(*body: Stmt, params: tuple[Var, ...] = (), name: str = "kernel") -> Program:
    return Program("P", (Function(name, tuple(Param(v) for v in params), body),))


def annotation(t: TileType | TensorType) -> str:
    """How a type prints."""
    text = print_program(program_of(Assign((Var("x", t),), Call("foo"))))
    return text.rpartition("x: ")[2].partition(" = ")[0]


# -- names ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("c", "c"),
        ("c__ssa_v0", "c"),
        ("k0__idx_v0", "k0"),
        ("phi__rv_v12", "phi"),
        ("acc__co_l0_rv_v2", "acc"),
        ("c__ssa_v0_l0_a", "c_l0_a"),
        ("k0__idx_v0_1", "k0_1"),
        ("ret0__out", "ret0_out"),
        ("a____b", "a_b"),
        ("__x", "_x"),
        ("__ssa_v0", "v"),
    ],
)
def test_base_name(written: str, printed: str) -> None:
    assert base_name(written) == printed


def test_names_are_given_out_once() -> None:
    names = Names(["N"])
    wanted = ["c", "c", "c_1", "c", "c_", "c_", "pl", "self", "for", "N", "a b", "7", "_", "_", "x__y", "x_y", "ｘ"]
    given_out = [names.fresh(w) for w in wanted]
    assert given_out[:6] == ["c", "c_1", "c_1_1", "c_2", "c_", "c_3"]
    assert len(set(given_out)) == len(wanted)
    assert not {"pl", "self", "for", "N"}.intersection(given_out)
    assert all(n.isidentifier() and "__" not in n for n in given_out)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(alphabet="ab_1N é", max_size=6), max_size=12))
def test_any_names_print_apart(wanted: list[str]) -> None:
    """Values may be called anything; the text has a name of its own for each, and reads back equal."""
    values = [Var(w, INDEX_SCALAR) for w in wanted]
    body = [Assign((v,), Const(i)) for i, v in enumerate(values)]
    program = program_of(*body, Return((ListExpr(tuple(values)),)))
    text = str(program)
    assert "__" not in text
    assert parse(text) == program


def test_names_do_not_collide_with_dimensions_or_modules() -> None:
    n, x, m = Var("N", INDEX_SCALAR), Var("N", INDEX_SCALAR), Var("pld", INDEX_SCALAR)
    f = Function("kernel", (Param(x),), (Assign((m,), Binary("+", n, x)), Assign((), Call("pld.tile.sync", (m,)))))
    program = Program("P", (f,), (n,), ("import pypto.language.distributed as pld",))
    text = str(program)
    assert 'N = pl.dynamic("N")' in text
    assert "def kernel(self, N_1: pl.Scalar[pl.INDEX])" in text
    assert "pld_1: pl.Scalar[pl.INDEX] = N + N_1" in text
    assert "pld.tile.sync(pld_1)" in text
    assert parse(text) == program


def test_function_names_and_their_calls_change_together() -> None:
    callee = Function("work__ssa_v0", (), (Pass(),))
    caller = Function(
        "main",
        (),
        (
            Assign((), Call("self.work__ssa_v0")),
            Assign((), Call("submit", (Symbol("self.work__ssa_v0"),))),
        ),
        kind="Orchestration",
    )
    program = Program("P__ssa_v0", (callee, caller))
    text = str(program)
    assert "class P:" in text
    assert "def work(self):" in text
    assert "        self.work()\n        pl.submit(self.work)\n" in text
    assert parse(text) == program
    assert hash(parse(text)) == hash(program)


def test_no_reserved_delimiter_in_any_golden_text() -> None:
    for _, text in GOLDEN:
        assert "__" not in re.sub(r'"[^"]*"', '""', str(parse(text)))


# -- types ---------------------------------------------------------------------------------------------------------------------


def test_view_prints_what_differs_in_order() -> None:
    n = 5
    full = View(
        valid_shape=(8, n),
        stride=(64, 1),
        start_offset=16,
        blayout="row_major",
        slayout="none_box",
        fractal=1024,
        pad="zero",
        compact="normal",
    )
    assert annotation(TileType((16, 64), BF16, Space.MAT, full)) == (
        "pl.Tile[[16, 64], pl.BF16, pl.Mem.Mat, pl.TileView(valid_shape=[8, 5], stride=[64, 1], start_offset=16, "
        "blayout=pl.TileLayout.row_major, slayout=pl.TileLayout.none_box, fractal=1024, pad=pl.PadValue.zero, "
        "compact=pl.CompactMode.normal)]"
    )


@pytest.mark.parametrize(
    ("space", "layout"),
    [
        (Space.MAT, ("col_major", "row_major", 512)),
        (Space.LEFT, ("col_major", "row_major", 512)),
        (Space.RIGHT, ("row_major", "col_major", 512)),
        (Space.ACC, ("col_major", "row_major", 1024)),
        (Space.VEC, ("row_major", "none_box", 512)),
        (None, ("row_major", "none_box", 512)),
    ],
)
def test_what_a_space_implies_is_not_printed(space: Space | None, layout: tuple[str, str, int]) -> None:
    blayout, slayout, fractal = layout
    view = View(valid_shape=(16, 64), blayout=blayout, slayout=slayout, fractal=fractal)
    where = f", pl.Mem.{space.value}" if space else ""
    assert annotation(TileType((16, 64), FP32, space, view)) == f"pl.Tile[[16, 64], pl.FP32{where}]"
    other = View(blayout="row_major" if blayout == "col_major" else "col_major")
    assert f"blayout=pl.TileLayout.{other.blayout}" in annotation(TileType((16, 64), FP32, space, other))


def test_tensor_view_is_kept_as_written() -> None:
    head = HEAD.replace("BF16]", "BF16, pl.TensorView(stride=[n_total__ssa_v0, 1], layout=pl.TensorLayout.DN)]", 1)
    head = head.replace("self, ", "self, n_total__ssa_v0: pl.Scalar[pl.INDEX], ")
    program = parse(text_of("return a", head))
    assert "pl.Tensor[[16, 256], pl.BF16, pl.TensorView(stride=[n_total, 1], layout=pl.TensorLayout.DN)]" in str(program)
    assert parse(str(program)) == program


# -- statements and functions ------------------------------------------------------------------------------------------------


def test_functions_keep_what_they_were_declared_as() -> None:
    """Decorator arguments, kind, parameter order, directions, defaults, self, declared results and docstring come back."""
    text = """import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIV, level=pl.Level.CHIP_DIE, role=pl.Role.SubWorker, attrs={"core_num": 4, "x": [1, True]})
    def b_second(z: pl.Tensor[[4], pl.FP32], a: pl.InOut[pl.Tensor[[4], pl.FP32]], n: pl.Scalar[pl.INT64] = 3) -> pl.Tensor[[4], pl.FP32]:
        \"\"\"Says what it does.\"\"\"
        return a
    @pl.function
    def a_first(self):
        pass
    @pl.function(type=pl.FunctionType.Graph)
    def c(self, out: pl.Out[pl.Tensor[[4], pl.FP32]], h: pl.Ptr[pl.INT8]) -> tuple[pl.Tensor[[4], pl.FP32], pl.Scalar[pl.BOOL]]:
        return out, True
"""  # noqa: E501
    assert str(parse(text)) == "# pypto.program: P\n" + text.replace("pl\n@", "pl\n\n@")


def test_loop_headers() -> None:
    text = text_of("""
for i in pl.range(4):
    pass
for i in pl.parallel(2, 4):
    pass
for i in pl.unroll(2, 8, 3):
    pass
for i, (x, y) in pl.pipeline(n, stage=3, init_values=(1, n), attrs={"pipeline_overlap_stores": False}):
    x, y = pl.yield_(y, x)
for i in pl.spmd(8, name_hint='block'):
    pass
for h in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
    pass
return x
""")
    printed = str(parse(text)).partition("):\n")[2]
    expected = """        for i in pl.range(4):
            pass
        for i_1 in pl.parallel(2, 4):
            pass
        for i_2 in pl.unroll(2, 8, 3):
            pass
        for i_3, (x, y) in pl.pipeline(n, stage=3, init_values=(1, n), attrs={"pipeline_overlap_stores": False}):
            x_1, y_1 = pl.yield_(y, x)
        for i_4 in pl.spmd(8, name_hint='block'):
            pass
        for h in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            pass
        return x_1
"""
    assert printed == expected


def test_scalars_print_bare_or_with_their_type() -> None:
    cases: list[tuple[Expr, str]] = [
        (Const(3), "3"),
        (Const(-3), "-3"),
        (Const(3, INDEX), "3"),
        (Const(3, INT64), "pl.const(3, pl.INT64)"),
        (Const(1.5), "1.5"),
        (Const(1.5, BF16), "pl.const(1.5, pl.BF16)"),
        (Const(float("inf")), "1e309"),
        (Const(float("-inf"), FP32), "pl.const(-1e309, pl.FP32)"),
        (Const(True), "True"),
        (Const(None), "None"),
        (Const('it\'s "so"'), "'it\\'s \"so\"'"),
        (Binary("*", Binary("+", Const(1), Const(2)), Const(3)), "(1 + 2) * 3"),
        (Binary("-", Const(1), Binary("-", Const(2), Const(3))), "1 - (2 - 3)"),
        (ListExpr((Const(1),), is_tuple=True), "(1,)"),
    ]
    for e, text in cases:
        assert print_expr(e) == text


def test_docstring_of_any_text() -> None:
    for doc in ("Plain.", 'With """ quotes', "two\nlines", "back\\slash", "tab\t", ""):
        program = Program("P", (Function("kernel", (), (Pass(),), doc=doc),))
        assert parse(str(program)).functions[0].doc == doc


def test_one_function_on_its_own() -> None:
    f = parse(text_of(SPLIT_K)).functions[0]
    text = print_function(f)
    assert text.startswith("@pl.function(type=pl.FunctionType.InCore)\ndef kernel(self, a: ")
    assert str(parse(text_of(SPLIT_K))).endswith("".join(f"    {line}\n" for line in text.splitlines()))


X = Var("x", INDEX_SCALAR)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ((Return((X,)),), "'x' is used before it is defined"),
        ((Yield((ZERO,)),), "a yield that is not the last statement"),
        ((If(Const(True), (Yield((ZERO,)),), None, (X,)),), "has no else"),
        ((If(Const(True), (Yield((ZERO,)),), (), (X,)),), "does not end with a yield"),
        ((For(LoopKind.RANGE, Var("i"), ZERO, ONE, ONE, (Yield((ZERO, ONE)),), (Var("c"),), (ZERO,), (X,)),), "as many values"),
    ],
)
def test_what_cannot_be_written_is_refused(body: tuple[Stmt, ...], problem: str) -> None:
    with pytest.raises(PrintError, match=problem):
        str(program_of(*body))


def test_the_same_text_in_every_process() -> None:
    """Names and text depend on no hash seed."""
    script = (
        "import sys; sys.path.insert(0, 'tests'); import generate; from ir_bridge.ir.parser import parse\n"
        "print(''.join(str(parse(generate.program_text(i))) for i in range(5)))"
    )
    texts = set()
    for seed in ("0", "1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True)
        texts.add(done.stdout)
    assert len(texts) == 1
    assert texts.pop().count("class Generated:") == 5


# -- equality ----------------------------------------------------------------------------------------------------------------


def test_equal_up_to_names_places_and_docstrings() -> None:
    one = parse(text_of(SPLIT_K))
    renamed = re.sub(r"\b(c|k|l|r|out|a|b)\b", r"\1\1", text_of(SPLIT_K)).replace("kernel(", "kernel(\n        ")
    two = parse(renamed.replace("plpl", "pl"), file="elsewhere.py")
    assert one == two
    assert hash(one) == hash(two)
    assert one.functions[0].loc.file != two.functions[0].loc.file
    documented = replace(one.functions[0], doc="Anything.")
    assert same_function(one.functions[0], documented)


CHANGES = [
    ("stage=2", "stage=3"),
    ("0, 256, 64", "0, 256, 32"),
    ("k == 0", "k != 0"),
    ("pl.pipeline(0, 256, 64, stage=2)", "pl.range(0, 256, 64)"),
    ("pl.matmul_acc(c, l, r)", "pl.matmul_acc(c, l, r, k == 0)"),
    ("[0, 0], out", "[0, 16], out"),
    ("pl.FunctionType.InCore", "pl.FunctionType.AIC"),
    ("pl.Out[", "pl.InOut["),
    ("n: pl.Scalar[pl.INT64]", "n: pl.Scalar[pl.INT32]"),
    ("class P", "class Q"),
    ("def kernel", "def colonel"),
    ("(self, ", "("),
    ("target_memory=pl.Mem.Acc", "target_memory=pl.Mem.Acc, compact=True"),
    ("type=pl.FunctionType.InCore", "type=pl.FunctionType.InCore, level=pl.Level.CHIP"),
    ("return out", "return c"),
    ("[256, 64]", "[256, 80]"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_any_other_difference_counts(change: tuple[str, str]) -> None:
    text = text_of(SPLIT_K)
    assert change[0] in text
    assert parse(text) == parse(text)
    assert parse(text) != parse(text.replace(*change))


def test_swapped_operands_and_values_differ() -> None:
    def body(first: Var, second: Var, swap: bool) -> tuple[Stmt, ...]:
        pair = (second, first) if swap else (first, second)
        return (Assign((first,), Const(1)), Assign((second,), Const(1)), Return((Binary("-", *pair),)))

    def fresh(swap: bool) -> tuple[Stmt, ...]:
        return body(Var("x", INDEX_SCALAR), Var("x", INDEX_SCALAR), swap)

    assert same_block(fresh(False), fresh(False))
    assert not same_block(fresh(False), fresh(True))
    x, y = Var("x"), Var("y")
    assert not same_block((Return((Binary("+", x, x),)),), (Return((Binary("+", x, y),)),))
    assert not same_block((Return((Binary("+", x, y),)),), (Return((Binary("+", x, x),)),))


def test_literals_of_different_kinds_differ() -> None:
    values = [Const(1), Const(True), Const(1.0), Const("1"), Const(None), Const(1, INT64)]
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            assert same_block((Return((a,)),), (Return((b,)),)) == (i == j)


def test_view_fields_that_say_what_is_implied_do_not_count() -> None:
    plain = TileType((16, 64), FP32, Space.ACC)
    spelt = TileType((16, 64), FP32, Space.ACC, View(valid_shape=(16, 64), blayout="col_major", fractal=1024))
    narrow = TileType((16, 64), FP32, Space.ACC, View(valid_shape=(8, 64)))

    def holds(t: TileType) -> tuple[Stmt, ...]:
        return (Assign((Var("x", t),), Call("foo")),)

    assert same_block(holds(plain), holds(spelt))
    assert not same_block(holds(plain), holds(narrow))


@settings(deadline=None, max_examples=40)
@given(generate.programs(max_pieces=3), st.data())
def test_one_changed_word_makes_another_program(text: str, data: st.DataObject) -> None:
    printed = str(parse(text))
    at = data.draw(st.sampled_from([m.start() for m in re.finditer(r"pl\.Out\[", printed)]))
    assert parse(printed[:at] + "pl.InOut[" + printed[at + len("pl.Out[") :]) != parse(printed)


def test_depth_is_no_limit() -> None:
    """Programs made in Python may nest as deep as they like; comparing them takes no recursion."""

    def deep() -> tuple[Stmt, ...]:
        e: Expr = Const(1)
        block: tuple[Stmt, ...] = ()
        for _ in range(20_000):
            e = Binary("+", e, Const(1))
            block = (If(Const(True), block),)
        return (*block, Return((e,)))

    assert same_block(deep(), deep())


def test_whole_program_equals_itself_only_in_order() -> None:
    program = parse(WHOLE)
    assert program != replace(program, functions=program.functions[::-1])
    assert program != replace(program, dynamic=program.dynamic[:1])
    assert program != replace(program, preamble=("import os",))
    assert program != "text"
