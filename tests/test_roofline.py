"""The roofline: hand-worked numbers, the oracle, and every wall of the golden tile choices."""

from __future__ import annotations

import json
import random
from pathlib import Path

import brute_force as oracle
import numpy as np
import pytest

from cost import roofline
from cost.breakdown import best, ranking
from cost.dtypes import dtype
from cost.hardware import get_target
from cost.problem import OUTPUT, STATIONARITY, A, B, Candidates, Problem
from cost.volume import padded_volume, traffic_bytes

GOLDEN = [json.loads(line) for line in Path(__file__).with_name("data").joinpath("l0_tile_choices.jsonl").open()]
B910, B950 = get_target("ascend910b"), get_target("ascend950")


def one(problem, target, m, n, k, stationarity=OUTPUT, dbc=1, holds_a=None):
    """Prices of one candidate, as plain numbers."""
    if holds_a is None:
        holds_a = stationarity == A or (stationarity == OUTPUT and bool(roofline.hoist_a(problem, target, m, n)))
    prices = roofline.price(Candidates.of([(m, n, k, stationarity, holds_a, dbc)]), problem, target)
    return prices.terms(0)


# -- hand-worked numbers ---------------------------------------------------------------------------------------------


def test_one_tile_split_along_k():
    """16 x 512 x 128 bf16 on 910B in k = 32: both operands stream once, four K blocks, one drain."""
    t = one(Problem.of(16, 512, 128), B910, 16, 512, 32)
    assert t["load"] == pytest.approx(16 * 128 * 2 / 129.7 + 128 * 512 * 2 / 85.4)  # 31.58 + 1534.80
    assert t["mad"] == 4 * (21 + 1 * 1 * 32 * 2)  # 32 bf16 wide = 2 fractal steps; 32 N fractals
    assert t["drain"] == pytest.approx(164 + 16 * (4 * 512 / 118))  # wide n: throughput, N1 = 64 is a power of two
    assert t["wall"] == pytest.approx(t["load"] + t["drain"])
    assert round(t["wall"]) == 2008


def test_a_narrow_tail_of_k_is_charged_its_own_width():
    """K = 112 in k = 48: two full blocks of 3 fractal steps, a tail of 16 = 1 step; each has its head."""
    t = one(Problem.of(16, 16, 112), B910, 16, 16, 48)
    assert t["mad"] == 2 * (21 + 3) + (21 + 1)


def test_fp32_passes():
    assert one(Problem.of(32, 32, 32, dtype("fp32")), B910, 32, 32, 32)["mad"] == 21 + 2 * 2 * 2 * 4
    assert one(Problem.of(32, 32, 32, dtype("fp32")), B950, 32, 32, 32)["mad"] == 25 + 8 * 2 * 2 * 4
    assert one(Problem.of(32, 32, 32, dtype("int8")), B950, 32, 32, 32)["mad"] == 25 + 1 * 2 * 2 * 1


def test_a_biased_int8_product_is_charged_half_its_n_fractals():
    plain = one(Problem.of(16, 64, 32, dtype("int8")), B910, 16, 64, 32)
    biased = one(Problem.of(16, 64, 32, dtype("int8"), bias="mat"), B910, 16, 64, 32)
    assert (plain["mad"], biased["mad"]) == (21 + 4, 21 + 2)


@pytest.mark.parametrize(("n", "odd"), [(80, 5), (96, 3), (128, 1), (64, 1), (112, 7)])
def test_drain_penalty_by_the_odd_part_of_n1(n, odd):
    """N1 = n / 8: it is the odd part of N1 that counts, not n mod 32 (80 and 96 both pay; 128 does not)."""
    t = one(Problem.of(64, n, 16), B910, 64, n, 16)
    assert t["drain"] == pytest.approx(164 + 64 * (max(4.45, 4 * n / 118) + 2.6 * (odd - 1)))


def test_drain_floor_and_throughput_cross_near_131():
    """4.45 cycles a row is the floor up to 4n/118 = 4.45, that is n = 131.3."""
    row = {n: (one(Problem.of(16, n, 16), B910, 16, n, 16)["drain"] - 164) / 16 for n in (64, 128, 256)}
    assert row[64] == pytest.approx(4.45)
    assert row[128] == pytest.approx(4.45)
    assert row[256] == pytest.approx(8.678, abs=1e-3)


def test_bubble_of_two_tiles_is_half_the_smaller_lane():
    """Specification 1: with two output tiles the bubble is 50 % of the smaller flow, on a 2 x 2 grid about 25 %."""
    p = Problem.of(64, 128, 64)
    t = one(p, B910, 64, 64, 64, dbc=2)
    compute = max(t["load"], t["mad"])
    assert t["bubble"] == pytest.approx(min(compute, t["drain"]) / 2)
    assert t["wall"] == pytest.approx(max(compute, t["drain"]) + t["bubble"])
    t = one(Problem.of(128, 128, 64), B910, 64, 64, 64, dbc=2)
    assert t["bubble"] == pytest.approx(min(max(t["load"], t["mad"]), t["drain"]) / 4)


def test_load_by_stationarity_and_hoist():
    p = Problem.of(256, 512, 64)  # grid 2 x 4 of 128 x 128
    a, b = 256 * 64 * 2 / 129.7, 64 * 512 * 2 / 85.4
    assert one(p, B910, 128, 128, 64, A)["load"] == pytest.approx(a + 2 * b)
    assert one(p, B910, 128, 128, 64, B)["load"] == pytest.approx(4 * a + b)
    assert one(p, B910, 128, 128, 64)["load"] == pytest.approx(min(a + 2 * b, 4 * a + b))
    assert one(p, B910, 128, 128, 32)["load"] == pytest.approx(4 * a + 2 * b)


def test_hoist_is_decided_in_cycles_and_ties_hold_a():
    """64 x 64 x 32 bf16 as 2 x 2: the bytes are equal, but L0B is the slower road, so B is held. Where nothing is loaded twice
    both orders cost the same, and A is held."""
    p = Problem.of(64, 64, 32)
    assert not roofline.hoist_a(p, B910, 32, 32)
    assert roofline.hoist_a(p, B910, 64, 64)
    assert list(roofline.hoist_a(p, B910, np.array([32, 64]), np.array([32, 16]))) == [False, True]


def test_traffic_and_padded_volume_by_hand():
    """100 x 60 x 64 bf16 in 48 x 32 tiles: grid 3 x 2; A is 12800 bytes, B 7680, C 24000."""
    p = Problem.of(100, 60, 64, accumulate=True)
    c = Candidates.of([(48, 32, 64, A, True, 1), (48, 32, 64, B, False, 1), (48, 32, 48, OUTPUT, True, 1)])
    assert list(traffic_bytes(c, p)) == [
        12800 + 3 * 7680 + 2 * 24000,
        2 * 12800 + 7680 + 2 * 24000,
        2 * 12800 + 3 * 7680 + 2 * 24000,
    ]
    assert list(padded_volume(c, p)) == [144 * 64 * 64, 144 * 64 * 64, 144 * 64 * 96]


# -- against the oracle and the golden rows --------------------------------------------------------------------------


def problem_of(case):
    options = {key: case[key] for key in ("accumulate", "bias", "box_m", "box_n", "allow_padding") if key in case}
    return Problem.of(case["M"], case["N"], case["K"], dtype(case["dtype"]), **options)


def test_every_golden_wall_traffic_and_volume():
    for row in GOLDEN:
        case, expect = row["case"], row["expect"]
        if "m" not in expect:
            continue
        p, target = problem_of(case), get_target(case["target"])
        kind = STATIONARITY.index(expect["stationarity"])
        holds = kind == A or (kind == OUTPUT and expect["os_holds_a"])
        c = Candidates.of([(expect["m"], expect["n"], expect["k"], kind, holds, 1 + expect["double_buffer_c"])])
        found = int(roofline.price(c, p, target).wall_rounded[0]), int(traffic_bytes(c, p)[0]), int(padded_volume(c, p)[0])
        assert found == (expect["wall_cycles"], expect["traffic_bytes"], expect["padded_volume"]), case


def generated_case(rng):
    kind = rng.choice(["int8", "bf16", "fp16", "fp32"])
    case = {
        "target": rng.choice(["ascend910b", "ascend950"]),
        "dtype": kind,
        "M": rng.randrange(16, 1200),
        "N": rng.randrange(1, 40) * 32,
        "K": rng.randrange(1, 60) * 32,
        "operand_stationary": True,
        "double_buffer_c": True,
    }
    return case | ({"bias": "mat"} if rng.random() < 0.3 else {})


def test_order_of_generated_candidates_is_the_oracles():
    """All terms of all candidates of 30 problems, and the documented order of them, against the brute force."""
    rng = random.Random(7)
    for _ in range(30):
        case = generated_case(rng)
        c = oracle.Case(case)
        p, target = problem_of(case), get_target(case["target"])
        for held, dbc in c.regimes:
            points = c.candidates(held, dbc)
            rng.shuffle(points)
            if not points:
                continue
            kind = STATIONARITY.index(held)
            rows = [(*point, kind, c.holds_a(held, point[0], point[1]), dbc) for point in points]
            cands = Candidates.of(rows)
            prices = roofline.price(cands, p, target)
            assert prices.wall_rounded.tolist() == [c.wall(held, dbc, *point) for point in points]
            order = sorted(range(len(points)), key=lambda i: c.key(held, dbc, *points[i]))
            assert ranking(cands, p, prices).tolist() == order
            assert best(cands, p, prices) == order[0]


def test_the_oracle_reproduces_the_golden_rows():
    """The oracle itself, both ways of writing it: os_holds_a only where it has meaning."""
    for row in GOLDEN:
        expect = dict(row["expect"])
        found = oracle.brute_force_numpy(row["case"])
        if expect.get("stationarity") != "output" or expect["k"] < row["case"]["K"]:
            expect.pop("os_holds_a", None)
            found.pop("os_holds_a", None)
        assert found == expect, row["case"]


def test_the_two_oracles_agree():
    rng = random.Random(11)
    for _ in range(40):
        case = generated_case(rng) | {"allow_padding": rng.random() < 0.3}
        assert oracle.brute_force(case) == oracle.brute_force_numpy(case), case


def test_documented_choices():
    """Specification 1: 320 x 320 takes the aligned 160 x 128 x 64, not 160 x 80; 512^3 fp32 on 950 four 256 x 256 x 32."""
    found = oracle.brute_force({"target": "ascend910b", "dtype": "bf16", "M": 320, "N": 320, "K": 64, "operand_stationary": True})
    assert (found["m"], found["n"], found["k"]) == (160, 128, 64)
    found = oracle.brute_force({"target": "ascend950", "dtype": "fp32", "M": 512, "N": 512, "K": 512})
    assert (found["m"], found["n"], found["k"]) == (256, 256, 32)
