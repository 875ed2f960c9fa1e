"""`explain` and `why_not`: what a finished run can tell about one product."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from cost.errors import TilesatError, suggestion
from egraph_rules.catalogue import FAMILIES
from egraph_rules.engine import Session, engine_for
from egraph_rules.language import TABLES
from egraph_rules.problem_facts import largest_extent
from egraph_rules.rule import Rule
from extraction.explain import (
    Explanation,
    binding_limits,
    buffers_used,
    find_row,
    reason,
    rules_behind,
    runner_up,
    schedule,
)
from extraction.explain import why_not as match_rule
from ir_bridge.lower.gates import shown
from tilesat.result import WhyNot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extraction.decisions import Decision
    from tilesat.pipeline import Run


class Explainer:
    """Explanations of one run. The e-graph's rows are read again only when a rule is asked about."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def rows(self) -> Any:
        """All rows of the saturated e-graph, by table."""
        run = self.run
        extent = largest_extent(run.target, run.lowered.facts.problems)
        with Session(engine_for(run.rule_set, extent), run.lowered.facts.facts) as session:
            session.run(run.limits)
            frozen = session.freeze()
            rows = {t.name: frozen.rows(t) for t in TABLES}
        return rows.__getitem__

    # -- finding the product ---------------------------------------------------------------------------------------------------

    def product(self, name: str) -> tuple[int, Decision]:
        """The product called ``name`` (as written, or "function.name"); TilesatError lists the products there are."""
        decisions = self.run.decisions
        every = {**decisions.chains, **decisions.products}
        names = {v: shown(self.run.lowered.values[v]) for v in every}
        found = [v for v in every if name in (names[v], f"{self.run.lowered.where[v][0]}.{names[v]}")]
        if len(found) == 1:
            return found[0], every[found[0]]
        if found:
            where = ", ".join(f"{self.run.lowered.where[v][0]}.{names[v]}" for v in found)
            raise TilesatError(f"{name!r} names {len(found)} products: {where}; say which by function.name")
        known = ", ".join(dict.fromkeys(names.values())) or "none"
        raise TilesatError(f"no product is called {name!r}.{suggestion(name, names.values())} Products: {known}")

    def problem_of(self, v: int, d: Decision) -> int:
        """The problem whose schedules the decision is about."""
        if d.row is not None:
            return d.problem
        sites = self.run.lowered.facts.products
        return next((s.problem for s in sites if s.v == v), d.problem)

    # -- explaining --------------------------------------------------------------------------------------------------------------

    def explain(self, name: str, against: Sequence[int] | None = None) -> Explanation:
        v, d = self.product(name)
        problem = self.problem_of(v, d)
        hints = tuple(f"{h.code}: {h.reason}" for h in d.hints)
        row = d.row if d.row is not None else d.chosen
        priced = self.run.priced.get(problem)
        if priced is None or row is None:
            return Explanation(name, f"{name} is left as it stands", hints=hints)
        p, tile = priced.problem, priced.choice(row)
        size = f"{p.M} × {p.N} × {p.K} in {p.a}"
        verb = f"runs as {d.form.value}" if d.row is not None else "is left as it stands"
        summary = f"{name}: {size} {verb}, chosen among {len(priced.schedules)} legal schedules by {self.run.model.name}"
        schedules = [schedule("chosen", priced, row)]
        other = runner_up(priced, row)
        if other is not None:
            schedules.append(schedule("runner-up", priced, other))
        notes = []
        if against is not None:
            m, n, k = against
            named = find_row(priced, m, n, k)
            if named is None:
                notes.append(f"{m} × {n} × {k} is not legal: {self.run.why_illegal(problem, m, n, k)}")
            else:
                schedules.append(schedule("asked", priced, named))
        op = None if d.node is None else d.node.op
        made = rules_behind(self.run.rule_set.rules(), self.rows, problem, v, tile, tile.k >= p.K, op)
        return Explanation(
            name,
            summary,
            tuple(schedules),
            binding_limits(self.run.snapshot, problem, tile),
            buffers_used(self.run.snapshot, problem, tile),
            tuple((r.name, r.statement) for r in made),
            hints,
            priced.prices.unit,
            tuple(notes),
        )

    def why_not(self, rule: str, name: str) -> tuple[WhyNot, ...]:
        v, d = self.product(name)
        problem = self.problem_of(v, d)
        site = next((s for s in self.run.lowered.facts.products if s.v == v), None)
        left, right = (site.left, site.right) if site is not None else (-1, -1)
        return tuple(self.answer(r, name, problem, v, left, right) for r in self.rules_named(rule))

    def answer(self, r: Rule, name: str, problem: int, v: int, left: int, right: int) -> WhyNot:
        if r not in self.run.rule_set.rules():
            return WhyNot(r.name, r.statement, name, False, f"it is not in the rule set ({self.run.rule_set})")
        found = match_rule(r, self.rows, problem, v, left, right)
        if not found.fired:
            return WhyNot(r.name, r.statement, name, False, reason(found))
        return WhyNot(r.name, r.statement, name, True, self.after_firing(found.matches, problem))

    def after_firing(self, matches: list[dict[str, Any]], problem: int) -> str:
        """What became of a rule that fired: its best candidate against the chosen one."""
        priced = self.run.priced.get(problem)
        tiles = {(b["m"], b["n"], b.get("k", b.get("max_k", 0))) for b in matches if "m" in b and "n" in b}
        found = [] if priced is None else [find_row(priced, *t) for t in sorted(tiles)]
        rows = [row for row in found if row is not None]
        if priced is None or not rows:
            return f"it matched {len(matches)} time(s)"
        best = min(rows, key=lambda row: priced.prices.wall[row])
        t, wall = priced.choice(best), priced.prices.wall[best]
        return f"it made {len(matches)} candidate(s); with the best of their tiles, {t.m} × {t.n} × {t.k}, the wall is {wall:.1f}"

    def rules_named(self, name: str) -> list[Rule]:
        """The rules a name means: one rule, or all of a family; TilesatError suggests the nearest."""
        every = [r for f in (*FAMILIES.values(), *self.run.rule_set.families) for r in f.rules]
        families = {**FAMILIES, **{f.name: f for f in self.run.rule_set.families}}
        if name in families:
            return list(families[name].rules)
        found = [r for r in every if r.name == name]
        if found:
            return found[:1]
        known = [*families, *(r.name for r in every)]
        raise TilesatError(f"no rule or family is called {name!r}.{suggestion(name, known)} Families: {', '.join(families)}")
