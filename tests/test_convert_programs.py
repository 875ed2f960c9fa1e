"""Conversion over generated programs: the same numbers, verified text, and the same again after tiling (specification 2)."""

from __future__ import annotations

import random

import pytest
from generate import FromRandom
from generate_tensors import PIECES, build, inputs_for, tensor_programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensor_texts import equal_results

from ir_bridge.convert import convert, needs_conversion
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.parser import parse
from ir_bridge.ir.verifier import verify

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


def check(text: str, seed: int, target: str) -> None:
    """A converted program verifies, reads back as itself, needs no more conversion, and computes what the tensor program does."""
    program = parse(text)
    tiles = convert(program, target)
    assert not list(verify(tiles, target))
    assert parse(str(tiles)) == tiles
    assert not needs_conversion(tiles)
    inputs = inputs_for(program, seed)
    assert equal_results(execute(program, **inputs), execute(tiles, **inputs))


@settings(SETTINGS, max_examples=120)
@given(text=tensor_programs(), seed=st.integers(0, 99), target=st.sampled_from(["ascend910b", "ascend950"]))
def test_generated_programs(text: str, seed: int, target: str) -> None:
    check(text, seed, target)


@pytest.mark.parametrize("piece", PIECES)
def test_every_kind_of_piece(piece: str) -> None:
    for seed in range(12):
        check(build(FromRandom(random.Random(seed)), pieces=[piece], most=3), seed, "ascend910b")


@settings(SETTINGS, max_examples=40)
@given(
    text=tensor_programs(pieces=["matmul", "split_k", "gathered_rows", "elementwise", "cast", "carried"]), seed=st.integers(0, 99)
)
def test_converted_programs_tile(text: str, seed: int) -> None:
    import tilesat

    program = parse(text)
    tiled = tilesat.tile(convert(program)).program
    assert not list(verify(tiled, "ascend910b"))
    inputs = inputs_for(program, seed)
    assert equal_results(execute(program, **inputs), execute(tiled, **inputs))


LARGE = """import pypto.language as pl

@pl.program
class Large:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[{m}, {k}], pl.BF16], w: pl.Tensor[[{k}, {n}], pl.BF16], v: pl.Tensor[[{n}, 64], pl.BF16]):
        h = pl.cast(pl.matmul(x, w, out_dtype=pl.FP32), pl.BF16, mode="rint")
        y = pl.matmul(h, v, out_dtype=pl.FP32)
        return y, pl.matmul(x, w, out_dtype=pl.FP32)
"""


@pytest.mark.parametrize(("m", "k", "n"), [(128, 512, 128), (100, 256, 64), (256, 128, 160)])
def test_products_that_tiling_splits(m: int, k: int, n: int) -> None:
    import tilesat

    program = parse(LARGE.format(m=m, k=k, n=n))
    result = tilesat.tile(convert(program))
    assert "pl.pipeline" in str(result.program)
    inputs = inputs_for(program, 3)
    assert equal_results(execute(program, **inputs), execute(result.program, **inputs))
