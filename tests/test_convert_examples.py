"""The example kernels, from tensor program to tiled program to numbers, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tensor_texts import equal_results

import tilesat
from ir_bridge.convert import convert

EXAMPLES = Path(__file__).parent.parent / "examples"
BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(11)

Arrays = dict[str, Any]


def f32(x: Any) -> Any:
    return np.asarray(x).astype(np.float32)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(BF16)


def linear_inputs() -> Arrays:
    return {
        "x": RNG.integers(-3, 4, (256, 512)).astype(BF16),
        "w": RNG.integers(-3, 4, (512, 256)).astype(BF16),
        "b": RNG.integers(-9, 9, (1, 256)).astype(np.float32),
    }


def linear(g: Arrays) -> Any:
    return np.maximum(f32(g["x"]) @ f32(g["w"]) + g["b"], 0).astype(BF16)


def softmax_mix(q: Any, k: Any, v: Any) -> Any:
    scores = f32(q) @ f32(k).T / 8
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return (f32(weights.astype(BF16)) @ f32(v)) / weights.sum(1, keepdims=True)


def attention_inputs() -> Arrays:
    return {"q": normal(128, 64), "k": normal(256, 64), "v": normal(256, 64)}


def decode_inputs() -> Arrays:
    table = RNG.permutation(32)[:8].astype(np.int32)
    return {"q": normal(16, 64), "keys": normal(512, 64), "values": normal(512, 64), "table": table}


def decode(g: Arrays) -> Any:
    rows = (g["table"][:, None] * 16 + np.arange(16)).reshape(-1)
    return softmax_mix(g["q"], g["keys"][rows], g["values"][rows])


def mlp_inputs() -> Arrays:
    def scales(*shape: int) -> Any:
        return RNG.uniform(0.01, 0.02, shape).astype(np.float32)

    def weights(*shape: int) -> Any:
        return RNG.integers(-128, 128, shape).astype(np.int8)

    return {
        "x": weights(64, 256),
        "x_scale": scales(64, 1),
        "up": weights(512, 128),
        "up_scale": scales(2, 128),
        "down": weights(256, 256),
        "down_scale": scales(2, 256),
    }


def mlp(g: Arrays) -> Any:
    out = []
    for e in range(2):
        rows = slice(e * 32, e * 32 + 32)
        hidden = g["x"][rows].astype(np.int32) @ g["up"][e * 256 : e * 256 + 256].astype(np.int32)
        hidden = np.maximum(f32(hidden) * g["x_scale"][rows] * g["up_scale"][e], 0)
        step = np.maximum(hidden.max(1, keepdims=True) * np.float32(1 / 127), np.float32(1e-6))
        quantised = np.rint(hidden / step).astype(np.int32)
        out.append(f32(quantised @ g["down"][e * 128 : e * 128 + 128].astype(np.int32)) * step * g["down_scale"][e])
    return np.concatenate(out)


CASES: dict[str, tuple[Callable[[], Arrays], Callable[[Arrays], Any], float]] = {
    "tensor_linear": (linear_inputs, linear, 0.0),
    "tensor_attention": (attention_inputs, lambda g: softmax_mix(g["q"], g["k"], g["v"]), 1e-5),
    "tensor_paged_decode": (decode_inputs, decode, 5e-3),  # bf16 weights are rounded against a running maximum
    "tensor_expert_mlp": (mlp_inputs, mlp, 1e-4),
}


@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
@pytest.mark.parametrize("name", CASES)
def test_example(name: str, target: str) -> None:
    inputs, oracle, tolerance = CASES[name]
    source = tilesat.load(EXAMPLES / f"{name}.py")
    tiles = convert(source, target)
    assert {f.subject for f in tilesat.verify(tiles, target)} <= {"l0a", "l0b", "l0c"}  # what tiling is for
    tiled = tilesat.tile(tiles, target=target).program
    assert not list(tilesat.verify(tiled, target))
    given = inputs()
    found = tilesat.execute(source, **given)
    assert equal_results(found, tilesat.execute(tiles, **given))
    final = tilesat.execute(tiled, **given)["return"]
    expected = oracle(given)
    assert final.shape == expected.shape
    scale = np.abs(f32(expected)).max()
    assert np.abs(f32(final) - f32(expected)).max() <= tolerance * scale


def test_every_example_kernel_is_here() -> None:
    assert {p.stem for p in EXAMPLES.glob("tensor_*.py")} == set(CASES)
