"""The engine: limits, accounting, rules that are loaded when they can fire, and rules of the user's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tilesat
from egraph_rules import language as L
from egraph_rules.catalogue import FAMILIES, rules
from egraph_rules.engine import Session, _heads, engine_for
from egraph_rules.expr import align_up, ceil_div, literal, predicate, smaller_of
from egraph_rules.report import Limits, StopReason
from egraph_rules.rule import Rule, family, rule, variables

PROBLEM = (0, 64, 64, 512, 64, 64, 512, 2, 2, 4, 1, 1, 16, 16, 16, 65536, 65536, 131072, 1 << 40, 0, 0, 1297, 854, 1, 1, 1)
FACTS = {"problem": [PROBLEM]}


def run(spec: object = "reference", limits: Limits | None = None, facts: dict | None = None, by_rule: bool = False):  # type: ignore[no-untyped-def]
    with Session(engine_for(rules(spec), 4096, by_rule), facts or FACTS) as session:  # type: ignore[arg-type]
        report = session.run(limits or Limits())
        frozen = session.freeze()
        return report, {t.name: frozen.rows(t) for t in L.TABLES}


def test_problem_columns_are_what_this_file_writes() -> None:
    assert len(PROBLEM) == len(L.problem.columns)


def test_every_rule_has_a_row_zero_rows_too() -> None:
    report, _ = run()
    names = [r.name for r in report.rules]
    assert names == [r.name for f in rules("reference").families for r in f.rules]
    assert {r.name for r in report.rules if r.matches == 0} >= {"direct_store", "a_stationary", "drained_to_mat"}
    assert next(r for r in report.rules if r.name == "k_split").matches > 0
    assert report.stop is StopReason.SATURATED


@pytest.mark.parametrize("spec", ["reference", "all", "k_split,whole"])
def test_rules_run_one_by_one_reach_the_same_and_say_what_each_added(spec: str) -> None:
    together, rows = run(spec)
    alone, rows_alone = run(spec, by_rule=True)
    assert {name: sorted(found) for name, found in rows_alone.items()} == {name: sorted(found) for name, found in rows.items()}
    assert (alone.nodes, alone.matches, alone.stop) == (together.nodes, together.matches, together.stop)
    assert all(r.nodes is None for r in together.rules)
    added = {r.name: r.nodes for r in alone.rules}
    assert alone.given + sum(added.values()) == alone.nodes
    assert alone.given < together.nodes
    assert alone.nodes == sum(map(len, rows.values()))
    # rules that make candidates have made all of them, and the classes they are in
    makes = {r.name: {h for t in r.then for h in _heads([t])} for f in rules(spec).families for r in f.rules}
    candidates = {name: heads for name, heads in makes.items() if "Cube" in heads}
    tables = set().union(*candidates.values())
    assert sum(added[name] for name in candidates) == sum(len(rows[t]) for t in tables) > len(rows["Cube"]) > 0


def test_rows_of_facts_that_come_later_are_given() -> None:
    with Session(engine_for(rules("reference"), 4096, True), FACTS) as session:
        first = session.run(Limits())
        given, nodes = first.given, first.nodes
        again = session.run(Limits())
        assert (again.given, again.nodes) == (given, nodes)
        session.add({"problem": [(7, *PROBLEM[1:])]})
        more = session.run(Limits())
        assert more.given == given + 1
        assert more.given + sum(r.nodes or 0 for r in more.rules) == more.nodes > nodes + 1


def test_limits_end_a_run_rule_by_rule() -> None:
    report, _ = run(limits=Limits(nodes=60), by_rule=True)
    assert report.stop is StopReason.NODES
    assert report.given + sum(r.nodes for r in report.rules) == report.nodes


def test_the_costliest_rules_come_first() -> None:
    report, _ = run()
    seconds = [r.seconds for r in report.costliest(3)]
    assert len(seconds) == 3
    assert seconds == sorted(seconds, reverse=True)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(nodes=1), StopReason.NODES),
        (Limits(seconds=0.0), StopReason.SECONDS),
        (Limits(iterations=0), StopReason.ITERATIONS),
    ],
)
def test_limits_end_a_run_and_say_which(limits: Limits, reason: StopReason) -> None:
    report, rows = run(limits=limits)
    assert report.stop is reason
    assert rows["Cube"] == []


def test_negative_limits_are_refused() -> None:
    with pytest.raises(tilesat.TilesatError, match="nodes = -1"):
        Limits(nodes=-1)


def test_sessions_leave_nothing_behind() -> None:
    _, alone = run()
    other = {"problem": [(7, *PROBLEM[1:])], "allows": [(7, "operand_stationary"), (7, "double_buffer_c")]}
    run(facts=other)
    _, again = run()
    assert sorted(alone["Cube"]) == sorted(again["Cube"])
    assert {row[0] for row in again["Cube"]} == {0}


def test_a_family_taken_away_does_not_fire_in_an_engine_shared_with_others() -> None:
    with_k, without_k = run("reference")[1]["Cube"], run("reference,-k_split")[1]["Cube"]
    assert {row[4] for row in with_k} > {row[4] for row in without_k}
    assert not any(row[4] == L.STREAMED for row in without_k)


def test_a_rule_of_the_users_own_fires() -> None:
    (p, m) = variables("p m")

    @predicate
    def tall(m):  # type: ignore[no-untyped-def]
        """{m} rows are at least 48"""
        return m >= 48

    @family("tall_only")
    def TALL() -> Iterator[Rule]:
        """a family of one rule, for this test"""
        yield rule("tall_k", "k = m", stage="windows", reads=[L.axis_m(p=p, m=m)], when=[tall(m)], then=[L.axis_k(p, m)])

    report, rows = run(rules("mn_grid") + TALL)
    assert {row[1] for row in rows["axis_k"]} == {48, 64}
    assert next(r for r in report.rules if r.name == "tall_k").matches == 2


# -- expressions -----------------------------------------------------------------------------------------------------------


def test_expressions_render_and_evaluate_alike() -> None:
    x, y = variables("x y")
    e = ceil_div(x + 3, y) * 2 + align_up(x, 16) - smaller_of(x, y) % 5
    env = {"x": 70, "y": 9}
    assert e.value(env) == (-(-73 // 9)) * 2 + 80 - 9 % 5
    assert e.render().count("(") == e.render().count(")")


def test_a_condition_says_its_numbers() -> None:
    @predicate
    def fits(size, room):  # type: ignore[no-untyped-def]
        """{size} bytes fit in {room}"""
        return size * 2 <= room

    (x,) = variables("x")
    condition = fits(x, literal(100))
    assert condition.explain({"x": 40}) == "40 bytes fit in 100: 80 ≤ 100"
    assert condition.explain({"x": 60}) == "60 bytes fit in 100: 120 > 100"


def test_rule_sets_compose_by_name() -> None:
    assert "free_hoist" not in rules("reference")
    assert "free_hoist" in rules("all")
    assert rules("reference,-cast_fold").names == tuple(n for n in rules("reference").names if n != "cast_fold")
    assert (rules("all") - {"mat_scratch"}).policy == "cheapest"
    assert rules("mn_grid,k_split").names == ("whole", "k_split", "mn_grid")
    with pytest.raises(tilesat.RuleSetError, match="did you mean 'k_split'"):
        rules("k_spilt")
    with pytest.raises(tilesat.RuleSetError, match="cannot be taken away"):
        rules("all,-whole")
    assert all(f.statement for f in FAMILIES.values())
