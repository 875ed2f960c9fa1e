"""Every rule family by itself: both sides of its equation compute the same numbers, and both sides of each of its conditions.

A family is run with no more than the families it builds on, and the schedule is drawn at random from all that they make (the
cost model "random:SEED"), so that dear candidates are written out and executed too.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lift_programs import Case, Chain, load, program
from tiling_checks import TARGETS, checked, codes, decision

from cost.dtypes import dtype as element_type
from cost.hardware import get_target
from cost.problem import Problem
from egraph_rules.catalogue import FAMILIES, rules
from egraph_rules.language import DOUBLE_C, STREAMED
from extraction.snapshot import Schedules
from ir_bridge.ir.parser import parse
from tilesat.choose import saturate
from tilesat.result import Tiling
from tilesat.tiling import tile

SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))

#: What each family is run with, and what it must have made.
RUN_WITH = {
    "whole": "none",
    "loads": "loads",
    "k_split": "loads,k_split",
    "mn_grid": "loads,k_split,mn_grid,direct_store",
    "stationarity": "loads,mn_grid,stationarity,direct_store",
    "double_buffer": "loads,mn_grid,stationarity,double_buffer,direct_store",
    "direct_store": "loads,k_split,mn_grid,direct_store",
    "mat_scratch": "loads,k_split,mn_grid,stationarity,mat_scratch,planners",
    "cast_fold": "loads,k_split,mn_grid,stationarity,cast_fold,planners",
    "vector_cast": "loads,k_split,vector_cast",
    "vec_staging": "loads,k_split,vec_staging",
    "accumulate": "loads,k_split,accumulate",
    "bias_window": "loads,k_split,mn_grid,stationarity,bias_window",
    "split_k_chain": "loads,k_split,accumulate,mn_grid,split_k_chain",
    "drained_pipeline": "loads,drained_pipeline",
    "planners": "loads,k_split,mn_grid,stationarity,mat_scratch,planners",
    "free_hoist": "loads,mn_grid,stationarity,double_buffer,direct_store,free_hoist",
}


def test_no_family_is_forgotten() -> None:
    assert set(RUN_WITH) == set(FAMILIES)


def sixteens(top: int, least: int = 1) -> st.SearchStrategy[int]:
    return st.integers(least, top).map(lambda x: 16 * x)


@st.composite
def cases(draw: st.DrawFn, op: str = "matmul", place: str = "store", **fixed: Any) -> Case:
    """A product of small extents, at times narrowed."""
    dtypes = {"store": ["bf16", "fp16", "fp32", "int8"], "cast": ["bf16", "fp16"], "scratch": ["fp32"]}[place]
    dtypes = [d for d in dtypes if d != "int8" or "left" not in fixed]  # a Vec tile of bytes may be no whole boxes in Mat
    dtype = draw(st.sampled_from(dtypes))
    box = 32 if op == "bias" and dtype == "int8" else 16
    M, N, K = (draw(st.integers(1, top)) * box for top in (8, 8, 12))
    narrow = draw(st.booleans()) and op != "bias"
    valid = tuple(draw(st.integers(1, x)) if narrow else x for x in (M, K, N))
    return Case(M, N, K, valid, dtype, op, place, **fixed)  # type: ignore[arg-type]


def run(family: str, text: str, seed: int, **options: Any) -> Tiling:
    return checked(text, rules=RUN_WITH[family], cost_model=f"random:{seed}", stable=False, **options)


def fired(result: Tiling, family: str) -> set[str]:
    """The rules of a family that matched."""
    return {r.name for r in result.report.rules if r.family == family and r.matches}


where = st.fixed_dictionaries({"target": st.sampled_from(TARGETS), "planner": st.sampled_from(["pypto", "dsa_rp", "ptoas"])})
seeds = st.integers(0, 1 << 20)


@SETTINGS
@given(cases(), where)
def test_whole(case: Case, at: dict[str, str]) -> None:
    """C = A @ B as it stands: with no rule beyond it the program comes back."""
    before = parse(case.text())
    result = run("whole", case.text(), 0, **at)
    assert result.program == before
    assert "product_as_it_stands" in fired(result, "whole")


@SETTINGS
@given(cases(), where)
def test_loads(case: Case, at: dict[str, str]) -> None:
    result = run("loads", case.text(), 0, **at)
    assert result.program == parse(case.text())
    assert {"load_to_mat", "left_from_mat"} <= fired(result, "loads")


@SETTINGS
@given(cases(), where, seeds)
def test_k_split(case: Case, at: dict[str, str], seed: int) -> None:
    result = run("k_split", case.text(), seed, **at)
    assert decision(result, "c").form in ("k_loop", "as_it_stands")


@SETTINGS
@given(cases(), where, seeds)
def test_mn_grid(case: Case, at: dict[str, str], seed: int) -> None:
    result = run("mn_grid", case.text(), seed, **at)
    d = decision(result, "c")
    assert d.form in ("grid_store", "k_loop", "as_it_stands")
    assert d.form == "grid_store" or (d.m, d.n) in ((case.M, case.N), (None, None))


@SETTINGS
@given(cases(), where, seeds)
def test_stationarity(case: Case, at: dict[str, str], seed: int) -> None:
    d = decision(run("stationarity", case.text(), seed, **at), "c")
    assert d.form == "as_it_stands" or d.k == case.K


@SETTINGS
@given(cases(), where, seeds)
def test_double_buffer(case: Case, at: dict[str, str], seed: int) -> None:
    result = run("double_buffer", case.text(), seed, pypto_double_buffer_c=True, **at)
    assert ("pipeline_double_buffer_c" in str(result.program)) == bool(decision(result, "c").double_buffer_c)


@SETTINGS
@given(
    cases(store="r = i + 16\nout_1 = pl.tile.store({result}, [r, i], out, atomic=pl.AtomicType.Add)", slack=(32, 16)),
    where,
    seeds,
)
def test_direct_store(case: Case, at: dict[str, str], seed: int) -> None:
    """Base offsets that are scalars, keywords, and an output larger than the product."""
    run("direct_store", case.text(), seed, **at)


@SETTINGS
@given(cases(place="scratch"), where, seeds)
def test_mat_scratch(case: Case, at: dict[str, str], seed: int) -> None:
    d = decision(run("mat_scratch", case.text(), seed, **at), "c")
    assert d.form in ("grid_scratch", "k_loop", "as_it_stands")
    assert d.form != "grid_scratch" or at["target"] == "ascend950"  # 910B wants a low-precision scratch


@SETTINGS
@given(st.one_of(cases(place="cast"), cases(place="cast", op="bias")), where, seeds)
def test_cast_fold(case: Case, at: dict[str, str], seed: int) -> None:
    result = run("cast_fold", case.text(), seed, **at)
    assert ("tile.cast" in str(result.program)) == (decision(result, "c").placement == "as written")


@SETTINGS
@given(cases(place="cast"), where, seeds)
def test_vector_cast(case: Case, at: dict[str, str], seed: int) -> None:
    """The cast stays on the Vector unit, whatever becomes of the product."""
    result = run("vector_cast", case.text().replace("rint", "floor"), seed, **at)
    assert "tile.cast" in str(result.program)
    assert fired(result, "vector_cast") == {"vector_cast"}


@SETTINGS
@given(cases(left="Vec"), where, seeds)
def test_vec_staging(case: Case, at: dict[str, str], seed: int) -> None:
    result = run("vec_staging", case.text(), seed, **at)
    moved = str(result.program).count("pl.tile.move(a_mat")
    assert moved == (1 if decision(result, "c").form == "k_loop" else 0)


@SETTINGS
@given(cases(op="acc"), where, seeds)
def test_accumulate(case: Case, at: dict[str, str], seed: int) -> None:
    assert decision(run("accumulate", case.text(), seed, **at), "c").form in ("k_loop", "as_it_stands")


@SETTINGS
@given(cases(op="acc_if"), where, seeds)
def test_accumulate_with_a_predicate(case: Case, at: dict[str, str], seed: int) -> None:
    result = run("accumulate", case.text(), seed, **at)
    assert "flag" in str(result.program)


@SETTINGS
@given(cases(op="bias"), where, seeds)
def test_bias_window(case: Case, at: dict[str, str], seed: int) -> None:
    assert codes(run("bias_window", case.text(), seed, **at)) == []


@st.composite
def chain_texts(draw: st.DrawFn) -> str:
    M, N, K = draw(sixteens(8)), draw(sixteens(8)), draw(sixteens(10))
    return Chain(M, N, K, draw(st.integers(1, 3)), draw(st.sampled_from(["int8", "bf16", "fp32"])), draw(st.booleans())).text()


@SETTINGS
@given(chain_texts(), where, seeds)
def test_split_k_chain(text: str, at: dict[str, str], seed: int) -> None:
    result = run("split_k_chain", text, seed, **at)
    assert fired(result, "split_k_chain") == {"split_k_chain"}


@SETTINGS
@given(st.integers(2, 4), st.integers(1, 4), sixteens(4), sixteens(8), st.sampled_from(["store", "assemble"]), where)
def test_drained_pipeline(stage: int, groups: int, rows: int, columns: int, drain: str, at: dict[str, str]) -> None:
    result = run("drained_pipeline", drained(stage * groups, stage, rows, columns, drain), 0, **at)
    marked = "pipeline_double_buffer_c" in str(result.program)
    assert not marked or (at["planner"] == "pypto" and stage * groups >= (4 if drain == "store" else 8))


def drained(trips: int, stage: int, rows: int, columns: int, drain: str) -> str:
    """A pipeline of one product and one drain on operands in L0."""
    N = trips * columns
    a, b = f"a: pl.Tensor[[{rows}, 64], pl.BF16]", f"b: pl.Tensor[[64, {N}], pl.BF16]"
    out = f"pl.Tensor[[{rows}, {N}], pl.FP32]" if drain == "store" else "pl.Tensor[[16, 16], pl.FP32]"
    store = drain == "store"
    state = "out" if store else "scratch"
    body = [
        load("a_mat", "a", (rows, 64), (rows, 64)),
        "a_l0 = pl.tile.move(a_mat, target_memory=pl.Mem.Left)",
        load("b_mat", "b", (64, N), (64, N)),
        *([] if store else [f"scratch = pl.tile.create([{rows}, {N}], dtype=pl.BF16, target_memory=pl.Mem.Mat)"]),
        f"for ni, (o,) in pl.pipeline(0, {N}, {columns}, stage={stage}, init_values=({state},)):",
        f"    b_l0 = pl.tile.extract(b_mat, 0, ni, [64, {columns}], target_memory=pl.Mem.Right)",
        "    c = pl.tile.matmul(a_l0, b_l0)",
        f"    s = {'pl.tile.store(c, [0, ni], o)' if store else 'pl.tile.assemble(o, c, [0, ni])'}",
        "    r = pl.yield_(s)",
        *(
            ["return r"]
            if store
            else [
                "x = pl.tile.extract(r, 0, 0, [16, 16], target_memory=pl.Mem.Left)",
                "y = pl.tile.extract(r, 0, 0, [16, 16], target_memory=pl.Mem.Right)",
                "d = pl.tile.matmul(x, y)",
                "out_1 = pl.tile.store(d, [0, 0], out)",
                "return out_1",
            ]
        ),
    ]
    return program([a, b, f"out: pl.Out[{out}]"], out, body)


@SETTINGS
@given(cases(place="scratch"), where, seeds)
def test_planners(case: Case, at: dict[str, str], seed: int) -> None:
    d = decision(run("planners", case.text(), seed, **at), "c")
    if d.form == "grid_scratch" and at["planner"] == "pypto":
        assert d.stationarity == "output"


@SETTINGS
@given(cases(), where, seeds)
def test_free_hoist(case: Case, at: dict[str, str], seed: int) -> None:
    run("free_hoist", case.text(), seed, **at)


# -- conditions of schedules, both sides --------------------------------------------------------------------------------------

Point = tuple[int, int, int, str, int]


def points(target: str = "910B", M: int = 512, N: int = 512, K: int = 512, dtype: str = "bf16", **more: Any) -> set[Point]:
    """(m, n, k, regime, accumulators) of every legal candidate; a regime is streamed, output-a, output-b, a or b."""
    p = Problem.of(M, N, K, element_type(dtype), **more)
    taken, _ = saturate(p, get_target(target), rules("all"))
    found = taken.schedules.get(0)
    return set() if found is None else set(rows(found))


REGIMES = ("streamed", "output-a", "output-b", "a", "b")


def rows(s: Schedules) -> list[Point]:
    c = s.candidates
    names = [REGIMES[int(r) % DOUBLE_C - STREAMED] for r in s.regime]
    return [(int(c.m[i]), int(c.n[i]), int(c.k[i]), names[i], int(c.dbc[i])) for i in range(len(s))]


def has(found: set[Point], m: int, n: int, k: int, regime: str | None = None, accumulators: int = 1) -> bool:
    return any(p[:3] == (m, n, k) and p[4] == accumulators and regime in (None, p[3]) for p in found)


BIAS8, SHALLOW, LOW8 = {"dtype": "int8", "bias": "mat"}, {"bias": "mat", "K": 32}, {"dtype": "int8", "M": 16, "K": 32}
BOTH_SIDES = [
    # accumulator bytes: rows (in the target's alignment) · columns · 4 <= 131072 on 910B
    ("fits_l0c, whole", {"M": 256, "N": 128, "K": 64}, (256, 128, 64), {"M": 256, "N": 144, "K": 64}, (256, 144, 64)),
    ("fits_l0c, grid", {}, (128, 256, 16), {}, (144, 256, 16)),
    ("fits_l0c, rows", {"N": 256}, (128, 256, 16), {"N": 256}, (144, 256, 16)),
    ("fits_l0c, 950", {"target": "950"}, (256, 256, 16), {"target": "950"}, (272, 256, 16)),
    # int32 on 910B: 16 rows take 32, so 32·1024·4 = 131072 fits and 32·1040·4 does not; on 950 they take 16
    ("int32 rows", LOW8 | {"N": 1024}, (16, 1024, 16), LOW8 | {"N": 1040}, (16, 1040, 16)),
    ("boxed accumulator", {"dtype": "int8", "box_n": 16}, (352, 80, 16), {"dtype": "int8", "box_n": 32}, (352, 80, 16)),
    # two streaming buffers: 128·128·2·2 = 65536
    ("fits_l0a, streamed", {}, (128, 16, 128, "streamed"), {}, (128, 16, 144, "streamed")),
    ("fits_l0b, streamed", {}, (16, 128, 128, "streamed"), {}, (16, 128, 144, "streamed")),
    ("a panel is narrower than K", {"K": 64}, (16, 16, 48, "streamed"), {"K": 64}, (16, 16, 64, "streamed")),
    # full K = 256: a held panel once (128·256·2), a moving one twice (64·256·2·2)
    ("fits_l0a, held", {"K": 256}, (128, 64, 256, "a"), {"K": 256}, (144, 64, 256, "a")),
    ("fits_l0b, moving past A", {"K": 256}, (128, 64, 256, "a"), {"K": 256}, (128, 80, 256, "a")),
    ("fits_l0b, held", {"K": 256}, (64, 128, 256, "b"), {"K": 256}, (64, 144, 256, "b")),
    ("fits_l0a, moving past B", {"K": 256}, (64, 128, 256, "b"), {"K": 256}, (80, 128, 256, "b")),
    ("output-stationary, both twice", {"K": 256}, (64, 64, 256), {"K": 256}, (80, 80, 256)),
    # extents
    ("within M", {"M": 48}, (48, 16, 16), {"M": 48}, (64, 16, 16)),
    ("within N", {"N": 48}, (16, 48, 16), {"N": 48}, (16, 64, 16)),
    ("whole fractals of M", {"M": 48, "N": 48, "K": 48}, (48, 48, 48), {"M": 40, "N": 48, "K": 48}, (40, 48, 48)),
    ("whole fractals of N", {"M": 48, "N": 48, "K": 48}, (48, 48, 48), {"M": 48, "N": 40, "K": 48}, (48, 40, 48)),
    ("whole fractals of K", {"M": 48, "N": 48, "K": 48}, (48, 48, 48), {"M": 48, "N": 48, "K": 40}, (48, 48, 40)),
    # biased: boxes of 32 for int8 in N and K; windows in the bias table of 256 elements
    ("boxes beside a bias, k", BIAS8, (16, 32, 32), BIAS8, (16, 32, 48)),
    ("boxes beside a bias, n", BIAS8, (16, 32, 32), BIAS8, (16, 48, 32)),
    ("boxes beside a bias, N", BIAS8 | {"N": 96}, (16, 32, 32), BIAS8 | {"N": 80}, (16, 32, 32)),
    ("bias table, streamed", {"bias": "mat"}, (16, 256, 16), {"bias": "mat"}, (16, 272, 16)),
    ("bias table, whole", SHALLOW | {"M": 16, "N": 256}, (16, 256, 32), SHALLOW | {"M": 16, "N": 272}, (16, 272, 32)),
    ("bias table, b: one slot", SHALLOW, (16, 256, 32, "b"), SHALLOW, (16, 272, 32, "b")),
    ("bias table, a: two slots", SHALLOW, (16, 128, 32, "a"), SHALLOW, (16, 144, 32, "a")),
    ("bias table, holding A: four", SHALLOW, (128, 64, 32, "output-a"), SHALLOW, (128, 80, 32, "output-a")),
    ("bias table, holding B: two", SHALLOW, (16, 128, 32, "output-b"), SHALLOW, (16, 144, 32, "output-b")),
    ("a bias in the table keeps N whole", {"bias": "bias", "N": 256}, (16, 256, 16), {"bias": "bias", "N": 256}, (16, 128, 16)),
    # two accumulators: 128·128·4·2 = 131072; two full windows on the moving axis
    ("two fit L0C", {"K": 64}, (128, 128, 64, "a", 2), {"K": 64}, (128, 144, 64, "a", 2)),
    ("two full windows past A", {"K": 64, "N": 128}, (64, 64, 64, "a", 2), {"K": 64, "N": 112}, (64, 64, 64, "a", 2)),
    ("two full windows past B", {"K": 64, "M": 128}, (64, 64, 64, "b", 2), {"K": 64, "M": 112}, (64, 64, 64, "b", 2)),
    ("two accumulators want full K", {"K": 64}, (64, 64, 64, "a", 2), {"K": 64}, (64, 64, 32, None, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "legal", "yes", "illegal", "no"), BOTH_SIDES, ids=[row[0] for row in BOTH_SIDES])
def test_both_sides_of_a_condition(name: str, legal: Any, yes: Any, illegal: Any, no: Any) -> None:
    assert has(points(**legal), *yes)
    assert not has(points(**illegal), *no)


def test_the_outer_loop_holds_what_loads_less_in_weighted_cycles() -> None:
    """910B: 129.7 bytes a cycle into L0A, 85.4 into L0B; without free_hoist each window has one order, ties hold A."""
    p = Problem.of(256, 512, 64, element_type("bf16"))
    taken, _ = saturate(p, get_target("910B"), rules("reference"))
    a_once, b_once = 256 * 64 * 2 / 129.7, 64 * 512 * 2 / 85.4
    full = [x for x in rows(taken.schedules[0]) if x[3].startswith("output") and x[4] == 1]
    assert len(full) > 100
    assert len({x[:3] for x in full}) == len(full)
    for m, n, _, regime, _ in full:
        holding_a, holding_b = a_once + b_once * -(-256 // m), a_once * -(-512 // n) + b_once
        assert regime == ("output-a" if holding_a <= holding_b else "output-b"), (m, n)
    free, _ = saturate(p, get_target("910B"), rules("all"))
    both = [x for x in rows(free.schedules[0]) if x[3].startswith("output") and x[4] == 1]
    assert len(both) == 2 * len(full)


def test_held_operands_and_two_accumulators_want_the_targets_leave() -> None:
    p = Problem.of(256, 512, 64, element_type("bf16"))
    closed, _ = saturate(p, get_target("910B"), rules("all"), operand_stationary=False, double_buffer_c=False)
    assert {x[3] for x in rows(closed.schedules[0])} == {"streamed", "output-a", "output-b"}
    assert {x[4] for x in rows(closed.schedules[0])} == {1}
    opened, _ = saturate(p, get_target("910B"), rules("all"))
    assert {x[3] for x in rows(opened.schedules[0])} == set(REGIMES)


# -- conditions of placements, both sides ---------------------------------------------------------------------------------------


def form(text: str, **options: Any) -> tuple[str, list[str]]:
    """The form product ``c`` takes, and all codes."""
    result = checked(text, stable=False, **options)
    return decision(result, "c").form, codes(result)


def test_direct_store_wants_whole_fractals() -> None:
    assert form(Case.full(256, 512, 64).text()) == ("grid_store", [])
    assert form(Case.full(264, 512, 64).text()) == ("as_it_stands", ["PH-AT-006"])
    assert form(Case.full(256, 520, 64).text()) == ("as_it_stands", ["PH-AT-006"])


def test_mat_scratch_wants_a_type_the_target_takes_and_room_in_mat() -> None:
    text = Case.full(256, 256, 64, dtype="fp32", place="scratch").text()
    assert form(text, target="ascend950")[0] == "grid_scratch"
    assert form(text, target="ascend910b") == ("as_it_stands", ["PH-AT-009", "PH-AT-006"])
    # 512·256·4 bytes are all of Mat's 524288: the rule, which counts nothing beside them, fires; one fractal of columns more is
    # too many. The operands have no room beside such a scratch, so the product is left all the same.
    fits, exceeds = (tile(parse(Case.full(512, n, 16, dtype="fp32", place="scratch").text()), "950", "pypto") for n in (256, 272))
    assert any(w.fired for w in fits.why_not("mat_scratch", "c"))
    assert not any(w.fired for w in exceeds.why_not("mat_scratch", "c"))
    assert "beside the other tiles alive" in fits.diagnostics[0].message
    assert decision(exceeds, "c").form == "as_it_stands"
    assert codes(exceeds) == ["PH-AT-006"]
    assert "512·272·4 = 557056 bytes exceed Mat's 524288" in exceeds.diagnostics[0].message


def test_mat_scratch_wants_matrix_readers_alone() -> None:
    text = Case.full(256, 256, 64, dtype="fp32", place="scratch").text()
    both = text.replace(
        "d = pl.tile.matmul(c, e_mat)", "d = pl.tile.matmul(c, e_mat)\n        v = pl.tile.move(c, target_memory=pl.Mem.Vec)"
    )
    assert form(both, target="ascend950") == ("as_it_stands", ["PH-AT-006"])


@pytest.mark.parametrize(
    ("old", "new", "folds"),
    [
        ("rint", "rint", True),
        ("rint", "round", False),
        ("rint", "floor", False),
        ("rint", "ceil", False),
        ("rint", "trunc", False),
        ("rint", "odd", False),
        ("rint", "none", False),
        (", mode='rint'", "", False),  # the default is round
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_only_rint_folds(old: str, new: str, folds: bool, target: str) -> None:
    text = Case.full(128, 128, 64, place="cast").text().replace(old, new)
    result = checked(text, target=target)
    assert ("tile.cast" not in str(result.program)) == folds
    assert codes(result) == ([] if folds else ["PH-AT-010"])


def test_a_fold_wants_matrix_readers_and_a_product_used_once() -> None:
    text = Case.full(128, 128, 64, place="cast").text()
    reader = "d = pl.tile.matmul(cb, e_mat)"
    for more in ("v = pl.tile.muls(cb, 2.0)", "v = pl.tile.move(c, target_memory=pl.Mem.Vec)"):
        result = checked(text.replace(reader, f"{reader}\n        {more}"))
        assert "tile.cast" in str(result.program)
        assert codes(result) == []
    twice = checked(text.replace(reader, f"{reader}\n        d2 = pl.tile.matmul(cb, e_mat)"))
    assert "tile.cast" not in str(twice.program)
    assert str(twice.program).count("tile.assemble") == 1


def test_a_folded_grid_wants_room_in_mat() -> None:
    """512·512·2 bytes are all of Mat, and leave no room for the operands; 528·512·2 are more than all."""
    fits, exceeds = (tile(parse(Case.full(m, 512, 16, place="cast").text()), planner="pypto") for m in (512, 528))
    assert any(w.fired for w in fits.why_not("fold_grid_bf16", "c"))
    assert not any(w.fired for w in exceeds.why_not("fold_grid_bf16", "c"))
    for result in (fits, exceeds):
        assert decision(result, "c").form == "as_it_stands"
        assert codes(result)[0] == "PH-AT-006"


def test_staging_is_for_k_loops_alone() -> None:
    assert form(Case.full(64, 64, 512, left="Vec").text(), planner="pypto") == ("k_loop", [])
    assert form(Case.full(256, 512, 32, left="Vec").text(), planner="pypto") == ("as_it_stands", ["PH-AT-006"])


def test_accumulates_are_never_cut() -> None:
    assert form(Case.full(64, 64, 2048, op="acc").text(), planner="pypto") == ("k_loop", [])
    assert form(Case.full(256, 256, 64, op="acc").text(), planner="pypto") == ("as_it_stands", ["PH-AT-006", "PH-AT-006"])


def test_bias_windows_want_a_load_that_can_be_repeated() -> None:
    text = Case.full(256, 512, 64, op="bias").text()
    assert form(text) == ("grid_store", [])
    product = "c = pl.tile.matmul_bias(a_mat, b_mat, bias_mat)"
    for where_, line in (("before", "q = i + 1"), ("after", "q = i + 1")):
        both = [line, product] if where_ == "before" else [product, line]
        assert form(text.replace(product, "\n        ".join(both))) == ("as_it_stands", ["PH-AT-011"])
    more = "x = pl.tile.load(a, [0, 0], [16, 16], target_memory=pl.Mem.Mat)"
    assert form(text.replace(product, f"{more}\n        {product}\n        {more.replace('x =', 'y =')}")) == ("grid_store", [])


def test_chains_are_cut_where_the_chooser_cuts_them() -> None:
    cut, whole = (checked(Chain(256, n, 64, 2, "bf16").text(), planner="pypto") for n in (512, 64))
    assert [(d.op, d.form) for d in cut.decisions] == [("split_k_chain", "grid_store")]
    assert [(d.op, d.form) for d in whole.decisions] == [("matmul_acc", "as_it_stands")]


@pytest.mark.parametrize(
    ("trips", "stage", "rows_", "columns", "drain", "pays"),
    [
        (4, 2, 64, 64, "store", True),
        (2, 2, 64, 64, "store", False),  # too few trips
        (6, 3, 64, 64, "store", True),
        (8, 2, 64, 128, "assemble", True),  # 64·128·4 = 32 KiB, a quarter of 128 KiB
        (8, 2, 64, 112, "assemble", False),  # 28 KiB
        (6, 2, 64, 128, "assemble", False),  # too few trips for the cheap drain
        (4, 2, 128, 128, "store", True),  # 64 KiB, and 64 more, are all of L0C
        (4, 2, 144, 128, "store", False),
    ],
)
def test_drained_pipelines_pay_from_a_size_on_and_must_fit(
    trips: int, stage: int, rows_: int, columns: int, drain: str, pays: bool
) -> None:
    text = drained(trips, stage, rows_, columns, drain)
    for planner in ("pypto", "dsa_rp", "ptoas"):
        marked = "pipeline_double_buffer_c" in str(checked(text, planner=planner).program)
        assert marked == (pays and planner == "pypto")


def test_the_legacy_planner_takes_output_stationary_scratch_grids() -> None:
    text = Case.full(256, 256, 192, place="cast").text()
    held = {p: decision(checked(text, planner=p), "c").stationarity for p in ("pypto", "dsa_rp", "ptoas")}
    assert held["pypto"] == "output"
    assert held["dsa_rp"] == held["ptoas"] != "output"


def test_exchanged_loops_keep_the_bias_limits() -> None:
    """A quarter of the table where A is held, half of it where B is, exchanged or not."""
    found = points(bias="mat", K=32)
    assert max(n for _, n, k, regime, _ in found if k == 32 and regime == "output-a") == 64
    assert max(n for _, n, k, regime, _ in found if k == 32 and regime == "output-b") == 128
