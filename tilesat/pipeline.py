"""The arrows of the house in order: lower, saturate, snapshot, price, extract, lift. Each is one function of another room."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cost.errors import TilesatError, suggestion
from cost.hardware import Target, get_target
from cost.models import cost_model as find_model
from cost.physical import align_up
from cost.problem import Problem
from egraph_rules.catalogue import CHEAPEST
from egraph_rules.catalogue import rules as find_rules
from egraph_rules.engine import Session, engine_for
from egraph_rules.language import WHOLE
from egraph_rules.plan import ChainPlan, Form, Plan, ProductPlan, TileChoice
from egraph_rules.problem_facts import Copies, largest_extent, state_problem
from egraph_rules.program import ProgramFacts, Refusal
from egraph_rules.report import Limits, StopReason
from extraction.cheapest import extract_cheapest
from extraction.decisions import Decision, Decisions, Evidence
from extraction.documented import extract_documented
from extraction.exact import exact_solver
from extraction.policy import Priced, cheapest, documented, price
from extraction.reasons import no_room
from extraction.snapshot import Snapshot, snapshot
from extraction.solver import Costs, Solver, greedy_solver
from ir_bridge.convert import needs_conversion
from ir_bridge.crowding import Tenant, crowded_out
from ir_bridge.ir.nodes import Program, Var
from ir_bridge.lift import lift
from ir_bridge.lower import lower
from ir_bridge.lower.gates import shown
from ir_bridge.lower.pressure import mat_points
from ir_bridge.split_k_chain import SplitKChain
from tilesat.placing import convert
from tilesat.result import Explains, PerfHint, ProductDecision, Tiling

PLANNERS = ("pypto", "dsa_rp", "ptoas")
EXTRACTORS = ("dag", "tree", "exact")


class Run:
    """One run of :func:`tilesat.tile`, phase by phase; the phases' results stay for explanations."""

    def __init__(
        self,
        program: Program,
        target: Any,
        planner: str,
        rules: Any,
        cost_model: object,
        extractor: str,
        limits: Limits | None,
        pypto_double_buffer_c: bool,
        force: Mapping[str, tuple[int, int, int]],
        profile: bool = False,
    ) -> None:
        if planner not in PLANNERS:
            raise TilesatError(f"unknown planner {planner!r}.{suggestion(planner, PLANNERS)} Known: {', '.join(PLANNERS)}")
        if extractor not in EXTRACTORS:
            raise TilesatError(
                f"unknown extractor {extractor!r}.{suggestion(extractor, EXTRACTORS)} Known: {', '.join(EXTRACTORS)}"
            )
        self.source = program
        self.target: Target = get_target(target)
        self.planner = planner
        self.rule_set = find_rules(rules)
        self.model = find_model(cost_model)
        self.extractor = extractor
        self.limits = limits or Limits()
        self.double_buffer_c = planner != "pypto" or pypto_double_buffer_c
        self.force = {name: _tile_of(name, given) for name, given in dict(force).items()}
        self.profile = profile
        self.priced: dict[int, Priced] = {}

    def tiling(self, explainer: Callable[[], Explains]) -> Tiling:
        """Run every phase and put the result together; ``explainer`` makes what answers questions about this run."""
        clock, phases = time.perf_counter, {}
        began = clock()
        self.program = convert(self.source, self.target) if needs_conversion(self.source) else self.source
        if self.program is not self.source:
            phases["convert"] = clock() - began
            began = clock()
        self.lowered = lower(self.program, self.target, self.planner, double_buffer_c=self.double_buffer_c)
        phases["lower"] = clock() - began
        extent = largest_extent(self.target, self.lowered.facts.problems)
        with Session(engine_for(self.rule_set, extent, self.profile), self.lowered.facts.facts) as session:
            report = session.run(self.limits)
            self.stopped = None if report.stop is StopReason.SATURATED else report.stop.value
            began = clock()
            self.snapshot = snapshot(session.freeze(), self.lowered.facts, self.target, self.rule_set.names)
            report.classes = self.snapshot.class_count
            self.decisions = self.extract()
            phases["extract"] = clock() - began
            inner = self.inner_tiles(session)
            began = clock()
            tiled = lift(self.program, self.plan(inner))
            phases["lift"] = clock() - began
            began = clock()
            tiled = self.with_room(tiled, session)
            phases["room"] = clock() - began
        report.phases.update(phases)
        return Tiling(self.source, self.program, tiled, self.described(), self.hints(), report, explainer)

    # -- extract -----------------------------------------------------------------------------------------------------------

    def extract(self) -> Decisions:
        problems = self.lowered.facts.problems
        self.priced = {p: price(s, problems[p], self.model, self.target) for p, s in self.snapshot.schedules.items()}
        evidence = Evidence(self.snapshot, self.priced, self.forced(), self.lowered.chain_refusals, self.stopped)
        if self.rule_set.policy == CHEAPEST:
            return extract_cheapest(evidence, self.solver())
        return extract_documented(evidence)

    def solver(self) -> Callable[[Snapshot, Costs], Solver]:
        if self.extractor == "exact":
            return exact_solver(mat_points(self.program, self.lowered, self.target))
        return greedy_solver(self.extractor)

    def forced(self) -> dict[int, int]:
        """The schedule rows that the user's forced tiles mean, by product."""
        rows: dict[int, int] = {}
        missing = set(self.force)
        facts = self.lowered.facts
        sites = [*((s.v, s.problem) for s in facts.products), *((c.v, c.problem) for c in facts.chains)]
        for v, problem in sites:
            name = shown(self.lowered.values[v])
            if name in self.force:
                missing.discard(name)
                rows[v] = self.forced_row(name, problem)
        if missing:
            known = list(dict.fromkeys(shown(self.lowered.values[v]) for v, _ in sites))
            hints = "".join(suggestion(name, known) for name in sorted(missing))
            none = "is no product" if len(missing) == 1 else "are no products"
            names = ", ".join(map(repr, sorted(missing)))
            raise TilesatError(f"force names {names}, which {none}.{hints} Products: {', '.join(known) or 'none'}")
        return rows

    def forced_row(self, name: str, problem: int) -> int:
        m, n, k = self.force[name]
        priced = self.priced.get(problem)
        best = None if priced is None else priced.with_tile(m, n, k)
        if best is not None:
            return best
        raise TilesatError(f"the tile {m} × {n} × {k} forced on {name!r} is not legal: {self.why_illegal(problem, m, n, k)}")

    def why_illegal(self, problem: int, m: int, n: int, k: int) -> str:
        from extraction.legality import why_illegal

        return why_illegal(self.lowered.facts, problem, m, n, k)

    # -- room in Mat -------------------------------------------------------------------------------------------------------

    def with_room(self, tiled: Program, session: Session) -> Program:
        """The tiled program, once more without what Mat has no room for; usually as it is."""
        left: frozenset[int] = frozenset()
        while True:
            crowded = crowded_out(self.program, tiled, self.target, self.tenants()) - left
            if not crowded:
                return tiled
            left |= crowded
            self.snapshot = self.snapshot.without_mat(crowded)
            self.decisions = self.extract()
            for v in left:
                self.decisions.products[v].hints = [no_room(self.snapshot)]
            tiled = lift(self.program, self.plan(self.inner_tiles(session)))

    def tenants(self) -> Iterator[Tenant]:
        """The products whose tiling keeps more in Mat, or keeps it longer."""
        values = self.lowered.values
        for s in self.lowered.facts.products:
            d = self.decisions.products.get(s.v)
            if d is None:
                continue
            staged = d.node is not None and self.snapshot.stages(d.node)
            later = d.form is Form.GRID_STORE and s.waits
            if d.scratch is not None or later or staged:
                yield Tenant(s.v, *self.lowered.where[s.v], (values[s.left], values[s.right]), later)

    # -- chains: the narrowed calls inside a cut chain are products of their own ---------------------------------------------

    def inner_tiles(self, session: Session) -> dict[int, dict[tuple[int, int], TileChoice]]:
        """The K-tiling of every window's call of every cut chain: its problems are stated and saturated in turn."""
        if not self.decisions.chains:
            return {}
        more = ProgramFacts(problems=self.lowered.facts.problems)
        wanted: dict[int, dict[tuple[int, int], int]] = {}
        known: dict[tuple[Problem, Copies], int] = {}
        for v, decision in self.decisions.chains.items():
            chain, outer = self.lowered.chains[v], self.choice(decision)
            windows = wanted[v] = {}
            copies = Copies(panels=chain.loop.stage or 1)  # a window's call stands in the author's loop
            for rows, cols in chain_windows(chain, outer):
                p = Problem(rows, cols, chain.K, *self.chain_types(decision), accumulate=True)
                if (p, copies) not in known:
                    known[p, copies] = state_problem(
                        more, p, self.target, operand_stationary=True, double_buffer_c=self.double_buffer_c, copies=copies
                    )
                windows[rows, cols] = known[p, copies]
        session.add(more.facts)
        stop = session.run(self.limits).stop
        stopped = None if stop is StopReason.SATURATED else stop.value
        again = snapshot(session.freeze(), self.lowered.facts, self.target, self.rule_set.names)
        return {v: self.inner_choices(v, windows, again, stopped) for v, windows in wanted.items()}

    def chain_types(self, decision: Decision) -> tuple[Any, Any, Any]:
        p = self.lowered.facts.problems[decision.problem]
        return p.a, p.b, p.c

    def inner_choices(
        self, v: int, windows: dict[tuple[int, int], int], snap: Snapshot, stopped: str | None
    ) -> dict[tuple[int, int], TileChoice]:
        chosen: dict[tuple[int, int], TileChoice] = {}
        hints = self.decisions.chains[v].hints
        for window, problem in windows.items():
            schedules = snap.schedules.get(problem)
            if schedules is None:
                hints.append(untiled_window(window, stopped))
                continue
            priced = self.priced[problem] = price(schedules, self.lowered.facts.problems[problem], self.model, self.target)
            row = cheapest(priced, WHOLE) if self.rule_set.policy == CHEAPEST else documented(priced)
            if row is None or priced.is_whole_problem(row):
                continue
            if schedules.scope[row] == WHOLE:
                chosen[window] = priced.choice(row)
            else:
                text = f"a {window[0]} × {window[1]} window of the chain must be cut again, but the caller owns its accumulator"
                hints.append(Refusal("PH-AT-006", text))
        return chosen

    # -- plan --------------------------------------------------------------------------------------------------------------

    def choice(self, decision: Decision) -> TileChoice:
        assert decision.row is not None
        return self.priced[decision.problem].choice(decision.row)

    def value(self, v: int) -> Var | None:
        return self.lowered.values[v] if v >= 0 else None

    def plan(self, inner: dict[int, dict[tuple[int, int], TileChoice]]) -> Plan:
        """The decisions as the plan that lift takes."""
        products: dict[Any, ProductPlan] = {}
        for v, d in self.decisions.products.items():
            if d.form is Form.AS_IT_STANDS and d.cast < 0:
                continue
            var = self.lowered.values[v]
            tile = None if d.row is None else self.choice(d)
            products[var] = ProductPlan(var, d.form, tile, self.value(d.store), d.scratch, self.value(d.cast))
        chains: dict[Any, ChainPlan] = {}
        for v, d in self.decisions.chains.items():
            var, chain = self.lowered.values[v], self.lowered.chains[v]
            chains[var] = ChainPlan(var, self.choice(d), chain.box_m, chain.box_n, inner.get(v, {}))
        return Plan(products, chains, tuple(self.lowered.values[v] for v in self.decisions.pipelines))

    # -- telling -------------------------------------------------------------------------------------------------------------

    def hints(self) -> tuple[PerfHint, ...]:
        """Diagnostics in the order the documented pass visits statements: chains first."""
        found: list[PerfHint] = []
        ops = {s.v: s.op for s in self.lowered.facts.products}
        for v, d in (*self.decisions.chains.items(), *self.decisions.products.items()):
            for hint in d.hints:
                found.append(PerfHint(hint.code, hint.reason, self.where(v), ops.get(v, "matmul_acc")))
        return tuple(found)

    def where(self, v: int) -> str:
        function, loc = self.lowered.where[v]
        return f"{shown(self.lowered.values[v])} in {function}, {loc}"

    def described(self) -> tuple[ProductDecision, ...]:
        sites = {s.v: (s.op, s.problem) for s in self.lowered.facts.products}
        decisions = (*self.decisions.chains.items(), *self.decisions.products.items())
        return tuple([self.describe(v, d, *sites.get(v, ("split_k_chain", d.problem))) for v, d in decisions])

    def describe(self, v: int, d: Decision, op: str, own: int) -> ProductDecision:
        """One decision in words and numbers; ``own`` is the problem of the product itself."""
        M, N, K, dtype = self.lowered.extents[v]
        function, loc = self.lowered.where[v]
        tile = None if d.row is None else self.choice(d)
        priced = self.priced.get(own if d.row is None else d.problem)
        stands = d.chosen if d.row is None and not d.hints else None  # already the size of L0: its wall counts
        row = d.row if d.row is not None else stands
        return ProductDecision(
            name=shown(self.lowered.values[v]),
            function=function,
            op=op,
            where=str(loc),
            M=M,
            N=N,
            K=K,
            dtype=dtype,
            form=d.form.value,
            placement=PLACED[d.form] if d.cast < 0 else f"Mat ({d.scratch}, cast folded)",
            m=None if tile is None else tile.m,
            n=None if tile is None else tile.n,
            k=None if tile is None else tile.k,
            stationarity=None if tile is None else tile.stationarity,
            double_buffer_c=None if tile is None else tile.double_buffer_c,
            wall_cycles=None if row is None or priced is None else int(priced.prices.wall_rounded[row]),
            breakdown={} if row is None or priced is None else priced.prices.terms(row),
            candidates=0 if priced is None else len(priced.schedules),
            unit="cycles" if priced is None else priced.prices.unit,
        )


def untiled_window(window: tuple[int, int], stopped: str | None) -> Refusal:
    """Why the call of a chain's window is left whole: nothing is legal for it, or a limit ended the run first."""
    what = f"{window[0]} × {window[1]} window of the chain"
    if stopped is not None:
        return Refusal("PH-AT-008", f"the {stopped} ended the run before a tile for a {what} was found; raise the limit")
    return Refusal("PH-AT-005", f"no tile of a {what} fits L0 under these rules")


def _tile_of(name: str, given: object) -> tuple[int, int, int]:
    """A forced tile, checked to be three positive whole numbers."""
    if isinstance(given, (tuple, list)) and len(given) == 3 and all(type(x) is int and x > 0 for x in given):
        return given[0], given[1], given[2]
    raise TilesatError(f"the tile forced on {name!r} is {given!r}; give three whole numbers above 0: (m, n, k)")


#: Where a form puts its result.
PLACED = {Form.AS_IT_STANDS: "as written", Form.K_LOOP: "Acc", Form.GRID_STORE: "GM", Form.GRID_SCRATCH: "Mat"}


def chain_windows(chain: SplitKChain, outer: TileChoice) -> list[tuple[int, int]]:
    """Physical (rows, columns) of a cut chain's windows, each once: whole ones and the boundary's, boxed."""
    rows = sorted({min(outer.m, chain.M - i) for i in range(0, chain.M, outer.m)}, reverse=True)
    cols = sorted({min(outer.n, chain.N - j) for j in range(0, chain.N, outer.n)}, reverse=True)
    boxed = [(align_up(r, chain.box_m), align_up(c, chain.box_n)) for r in rows for c in cols]
    return list(dict.fromkeys(boxed))
