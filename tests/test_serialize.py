"""Snapshots as egraph-serialize JSON and back, against an extractor written from the format alone; and as pictures."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tilesat
from cost.models import cost_model
from extraction.draw import layers_of, places_of, to_dot, to_svg
from extraction.fold import Box, Line, fold
from extraction.policy import price
from extraction.serialize import SerializeError, from_egraph_json, roots, to_egraph_json
from extraction.solver import DEAR, Costs, Solver
from ir_bridge.lower.gates import shown
from tilesat import corpus
from tilesat.explain import Explainer
from tilesat.pipeline import Run

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = corpus.suite("smoke").entries
CHAIN = tilesat.load(ROOT / "examples" / "chain.py")


def finished(program, target="910B", rules="all", model="roofline"):
    run = Run(program, target, "dsa_rp", rules, model, "dag", None, False, {})
    run.tiling(partial(Explainer, run))
    return run


def exported(run):
    """What a reader of the file sees."""
    return json.loads(json.dumps(to_egraph_json(run.snapshot, run.priced)))


def cheapest_by_class(data):
    """The tree cost of every class, by the format's rules alone: node costs plus the cheapest of each child's class."""
    members = {}
    for node in data["nodes"].values():
        members.setdefault(node["eclass"], []).append(node)
    best = dict.fromkeys(members, math.inf)
    changed = True
    while changed:
        changed = False
        for klass, nodes in members.items():
            for n in nodes:
                total = n["cost"] + sum(best[data["nodes"][c]["eclass"]] for c in n["children"])
                if total < best[klass] - 1e-9:
                    best[klass], changed = total, True
    return best


# -- the format ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_the_file_holds_together(entry):
    data = exported(finished(entry.program()))
    nodes = data["nodes"]
    classes = {n["eclass"] for n in nodes.values()}
    for n in nodes.values():
        assert n.keys() >= {"op", "children", "eclass", "cost", "subsumed"}
        assert all(c in nodes for c in n["children"])
        assert math.isfinite(n["cost"])
        assert n["cost"] >= 0
    assert data["root_eclasses"]
    assert set(data["root_eclasses"]) <= classes
    assert set(data["class_data"]) == classes
    assert {d["type"] for d in data["class_data"].values()} <= {"Place", "ScheduleClass", "i64", "String"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
@pytest.mark.parametrize("model", ["roofline", "traffic"])
def test_another_extractor_finds_our_costs(entry, model):
    run = finished(entry.program(), model=model)
    best = cheapest_by_class(exported(run))
    solver = Solver(run.snapshot, Costs(run.snapshot, run.priced, {}), "tree")
    for klass in run.snapshot.nodes:
        ours = solver.cost(klass)
        if ours < DEAR:
            assert best[f"place-{klass}"] == pytest.approx(ours)
        else:
            assert best[f"place-{klass}"] >= DEAR


def test_every_schedule_is_a_node_with_its_wall():
    run = finished(CHAIN)
    data = exported(run)
    for problem, schedules in run.snapshot.schedules.items():
        cubes = [n for name, n in data["nodes"].items() if name.startswith(f"cube-{problem}-")]
        assert len(cubes) == len(schedules)
        assert [c["wall"] for c in cubes] == run.priced[problem].prices.wall.tolist()
        for klass in {c["eclass"] for c in cubes}:
            assert min(c["cost"] for c in cubes if c["eclass"] == klass) == 0  # dearer than the best by as much


def test_roots_are_what_the_program_is_for():
    run = finished(CHAIN)
    (root,) = roots(run.snapshot)
    (store,) = (k for k in run.snapshot.place if k[0] == "Done")
    assert run.snapshot.place[store] == root


# -- back ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_there_and_back(entry):
    run = finished(entry.program())
    read = from_egraph_json(exported(run))
    ours = run.snapshot
    assert read.roots == tuple(roots(ours))
    assert read.snapshot.place == ours.place
    assert read.snapshot.nodes == ours.nodes
    assert read.snapshot.target == ours.target
    assert read.snapshot.families == ours.families
    assert read.snapshot.program.problems == ours.program.problems
    assert read.snapshot.schedules.keys() == ours.schedules.keys()
    for p, schedules in ours.schedules.items():
        for column in ("m", "n", "k", "stationarity", "holds_a", "dbc"):
            mine, theirs = getattr(schedules.candidates, column), getattr(read.snapshot.schedules[p].candidates, column)
            assert (mine == theirs).all()
        assert (read.snapshot.schedules[p].scope == schedules.scope).all()
        assert np.array_equal(read.walls[p], run.priced[p].prices.wall)


def test_what_was_read_can_be_priced_again():
    run = finished(CHAIN)
    read = from_egraph_json(exported(run)).snapshot
    for name in ("roofline-tails", "traffic"):
        for p, problem in enumerate(read.program.problems):
            if p in read.schedules:
                here = price(read.schedules[p], problem, cost_model(name), read.target)
                there = price(run.snapshot.schedules[p], problem, cost_model(name), run.target)
                assert here.choice(int(here.ranked()[0])) == there.choice(int(there.ranked()[0]))


def test_json_of_another_origin():
    with pytest.raises(SerializeError, match="no snapshot of tilesat"):
        from_egraph_json({"nodes": {}, "root_eclasses": []})
    with pytest.raises(SerializeError, match="no snapshot of tilesat"):
        from_egraph_json([])
    data = exported(finished(CHAIN))
    with pytest.raises(SerializeError, match=r"schema is 'tilesat\.egraph/9'"):
        from_egraph_json({**data, "tilesat": {**data["tilesat"], "schema": "tilesat.egraph/9"}})
    some = next(n for n in data["nodes"].values() if n["op"] == "KLoop")
    some["children"] = some["children"][:2]
    with pytest.raises(SerializeError, match="does not hold together"):
        from_egraph_json(data)


# -- pictures ------------------------------------------------------------------------------------------------------------


def folded(run):
    decisions = (*run.decisions.chains.values(), *run.decisions.products.values())
    taken = [d.node for d in decisions if d.node is not None]
    rows = {d.problem: d.row for d in decisions if d.row is not None}
    return fold(run.snapshot, run.priced, taken, rows, lambda v: shown(run.lowered.values[v]))


def test_schedules_of_a_class_are_one_box():
    run = finished(CHAIN)
    boxes = folded(run)
    counted = [b for b in boxes if b.schedules]
    used = {n.schedule for n in run.snapshot.all_nodes() if n.schedule is not None}
    with_any = {s for s in used if (run.snapshot.schedules[s[0]].scope == s[1]).any()}
    assert len(counted) == len(with_any)
    sizes = sorted(int(b.lines[0].text.split()[0].replace(",", "")) for b in counted)
    assert sizes == sorted(int((run.snapshot.schedules[p].scope == s).sum()) for p, s in with_any)
    assert {b.title for b in boxes} >= {"In c_bf16 in Mat", "Done out_1"}
    taken = [line.text for b in boxes for line in b.lines if line.taken]
    assert any("GridScratch" in t for t in taken)
    assert any("GridStore" in t for t in taken)
    assert len(taken) == 4  # two products, and the schedule of each


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_boxes_do_not_overlap_and_lie_below_their_users(entry):
    boxes = folded(finished(entry.program()))
    places = places_of(boxes)
    assert places.keys() == {b.name for b in boxes}
    for a, (x, y, w, h) in places.items():
        for b, (p, q, v, g) in places.items():
            assert a == b or x + w <= p or p + v <= x or y + h <= q or q + g <= y
    for b in boxes:
        for line in b.lines:
            for child in line.needs:
                assert places[child][1] > places[b.name][1]


def test_svg_is_well_formed_and_has_every_box_and_edge():
    boxes = folded(finished(CHAIN))
    tree = ET.fromstring(to_svg(boxes, "a < b & c"))
    space = "{http://www.w3.org/2000/svg}"
    texts = [t.text for t in tree.iter(f"{space}text")]
    for b in boxes:
        assert b.title in texts
        assert all(line.text in texts for line in b.lines)
    assert len(list(tree.iter(f"{space}path"))) == sum(len(line.needs) for b in boxes for line in b.lines)
    assert tree.find(f"{space}title").text == "a < b & c"


def test_dot_escapes_what_its_records_would_read():
    boxes = (Box("c0", "a|b {c} <d>", (Line('x "y"', True, ("c1",)),)), Box("c1", "end", ()))
    text = to_dot(boxes)
    assert r'label="{<t> a\|b \{c\} \<d\>|<n0> x \"y\"}"' in text
    assert re.search(r'c0:n0 -> c1:t \[color="#c0392b"', text)
    assert text.count("->") == 1


def test_a_cycle_is_cut_where_it_closes():
    boxes = (Box("a", "a", (Line("1", False, ("b",)),)), Box("b", "b", (Line("2", False, ("c", "a")),)), Box("c", "c", ()))
    assert layers_of(boxes) == [["a"], ["b"], ["c"]]
    assert layers_of(()) == []
    ET.fromstring(to_svg(()))
