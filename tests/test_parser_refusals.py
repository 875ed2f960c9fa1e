"""What the parser refuses, and what it says then: the place, the offending text, what was expected."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parse_texts import GOLDEN, HEAD, SPLIT_K, WHOLE, text_of

from cost.errors import TilesatError
from ir_bridge.ir.parser import MAX_BYTES, MAX_TOKENS, ParseError, load, parse

M = "x = pl.load(a, [0, 0], [16, 64], target_memory=pl.Mem.Mat)\n"

REFUSED: dict[str, tuple[str, int, str, str, str]] = {
    # name: (text, line, offending text, part of the problem, part of what was expected)
    "empty": ("", 0, "", "empty", "@pl.program"),
    "blank": (" \n\t\n", 0, "", "empty", "@pl.program"),
    "comment": ("# only\n", 0, "", "no program", "@pl.program"),
    "not python": ("import pypto.language as pl\nclass :\n", 2, "class :", "not Python", "Python"),
    "no class": ("import pypto.language as pl\nx = 1\n", 1, "import", "no program", "@pl.program"),
    "undecorated": ("class A:\n    pass\n", 1, "class A", "not decorated", "@pl.program"),
    "two programs": ("@pl.program\nclass A:\n  pass\n@pl.program\nclass B:\n  pass\n", 5, "class B", "two programs", "one"),
    "no function": ("@pl.program\nclass A:\n    pass\n", 2, "class A", "no function", "@pl.function"),
    "undecorated function": ("@pl.program\nclass A:\n    def f(self): pass\n", 3, "def f", "decorators", "@pl.function"),
    "function type": (
        text_of("return a").replace("InCore", "Incore"),
        4,
        "pl.FunctionType.Incore",
        "did you mean 'InCore'",
        "pl.FunctionType.AIC",
    ),
    "element type": (text_of("return a", HEAD.replace("BF16", "BF17", 1)), 5, "pl.BF17", "BF16", "pl.FP32"),
    "element type of a call": (text_of("x = pl.tile.create([16, 16], dtype=pl.FP33)"), 7, "pl.tile.create", "pl.FP33", ""),
    "memory space": (text_of("x: pl.Tile[[16, 16], pl.FP32, pl.Mem.Matt] = 1"), 7, "pl.Mem.Matt", "memory space", "pl.Mem.Mat"),
    "view field": (
        text_of("x: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat, pl.TileView(valid_shap=[1, 1])] = 1"),
        7,
        "pl.TileView",
        "did you mean 'valid_shape'",
        "stride",
    ),
    "negative dimension": (text_of("return a", HEAD.replace("[16, 256]", "[-16, 256]")), 5, "-16", "negative", "0 or more"),
    "negative shape": (text_of("x = pl.load(a, [0, 0], [-16, 16])"), 7, "x = pl.load", "negative", ""),
    "dimensions": (text_of("return a", HEAD.replace("[16, 256]", f"[{'1,' * 1000}]")), 5, "[1,1", "1000 dimensions", "at most"),
    "million dimensions": (text_of("return a", HEAD.replace("[16, 256]", f"[{'1,' * 10**6}]")), 0, "", "tokens", "at most"),
    "operands": (M + "c = pl.matmul(x, x)", 8, "c = pl.matmul(x, x)", "disagree on K", "tile.matmul"),
    "operand types": (
        M + "y = pl.tile.create([64, 16], dtype=pl.FP16, target_memory=pl.Mem.Mat)\nc = pl.matmul(x, y)",
        9,
        "c = pl.matmul",
        "element types",
        "tile.matmul",
    ),
    "missing argument": ("x = pl.load(a)", 7, "pl.load(a)", "offsets", "tile.load"),
    "misspelt keyword": ("x = pl.load(a, [0, 0], [16, 16], target_memry=pl.Mem.Mat)", 7, "pl.load", "'target_memory'", ""),
    "duplicate parameter": (text_of("return a", HEAD.replace("b:", "a:")), 5, "a: pl.Tensor[[256", "two parameters", "own"),
    "duplicate function": (
        text_of("return a") + "    @pl.function\n    def kernel(self): pass\n",
        9,
        "def kernel",
        "two functions",
        "",
    ),
    "undefined": ("return ot", 7, "ot", "did you mean 'out'", "assigned before"),
    "undefined function": ("x = self.kernal(a)", 7, "self.kernal(a)", "did you mean 'kernel'", "function of this program"),
    "defined in a loop only": ("for i in pl.range(4):\n    z = i\nreturn z", 9, "z", "inside the loop at line 7", "every path"),
    "defined in an arm only": ("if n == 0:\n    z = 1\nreturn z", 9, "z", "branch of the if at line 7", "every path"),
    "parentheses": ("x = " + "(" * 500 + "1" + ")" * 500, 7, "x = ((((", "nested", ""),
    "long sum": ("x = " + "+".join(["1"] * 100_000), 0, "", "nested too deeply", "levels"),
    "deep sum": ("x = " + "+".join(["1"] * 150), 7, "1+1+1", "nested too deeply", "levels"),
    "many signs": ("x = " + "-" * 100_000 + "1", 0, "", "nested too deeply", "levels"),
    "deep lists": ("x = " + "[" * 150 + "]" * 150, 7, "[[[", "nested too deeply", "levels"),
    "long condition": ("x = " + " and ".join(["n"] * 5000), 7, "n and n", "5000 parts", "at most"),
    "many elifs": ("if n == 0:\n    pass\n" + "elif n == 0:\n    pass\n" * 3000, 0, "", "nested too deeply", "levels"),
    "digits": ("x = " + "1" * 5000, 7, "x = 111", "thousands of digits", ""),
    "hexadecimal digits": ("x = 0x" + "f" * 50_000, 7, "0xfff", "200000 bits", "64 bits"),
    "NUL": ("x = 1\0", 7, r"'\x00'", "character", "plain text"),
    "surrogate": ('x = "\ud800"', 7, r"'\ud800'", "character", "plain text"),
    "bytes": ('x = b"a"', 7, 'b"a"', "bytes", "number"),
    "lambda": ("x = lambda: 1", 7, "lambda: 1", "Lambda", ""),
    "call of Python": ('x = eval("1")', 7, 'eval("1")', "'eval'", "pl.<operation>"),
    "Python range": ("for i in range(4):\n    pass", 7, "range(4)", "did you mean 'pl.range'", "pl.pipeline"),
    "import": ("import os", 7, "import os", "Import", ""),
    "stray yield": ("pl.yield_(a)\nreturn a", 7, "pl.yield_(a)", "last statement", ""),
    "carried but not yielded": ("for i, (c,) in pl.range(4, init_values=(a,)):\n    pass", 7, "for i", "yields 0", ""),
    "yielded too many": ("for i, (c,) in pl.range(4, init_values=(a,)):\n    x, y = pl.yield_(c, c)", 8, "x, y", "yields 2", ""),
    "one arm yields": ("if n == 1:\n    x = pl.yield_(a)", 7, "if n == 1", "only one branch", "both"),
    "arms differ": ("if n == 1:\n    x = pl.yield_(a)\nelse:\n    y = pl.yield_(a)", 10, "y = pl", "different names", "same"),
    "pipeline without stage": ("for i in pl.pipeline(4):\n    pass", 7, "pl.pipeline(4)", "without stage", "stage=2"),
    "stage 0": ("for i in pl.pipeline(4, stage=0):\n    pass", 7, "0", "positive", "stage=2"),
    "no bounds": ("for i in pl.range():\n    pass", 7, "pl.range()", "0 bounds", "start"),
    "no condition": ("for (x,) in pl.while_(init_values=(1,)):\n    y = pl.yield_(x)", 8, "y = pl", "condition", "pl.cond"),
    "values and names": ("x, y = 1, 2, 3", 7, "x, y = 1, 2, 3", "3 values for 2 names", ""),
    "annotation without value": ("x: pl.Scalar[pl.INT32]", 7, "x: pl.Scalar", "without a value", "name: type = value"),
    "no type": ("x: 3 = 4", 7, "3", "not a type", "pl.Tensor"),
    "no result": ("x = pl.tensor.write(out, [0, 0], 1.0)", 7, "x = pl", "no result", ""),
    "element of a tensor": ("out[0, 0, 0] = 1.0", 7, "out[0, 0, 0]", "neither", ""),
    "power of a tensor": ("x = a ** 2", 7, "a ** 2", "the operator ** on tensors", "one of + - * / @"),
    "comparison of tensors": ("x = a >= 0.0", 7, "a >= 0.0", "comparison >= of tensors", "pl.cmp(x, y, cmp_type=5)"),
    "scalar by tensor": ("x = 1.0 / a", 7, "1.0 / a", "/ of a scalar by a tensor", "pl.recip(x)"),
    "not of a tensor": ("x = not a", 7, "not a", "not of a tensor", "pl.cmp"),
    "scalar first": ("x = pl.mul(2.0, a)", 7, "pl.mul(2.0, a)", "takes the tensor or tile first", "pl.mul(x, scalar)"),
    "scalar first, minus": ("x = pl.sub(2.0, a)", 7, "pl.sub(2.0, a)", "takes the tensor or tile first", "scalar - x"),
    "break": ("for i in pl.range(3):\n    break", 8, "break", "Break", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_names_place_text_and_expectation(name: str) -> None:
    text, line, offending, problem, expected = REFUSED[name]
    if text.strip() and not text.lstrip().startswith(("import pypto", "@", "#", "class")):
        text = text_of(text)
    began = time.process_time()
    with pytest.raises(ParseError) as caught:
        parse(text, "some.py")
    error = caught.value
    assert time.process_time() - began < 10
    assert isinstance(error, TilesatError)
    assert error.line == line
    assert (error.column > 0) == (line > 0)
    assert error.text.startswith(offending)
    assert problem in error.problem
    assert expected in error.expected
    assert str(error).startswith(f"some.py:{line}:{error.column}: " if line else "some.py: ")
    assert len(str(error)) < 1500


def test_column_counts_characters() -> None:
    with pytest.raises(ParseError) as caught:
        parse(text_of('x = pl.foo("äöü", nowhere)'))
    assert (caught.value.line, caught.value.column) == (7, 27)


def test_too_much_text_is_refused_at_once() -> None:
    began = time.process_time()
    for text in ("x" * (50 << 20), "a = [" + "1," * (MAX_TOKENS + 1) + "]", "a\n" * (MAX_BYTES // 2)):
        with pytest.raises(ParseError, match="at most"):
            parse(text)
    assert time.process_time() - began < 2


def test_deep_but_allowed_nesting_prints_and_compares() -> None:
    loops = "\n".join("    " * i + f"for i{i} in pl.range(4):" for i in range(20)) + "\n" + "    " * 20 + "pass"
    program = parse(text_of(loops + "\nx = " + "(" * 90 + "n" + " + 1)" * 90))
    assert parse(str(program)) == program


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(b"\xef\xbb\xbf" + text_of("return a").encode())
    program = load(path)
    assert program.file == str(path)
    assert program == parse(text_of("return a"))
    assert program.functions[0].loc.file == str(path)


def test_load_refuses_what_is_no_text(tmp_path: Path) -> None:
    latin = tmp_path / "latin.py"
    latin.write_bytes(b'import os\nx = "\xff"\n')
    with pytest.raises(ParseError) as caught:
        load(latin)
    assert (caught.value.line, caught.value.column, caught.value.text) == (2, 6, "byte 0xff")
    with pytest.raises(ParseError, match="cannot be read"):
        load(tmp_path / "missing.py")
    with pytest.raises(ParseError, match="cannot be read"):
        load(tmp_path)
    huge = tmp_path / "huge.py"
    with huge.open("wb") as f:
        f.truncate(50 << 20)
    with pytest.raises(ParseError, match="52428800 bytes"):
        load(huge)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_damaged_text_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    """Cutting, doubling or changing pieces of real text gives a program or a ParseError, nothing else."""
    text = data.draw(st.sampled_from([WHOLE, text_of(SPLIT_K), GOLDEN[0][1], GOLDEN[-1][1]]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 40))
        extra = data.draw(st.sampled_from(["", "(", "]", ",", "\n", ":", "pl.", "self", " = ", "0", "-", "yield_", "None", "é"]))
        text = text[:at] + extra + text[at + length :]
    try:
        program = parse(text)
    except ParseError:
        return
    assert parse(str(program)) == program


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("y = pl.add(x, pl.add(x, z)) + x", r"<string>:\d+:\d+: tensor.add: operands have shapes \[16, 16\] and \[8, 24\]"),
        ("y = 2.0 * pl.minimum(x, z)", r"<string>:\d+:\d+: tensor.minimum: operands have shapes"),
        ("y = -pl.minimum(x, z)", r"<string>:\d+:\d+: tensor.minimum: operands have shapes"),
        ("y = x[x * 16 : 16, 0:16]", r"<string>:\d+:\d+: a tensor or tile as the bound of a slice"),
        ("y = pl.self.f(x, z)", r"<string>:\d+:\d+: 'pl.self.f' is not a function of the language; expected self.f"),
        ("y = pl.reshape(x, [-16, -16])", r"<string>:\d+:\d+: "),
        ("y = x[0 : pl.exp(x), 0:16]", r"<string>:\d+:\d+: a tensor or tile as the bound of a slice"),
    ],
)
def test_operands_of_operators_are_refused_with_their_place(line: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse(
            "import pypto.language as pl\n\n@pl.program\nclass P:\n    @pl.function(type=pl.FunctionType.InCore)\n"
            "    def f(self, x: pl.Tensor[[16, 16], pl.FP32], z: pl.Tensor[[8, 24], pl.FP32]):\n"
            f"        {line}\n        return y\n"
        )
