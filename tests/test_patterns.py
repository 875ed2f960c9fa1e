"""Recognising source patterns: def-use facts, canonical split-K chains, drained L0 pipelines, each gate on both of its sides."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from oracle_plans import over_capacity, plan_drained_pipelines

from cost.hardware import get_target
from ir_bridge.analysis import INSIDE, Facts, Origin, facts_of, may_share_memory, memory_of
from ir_bridge.drained_pipeline import DrainedPipeline, Refused, read_pipeline, slot_bytes
from ir_bridge.ir.nodes import Call, For, Var, walk
from ir_bridge.ir.parser import parse
from ir_bridge.split_k_chain import ChainRefusal, SplitKChain, split_k_chains

HEAD = """\
import pypto.language as pl


@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, {params}):
"""
MAT, ACC = "target_memory=pl.Mem.Mat", "target_memory=pl.Mem.Acc"


def facts(params: str, body: str) -> Facts:
    return facts_of(parse(HEAD.format(params=params) + indent(dedent(body), " " * 8)).functions[0])


def value(f: Facts, name: str) -> Var:
    """The only value called ``name``."""
    (found,) = [v for v in f.definitions if v.name == name]
    return found


# -- def-use facts -------------------------------------------------------------------------------------------------------

FACTS_PARAMS = (
    "a: pl.Tensor[[16, 64], pl.BF16], b: pl.Tensor[[64, 32], pl.BF16], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]], "
    "flag: pl.Scalar[pl.BOOL]"
)
FACTS_BODY = f"""\
l = pl.tile.load(a, [0, 0], [16, 64], {MAT})
r = pl.tile.load(b, [0, 0], [64, 32], {MAT})
seed = pl.tile.create([16, 32], dtype=pl.FP32, {ACC})
for i, (c,) in pl.range(0, 4, 1, init_values=(seed,)):
    k = i * 2
    if flag:
        one = pl.tile.matmul_acc(c, l, r)
        phi = pl.yield_(one)
    else:
        two = pl.tile.matmul_acc(c, l, r)
        phi = pl.yield_(two)
    done = pl.yield_(phi)
out_1 = pl.tile.store(done, [0, 0], out)
return out_1
"""


def test_definitions_say_what_makes_a_value_and_where() -> None:
    f = facts(FACTS_PARAMS, FACTS_BODY)
    origins = {name: f.definitions[value(f, name)].origin for name in ("flag", "l", "i", "c", "done", "phi")}
    assert origins == {
        "flag": Origin.PARAM,
        "l": Origin.ASSIGN,
        "i": Origin.COUNTER,
        "c": Origin.CARRIED,
        "done": Origin.LOOP_RESULT,
        "phi": Origin.BRANCH_RESULT,
    }
    assert f.definitions[value(f, "seed")].position == 2
    loop = f.definitions[value(f, "done")].stmt
    assert isinstance(loop, For)
    one = f.definitions[value(f, "one")]
    assert one.site.loops == (loop,)
    assert one.site.within(f.body)
    assert not f.body.within(one.site)


def test_uses_name_statement_and_operand_slot() -> None:
    f = facts(FACTS_PARAMS, FACTS_BODY)
    slots = [(u.call.op if u.call else type(u.stmt).__name__, u.slot) for u in f.uses_of(value(f, "l"))]
    assert slots == [("tile.matmul_acc", 1), ("tile.matmul_acc", 1)]
    assert [u.slot for u in f.uses_of(value(f, "r"))] == [2, 2]
    assert [(type(u.stmt).__name__, u.slot) for u in f.uses_of(value(f, "seed"))] == [("For", 0)]
    assert [u.slot for u in f.uses_of(value(f, "i"))] == [INSIDE]
    assert f.only_use(value(f, "l")) is None
    assert f.only_use(value(f, "seed")) is not None
    assert f.uses_of(value(f, "k")) == ()
    assert f.call_of(value(f, "r")) is not None
    assert f.call_of(value(f, "done")) is None


def test_sites_cover_every_statement_once() -> None:
    f = facts(FACTS_PARAMS, FACTS_BODY)
    listed = [s for site in f.sites for s in site.statements]
    assert len(listed) == len(list(walk(f.function.body)))
    assert {id(s) for s in listed} == {id(s) for s in walk(f.function.body)}


def test_states_of_one_memory_are_traced_back() -> None:
    f = facts(
        FACTS_PARAMS,
        f"""\
        l = pl.tile.load(a, [0, 0], [16, 64], {MAT})
        r = pl.tile.load(b, [0, 0], [64, 32], {MAT})
        c = pl.tile.matmul(l, r)
        out_1 = pl.tile.store(c, [0, 0], out)
        for i, (o,) in pl.range(0, 4, 1, init_values=(out_1,)):
            if flag:
                x = pl.tile.store(c, [0, 0], o)
                phi = pl.yield_(x)
            else:
                phi = pl.yield_(o)
            o_r = pl.yield_(phi)
        c2 = pl.tile.matmul_acc(c, l, r)
        v = pl.tile.set_validshape(c2, 16, 16)
        m = pl.tile.mystery(v)
        return o_r
        """,
    )
    traced = {}
    for name in ("a", "o_r", "phi", "out_1", "c2", "v", "l", "m"):
        memory = memory_of(value(f, name), f)
        traced[name] = memory.name if memory is not None else None
    assert traced == {"a": "a", "o_r": "out", "phi": "out", "out_1": "out", "c2": "c", "v": "c", "l": "l", "m": None}
    assert may_share_memory(value(f, "o_r"), value(f, "out"), f)
    assert not may_share_memory(value(f, "o_r"), value(f, "a"), f)
    assert may_share_memory(value(f, "m"), value(f, "a"), f)


# -- split-K chains --------------------------------------------------------------------------------------------------------

CHAIN_PARAMS = (
    "a: pl.Tensor[[272, 256], pl.INT8], b: pl.Tensor[[256, 144], pl.INT8], out: pl.Out[pl.Tensor[[272, 144], pl.INT32]], "
    "flag: pl.Scalar[pl.BOOL], d: pl.InOut[pl.Tensor[[272, 256], pl.INT8]]"
)
PREDICATED = f"""\
acc = pl.tile.create([272, 144], dtype=pl.INT32, {ACC})
for k0, (acc_i,) in pl.pipeline(0, 256, 128, init_values=(acc,), stage=2):
    a_k = pl.tile.load(a, [0, k0], [272, 128], {MAT})
    b_k = pl.tile.load(b, [k0, 0], [128, 144], {MAT})
    more = pl.tile.matmul_acc(acc_i, a_k, b_k, k0 == 0)
    acc_r = pl.yield_(more)
out_1 = pl.tile.store(acc_r, [0, 0], out)
return out_1
"""
BRANCH = f"""\
acc = pl.tile.create([272, 144], dtype=pl.INT32, {ACC})
for k0, (acc_i,) in pl.pipeline(0, 256, 128, init_values=(acc,), stage=2):
    a_k = pl.tile.load(a, [0, k0], [272, 128], {MAT})
    b_k = pl.tile.load(b, [k0, 0], [128, 144], {MAT})
    if k0 == 0:
        first = pl.tile.matmul(a_k, b_k)
        phi = pl.yield_(first)
    else:
        more = pl.tile.matmul_acc(acc_i, a_k, b_k)
        phi = pl.yield_(more)
    acc_r = pl.yield_(phi)
out_1 = pl.tile.store(acc_r, [0, 0], out)
return out_1
"""


def chains(body: str) -> list[SplitKChain | ChainRefusal]:
    return list(split_k_chains(facts(CHAIN_PARAMS, body)))


def replaced(body: str, old: str, new: str) -> str:
    assert old in body
    return body.replace(old, new)


@pytest.mark.parametrize("body", [PREDICATED, BRANCH])
def test_chain_in_both_spellings(body: str) -> None:
    (chain,) = chains(body)
    assert isinstance(chain, SplitKChain)
    assert (chain.M, chain.N, chain.K) == (272, 144, 128)
    assert (chain.box_m, chain.box_n) == (16, 32)  # int8: 16 rows, 32 columns of one byte
    assert chain.left.targets[0].name == "a_k"
    assert [s.value.op for s in chain.products if isinstance(s.value, Call)] == (
        ["tile.matmul", "tile.matmul_acc"] if body is BRANCH else ["tile.matmul_acc"]
    )
    assert chain.position == 0


@pytest.mark.parametrize(
    "test",
    [
        "k1 = k0 * 2\n    {r}k1 == 0",
        "k1 = 3 * k0\n    {r}k1 == 0",
        "k1 = k0 * 2\n    first_block = k1 == 0\n    {r}first_block",
        "{r}0 == k0",
        "{r}k0 * 128 == 0",
    ],
)
def test_first_block_tests_that_are_accepted(test: str) -> None:
    call = "more = pl.tile.matmul_acc(acc_i, a_k, b_k, k0 == 0)"
    body = replaced(PREDICATED, call, test.format(r="more = pl.tile.matmul_acc(acc_i, a_k, b_k, ") + ")")
    (chain,) = chains(body)
    assert isinstance(chain, SplitKChain)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("k0 == 128", "does not compare with 0"),
        ("k0 != 0", "no test of the loop's own variable 'k0'"),
        ("flag", "no test of the loop's own variable 'k0'"),
        ("k0 * 0 == 0", "non-zero constant"),
        ("k0 + 1 == 0", "non-zero constant"),
        ("outer == 0", "own variable 'k0'"),
        ("k0 == 0 and flag", "no test"),
        ("True", "no test"),
    ],
)
@pytest.mark.parametrize("body", [PREDICATED, BRANCH])
def test_a_predicate_that_proves_nothing_is_refused(body: str, test: str, says: str) -> None:
    old, new = ("k0 == 0)", f"{test})") if body is PREDICATED else ("if k0 == 0:", f"if {test}:")
    body = replaced(body, old, new)
    lines = indent(replaced(body, "return out_1\n", ""), "    ")
    (refused,) = chains(f"for outer in pl.range(0, 2, 1):\n{lines}")
    assert isinstance(refused, ChainRefusal)
    assert says in refused.reason


def test_a_loop_that_starts_elsewhere_has_no_first_block_at_zero() -> None:
    (refused,) = chains(replaced(PREDICATED, "pl.pipeline(0, 256", "pl.pipeline(128, 256"))
    assert isinstance(refused, ChainRefusal)
    assert "does not start at 0" in refused.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a_k, b_k, k0 == 0)", "a_k, b_k)"),  # no predicate at all
        ("pl.pipeline(0, 256, 128, init_values=(acc,), stage=2)", "pl.range(0, 256, 128, init_values=(acc,))"),
        ("[272, 128], target", "[272, 128], [200, 128], target"),  # a narrowed panel
        ("    acc_r = ", "    w = pl.tile.move(a_k, target_memory=pl.Mem.Mat)\n    acc_r = "),  # more than scalar arithmetic
        ("    acc_r = ", "    w = pl.tensor.read(a, [0, 0])\n    acc_r = "),
        ("[0, 0], out)", "[0, 0], out, [272, 144])"),  # four operands
        ("out_1 = ", "n = 1 + 2\nout_1 = "),  # not adjacent
        ("out_1 = ", "out_0 = pl.tile.store(acc_r, [0, 0], out)\nout_1 = "),  # the result is used twice
        ("return out_1", "again = pl.tile.matmul_acc(acc, a_m, b_m)\nreturn out_1"),  # so is the seed
    ],
)
def test_what_is_no_chain_is_passed_over(old: str, new: str) -> None:
    body = replaced(PREDICATED, old, new)
    if "a_m" in new:
        body = f"a_m = pl.tile.load(a, [0, 0], [272, 128], {MAT})\nb_m = pl.tile.load(b, [0, 0], [128, 144], {MAT})\n{body}"
    assert chains(body) == []


def test_a_chain_must_not_store_into_what_it_loads() -> None:
    """Its windows are stored one by one: a later one would load what an earlier one wrote."""
    body = replaced(PREDICATED, "[0, 0], out)", "[0, 0], d)")
    assert len(chains(body)) == 1
    assert chains(replaced(body, "pl.tile.load(b, [k0", "pl.tile.load(d, [k0")) == []
    before = f"z = pl.tile.load(b, [0, 0], [16, 16], {MAT})\nd_1 = pl.tile.store(z, [0, 0], d)\n"
    assert chains(before + replaced(body, "pl.tile.load(b, [k0", "pl.tile.load(d_1, [k0")) == []


def test_operands_must_differ() -> None:
    body = f"""\
    acc = pl.tile.create([128, 128], dtype=pl.INT32, {ACC})
    for k0, (acc_i,) in pl.pipeline(0, 256, 128, init_values=(acc,), stage=2):
        a_k = pl.tile.load(a, [0, k0], [128, 128], {MAT})
        b_k = pl.tile.load(b, [k0, 0], [128, 128], {MAT})
        more = pl.tile.matmul_acc(acc_i, a_k, RIGHT, k0 == 0)
        acc_r = pl.yield_(more)
    out_1 = pl.tile.store(acc_r, [0, 0], out)
    return out_1
    """
    assert len(chains(body.replace("RIGHT", "b_k"))) == 1
    assert chains(body.replace("RIGHT", "a_k")) == []


def test_arms_of_the_branch_must_be_the_same_product() -> None:
    assert chains(replaced(BRANCH, "pl.tile.matmul(a_k, b_k)", "pl.tile.matmul(b_t, b_k)").replace(
        "    if k0", f"    b_t = pl.tile.load(a, [0, k0], [272, 128], {MAT})\n    if k0"
    )) == []  # fmt: skip


# -- drained pipelines -------------------------------------------------------------------------------------------------------

DRAINED_PARAMS = (
    "q: pl.Tensor[[128, 128], pl.BF16], b: pl.Tensor[[128, 2048], pl.BF16], out: pl.Out[pl.Tensor[[128, 2048], pl.FP32]], "
    "flag: pl.Scalar[pl.BOOL], n: pl.Scalar[pl.INDEX]"
)
SETUP = f"""\
q_mat = pl.tile.load(q, [0, 0], [64, 128], {MAT})
q_l0 = pl.tile.move(q_mat, target_memory=pl.Mem.Left)
b_mat = pl.tile.load(b, [0, 0], [128, 2048], {MAT})
"""
STORED = (
    SETUP
    + """\
for ni, (o_i,) in pl.pipeline(0, 512, 128, init_values=(out,), stage=2):
    b_l0 = pl.tile.extract(b_mat, 0, ni, [128, 128], target_memory=pl.Mem.Right)
    c = pl.tile.matmul(q_l0, b_l0)
    s = pl.tile.store(c, [0, ni], o_i)
    o_r = pl.yield_(s)
return o_r
"""
)
ASSEMBLED = (
    SETUP
    + f"""\
scratch = pl.tile.create([64, 2048], dtype=pl.BF16, {MAT})
for ni, (o_i,) in pl.pipeline(0, 2048, 256, init_values=(scratch,), stage=2):
    b_l0 = pl.tile.extract(b_mat, 0, ni, [128, 256], target_memory=pl.Mem.Right)
    c = pl.tile.matmul(q_l0, b_l0)
    s = pl.tile.assemble(o_i, c, [0, ni])
    o_r = pl.yield_(s)
return o_r
"""
)
A2, A5 = get_target("ascend910b"), get_target("ascend950")


def read(body: str) -> DrainedPipeline | Refused:
    f = facts(DRAINED_PARAMS, body)
    return read_pipeline(next(s for s in walk(f.function.body) if isinstance(s, For)), f)


def planned(body: str, target: object = A5) -> tuple[int, list[str]]:
    """How many pipelines get two accumulators, and why the others do not."""
    plan = plan_drained_pipelines(facts(DRAINED_PARAMS, body), target)  # type: ignore[arg-type]
    return len(plan.loops), [r.reason for r in plan.refused]


def test_drained_pipelines_are_read() -> None:
    stored, assembled = read(STORED), read(ASSEMBLED)
    assert isinstance(stored, DrainedPipeline)
    assert isinstance(assembled, DrainedPipeline)
    assert (stored.drain, stored.trips, stored.accumulator.shape) == ("tile.store", 4, (64, 128))
    assert (assembled.drain, assembled.trips, assembled.accumulator.shape) == ("tile.assemble", 8, (64, 256))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("stage=2)", 'stage=2, attrs={"pipeline_overlap_stores": False})', "already says"),
        ("stage=2)", 'stage=2, attrs={"pipeline_double_buffer_c": True})', "already says"),
        ("stage=2)", "stage=1)", "fewer than two stages"),
        ("pl.pipeline(0, 512", "pl.pipeline(0, n", "not numbers"),
        ("pl.pipeline(0, 512", "pl.pipeline(0, 384", "3 trips are no multiple of its 2 stages"),
        ("stage=2)", "stage=3)", "4 trips are no multiple of its 3 stages"),
        ("    c = ", "    d = pl.tile.matmul(q_l0, b_l0)\n    c = ", "exactly one accumulator"),
        ("    o_r = ", "    s2 = pl.tile.store(c, [64, ni], o_i)\n    o_r = ", "one store"),
        ("    o_r = ", "    pl.tensor.write(out, [0, 0], 1.0)\n    o_r = ", "one store"),
        ("    o_r = ", "    if flag:\n        pass\n    o_r = ", "not flat"),
        ("    o_r = ", "    z = pl.tile.mystery(b_l0)\n    o_r = ", "effects are not known"),
        ("pl.tile.matmul(q_l0, b_l0)", "pl.tile.matmul_acc(seed, q_l0, b_l0)", "plain tile.matmul"),
        ("pl.tile.matmul(q_l0, b_l0)", "pl.tile.matmul(q_mat, b_l0)", "static tiles in Left and Right"),
        ("    c = ", "    q_l0 = pl.tile.move(q_mat, target_memory=pl.Mem.Left)\n    c = ", "not exactly one operand"),
        ("pl.tile.store(c, [0, ni], o_i)", "pl.tile.store(c, [0, ni], out)", "into a carried value"),
        ("pl.yield_(s)", "pl.yield_(o_i)", "not handed on"),
    ],
)
def test_each_gate_of_a_drained_pipeline(old: str, new: str, says: str) -> None:
    body = replaced(STORED, old, new)
    if "seed" in new:
        body = f"seed = pl.tile.create([64, 128], dtype=pl.FP32, {ACC})\n" + body
    found = read(body)
    assert isinstance(found, Refused)
    assert says in found.reason


def test_an_accumulator_used_twice_is_no_drained_pipeline() -> None:
    found = read(replaced(STORED, "    o_r = ", "    v = pl.tile.move(c, target_memory=pl.Mem.Vec)\n    o_r = "))
    assert isinstance(found, Refused)
    assert "accumulator is not used exactly once" in found.reason


def test_both_operands_from_outside_leave_nothing_moving() -> None:
    body = replaced(STORED, "    b_l0 = pl.tile.extract(b_mat, 0, ni,", "    x = ni + 1\n    b_x = pl.tile.extract(b_mat, 0, ni,")
    body = replaced(body, "for ni", "b_l0 = pl.tile.extract(b_mat, 0, 0, [128, 128], target_memory=pl.Mem.Right)\nfor ni")
    found = read(body)
    assert isinstance(found, Refused)
    assert "not exactly one operand" in found.reason


def test_store_drains_pay_from_four_trips() -> None:
    assert planned(STORED) == (1, [])
    count, (reason,) = planned(replaced(STORED, "(0, 512, 128", "(0, 256, 128"))
    assert count == 0
    assert "2 trips are fewer than the 4" in reason


def test_assemble_drains_pay_from_eight_trips_and_a_quarter_of_l0c() -> None:
    # 64 × 256 fp32 = 64 KiB, a quarter of ascend950's 256 KiB
    assert planned(ASSEMBLED) == (1, [])
    count, (reason,) = planned(replaced(ASSEMBLED, "(0, 2048, 256", "(0, 1536, 256"))
    assert count == 0
    assert "6 trips are fewer than the 8" in reason
    narrow = replaced(ASSEMBLED, "[128, 256]", "[128, 240]")
    count, (reason,) = planned(narrow)
    assert count == 0
    assert "61440 bytes is less than a quarter" in reason
    assert planned(narrow, A2)[0] == 1  # a quarter of ascend910b's 128 KiB, and twice 60 KiB fits


def test_slots_are_rows_as_the_target_aligns_them() -> None:
    """int32 [16, 512]: 32 physical rows on ascend910b, 16 on ascend950."""
    params = "q: pl.Tensor[[16, 32], pl.INT8], b: pl.Tensor[[32, 512], pl.INT8]"
    f = facts(
        params,
        f"l = pl.tile.load(q, [0, 0], [16, 32], {MAT})\nr = pl.tile.load(b, [0, 0], [32, 512], {MAT})\nc = pl.tile.matmul(l, r)",
    )
    t = value(f, "c").type
    assert slot_bytes(t, A2) == 32 * 512 * 4  # type: ignore[arg-type]
    assert slot_bytes(t, A5) == 16 * 512 * 4  # type: ignore[arg-type]


def test_all_pipelines_of_a_function_or_none() -> None:
    """Two loops of 32 KiB each on ascend910b: 2·32 live + 2·32 more = 128 KiB fit; another 32 KiB accumulator does not."""
    again = replaced(STORED, "return o_r\n", "").replace(SETUP, "")
    again = (
        again.replace("(out,)", "(o_r,)")
        .replace("ni, (", "nj, (")
        .replace("ni]", "nj]")
        .replace("ni,", "nj,")
        .replace("o_r = ", "o_r2 = ")
        .replace("o_i", "o_j")
    )
    two = replaced(STORED, "return o_r\n", again + "return o_r2\n")
    assert planned(two, A2) == (2, [])
    other = f"z = pl.tile.create([64, 128], dtype=pl.FP32, {ACC})\n"
    count, reasons = planned(other + two, A2)
    assert count == 0
    assert len(reasons) == 2
    assert all("163840 bytes" in r and "131072" in r for r in reasons)
    assert planned(other + two, A5)[0] == 2


def test_accumulators_no_cube_operation_makes_count_once_a_stage() -> None:
    """A create inside 3 stages is 3 accumulators after lowering: 3·8 + 32 + 32 = 88 KiB fit 910B; 6·16 more do not."""

    def extra(rows: int, stages: tuple[int, ...]) -> str:
        pad, text = "", ""
        for i, s in enumerate(stages):
            text += f"{pad}for x{i} in pl.pipeline(0, 6, 1, stage={s}):\n"
            pad += "    "
        return text + f"{pad}z = pl.tile.create([{rows}, 128], dtype=pl.FP32, {ACC})\n"

    def total(body: str) -> int | None:
        f = facts(DRAINED_PARAMS, body)
        stored = [
            p for s in walk(f.function.body) if isinstance(s, For) and isinstance(p := read_pipeline(s, f), DrainedPipeline)
        ]
        reason = over_capacity(f, stored, A2)
        return None if reason is None else int(reason.split(" may take ")[1].split()[0])

    assert total(extra(16, (3,)) + STORED) is None
    assert total(extra(32, (2, 3)) + STORED) == 6 * 16384 + 2 * 32768
