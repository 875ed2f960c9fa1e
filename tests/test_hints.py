"""Every way to a hint: the bound of each gate to the unit, the names and numbers in its message, and which check comes first."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from lift_programs import Case, Chain, load, program
from tiling_checks import codes, decision

import tilesat
from egraph_rules.report import Limits
from tilesat.result import PerfHint, Tiling


def tiled(text: str, **options: object) -> Tiling:
    return tilesat.tile(tilesat.parse(text), **({"target": "ascend910b", "planner": "pypto"} | options))  # type: ignore[arg-type]


def hints(text: str, name: str = "c", **options: object) -> list[PerfHint]:
    """The hints about the product called ``name``; such a product stands as it stood, but for 010, which is about its cast."""
    result = tiled(text, **options)
    found = [d for d in result.diagnostics if d.where.startswith(f"{name} in kernel, ")]
    if any(d.code != "PH-AT-010" for d in found):
        assert decision(result, name).form == "as_it_stands"
    return found


def said(text: str, code: str, *words: str, name: str = "c", op: str = "matmul", **options: object) -> None:
    """Exactly one hint about a product, with this code and these words, printed as documented."""
    (hint,) = hints(text, name, **options)
    assert hint.code == code
    for word in words:
        assert word in hint.message
    shape = rf"\[perf_hint {code}\] AutoTileMatmulL0: tile\.{op}: .+ at {name} in kernel, <string>:\d+:\d+"
    assert re.fullmatch(shape, str(hint))


def silent(text: str, form: str, name: str = "c", **options: object) -> None:
    """No hint about a product, and it is in this form."""
    result = tiled(text, **options)
    assert [d for d in result.diagnostics if d.where.startswith(f"{name} in kernel, ")] == []
    assert decision(result, name).form == form


def int4(text: str) -> str:
    return text.replace("INT8", "INT4")


def swap(text: str, old: str, new: str) -> str:
    """One thing of a program changed; it must be there, once."""
    assert text.count(old) == 1, text
    return text.replace(old, new)


def right_in_vec(case: Case) -> str:
    """The case with its right operand loaded into Vec."""
    here = load("b_mat", "b", (case.K, case.N), (case.valid[1], case.valid[2]))
    return swap(case.text(), here, here.replace("Mem.Mat", "Mem.Vec"))


def bias_held(text: str) -> str:
    """The bias moved to Bias by the author."""
    move = "bias_b = pl.tile.move(bias_mat, target_memory=pl.Mem.Bias)\n        c = pl.tile.matmul_bias(a_mat, b_mat, bias_b)"
    return swap(text, "c = pl.tile.matmul_bias(a_mat, b_mat, bias_mat)", move)


def bias_of(case: Case, dtype: str) -> str:
    """A bias of another element type than the accumulator's."""
    size = case.N + 16
    return swap(case.text(), f"bias: pl.Tensor[[1, {size}], pl.FP32]", f"bias: pl.Tensor[[1, {size}], pl.{dtype}]")


# -- 003 ----------------------------------------------------------------------------------------------------------------------


def test_003_element_types_narrower_than_a_byte() -> None:
    deep = Case.full(64, 64, 2048, dtype="int8").text()
    said(int4(deep), "PH-AT-003", "int4")
    assert hints(deep) == []


@pytest.mark.parametrize("op", ["acc", "bias"])
def test_003_in_every_product(op: str) -> None:
    text = Case.full(64, 64, 2048, dtype="int8", op=op).text()
    said(int4(text), "PH-AT-003", "int4", op=f"matmul_{op}")


# -- 005 ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 8, 15])
def test_005_extents_below_the_smallest_tile(m: int) -> None:
    said(Case.full(m, 64, 1024).text(), "PH-AT-005", f"{m} × 64 × 1024", "16")
    said(Case.full(64, m, 1024).text(), "PH-AT-005", f"64 × {m} × 1024", "16")


def test_005_ends_at_sixteen() -> None:
    silent(Case.full(16, 64, 1024).text(), "k_loop")
    silent(Case.full(64, 16, 1024).text(), "k_loop")


@pytest.mark.parametrize(
    ("rules", "absent"),
    [
        ("k_split,loads", "without mn_grid and stationarity,"),
        ("loads,direct_store", "without k_split, mn_grid and stationarity,"),
        ("all,-mn_grid,-stationarity", "without mn_grid and stationarity,"),
    ],
)
def test_005_names_the_rules_that_are_absent(rules: str, absent: str) -> None:
    """Where no extent is below 16, padding is no repair."""
    text = Case.full(48, 336, 16, dtype="fp32").text()
    said(text, "PH-AT-005", "48 × 336 × 16 in fp32", absent, rules=rules)
    assert "padded" not in hints(text, rules=rules)[0].message
    silent(text, "grid_store")


@pytest.mark.parametrize("extents", [(0, 64, 64), (64, 0, 64), (64, 64, 0)])
def test_005_an_extent_of_nothing(extents: tuple[int, int, int]) -> None:
    """Rules divide by what a panel takes: a product of nothing never reaches them."""
    for rules in ("reference", "all"):
        said(Case.full(*extents).text(), "PH-AT-005", "an extent of", "is 0", rules=rules)


def test_005_names_the_small_extents() -> None:
    (hint,) = hints(Case.full(8, 4, 1024).text())
    assert hint.message.endswith("no tile of 8 × 4 × 1024 in bf16 fits L0; M = 8 and N = 4 must be padded to 16")


def in_a_pipeline(case: Case, stages: int, around: int = 1) -> str:
    """A case in a pipeline of the author's own, inside another."""
    head, _, body = case.text().partition("a_mat = ")
    body = f"a_mat = {body}".rstrip().removesuffix("return out_1").rstrip()
    loops = [
        f"for o, (out_o,) in pl.pipeline(4, init_values=(out,), stage={around}):",
        f"    for j, (out_j,) in pl.pipeline(4, init_values=(out_o,), stage={stages}):",
        *(f"        {line.strip().replace('[0, 0], out)', '[0, 0], out_j)')}" for line in body.splitlines()),
        "        inner = pl.yield_(out_1)",
        "    outer = pl.yield_(inner)",
        "return outer",
    ]
    return head + "\n        ".join(loops) + "\n"


def test_005_names_the_copies_of_pipelines() -> None:
    biased = Case.full(64, 64, 64, op="bias")
    peeled = in_a_pipeline(Case.full(72, 64, 16), 512)
    said(peeled, "PH-AT-005", "pipeline around it keeps 512 copies of each panel; give it fewer stages")
    said(in_a_pipeline(biased, 2, around=16), "PH-AT-005", "the bias table holds 8 columns", op="matmul_bias")


def test_005_names_buffers_too_small_for_any_tile() -> None:
    small = replace(tilesat.get_target("ascend910b"), l0a=256)
    said(Case.full(64, 64, 64).text(), "PH-AT-005", "L0A, L0B and L0C of ascend910b hold 256, 65536 and 131072", target=small)


def test_005_a_bias_in_bias_larger_than_the_table() -> None:
    """910B's bias table is 1 KiB: 256 elements of fp32."""
    said(bias_held(Case.full(64, 272, 64, op="bias").text()), "PH-AT-005", "272", "1024 bytes", op="matmul_bias")
    silent(bias_held(Case.full(64, 256, 512, op="bias").text()), "k_loop")


# -- 006 ----------------------------------------------------------------------------------------------------------------------


def test_006_an_accumulator_of_the_callers_own() -> None:
    """128 × 256 fp32 is 910B's L0C to the byte; sixteen columns more must be cut."""
    text = Case.full(128, 272, 64, op="acc").text()
    said(text, "PH-AT-006", "128 × 272", "accumulator", op="matmul_acc")
    silent(Case.full(128, 128, 1024, op="acc").text(), "k_loop")


def test_006_a_left_operand_in_vec() -> None:
    said(Case.full(256, 256, 64, left="Vec").text(), "PH-AT-006", "256 × 256", "Vec")
    silent(Case.full(256, 256, 64).text(), "grid_store")
    silent(Case.full(128, 128, 256, left="Vec").text(), "k_loop")


@pytest.mark.parametrize(
    "store",
    [
        "out_1 = pl.tile.store({result}, [0, 0], out, [256, 256])",
        "out_0 = pl.tile.store({result}, [0, 0], out)\nout_1 = pl.tile.store({result}, [0, 0], out_0)",
        "v = pl.tile.move({result}, target_memory=pl.Mem.Vec)\nout_1 = pl.tile.store(v, [0, 0], out)",
        "if flag:\n    s = pl.tile.store({result}, [0, 0], out)\n    out_1 = pl.yield_(s)\nelse:\n    out_1 = pl.yield_(out)",
    ],
    ids=["four operands", "stored twice", "used on chip", "in another list"],
)
def test_006_a_result_with_nowhere_to_go(store: str) -> None:
    said(Case.full(256, 256, 64, store=store).text(), "PH-AT-006", "256 × 256", "store")
    fits = Case.full(128, 128, 64, store=store.replace("[256, 256]", "[128, 128]")).text()
    silent(fits, "as_it_stands")


def test_006_operands_that_change_before_the_store() -> None:
    """The grid would stand at the store, where the left operand holds something else."""
    change = "z = pl.tile.assemble(a_mat, b_mat, [0, 0])\nout_1 = pl.tile.store({result}, [0, 0], out)"
    said(Case.full(256, 256, 256, store=change).text(), "PH-AT-006", "tile.assemble", "'a_mat'")
    other = "w = pl.tile.create([256, 256], dtype=pl.BF16, target_memory=pl.Mem.Mat)\n" + change.replace("(a_mat", "(w")
    silent(Case.full(256, 256, 256, store=other).text(), "grid_store")


def test_006_a_scratch_beyond_mat() -> None:
    """950's Mat is 512 KiB: 272 × 512 of fp32 is beyond it; 256 × 512 fills it, and leaves no room for its operands."""
    beyond = Case.full(272, 512, 64, dtype="fp32", place="scratch").text()
    said(beyond, "PH-AT-006", "272·512·4 = 557056", "524288", target="ascend950")
    full = Case.full(256, 512, 64, dtype="fp32", place="scratch").text()
    said(full, "PH-AT-006", "beside the other tiles alive", "524288", target="ascend950")
    silent(Case.full(512, 192, 16, dtype="fp32", place="scratch").text(), "grid_scratch", target="ascend950")


@pytest.mark.parametrize(("m", "n"), [(264, 256), (256, 264)])
def test_006_outputs_that_are_no_whole_fractals(m: int, n: int) -> None:
    """The specification counts on M and N in whole fractals here; what is not is left, with the size to pad it to."""
    said(Case.full(m, n, 64).text(), "PH-AT-006", f"{m} × {n}", f"pad it to {-(-m // 16) * 16} × {-(-n // 16) * 16}")


def test_006_a_bias_in_bias_that_would_have_to_be_cut() -> None:
    """950's table holds 1024 of fp32, but two 16-deep panels of 1024 columns of fp32 are 128 KiB, and its L0B is 64 KiB."""
    held = bias_held(Case.full(64, 1024, 64, dtype="fp32", op="bias").text())
    said(held, "PH-AT-006", "N = 1024", op="matmul_bias", target="ascend950")
    silent(bias_held(Case.full(64, 512, 64, dtype="fp32", op="bias").text()), "k_loop", target="ascend950")


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("flag", "no test of the loop's own variable 'kb'"),
        ("k0 == 64", "does not compare with 0"),
        ("kb != 0", "no test of the loop's own variable 'kb'"),
        ("k0 * 0 == 0", "non-zero constant"),
        ("turn == 0", "does not test the loop's own variable 'kb'"),
    ],
)
def test_006_a_chain_whose_predicate_proves_nothing(branch: bool, test: str, words: str) -> None:
    text = Chain(16, 1152, 64, 8, branch=branch).text()
    old, new = ("if k0 == 0:", f"if {test}:") if branch else ("a_k, b_k, k0 == 0)", f"a_k, b_k, {test})")
    scalars = "flag: pl.Scalar[pl.BOOL], turn: pl.Scalar[pl.INDEX], out: pl.Out"
    broken = swap(swap(text, old, new), "out: pl.Out", scalars)
    result = tiled(broken)
    assert "grid_store" not in [d.form for d in result.decisions]
    said(broken, "PH-AT-006", "16 × 1152", words, name="more", op="matmul_acc")
    silent(text, "grid_store", name="acc_r")


# -- 007 ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [8, 24, 1000])
def test_007_k_that_is_no_multiple_of_sixteen(k: int) -> None:
    padded = -(-k // 16) * 16
    said(Case.full(64, 64, k).text(), "PH-AT-007", f"K = {k}", f"pad K to {padded}")
    assert hints(Case.full(64, 64, padded).text()) == []


# -- 008 ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "planner", "form"),
    [(Case.full(128, 128, 1024), "pypto", "k_loop"), (Case.full(192, 512, 64), "dsa_rp", "grid_store")],
)
def test_008_a_run_that_a_limit_ended(case: Case, planner: str, form: str) -> None:
    said(case.text(), "PH-AT-008", "node limit", limits=Limits(nodes=1), planner=planner)
    silent(case.text(), form, planner=planner)


# -- 009 ----------------------------------------------------------------------------------------------------------------------


def test_009_a_scratch_in_fp32_where_the_target_wants_bf16() -> None:
    """910B only; the direct store is looked at next, and adds 006."""
    text = Case.full(256, 256, 64, dtype="fp32", place="scratch").text()
    first, second = hints(text)
    assert (first.code, second.code) == ("PH-AT-009", "PH-AT-006")
    for word in ("256 × 256", "ascend910b", "bf16 or fp16", "fp32", "mode='rint'"):
        assert word in first.message
    silent(Case.full(512, 192, 16, dtype="fp32", place="scratch").text(), "grid_scratch", target="ascend950")
    silent(Case.full(256, 256, 64, place="cast").text(), "grid_scratch")
    silent(Case.full(128, 128, 64, dtype="fp32", place="scratch").text(), "as_it_stands")


def test_009_comes_before_capacity() -> None:
    """768 × 512 × 4 bytes are beyond Mat as well; only 009 and the store's 006 are said."""
    found = hints(Case.full(768, 512, 64, dtype="fp32", place="scratch").text())
    assert [h.code for h in found] == ["PH-AT-009", "PH-AT-006"]
    assert "exceed Mat" not in found[1].message


# -- 010 ----------------------------------------------------------------------------------------------------------------------

CAST = Case.full(128, 128, 64, place="cast").text()


@pytest.mark.parametrize("mode", ["none", "round", "floor", "ceil", "trunc", "odd"])
def test_010_roundings_that_fixpipe_does_not_do(mode: str) -> None:
    said(swap(CAST, "'rint'", f"'{mode}'"), "PH-AT-010", f'"{mode}"', 'mode="rint"')


def test_010_sources_that_fixpipe_does_not_narrow() -> None:
    said(Case.full(128, 128, 64, dtype="int8", place="cast").text(), "PH-AT-010", "int32", "fp32")


def test_010_the_default_mode_is_round() -> None:
    said(swap(CAST, ", mode='rint'", ""), "PH-AT-010", '"round"')


def test_010_not_where_the_cast_folds_or_feeds_no_matmul() -> None:
    assert codes(tiled(CAST)) == []
    assert decision(tiled(CAST), "c").placement == "Mat (bf16, cast folded)"
    alone = Case.full(
        128, 128, 64, store="cb = pl.tile.cast({result}, target_type=pl.BF16)\nout_1 = pl.tile.store(cb, [0, 0], out)"
    )
    assert codes(tiled(swap(alone.text(), "out: pl.Out[pl.Tensor[[128, 128], pl.FP32]]", OUT_BF16).replace(*RETURNS_BF16))) == []


def test_010_not_of_an_output_that_is_no_single_window() -> None:
    """With `rint` it would not be folded whole either: K = 24 keeps it from being cut, and 910B's L0C holds half of 256 × 256."""
    for mode in ("floor", "rint"):
        large = swap(Case.full(256, 256, 24, place="cast").text(), "'rint'", f"'{mode}'")
        assert [h.code for h in hints(large)] == ["PH-AT-007"]
        assert decision(tiled(large), "c").placement == "as written"
    floor = swap(Case.full(256, 256, 24, place="cast").text(), "'rint'", "'floor'")
    assert [h.code for h in hints(floor, target="ascend950")] == ["PH-AT-010", "PH-AT-007"]


OUT_BF16 = "out: pl.Out[pl.Tensor[[128, 128], pl.BF16]]"
RETURNS_BF16 = ("-> pl.Tensor[[128, 128], pl.FP32]", "-> pl.Tensor[[128, 128], pl.BF16]")


# -- 011 ----------------------------------------------------------------------------------------------------------------------

BIASED = Case.full(64, 512, 64, op="bias")


def test_011_a_biased_product_with_its_left_operand_in_vec() -> None:
    said(replace(BIASED, left="Vec").text(), "PH-AT-011", "left operand", "Vec", op="matmul_bias")
    silent(BIASED.text(), "grid_store")


def test_011_bias_types_that_the_target_can_not_move() -> None:
    said(bias_of(BIASED, "BF16"), "PH-AT-011", "ascend910b", "bf16", "fp32", op="matmul_bias")
    assert hints(bias_of(BIASED, "BF16"), target="ascend950") == []
    assert hints(bias_of(BIASED, "FP16")) == []


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype", "words"),
    [
        (24, 64, 64, "bf16", ("M = 24", "multiple of 16", "pad M to 32")),
        (64, 80, 64, "int8", ("N = 80", "multiple of 32", "pad N to 96")),
        (64, 64, 48, "int8", ("K = 48", "multiple of 32", "pad K to 64")),
        (64, 24, 64, "fp32", ("N = 24", "multiple of 16", "pad N to 32")),
    ],
)
def test_011_extents_beside_a_bias_are_whole_boxes(m: int, n: int, k: int, dtype: str, words: tuple[str, ...]) -> None:
    said(Case.full(m, n, k, dtype=dtype, op="bias").text(), "PH-AT-011", *words, op="matmul_bias")
    whole = [-(-x // 32) * 32 for x in (m, n, k)]
    assert hints(Case.full(*whole, dtype=dtype, op="bias").text()) == []


def test_011_a_bias_table_smaller_than_a_tile() -> None:
    """Sixteen elements of fp32 are 64 bytes."""
    chip = tilesat.get_target("ascend910b")
    text = Case.full(64, 64, 1024, op="bias").text()
    said(text, "PH-AT-011", "32 bytes", "16 fp32", op="matmul_bias", target=replace(chip, name="small", bias=32))
    assert hints(text, target=replace(chip, name="small", bias=64)) == []


BIAS_LOAD = "bias_mat = pl.tile.load(bias, [0, 16], [1, 512], target_memory=pl.Mem.Mat)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("return out_1", "w = pl.tile.move(bias_mat, target_memory=pl.Mem.Bias)\n        return out_1", "by this product alone"),
        (BIAS_LOAD, f"{BIAS_LOAD}\n        z = pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Mat)", "only loads"),
        (BIAS_LOAD, BIAS_LOAD.replace("[1, 512],", "[1, 512], [1, 500],"), "valid from end to end"),
        ("[0, 0], out)", "[0, 0], bias)", "windows are stored into the tensor"),
        ("out_1 = ", "z = pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Mat)\n        out_1 = ", "not the first"),
    ],
    ids=["used twice", "more than loads between", "a narrowed load", "stored where it is loaded from", "the store comes later"],
)
def test_011_a_bias_that_can_not_be_loaded_window_by_window(old: str, new: str, words: str) -> None:
    text = swap(BIASED.text(), old, new)
    if "bias)" in new:
        text = swap(text, "bias: pl.Tensor[[1, 528], pl.FP32]", "bias: pl.InOut[pl.Tensor[[64, 528], pl.FP32]]")
        text = text.replace("-> pl.Tensor[[64, 512], pl.FP32]", "-> pl.Tensor[[64, 528], pl.FP32]")
    said(text, "PH-AT-011", "64 × 512", words, op="matmul_bias")


def test_011_a_bias_that_comes_from_somewhere_else() -> None:
    """Here a move of another tile makes it, which is no load that could be repeated."""
    text = swap(BIASED.text(), BIAS_LOAD, f"{BIAS_LOAD.replace('bias_mat', 'first')}\n        bias_mat = {MOVED}")
    said(text, "PH-AT-011", "a load of the same statement list", op="matmul_bias")


MOVED = "pl.tile.move(first, target_memory=pl.Mem.Mat)"


def test_011_is_about_cuts_only() -> None:
    """Where no cut is needed the bias is moved whole, however it came."""
    case = Case.full(64, 128, 512, op="bias")
    text = swap(case.text(), "return out_1", "w = pl.tile.move(bias_mat, target_memory=pl.Mem.Bias)\n        return out_1")
    silent(text, "k_loop")


# -- silence ------------------------------------------------------------------------------------------------------------------


def test_what_is_the_size_of_l0_is_left_silently_whatever_uses_it() -> None:
    on_chip = "v = pl.tile.move({result}, target_memory=pl.Mem.Vec)\nout_1 = pl.tile.store(v, [0, 0], out)"
    silent(Case.full(128, 128, 64, store=on_chip).text(), "as_it_stands")


def test_a_right_operand_in_vec_is_left_silently() -> None:
    silent(right_in_vec(Case.full(256, 512, 64)), "as_it_stands")


def test_functions_that_are_no_core_functions_are_left_silently() -> None:
    text = swap(Case.full(64, 64, 24).text(), "FunctionType.InCore", "FunctionType.Opaque")
    result = tiled(text)
    assert (result.diagnostics, result.decisions, result.program) == ((), (), result.source)


# -- the other target and planner ---------------------------------------------------------------------------------------------


def biased(M: int, N: int, K: int, **more: object) -> str:
    return Case.full(M, N, K, op="bias", **more).text()


#: (code, a program that has it, one just on the other side, target): planner dsa_rp, and ascend950 where the gate is there.
GATES = {
    "003 sub-byte": (
        "PH-AT-003",
        int4(Case.full(64, 64, 64, dtype="int8").text()),
        Case.full(64, 64, 64, dtype="int8").text(),
        "ascend950",
    ),
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
def test_both_sides_of_a_gate_under_the_other_planner(gate: str) -> None:
    code, has_it, has_not, target = GATES[gate]
    assert code in codes(tiled(has_it, target=target, planner="dsa_rp"))
    assert code not in codes(tiled(has_not, target=target, planner="dsa_rp"))


# -- the order of the checks --------------------------------------------------------------------------------------------------

ORDER = [
    ("right operand in Vec before 003", int4(right_in_vec(Case.full(64, 64, 24, dtype="int8"))), []),
    ("biased left operand in Vec before 003", int4(Case.full(64, 80, 24, dtype="int8", op="bias", left="Vec").text()), ["011"]),
    ("biased left operand in Vec before 003, all else in order", int4(biased(32, 64, 512, dtype="int8", left="Vec")), ["011"]),
    ("003 before the box", int4(Case.full(64, 80, 48, dtype="int8", op="bias").text()), ["003"]),
    ("003 before 007", int4(Case.full(64, 64, 24, dtype="int8").text()), ["003"]),
    ("003 before 005", int4(Case.full(8, 64, 64, dtype="int8").text()), ["003"]),
    ("the bias's type before its box", bias_of(Case.full(64, 72, 64, op="bias"), "BF16"), ["011"]),
    ("the box before 007", Case.full(64, 64, 24, op="bias").text(), ["011"]),
    ("007 before 005", Case.full(16, 64, 8).text(), ["007"]),
    ("007 before 005 for a panel too thin", Case.full(64, 64, 8).text(), ["007"]),
    ("007 before 005 for small rows", Case.full(8, 64, 8).text(), ["007"]),
    ("005 before 006", Case.full(8, 4096, 1024, left="Vec").text(), ["005"]),
    ("007 before 006", Case.full(256, 512, 24, left="Vec").text(), ["007"]),
    ("010 before 007", swap(Case.full(128, 128, 24, place="cast").text(), "'rint'", "'floor'"), ["010", "007"]),
]


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER])
def test_the_first_check_that_fails_is_the_one_that_is_said(text: str, wanted: list[str]) -> None:
    assert [h.code for h in hints(text)] == [f"PH-AT-{w}" for w in wanted]


def test_the_type_of_the_bias_is_named_before_its_box() -> None:
    (hint,) = hints(bias_of(Case.full(64, 72, 64, op="bias"), "BF16"))
    assert "bf16" in hint.message
    assert "N = 72" not in hint.message


# -- operands placed by hand --------------------------------------------------------------------------------------------------


def placed(op: str, side: str, columns: int, *, left: str = "FP16", right: str = "FP16") -> str:
    """A product on Left and Right tiles of the author's own: 256 rows of K and ``columns`` on the large side, 16 on the other."""
    m, n = (columns, 16) if side == "left" else (16, columns)
    call = {
        "matmul": "pl.tile.matmul(l__ssa_v3, r__ssa_v4)",
        "matmul_acc": "pl.tile.matmul_acc(acc, l__ssa_v3, r__ssa_v4)",
        "matmul_bias": "pl.tile.matmul_bias(l__ssa_v3, r__ssa_v4, bias_mat)",
    }[op]
    out = f"pl.Tensor[[{m}, {n}], pl.FP32]"
    return program(
        [
            f"a: pl.Tensor[[{m}, 256], pl.{left}]",
            f"b: pl.Tensor[[256, {n}], pl.{right}]",
            f"bias: pl.Tensor[[1, {n}], pl.FP32]",
            f"out: pl.Out[{out}]",
        ],
        out,
        [
            load("a_mat", "a", (m, 256), (m, 256)),
            load("b_mat", "b", (256, n), (256, n)),
            load("bias_mat", "bias", (1, n), (1, n)),
            f"acc = pl.tile.create([{m}, {n}], dtype=pl.FP32, target_memory=pl.Mem.Acc)",
            "l__ssa_v3 = pl.tile.move(a_mat, target_memory=pl.Mem.Left)",
            "r__ssa_v4 = pl.tile.move(b_mat, target_memory=pl.Mem.Right)",
            f"c = {call}",
            "out_1 = pl.tile.store(c, [0, 0], out)",
            "return out_1",
        ],
    )


@pytest.mark.parametrize("op", ["matmul", "matmul_acc", "matmul_bias"])
@pytest.mark.parametrize(("side", "space", "buffer"), [("left", "Left", "L0A"), ("right", "Right", "L0B")])
def test_an_operand_that_can_not_fit_where_its_author_put_it_is_refused(op: str, side: str, space: str, buffer: str) -> None:
    """The document's own: fp16 Right [256, 256] takes 131072 bytes, and L0B has 65536."""
    with pytest.raises(tilesat.PlacementError) as refusal:
        tiled(placed(op, side, 256))
    message = str(refusal.value)
    name = side[0]
    for part in (f"tile.{op}", f"{side} operand {name!r}", f"{space} ({buffer})", "[256, 256]", "fp16", "131072", "65536"):
        assert part in message
    assert f"keep {name!r} in Mat" in message
    assert f"extract a smaller {space} tile" in message
    assert re.search(r"<string>:\d+:\d+", message)
    assert "__" not in message


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("op", ["matmul", "matmul_acc", "matmul_bias"])
def test_an_operand_that_fits_to_the_byte_stays_as_its_author_put_it(op: str, side: str) -> None:
    """256 × 128 × 2 bytes are 65536."""
    result = tiled(placed(op, side, 128))
    assert result.program is result.source
    assert not result.diagnostics


def test_an_operand_that_can_not_fit_is_refused_before_anything_else() -> None:
    """Also where the other operand lies in Vec, which alone would be left silently."""
    text = placed("matmul", "right", 256)
    text = swap(text, "l__ssa_v3 = pl.tile.move(a_mat, target_memory=pl.Mem.Left)", "l__ssa_v3 = a_mat")
    with pytest.raises(tilesat.PlacementError):
        tiled(text)
