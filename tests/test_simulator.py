"""The simulator: schedules worked by hand, an independent oracle, laws, programs, exports and refusals."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import sys
import time
from pathlib import Path

import brute_force
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost import roofline
from cost.dtypes import dtype
from cost.errors import TargetError, TilesatError
from cost.hardware import BUFFERS, get_target
from cost.problem import OUTPUT, STATIONARITY, Candidates, Problem
from cost.simulator import Core, Durations, Lane, Ring, Timeline, Value, ticks
from cost.simulator.schedule import run_schedule, simulated_cycles
from ir_bridge.ir.parser import parse
from tilesat.simulation import SimulationError, simulate

DATA = Path(__file__).with_name("data")
B910 = get_target("ascend910b")
PROGRAMS = [json.loads(line) for line in (DATA / "tiled_programs.jsonl").open()]
TILED = [row for row in PROGRAMS if row.get("output")]


# -- schedules worked by hand: A takes 10 cycles, B 20, the product 30, the drain 40 -------------------------------------


def blocks(count, operand_slots=1, accumulators=1, product=30.0, drain=40.0, a=10.0):
    """``count`` output blocks of one product each."""
    core = Core(B910)
    ring_a, ring_b, ring_c = Ring(operand_slots), Ring(operand_slots), Ring(accumulators)
    for _ in range(count):
        left, right, acc = (core.value(b, 1024, r) for b, r in (("l0a", ring_a), ("l0b", ring_b), ("l0c", ring_c)))
        core.issue(Lane.MTE1, a, (), (left,))
        core.issue(Lane.MTE1, 20.0, (), (right,))
        core.issue(Lane.CUBE, product, (left, right), (acc,))
        core.release(left)
        core.release(right)
        core.issue(Lane.FIXPIPE, drain, (acc,))
        core.release(acc)
    return Timeline(core, ["x"])


def spans(timeline, lane):
    mine = timeline.lane == lane
    return list(zip(timeline.start[mine].tolist(), timeline.end[mine].tolist(), strict=True))


def test_one_block_is_a_chain():
    t = blocks(1)
    assert spans(t, Lane.MTE1) == [(0, 10), (10, 30)]
    assert spans(t, Lane.CUBE) == [(30, 60)]
    assert spans(t, Lane.FIXPIPE) == [(60, 100)]
    assert t.cycles == 100
    assert (t.lower_bound, t.bound_by) == (40, "FIXPIPE")
    assert [s.lane for s in t.critical_path()] == ["MTE1", "MTE1", "CUBE", "FIXPIPE"]
    assert t.peak_bytes == {"l0a": 1024, "l0b": 1024, "l0c": 1024}


def test_two_blocks_without_double_buffering():
    """The second block's A waits for the first product to be through with its slot, its product for the first drain."""
    t = blocks(2)
    assert spans(t, Lane.MTE1) == [(0, 10), (10, 30), (60, 70), (70, 90)]
    assert spans(t, Lane.CUBE) == [(30, 60), (100, 130)]
    assert spans(t, Lane.FIXPIPE) == [(60, 100), (130, 170)]
    lanes = t.lanes()
    assert lanes["MTE1"].stalls == {"a slot in l0a": 30}
    assert lanes["CUBE"].stalls == {"data from MTE1": 30, "a slot in l0c": 40}
    assert lanes["FIXPIPE"].stalls == {"data from CUBE": 60 + 30}
    assert (lanes["CUBE"].busy, lanes["CUBE"].idle) == (60, 40)


def test_two_blocks_with_double_buffered_operands():
    """The panels come while the first product runs; the drain stays exposed."""
    t = blocks(2, operand_slots=2)
    assert spans(t, Lane.MTE1) == [(0, 10), (10, 30), (30, 40), (40, 60)]
    assert spans(t, Lane.CUBE) == [(30, 60), (100, 130)]
    assert t.cycles == 170


def test_two_blocks_with_two_accumulators_hide_the_drain():
    """The second product runs under the first drain; what is left is one block's loads and product, and two drains."""
    t = blocks(2, operand_slots=2, accumulators=2)
    assert spans(t, Lane.CUBE) == [(30, 60), (60, 90)]
    assert spans(t, Lane.FIXPIPE) == [(60, 100), (100, 140)]
    assert t.cycles == 30 + 30 + 2 * 40


def test_drain_exposed_and_hidden_over_many_blocks():
    """Products of 60 and drains of 40: exposed, every block costs both; hidden, products alone, and a bubble of one drain."""
    many = 50
    assert blocks(many, 2, 1, product=60.0).cycles == 30 + many * (60 + 40)
    assert blocks(many, 2, 2, product=60.0).cycles == 30 + many * 60 + 40
    # where the drain is the longer one, the bubble is one block's loads and product
    assert blocks(many, 2, 2, product=30.0).cycles == 30 + 30 + many * 40


def test_latency_delays_data_but_not_the_lane():
    core = Core(B910)
    tiles = [core.value("mat", 4096) for _ in range(3)]
    for v in tiles:
        core.issue(Lane.MTE2, 100.0, (), (v,), latency=500.0)
    core.issue(Lane.MTE1, 10.0, (tiles[2],), (core.value("l0a", 64),))
    t = Timeline(core, ["x"])
    assert spans(t, Lane.MTE2) == [(0, 100), (100, 200), (200, 300)]
    assert spans(t, Lane.MTE1) == [(800, 810)]


def test_bytes_that_do_not_fit_wait_for_the_earliest_given_up():
    core = Core(B910, capacity={"l0a": 100})
    first, second, third = core.value("l0a", 60), core.value("l0a", 40), core.value("l0a", 30)
    core.issue(Lane.MTE1, 10.0, (), (first,))
    core.issue(Lane.MTE1, 10.0, (), (second,))
    core.issue(Lane.VEC, 50.0, (first,))  # until 60
    core.issue(Lane.CUBE, 25.0, (second,))  # until 45
    core.release(first)
    core.release(second)
    core.issue(Lane.MTE1, 10.0, (), (third,))
    t = Timeline(core, ["x"])
    assert spans(t, Lane.MTE1)[-1] == (45, 55)
    assert t.peak_bytes == {"l0a": 100}
    assert not t.overflow


def test_overflow_is_said():
    core = Core(B910, capacity={"l0a": 100})
    core.issue(Lane.MTE1, 10.0, (), (core.value("l0a", 164),))
    assert Timeline(core, ["x"]).overflow == {"l0a": 64}


def test_a_value_still_in_use_keeps_its_slot():
    core = Core(B910)
    ring = Ring(1)
    kept, other = core.value("l0a", 8, ring), core.value("l0a", 8, ring)
    core.issue(Lane.MTE1, 10.0, (), (kept,))
    core.issue(Lane.MTE1, 10.0, (), (other,))  # no schedule could wait for `kept`: it is read below
    core.issue(Lane.CUBE, 5.0, (kept, other))
    t = Timeline(core, ["x"])
    assert t.cycles == 25


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 90), st.integers(0, 3)), min_size=1, max_size=12), st.integers(1, 3))
def test_slots_are_no_more_than_are_asked_for_or_alive(values, slots):
    """Values of one ring, given up in any order: as many at once as the ring has slots, or as are still to be used."""

    def play_ring(slots):
        core, ring, kept, most = Core(B910), Ring(slots), [], 0
        for make, use, keep in values:
            v = core.value("l0c", 1, ring)
            core.issue(Lane.CUBE, float(make), (), (v,))
            kept.append((keep, float(use), v))
            most = max(most, len(kept))
            for _, use_cycles, old in [x for x in kept if x[0] == 0]:
                core.issue(Lane.FIXPIPE, use_cycles, (old,))
                core.release(old)
            kept = [(keep - 1, use_cycles, old) for keep, use_cycles, old in kept if keep]
        return Timeline(core, ["x"]), most

    t, most = play_ring(slots)
    assert t.peak_bytes["l0c"] <= max(slots, most)
    assert play_ring(slots + 1)[0].cycles <= t.cycles


def test_what_no_instruction_made_takes_its_bytes_when_it_is_read():
    """The result of an operation that is not modelled is there at once; its bytes are taken and given back like any other's."""
    core = Core(B910, capacity={"vec": 100})
    made, next_one = core.value("vec", 80), core.value("vec", 80)
    core.issue(Lane.VEC, 10.0, (made,))
    core.release(made)
    core.issue(Lane.MTE2, 5.0, (), (next_one,))
    third = core.value("vec", 80)
    core.issue(Lane.MTE2, 5.0, (), (third,))
    t = Timeline(core, ["x"])
    assert spans(t, Lane.MTE2) == [(10, 15), (15, 20)]
    assert t.overflow == {"vec": 60}  # `third` beside `next_one`, which is still to be used


def test_overwriting_waits_for_the_readers():
    """An accumulator that is drained is not accumulated into again until the drain is through; nor is a tensor."""
    core = Core(B910)
    acc, tensor = core.value("l0c", 64), Value()
    core.issue(Lane.CUBE, 10.0, (), (acc,))
    core.issue(Lane.FIXPIPE, 50.0, (acc,))
    core.issue(Lane.CUBE, 10.0, (), (acc,))
    core.issue(Lane.MTE2, 90.0, (tensor,), (core.value("mat", 64),))
    core.issue(Lane.MTE3, 5.0, (), (tensor,))
    t = Timeline(core, ["x"])
    assert spans(t, Lane.CUBE) == [(0, 10), (60, 70)]
    assert spans(t, Lane.MTE3) == [(90, 95)]
    assert t.lanes()["CUBE"].stalls == {"a slot in l0c": 50}
    assert t.lanes()["MTE3"].stalls == {"data from MTE2": 90}


def test_nothing_at_all():
    t = Timeline(Core(B910), [])
    assert (t.cycles, t.lower_bound, t.bound_by, t.critical_path(), t.lanes(), t.peak_bytes) == (0, 0, "", [], {}, {})


# -- generated streams: an oracle and laws --------------------------------------------------------------------------------

# A stream is a list of trips. In a trip, every site (buffer, lane) writes a new value; then instructions on other lanes read some
# of the trip's values and the last trip's; at the end of a trip, the values of the trip before are given up.
SITES = (("mat", Lane.MTE2), ("l0a", Lane.MTE1), ("l0b", Lane.MTE1), ("l0c", Lane.CUBE))
READERS = (Lane.CUBE, Lane.FIXPIPE, Lane.VEC)


@st.composite
def streams(draw):
    trips = []
    for _ in range(draw(st.integers(1, 7))):
        made = [(draw(st.integers(1, 40)), draw(st.integers(1, 30))) for _ in SITES]
        used = draw(st.lists(st.tuples(st.sampled_from(READERS), st.integers(1, 50), st.integers(0, 255)), max_size=4))
        trips.append((made, used))
    return trips


def operations(trips):
    """The stream as a flat list of (write, lane, cycles, site, value, bytes), (read, lane, cycles, values), (release, value)."""
    found, previous = [], []
    for number, (made, used) in enumerate(trips):
        current = []
        for site, ((_, lane), (cycles, size)) in enumerate(zip(SITES, made, strict=True)):
            value = number * len(SITES) + site
            found.append(("write", lane, float(cycles), site, value, size))
            current.append(value)
        pool = previous + current
        for lane, cycles, mask in used:
            found.append(("read", lane, float(cycles), [v for i, v in enumerate(pool) if mask >> i & 1]))
        found += [("release", v) for v in previous]
        previous = current
    return found


def play(ops, slots, capacity):
    core = Core(B910, dict.fromkeys(BUFFERS, capacity))
    rings = [Ring(slots) for _ in SITES]
    values = {}
    for op in ops:
        if op[0] == "write":
            _, lane, cycles, site, value, size = op
            values[value] = core.value(SITES[site][0], size, rings[site])
            core.issue(lane, cycles, (), (values[value],))
        elif op[0] == "read":
            core.issue(op[1], op[2], [values[v] for v in op[3]])
        else:
            core.release(values[op[1]])
    return Timeline(core, ["x"])


def oracle(ops, slots, capacity):
    """Ends of the same instructions, straight from the definition, looking back over everything at each step."""
    done = []  # (lane, end, kind, values)
    released, claimed, order = [], set(), {s: [] for s in range(len(SITES))}
    size_of, site_of, ends = {}, {}, []

    def free_from(value):
        return max(end for _, end, _, values in done if value in values)

    for op in ops:
        if op[0] == "release":
            released.append(op[1])
            continue
        lane, cycles = op[1], op[2]
        start = max([end for other, end, _, _ in done if other == lane], default=0.0)
        if op[0] == "read":
            start = max([start] + [end for _, end, kind, values in done if kind == "write" and set(values) & set(op[3])])
            touched = op[3]
        else:
            _, _, _, site, value, size = op
            size_of[value], site_of[value] = size, site
            touched = [value]
            older = order[site]
            if slots <= len(older) and older[-slots] in released:
                start = max(start, free_from(older[-slots]))
            buffer = SITES[site][0]
            here = [v for v in size_of if SITES[site_of[v]][0] == buffer and v not in claimed]
            held = sum(size_of[v] for v in here)
            for end, v in sorted((free_from(v), v) for v in here if v in released):
                if held <= capacity:
                    break
                held -= size_of[v]
                claimed.add(v)
                start = max(start, end)
            order[site].append(value)
        done.append((lane, start + cycles, op[0], touched))
        ends.append(start + cycles)
    return ends


@settings(deadline=None, max_examples=150)
@given(streams(), st.integers(2, 3), st.integers(130, 400))
def test_the_core_against_the_definition(trips, slots, capacity):
    ops = operations(trips)
    assert play(ops, slots, capacity).end.tolist() == oracle(ops, slots, capacity)


@settings(deadline=None, max_examples=100)
@given(streams(), st.integers(2, 3), st.integers(60, 200))
def test_laws(trips, slots, capacity):
    ops = operations(trips)
    t = play(ops, slots, capacity)
    assert t.cycles >= t.lower_bound
    for use in t.lanes().values():
        assert use.busy + use.stalled + use.idle == t.cycles
        assert sum(use.stalls.values()) == use.stalled
    if not t.overflow:
        assert all(peak <= capacity for peak in t.peak_bytes.values())
        assert play(ops, slots, 10 * capacity).cycles <= t.cycles  # more bytes are never slower
    assert play(ops, slots + 1, capacity * 10).cycles <= play(ops, slots, capacity * 10).cycles  # nor are more slots
    slower = [(op[0], op[1], op[2] + 3, *op[3:]) if op[0] != "release" else op for op in ops]
    assert play(slower, slots, capacity).cycles >= t.cycles
    path = t.critical_path()
    assert path[0].start == 0
    assert path[-1].end == t.cycles
    assert all(before.end == after.start for before, after in itertools.pairwise(path))


@settings(deadline=None, max_examples=50)
@given(st.permutations(range(6)), st.lists(st.integers(1, 99), min_size=6, max_size=6))
def test_permuting_independent_work_on_one_lane_keeps_the_total(order, cycles):
    def total(sequence):
        core = Core(B910)
        for i in sequence:
            core.issue(Lane.VEC, float(cycles[i]), (), (core.value("vec", 32 * i),))
        return Timeline(core, ["x"]).cycles

    assert total(order) == total(range(6)) == sum(cycles)


# -- programs --------------------------------------------------------------------------------------------------------------

KERNEL = """
import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, {params}):
{body}
"""
AB_OUT = "a: pl.Tensor[[64, 256], pl.BF16], b: pl.Tensor[[256, 64], pl.BF16], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"


def kernel(body, params=AB_OUT):
    lines = "\n".join("        " + line for line in body.strip("\n").split("\n"))
    return parse(KERNEL.format(params=params, body=lines))


K_LOOP = kernel("""
am = pl.tile.load(a, [0, 0], [64, 256], target_memory=pl.Mem.Mat)
bm = pl.tile.load(b, [0, 0], [256, 64], target_memory=pl.Mem.Mat)
seed = pl.tile.create([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
for ko, (c,) in pl.pipeline(0, 256, 64, stage=2, init_values=(seed,)):
    l = pl.tile.extract(am, 0, ko, [64, 64], target_memory=pl.Mem.Left)
    r = pl.tile.extract(bm, ko, 0, [64, 64], target_memory=pl.Mem.Right)
    c2 = pl.tile.matmul_acc(c, l, r, ko == 0)
    c3 = pl.yield_(c2)
out = pl.tile.store(c3, [0, 0], out)
return out
""")
FEED_A, FEED_B = ticks(64 * 64 * 2 / 129.7), ticks(64 * 64 * 2 / 85.4)
PRODUCT, DRAIN = 21 + 4 * 4 * 4, 164 + 64 * 4.45  # 4 x 4 fractals, 128 bytes of K; 64 rows at the floor


def test_a_k_loop_by_hand():
    """Four K blocks: MTE1 never waits (159.1 cycles a block against 85 of the cube), so the last product starts when the last
    panel is there; then the drain."""
    result = simulate(K_LOOP, "910b", residency="mat")
    assert result.cycles == 4 * (FEED_A + FEED_B) + PRODUCT + ticks(DRAIN)
    assert result.lanes["MTE1"].stalled == 0
    assert (result.bound_by, result.lower_bound) == ("MTE1", 4 * (FEED_A + FEED_B))
    assert result.peak_bytes == {"l0a": 2 * 8192, "l0b": 2 * 8192, "l0c": 64 * 64 * 4, "mat": 2 * 64 * 256 * 2}


def test_the_same_from_global_memory():
    """Both loads are 32 KiB at 40 bytes a cycle, one behind the other; B's last byte is there 500 cycles after its transfer."""
    load = ticks(64 * 256 * 2 / 40)
    result = simulate(K_LOOP, "910b")
    assert result.cycles == 2 * load + 500 + FEED_B + 3 * (FEED_A + FEED_B) + PRODUCT + ticks(DRAIN)
    assert result.lanes["MTE1"].stalls == {"data from MTE2": load + 500 + (load - FEED_A)}
    assert result.seconds == result.cycles / 1.65e9


def grid(double):
    attrs = ', attrs={"pipeline_double_buffer_c": True}' if double else ""
    return kernel(
        f"""
am = pl.tile.load(a, [0, 0], [64, 256], target_memory=pl.Mem.Mat)
bm = pl.tile.load(b, [0, 0], [256, 64], target_memory=pl.Mem.Mat)
for mo, (o,) in pl.range(0, 64, 32, init_values=(out,)):
    l = pl.tile.extract(am, mo, 0, [32, 256], target_memory=pl.Mem.Left)
    for no, (p,) in pl.pipeline(0, 64, 16, stage=2, init_values=(o,){attrs}):
        r = pl.tile.extract(bm, 0, no, [256, 16], target_memory=pl.Mem.Right)
        c = pl.tile.matmul(l, r)
        s = pl.tile.store(c, [mo, no], p)
        t = pl.yield_(s)
    u = pl.yield_(t)
return u
"""
    )


def test_a_full_k_grid_by_hand():
    """2 x 4 tiles of 32 x 16, A held. A panel takes 126.3 cycles, a B panel 95.9, a product 21 + 2*1*16 = 53, a drain
    164 + 32*4.45 = 306.4: with one accumulator every tile costs product and drain, with two the drains alone."""
    a, b, product, drain = ticks(32 * 256 * 2 / 129.7), ticks(256 * 16 * 2 / 85.4), 53, ticks(164 + 32 * 4.45)
    exposed = simulate(grid(double=False), "910b", residency="mat")
    assert exposed.cycles == a + b + 8 * (product + drain)
    hidden = simulate(grid(double=True), "910b", residency="mat")
    assert hidden.cycles == a + b + product + 8 * drain
    assert hidden.bound_by == "FIXPIPE"
    assert hidden.peak_bytes["l0c"] == 2 * 32 * 16 * 4
    assert exposed.peak_bytes["l0c"] == 32 * 16 * 4


CHAIN = kernel(
    """
am = pl.tile.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
bm = pl.tile.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
em = pl.tile.load(e, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
c = pl.tile.matmul(am, bm)
room = pl.tile.create([64, 64], dtype=pl.BF16, target_memory=pl.Mem.Mat)
cm = pl.tile.assemble(room, c, [0, 0])
d = pl.tile.matmul(cm, em)
out = pl.tile.store(d, [0, 0], out)
return out
""",
    "a: pl.Tensor[[64, 64], pl.BF16], b: pl.Tensor[[64, 64], pl.BF16], e: pl.Tensor[[64, 32], pl.BF16], "
    "out: pl.Out[pl.Tensor[[64, 32], pl.FP32]]",
)


def test_a_chain_by_hand():
    """matmul, one drain into Mat, matmul on it. The second product's right operand (half of B's size) is fed only behind its left
    one, which waits for the drain: lanes are in order."""
    result = simulate(CHAIN, "910b", residency="mat")
    feed_e, second = ticks(64 * 32 * 2 / 85.4), 21 + 4 * 2 * 4
    assert result.cycles == (FEED_A + FEED_B + PRODUCT + ticks(DRAIN)) + (FEED_A + feed_e + second + ticks(DRAIN))
    assert result.lanes["MTE1"].stalls == {"data from FIXPIPE": PRODUCT + ticks(DRAIN)}
    assert not result.notes


RAW_CHAIN = """
am = pl.tile.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
bm = pl.tile.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
c = pl.tile.matmul(am, bm)
d = pl.tile.matmul(c, bm)
o1 = pl.tile.store(d, [0, 0], out)
f = pl.tile.matmul(am, bm)
o2 = pl.tile.store(f, [0, 0], o1)
return o2
"""
FP32_SQUARES = "a: pl.Tensor[[64, 64], pl.FP32], b: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"


def test_an_accumulator_that_was_fed_gives_its_slot_to_the_product():
    """``c`` is read once, by FIXPIPE on its way to L0A, so ``d`` may have its slot, and ``f`` waits for ``d``'s drain: one
    accumulator all the way. Twice the bytes of the bf16 chain to feed, and two passes of 8 steps to multiply."""
    result = simulate(kernel(RAW_CHAIN, FP32_SQUARES), "910b", residency="mat")
    feed_a, feed_b, product, drain = ticks(64 * 64 * 4 / 129.7), ticks(64 * 64 * 4 / 85.4), 21 + 2 * 4 * 4 * 8, ticks(DRAIN)
    # feed a and b, c, drain c to L0A (b is fed meanwhile), d, drain d, f (its operands were fed long ago), drain f
    assert feed_b < product + drain
    assert feed_a + feed_b < drain + product + drain
    assert result.cycles == feed_a + feed_b + (product + drain) * 3
    assert result.peak_bytes["l0c"] == 64 * 64 * 4
    assert result.lanes["CUBE"].stalls["a slot in l0c"] == drain


def test_an_accumulator_just_as_large_as_l0c_can_be_fed():
    room = {"l0c": 64 * 64 * 4}
    assert not simulate(kernel(RAW_CHAIN, FP32_SQUARES), "910b", residency="mat", capacity=room).overflow


def test_an_accumulator_that_is_fed_and_used_later_keeps_its_slot():
    later = RAW_CHAIN.replace("store(f,", "store(c,")
    assert simulate(kernel(later, FP32_SQUARES), "910b", residency="mat").peak_bytes["l0c"] == 2 * 64 * 64 * 4
    square = simulate(kernel(RAW_CHAIN.replace("c, bm", "c, c"), FP32_SQUARES), "910b", residency="mat")  # fed twice
    assert square.peak_bytes["l0c"] == 64 * 64 * 4
    assert square.lanes["FIXPIPE"].instructions == 4


def test_an_accumulator_that_is_kept_does_not_make_room_for_others():
    """Eight products are drained one by one, each waiting for the drain before it, whether or not a ninth is kept beside them."""
    body = """
am = pl.tile.load(a, [0, 0], [64, 256], target_memory=pl.Mem.Mat)
bm = pl.tile.load(b, [0, 0], [256, 64], target_memory=pl.Mem.Mat)
l = pl.tile.extract(am, 0, 0, [64, 64], target_memory=pl.Mem.Left)
r = pl.tile.extract(bm, 0, 0, [64, 64], target_memory=pl.Mem.Right)
c = pl.tile.matmul(l, r)
for i, (o,) in pl.range(0, 8, 1, init_values=(out,)):
    d = pl.tile.matmul(l, r)
    s = pl.tile.store(d, [0, 0], o)
    t = pl.yield_(s)
z = pl.tile.store(c, [0, 0], t)
return z
"""
    kept = simulate(kernel(body), "910b", residency="mat")
    assert kept.cycles == FEED_A + FEED_B + PRODUCT + 8 * (PRODUCT + ticks(DRAIN)) + ticks(DRAIN)
    assert kept.peak_bytes["l0c"] == 2 * 64 * 64 * 4


def test_a_cast_that_is_not_folded_crosses_to_the_vector_unit_and_back():
    text = str(CHAIN)
    text = re.sub(r"^.*tile\.create.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"(\s+cm).*tile\.assemble.*", r"\1 = pl.tile.cast(c, target_type=pl.BF16)", text)
    result = simulate(parse(text), "910b", residency="mat")
    m = B910.machine
    assert result.lanes["VEC"].busy == ticks(64 * 64 * 4 / m.vec_bytes_per_cycle)
    assert result.lanes["MTE3"].busy == ticks(64 * 64 * 2 / m.acc_vec_crossing_bytes_per_cycle)
    assert result.lanes["FIXPIPE"].busy == ticks(64 * 64 * 4 / m.acc_vec_crossing_bytes_per_cycle) + ticks(DRAIN)
    assert result.cycles > simulate(CHAIN, "910b", residency="mat").cycles


def test_vector_kernel_lanes():
    program = kernel(
        """
x = pl.tile.load(a, [0, 0], [64, 256])
y = pl.tile.add(x, x)
out = pl.tile.store(y, [0, 0], out)
return out
""",
        "a: pl.Tensor[[64, 256], pl.FP32], out: pl.Out[pl.Tensor[[64, 256], pl.FP32]]",
    )
    result = simulate(program, "910b", residency="mat")  # Vec tiles are loaded in any case
    size = 64 * 256 * 4
    assert result.cycles == ticks(size / 40) + 500 + ticks(size / 256) + ticks(size / 40) + 500
    assert set(result.lanes) == {"MTE2", "VEC", "MTE3"}


def test_a_load_waits_for_the_store_before_it():
    program = kernel(
        """
x = pl.tile.load(a, [0, 0], [64, 256])
t = pl.tile.store(x, [0, 0], out)
y = pl.tile.load(t, [0, 0], [64, 256])
u = pl.tile.store(y, [0, 0], t)
return u
""",
        "a: pl.Tensor[[64, 256], pl.FP32], out: pl.Out[pl.Tensor[[64, 256], pl.FP32]]",
    )
    size = 64 * 256 * 4
    assert simulate(program, "910b").cycles == 4 * (ticks(size / 40) + 500)


def test_both_spellings_of_a_k_loop_take_the_same_time():
    branch = str(K_LOOP).replace("= pl.tile.matmul_acc(c, l, r, ko == 0)", "= pl.tile.matmul_acc(c, l, r)")
    assert simulate(parse(branch), "910b").cycles == simulate(K_LOOP, "910b").cycles
    lines = [
        "if ko == 0:",
        "    c1 = pl.tile.matmul(l, r)",
        "    c2: pl.Tile[[64, 64], pl.FP32, pl.Mem.Acc] = pl.yield_(c1)",
        "else:",
        "    c4 = pl.tile.matmul_acc(c, l, r)",
        "    c2: pl.Tile[[64, 64], pl.FP32, pl.Mem.Acc] = pl.yield_(c4)",
    ]
    text = str(K_LOOP)
    (line,) = (x for x in text.split("\n") if "matmul_acc" in x)
    indent = line[: len(line) - len(line.lstrip())]
    branch = text.replace(line, "\n".join(indent + x for x in lines))
    assert simulate(parse(branch), "910b").cycles == simulate(K_LOOP, "910b").cycles


# -- the golden programs ---------------------------------------------------------------------------------------------------


def test_every_golden_program_runs():
    """Never below the lower bound; lanes add up; operands in Mat are never slower; bytes fit where no overflow is said."""
    for row in TILED:
        program = parse(row["output"])
        far, near = (simulate(program, row["target"], residency=r) for r in ("gm", "mat"))
        assert near.cycles <= far.cycles, row["name"]
        for result in (far, near):
            assert not result.notes, row["name"]
            assert result.cycles >= result.lower_bound > 0
            for use in result.lanes.values():
                assert use.busy + use.stalled + use.idle == pytest.approx(result.cycles)
            for buffer, peak in result.peak_bytes.items():
                if buffer not in result.overflow:
                    fits = peak <= get_target(row["target"]).capacity(buffer)
                    assert fits or (buffer == "mat" and result is near), (row["name"], buffer, peak)


def decision(row, kind, extents, name):
    """The documented choice for a golden program, as a candidate."""
    m, n, k = extents
    case = {"target": row["target"], "dtype": name, "M": m, "N": n, "K": k, "operand_stationary": True}
    case["double_buffer_c"] = row["planner"] != "pypto"
    case |= {"bias": {"bias": "mat"}, "acc": {"accumulate": True}}.get(kind, {})
    found = brute_force.brute_force(case)
    if found.get("rejected"):
        return None
    code, accumulators = STATIONARITY.index(found["stationarity"]), 1 + found["double_buffer_c"]
    problem = Problem.of(m, n, k, dtype(name), bias=case.get("bias"))
    return problem, Candidates.of([(found["m"], found["n"], found["k"], code, found["os_holds_a"], accumulators)])


def test_a_schedule_runs_as_the_program_it_is_emitted_as():
    """Same instructions, same cycles as the golden program: plain, biased and accumulating products, every form there is."""
    compared = 0
    for row in TILED:
        found = re.fullmatch(r"(store|bias|acc)-(\d+)x(\d+)x(\d+)-(\w+)-\w+", row["name"])
        if found is None or "PH-AT-006" in row["diagnostics"]:
            continue
        chosen = decision(row, found[1], [int(x) for x in found.groups()[1:4]], found[5])
        if chosen is None:
            continue
        problem, candidates = chosen
        timeline = run_schedule(candidates, 0, problem, get_target(row["target"]))
        result = simulate(parse(row["output"]), row["target"], residency="mat")
        assert (timeline.cycles, len(timeline)) == (result.cycles, len(result.timeline)), row["name"]
        compared += 1
    assert compared >= 95


def test_order_of_equal_tiles_does_not_matter():
    """A 2 x 2 split-K grid of equal tiles, visited in any order."""
    text = next(r["output"] for r in TILED if r["name"] == "store-512x512x512-fp32-950" and r["planner"] == "pypto")
    cycles = simulate(parse(text), "950", residency="mat").cycles
    corners = ["[0, 0]", "[0, 256]", "[256, 0]", "[256, 256]"]
    assert all(c in text for c in corners)
    windows = {"tile.extract(lhs_mat, 256,": "tile.extract(lhs_mat, 0,", "tile.extract(lhs_mat, 0,": "tile.extract(lhs_mat, 256,"}
    swapped = re.sub("|".join(map(re.escape, windows)), lambda m: windows[m[0]], text.replace("__ssa_v0", ""))
    swapped = re.sub(r"\[(0|256), (0|256)\], (out\w*)\)", lambda m: f"[{256 - int(m[1])}, {m[2]}], {m[3]})", swapped)
    assert swapped != text
    assert simulate(parse(swapped), "950", residency="mat").cycles == cycles


def test_the_simulator_on_the_measured_pairs():
    """It errs less than the roofline, and orders every pair as the device did."""
    pairs = json.loads((Path(__file__).parent.parent / "tilesat/data/measured_tile_pairs.json").read_text())["pairs"]
    errors = {"simulator": 0.0, "roofline": 0.0}
    for pair in pairs:
        problem = Problem.of(pair["M"], pair["N"], pair["K"])
        rows = [
            (*tile, OUTPUT, bool(roofline.hoist_a(problem, B910, tile[0], tile[1])), 1) for tile in (pair["old"], pair["new"])
        ]
        candidates = Candidates.of(rows)
        old, new = simulated_cycles(candidates, problem, B910)
        assert (old > new) == (pair["device"] > 1)
        errors["simulator"] += abs(math.log(old / new / pair["device"])) / len(pairs)
        old, new = roofline.price(candidates, problem, B910).wall
        errors["roofline"] += abs(math.log(old / new / pair["device"])) / len(pairs)
    assert errors["simulator"] < 0.6 * errors["roofline"]


def test_more_room_is_never_slower_for_programs():
    for row in random.Random(3).sample(TILED, 25):
        program = parse(row["output"])
        tight = simulate(program, row["target"], residency="mat")
        wide = simulate(program, row["target"], residency="mat", capacity=dict.fromkeys(BUFFERS, 1 << 24))
        assert wide.cycles <= tight.cycles
        assert not wide.overflow


def test_a_million_instructions():
    body = """
am = pl.tile.load(a, [0, 0], [64, 256], target_memory=pl.Mem.Mat)
bm = pl.tile.load(b, [0, 0], [256, 64], target_memory=pl.Mem.Mat)
for t, (o,) in pl.range(0, 3300, 1, init_values=(out,)):
    seed = pl.tile.create([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
    for ko, (c,) in pl.pipeline(0, 1600, 16, stage=2, init_values=(seed,)):
        l = pl.tile.extract(am, 0, 0, [64, 64], target_memory=pl.Mem.Left)
        r = pl.tile.extract(bm, 0, 0, [64, 64], target_memory=pl.Mem.Right)
        c2 = pl.tile.matmul_acc(c, l, r, ko == 0)
        c3 = pl.yield_(c2)
    o2 = pl.tile.store(c3, [0, 0], o)
    o3 = pl.yield_(o2)
return o3
"""
    program = kernel(body)
    begun = time.process_time()
    result = simulate(program, "910b", residency="mat")
    assert time.process_time() - begun < 20
    assert len(result.timeline) == 3300 * 301
    assert result.lower_bound == 3300 * 100 * (FEED_A + FEED_B)


# -- exports ----------------------------------------------------------------------------------------------------------------


def test_the_trace_is_what_perfetto_reads(tmp_path):
    result = simulate(K_LOOP, "910b")
    result.write_trace(tmp_path / "trace.json")
    written = json.loads((tmp_path / "trace.json").read_text())
    assert written == result.trace()
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
    events = written["traceEvents"]
    work = [e for e in events if e["ph"] == "X"]
    assert len(work) == len(result.timeline)
    assert max(e["ts"] + e["dur"] for e in work) == result.cycles
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sum(e["dur"] for e in work if names[e["tid"]] == "CUBE") == result.lanes["CUBE"].busy
    first = next(e for e in work if names[e["tid"]] == "MTE1")
    assert first["args"]["for"] == "data from MTE2"
    held = [e["args"]["bytes"] for e in events if e["ph"] == "C" and e["name"] == "l0a bytes"]
    assert max(held) == result.peak_bytes["l0a"]
    assert held[-1] == 0


def test_a_trace_that_can_not_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="missing"):
        simulate(K_LOOP, "910b").write_trace(tmp_path / "missing" / "trace.json")
    assert not list(tmp_path.iterdir())


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    result = simulate(K_LOOP, "910b")
    for name in ("one.svg", "two.svg", "one.png"):
        result.plot(tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "FIXPIPE" in (tmp_path / "one.svg").read_text() or "<svg" in (tmp_path / "one.svg").read_text()
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(TilesatError, match=r"drawn as \.svg or \.png, not 'one\.gif'"):
        result.plot(tmp_path / "one.gif")


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TilesatError, match=r"pip install 'tilesat\[plots\]'"):
        simulate(K_LOOP, "910b").plot(tmp_path / "x.svg")


def test_the_report_says_it_all():
    result = simulate(K_LOOP, "910b")
    text = str(result)
    assert f"{result.cycles:,.0f} cycles" in text
    assert "data from MTE2" in text
    assert json.loads(json.dumps(result.as_dict()))["lanes"]["CUBE"]["instructions"] == 4


# -- refusals ----------------------------------------------------------------------------------------------------------------


def test_refusals():
    with pytest.raises(SimulationError, match="residency is 'gm' or 'mat', not 'l1'"):
        simulate(K_LOOP, "910b", residency="l1")
    with pytest.raises(TargetError, match="unknown target 'x'"):
        simulate(K_LOOP, "x")
    with pytest.raises(SimulationError, match="no function 'main'; it has kernel"):
        simulate(K_LOOP, "910b", function="main")
    with pytest.raises(TargetError, match="unknown buffer 'l1'"):
        simulate(K_LOOP, "910b", capacity={"l1": 5})
    with pytest.raises(SimulationError, match=r"l0a must be a number of bytes, not 1\.5"):
        simulate(K_LOOP, "910b", capacity={"l0a": 1.5})


DYNAMIC = kernel(
    """
for t, (o,) in pl.range(0, n * 2, 1, init_values=(out,)):
    x = pl.tile.load(a, [0, 0], [64, 256])
    o2 = pl.tile.store(x, [0, 0], o)
    o3 = pl.yield_(o2)
return o3
""",
    "a: pl.Tensor[[64, 256], pl.FP32], out: pl.Out[pl.Tensor[[64, 256], pl.FP32]], n: pl.Scalar[pl.INT64]",
)


def test_a_loop_bound_that_is_not_known():
    with pytest.raises(SimulationError, match="a loop bound depends on 'n', which is not known; give it in scalars="):
        simulate(DYNAMIC, "910b")
    assert len(simulate(DYNAMIC, "910b", scalars={"n": 3}).timeline) == 12


def test_whole_tensor_products_are_refused():
    program = kernel(
        "c = pl.tensor.matmul(a, b)\nreturn c",
        "a: pl.Tensor[[64, 64], pl.FP32], b: pl.Tensor[[64, 64], pl.FP32]",
    )
    with pytest.raises(SimulationError, match="works on whole tensors; convert the program to tiles first"):
        simulate(program, "910b")


def test_what_is_not_modelled_is_said():
    program = kernel(
        """
x = pl.tile.load(a, [0, 0], [64, 256])
y = pl.tile.frobnicate(x)
return out
""",
        "a: pl.Tensor[[64, 256], pl.FP32], out: pl.Out[pl.Tensor[[64, 256], pl.FP32]]",
    )
    assert simulate(program, "910b").notes == ("tile.frobnicate is not modelled: it was run in no time",)


def test_durations_follow_the_target():
    d = Durations(B910)
    assert d.feed(1297, "l0a") == 10
    assert d.feed(854, "l0b") == 10
    assert d.load(400) == 10
    assert d.product(32, 32, 32, dtype("fp32")) == 21 + 2 * 2 * 2 * 4
    assert d.drain(16, 80, dtype("fp32")) == ticks(164 + 16 * (4.45 + 2.6 * 4))
    for m, n, k in ((0, 32, 32), (32, 0, 32), (32, 32, 0)):
        assert d.product(m, n, k, dtype("bf16")) == 21
    assert d.drain(0, 80, dtype("fp32")) == d.drain(16, 0, dtype("fp32")) == 164
    assert Value().born


def test_a_scalar_that_the_program_has_not_is_named():
    with pytest.raises(SimulationError, match=r"'m' is no scalar parameter or dynamic dimension of kernel.* It has: n"):
        simulate(DYNAMIC, "910b", scalars={"m": 3})
