"""Phases 2a and 2b: wrappers forward new outputs, callers allocate them, in their own terms (specification 2)."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_texts import assert_same, converted, equal_results, kernel, lines, program, tensor

from ir_bridge.convert import ConvertError, convert
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.interpreter_inputs import random_inputs
from ir_bridge.ir.parser import parse

X = f"x: {tensor('16, 64')}"
EXP = kernel(X, "y = pl.exp(x)\nreturn y", tensor("16, 64"))


def caller(text: str, kind: str = "Orchestration", parameters: str = X, name: str = "main", returns: str = "") -> str:
    return kernel(parameters, text, returns, kind=kind, name=name)


# -- callers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Orchestration", "Opaque"])
def test_a_caller_allocates_before_the_call(kind: str) -> None:
    text = converted(EXP, caller("r = self.kernel(x)\nreturn r", kind))
    create, call = lines(text, "ret0_out")[-2:]
    assert create == "pl.tensor.create([16, 64], dtype=pl.FP32, layout=pl.TensorLayout.ND)"
    assert call == "self.kernel(x, ret0_out)"


def test_each_call_has_storage_of_its_own() -> None:
    text = converted(EXP, caller("a = self.kernel(x)\nb = self.kernel(a)\nreturn a, b"))
    assert len(lines(text, "tensor.create")) == 2
    assert lines(text, "self.kernel") == ["self.kernel(x, ret0_out)", "self.kernel(a, ret0_out_1)"]


def test_a_call_in_a_loop_allocates_in_the_loop() -> None:
    text = converted(EXP, caller("for i in pl.range(3):\n    x = self.kernel(x)\nreturn x"))
    create = next(line for line in text.splitlines() if "tensor.create" in line)
    assert create.startswith(" " * 12)


def test_outputs_go_before_communication_contexts() -> None:
    k = kernel(f"{X}, ctx: pld.CommContext", "return pl.exp(x)")
    text = converted(k, caller("r = self.kernel(x, ctx)\nreturn r", parameters=f"{X}, ctx: pld.CommContext"))
    assert lines(text, "self.kernel") == ["self.kernel(x, ret0_out, ctx)"]


def test_written_parameters_are_outputs_of_the_callers_too() -> None:
    k = kernel(X, "pl.tensor.write(x, [0, 0], 1.0)\nreturn x")
    text = converted(k, caller("r = self.kernel(x)\nreturn r"))
    assert "def main(self, x: pl.Out[" in text


# -- wrappers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Spmd", "Group"])
def test_a_wrapper_forwards_and_allocates_nothing(kind: str) -> None:
    wrap = caller("y = self.kernel(x)\nreturn y", kind, name="wrap")
    text = converted(EXP, wrap, caller("y = self.wrap(x)\nreturn y"))
    main_part = text.split("def main")[1]
    wrap_part = text.split("def wrap")[1].split("@pl.function")[0]
    assert "ret0_out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]" in wrap_part
    assert "tensor.create" not in wrap_part
    assert "self.kernel(x, ret0_out)" in wrap_part
    assert "self.wrap(x, ret0_out)" in main_part


def test_nested_wrappers_in_any_order_of_the_text() -> None:
    functions = (
        caller("y = self.outer(x)\nreturn y"),
        caller("y = self.wrap(x)\nreturn y", "Group", name="outer"),
        caller("y = self.kernel(x)\nreturn y", "Spmd", name="wrap"),
        EXP,
    )
    text = converted(*functions)
    assert [line for line in lines(text, "self.") if "def" not in line] == [
        "self.outer(x, ret0_out)",
        "self.wrap(x, ret0_out)",
        "self.kernel(x, ret0_out)",
    ]


def test_private_outputs_of_a_group_are_no_results() -> None:
    """Two calls, one result: both calls' outputs are parameters, and the result is one tensor still."""
    wrap = caller("t = self.kernel(x)\ny = self.kernel(t)\nreturn y", "Group", name="wrap", returns=tensor("16, 64"))
    text = converted(EXP, wrap, caller("y = self.wrap(x)\nreturn y"))
    signature = next(line for line in text.splitlines() if "def wrap" in line)
    assert signature.count("pl.Out[") == 2
    assert signature.endswith("-> pl.Tensor[[16, 64], pl.FP32]:")
    assert len(lines(text, "tensor.create")) == 2


def test_attributes_are_stated_in_the_body() -> None:
    wrap = kernel(X, "y = self.kernel(x)\nreturn y", kind="Spmd", name="wrap", decorator=', attrs={"core_num": 4}')
    text = converted(EXP, wrap)
    assert 'pl.func_attr({"core_num": 4})' in text.replace("'", '"')
    assert "attrs=" not in text


# -- submissions ----------------------------------------------------------------------------------------------------------


def test_an_orchestration_leaves_outputs_of_tasks_to_the_runtime() -> None:
    text = converted(EXP, caller("y, tid = pl.submit(self.kernel, x)\nreturn y"))
    assert "pl.submit(self.kernel, x)" in text
    assert "tensor.create" not in text


def test_a_group_forwards_outputs_of_tasks_and_fills_those_left_out() -> None:
    k = kernel(f"{X}, out: pl.Out[{tensor('16, 64')}]", "out[:, :] = pl.exp(x)\ny = pl.neg(x)\nreturn out, y")
    wrap = caller("o, y, tid = pl.submit(self.kernel, x)\nreturn y", "Group", name="wrap")
    text = converted(k, wrap)
    signature = next(line for line in text.splitlines() if "def wrap" in line)
    assert signature.count("pl.Out[") == 2
    assert "pl.submit(self.kernel, x, out, ret1_out)" in text


def test_left_out_outputs_of_tasks_are_filled_without_new_ones() -> None:
    k = kernel(f"{X}, out: pl.Out[{tensor('16, 64')}]", "out[:, :] = pl.exp(x)\nreturn out")
    wrap = caller("o, tid = pl.submit(self.kernel, x)\nreturn o", "Group", name="wrap")
    text = converted(k, wrap)
    assert "pl.submit(self.kernel, x, out)" in text


# -- signature shapes -----------------------------------------------------------------------------------------------------


def test_sizes_are_bound_to_the_arguments() -> None:
    k = kernel("a: pl.Tensor[[N, 64], pl.FP32]", "return pl.add(a, a)")
    text = converted(k, caller("r = self.kernel(x)\nreturn r"))
    assert "pl.tensor.create([16, 64]" in text


def test_substitution_is_simultaneous() -> None:
    """The callee's [N, M] is the caller's [M, 128]: its [N, 64] result is [M, 64], not [128, 64]."""
    k = kernel("a: pl.Tensor[[N, M], pl.FP32]", "s = pl.slice(a, [N, 64], [0, 0])\nreturn s")
    text = converted(k, caller("r = self.kernel(x)\nreturn r", parameters="x: pl.Tensor[[M, 128], pl.FP32]"))
    assert "pl.tensor.create([M, 64]" in text


def test_scalars_are_bound() -> None:
    k = kernel(
        "a: pl.Tensor[[N, 64], pl.FP32], n: pl.Scalar[pl.INDEX]",
        "s: pl.Tensor[[n, 64], pl.FP32] = pl.slice(a, [n, 64], [0, 0])\nreturn pl.add(s, s)",
    )
    text = converted(k, caller("r = self.kernel(x, k + 1)\nreturn r", parameters=f"{X}, k: pl.Scalar[pl.INDEX]"))
    assert "pl.tensor.create([k + 1, 64]" in text


def test_sizes_of_tensors_are_bound_through_wrappers() -> None:
    k = kernel("a: pl.Tensor[[N, 64], pl.FP32]", "return pl.add(a, a)")
    wrap = caller("y = self.kernel(x)\nreturn y", "Group", name="wrap", parameters="x: pl.Tensor[[M, 64], pl.FP32]")
    text = converted(k, wrap, caller("y = self.wrap(x)\nreturn y"))
    assert "ret0_out: pl.Out[pl.Tensor[[M, 64], pl.FP32]]" in text.split("def wrap")[1]
    assert "pl.tensor.create([16, 64]" in text


def test_a_size_the_wrapper_computes_is_refused() -> None:
    k = kernel(
        "a: pl.Tensor[[N, 64], pl.FP32], n: pl.Scalar[pl.INDEX]",
        "s: pl.Tensor[[n, 64], pl.FP32] = pl.slice(a, [n, 64], [0, 0])\nreturn pl.add(s, s)",
    )
    wrap = caller("m = k * 2\ny = self.kernel(x, m)\nreturn y", "Group", name="wrap", parameters=f"{X}, k: pl.Scalar[pl.INDEX]")
    with pytest.raises(ConvertError, match="pass m to wrap as a scalar parameter"):
        converted(k, wrap)


# -- as a whole -----------------------------------------------------------------------------------------------------------


def test_programs_with_callers_compute_the_same() -> None:
    functions = (
        kernel("a: pl.Tensor[[N, 64], pl.FP32], n: pl.Scalar[pl.INDEX]", "return pl.add(a, 1.0), pl.col_sum(a)"),
        caller("t, s = self.kernel(x, 3)\nu, v = self.kernel(t, 4)\nreturn u, s", "Group", name="wrap"),
        caller("for i in pl.range(3):\n    x, s = self.wrap(x)\nreturn x"),
    )
    source = parse(program(*functions))
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    assert equal_results(execute(source, x=x), execute(convert(source), x=x))
    assert np.array_equal(execute(source, x=x)["return"], x + 6)


def test_functions_that_call_each_other_are_refused() -> None:
    with pytest.raises(ConvertError, match="calls itself"):
        converted(
            EXP,
            caller("r = self.b(x)\nreturn r", name="a"),
            caller("r = self.a(x)\ns = self.kernel(r)\nreturn s", name="b"),
        )


def test_a_program_with_nothing_to_convert_comes_back() -> None:
    source = parse(program(caller("return x")))
    assert convert(source) is source


def test_core_regions_become_functions() -> None:
    text = converted(
        caller(
            """
            t = pl.create_tensor([16, 64], dtype=pl.FP32)
            with pl.at(level=pl.Level.CORE_GROUP):
                a = pl.exp(x)
                t[0:16, 0:64] = a
                s = pl.row_sum(a)
            for i in pl.spmd(4):
                t[i * 4 : i * 4 + 4, 0:64] = pl.neg(x[i * 4 : i * 4 + 4, 0:64])
            return t, s
            """,
            "Opaque",
        )
    )
    assert text.count("type=pl.FunctionType.InCore") == 2
    calls = lines(text, "self.main_incore")
    assert calls == ["self.main_incore_0(x, t, ret1_out)", "self.main_incore_1(x, i, t_2)"]
    assert_same(text, str(parse(text)))


def test_core_regions_compute_the_same() -> None:
    source = parse(
        program(
            caller(
                """
                for j in pl.range(2):
                    with pl.at(level=pl.Level.CORE_GROUP):
                        a = pl.add(x, 1.0)
                        b = pl.row_sum(a)
                    with pl.at(level=pl.Level.CORE_GROUP):
                        x = pl.row_expand_sub(a, b)
                return x
                """
            )
        )
    )
    x = np.ones((16, 64), np.float32)
    tiles = convert(source)
    assert equal_results(execute(source, x=x), execute(tiles, x=x))
    assert parse(str(tiles)) == tiles


UNDECLARED = kernel(X, "return pl.exp(x)", name="f")
PAIR = kernel(X, "return pl.exp(x), pl.add(x, x)", name="g")


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("return self.f(x)", ["self.f(x, ret0_out)"]),
        ("return self.f(self.f(x))", ["self.f(x, ret0_out)", "self.f(f, ret0_out_1)"]),
        ("return self.f(x), self.f(x)", ["self.f(x, ret0_out)", "self.f(x, ret0_out_1)"]),
        ("return self.g(x)", ["self.g(x, ret0_out, ret1_out)"]),
        ("return self.g(x)[1]", ["self.g(x, ret0_out, ret1_out)"]),
        ("a, b = self.g(self.f(x))\nreturn b", ["self.f(x, ret0_out)", "self.g(f, ret0_out_1, ret1_out)"]),
    ],
)
@pytest.mark.parametrize("order", [(UNDECLARED, PAIR), ()], ids=["callees first", "callees last"])
def test_calls_inside_of_returns_and_calls_are_given_their_outputs(body: str, calls: list[str], order: tuple[str, ...]) -> None:
    """No function declares its results here: what a callee returns counts, and is not known yet where it comes later."""
    main = kernel(X, body, kind="Orchestration", name="main")
    before = parse(program(*order, main, *(() if order else (UNDECLARED, PAIR))))
    after = convert(before)
    text = str(after)
    assert lines(text.split("def main")[1].split("    @pl.function")[0], "self.") == calls
    assert parse(text) == after
    inputs = random_inputs(before, function="main", seed=1)
    assert equal_results(execute(before, "main", **inputs), execute(after, "main", **inputs))


def test_results_that_nobody_declares_have_the_type_that_is_returned() -> None:
    main = kernel(
        X,
        "y = self.f(x)\nwith pl.at(level=pl.Level.CORE_GROUP):\n    z = pl.add(y, y)\nreturn z",
        kind="Opaque",
        name="main",
    )
    assert "tile.add(y_tile, y_tile)" in converted(UNDECLARED, main)


def test_a_call_in_an_expression_that_has_no_room_for_outputs_is_refused() -> None:
    scalar = kernel(X, "return pl.exp(x), x[0, 0]", name="h")
    main = kernel(X, "n = pl.cast(self.h(x), pl.INT32) + 1\ny = pl.foo([self.h(x)])\nreturn x", kind="Opaque", name="main")
    with pytest.raises(ConvertError, match=r"main: a call of h inside of an expression.*y = self\.h\(\.\.\.\)"):
        converted(scalar, main)


@pytest.mark.parametrize("returns", [tensor("N, 64"), ""], ids=["declared", "not declared"])
def test_sizes_of_a_callee_are_bound_through_a_chain_of_calls(returns: str) -> None:
    """What the first call gives has the caller's sizes, so that the second call's storage has them too."""
    k = kernel(f"x: {tensor('N, 64')}", "y = pl.exp(x)\nreturn y", returns)
    before = parse(program(k, caller("r = self.kernel(x)\ns = self.kernel(r)\nreturn s")))
    after = convert(before)
    assert lines(str(after), "tensor.create") == ["pl.tensor.create([16, 64], dtype=pl.FP32, layout=pl.TensorLayout.ND)"] * 2
    inputs = random_inputs(before, seed=1)
    assert equal_results(execute(before, **inputs), execute(after, **inputs))


def test_arguments_given_by_name_go_before_the_outputs() -> None:
    k = kernel(f"{X}, y: {tensor('16, 64')}", "return pl.sub(x, y)", tensor("16, 64"))
    main = caller("a = self.kernel(y=x, x=y)\nb = self.kernel(x, y=y)\nreturn a, b", parameters=f"{X}, y: {tensor('16, 64')}")
    before = parse(program(k, main))
    after = convert(before)
    assert lines(str(after), "self.kernel") == ["self.kernel(y, x, ret0_out)", "self.kernel(x, y, ret0_out_1)"]
    inputs = random_inputs(before, seed=1)
    assert equal_results(execute(before, **inputs), execute(after, **inputs))


def test_operators_on_calls_of_functions_are_operations_on_their_results() -> None:
    main = kernel(f"{X}, y: {tensor('16, 64')}", "z = -self.f(x) + 1.0\nreturn self.f(z) * y", kind="Orchestration", name="main")
    before = parse(program(UNDECLARED, main))
    after = convert(before)
    assert lines(str(after), "self.f") == ["self.f(x, ret0_out)", "self.f(z, ret0_out_1)"]
    assert parse(str(before)) == before
    inputs = random_inputs(before, function="main", seed=1)
    assert equal_results(execute(before, "main", **inputs), execute(after, "main", **inputs))
    for op, name in (("~", "not_"), ("-", "neg")):  # of an integer tensor, under the name that Python can say
        ints = kernel(f"x: {tensor('16, 64', 'INT32')}", "return pl.add(x, x)", tensor("16, 64", "INT32"), name="k")
        user = kernel(f"x: {tensor('16, 64', 'INT32')}", f"return {op}self.k(x)", kind="Orchestration", name="main")
        mine = parse(program(ints, user))
        assert f"{name}(k)" in str(mine)
        assert parse(str(mine)) == mine


def test_calls_among_keywords_are_given_names_too() -> None:
    """They become statements of their own, in both what is read and what it is converted to, with the caller's sizes."""
    k = kernel(f"a: {tensor('N, 64')}, b: {tensor('N, 64')}", "return pl.sub(a, b)", tensor("N, 64"))
    main = caller("r = self.kernel(b=self.kernel(b=x, a=pl.exp(x)), a=x)\ns = pl.sub(r, rhs=pl.neg(x))\nreturn s")
    before = parse(program(k, main))
    assert lines(str(before), "self.kernel") == ["self.kernel(b=x, a=exp)", "self.kernel(b=kernel, a=x)"]
    after = convert(before)
    for p in (before, after):
        assert parse(str(p)) == p
    assert lines(str(after), "self.kernel") == ["self.kernel(exp, x, ret0_out)", "self.kernel(x, kernel, ret0_out_1)"]
    assert lines(str(after), "tensor.create") == ["pl.tensor.create([16, 64], dtype=pl.FP32, layout=pl.TensorLayout.ND)"] * 2
    inputs = random_inputs(before, seed=1)
    assert equal_results(execute(before, **inputs), execute(after, **inputs))


def test_keywords_of_a_submission_stay_keywords() -> None:
    k = kernel(X, "return pl.exp(x)", tensor("16, 64"))
    text = converted(k, caller("a, t = pl.submit(self.kernel, x=x, deps=[])\nreturn a", "Group"))
    assert lines(text, "pl.submit") == ["pl.submit(self.kernel, x, ret0_out, deps=[])"]
