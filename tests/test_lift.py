"""Lift alone: golden programs through plans made by brute force, and hand-made plans for forms that no golden program has."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lift_programs import Case, Chain, load, program
from oracle_plans import oracle_plan

from egraph_rules.plan import ChainPlan, Form, Plan, ProductPlan, TileChoice
from ir_bridge.analysis import facts_of
from ir_bridge.ir import ops
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.interpreter_inputs import random_inputs
from ir_bridge.ir.nodes import Assign, Call, For, LoopKind, Program, Var, blocks_of, walk
from ir_bridge.ir.parser import parse
from ir_bridge.ir.types import Space, TileType
from ir_bridge.ir.verifier import Finding, verify
from ir_bridge.lift import lift
from ir_bridge.lift.emit import LiftError
from ir_bridge.lift.rename import renamed_stmt, with_blocks
from ir_bridge.split_k_chain import SplitKChain, split_k_chains

DATA = Path(__file__).parent / "data"
ROWS = [json.loads(line) for line in (DATA / "tiled_programs.jsonl").read_text().splitlines()]


def _load_comparer() -> Any:
    spec = importlib.util.spec_from_file_location("same_program", DATA / "same_program.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


same = _load_comparer().same


def check_types(program: Program) -> None:
    """Every statement of the op table defines values of the types that inference gives it; carried values keep their types."""
    for f in program.functions:
        for s in walk(f.body):
            if isinstance(s, Assign) and isinstance(s.value, Call) and ops.lookup(s.value.op) is not None:
                inferred = ops.result_types(s.value.op, s.value.args, s.value.kwargs)
                assert tuple(v.type for v in s.targets) == inferred, str(s)
            elif isinstance(s, For):
                handed_on = s.body[-1].values if s.results else ()  # type: ignore[union-attr]
                types = [[getattr(v, "type", None) for v in vs] for vs in (s.inits, s.carried, s.results, handed_on)]
                assert all(t == types[0] for t in types[1:]), str(s)


def check_same_results(before: Program, after: Program, seed: int = 0) -> None:
    """Bit for bit the same on integer-valued inputs; the text of the lifted program reads back as the same program."""
    check_types(after)
    assert parse(str(after)) == after
    assert "__" not in str(after).replace("# pypto.program", "")
    inputs = random_inputs(before, seed)
    one, two = execute(before, **inputs), execute(after, **inputs)
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(two[name], array)


def new_findings(before: Program, after: Program, target: str) -> list[Finding]:
    """What the verifier says about the lifted program and not about its source."""
    old = {f.key for f in verify(before, target)}
    return [f for f in verify(after, target) if f.key not in old]


def check_well_formed(before: Program, after: Program) -> None:
    """No new finding but of capacity: tiles here are drawn at random. Extents of 16 are no whole box of int8 columns."""
    found = [f for f in new_findings(before, after, "ascend950") if f.code != "capacity"]
    found = [f for f in found if not (f.code == "box" and "int8" in f.message)]
    assert not found, f"{found[0]}\n{after}"


# -- golden programs -------------------------------------------------------------------------------------------------------

GOLDEN = [r for r in ROWS if "error" not in r and not r["name"].startswith("splitk-pred-")]
PREDICATED = [r for r in ROWS if r["name"].startswith("splitk-pred-")]


def tiled(row: dict[str, Any], text: str | None = None) -> tuple[Program, Program]:
    """A golden row's program (or another text under its target and planner) as parsed, and as lifted."""
    before = parse(text or row["input"])
    return before, lift(before, oracle_plan(before, row["target"], row["planner"]))


def row_id(row: dict[str, Any]) -> str:
    return f"{row['name']}-{row['planner']}"


@pytest.mark.parametrize("row", GOLDEN, ids=row_id)
def test_golden_programs(row: dict[str, Any]) -> None:
    before, after = tiled(row)
    ok, why = same(str(after), row["output"])
    assert ok, f"{why}\n{after}"
    check_same_results(before, after)
    assert new_findings(before, after, row["target"]) == []
    if all(is_l0_sized(s) for f in after.functions for s in walk(f.body)):
        assert not [f for f in verify(after, row["target"]) if f.subject in ("l0a", "l0b", "l0c", "bias")]


def is_l0_sized(s: Any) -> bool:
    """Not a product straight on Mat operands."""
    call = s.value if isinstance(s, Assign) else None
    products = isinstance(call, Call) and call.op.startswith("tile.matmul")
    return not products or all(v.type.space is not Space.MAT for v in call.args[:3] if isinstance(v, Var))  # type: ignore[union-attr]


def branch_form(text: str) -> str:
    """A predicated split-K chain rewritten in the branch spelling."""
    loop = re.search(r"^( +)more: (\S.*?) = pl\.tile\.matmul_acc\(acc_i, a_k, b_k, k0 == 0\)\n", text, re.M)
    assert loop is not None
    pad, type_ = loop.groups()
    lines = [
        f"if k0 == 0:\n    first: {type_} = pl.tile.matmul(a_k, b_k)\n    phi: {type_} = pl.yield_(first)\n",
        f"else:\n    more: {type_} = pl.tile.matmul_acc(acc_i, a_k, b_k)\n    phi: {type_} = pl.yield_(more)\n",
    ]
    arms = "".join(f"{pad}{line}\n" for line in "".join(lines).splitlines())
    return text.replace(loop.group(0), arms).replace("pl.yield_(more)\n        out_1", "pl.yield_(phi)\n        out_1")


@pytest.mark.parametrize("row", PREDICATED, ids=row_id)
def test_predicated_chains_become_what_their_branch_twins_become(row: dict[str, Any]) -> None:
    """The reference knows no predicated chains; the specification tiles them like the branch spelling."""
    before, after = tiled(row)
    text = branch_form(row["input"])
    key = (row["name"].replace("pred", "branch"), row["target"], row["planner"])
    twins = [r for r in ROWS if (r["name"], r["target"], r["planner"]) == key]
    assert all(r["input"] == text for r in twins)
    twin = twins[0]["output"] if twins else str(tiled(row, text)[1])
    check_same_results(before, after)
    check_same_results(parse(text), after)
    inner = re.findall(r"(\w+) == 0 and (\w+) == 0", str(after))
    if not inner:
        ok, why = same(str(after), twin)
        assert ok, f"{why}\n{after}"
    else:  # one inner loop where the branch form has two, with the same panels
        assert len(inner) == 1
        outer, k_loop = [s for s in walk(after.functions[0].body) if isinstance(s, For)]
        twin_loops = [s for s in walk(parse(twin).functions[0].body) if isinstance(s, For)]
        assert [(s.stop, s.step, s.stage) for s in (outer, k_loop, k_loop)] == [(s.stop, s.step, s.stage) for s in twin_loops]
        assert k_loop.inits == outer.carried


# -- every legal shape of a plan computes the same ---------------------------------------------------------------------------


def lifted(case: Case, form: Form, tile: TileChoice | None = None) -> tuple[Program, Program]:
    """``case`` parsed, and lifted with its product ``c`` in ``form``."""
    before = parse(case.text())
    names = {v.name: v for v in facts_of(before.functions[0]).definitions}
    scratch = {"store": None, "cast": "bf16", "scratch": "fp32"}[case.place]
    store = names["out_1"] if form is Form.GRID_STORE else None
    plan = ProductPlan(names["c"], form, tile, store, scratch, names.get("cb"))
    return before, lift(before, Plan({names["c"]: plan}))


def sixteens(top: int) -> st.SearchStrategy[int]:
    return st.integers(1, top).map(lambda x: 16 * x)


@st.composite
def planned_products(draw: st.DrawFn) -> tuple[Case, Form, TileChoice]:
    M, N, K = draw(sixteens(8)), draw(sixteens(8)), draw(sixteens(8))
    narrow = draw(st.booleans())
    valid = tuple(draw(st.integers(1, x)) if narrow else x for x in (M, K, N))
    form = draw(st.sampled_from([Form.K_LOOP, Form.GRID_STORE, Form.GRID_SCRATCH]))
    place = "store" if form is Form.GRID_STORE else draw(st.sampled_from(["cast", "scratch"]))
    plain = ["matmul", "bias"]
    if form is Form.K_LOOP:
        place = draw(st.sampled_from(["store", "cast"]))
        plain += ["acc", "acc_if"]
    dtype = draw(st.sampled_from(["bf16", "fp16", "fp32"] if place != "store" else ["bf16", "fp32", "int8"]))
    op = draw(st.sampled_from(plain if place == "store" or form is not Form.K_LOOP else ["matmul"]))
    left = draw(st.sampled_from(["Mat", "Vec"])) if op != "bias" else "Mat"
    m, n = (M, N) if form is Form.K_LOOP else (draw(sixteens(M // 16)), draw(sixteens(N // 16)))
    k = draw(st.one_of(sixteens(K // 16), st.just(K)))
    held = draw(st.sampled_from(["output", "a", "b"])) if k == K else "output"
    tile = TileChoice(m, n, k, held, draw(st.booleans()), held == "a" or (held == "output" and draw(st.booleans())))
    return Case(M, N, K, valid, dtype, op, place, left), form, tile  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(planned_products())
def test_any_plan_computes_what_its_source_computes(planned: tuple[Case, Form, TileChoice]) -> None:
    before, after = lifted(*planned)
    assert after is not before
    check_same_results(before, after)
    check_well_formed(before, after)


@st.composite
def planned_chains(draw: st.DrawFn) -> tuple[Chain, tuple[int, int], int | None]:
    chain = Chain(
        draw(sixteens(6)),
        draw(sixteens(6)),
        draw(sixteens(6)),
        draw(st.integers(1, 3)),
        draw(st.sampled_from(["int8", "bf16", "fp32"])),
        draw(st.booleans()),
    )
    inner = draw(st.one_of(st.none(), sixteens(chain.K // 16)))
    return chain, (draw(sixteens(chain.M // 16)), draw(sixteens(chain.N // 16))), inner


def lifted_chain(chain: Chain, m: int, n: int, inner: int | None) -> tuple[Program, Program]:
    before = parse(chain.text())
    (found,) = split_k_chains(facts_of(before.functions[0]))
    assert isinstance(found, SplitKChain)
    shapes = [(r, c) for r in range(16, chain.M + 33, 16) for c in range(16, chain.N + 33, 16)]
    splits = {} if inner is None else {shape: TileChoice(*shape, inner) for shape in shapes}
    loop = found.loop.results[0]
    plan = ChainPlan(loop, TileChoice(m, n, chain.K), found.box_m, found.box_n, splits)
    return before, lift(before, Plan({}, {loop: plan}))


@settings(max_examples=80, deadline=None)
@given(planned_chains())
def test_any_chain_plan_computes_what_its_source_computes(planned: tuple[Chain, tuple[int, int], int | None]) -> None:
    chain, (m, n), inner = planned
    before, after = lifted_chain(chain, m, n, inner)
    assert after is not before
    check_same_results(before, after)
    check_well_formed(before, after)


# -- the forms, one by one ---------------------------------------------------------------------------------------------------


def outline(after: Program) -> list[str]:
    """The statements of the kernel that matter, in a line each, loops as ``for start..stop/step``; loads of operands left out."""

    def lines(block: Any, pad: str) -> list[str]:
        found = []
        for s in block:
            if isinstance(s, For):
                bounds = [getattr(x, "value", "?") for x in (s.start, s.stop, s.step)]
                found.append(f"{pad}{s.kind.value} {bounds[0]}..{bounds[1]}/{bounds[2]}")
                found += lines(s.body, pad + "  ")
            elif isinstance(s, Assign) and isinstance(s.value, Call):
                op = s.value.op.removeprefix("tile.")
                space = s.targets[0].type.space if isinstance(s.targets[0].type, TileType) else None
                if op in ("create", "move", "extract"):
                    op = f"{op}->{space.value}" if space else op
                elif op == "matmul_acc" and len(s.value.args) == 4:
                    cond = s.value.args[3]
                    op = f"matmul_acc if {cond.name if isinstance(cond, Var) else getattr(cond, 'op', '?')}"
                if op != "load":
                    found.append(pad + op)
        return found

    return lines(after.functions[0].body, "")


PANELS = ["extract->Left", "extract->Right"]
LOOP = ["  extract->Left", "  extract->Right"]
TAIL = [*PANELS, "matmul_acc"]


@pytest.mark.parametrize(
    ("op", "K", "k", "wanted"),
    [
        ("matmul", 128, 32, ["create->Acc", "pipeline 0..128/32", *LOOP, "  matmul_acc if =="]),
        ("matmul", 80, 32, ["create->Acc", "pipeline 0..64/32", *LOOP, "  matmul_acc if ==", *TAIL]),
        ("matmul", 48, 32, [*PANELS, "matmul", *TAIL]),
        ("acc", 128, 32, ["pipeline 0..128/32", *LOOP, "  matmul_acc"]),
        ("acc", 80, 32, ["pipeline 0..64/32", *LOOP, "  matmul_acc", *TAIL]),
        ("acc", 48, 32, [*TAIL, *TAIL]),
        ("acc_if", 128, 32, ["pipeline 0..128/32", *LOOP, "  matmul_acc if and"]),
        ("acc_if", 80, 32, ["pipeline 0..64/32", *LOOP, "  matmul_acc if and", *TAIL]),
        ("acc_if", 48, 32, [*PANELS, "matmul_acc if flag", *TAIL]),
        ("bias", 128, 32, ["move->Bias", *PANELS, "matmul_bias", "pipeline 32..128/32", *LOOP, "  matmul_acc"]),
        ("bias", 96, 32, ["move->Bias", *PANELS, "matmul_bias", "pipeline 32..96/32", *LOOP, "  matmul_acc"]),
        ("bias", 64, 32, ["move->Bias", *PANELS, "matmul_bias", *TAIL]),
        ("bias", 80, 32, ["move->Bias", *PANELS, "matmul_bias", *TAIL, *TAIL]),
        ("bias", 112, 32, ["move->Bias", *PANELS, "matmul_bias", "pipeline 32..96/32", *LOOP, "  matmul_acc", *TAIL]),
        ("bias", 48, 32, ["move->Bias", *PANELS, "matmul_bias", *TAIL]),
    ],
)
def test_k_loops(op: str, K: int, k: int, wanted: list[str]) -> None:
    """Two full panels or more make a loop (a biased product's first one is ahead of it); the rest is straight lines."""
    before, after = lifted(Case.full(32, 48, K, op=op), Form.K_LOOP, TileChoice(32, 48, k))
    lines = outline(after)
    start = lines.index("matmul") + 1 if op.startswith("acc") else 0  # the seed's own product
    assert lines[start:] == [*wanted, "store"]
    loops = [s for s in walk(after.functions[0].body) if isinstance(s, For)]
    assert all(s.kind is LoopKind.PIPELINE and s.stage == 2 and s.attrs == () for s in loops)
    check_same_results(before, after)


@pytest.mark.parametrize(
    ("op", "wanted"), [("matmul", ["create->Acc", "move->Mat", "pipeline 0..64/16"]), ("acc", ["move->Mat", "pipeline 0..64/16"])]
)
def test_a_left_operand_in_vec_is_moved_once_before_the_loop(op: str, wanted: list[str]) -> None:
    _, after = lifted(Case.full(32, 48, 64, op=op, left="Vec"), Form.K_LOOP, TileChoice(32, 48, 16))
    lines = outline(after)
    start = lines.index(wanted[0])
    assert lines[start : start + len(wanted)] == wanted
    assert lines.count("move->Mat") == 1


def test_the_result_keeps_its_name_and_value() -> None:
    """What reads the product is the same statement as before."""
    before, after = lifted(Case.full(32, 48, 64), Form.K_LOOP, TileChoice(32, 48, 16))
    assert after.functions[0].body[-2] is before.functions[0].body[-2]
    assert after.functions[0].body[0] is before.functions[0].body[0]


def test_full_k_grid_holds_a_in_a_plain_loop_and_peels_the_boundary() -> None:
    tile = TileChoice(32, 32, 64, "a", double_buffer_c=True)
    before, after = lifted(Case.full(80, 80, 64), Form.GRID_STORE, tile)
    straight = [*PANELS, "matmul", "store"]
    assert outline(after) == [
        "range 0..64/32",
        "  extract->Left",
        "  pipeline 0..64/32",
        "    extract->Right",
        "    matmul",
        "    store",
        *straight * 5,
    ]
    outer, inner = [s for s in walk(after.functions[0].body) if isinstance(s, For)]
    assert (outer.stage, outer.attrs) == (None, ())
    assert [(k, v.value) for k, v in inner.attrs] == [("pipeline_overlap_stores", False), ("pipeline_double_buffer_c", True)]  # type: ignore[union-attr]
    places = re.findall(r"pl.tile.store\(\w+, (\[\d+, \d+\])", str(after))
    assert places == ["[64, 0]", "[64, 32]", "[64, 64]", "[0, 64]", "[32, 64]"]  # bottom strip with corner, then right strip
    check_same_results(before, after)


def test_output_stationary_grid_pipelines_both_loops() -> None:
    _, after = lifted(Case.full(64, 64, 64), Form.GRID_STORE, TileChoice(32, 32, 64, holds_a=False))
    assert outline(after) == [
        "pipeline 0..64/32",
        "  extract->Right",
        "  pipeline 0..64/32",
        "    extract->Left",
        "    matmul",
        "    store",
    ]
    loops = [s for s in walk(after.functions[0].body) if isinstance(s, For)]
    assert [[k for k, _ in s.attrs] for s in loops] == [["pipeline_overlap_stores"]] * 2
    assert [s.stage for s in loops] == [2, 2]


def test_split_k_grid_is_unrolled_columns_outer() -> None:
    _, after = lifted(Case.full(64, 48, 64), Form.GRID_STORE, TileChoice(32, 32, 32))
    block = ["create->Acc", "pipeline 0..64/32", *LOOP, "  matmul_acc if ==", "store"]
    assert outline(after) == block * 4
    assert re.findall(r"pl.tile.store\(\w+, (\[\d+, \d+\])", str(after)) == ["[0, 0]", "[32, 0]", "[0, 32]", "[32, 32]"]


def test_stores_add_the_base_offset_and_keep_keywords_and_attributes() -> None:
    store = 'r = i + 1\nout_1 = pl.tile.store({result}, [r, 16], out, atomic=pl.AtomicType.Add, attrs={{"note": 7}})'
    before, after = lifted(Case.full(64, 64, 32, store=store, slack=(4, 16)), Form.GRID_STORE, TileChoice(32, 48, 16))
    stores = re.findall(r"pl.tile.store\(\w+, (.*?)\)$", str(after), re.M)
    assert [x.split(", out")[0] for x in stores] == ["[r, 16]", "[r + 32, 16]", "[r, 64]", "[r + 32, 64]"]
    assert all("atomic=pl.AtomicType.Add" in x and '"note": 7' in x for x in stores)
    check_same_results(before, after)
    nest = lifted(Case.full(64, 64, 32, store=store, slack=(4, 16)), Form.GRID_STORE, TileChoice(32, 32, 32))[1]
    assert "[r + c_o, 16 + c_i]" in str(nest)


def test_the_grid_stands_where_the_store_stood() -> None:
    """A store further down, after another one: the grid goes there and continues that state."""
    between = "w = pl.tile.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Vec)\nv = pl.tile.muls(w, 2.0)\n"
    store = between + "out_1 = pl.tile.store({result}, [0, 0], out)"
    _, after = lifted(Case.full(64, 64, 32, store=store), Form.GRID_STORE, TileChoice(32, 32, 32))
    lines = outline(after)
    assert lines.index("muls") < lines.index("pipeline 0..64/32")


def test_bias_windows_are_loaded_from_the_tensor_and_the_whole_load_goes() -> None:
    before, after = lifted(Case.full(64, 64, 32, op="bias"), Form.GRID_STORE, TileChoice(32, 48, 16))
    loads = re.findall(r"pl.tile.load\(bias, (.*?), target_memory", str(after))
    assert loads == ["[0, 16], [1, 48], [1, 48]"] * 2 + ["[0, 64], [1, 16], [1, 16]"] * 2
    assert outline(after).count("move->Bias") == 4
    check_same_results(before, after)
    nest = str(lifted(Case.full(64, 64, 32, op="bias"), Form.GRID_STORE, TileChoice(32, 32, 32, holds_a=True))[1])
    assert re.findall(r"pl.tile.load\(bias, (.*?), target_memory", nest) == ["[0, 16 + c_i], [1, 32], [1, 32]"]


def biased(move: str, operand: str) -> tuple[Program, dict[str, Var]]:
    text = Case.full(64, 64, 32, op="bias").text().replace("c = pl.tile.matmul_bias", f"{move}c = pl.tile.matmul_bias")
    before = parse(text.replace("b_mat, bias_mat)", f"b_mat, {operand})"))
    return before, {v.name: v for v in facts_of(before.functions[0]).definitions}


@pytest.mark.parametrize(
    ("form", "tile"), [(Form.K_LOOP, TileChoice(64, 64, 16)), (Form.GRID_STORE, TileChoice(32, 64, 32, "b"))]
)
def test_a_bias_in_bias_already_is_used_as_it_is(form: Form, tile: TileChoice) -> None:
    before, names = biased("bias_l0 = pl.tile.move(bias_mat, target_memory=pl.Mem.Bias)\n        ", "bias_l0")
    after = lift(before, Plan({names["c"]: ProductPlan(names["c"], form, tile, names["out_1"])}))
    assert outline(after).count("move->Bias") == 1
    assert "pl.tile.load(bias, [0, 16], [1, 64], [1, 64]" in str(after)
    check_same_results(before, after)


def test_a_bias_that_cannot_be_rebuilt_is_refused() -> None:
    before, names = biased("other = pl.tile.move(bias_mat, target_memory=pl.Mem.Mat)\n        ", "other")
    plan = ProductPlan(names["c"], Form.GRID_STORE, TileChoice(32, 32, 32), names["out_1"])
    with pytest.raises(LiftError, match="bias 'other' has no load"):
        lift(before, Plan({names["c"]: plan}))


def test_scratch_is_created_once_and_read_instead_of_the_product() -> None:
    _, after = lifted(Case.full(64, 64, 32, place="scratch", dtype="fp32"), Form.GRID_SCRATCH, TileChoice(32, 64, 32, "b"))
    assert outline(after) == [
        "create->Mat",
        "range 0..64/64",
        "  extract->Right",
        "  pipeline 0..64/32",
        "    extract->Left",
        "    matmul",
        "    assemble",
        "matmul",
        "store",
    ]


@pytest.mark.parametrize("form", [Form.AS_IT_STANDS, Form.K_LOOP])
def test_whole_window_cast_fold(form: Form) -> None:
    tile = TileChoice(64, 64, 16) if form is Form.K_LOOP else None
    before, after = lifted(Case.full(64, 64, 32, place="cast"), form, tile)
    lines = outline(after)
    product = ["create->Acc", "pipeline 0..32/16", *LOOP, "  matmul_acc if =="] if tile else ["matmul"]
    assert lines == [*product, "create->Mat", "assemble", "matmul", "store"]
    check_same_results(before, after)


def test_row_narrowed_accumulators_are_declared_compact() -> None:
    """Specification 1, "行窄化的左操作数": physical 64 rows, 16 of them valid."""
    before, after = lifted(Case(64, 128, 64, (16, 64, 128), "int8"), Form.K_LOOP, TileChoice(64, 128, 32))
    text = str(after)
    assert "pl.tile.create([64, 128], dtype=pl.INT32, target_memory=pl.Mem.Acc, compact=True)" in text
    assert re.search(r"pl\.tile\.set_validshape\(\w+, 16, 128\)", text)
    check_same_results(before, after)


def test_column_narrowed_accumulators_are_not() -> None:
    _, after = lifted(Case(64, 64, 64, (64, 64, 50)), Form.K_LOOP, TileChoice(64, 64, 32))
    assert "compact=True" not in str(after)
    assert re.search(r"pl\.tile\.set_validshape\(\w+, 64, 50\)", str(after))


def test_valid_extents_known_only_at_run_time() -> None:
    text = Case.full(64, 64, 64).text().replace("[0, 0], [64, 64], [64, 64]", "[0, 0], [64, 64], [i, 64]", 1)
    before = parse(text)
    names = {v.name: v for v in facts_of(before.functions[0]).definitions}
    for form, tile in (
        (Form.K_LOOP, TileChoice(64, 64, 16)),
        (Form.GRID_STORE, TileChoice(48, 64, 64)),
        (Form.GRID_STORE, TileChoice(48, 48, 16)),
    ):
        after = lift(before, Plan({names["c"]: ProductPlan(names["c"], form, tile, names["out_1"])}))
        check_types(after)
        inputs = random_inputs(before) | {"i": 53}
        np.testing.assert_array_equal(execute(after, **inputs)["out"], execute(before, **inputs)["out"])


def test_loops_and_grids_cover_the_physical_extents() -> None:
    """⌈M/m⌉ × ⌈N/n⌉ windows and K in panels, as the wall counts them; those beyond what is valid are empty and store nothing."""
    before, unrolled = lifted(case := Case(64, 64, 64, (20, 20, 20)), Form.GRID_STORE, TileChoice(16, 16, 16))
    at = [f"[{mi}, {ni}]" for ni in range(0, 64, 16) for mi in range(0, 64, 16)]
    assert re.findall(r"pl.tile.store\(\w+, (\[\d+, \d+\])", str(unrolled)) == at
    assert set(re.findall(r"pl.pipeline\((\d+, \d+, \d+)", str(unrolled))) == {"0, 64, 16"}
    _, nest = lifted(case, Form.GRID_STORE, TileChoice(16, 16, 64))
    assert re.findall(r"pl.pipeline\((\d+, \d+, \d+)", str(nest)) == ["0, 64, 16"] * 2
    for after in (unrolled, nest):
        check_same_results(before, after)


# -- chains ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("branch", [True, False])
def test_chain_windows_narrow_the_loads_and_are_boxed(branch: bool) -> None:
    """N = 48 int8 in windows of 32: the tail is 16 columns in a box of 32 (specification 1's own example)."""
    before, after = lifted_chain(Chain(32, 48, 64, 2, branch=branch), 16, 32, None)
    text = str(after)
    assert re.findall(r"pl.tile.load\(b, (.*?), target", text) == [
        "[k0, 0], [64, 32], [64, 32]",
        "[k0_1, 0], [64, 32], [64, 32]",
        "[k0_2, 32], [64, 32], [64, 16]",
        "[k0_3, 32], [64, 32], [64, 16]",
    ]
    assert re.findall(r"pl.tile.load\(a, (\[.*?\])", text) == ["[0, k0]", "[16, k0_1]", "[0, k0_2]", "[16, k0_3]"]
    assert re.findall(r"pl.tile.store\(\w+, (\[.*?\])", text) == ["[16, 32]", "[32, 32]", "[16, 64]", "[32, 64]"]
    assert text.count("if k0") == (4 if branch else 0)
    assert len(re.findall(r"set_validshape\(\w+, 16, 16\)", text)) == 2
    assert "compact=True" not in text
    check_same_results(before, after)


def test_chain_calls_split_along_k_in_both_spellings() -> None:
    def loops_in_loop(after: Program) -> int:
        return sum(isinstance(s, For) for s in walk(after.functions[0].body)) - 1

    two = lifted_chain(Chain(32, 48, 64, 2, branch=True), 32, 48, 32)[1]
    one = lifted_chain(Chain(32, 48, 64, 2, branch=False), 32, 48, 32)[1]
    assert (loops_in_loop(two), loops_in_loop(one)) == (2, 1)
    assert len(re.findall(r"matmul_acc\(\w+, \w+, \w+, k0 == 0 and more_ko == 0\)", str(one))) == 1
    assert "matmul_acc(first_acc, first_a, first_b, first_ko == 0)" in str(two)


def test_a_loop_that_is_no_chain_cannot_be_planned_as_one() -> None:
    text = Chain(32, 48, 64, 2).text().replace("        out_1 =", "        z = 1 + 2\n        out_1 =")
    before = parse(text)
    loop = next(s for s in before.functions[0].body if isinstance(s, For))
    plan = ChainPlan(loop.results[0], TileChoice(16, 48, 64), 16, 32)
    with pytest.raises(LiftError, match="planned as a split-K chain, but is not one"):
        lift(before, Plan({}, {loop.results[0]: plan}))


# -- what stays --------------------------------------------------------------------------------------------------------------


def test_nothing_to_do_gives_back_the_same_program() -> None:
    before = parse(Case.full(32, 48, 64).text())
    assert lift(before, Plan()) is before


def test_other_functions_and_kinds_stay_the_same_objects() -> None:
    text = Case.full(32, 48, 64).text()
    kernel = text[text.index("    @pl.function") :]
    other = kernel.replace("kernel", "host").replace("FunctionType.InCore", "FunctionType.Orchestration")
    second = kernel.replace("kernel", "second")
    before = parse(text + "\n" + second + "\n" + other)
    every = [{v.name: v for v in facts_of(f).definitions} for f in before.functions]
    tile = TileChoice(32, 48, 16)
    plan = Plan({names["c"]: ProductPlan(names["c"], Form.K_LOOP, tile) for names in (every[0], every[2])})
    after = lift(before, plan)
    assert after.functions[0] is not before.functions[0]
    assert after.functions[1] is before.functions[1]
    assert after.functions[2] is before.functions[2]  # an Orchestration function, planned or not
    f, g = before.functions[0], after.functions[0]
    assert (f.name, f.kind, f.params, f.returns, f.decorator) == (g.name, g.kind, g.params, g.returns, g.decorator)


def test_products_inside_loops_and_branches() -> None:
    out = "pl.Tensor[[32, 48], pl.FP32]"
    body = [
        load("b_mat", "b", (64, 48), (64, 48)),
        "for t, (o,) in pl.range(0, 3, 1, init_values=(out,)):\n"
        "    a_mat = pl.tile.load(a, [t * 32, 0], [32, 64], target_memory=pl.Mem.Mat)\n"
        "    c = pl.tile.matmul(a_mat, b_mat)\n"
        "    cb = pl.tile.cast(c, target_type=pl.BF16, mode='rint')\n"
        "    if t == 1:\n"
        "        d = pl.tile.matmul(cb, e_mat)\n"
        "        x = pl.tile.store(d, [0, 0], o)\n"
        "        s = pl.yield_(x)\n"
        "    else:\n"
        "        s = pl.yield_(o)\n"
        "    o_r = pl.yield_(s)",
        "return o_r",
    ]
    params = [
        "a: pl.Tensor[[96, 64], pl.BF16]",
        "b: pl.Tensor[[64, 48], pl.BF16]",
        "e: pl.Tensor[[48, 48], pl.BF16]",
        f"out: pl.Out[{out}]",
    ]
    before = parse(program(params, out, [load("e_mat", "e", (48, 48), (48, 48)), *body]))
    names = {v.name: v for v in facts_of(before.functions[0]).definitions}
    plans = {
        names["c"]: ProductPlan(names["c"], Form.GRID_SCRATCH, TileChoice(16, 32, 64, "a"), scratch="bf16", cast=names["cb"]),
        names["d"]: ProductPlan(names["d"], Form.GRID_STORE, TileChoice(16, 48, 16), names["x"]),
    }
    after = lift(before, Plan(plans))
    assert "cast" not in outline(after)
    check_same_results(before, after)


def test_renaming_reaches_every_kind_of_statement() -> None:
    text = program(
        ["x: pl.Scalar[pl.INDEX]", "y: pl.Scalar[pl.INDEX]", "a: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]"],
        "pl.Scalar[pl.INDEX]",
        [
            "k = x * 2 + -x",
            "z = pl.min(x, y)",
            "pl.tensor.write(a, [x, 0], 1.0)",
            "for i in pl.range(x, x + 8, x):\n    if x == i:\n        pl.tensor.write(a, [i, x], 2.0)",
            "for j, (s,) in pl.pipeline(0, 4, 1, stage=2, init_values=(x,)):\n    s_r = pl.yield_(x)",
            "w = y + 1",
            "return x",
        ],
    )
    f = parse(text).functions[0]
    facts = facts_of(f)
    x, y = (p.var for p in f.params[:2])

    def rename(block: Any) -> Any:
        return tuple([with_blocks(t, tuple([rename(b) for b in blocks_of(t)])) for t in (renamed_stmt(s, {x: y}) for s in block)])

    after = facts_of(replace(f, body=rename(f.body)))
    assert len(facts.uses_of(x)) == 12
    assert after.uses_of(x) == ()
    assert len(after.uses_of(y)) == len(facts.uses_of(x)) + len(facts.uses_of(y))
    assert renamed_stmt(f.body[5], {x: y}) is f.body[5]


def test_planned_pipelines_get_both_attributes() -> None:
    row = next(r for r in ROWS if r["name"] == "drained-16x128x4-950" and r["planner"] == "dsa_rp")
    before = parse(row["input"].replace("stage=2)", 'stage=2, attrs={"other": 3})'))
    loop = next(s for s in before.functions[0].body if isinstance(s, For))
    after = lift(before, Plan({}, {}, (loop.results[0],)))
    changed = next(s for s in after.functions[0].body if isinstance(s, For))
    assert [(k, v.value) for k, v in changed.attrs] == [  # type: ignore[union-attr]
        ("other", 3),
        ("pipeline_overlap_stores", False),
        ("pipeline_double_buffer_c", True),
    ]
    assert changed.body is loop.body


def test_statements_stand_at_their_product_in_the_source() -> None:
    before, after = lifted(Case.full(32, 48, 64), Form.K_LOOP, TileChoice(32, 48, 16))
    line = next(s.loc.line for s in before.functions[0].body if isinstance(s, Assign) and s.targets[0].name == "c")
    new = [s for s in walk(after.functions[0].body) if s not in before.functions[0].body]
    assert {s.loc.line for s in new} == {line}
    assert Space.ACC in {v.type.space for s in new if isinstance(s, Assign) for v in s.targets if isinstance(v.type, TileType)}
