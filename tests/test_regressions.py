"""What was broken once: a small program for each, and what must hold of its tiling."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lift_programs import Chain

import tilesat
from egraph_rules import language as L
from egraph_rules.rule import Family, Rule, rule, table, union, variables
from tilesat import Program, Tiling

HEAD = """\
import pypto.language as pl


@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, {params}) -> {returns}:
"""


def kernel(params: list[str], returns: str, body: str) -> Program:
    """A program of one InCore function; ``body`` is its statements, indented from column 0."""
    lines = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    return tilesat.parse(HEAD.format(params=", ".join(params), returns=returns) + lines)


def tensor(name: str, rows: int, cols: int, dtype: str = "BF16", out: bool = False) -> str:
    t = f"pl.Tensor[[{rows}, {cols}], pl.{dtype}]"
    return f"{name}: pl.Out[{t}]" if out else f"{name}: {t}"


def load(name: str, source: str, rows: int, cols: int, at: str = "[0, 0]", space: str = "Mat") -> str:
    return f"{name} = pl.tile.load({source}, {at}, [{rows}, {cols}], target_memory=pl.Mem.{space})\n"


def tiled(program: Program, target: str = "ascend910b", **options: Any) -> Tiling:
    """The tiling, checked: no new finding, the same results bit for bit on whole numbers, readable, and tiled once for all."""
    result = tilesat.tile(program, target, **options)
    after = result.program
    old = {f.key for f in tilesat.verify(program, target)}
    assert [str(f) for f in tilesat.verify(after, target) if f.key not in old] == []
    assert tilesat.parse(str(after)) == after
    inputs = tilesat.random_inputs(program, 0)
    one, two = tilesat.execute(program, **inputs), tilesat.execute(after, **inputs)
    for name, array in one.items():
        np.testing.assert_array_equal(two[name], array)
    options.pop("force", None)
    assert str(tilesat.tile(after, target, **options).program) == str(after)
    return result


def decided(result: Tiling, name: str) -> tilesat.ProductDecision:
    (found,) = [d for d in result.decisions if d.name == name]
    return found


# -- bias windows --------------------------------------------------------------------------------------------------------


def biased(cols: int, stage: int | None) -> Program:
    """A biased product, alone or in the author's own pipeline."""
    body = load("am", "a", 64, 64) + load("bm", "b", 64, cols)
    product = load("row", "bias", 1, cols) + "c = pl.tile.matmul_bias(am, bm, row)\n"
    if stage is None:
        body += product + "done = pl.tile.store(c, [0, 0], out)\n"
    else:
        body += f"for i, (o,) in pl.pipeline(0, 4, 1, stage={stage}, init_values=(out,)):\n"
        body += "".join(f"    {line}\n" for line in product.splitlines())
        body += "    o1 = pl.tile.store(c, [0, 0], o)\n    done = pl.yield_(o1)\n"
    params = [tensor("a", 64, 64), tensor("b", 64, cols), tensor("bias", 1, cols, "FP32"), tensor("out", 64, cols, "FP32", True)]
    return kernel(params, f"pl.Tensor[[64, {cols}], pl.FP32]", body + "return done")


@pytest.mark.parametrize("cols", [128, 256, 512])
@pytest.mark.parametrize("rules", ["reference", "all"])
def test_a_bias_in_the_authors_pipeline_has_its_copies_too(cols: int, rules: str) -> None:
    """Every pipeline level keeps its own slots in the bias table (1 KiB on 910B: 256 fp32): two of 256 do not fit."""
    tiled(biased(cols, stage=2), rules=rules)


def test_a_grid_of_one_block_needs_no_loops() -> None:
    """Two nested pipelines of one trip each would ask for four bias slots of 512 bytes; the table has 1,024."""
    body = load("am", "a", 240, 32) + load("bm", "b", 32, 128) + load("row", "bias", 1, 128) + load("em", "e", 16, 240)
    body += "c = pl.tile.matmul_bias(am, bm, row)\nlow = pl.tile.cast(c, target_type=pl.BF16, mode='rint')\n"
    body += "d = pl.tile.matmul(em, low)\ndone = pl.tile.store(d, [0, 0], out)\nreturn done"
    params = [tensor("a", 240, 32), tensor("b", 32, 128), tensor("bias", 1, 128, "FP32"), tensor("e", 16, 240)]
    program = kernel([*params, tensor("out", 16, 128, "FP32", True)], "pl.Tensor[[16, 128], pl.FP32]", body)
    result = tiled(program, rules="all")
    assert "for c_" not in str(result.program)


# -- operands that products make -------------------------------------------------------------------------------------------


def test_a_cast_of_a_product_that_is_stored_too_is_an_operand_like_any_other() -> None:
    """The product has two uses, so no rule places its cast: it lies in Vec, where its author has it."""
    body = load("am", "a", 352, 64) + load("bm", "b", 64, 64) + load("em", "e", 64, 16)
    body += "c = pl.tile.matmul(am, bm)\nfirst = pl.tile.store(c, [0, 0], raw)\n"
    body += "low = pl.tile.cast(c, target_type=pl.FP16, mode='rint')\nd = pl.tile.matmul(low, em)\n"
    body += "done = pl.tile.store(d, [0, 0], out)\nreturn first, done"
    outs = [tensor("raw", 352, 64, "FP32", True), tensor("out", 352, 16, "FP32", True)]
    params = [tensor("a", 352, 64), tensor("b", 64, 64), tensor("e", 64, 16, "FP16"), *outs]
    program = kernel(params, "tuple[pl.Tensor[[352, 64], pl.FP32], pl.Tensor[[352, 16], pl.FP32]]", body)
    result = tiled(program, "ascend950", planner="pypto")
    assert decided(result, "d").form == "k_loop"
    assert "d_left" in str(result.program)


def test_a_producer_that_must_stay_does_not_keep_its_reader_from_being_tiled() -> None:
    """The producer's right operand was placed by hand, so its statement stays; the reader of its folded cast is tiled."""
    body = load("am", "a", 64, 112) + load("bm", "b", 112, 64) + load("em", "e", 64, 16)
    body += "br = pl.tile.extract(bm, 0, 0, [112, 64], target_memory=pl.Mem.Right)\n"
    body += "c = pl.tile.matmul(am, br)\nlow = pl.tile.cast(c, target_type=pl.BF16, mode='rint')\n"
    body += "d = pl.tile.matmul(low, em)\ndone = pl.tile.store(d, [0, 0], out)\nreturn done"
    params = [tensor("a", 64, 112, "FP16"), tensor("b", 112, 64, "FP16"), tensor("e", 64, 16)]
    program = kernel([*params, tensor("out", 64, 16, "FP32", True)], "pl.Tensor[[64, 16], pl.FP32]", body)
    result = tiled(program, "ascend950", rules="all,-stationarity")
    assert (decided(result, "c").form, decided(result, "d").form) == ("as_it_stands", "k_loop")


# -- room in Mat -----------------------------------------------------------------------------------------------------------


def crowded_scratch(side: int) -> Program:
    """A chain whose scratch of ``side`` × ``side`` bf16 must lie in Mat beside both operands of its producer."""
    body = load("am", "a", side, 64) + load("bm", "b", 64, side) + load("wm", "w", 384, 320) + load("em", "e", side, 16)
    body += "c = pl.tile.matmul(am, bm)\nlow = pl.tile.cast(c, target_type=pl.BF16, mode='rint')\n"
    body += "d = pl.tile.matmul(low, em)\ndone = pl.tile.store(d, [0, 0], out)\n"
    body += "wr = pl.tile.extract(wm, 0, 0, [16, 16], target_memory=pl.Mem.Left)\n"
    body += "er = pl.tile.extract(em, 0, 0, [16, 16], target_memory=pl.Mem.Right)\n"
    body += "f = pl.tile.matmul(wr, er)\nlast = pl.tile.store(f, [0, 0], small)\nreturn done, last"
    params = [tensor("a", side, 64), tensor("b", 64, side), tensor("w", 384, 320), tensor("e", side, 16)]
    params += [tensor("out", side, 16, "FP32", True), tensor("small", 16, 16, "FP32", True)]
    return kernel(params, f"tuple[pl.Tensor[[{side}, 16], pl.FP32], pl.Tensor[[16, 16], pl.FP32]]", body)


@pytest.mark.parametrize("rules", ["reference", "all"])
@pytest.mark.parametrize(("side", "form"), [(256, "grid_scratch"), (384, "as_it_stands")])
def test_a_scratch_is_made_only_where_mat_has_room(rules: str, side: int, form: str) -> None:
    """384·320·2 bytes stay in Mat throughout; 384·384·2 of scratch and 100 KiB of operands beside them exceed its 512 KiB."""
    result = tiled(crowded_scratch(side), rules=rules)
    assert decided(result, "c").form == form
    assert ("does not fit there" in " ".join(h.message for h in result.diagnostics)) == (side == 384)


def test_a_staged_operand_needs_room_in_mat_too() -> None:
    """The left operand lies in Vec (96 KiB); Mat keeps 432 of its 512 KiB, so it cannot cross over."""
    body = load("vm", "v", 192, 256, space="Vec") + load("bm", "b", 256, 32) + load("wm", "w", 640, 336)
    body += "c = pl.tile.matmul(vm, bm)\ndone = pl.tile.store(c, [0, 0], out)\n"
    body += "wr = pl.tile.extract(wm, 0, 0, [16, 16], target_memory=pl.Mem.Left)\n"
    body += "br = pl.tile.extract(bm, 0, 0, [16, 16], target_memory=pl.Mem.Right)\n"
    body += "f = pl.tile.matmul(wr, br)\nlast = pl.tile.store(f, [0, 0], small)\nreturn done, last"
    params = [tensor("v", 192, 256), tensor("b", 256, 32), tensor("w", 640, 336)]
    params += [tensor("out", 192, 32, "FP32", True), tensor("small", 16, 16, "FP32", True)]
    program = kernel(params, "tuple[pl.Tensor[[192, 32], pl.FP32], pl.Tensor[[16, 16], pl.FP32]]", body)
    result = tiled(program, "ascend950")
    assert decided(result, "c").form == "as_it_stands"
    assert [h.code for h in result.diagnostics] == ["PH-AT-006"]


def test_a_grid_that_waits_for_its_store_keeps_its_operands() -> None:
    """Between product and store another tile takes the operands' place in Mat; a grid at the store would need both."""
    body = load("am", "a", 272, 144) + load("bm", "b", 144, 336)
    body += "c = pl.tile.matmul(am, bm)\n" + load("xm", "x", 336, 336) + "xt = pl.tile.extract(xm, 0, 0, [16, 16], "
    body += "target_memory=pl.Mem.Left)\nyt = pl.tile.extract(xm, 0, 0, [16, 16], target_memory=pl.Mem.Right)\n"
    body += "f = pl.tile.matmul(xt, yt)\nfirst = pl.tile.store(f, [0, 0], small)\n"
    body += "done = pl.tile.store(c, [0, 0], out)\nreturn first, done"
    params = [tensor("a", 272, 144, "FP32"), tensor("b", 144, 336, "FP32"), tensor("x", 336, 336, "FP32")]
    params += [tensor("small", 16, 16, "FP32", True), tensor("out", 272, 336, "FP32", True)]
    returns = "tuple[pl.Tensor[[16, 16], pl.FP32], pl.Tensor[[272, 336], pl.FP32]]"
    result = tiled(kernel(params, returns, body))
    assert decided(result, "c").form == "as_it_stands"


# -- targets and cost models of the user -----------------------------------------------------------------------------------


def plain(m: int, n: int, k: int) -> Program:
    body = load("am", "a", m, k) + load("bm", "b", k, n) + "c = pl.tile.matmul(am, bm)\n"
    body += "done = pl.tile.store(c, [0, 0], out)\nreturn done"
    params = [tensor("a", m, k), tensor("b", k, n), tensor("out", m, n, "FP32", True)]
    return kernel(params, f"pl.Tensor[[{m}, {n}], pl.FP32]", body)


def test_a_target_of_huge_buffers_costs_no_more_than_the_program_wants() -> None:
    huge = replace(tilesat.get_target("ascend950"), name="huge", aliases=(), l0a=1 << 40, l0b=1 << 40, l0c=1 << 40)
    result = tilesat.tile(plain(256, 256, 256), huge)
    assert [d.form for d in result.decisions] == ["as_it_stands"]
    assert result.report.nodes < 50_000


@pytest.mark.parametrize("field", ["fractal", "min_tile"])
def test_a_granularity_that_no_rule_knows_is_refused(field: str) -> None:
    with pytest.raises(tilesat.TargetError, match=f"{field} = 32"):
        replace(tilesat.get_target("ascend950"), **{field: 32})


@pytest.mark.parametrize("column", ["m", "n", "k", "stationarity", "holds_a", "dbc"])
def test_a_cost_model_cannot_change_what_it_prices(column: str) -> None:
    def meddling(candidates: Any, problem: Any, target: Any) -> Any:
        getattr(candidates, column)[:] = 1
        return np.ones(len(candidates))

    with pytest.raises(tilesat.CostModelError, match="read-only"):
        tilesat.tile(plain(256, 256, 256), cost_model=meddling)


# -- forced tiles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tile", [(0, 0, 0), (-16, 16, 16), (16, 16), (16, 16, 16, 16), "16", (16.0, 16, 16), (True, 16, 16), None]
)
def test_a_forced_tile_that_is_no_tile_is_refused(tile: Any) -> None:
    with pytest.raises(tilesat.TilesatError, match="three whole numbers above 0"):
        tilesat.tile(plain(256, 256, 128), force={"c": tile})


def chained(m: int, n: int, k: int) -> Program:
    body = load("am", "a", m, k) + load("bm", "b", k, n) + load("em", "e", n, 32) + "c = pl.tile.matmul(am, bm)\n"
    body += "low = pl.tile.cast(c, target_type=pl.BF16, mode='rint')\nd = pl.tile.matmul(low, em)\n"
    body += "done = pl.tile.store(d, [0, 0], out)\nreturn done"
    params = [tensor("a", m, k), tensor("b", k, n), tensor("e", n, 32), tensor("out", m, 32, "FP32", True)]
    return kernel(params, f"pl.Tensor[[{m}, 32], pl.FP32]", body)


@pytest.mark.parametrize("rules", ["reference", "all"])
@pytest.mark.parametrize("planner", ["pypto", "dsa_rp"])
def test_a_scratch_takes_the_forced_tile_whatever_the_planner(rules: str, planner: str) -> None:
    """Under pypto a scratch chooses again, output-stationary; the forced tile holds there too."""
    result = tiled(chained(256, 256, 64), rules=rules, planner=planner, force={"c": (64, 32, 16)})
    c = decided(result, "c")
    assert (c.form, c.m, c.n, c.k) == ("grid_scratch", 64, 32, 16)


@pytest.mark.parametrize("rules", ["reference", "all"])
def test_a_reader_takes_an_operand_only_where_it_can_be_had(rules: str) -> None:
    """128 × 256 bf16 fill L0A, so the tile is legal A-stationary alone, as no scratch is under pypto; no reader counts on one."""
    result = tiled(chained(256, 256, 256), rules=rules, planner="pypto", force={"c": (128, 16, 256)})
    assert decided(result, "c").form == "as_it_stands"


# -- rules of the user -----------------------------------------------------------------------------------------------------


def user_family(name: str, *rules: Rule) -> Family:
    return Family(name, "of a test", rules)


@pytest.mark.parametrize("extractor", ["tree", "dag", "exact"])
def test_rules_that_make_placements_depend_on_each_other_end(extractor: str) -> None:
    """In(a, Mat) = In(b, Mat) for all a and b: classes that hold each other's nodes."""
    v, w = variables("v w")
    merged = [union(L.In(v, space), L.In(w, space)) for space in ("Mat", "Acc")]
    ring = rule("ring", "all operands are one", stage="placements", reads=[L.product(v=v), L.product(v=w)], then=merged)
    rules = tilesat.rules("all") + user_family("ring", ring)
    result = tilesat.tile(chained(256, 256, 64), rules=rules, extractor=extractor)
    assert [d.name for d in result.decisions] == ["c", "d"]


def test_a_rule_that_could_never_fire_is_refused() -> None:
    (v,) = variables("v")
    reads, then = [L.product(v=v)], [union(L.In(v, "Acc"), L.AsItStands(v))]
    twin = rule("k_split", "another's name", stage="placements", reads=reads, then=then)
    with pytest.raises(tilesat.TilesatError, match="'k_split' of family 'mine' has the name of a rule of 'k_split'"):
        tilesat.tile(plain(256, 256, 64), rules=tilesat.rules("all") + user_family("mine", twin))
    stray = rule("stray", "no such fact", stage="placements", reads=[table("moon", "v")(v)], then=then)
    with pytest.raises(tilesat.TilesatError, match="'stray' of family 'mine' speaks of 'moon'"):
        tilesat.tile(plain(256, 256, 64), rules=tilesat.rules("all") + user_family("mine", stray))


@pytest.mark.parametrize("spec", [5, None, ["all", 5], "all,-reference", "all,", ""])
def test_what_names_no_rule_set_is_refused(spec: Any) -> None:
    with pytest.raises(tilesat.RuleSetError):
        tilesat.rules(spec)


# -- the command line ------------------------------------------------------------------------------------------------------


def command(shell: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line in which ``$T`` is the command line; the program stands in ``p.py``."""
    (folder / "p.py").write_text(str(plain(256, 256, 64)), encoding="utf-8")
    env = {**os.environ, **environment, "T": f"{sys.executable} -m tilesat"}
    return subprocess.run(["bash", "-c", shell], cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_lead_nowhere(closed: str, tmp_path: Path) -> None:
    done = command(f"$T tile p.py -o q.py {closed}", tmp_path)
    assert (done.returncode, "defect" in done.stderr) == (0, False)
    assert (tmp_path / "q.py").read_text(encoding="utf-8") == str(tilesat.tile(plain(256, 256, 64)).program)


def test_an_encoding_without_some_character_is_no_defect(tmp_path: Path) -> None:
    done = command("$T tile p.py && $T rules", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "256 \\xd7 256 \\xd7 64" in done.stderr


# -- the author's own loops and boxes --------------------------------------------------------------------------------------


def test_a_pinned_operand_stands_in_no_pipeline_of_the_author() -> None:
    """432 × 64 bf16 take most of L0A; in the author's pipeline (stage=2) the panel would have two slots."""
    program = chained(432, 64, 64)
    text = str(program)
    head, body = text.split("        c: ", 1)
    inner = "".join(f"    {line}\n" for line in ("        c: " + body).splitlines() if "return" not in line)
    inner = inner.replace(", out)", ", o)").replace("done", "stored")
    loop = "        for i, (o,) in pl.pipeline(0, 2, 1, stage=2, init_values=(out,)):\n"
    program = tilesat.parse(f"{head}{loop}{inner}            done = pl.yield_(stored)\n        return done\n")
    for extractor in ("tree", "dag"):
        for planner in ("ptoas", "pypto"):
            tiled(program, "ascend950", rules="all", planner=planner, extractor=extractor)


@pytest.mark.parametrize("rules", ["reference", "all"])
@pytest.mark.parametrize(("depth", "form"), [(368, "as_it_stands"), (384, "k_loop")])
def test_an_operand_is_staged_in_whole_boxes(rules: str, depth: int, form: str) -> None:
    """A box of int8 in Mat is 16 × 32, and 368 = 11.5 · 32; in Vec nothing is boxed."""
    body = load("vm", "v", 64, depth, space="Vec") + load("bm", "b", depth, 256) + "c = pl.tile.matmul(vm, bm)\n"
    body += "done = pl.tile.store(c, [0, 0], out)\nreturn done"
    params = [tensor("v", 64, depth, "INT8"), tensor("b", depth, 256, "INT8"), tensor("out", 64, 256, "INT32", True)]
    result = tiled(kernel(params, "pl.Tensor[[64, 256], pl.INT32]", body), "ascend950", rules=rules)
    assert decided(result, "c").form == form


def test_a_store_without_a_result_is_left() -> None:
    body = load("am", "a", 256, 256) + "c = pl.tile.matmul(am, am)\npl.tile.store(c, [0, 0], out)\nreturn out"
    program = kernel([tensor("a", 256, 256), tensor("out", 256, 256, "FP32", True)], "pl.Tensor[[256, 256], pl.FP32]", body)
    result = tiled(program)
    assert result.program == program
    assert "out = store(…)" in result.diagnostics[0].message


def test_windows_beyond_a_dynamic_extent_are_empty() -> None:
    head = HEAD.replace("@pl.program", 'rows = pl.dynamic("rows")\n\n\n@pl.program')
    params = f"a: pl.Tensor[[rows, 256], pl.BF16], {tensor('b', 256, 256)}, out: pl.Out[pl.Tensor[[rows, 256], pl.FP32]]"
    body = "am = pl.tile.load(a, [0, 0], [256, 256], [rows, 256], target_memory=pl.Mem.Mat)\n" + load("bm", "b", 256, 256)
    body += "c = pl.tile.matmul(am, bm)\ndone = pl.tile.store(c, [0, 0], out)\nreturn done\n"
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    program = tilesat.parse(head.format(params=params, returns="pl.Tensor[[rows, 256], pl.FP32]") + lines)
    after = tilesat.tile(program).program
    assert after != program
    for rows in (1, 64, 65, 256):
        arrays = {"a": np.ones((rows, 256)), "b": np.ones((256, 256))}
        got = tilesat.execute(after, **arrays, out=np.zeros((rows, 256)))
        np.testing.assert_array_equal(got["out"], np.full((rows, 256), 256.0))


def test_a_grid_with_empty_windows_is_simulated() -> None:
    """The windows beyond the 10 × 20 valid results are issued and move nothing."""
    body = "am = pl.tile.load(a, [0, 0], [256, 256], [10, 100], target_memory=pl.Mem.Mat)\n"
    body += "bm = pl.tile.load(b, [0, 0], [256, 256], [100, 20], target_memory=pl.Mem.Mat)\n"
    body += "c = pl.tile.matmul(am, bm)\ndone = pl.tile.store(c, [0, 0], out)\nreturn done\n"
    params = [tensor("a", 10, 100, "FP32"), tensor("b", 100, 20, "FP32"), tensor("out", 10, 20, "FP32", True)]
    result = tiled(kernel(params, "pl.Tensor[[10, 20], pl.FP32]", body), force={"c": (128, 128, 64)})
    assert str(result.program).count("pl.tile.store") == 4
    assert tilesat.simulate(result.program, "ascend910b").cycles > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("acc = pl.tile.create", "acc: pl.Tile[[64, 64], pl.FP32, Acc.Mem.Acc] = pl.tile.create"),
        ("a_k = pl.tile.load", "a_k: pl.Tile[[64, 32], pl.BF16, Mat.Mem.Mat] = pl.tile.load"),
    ],
)
def test_a_chain_whose_parts_are_declared_to_be_no_tiles_is_no_chain(old: str, new: str) -> None:
    """A slip in an annotation: what it says counts, and was an assertion of the chain's recogniser."""
    text = Chain(64, 64, 32, 4, "bf16").text()
    assert text.count(old) == 1
    result = tilesat.tile(tilesat.parse(text.replace(old, new)))
    assert not [d for d in result.decisions if d.op == "split_k_chain"]
