"""Exact extraction: as cheap as the best of all combinations, and never more scratch than Mat holds."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from lift_programs import Case
from tiling_checks import checked, codes, decision

import tilesat
from cost.models import cost_model
from egraph_rules.catalogue import rules
from egraph_rules.engine import Session, engine_for
from egraph_rules.problem_facts import largest_extent
from egraph_rules.report import Limits
from extraction.exact import ExactSolver
from extraction.policy import price
from extraction.snapshot import Node, Snapshot, snapshot
from extraction.solver import DEAR, Costs
from ir_bridge.lower import lower

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "tiled_programs.jsonl").read_text().splitlines()]
CHAINS = [r for r in ROWS if r["name"].startswith("chain-") and r["planner"] == "dsa_rp"]

#: Two products of 256 KiB each, both read later: Mat holds 512 KiB, and the operands take 192 KiB of it.
TWO_SCRATCHES = """
import pypto.language as pl

@pl.program
class Two:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[256, 64], pl.FP32], b: pl.Tensor[[64, 256], pl.FP32], e: pl.Tensor[[256, 64], pl.FP32],
               o1: pl.Out[pl.Tensor[[256, 64], pl.FP32]], o2: pl.Out[pl.Tensor[[256, 64], pl.FP32]]):
        x = pl.load(a, [0, 0], [256, 64], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [64, 256], target_memory=pl.Mem.Mat)
        z = pl.load(e, [0, 0], [256, 64], target_memory=pl.Mem.Mat)
        c1 = pl.matmul(x, y)
        c2 = pl.matmul(x, y)
        d1 = pl.matmul(c1, z)
        d2 = pl.matmul(c2, z)
        o1 = pl.store(d1, [0, 0], o1)
        o2 = pl.store(d2, [0, 0], o2)
        return o1, o2
"""


def saturated(program: tilesat.Program, target_name: str) -> tuple[Snapshot, Costs]:
    target = tilesat.get_target(target_name)
    rule_set = rules("all")
    lowered = lower(program, target, "dsa_rp", double_buffer_c=True)
    with Session(engine_for(rule_set, largest_extent(target, lowered.facts.problems)), lowered.facts.facts) as session:
        session.run(Limits())
        snap = snapshot(session.freeze(), lowered.facts, target, rule_set.names)
    model = cost_model("roofline")
    priced = {p: price(s, lowered.facts.problems[p], model, target) for p, s in snap.schedules.items()}
    return snap, Costs(snap, priced, {})


def cheapest_by_enumeration(snap: Snapshot, costs: Costs, solver: ExactSolver) -> float:
    """The least total over every combination of one node a class and one home an operand, shared classes counted once."""
    roots = [klass for (op, *_), klass in snap.place.items() if op == "Done"]
    keys: list[object] = list(snap.nodes)
    options: list[list[object]] = [list(snap.nodes[k]) for k in snap.nodes]
    for nodes in snap.nodes.values():
        for node in nodes:
            for i, homes in enumerate(solver.needs(node)):
                keys.append((node, i))
                options.append(list(homes))
    best = np.inf
    for picks in itertools.product(*options):
        chosen = dict(zip(map(id_of, keys), picks, strict=True))
        total, seen, stack = 0.0, set(), list(roots)
        while stack:
            klass = stack.pop()
            if klass in seen:
                continue
            seen.add(klass)
            node = chosen[klass]
            assert isinstance(node, Node)
            total += costs.of(node)
            stack.extend(chosen[id_of((node, i))] for i in range(len(solver.needs(node))))
        best = min(best, total)
    return best


def id_of(key: object) -> object:
    """A hashable stand-in for a class, or for one operand of a node."""
    return key if isinstance(key, int) else (id(key[0]), key[1])  # type: ignore[index]


@pytest.mark.parametrize("row", CHAINS[:6], ids=lambda r: r["name"])
def test_as_cheap_as_the_best_of_all_combinations(row: dict[str, str]) -> None:
    snap, costs = saturated(tilesat.parse(row["input"]), row["target"])
    solver = ExactSolver(snap, costs, ())
    total = sum(costs.of(n) for n in solver.chosen.values())
    expected = cheapest_by_enumeration(snap, costs, solver)
    assert min(total, DEAR) == pytest.approx(min(expected, DEAR))


def test_scratches_that_do_not_fit_together_are_not_chosen_together() -> None:
    program = tilesat.parse(TWO_SCRATCHES)
    for extractor in ("exact", "dag"):  # the greedy one finds out after the fact
        result = tilesat.tile(program, target="ascend950", rules="all", extractor=extractor)
        assert sorted(d.placement for d in result.decisions[:2]) != ["Mat", "Mat"]
        assert not any("mat holds" in f.message for f in tilesat.verify(result.program, "ascend950"))


def test_the_program_alone_keeps_the_capacity() -> None:
    """Without its points the same mixed-integer program takes both scratches."""
    snap, costs = saturated(tilesat.parse(TWO_SCRATCHES), "ascend950")
    assert sum(n.op == "GridScratch" for n in ExactSolver(snap, costs, ()).chosen.values()) == 2


def test_exact_results_compute_the_same() -> None:
    program = tilesat.parse(TWO_SCRATCHES)
    inputs = tilesat.random_inputs(program)
    expected = tilesat.execute(program, **inputs)
    got = tilesat.execute(tilesat.tile(program, target="ascend950", rules="all", extractor="exact").program, **inputs)
    for name, value in expected.items():
        assert np.array_equal(value, got[name])


@pytest.mark.parametrize("extractor", ["exact", "dag", "tree"])
@pytest.mark.parametrize("n", [80, 1040])
def test_the_cast_of_a_product_that_is_refused_lies_where_it_lies(n: int, extractor: str) -> None:
    """Its box makes c no product of the rules; what reads its cast from Vec is tiled, or left, all the same."""
    case = Case(49, n, 64, (49, 64, n), op="bias", place="cast")
    result = checked(case.text(), rules="all", extractor=extractor)
    assert codes(result)[0] == "PH-AT-011"
    assert decision(result, "c").form == "as_it_stands"
