"""Every PH-AT code on both sides of its gate, and the order in which one matmul is looked at."""

from __future__ import annotations

import re

import pytest
from lift_programs import Case
from tiling_checks import codes

import tilesat


def hints(text: str, target: str = "ascend950", **options: object) -> list[str]:
    return codes(tilesat.tile(tilesat.parse(text), target=target, **options))  # type: ignore[arg-type]


def biased(M: int, N: int, K: int, **more: object) -> str:
    return Case.full(M, N, K, op="bias", **more).text()


INT4 = Case.full(64, 64, 64).text().replace("BF16", "INT4").replace("FP32", "INT32")

#: (code, a program that has it, one just on the other side, target)
GATES = {
    "003 sub-byte": ("PH-AT-003", INT4, Case.full(64, 64, 64, dtype="int8").text(), "ascend950"),
    "005 no legal tile": ("PH-AT-005", Case.full(8, 64, 64).text(), Case.full(16, 64, 64).text(), "ascend950"),
    "006 vec left": (
        "PH-AT-006",
        Case.full(256, 512, 64, left="Vec").text(),
        Case.full(16, 64, 2048, left="Vec").text(),
        "ascend950",
    ),
    "006 accumulate": (
        "PH-AT-006",
        Case.full(512, 512, 64, op="acc").text(),
        Case.full(64, 64, 64, op="acc").text(),
        "ascend950",
    ),
    "007 K": ("PH-AT-007", Case.full(64, 64, 2056).text(), Case.full(64, 64, 2064).text(), "ascend950"),
    "009 low precision": (
        "PH-AT-009",
        Case.full(256, 256, 64, dtype="fp32", place="scratch").text(),
        Case.full(256, 256, 64, place="cast").text(),
        "ascend910b",
    ),
    "010 rounding": (
        "PH-AT-010",
        Case.full(64, 64, 64, place="cast").text().replace("rint", "round"),
        Case.full(64, 64, 64, place="cast").text(),
        "ascend950",
    ),
    "011 box": ("PH-AT-011", biased(32, 150, 64), biased(32, 144, 64), "ascend950"),
    "011 vec left": ("PH-AT-011", biased(32, 64, 512, left="Vec"), biased(32, 64, 512), "ascend950"),
}


@pytest.mark.parametrize("gate", GATES)
def test_both_sides_of_a_gate(gate: str) -> None:
    code, has_it, has_not, target = GATES[gate]
    assert code in hints(has_it, target)
    assert code not in hints(has_not, target)


def test_a_limit_that_ends_the_run_is_told_as_008() -> None:
    text = Case.full(192, 512, 64).text()
    assert hints(text, limits=tilesat.Limits(nodes=1)) == ["PH-AT-008"]
    assert hints(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (Case.full(64, 64, 8).text(), "PH-AT-007"),  # before the chooser could refuse (005)
        (biased(32, 64, 512, left="Vec").replace("BF16", "INT4").replace("FP32", "INT32"), "PH-AT-011"),  # before 003
        (biased(32, 64, 40), "PH-AT-011"),  # the box of K before 007
    ],
)
def test_the_first_check_that_fails_speaks(text: str, expected: str) -> None:
    assert hints(text) == [expected]


def test_a_low_precision_target_goes_on_to_the_store_test() -> None:
    text = Case.full(256, 256, 64, dtype="fp32", place="scratch").text()
    assert hints(text, "ascend910b") == ["PH-AT-009", "PH-AT-006"]


def test_a_hint_names_place_and_numbers() -> None:
    result = tilesat.tile(tilesat.parse(Case.full(64, 64, 2056).text()), target="ascend950")
    (hint,) = result.diagnostics
    assert hint.code == "PH-AT-007"
    assert "2056" in hint.message
    assert "2064" in hint.message  # the repair
    assert re.fullmatch(r"c in kernel, <string>:\d+:\d+", hint.where)
    assert str(hint).startswith("[perf_hint PH-AT-007] AutoTileMatmulL0: tile.matmul: ")


@pytest.mark.parametrize(
    ("product", "extra"),
    [
        ("pl.tile.matmul(a_l0, b_l0)", ""),
        ("pl.tile.matmul_acc(seed, a_l0, b_l0)", "seed = pl.tile.create([256, 16], dtype=pl.FP32, target_memory=pl.Mem.Acc)"),
        ("pl.tile.matmul_bias(a_l0, b_l0, row)", "row = pl.tile.load(r, [0, 0], [1, 16], target_memory=pl.Mem.Mat)"),
    ],
)
def test_an_operand_placed_by_hand_that_cannot_fit_is_an_error(product: str, extra: str) -> None:
    text = f"""
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[256, 256], pl.FP16], b: pl.Tensor[[256, 16], pl.FP16], r: pl.Tensor[[1, 16], pl.FP32],
               out: pl.Out[pl.Tensor[[256, 16], pl.FP32]]) -> pl.Tensor[[256, 16], pl.FP32]:
        a_mat = pl.tile.load(a, [0, 0], [256, 256], target_memory=pl.Mem.Mat)
        b_mat = pl.tile.load(b, [0, 0], [256, 16], target_memory=pl.Mem.Mat)
        a_l0 = pl.tile.move(a_mat, target_memory=pl.Mem.Left)
        b_l0 = pl.tile.move(b_mat, target_memory=pl.Mem.Right)
        {extra or "pass"}
        c = {product}
        out_1 = pl.tile.store(c, [0, 0], out)
        return out_1
"""
    with pytest.raises(tilesat.PlacementError) as error:
        tilesat.tile(tilesat.parse(text))
    message = str(error.value)
    for part in ("'a_l0'", "Left", "[256, 256]", "fp16", "131072", "65536", "keep", "extract a smaller Left tile"):
        assert part in message
    assert "__" not in message
