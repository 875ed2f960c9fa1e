"""Plans for golden programs, made without the product's rules: tile choices by brute force, placement by a few lines of its own.

It knows what the golden programs need and no more (products in straight-line code, static shapes); the product's own path is
rules and extraction. Used to test the lift alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from brute_force import Case, brute_force_numpy

from cost.hardware import Target, get_target
from cost.physical import ceil_div
from egraph_rules.plan import ChainPlan, Form, Plan, ProductPlan, TileChoice
from ir_bridge.analysis import Facts, facts_of
from ir_bridge.drained_pipeline import DrainedPipeline, Refused, accumulators_total, read_pipeline, slot_bytes
from ir_bridge.ir.nodes import CORE_KINDS, Call, For, Function, LoopKind, Program, Var
from ir_bridge.ir.types import Space, TileType
from ir_bridge.split_k_chain import SplitKChain, split_k_chains

#: Trips from which two accumulators pay, by how a tile is drained.
MIN_TRIPS = {"tile.store": 4, "tile.assemble": 8}
LEFT_AT = {"tile.matmul": 0, "tile.matmul_acc": 1, "tile.matmul_bias": 0}


def oracle_plan(program: Program, target: str, planner: str) -> Plan:
    plan = Plan()
    pipelines: list[Var] = []
    for f in program.functions:
        if f.kind in CORE_KINDS:
            pipelines += _Planner(f, get_target(target), planner, plan).run()
    return Plan(plan.products, plan.chains, tuple(pipelines))


def choose(target: Target, planner: str, **case: Any) -> TileChoice | None:
    """The brute-force choice; None when there is no legal tile."""
    case = {"target": target.name, "double_buffer_c": planner != "pypto", "operand_stationary": True, **case}
    found = _choose_whole_n(Case(case)) if case.get("bias") == "bias" else brute_force_numpy(case)
    if "rejected" in found:
        return None
    fields = (found[x] for x in ("m", "n", "k", "stationarity", "double_buffer_c", "os_holds_a"))
    return TileChoice(*fields)


def _choose_whole_n(c: Case) -> dict[str, Any]:
    """The choice for a bias that is in Bias already: it cannot be windowed, so n = N (golden bias-resident-256x512x64)."""
    best = None
    for held, dbc in c.regimes:
        points = [p for p in c.candidates(held, dbc) if p[1] == c.N]
        if points:
            m, n, k = min(points, key=lambda p: c.key(held, dbc, *p))
            if best is None or c.wall(held, dbc, m, n, k) < c.wall(*best):
                best = (held, dbc, m, n, k)
            if (held, dbc) == c.regimes[0] and c.whole(m, n, k):
                break
        elif best is None:
            break
    return {"rejected": True} if best is None else c.answer(*best)


def _whole(t: TileChoice, M: int, N: int) -> bool:
    return t.m == M and t.n == N


def unprofitable(p: DrainedPipeline, target: Target) -> str | None:
    """Why two accumulators would not pay: too few trips, or (drained into Mat, which is cheap) too small an accumulator."""
    if p.trips < MIN_TRIPS[p.drain]:
        return f"{p.trips} trips are fewer than the {MIN_TRIPS[p.drain]} from which two accumulators pay"
    size = slot_bytes(p.accumulator, target)
    if p.drain == "tile.assemble" and size < ceil_div(target.l0c, 4):
        return f"its accumulator of {size} bytes is less than a quarter of L0C ({target.l0c} bytes)"
    return None


@dataclass(frozen=True, slots=True)
class DrainedPlan:
    """The decision on one function: ``loops`` get two accumulators (none when it is refused as a whole); ``refused`` says why not
    for the others."""

    loops: tuple[For, ...]
    refused: tuple[Refused, ...]


def plan_drained_pipelines(facts: Facts, target: Target) -> DrainedPlan:
    """All or nothing: every profitable pipeline of the function, if one more accumulator each still fits L0C."""
    found, refused = [], []
    for site in facts.sites:
        for s in site.statements:
            if type(s) is For and s.kind is LoopKind.PIPELINE:
                pipeline = read_pipeline(s, facts)
                reason = pipeline.reason if isinstance(pipeline, Refused) else unprofitable(pipeline, target)
                if reason is None and isinstance(pipeline, DrainedPipeline):
                    found.append(pipeline)
                else:
                    refused.append(Refused(str(reason), s))
    overflow = over_capacity(facts, found, target) if found else None
    if overflow is not None:
        return DrainedPlan((), (*refused, *(Refused(overflow, p.loop) for p in found)))
    return DrainedPlan(tuple([p.loop for p in found]), tuple(refused))


def over_capacity(facts: Facts, candidates: list[DrainedPipeline], target: Target) -> str | None:
    """Why one more accumulator for each candidate may not fit."""
    total = accumulators_total(facts, candidates, target)
    if isinstance(total, str):
        return total
    if total > target.l0c:
        return f"the function's accumulators may take {total} bytes with two each, L0C has {target.l0c}"
    return None


class _Planner:
    def __init__(self, f: Function, target: Target, planner: str, plan: Plan) -> None:
        self.facts: Facts = facts_of(f)
        self.target, self.planner, self.plan = target, planner, plan
        self.taken: set[Var] = set()  # products that chains have dealt with
        self.scratches: set[Var] = set()  # values that will be in Mat

    def run(self) -> list[Var]:
        for chain in split_k_chains(self.facts):
            if isinstance(chain, SplitKChain):
                self.chain(chain)
        drained = plan_drained_pipelines(self.facts, self.target).loops if self.planner == "pypto" else ()
        for _, _, s in self.facts.assigns():
            if isinstance(s.value, Call) and s.value.op in LEFT_AT and s.targets[0] not in self.taken:
                found = self.product(s.targets[0], s.value)
                if found is not None:
                    self.plan.products[s.targets[0]] = found
        return [loop.results[0] for loop in drained]

    def chain(self, c: SplitKChain) -> None:
        dtype = c.left.targets[0].type.dtype.name
        boxes = {"box_m": c.box_m, "box_n": c.box_n}
        tile = choose(
            self.target, self.planner, M=c.M, N=c.N, K=c.K, dtype=dtype, **boxes, accumulate=True, operand_stationary=False
        )
        if tile is None or _whole(tile, c.M, c.N):
            return
        inner = {}
        for rows in {min(tile.m, c.M - i) for i in range(0, c.M, tile.m)}:
            for cols in {min(tile.n, c.N - j) for j in range(0, c.N, tile.n)}:
                shape = (-(-rows // c.box_m) * c.box_m, -(-cols // c.box_n) * c.box_n)
                split = choose(self.target, self.planner, M=shape[0], N=shape[1], K=c.K, dtype=dtype, accumulate=True)
                if split is not None and _whole(split, *shape) and split.k < c.K:
                    inner[shape] = split
        self.plan.chains[c.loop.results[0]] = ChainPlan(c.loop.results[0], tile, c.box_m, c.box_n, inner)
        self.taken.update(s.targets[0] for s in c.products)

    def product(self, result: Var, call: Call) -> ProductPlan | None:
        at = LEFT_AT[call.op]
        left, right = call.args[at].type, call.args[at + 1].type
        left_space = Space.MAT if call.args[at] in self.scratches else left.space
        if left_space not in (Space.MAT, Space.VEC) or right.space is not Space.MAT:
            return None
        (M, K), N = left.shape, right.shape[1]
        bias = call.args[2].type if call.op == "tile.matmul_bias" else None
        case = {"M": M, "N": N, "K": K, "dtype": left.dtype.name, "accumulate": at == 1}
        if bias is not None:
            case["bias"] = "bias" if bias.space is Space.BIAS else "mat"
        cast = self.foldable_cast(result) if at == 0 and left_space is Space.MAT else None
        tile = choose(self.target, self.planner, **case)
        if tile is None or (tile.m, tile.n, tile.k) == (M, N, K):
            return None if cast is None else self.folded(ProductPlan(result, Form.AS_IT_STANDS, scratch=cast[1], cast=cast[0]))
        if _whole(tile, M, N) and tile.k < K:
            plan = ProductPlan(result, Form.K_LOOP, tile)
            return plan if cast is None else self.folded(ProductPlan(result, Form.K_LOOP, tile, scratch=cast[1], cast=cast[0]))
        if at == 1 or left_space is Space.VEC:
            return None
        return self.scratch_grid(result, tile, case, cast) or self.store_grid(result, tile)

    def scratch_grid(self, result: Var, tile: TileChoice, case: dict[str, Any], cast: Any) -> ProductPlan | None:
        value, element = (result, result.type.dtype.name) if cast is None else cast
        if not self.only_operand(value):
            return None
        low = element in ("bf16", "fp16")
        size = case["M"] * case["N"] * (2 if low else 4)
        if (self.target.mat_scratch_needs_low_precision and not low) or size > self.target.mat:
            return None
        if self.planner == "pypto" and tile.stationarity != "output":
            tile = choose(self.target, self.planner, **case, operand_stationary=False)
        return self.folded(ProductPlan(result, Form.GRID_SCRATCH, tile, scratch=element, cast=cast and cast[0]))

    def store_grid(self, result: Var, tile: TileChoice) -> ProductPlan | None:
        use = self.facts.only_use(result)
        if use is None or use.call is None or use.call.op != "tile.store" or len(use.call.args) != 3:
            return None
        return ProductPlan(result, Form.GRID_STORE, tile, store=use.stmt.targets[0])

    def folded(self, plan: ProductPlan) -> ProductPlan:
        self.scratches.add(plan.cast or plan.product)
        return plan

    def only_operand(self, value: Var) -> bool:
        """Is every use of the value a matrix operand of a matmul?"""
        uses = self.facts.uses_of(value)
        calls = [(u.call, u.slot) for u in uses]
        return bool(uses) and all(c is not None and c.op in LEFT_AT and 0 <= i - LEFT_AT[c.op] <= 1 for c, i in calls)

    def foldable_cast(self, result: Var) -> tuple[Var, str] | None:
        use = self.facts.only_use(result)
        if use is None or use.call is None or use.call.op != "tile.cast" or result.type.dtype.name != "fp32":
            return None
        cast = use.stmt.targets[0]
        assert isinstance(cast.type, TileType)
        mode = dict(use.call.kwargs)["mode"].value
        if mode != "rint" or cast.type.dtype.name not in ("bf16", "fp16") or not self.only_operand(cast):
            return None
        return cast, cast.type.dtype.name
