"""The whole path on generated programs: legal, the same numbers, stable, and nothing touched that is not a product's."""

from __future__ import annotations

import operator
import random
from typing import Any

import pytest
from generate import program_text, programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lift_programs import load, program
from tiling_checks import PLANNERS, TARGETS, check_legal, checked, codes, decision

from ir_bridge.ir.nodes import Assign, Call, Program, walk
from ir_bridge.ir.parser import parse
from tilesat.tiling import tile

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
FEWER = settings(SETTINGS, max_examples=25)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "target": draw(st.sampled_from(TARGETS)),
        "planner": draw(st.sampled_from(PLANNERS)),
        "pypto_double_buffer_c": draw(st.booleans()),
    }


@SETTINGS
@given(programs(max_matmuls=8), options())
def test_reference_tilings_of_generated_programs(text: str, chosen: dict[str, Any]) -> None:
    checked(text, **chosen)


@SETTINGS
@given(programs(max_matmuls=8), options(), st.sampled_from(["dag", "tree"]))
def test_cheapest_tilings_of_generated_programs(text: str, chosen: dict[str, Any], extractor: str) -> None:
    checked(text, rules="all", extractor=extractor, **chosen)


@pytest.mark.parametrize("seed", range(12))
def test_larger_programs(seed: int) -> None:
    rng = random.Random(seed)
    text = program_text(rng, max_matmuls=8, largest=512)
    checked(text, target=TARGETS[seed % 2], planner=PLANNERS[seed % 3], rules=("reference", "all")[seed // 6])


@pytest.mark.parametrize("seed", range(12))
def test_extents_that_are_no_whole_fractals_are_left_or_k_split(seed: int) -> None:
    """M and N of a few elements more: no window would be whole, so nothing is cut along them."""
    result = checked(program_text(random.Random(100 + seed), aligned=False), target=TARGETS[seed % 2], planner=PLANNERS[seed % 3])
    for d in result.decisions:
        if d.op != "split_k_chain" and (d.M % 16 or d.N % 16):
            assert d.form in ("as_it_stands", "k_loop")


# -- what is not a product's --------------------------------------------------------------------------------------------------


@FEWER
@given(programs(pieces=["vec_work"]), options())
def test_programs_without_products_come_back_as_they_are(text: str, chosen: dict[str, Any]) -> None:
    before = parse(text)
    assert tile(before, **chosen).program is before


def others(p: Program) -> list[str]:
    """The statements that have nothing to do with products, in order, as text."""
    vector = ("tile.muls", "tile.adds", "tile.add", "tile.sub", "tile.mul", "tile.maximum", "tile.neg", "tile.abs")
    statements = [s for f in p.functions for s in walk(f.body) if isinstance(s, Assign) and isinstance(s.value, Call)]
    return [str(s) for s in statements if isinstance(s.value, Call) and s.value.op in vector]


@FEWER
@given(programs(pieces=["vec_work", "store", "chain", "bias"]), options())
def test_vector_statements_stay_in_their_order(text: str, chosen: dict[str, Any]) -> None:
    before = parse(text)
    assert others(tile(before, **chosen).program) == others(before)


MIXED_PARAMS = [
    "a: pl.Tensor[[256, 64], pl.BF16]",
    "b: pl.Tensor[[64, 512], pl.BF16]",
    "log: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]",
    "n: pl.Scalar[pl.INDEX]",
    "out: pl.Out[pl.Tensor[[256, 512], pl.FP32]]",
]
MIXED = [
    load("a_mat", "a", (256, 64), (256, 64)),
    load("b_mat", "b", (64, 512), (64, 512)),
    "with pl.scope(mode=pl.ScopeMode.MANUAL):",
    "    ticket = pl.submit(n)",
    "first = pl.tensor.read(log, [0, 0])",
    "pl.tensor.write(log, [0, 1], first)",
    "if n == 0:",
    "    self.notify(log)",
    "x, y = self.pair(log, n)",
    "c = pl.tile.matmul(a_mat, b_mat)",
    "self.notify(log)",
    "pl.tensor.write(log, [0, 2], first)",
    "out_1 = pl.tile.store(c, [0, 0], out)",
    "z = pl.tile.mystery(x, attrs={'note': 1})",
    "return out_1",
]
SIBLINGS = """
    @pl.function(type=pl.FunctionType.InCore)
    def notify(self, log: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
        pl.tensor.write(log, [1, 0], 1.0)

    @pl.function(type=pl.FunctionType.Orchestration)
    def pair(self, log: pl.Tensor[[16, 16], pl.FP32], n: pl.Scalar[pl.INDEX]) -> tuple[pl.Scalar[pl.INDEX], pl.Scalar[pl.INDEX]]:
        return n, n
"""


def test_effects_opaque_calls_and_blocks_are_kept_in_their_order() -> None:
    """A grid where the store stood; every other statement as it was, none dropped, none moved across an effect."""
    before = parse(program(MIXED_PARAMS, "pl.Tensor[[256, 512], pl.FP32]", MIXED) + SIBLINGS)
    result = tile(before)
    after = result.program
    f, g = before.functions[0], after.functions[0]
    assert all(map(operator.is_, before.functions[1:], after.functions[1:]))
    new = {id(s) for s in walk(g.body)} - {id(s) for s in walk(f.body)}
    assert new
    kept = [s for s in walk(g.body) if id(s) not in new]
    was = [s for s in walk(f.body) if id(s) in {id(k) for k in kept}]
    assert [id(s) for s in kept] == [id(s) for s in was]  # the same objects in the same order
    gone = [s for s in walk(f.body) if id(s) not in {id(k) for k in kept}]
    assert [s.targets[0].name for s in gone if isinstance(s, Assign)] == ["c", "out_1"]
    assert len(gone) == 2
    text = str(after)
    assert text.index("self.notify(log)", text.index("self.pair")) < text.index("pl.tile.extract")  # the grid stands at the store
    check_legal(before, result, "ascend910b")


# -- where products stand ------------------------------------------------------------------------------------------------------


def around(M: int, N: int, K: int, loop: str) -> str:
    """A stored product of each of four row blocks, in the loop given by its head."""
    params = [f"a: pl.Tensor[[{4 * M}, {K}], pl.BF16]", f"b: pl.Tensor[[{K}, {N}], pl.BF16]"]
    out = f"pl.Tensor[[{4 * M}, {N}], pl.FP32]"
    body = [
        load("b_mat", "b", (K, N), (K, N)),
        f"for t, (o,) in pl.{loop}:",
        f"    r = t * {M}",
        f"    a_mat = pl.tile.load(a, [r, 0], [{M}, {K}], target_memory=pl.Mem.Mat)",
        "    c = pl.tile.matmul(a_mat, b_mat)",
        "    s = pl.tile.store(c, [r, 0], o)",
        "    w = pl.yield_(s)",
        "return w",
    ]
    return program([*params, f"out: pl.Out[{out}]"], out, body)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("loop", ["range(0, 4, 1, init_values=(out,))", "pipeline(0, 4, 1, stage=2, init_values=(out,))"])
@pytest.mark.parametrize("shape", [(64, 64, 2048), (256, 512, 64), (272, 528, 64), (64, 64, 2064), (128, 224, 144)])
def test_products_inside_the_authors_loops(shape: tuple[int, int, int], loop: str, target: str) -> None:
    result = checked(around(*shape, loop), target=target)
    assert codes(result) == []
    assert decision(result, "c").form != "as_it_stands"


@pytest.mark.parametrize(
    ("shape", "stage", "target", "planner"),
    [
        ((144, 224, 112), 3, "ascend910b", "pypto"),  # a grid of all of K, its boundary three times
        ((224, 160, 112), 4, "ascend910b", "dsa_rp"),
        ((256, 464, 112), 4, "ascend910b", "pypto"),  # B held, the boundary's A four times
        ((64, 64, 2096), 3, "ascend950", "ptoas"),  # the last panel of K, three times
        ((432, 64, 64), 2, "ascend950", "ptoas"),  # one block with A held
    ],
)
def test_straight_lines_in_the_authors_pipeline(shape: tuple[int, int, int], stage: int, target: str, planner: str) -> None:
    """What stands outside our loops stands in the author's, and has as many copies as that has stages."""
    for rules in ("reference", "all"):
        loop = f"pipeline(0, 4, 1, stage={stage}, init_values=(out,))"
        checked(around(*shape, loop), target=target, planner=planner, rules=rules)


EXTENTS = st.integers(1, 24).map(lambda x: 16 * x)


@SETTINGS
@given(st.tuples(EXTENTS, EXTENTS, EXTENTS), st.integers(2, 4), options(), st.sampled_from(["reference", "all"]))
def test_generated_products_in_the_authors_pipeline(shape: tuple[int, int, int], stage: int, chosen: Any, rules: str) -> None:
    text = around(*shape, f"pipeline(0, 4, 1, stage={stage}, init_values=(out,))")
    before = parse(text)
    check_legal(before, tile(before, rules=rules, **chosen), chosen["target"])


@pytest.mark.parametrize(
    ("M", "N", "depth", "stage", "planner"),
    [
        (160, 288, 176, 4, "pypto"),
        (368, 256, 112, 3, "pypto"),
        (336, 160, 176, 3, "pypto"),
        (416, 432, 176, 2, "ptoas"),  # the chooser would cut the window again, the second time too
    ],
)
@pytest.mark.parametrize("rules", ["reference", "all"])
def test_panels_of_a_chain_in_straight_lines(M: int, N: int, depth: int, stage: int, planner: str, rules: str) -> None:
    """The last panel of a source block, and a single full one, stand in the author's K-loop."""
    out = f"pl.Tensor[[{M}, {N}], pl.FP32]"
    body = [
        f"seed = pl.tile.create([{M}, {N}], dtype=pl.FP32, target_memory=pl.Mem.Acc)",
        f"for k, (held,) in pl.pipeline(0, {2 * depth}, {depth}, init_values=(seed,), stage={stage}):",
        f"    ak = pl.tile.load(a, [0, k], [{M}, {depth}], target_memory=pl.Mem.Mat)",
        f"    bk = pl.tile.load(b, [k, 0], [{depth}, {N}], target_memory=pl.Mem.Mat)",
        "    c = pl.tile.matmul_acc(held, ak, bk, k == 0)",
        "    total = pl.yield_(c)",
        "done = pl.tile.store(total, [0, 0], out)",
        "return done",
    ]
    params = [f"a: pl.Tensor[[{M}, {2 * depth}], pl.BF16]", f"b: pl.Tensor[[{2 * depth}, {N}], pl.BF16]"]
    result = checked(program([*params, f"out: pl.Out[{out}]"], out, body), planner=planner, rules=rules)
    assert result.decisions[0].op == "split_k_chain"
    assert result.decisions[0].form == "grid_store"


def test_a_producer_in_a_loop_and_its_reader_in_a_branch() -> None:
    out = "pl.Tensor[[128, 64], pl.FP32]"
    body = [
        load("a_mat", "a", (128, 512), (128, 512)),
        load("b_mat", "b", (512, 128), (512, 128)),
        load("e_mat", "e", (128, 64), (128, 64)),
        "for t, (o,) in pl.range(0, 2, 1, init_values=(out,)):",
        "    c = pl.tile.matmul(a_mat, b_mat)",
        "    low = pl.tile.cast(c, target_type=pl.BF16, mode='rint')",
        "    if t == 1:",
        "        d = pl.tile.matmul(low, e_mat)",
        "        s = pl.tile.store(d, [0, 0], o)",
        "        w = pl.yield_(s)",
        "    else:",
        "        w = pl.yield_(o)",
        "    v = pl.yield_(w)",
        "return v",
    ]
    params = ["a: pl.Tensor[[128, 512], pl.BF16]", "b: pl.Tensor[[512, 128], pl.BF16]", "e: pl.Tensor[[128, 64], pl.BF16]"]
    result = checked(program([*params, f"out: pl.Out[{out}]"], out, body))
    assert "cast" not in str(result.program)
    assert [d.name for d in result.decisions] == ["c", "d"]  # in the order of the text
