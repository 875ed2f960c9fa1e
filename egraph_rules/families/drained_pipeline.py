"""Drained pipelines: a user-written L0 pipeline of one matmul and one drain gets two accumulators.

    pipeline(matmul, drain)  =  pipeline(matmul, drain) with accumulators taking turns

Only where it pays (enough trips; for the cheap drain into Mat also an accumulator of a quarter of L0C) and only if every
such loop of the function still fits L0C together (specification 1, "识别已有的 L0 流水线"). Planner `pypto` only: the others
have taken the copies apart already.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.expr import Comparison, Condition, Int, Integer, literal, predicate
from egraph_rules.language import Loop, TwoAccumulators, drained, drained_total, planner, target
from egraph_rules.rule import Rule, family, rule, union, variables

loop, trips, slot_bytes, total, l0c = variables("loop trips slot_bytes total l0c")

#: Trips from which a drain pays for its second slot, by where it drains to.
LEAST_TRIPS = {"store": 4, "assemble": 8}


@predicate
def enough_trips(trips: Integer, least: Integer) -> Comparison:
    """the loop runs {trips} times, and {least} are needed for the second accumulator to pay"""
    return trips >= least


@predicate
def large_accumulator(slot_bytes: Integer, l0c: Integer) -> Comparison:
    """an accumulator of {slot_bytes} bytes is at least a quarter of L0C's {l0c}"""
    return slot_bytes * 4 >= l0c


@predicate
def all_slots_fit(total: Integer, l0c: Integer) -> Comparison:
    """every accumulator of the function, and a second slot for each such loop, fit L0C"""
    return total <= l0c


def pays(drain: str, trips: Int, slot_bytes: Int, l0c: Int) -> list[Condition]:
    """When a second slot pays for a loop of so many trips, drained by "store" or "assemble"; an assemble into Mat is cheap."""
    enough = enough_trips(trips, literal(LEAST_TRIPS[drain]))
    return [enough, large_accumulator(slot_bytes, l0c)] if drain == "assemble" else [enough]


@family("drained_pipeline")
def DRAINED_PIPELINE() -> Iterator[Rule]:
    """pipeline(matmul, drain) = the same with two accumulators: overlap a user-written drain."""
    common = [planner("pypto"), drained_total(loop, total), target(l0c=l0c)]
    yield rule(
        "drained_to_memory",
        "pipeline(matmul, store) = matmul(i + 1) ∥ store(i)",
        stage="placements",
        reads=[drained(loop, trips, slot_bytes, "store"), *common],
        when=[*pays("store", trips, slot_bytes, l0c), all_slots_fit(total, l0c)],
        then=[union(Loop(loop), TwoAccumulators(loop))],
    )
    yield rule(
        "drained_to_mat",
        "pipeline(matmul, assemble) = matmul(i + 1) ∥ assemble(i)",
        stage="placements",
        reads=[drained(loop, trips, slot_bytes, "assemble"), *common],
        when=[*pays("assemble", trips, slot_bytes, l0c), all_slots_fit(total, l0c)],
        then=[union(Loop(loop), TwoAccumulators(loop))],
    )
