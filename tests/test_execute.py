"""The reference interpreter against numpy, exact definitions and golden programs."""

from __future__ import annotations

import bisect
import json
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.dtypes import BF16, FP16, FP32, INT8, INT32, DType, dtype
from ir_bridge.ir.interpreter import ExecuteError, execute
from ir_bridge.ir.interpreter_inputs import random_inputs
from ir_bridge.ir.parser import parse
from ir_bridge.ir.semantics_cast import cast
from ir_bridge.ir.semantics_values import UNWRITTEN, numpy_dtype

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "tiled_programs.jsonl").read_text().splitlines()]
BF = ml_dtypes.bfloat16


def kernel(body: str, params: str, more: str = "") -> Any:
    """A program of one InCore function, its body given as lines."""
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return parse(
        'import pypto.language as pl\nN = pl.dynamic("N")\nM = pl.dynamic("M")\n\n@pl.program\nclass P:\n'
        + more
        + f"    @pl.function(type=pl.FunctionType.InCore)\n    def kernel(self, {params}):\n{lines}\n"
    )


def tensor(shape: str, element: str, direction: str = "") -> str:
    t = f"pl.Tensor[[{shape}], pl.{element}]"
    return f"pl.{direction}[{t}]" if direction else t


def run(body: str, params: str, more: str = "", **arrays: Any) -> dict[str, Any]:
    return execute(kernel(body, params, more), "kernel", **arrays)


def same(a: Any, b: Any) -> bool:
    """Bit for bit, up to which NaN it is."""
    a, b = np.asarray(a), np.asarray(b)
    with np.errstate(invalid="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
    return a.dtype == b.dtype and np.array_equal(x, y, equal_nan=True)


# -- golden programs: the tiled one computes what the input computes -----------------------------------------


def distinct_rows() -> list[dict[str, Any]]:
    found = {(r["input"], r["output"]): r for r in ROWS if "output" in r}
    return list(found.values())


def test_tiled_programs_compute_what_their_inputs_compute() -> None:
    for row in distinct_rows():
        before, after = parse(row["input"]), parse(row["output"])
        arrays = random_inputs(before, seed=len(row["output"]))
        one, two = execute(before, **arrays), execute(after, **arrays)
        assert list(one) == list(two)
        for name in one:
            assert same(one[name], two[name]), row["name"]
            assert np.isfinite(one[name].astype(np.float64)).all(), row["name"]


def test_tiled_programs_agree_on_random_floats_within_float32_rounding() -> None:
    for row in distinct_rows()[::4]:
        if "chain" in row["name"]:
            continue  # a last-bit difference may round the intermediate to another bf16
        before, after = parse(row["input"]), parse(row["output"])
        arrays = random_inputs(before, seed=3, integer=False)
        one, two = execute(before, **arrays), execute(after, **arrays)
        for name in one:
            np.testing.assert_allclose(one[name].astype(np.float64), two[name].astype(np.float64), rtol=1e-4, atol=1e-2)


# -- cast modes, against their definitions on the whole grid -------------------------------------------------


Grid = tuple[list[float], list[bool]]


def grid(target: DType) -> Grid:
    """Every finite value of a float type in ascending order (and one step past each end), and whether its last bit is odd."""
    held = numpy_dtype(target)
    patterns = np.arange(1 << target.bits).astype(f"u{held.itemsize}")
    with np.errstate(invalid="ignore"):
        values = patterns.view(held).astype(np.float64)
    found = {float(v): bool(p & 1) for v, p in zip(values, patterns.tolist(), strict=True) if np.isfinite(v)}
    ordered = sorted(found)
    top = 2 * ordered[-1] - ordered[-2]
    return [-top, *ordered, top], [not found[ordered[0]], *[found[v] for v in ordered], not found[ordered[-1]]]


GRIDS = {name: grid(dtype(name)) for name in ("bf16", "fp16", "fp8e4m3fn", "fp8e5m2")}


def by_definition(x: float, points: Grid, mode: str) -> float:
    """The neighbour of ``x`` among ``points`` that a mode takes; beyond the ends, the last two points are the neighbours."""
    values, odd = points
    i = min(max(bisect.bisect_right(values, x) - 1, 0), len(values) - 2)
    low, high = values[i], values[i + 1]
    if x == low and i > 0:
        return low
    if mode in ("floor", "ceil"):
        return low if mode == "floor" else high
    if mode == "trunc":
        return low if x > 0 else high
    if mode == "odd":
        return low if odd[i] else high
    down, up = Fraction(x) - Fraction(low), Fraction(high) - Fraction(x)
    if down != up:
        return low if down < up else high
    if mode == "round":
        return high if x > 0 else low
    return high if odd[i] else low


MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")


def interesting(points: Grid, seed: int) -> list[float]:
    """Points of a grid, ties between them, values beside both, the ends and beyond."""
    rng = np.random.default_rng(seed)
    values = points[0]
    chosen = [0, 1, 2, len(values) // 2, len(values) - 3, len(values) - 2, *rng.integers(0, len(values) - 1, 200).tolist()]
    found = [1e30, -1e30]
    for i in chosen:
        a, b = values[i], values[i + 1]
        found += [a, (a + b) / 2, a + (b - a) * 0.375, a + (b - a) * 0.8125]
    with np.errstate(over="ignore"):
        return [float(x) for x in np.asarray(found, np.float32) if np.isfinite(x)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", sorted(GRIDS))
def test_narrowing_casts_take_the_neighbour_their_mode_says(target: str, mode: str) -> None:
    points, goal = GRIDS[target], dtype(target)
    largest = points[0][-2]
    xs = interesting(points, seed=MODES.index(mode))
    found = cast(np.asarray(xs, np.float32), FP32, goal, mode).astype(np.float64)
    infinite = target != "fp8e4m3fn"
    for x, y in zip(xs, found, strict=True):
        exact = by_definition(x, points, mode)
        if abs(exact) > largest:
            exact = np.copysign(np.inf if infinite else largest, x)
        assert y == exact, (x, y, exact)


@settings(deadline=None, max_examples=200)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(MODES))
def test_fp16_casts_of_any_float(x: float, mode: str) -> None:
    exact = by_definition(x, GRIDS["fp16"], mode)
    expected = np.copysign(np.inf, x) if abs(exact) > 65504 else exact
    assert float(cast(np.float32([x]), FP32, FP16, mode)[0]) == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("rint", [-2, -2, -0, 0, 0, 2, 2, 2, 3]),
        ("none", [-2, -2, -0, 0, 0, 2, 2, 2, 3]),
        ("round", [-3, -2, -1, 0, 1, 2, 2, 3, 3]),
        ("floor", [-3, -2, -1, 0, 0, 1, 1, 2, 2]),
        ("ceil", [-2, -1, 0, 0, 1, 2, 2, 3, 3]),
        ("trunc", [-2, -1, 0, 0, 0, 1, 1, 2, 2]),
        ("odd", [-3, -1, -1, 0, 1, 1, 1, 3, 3]),
    ],
)
def test_casts_to_integers(mode: str, expected: list[int]) -> None:
    x = np.float32([-2.5, -1.75, -0.5, 0.0, 0.5, 1.5, 1.75, 2.5, 2.625])
    assert cast(x, FP32, INT32, mode).tolist() == expected


def test_casts_saturate_integers_and_keep_specials() -> None:
    x = np.float32([1e20, -1e20, np.inf, -np.inf, np.nan, 127.4, -128.6])
    assert cast(x, FP32, INT8, "rint").tolist() == [127, -128, 127, -128, 0, 127, -128]
    assert cast(x[:5], FP32, INT32, "trunc").tolist() == [2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]
    assert cast(np.int32([300, -300, 5]), INT32, INT8, "rint").tolist() == [127, -128, 5]
    y = cast(np.float32([np.inf, -np.inf, np.nan, -0.0]), FP32, FP16, "odd")
    assert np.isposinf(y[0])
    assert np.isneginf(y[1])
    assert np.isnan(y[2])
    assert np.signbit(y[3])


def test_large_integers_round_by_mode_when_they_become_floats() -> None:
    x = np.int32([2**24 + 1, -(2**24) - 1])
    assert cast(x, INT32, FP32, "floor").tolist() == [2.0**24, -(2.0**24) - 2]
    assert cast(x, INT32, FP32, "round").tolist() == [2.0**24 + 2, -(2.0**24) - 2]
    assert cast(x, INT32, FP32, "rint").tolist() == [2.0**24, -(2.0**24)]


def test_widening_is_exact_in_every_mode() -> None:
    x = np.arange(65536, dtype=np.uint16).view(BF)
    for mode in MODES:
        assert same(cast(x, BF16, FP32, mode), x.astype(np.float32))


# -- products ------------------------------------------------------------------------------------------------

PRODUCT = """
l = pl.tile.load(a, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
r = pl.tile.load(b, [0, 0], [64, 48], target_memory=pl.Mem.Mat)
c = pl.tile.matmul(l, r)
out = pl.tile.store(c, [0, 0], out)
"""


@pytest.mark.parametrize(
    ("element", "out"),
    [("BF16", "FP32"), ("FP16", "FP32"), ("FP32", "FP32"), ("INT8", "INT32"), ("INT4", "INT32"), ("FP8E4M3FN", "FP32")],
)
def test_products_of_every_element_type(element: str, out: str) -> None:
    params = f"a: {tensor('32, 64', element)}, b: {tensor('64, 48', element)}, out: {tensor('32, 48', out, 'Out')}"
    arrays = random_inputs(kernel(PRODUCT, params), seed=5)
    exact = arrays["a"].astype(np.int64) @ arrays["b"].astype(np.int64)
    found = run(PRODUCT, params, **arrays)["out"]
    assert found.dtype == (np.int32 if out == "INT32" else np.float32)
    assert np.array_equal(found.astype(np.int64), exact)


def test_int8_extremes_are_exact() -> None:
    params = f"a: {tensor('32, 64', 'INT8')}, b: {tensor('64, 48', 'INT8')}, out: {tensor('32, 48', 'INT32', 'Out')}"
    a, b = np.full((32, 64), -128, np.int8), np.full((64, 48), -128, np.int8)
    assert (run(PRODUCT, params, a=a, b=b)["out"] == 64 * 128 * 128).all()


def test_accumulate_adds_and_a_true_condition_overwrites() -> None:
    body = """
l = pl.tile.load(a, [0, 0], [16, 16], target_memory=pl.Mem.Mat)
s = pl.tile.matmul(l, l)
plain = pl.tile.matmul_acc(s, l, l)
o1 = pl.tile.store(plain, [0, 0], o)
first = pl.tile.matmul_acc(plain, l, l, flag)
o2 = pl.tile.store(first, [16, 0], o1)
"""
    params = f"a: {tensor('16, 16', 'FP32')}, flag: pl.Scalar[pl.BOOL], o: {tensor('32, 16', 'FP32', 'Out')}"
    a = np.arange(256).reshape(16, 16) % 5
    for flag, times in ((True, 1), (False, 3)):
        out = run(body, params, a=a, flag=flag)["o"]
        assert np.array_equal(out[:16], 2 * (a @ a))
        assert np.array_equal(out[16:], times * (a @ a))


def test_a_bias_row_is_added_to_every_row() -> None:
    body = """
l = pl.tile.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
r = pl.tile.load(b, [0, 0], [32, 16], target_memory=pl.Mem.Mat)
m = pl.tile.load(bias, [0, 0], [1, 16], target_memory=pl.Mem.Mat)
t = pl.tile.move(m, target_memory=pl.Mem.Bias)
c = pl.tile.matmul_bias(l, r, t)
o1 = pl.tile.store(c, [0, 0], o)
"""
    params = (
        f"a: {tensor('16, 32', 'INT8')}, b: {tensor('32, 16', 'INT8')}, "
        f"bias: {tensor('1, 16', 'INT32')}, o: {tensor('16, 16', 'INT32', 'Out')}"
    )
    x = random_inputs(kernel(body, params), seed=1)
    expected = x["a"].astype(int) @ x["b"].astype(int) + x["bias"]
    assert np.array_equal(run(body, params, **x)["o"], expected)


# -- valid regions -------------------------------------------------------------------------------------------

NARROW = """
l = pl.tile.load(a, [0, 0], [32, 48], [20, 40], target_memory=pl.Mem.Mat)
r = pl.tile.load(b, [0, 0], [48, 32], [40, 18], target_memory=pl.Mem.Mat)
la = pl.tile.extract(l, 0, 0, [32, 32], target_memory=pl.Mem.Left)
ra = pl.tile.extract(r, 0, 0, [32, 32], target_memory=pl.Mem.Right)
lb = pl.tile.extract(l, 0, 32, [32, 16], target_memory=pl.Mem.Left)
rb = pl.tile.extract(r, 32, 0, [16, 32], target_memory=pl.Mem.Right)
s = pl.tile.create([32, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc, compact=True)
n = pl.tile.set_validshape(s, 20, 18)
c = pl.tile.matmul_acc(n, la, ra, True)
d = pl.tile.matmul_acc(c, lb, rb)
o1 = pl.tile.store(d, [2, 1], o)
"""


def test_only_valid_regions_take_part() -> None:
    params = f"a: {tensor('20, 40', 'BF16')}, b: {tensor('40, 18', 'BF16')}, o: {tensor('24, 20', 'FP32', 'InOut')}"
    x = random_inputs(kernel(NARROW, params), seed=2)
    out = run(NARROW, params, **x)["o"]
    expected = x["o"].copy()
    expected[2:22, 1:19] = x["a"].astype(np.float32) @ x["b"].astype(np.float32)
    assert np.array_equal(out, expected)


def test_reading_outside_a_valid_region_shows() -> None:
    body = """
l = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
r = pl.tile.load(a, [0, 0], [16, 16], [8, 16], target_memory=pl.Mem.Mat)
c = pl.tile.matmul(l, r)
o1 = pl.tile.store(c, [0, 0], o)
"""
    params = f"a: {tensor('16, 16', 'BF16')}, o: {tensor('16, 16', 'FP32', 'Out')}"
    assert np.isnan(run(body, params, a=np.ones((16, 16)))["o"]).all()


def test_memory_nobody_wrote_shows() -> None:
    body = """
s = pl.tile.create([16, 16], dtype=pl.BF16, target_memory=pl.Mem.Vec)
o1 = pl.tile.store(s, [0, 0], o)
"""
    params = f"o: {tensor('16, 32', 'FP32', 'Out')}"
    wrong = body.replace("dtype=pl.BF16", "dtype=pl.FP32")
    out = run(wrong, params)["o"]
    assert (out == UNWRITTEN).all()


def test_dynamic_valid_rows() -> None:
    body = """
rows = pl.min(n - 16, 16)
t = pl.tile.load(x, [16, 0], [16, 32], [rows, 32], target_memory=pl.Mem.Vec)
d = pl.tile.muls(t, 2.0)
o1 = pl.tile.store(d, [16, 0], o)
"""
    params = f"x: {tensor('N, 32', 'FP16')}, n: pl.Scalar[pl.INDEX], o: {tensor('N, 32', 'FP16', 'InOut')}"
    x = np.arange(21 * 32).reshape(21, 32) % 50
    o = np.ones((21, 32))
    out = run(body, params, x=x, n=21, o=o)["o"]
    assert (out[:16] == 1).all()
    assert np.array_equal(out[16:], 2 * x[16:])


# -- transfers -----------------------------------------------------------------------------------------------


def test_stores_and_assembles_narrow_to_nearest_even() -> None:
    body = """
l = pl.tile.load(a, [0, 0], [16, 16], target_memory=pl.Mem.Mat)
e = pl.tile.load(eye, [0, 0], [16, 16], target_memory=pl.Mem.Mat)
c = pl.tile.matmul(l, e)
o1 = pl.tile.store(c, [0, 0], o)
s = pl.tile.create([32, 16], dtype=pl.BF16, target_memory=pl.Mem.Mat)
s1 = pl.tile.assemble(s, c, [16, 0])
w = pl.tile.extract(s1, 16, 0, [16, 16], target_memory=pl.Mem.Left)
d = pl.tile.matmul(w, pl.tile.load(eye16, [0, 0], [16, 16], target_memory=pl.Mem.Mat))
p1 = pl.tile.store(d, [0, 0], p)
"""
    params = (
        f"a: {tensor('16, 16', 'FP32')}, eye: {tensor('16, 16', 'FP32')}, eye16: {tensor('16, 16', 'BF16')}, "
        f"o: {tensor('16, 16', 'BF16', 'Out')}, p: {tensor('16, 16', 'FP32', 'Out')}"
    )
    a = (1 + np.arange(256).reshape(16, 16) / 512).astype(np.float32)  # ties of bf16 among them
    out = run(body, params, a=a, eye=np.eye(16), eye16=np.eye(16))
    assert same(out["o"], a.astype(BF))
    assert same(out["p"], a.astype(BF).astype(np.float32))


def test_atomic_stores_add() -> None:
    body = """
t = pl.tile.load(x, [0, 0], [8, 8], target_memory=pl.Mem.Vec)
o1 = pl.tile.store(t, [0, 8], o, atomic=pl.AtomicType.Add)
o2 = pl.tile.store(t, [0, 8], o1, atomic=pl.AtomicType.Add)
"""
    params = f"x: {tensor('8, 8', 'FP32')}, o: {tensor('8, 16', 'FP32', 'InOut')}"
    x = np.arange(64).reshape(8, 8)
    out = run(body, params, x=x, o=np.ones((8, 16)))["o"]
    assert (out[:, :8] == 1).all()
    assert np.array_equal(out[:, 8:], 1 + 2 * x)


def test_tensors_of_higher_rank_are_read_and_written_by_window() -> None:
    body = """
t: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [1, 2, 0], [1, 8, 16], target_memory=pl.Mem.Vec)
o1 = pl.tile.store(t, [0, 4, 0], o, [1, 8, 16])
"""
    params = f"x: {tensor('2, 10, 16', 'FP32')}, o: {tensor('1, 12, 16', 'FP32', 'InOut')}"
    x = np.arange(320).reshape(2, 10, 16)
    out = run(body, params, x=x, o=np.zeros((1, 12, 16)))["o"]
    assert np.array_equal(out[0, 4:], x[1, 2:])
    assert not out[0, :4].any()


def test_views_look_at_the_same_memory() -> None:
    body = """
t = pl.tile.load(x, [0, 0], [8, 8], target_memory=pl.Mem.Vec)
w = pl.tile.slice(t, [4, 8], [4, 0])
pl.tile.write(w, [0, 1], 99.0)
v = pl.tile.transpose_view(t)
o1 = pl.tile.store(v, [0, 0], o)
y = pl.tile.read(t, [4, 1])
"""
    params = f"x: {tensor('8, 8', 'FP32')}, o: {tensor('8, 8', 'FP32', 'Out')}"
    x = np.arange(64.0).reshape(8, 8)
    expected = x.copy()
    expected[4, 1] = 99
    assert np.array_equal(run(body, params, x=x)["o"], expected.T)


def test_a_moved_tile_is_a_copy() -> None:
    body = """
t = pl.tile.load(x, [0, 0], [8, 8], target_memory=pl.Mem.Vec)
u = pl.tile.move(t, target_memory=pl.Mem.Vec)
pl.tile.write(t, [0, 0], 99.0)
o1 = pl.tile.store(u, [0, 0], o)
"""
    params = f"x: {tensor('8, 8', 'FP32')}, o: {tensor('8, 8', 'FP32', 'Out')}"
    assert not run(body, params, x=np.zeros((8, 8)))["o"].any()


def test_loads_see_the_stores_before_them() -> None:
    body = """
t = pl.tile.load(x, [0, 0], [8, 8], target_memory=pl.Mem.Vec)
x1 = pl.tile.store(t, [8, 0], x)
u = pl.tile.load(x1, [8, 0], [8, 8], target_memory=pl.Mem.Vec)
x2 = pl.tile.store(pl.tile.adds(u, 1.0), [0, 0], x1)
"""
    x = np.arange(128.0).reshape(16, 8)
    given = x.copy()
    out = run(body, f"x: {tensor('16, 8', 'FP32', 'InOut')}", x=given)["x"]
    assert np.array_equal(out, np.concatenate([x[:8] + 1, x[:8]]))
    assert np.array_equal(given, x)  # the caller's array is untouched


# -- vector operations ---------------------------------------------------------------------------------------

F32 = {
    "pl.tile.add(t, u)": lambda t, u: t + u,
    "pl.tile.sub(t, u)": lambda t, u: t - u,
    "pl.tile.mul(t, u)": lambda t, u: t * u,
    "pl.tile.div(t, u)": lambda t, u: t / u,
    "pl.tile.maximum(t, u)": np.maximum,
    "pl.tile.minimum(t, u)": np.minimum,
    "pl.add(t, 1.5)": lambda t, u: t + np.float32(1.5),
    "pl.mul(t, -0.5)": lambda t, u: t * np.float32(-0.5),
    "pl.tile.neg(t)": lambda t, u: -t,
    "pl.tile.abs(t)": lambda t, u: abs(t),
    "pl.tile.exp(t)": lambda t, u: np.exp(t),
    "pl.tile.recip(u)": lambda t, u: 1 / u,
    "pl.tile.sqrt(pl.tile.abs(t))": lambda t, u: np.sqrt(abs(t)),
    "pl.tile.row_expand_sub(t, pl.tile.row_max(t))": lambda t, u: t - t.max(1, keepdims=True),
    "pl.tile.row_expand_div(t, pl.tile.row_sum(u))": lambda t, u: t / u.sum(1, keepdims=True),
    "pl.tile.col_expand_mul(t, pl.tile.col_min(u))": lambda t, u: t * u.min(0, keepdims=True),
    "pl.tile.col_expand(t, pl.tile.col_sum(u))": lambda t, u: np.broadcast_to(u.sum(0), t.shape),
    "pl.tile.sel(pl.tile.cmp(t, u, cmp_type=4), t, u)": np.maximum,
    "pl.tile.sel(pl.tile.cmps(t, 0.0, cmp_type=2), u, t)": lambda t, u: np.where(t < 0, u, t),
    "pl.tile.transpose(pl.tile.transpose(t, 0, 1), 0, 1)": lambda t, u: t,
    "pl.tile.reshape(pl.tile.reshape(t, [4, 48]), [12, 16])": lambda t, u: t,
    "pl.tile.fillpad(t)": lambda t, u: t,
    "pl.tile.full([12, 16], dtype=pl.FP32, value=2.5)": lambda t, u: np.full((12, 16), np.float32(2.5)),
}


@pytest.mark.parametrize("expression", F32)
def test_vector_operations_in_float32(expression: str) -> None:
    body = f"""
t = pl.tile.load(x, [0, 0], [12, 16], target_memory=pl.Mem.Vec)
u = pl.tile.load(y, [0, 0], [12, 16], target_memory=pl.Mem.Vec)
o1 = pl.tile.store({expression}, [0, 0], o)
"""
    params = f"x: {tensor('12, 16', 'FP32')}, y: {tensor('12, 16', 'FP32')}, o: {tensor('12, 16', 'FP32', 'Out')}"
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 16)).astype(np.float32), rng.uniform(1, 2, (12, 16)).astype(np.float32)
    expected = F32[expression](x, y)
    np.testing.assert_array_equal(run(body, params, x=x, y=y)["o"], expected.astype(np.float32))


def test_low_precision_arithmetic_rounds_once() -> None:
    body = """
t = pl.tile.load(x, [0, 0], [8, 16], target_memory=pl.Mem.Vec)
o1 = pl.tile.store(pl.tile.row_sum(t), [0, 0], o)
"""
    params = f"x: {tensor('8, 16', 'BF16')}, o: {tensor('8, 1', 'BF16', 'Out')}"
    x = (1 + np.arange(128).reshape(8, 16) / 128).astype(BF)
    expected = x.astype(np.float32).sum(1, keepdims=True).astype(BF)
    assert same(run(body, params, x=x)["o"], expected)


def test_vector_operations_touch_the_valid_region_only() -> None:
    body = """
t = pl.tile.load(x, [0, 0], [16, 16], [5, 7], target_memory=pl.Mem.Vec)
m = pl.tile.row_max(t)
s = pl.tile.row_expand_sub(t, m)
o1 = pl.tile.store(s, [0, 0], o)
p1 = pl.tile.store(pl.tile.fillpad(s, pad_value=pl.PadValue.min), [0, 0], p)
"""
    params = f"x: {tensor('5, 7', 'FP32')}, o: {tensor('5, 7', 'FP32', 'Out')}, p: {tensor('16, 16', 'FP32', 'Out')}"
    x = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    out = run(body, params, x=x)
    assert np.array_equal(out["o"], x - x.max(1, keepdims=True))
    assert np.array_equal(out["p"][:5, :7], out["o"])
    assert (out["p"][5:] == np.finfo(np.float32).min).all()
    assert (out["p"][:5, 7:] == np.finfo(np.float32).min).all()


def test_scatter_and_ramps() -> None:
    body = """
d = pl.tile.full([4, 8], dtype=pl.INT32, value=0)
i = pl.tile.ci(pl.const(3, pl.INT32), [1, 4], dtype=pl.INT32)
j = pl.tile.muls(i, pl.const(2, pl.INT32))
s = pl.tile.ci(pl.const(9, pl.INT32), [1, 4], dtype=pl.INT32, descending=True)
r = pl.tile.scatter(d, s, j)
o1 = pl.tile.store(r, [0, 0], o)
"""
    out = run(body, f"o: {tensor('4, 8', 'INT32', 'Out')}")["o"]
    expected = np.zeros(32, np.int32)
    expected[[6, 8, 10, 12]] = [9, 8, 7, 6]
    assert np.array_equal(out.reshape(-1), expected)


def test_integer_division_truncates() -> None:
    body = """
t = pl.tile.load(x, [0, 0], [1, 4], target_memory=pl.Mem.Vec)
o1 = pl.tile.store(pl.tile.divs(t, 2), [0, 0], o)
"""
    params = f"x: {tensor('1, 4', 'INT32')}, o: {tensor('1, 4', 'INT32', 'Out')}"
    assert run(body, params, x=np.array([[-3, -1, 1, 3]]))["o"].tolist() == [[-1, 0, 0, 1]]


# -- control flow --------------------------------------------------------------------------------------------

COUNT = f"o: {tensor('8', 'INT32', 'InOut')}"


@pytest.mark.parametrize("loop", ["pl.range(5)", "pl.parallel(5)", "pl.unroll(0, 5)", "pl.pipeline(0, 5, 1, stage=2)"])
def test_loops_run_in_order(loop: str) -> None:
    body = f"""
for i in {loop}:
    pl.tensor.write(o, [i], i * i)
"""
    assert run(body, COUNT, o=np.zeros(8, np.int32))["o"].tolist() == [0, 1, 4, 9, 16, 0, 0, 0]


def test_carried_values_branches_and_empty_loops() -> None:
    body = """
for i, (a, b) in pl.range(1, 10, 2, init_values=(0, 1)):
    if i % 4 == 1 and i > 1:
        c = a + i
        p, q = pl.yield_(c, b)
    else:
        p, q = pl.yield_(a, b * 2)
    s, t = pl.yield_(p, q)
for j, (e,) in pl.range(5, 5, 1, init_values=(7,)):
    f = pl.yield_(e + 1)
pl.tensor.write(o, [0], s)
pl.tensor.write(o, [1], t)
pl.tensor.write(o, [2], f)
if s > 100:
    pl.tensor.write(o, [3], 1)
"""
    assert run(body, COUNT, o=np.zeros(8, np.int32))["o"].tolist() == [14, 8, 7, 0, 0, 0, 0, 0]


def test_while_loops() -> None:
    body = """
for (x, n) in pl.while_(init_values=(27, 0)):
    pl.cond(x != 1)
    if x % 2 == 0:
        y = pl.yield_(x // 2)
    else:
        y = pl.yield_(3 * x + 1)
    z, m = pl.yield_(y, n + 1)
pl.tensor.write(o, [0], m)
"""
    assert run(body, COUNT, o=np.zeros(8, np.int32))["o"][0] == 111  # the Collatz sequence of 27


def test_scalars() -> None:
    body = """
a = pl.tensor.read(x, [1, 2])
b = pl.cast(a * 2.5, pl.INDEX)
c = pl.max(pl.min(b, 40), 3)
d = pl.cast(-1, pl.UINT8)
n = pl.tensor.dim(x, 1)
pl.tensor.write(o, [0], b)
pl.tensor.write(o, [1], c)
pl.tensor.write(o, [2], d)
pl.tensor.write(o, [3], n)
pl.tensor.write(o, [4], -7 // 2)
pl.tensor.write(o, [5], -7 % 4)
pl.tensor.write(o, [6], 1 << 3 | 2)
"""
    out = run(body, f"x: {tensor('2, 3', 'FP32')}, {COUNT}", x=np.full((2, 3), 7.0), o=np.zeros(8, np.int32))["o"]
    assert out.tolist() == [17, 17, 255, 3, -4, 1, 10, 0]


VECTOR = tensor("8", "INT32")
CALLEES = f"""    @pl.function(type=pl.FunctionType.InCore)
    def double(self, p: {VECTOR}, k: pl.Scalar[pl.INDEX], q: pl.Out[{VECTOR}]) -> {VECTOR}:
        for i in pl.range(8):
            v = pl.tensor.read(p, [i])
            pl.tensor.write(q, [i], v * k)
        return q

    @pl.function(type=pl.FunctionType.Spmd, attrs={{"core_num": 4}})
    def ids(self, q: {tensor("8", "INT32", "InOut")}):
        i = pl.tile.get_block_idx()
        n = pl.tile.get_block_num()
        pl.tensor.write(q, [i], 10 * n + i)
"""


@pytest.mark.parametrize(
    "call",
    [
        "t = self.double(o, 3, q)",
        "t = self.double(o, k=3, q=q)",
        "t = self.double(o, 3)",
        "t, task = pl.submit(self.double, o, 3)",
    ],
)
def test_calls_between_functions(call: str) -> None:
    body = f"{call}\nu = pl.tensor.read(t, [2])\npl.tensor.write(o, [7], u)"
    out = run(body, f"{COUNT}, q: {tensor('8', 'INT32', 'Out')}", CALLEES, o=np.arange(8))["o"]
    assert out.tolist() == [0, 1, 2, 3, 4, 5, 6, 6]


def test_spmd_functions_run_once_a_core() -> None:
    out = run("self.ids(o)", COUNT, CALLEES, o=np.zeros(8, np.int32))["o"]
    assert out.tolist() == [40, 41, 42, 43, 0, 0, 0, 0]


def test_results_are_returned_beside_the_outputs() -> None:
    p = parse(
        f"import pypto.language as pl\n@pl.program\nclass P:\n    @pl.function(type=pl.FunctionType.InCore)\n"
        f"    def f(self, x: {tensor('4', 'FP32', 'InOut')}, y: {tensor('4', 'FP32')}):\n        return y, 3\n"
    )
    out = execute(p, x=np.zeros(4), y=np.ones(4))
    assert list(out) == ["x", "return_0", "return_1"]
    assert out["return_0"].tolist() == [1, 1, 1, 1]
    assert out["return_1"] == 3


# -- arrays in -----------------------------------------------------------------------------------------------


def test_ssa_suffixes_may_be_left_out() -> None:
    row = next(r for r in ROWS if r["name"].startswith("store-"))
    program = parse(row["output"])
    arrays = random_inputs(program)
    assert {"lhs", "rhs", "out"} == set(arrays)
    long_names = {f"{k}__ssa_v0": v for k, v in arrays.items()}
    assert same(execute(program, **arrays)["out"], execute(program, **long_names)["out"])


ADD = f"x: {tensor('N, 8', 'FP16')}, y: {tensor('N, M', 'INT8')}, s: pl.Scalar[pl.INDEX], o: {tensor('N, M', 'INT8', 'Out')}"
FINE: dict[str, Any] = {"x": np.zeros((4, 8)), "y": np.zeros((4, 6)), "s": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": None}, r"no array for parameter 'x'; pass x= \(shape \[N, 8\], fp16\)"),
        ({"s": None}, "no array for parameter 's'; pass s= .a scalar of index"),
        ({"x": np.zeros((4, 9))}, r"x has shape \[4, 9\], the parameter shape \[N, 8\]"),
        ({"x": np.zeros(4)}, r"x has shape \[4\]"),
        ({"y": np.zeros((5, 6))}, "dimension N is 5 here and 4"),
        ({"y": np.full((4, 6), 0.5)}, "y: its float64 values do not all fit int8"),
        ({"y": np.full((4, 6), 300)}, "y: its int64 values do not all fit int8"),
        ({"y": np.full((4, 6), "a")}, "y must hold numbers of int8"),
        ({"s": np.zeros(3)}, "s is a scalar of index"),
        ({"z": 1}, "kernel has no parameter 'z'; it has x, y, s, o"),
        ({"o": np.zeros((4, 7))}, r"dimension M is 7 here and 6"),
    ],
)
def test_arrays_that_do_not_fit(change: dict[str, Any], words: str) -> None:
    arrays = {k: v for k, v in {**FINE, **change}.items() if v is not None}
    with pytest.raises(ExecuteError, match=words):
        run("pl.tensor.write(o, [0, 0], 1)", ADD, **arrays)


def test_fitting_arrays_bind_dynamic_dimensions() -> None:
    assert run("pl.tensor.write(o, [N - 1, M - 1], 1)", ADD, **FINE)["o"][3, 5] == 1


def test_an_output_with_a_dimension_nobody_shows() -> None:
    with pytest.raises(ExecuteError, match="a dynamic dimension is not known"):
        run("pl.tensor.write(o, [0, 0], 1)", f"o: {tensor('N, 8', 'FP16', 'Out')}")


def test_random_inputs_are_repeatable_whole_numbers() -> None:
    program = kernel("pl.tensor.write(o, [0, 0], 1)", ADD)
    one, two, other = random_inputs(program, 1), random_inputs(program, 1), random_inputs(program, 2)
    assert all(same(one[k], two[k]) for k in one)
    assert not all(same(one[k], other[k]) for k in ("x", "y"))
    assert one["x"].shape == (64, 8)
    assert np.array_equal(one["x"], np.rint(one["x"]))
    assert random_inputs(program, dims={"N": 3, "M": 5})["y"].shape == (3, 5)
    assert not np.array_equal(random_inputs(program, integer=False)["x"], one["x"])
    execute(program, **one)


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("t = pl.tile.mrgsort(x)", r"tile.mrgsort has no reference semantics.*\[kernel, <string>:9:9\]"),
        ("t = pl.tile.load(x, [n, 0], [8, 8])", r"tile.load: window \[8, 8\] at \[9, 0\] reaches out of \[16, 8\] .*:9:9"),
        ("o1 = pl.tile.store(pl.tile.load(x, [0, 0], [8, 8]), [n, 0], x)", "tile.store: window .* reaches out of"),
        ("v = pl.tensor.read(x, [n, n])", r"tensor.read: element \[9, 9\] of \[16, 8\]"),
        ("v = n // (n - 9)", "division.* by zero.*:9:9"),
        ("for i in pl.range(0, 5, n - 9):\n    pass", "a loop with step 0"),
    ],
)
def test_statements_without_meaning_name_their_place(line: str, words: str) -> None:
    with pytest.raises(ExecuteError, match=words):
        run(line, f"x: {tensor('16, 8', 'FP32', 'InOut')}, n: pl.Scalar[pl.INDEX]", x=np.zeros((16, 8)), n=9)


def test_which_function_runs() -> None:
    program = kernel("pl.tensor.write(o, [0], 1)", COUNT, CALLEES)
    with pytest.raises(ExecuteError, match=r"which function\? Name one of double, ids, kernel"):
        execute(program, o=np.zeros(8))
    with pytest.raises(ExecuteError, match="no function 'main'; the program has double, ids, kernel"):
        execute(program, "main", o=np.zeros(8))
    called = kernel("t = self.double(o, 2)\nself.ids(t)", COUNT, CALLEES)
    assert execute(called, o=np.arange(8))["o"].tolist() == list(range(8))


# -- speed ---------------------------------------------------------------------------------------------------


def test_long_loops_are_quick() -> None:
    body = """
for i in pl.range(4096):
    t = pl.tile.load(x, [i % 64, 0], [1, 64], target_memory=pl.Mem.Vec)
    u = pl.tile.adds(t, 1.0)
    x1 = pl.tile.store(u, [i % 64, 0], x)
"""
    start = time.process_time()
    out = run(body, f"x: {tensor('64, 64', 'FP32', 'InOut')}", x=np.zeros((64, 64)))["x"]
    assert (out == 64).all()
    assert time.process_time() - start < 3.0
