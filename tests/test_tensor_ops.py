"""Tensor operations: what they compute, against numpy; their types; how authors write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tensor_texts import kernel, program, tensor

from cost.dtypes import BF16, FP32, INT32
from ir_bridge.ir.interpreter import ExecuteError, execute
from ir_bridge.ir.nodes import Assign, Call, walk
from ir_bridge.ir.parser import parse
from ir_bridge.ir.types import TensorType

RNG = np.random.default_rng(7)


def small(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.integers(-4, 5, shape).astype(dtype)


def run(parameters: str, text: str, **arrays: Any) -> Any:
    """The result of a tensor program as it is written."""
    return execute(parse(program(kernel(parameters, text))), **arrays)["return"]


X, Y = small(16, 32), small(16, 32)
ROW, COL = small(1, 32), small(16, 1)
XY = f"x: {tensor('16, 32')}, y: {tensor('16, 32')}, r: {tensor('1, 32')}, c: {tensor('16, 1')}"
GIVEN = {"x": X, "y": Y, "r": ROW, "c": COL}

ELEMENTWISE: dict[str, Callable[[], Any]] = {
    "pl.add(x, y)": lambda: X + Y,
    "x - y": lambda: X - Y,
    "x * 2.0": lambda: X * 2,
    "pl.maximum(x, r)": lambda: np.maximum(X, ROW),
    "pl.minimum(c, x)": lambda: np.minimum(COL, X),
    "pl.sub(r, c)": lambda: ROW - COL,
    "pl.maximum(x, 1.0)": lambda: np.maximum(X, 1),
    "pl.neg(pl.abs(x))": lambda: -np.abs(X),
    "pl.relu(x)": lambda: np.maximum(X, 0),
    "pl.row_sum(x)": lambda: X.sum(1, keepdims=True),
    "pl.row_max(x)": lambda: X.max(1, keepdims=True),
    "pl.col_sum(x)": lambda: X.sum(0, keepdims=True),
    "pl.col_sum(x, is_binary=True)": lambda: X.sum(0, keepdims=True),
    "pl.col_max(x)": lambda: X.max(0, keepdims=True),
    "pl.row_expand_sub(x, c)": lambda: X - COL,
    "pl.col_expand_mul(x, r)": lambda: X * ROW,
    "pl.transpose(x, 0, 1)": lambda: X.T,
    "pl.reshape(x, [32, 16])": lambda: X.reshape(32, 16),
    "pl.cmp(x, y, cmp_type=2)": lambda: (X < Y).astype(np.float32),
    "pl.cmp(x, r, cmp_type=5)": lambda: (ROW <= X).astype(np.float32),
    "pl.cmp(x, 0.0)": lambda: (X == 0).astype(np.float32),
    "pl.sel(pl.cmp(x, y, cmp_type=4), x, y)": lambda: np.maximum(X, Y),
    "pl.full([2, 8], dtype=pl.INT32, value=3)": lambda: np.full((2, 8), 3, np.int32),
    "pl.cast(x, pl.INT32)": lambda: X.astype(np.int32),
    "x[4:12, :]": lambda: X[4:12],
    "x[3, 8:16]": lambda: X[3:4, 8:16],
    "pl.slice(x, [8, 8], [8, 24])": lambda: X[8:16, 24:32],
}


@pytest.mark.parametrize("text", ELEMENTWISE)
def test_against_numpy(text: str) -> None:
    found = run(XY, f"return {text}", **GIVEN)
    expected = ELEMENTWISE[text]()
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["BF16", "FP16", "FP32", "INT8"])
@pytest.mark.parametrize("at", [False, True])
@pytest.mark.parametrize("bt", [False, True])
def test_products(dtype: str, at: bool, bt: bool) -> None:
    held = {"BF16": ml_dtypes.bfloat16, "FP16": np.float16, "FP32": np.float32, "INT8": np.int8}[dtype]
    out = "INT32" if dtype == "INT8" else "FP32"
    a, b = small(12, 20, dtype=held), small(20, 9, dtype=held)
    sizes = ("20, 12" if at else "12, 20"), ("9, 20" if bt else "20, 9")
    found = run(
        f"a: {tensor(sizes[0], dtype)}, b: {tensor(sizes[1], dtype)}",
        f"c = pl.matmul(a, b, a_trans={at}, b_trans={bt}, out_dtype=pl.{out})\n"
        f"return pl.matmul_acc(c, a, b, a_trans={at}, b_trans={bt})",
        a=a.T.copy() if at else a,
        b=b.T.copy() if bt else b,
    )
    assert np.array_equal(found, 2 * (a.astype(np.int64) @ b.astype(np.int64)))


def test_batched_products_stretch() -> None:
    a, b = small(3, 1, 4, 8), small(2, 8, 5)
    found = run(f"a: {tensor('3, 1, 4, 8')}, b: {tensor('2, 8, 5')}", "return pl.matmul(a, b)", a=a, b=b)
    assert np.array_equal(found, a @ b)


def test_products_round_once_to_the_type_asked_for() -> None:
    a, b = small(8, 64, dtype=ml_dtypes.bfloat16), small(64, 8, dtype=ml_dtypes.bfloat16)
    parameters = f"a: {tensor('8, 64', 'BF16')}, b: {tensor('64, 8', 'BF16')}"
    exact = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(run(parameters, "return pl.matmul(a, b)", a=a, b=b), exact.astype(ml_dtypes.bfloat16))
    assert np.array_equal(run(parameters, "c: pl.Tensor[[8, 8], pl.FP32] = pl.matmul(a, b)\nreturn c", a=a, b=b), exact)


def test_scatter_update() -> None:
    base, src = small(8, 16), small(4, 16)
    index = np.array([[5, 0], [7, 5]], np.int32)
    expected = base.copy()
    for k, row in enumerate(index.reshape(-1)):
        expected[row] = src[k]
    found = run(
        f"b: {tensor('8, 16')}, i: {tensor('2, 2', 'INT32')}, s: {tensor('4, 16')}",
        "return pl.scatter_update(b, -2, i, s)",
        b=base,
        i=index,
        s=src,
    )
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("text", "shape"), [("", (3, 5)), (", dim=0", (3, 32)), (", dim=-1", (16, 5))])
def test_gathers(text: str, shape: tuple[int, int]) -> None:
    index = RNG.integers(0, 16, shape).astype(np.int32)
    found = run(f"x: {tensor('16, 32')}, i: {tensor(f'{shape[0]}, {shape[1]}', 'INT32')}", f"return pl.gather(x, i{text})",
                x=X, i=index)  # fmt: skip
    expected = {
        "": lambda: X.reshape(-1)[index],
        ", dim=0": lambda: np.take_along_axis(X, index, 0),
        ", dim=-1": lambda: np.take_along_axis(X, index, 1),
    }[text]()
    assert np.array_equal(found, expected)


def test_paged_gather() -> None:
    pool = small(32, 8)
    table, index = np.array([3, 0, 2, 1], np.int32), np.array([9, 0, 31, 17], np.int32)
    rows = [table[i // 8] * 8 + i % 8 for i in index]
    found = run(
        f"p: {tensor('32, 8')}, i: {tensor('4', 'INT32')}, t: {tensor('4', 'INT32')}",
        "return pl.paged_gather(p, i, t, block_size=8, max_indices=6, size=8)",
        p=pool,
        i=index,
        t=table,
    )
    assert np.array_equal(found[:4], pool[rows])


def test_gathered_rows_with_a_run_time_extent() -> None:
    pool = small(32, 8)
    found = run(
        f"p: {tensor('32, 8')}, n: pl.Scalar[pl.INDEX]",
        """
        kv = pl.create_l1([16, 8], pl.FP32)
        kv = pl.gather_row(kv, p, [0, 0], [20, 0], [16, 8], valid_shape=[n, 8])
        kv = pl.gather_row(kv, p, [n, 0], [0, 0], [16, 8], valid_shape=[16 - n, 8])
        return kv
        """,
        p=pool,
        n=5,
    )
    assert np.array_equal(found, np.concatenate([pool[20:25], pool[:11]]))


def test_a_split_works_on_halves_and_joins_them() -> None:
    """Column sums see half the rows each: the lanes are really apart."""
    found = run(
        f"x: {tensor('16, 32')}",
        """
        raw = pl.add(x, 0.0)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            h = pl.aiv_shard(raw)
            s = pl.col_expand_sub(h, pl.col_sum(h))
            full = pl.aic_gather(s)
        return full
        """,
        x=X,
    )
    halves = [h - h.sum(0, keepdims=True) for h in (X[:8], X[8:])]
    assert np.array_equal(found, np.concatenate(halves))


def test_a_partial_result_leaves_the_rest_of_its_memory_alone() -> None:
    found = run(f"x: {tensor('16, 32')}, n: pl.Scalar[pl.INDEX]", "return pl.exp(pl.set_validshape(x, n, 32))", x=X, n=5)
    assert np.array_equal(found[:5], np.exp(X[:5]))
    assert len(np.unique(found[5:])) == 1  # as allocated


def test_windows_are_copies_and_writes_go_to_memory() -> None:
    found = execute(
        parse(program(kernel(f"g: pl.InOut[{tensor('16, 32')}]",
                             "s = g[0:4, :]\npl.write(g, [0, 0], 99.0)\nt = g[0:4, :]\nreturn pl.sub(t, s)"))),
        g=X,
    )  # fmt: skip
    assert found["g"][0, 0] == 99
    assert found["return"][0, 0] == 99 - X[0, 0]
    assert np.count_nonzero(found["return"]) == 1


@pytest.mark.parametrize("kind", [6, -1])
def test_a_comparison_that_is_none_is_refused_with_those_there_are(kind: int) -> None:
    with pytest.raises(ExecuteError, match=f"tensor.cmp: cmp_type {kind}; known: 0 eq, 1 ne"):
        run(XY, f"return pl.cmp(x, y, cmp_type={kind})", **GIVEN)


# -- types and spellings -------------------------------------------------------------------------------------------------


def types(parameters: str, text: str) -> list[Any]:
    f = parse(program(kernel(parameters, text))).functions[0]
    return [s.target.type for s in walk(f.body) if isinstance(s, Assign) and len(s.targets) == 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = pl.matmul(x, w)", TensorType((16, 8), BF16)),
        ("a = pl.matmul(x, w, out_dtype=pl.FP32)", TensorType((16, 8), FP32)),
        ("a = pl.matmul(i, i, b_trans=True)", TensorType((16, 16), INT32)),
        ("a = pl.row_max(x)", TensorType((16, 1), BF16)),
        ("a = pl.cast(x, pl.FP32)", TensorType((16, 32), FP32)),
        ("a = pl.create_tensor([4, 4], pl.FP32)", TensorType((4, 4), FP32)),
        ("a = x[0:8, 4]", TensorType((8, 1), BF16)),
        ("a = pl.paged_gather(x, i, i, block_size=4, max_indices=64, size=32, is_trans=True)", TensorType((32, 64), BF16)),
    ],
)
def test_types(text: str, expected: TensorType) -> None:
    parameters = f"x: {tensor('16, 32', 'BF16')}, w: {tensor('32, 8', 'BF16')}, i: {tensor('16, 32', 'INT8')}"
    assert types(parameters, text + "\nreturn a")[0] == expected


@pytest.mark.parametrize(
    "step", ["i * 16 : (i + 1) * 16", "16 * i : i * 16 + 16", "i * 16 : 16 + i * 16", "(i + 1) * 16 - 16 : i * 16 + 16"]
)
def test_windows_of_affine_bounds_have_fixed_sizes(step: str) -> None:
    found = types(f"x: {tensor('64, 32')}", f"for i in pl.range(4):\n    a = x[{step}, :]\nreturn x")
    assert TensorType((16, 32), FP32) in found


def test_nested_calls_become_statements() -> None:
    f = parse(program(kernel(f"x: {tensor('16, 32')}", "return pl.exp(pl.neg(pl.add(x, 1.0)))"))).functions[0]
    ops = [s.value.op for s in f.body if isinstance(s, Assign) and isinstance(s.value, Call)]
    assert ops == ["tensor.add", "tensor.neg", "tensor.exp"]
