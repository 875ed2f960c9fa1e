"""The chosen tile is the optimum over all legal points: `choose_tile` against the brute force of `brute_force.py`."""

from __future__ import annotations

import random
from typing import Any

import pytest
from brute_force import brute_force, brute_force_numpy
from lift_programs import Case

import tilesat
from ir_bridge.ir.parser import parse
from tilesat.choose import choose_tile
from tilesat.tiling import tile

TARGETS = ("ascend910b", "ascend950")
DTYPES = ("bf16", "fp16", "fp32", "int8")
EACH = 70  # problems for each target and element type: 560 together


def extent(rng: random.Random) -> int:
    """Small, tall and large extents, mostly whole fractals."""
    top = rng.choice([8, 8, 24, 64, 128])
    whole = 16 * rng.randint(1, top)
    kind = rng.random()
    return whole if kind < 0.9 else whole + rng.randint(1, 15) if kind < 0.97 else rng.randint(1, 15)


def problem(rng: random.Random, target: str, dtype: str) -> dict[str, Any]:
    case: dict[str, Any] = {"target": target, "dtype": dtype, "M": extent(rng), "N": extent(rng), "K": extent(rng)}
    case["K"] = -(-case["K"] // 16) * 16 + (8 if rng.random() < 0.08 else 0)
    case["operand_stationary"] = rng.random() < 0.6
    case["double_buffer_c"] = rng.random() < 0.5
    kind = rng.choice(["plain", "plain", "plain", "accumulate", "boxes", "bias", "padding"])
    if kind == "accumulate":
        case["accumulate"] = True
    elif kind == "boxes":
        case["box_m"], case["box_n"] = rng.choice([(16, 16), (16, 32), (1, 32)])
    elif kind == "bias":
        case["bias"] = "mat"
    elif kind == "padding":
        case["allow_padding"] = True
    return case


def chosen(case: dict[str, Any]) -> dict[str, Any]:
    """The product's choice as a golden row's `expect` has it."""
    try:
        t = choose_tile(**case)
    except tilesat.Rejected:
        return {"rejected": True}
    names = ("m", "n", "k", "stationarity", "double_buffer_c", "os_holds_a", "wall_cycles", "traffic_bytes", "padded_volume")
    return {name: getattr(t, name) for name in names}


def differs(case: dict[str, Any], expect: dict[str, Any]) -> str:
    got = chosen(case)
    if expect.get("k", 0) < case["K"] or expect.get("stationarity") != "output":  # then nothing is held by choice
        got.pop("os_holds_a", None)
        expect = {k: v for k, v in expect.items() if k != "os_holds_a"}
    return "" if got == expect else f"{case}\n  got      {got}\n  expected {expect}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_choice_equals_brute_force(target: str, dtype: str) -> None:
    rng = random.Random(f"{target} {dtype}")
    cases = [problem(rng, target, dtype) for _ in range(EACH)]
    wrong = [text for case in cases if (text := differs(case, brute_force_numpy(case)))]
    assert not wrong, "\n".join(wrong[:5])
    refused = sum("rejected" in brute_force_numpy(c) for c in cases)
    assert 0 < refused < EACH // 2


def test_the_vectorised_brute_force_is_the_plain_one() -> None:
    """The oracle itself: one loop a decision against arrays, on small problems."""
    rng = random.Random(7)
    for _ in range(40):
        case = problem(rng, rng.choice(TARGETS), rng.choice(DTYPES))
        case |= {name: min(case[name], 160) for name in "MNK"}
        assert brute_force_numpy(case) == brute_force(case), case


def test_programs_are_tiled_by_the_same_choice() -> None:
    """`tile` takes the tile that `choose_tile` takes under the same regimes."""
    rng = random.Random(3)
    for _ in range(25):
        m, n, k = (16 * rng.randint(1, 20) for _ in range(3))
        target, planner = rng.choice(TARGETS), rng.choice(["pypto", "dsa_rp"])
        result = tile(parse(Case.full(m, n, k).text()), target=target, planner=planner)
        (d,) = result.decisions
        t = choose_tile(M=m, N=n, K=k, dtype="bf16", target=target, operand_stationary=True, double_buffer_c=planner != "pypto")
        if d.form == "as_it_stands":
            assert (t.m, t.n, t.k) == (m, n, k)
        else:
            assert (d.m, d.n, d.k, d.stationarity, d.double_buffer_c) == (t.m, t.n, t.k, t.stationarity, t.double_buffer_c)
        assert d.wall_cycles == t.wall_cycles
