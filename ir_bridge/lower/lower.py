"""Lowering: the program's products, chains and drained pipelines as facts of the e-graph language.

One walk over each core function. Only what belongs to a product is stated: its operands, its one store or cast, and the
relations rules ask about (uses, slots, order). Everything else stays out of the e-graph and is emitted as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cost.hardware import Target
from cost.physical import accumulator_bytes, box
from cost.problem import Problem
from egraph_rules import language as L
from egraph_rules.families.cast_fold import FOLDABLE, FOLDING, ROUNDING
from egraph_rules.families.drained_pipeline import pays
from egraph_rules.problem_facts import ONCE, Copies, state_problem
from egraph_rules.program import NO_VALUE, ChainSite, ProductSite, ProgramFacts, Refusal
from ir_bridge.analysis import INSIDE, Facts, Origin, Site, Use, facts_of, may_share_memory
from ir_bridge.drained_pipeline import DrainedPipeline, accumulators_total, read_pipeline, slot_bytes
from ir_bridge.ir.nodes import (
    CORE_KINDS,
    Assign,
    Block,
    Call,
    Const,
    For,
    ListExpr,
    Loc,
    LoopKind,
    Program,
    Stmt,
    Symbol,
    Var,
    walk,
)
from ir_bridge.ir.types import Space, TileType
from ir_bridge.lower.disturbance import disturbance
from ir_bridge.lower.gates import (
    LEFT_OPERAND,
    Operands,
    bias_is_row,
    check_placed_by_hand,
    read_operands,
    refusal,
)
from ir_bridge.split_k_chain import ChainRefusal, SplitKChain, is_window, split_k_chains


@dataclass(slots=True)
class Lowered:
    """A lowered program.

    ``facts`` is what the e-graph knows; ``values`` the variable behind each SSA number. By the number of a product (or of a
    chain's loop): ``where`` is its function and place, ``extents`` its M, N, K and operand type; ``chains`` the recognised chain;
    ``chain_refusals`` why what looks like a chain is none.
    """

    facts: ProgramFacts = field(default_factory=ProgramFacts)
    values: list[Var] = field(default_factory=list)
    where: dict[int, tuple[str, Loc]] = field(default_factory=dict)
    chains: dict[int, SplitKChain] = field(default_factory=dict)
    chain_refusals: dict[int, str] = field(default_factory=dict)
    extents: dict[int, tuple[int, int, int, str]] = field(default_factory=dict)


def lower(program: Program, target: Target, planner: str, *, double_buffer_c: bool) -> Lowered:
    """State ``program`` for ``target``; ``double_buffer_c`` opens two accumulators for chosen grids.

    Raises :class:`~ir_bridge.lower.gates.PlacementError` for an operand placed in L0 by hand that cannot fit.
    """
    lowered = Lowered()
    lowering = _Lowering(lowered, target, double_buffer_c)
    lowering.state_target(planner)
    for f in program.functions:
        if f.kind in CORE_KINDS:
            lowering.function(facts_of(f), planner)
    return lowered


class _Lowering:
    def __init__(self, lowered: Lowered, target: Target, double_buffer_c: bool) -> None:
        self.lowered = lowered
        self.out = lowered.facts
        self.target = target
        self.double_buffer_c = double_buffer_c
        self.output_only = False
        self.numbers: dict[Var, int] = {}
        self.problems: dict[tuple[Problem, bool, Copies], int] = {}
        self.scratches: set[int] = set()
        self.loads: dict[object, int] = {}
        self.stated: set[int] = set()
        self.products: set[Var] = set()

    def state_target(self, planner: str) -> None:
        t = self.target
        self.out.state(L.target, t.l0c, t.mat, int(t.mat_scratch_needs_low_precision))
        self.out.state(L.planner, planner)
        self.out.state_all(L.scratch_type, [("bf16", 2, 1), ("fp16", 2, 1), ("fp32", 4, 0), ("int32", 4, 0)])
        self.output_only = planner == "pypto"

    # -- one function ----------------------------------------------------------------------------------------------------

    def function(self, facts: Facts, planner: str) -> None:
        name = facts.function.name
        for found in split_k_chains(facts):
            if isinstance(found, ChainRefusal) or not (is_window(found, facts) and self.fits(found)):
                self.chain(found, name)
        if planner == "pypto":
            self.drained(facts)
        for s in walk(facts.function.body):
            if type(s) is Assign and type(s.value) is Call and s.value.op in LEFT_OPERAND and s.targets:
                made = facts.definitions[s.targets[0]]
                self.product(s, s.value, made.site, made.position, facts, name)

    def number(self, v: Var) -> int:
        found = self.numbers.get(v)
        if found is None:
            found = self.numbers[v] = len(self.lowered.values)
            self.lowered.values.append(v)
        return found

    # -- products --------------------------------------------------------------------------------------------------------

    def product(self, s: Assign, call: Call, site: Site, position: int, facts: Facts, function: str) -> None:
        ops = read_operands(s, call)
        if ops is None:
            return
        check_placed_by_hand(call, ops, self.target, s.loc)
        if not bias_is_row(ops):
            return
        v = self.number(ops.result)
        self.lowered.where[v] = (function, s.loc)
        self.lowered.extents[v] = (*ops.extents, ops.left_type.dtype.name)
        op = call.op[len("tile.") :]
        refused = refusal(ops, self.target)
        problem = NO_VALUE if refused is not None and refused.code != "PH-AT-007" else self.problem(ops, op == "matmul_acc", site)
        if problem != NO_VALUE:
            self.products.add(ops.result)
        left, right = self.operand(ops.left, facts), self.operand(ops.right, facts)
        record = ProductSite(v, op, left, right, problem, refusal=refused, one_window=self.one_window(ops))
        if problem != NO_VALUE:
            self.out.state(L.product, v, problem, left, right, op, ops.result_type.dtype.name)
        self.uses(record, ops, site, position, facts)
        if ops.bias is not None:
            self.bias(record, ops.bias, site, position, facts)
        self.out.products.append(record)

    def one_window(self, ops: Operands) -> bool:
        """Would the whole output be one accumulator that fits L0C, of whole fractals?"""
        m, n, _ = ops.extents
        fits = accumulator_bytes(self.target, m, n, ops.result_type.dtype) <= self.target.l0c
        return fits and m % L.FRACTAL == 0 and n % L.FRACTAL == 0

    def problem(self, ops: Operands, accumulate: bool, site: Site) -> int:
        m, n, k = ops.extents
        bias = None if ops.bias is None else "bias" if _space(ops.bias) is Space.BIAS else "mat"
        p = Problem(m, n, k, ops.left_type.dtype, ops.right_type.dtype, ops.result_type.dtype, accumulate, bias)
        stages = _stages(site)
        blocks = 1 if accumulate else stages  # a caller's accumulator is never cut into blocks
        copies = Copies(_copies_in_flight(site) if bias == "mat" else 1, stages, blocks)
        index = self.stated_problem(p, operand_stationary=True, copies=copies)
        if index not in self.scratches:
            self.scratches.add(index)
            pinned = not self.output_only
            q = self.stated_problem(p, operand_stationary=pinned, copies=copies._replace(single=stages))
            self.out.state(L.as_scratch if pinned else L.output_only, index, q)
        return index

    def stated_problem(self, p: Problem, *, operand_stationary: bool, copies: Copies = ONCE) -> int:
        key = (p, operand_stationary, copies)
        found = self.problems.get(key)
        if found is None:
            found = self.problems[key] = state_problem(
                self.out,
                p,
                self.target,
                operand_stationary=operand_stationary,
                double_buffer_c=self.double_buffer_c,
                copies=copies,
            )
        return found

    def operand(self, v: Var, facts: Facts) -> int:
        """State where a matrix operand lies, once. What a product or its one cast makes is placed by rules, not here."""
        n = self.number(v)
        if n in self.stated:
            return n
        self.stated.add(n)
        space = _space(v)
        if space is not Space.MAT and space is not Space.VEC:
            return n
        self.out.sizes[n] = _bytes(v)
        if space is Space.VEC and _whole_in_mat(v):
            self.out.state(L.stageable, n)
        made = facts.definitions.get(v)
        call = made.stmt.value if made is not None and made.origin is Origin.ASSIGN and type(made.stmt) is Assign else None
        if type(call) is Call:
            if call.op == "tile.load":
                key = self.loads.setdefault(call.args, n)
                self.out.state(L.load, n, key, space.value)
                return n
            source = call.args[0] if call.op == "tile.cast" else None
            if isinstance(source, Var) and source in self.products and facts.only_use(source) is not None:
                return n
        self.out.state(L.given, n, space.value)
        return n

    # -- uses ------------------------------------------------------------------------------------------------------------

    def uses(self, record: ProductSite, ops: Operands, site: Site, position: int, facts: Facts) -> None:
        """State who uses a product: its one plain store, its one cast, or matmuls alone."""
        used = facts.uses_of(ops.result)
        if _matrix_operands_only(used):
            self.out.state(L.matrix_operand_only, record.v)
        if len(used) != 1:
            return
        use = used[0]
        call = use.call
        if call is None or use.slot != 0:
            return
        assert isinstance(use.stmt, Assign)
        if len(use.stmt.targets) != 1:  # a statement without a result has no state to chain windows through
            return
        if call.op == "tile.store":
            if use.site is site and _plain_store(call):
                self.store(record, ops, use, site.statements[position + 1 : use.position], facts)
        elif call.op == "tile.cast":
            self.cast(record, use.stmt.targets[0], call, ops, facts)

    def store(self, record: ProductSite, ops: Operands, use: Use, between: Block, facts: Facts) -> None:
        """State the one store of a product, unless a grid in its place would read changed operands."""
        assert isinstance(use.stmt, Assign)
        operands = (ops.left, ops.right) if ops.bias is None else (ops.left, ops.right, ops.bias)
        record.store_refusal = disturbance(operands, between, facts)
        if record.store_refusal is not None:
            return
        record.store, record.waits = self.number(use.stmt.targets[0]), bool(between)
        self.out.state(L.stored_once, record.v, record.store)
        if all(map(_is_load, between)):
            self.out.state(L.store_follows, record.v, record.store)

    def cast(self, record: ProductSite, result: Var, call: Call, ops: Operands, facts: Facts) -> None:
        record.cast = c = self.number(result)
        self.out.sizes[c] = _bytes(result)
        source, mode = ops.result_type.dtype.name, _word(call.kwarg("mode"))
        into = result.type.dtype.name if isinstance(result.type, TileType) else ""
        self.out.state(L.cast, c, record.v, source, into, mode)
        self.out.state(L.cast_once, record.v, c)
        if not _matrix_operands_only(facts.uses_of(result)):
            return
        self.out.state(L.matrix_operand_only, c)
        if record.op not in FOLDING:
            return
        if source != "fp32" or into not in FOLDABLE:
            reason = f"FIXPIPE narrows fp32 to {' or '.join(FOLDABLE)} only, and this cast takes {source} to {into}"
        elif mode != ROUNDING:
            reason = f'FIXPIPE rounds to nearest even, this cast asks for mode="{mode}"; mode="{ROUNDING}" keeps it on the cube'
        else:
            return
        record.fold_refusal = Refusal("PH-AT-010", reason)

    def bias(self, record: ProductSite, bias: Var, site: Site, position: int, facts: Facts) -> None:
        space = _space(bias)
        assert space is not None
        record.bias = space.value
        self.out.state(L.bias_in, record.v, space.value)
        if space is not Space.MAT:
            return
        stored = None if record.store == NO_VALUE else self.lowered.values[record.store]
        record.bias_refusal = _not_rebuildable(bias, site, position, stored, facts)
        if record.bias_refusal is None:
            self.out.state(L.bias_rebuildable, record.v)

    # -- chains and pipelines --------------------------------------------------------------------------------------------

    def fits(self, chain: SplitKChain) -> bool:
        """Does one whole window of the chain fit L0C? Then windows of one grid, ours or an author's, are not cut again."""
        acc = chain.create.targets[0].type
        assert isinstance(acc, TileType)
        size = accumulator_bytes(self.target, chain.M, chain.N, acc.dtype, chain.box_m, chain.box_n)
        return size <= self.target.l0c

    def chain(self, found: SplitKChain | ChainRefusal, function: str) -> None:
        chain = found.chain if isinstance(found, ChainRefusal) else found
        products = tuple(self.number(s.targets[0]) for s in chain.products)
        if isinstance(found, ChainRefusal):
            self.lowered.chain_refusals[products[-1]] = found.reason
            return
        left, right, result = (s.targets[0].type for s in (chain.left, chain.right, chain.create))
        assert isinstance(left, TileType)
        assert isinstance(right, TileType)
        assert isinstance(result, TileType)
        if left.dtype.bits < 8 or chain.K % L.FRACTAL:
            return
        boxes = (chain.box_m, chain.box_n)
        p = Problem(chain.M, chain.N, chain.K, left.dtype, right.dtype, result.dtype, True, None, *boxes)
        index = self.stated_problem(p, operand_stationary=False)
        v, store = self.number(chain.loop.results[0]), self.number(chain.store.targets[0])
        self.out.state(L.chain, store, v, index)
        self.out.chains.append(ChainSite(v, store, index, products))
        self.lowered.chains[v] = chain
        self.lowered.where[v] = (function, chain.loop.loc)
        self.lowered.extents[v] = (chain.M, chain.N, chain.K, left.dtype.name)

    def drained(self, facts: Facts) -> None:
        """State the author's own L0 pipelines, and what all those that pay would take together."""
        found = [p for f in _pipelines(facts) if isinstance(p := read_pipeline(f, facts), DrainedPipeline)]
        paying = [p for p in found if _pays(p, self.target)]
        total = accumulators_total(facts, paying, self.target)
        if isinstance(total, str):
            return
        for p in found:
            loop = self.number(p.loop.results[0])
            self.out.state(L.drained, loop, p.trips, slot_bytes(p.accumulator, self.target), _drain(p))
            self.out.state(L.drained_total, loop, total)
            self.out.loops.append(loop)


# -- small questions about statements --------------------------------------------------------------------------------------


def _space(v: Var) -> Space | None:
    return v.type.space if isinstance(v.type, TileType) else None


def _bytes(v: Var) -> int:
    """Physical bytes of a tile, 0 where its shape is not known."""
    t = v.type
    return t.dtype.footprint(t.elements()) if isinstance(t, TileType) and t.static else 0


def _whole_in_mat(v: Var) -> bool:
    """Would the tile be a whole number of boxes in Mat?"""
    t = v.type
    assert isinstance(t, TileType)
    return all(isinstance(d, int) and d % step == 0 for d, step in zip(t.shape, box("row_major", t.dtype), strict=True))


def _copies_in_flight(site: Site) -> int:
    """How many copies of a bias window the pipelines around a statement list keep: in the bias table every level has its own."""
    return math.prod(s.stage or 1 for s in site.loops if s.kind is LoopKind.PIPELINE)


def _stages(site: Site) -> int:
    """How many copies of a panel the innermost loop around a statement list keeps."""
    loop = site.loops[-1] if site.loops else None
    return (loop.stage or 1) if loop is not None and loop.kind is LoopKind.PIPELINE else 1


def _word(e: object) -> str:
    return str(e.value) if isinstance(e, Const) else e.text if isinstance(e, Symbol) else "round"


def _drain(p: DrainedPipeline) -> str:
    """How the language calls the operation that drains a pipeline's tiles."""
    return p.drain.removeprefix("tile.")


def _pays(p: DrainedPipeline, target: Target) -> bool:
    """Will the rules give the pipeline a second accumulator, if there is room?"""
    return all(c.holds({}) for c in pays(_drain(p), p.trips, slot_bytes(p.accumulator, target), target.l0c))


def _pipelines(facts: Facts) -> list[For]:
    return [s for site in facts.sites for s in site.statements if type(s) is For and s.kind is LoopKind.PIPELINE]


def _is_load(s: Stmt) -> bool:
    return type(s) is Assign and type(s.value) is Call and s.value.op == "tile.load"


def _plain_store(call: Call) -> bool:
    """A store of three operands with a two-element offset."""
    return len(call.args) == 3 and isinstance(call.args[1], ListExpr) and len(call.args[1].items) == 2


def _matrix_operands_only(uses: Sequence[Use]) -> bool:
    """Is a value used, and only as a matrix operand of products?"""
    if not uses:
        return False
    for use in uses:
        call = use.call
        at = None if call is None else LEFT_OPERAND.get(call.op)
        if at is None or use.slot == INSIDE or use.slot - at not in (0, 1):
            return False
    return True


def _not_rebuildable(bias: Var, site: Site, position: int, stored: Var | None, facts: Facts) -> str | None:
    """Why the bias cannot be loaded again for every window, or None; ``stored``: what the windows are stored into, if any."""
    made = facts.definitions.get(bias)
    if made is None or made.site is not site or made.stmt is None or not _is_load(made.stmt):
        return "it must be a load of the same statement list"
    if facts.only_use(bias) is None:
        return "it must be used by this product alone"
    assert isinstance(made.stmt, Assign)
    call = made.stmt.value
    assert isinstance(call, Call)
    two = isinstance(call.args[1], ListExpr) and len(call.args[1].items) == 2
    if not two or not isinstance(bias.type, TileType) or bias.type.valid != bias.type.shape:
        return "its load must be two-dimensional and valid from end to end"
    if not all(map(_is_load, site.statements[made.position + 1 : position])):
        return "only loads may stand between its load and the product"
    source = call.args[0]
    if stored is not None and isinstance(source, Var) and may_share_memory(source, stored, facts):
        return "the windows are stored into the tensor it is loaded from"
    return None
