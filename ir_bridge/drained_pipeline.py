"""Pipelines that their author already cut to L0 tiles, and whether two accumulators may alternate in them (specification 1,
"识别已有的 L0 流水线"; facts/tiling_gates.md, "Existing L0 pipelines").

    for i, (state,) in pipeline(…, stage=F):        # F >= 2 divides the trips
        moving = extract(mat, …)                    # or move; the other operand is made outside
        c = matmul(fixed, moving)
        state' = store(c, …, state)                 # or assemble(state, c, …)
        yield state'

With two accumulators the drain of one tile runs beside the product of the next. A function's candidates are taken all together
or not at all, on an upper bound of what its accumulators occupy. Every gate is a function that says why not.
"""

from __future__ import annotations

from dataclasses import dataclass

from cost.hardware import Target
from cost.physical import accumulator_bytes, allocated_bytes, ceil_div
from ir_bridge.analysis import Facts, Origin, Site, is_scalar_arithmetic
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import Assign, Call, Const, For, LoopKind, Var, Yield
from ir_bridge.ir.ops_registry import lookup
from ir_bridge.ir.types import Space, TileType

#: Loop attributes that say the author, or an earlier run, has decided already.
POLICY_ATTRIBUTES = ("pipeline_overlap_stores", "pipeline_double_buffer_c")
#: How a tile may be drained.
DRAINS = frozenset({"tile.store", "tile.assemble"})
STORE_LIKE = frozenset({"tile.store", "tile.assemble", "tile.write", "tensor.write", "tensor.assemble"})


@dataclass(frozen=True, slots=True)
class DrainedPipeline:
    """A loop of the form above: its one ``product``, its ``drain`` (an operation name) and how often it runs."""

    loop: For
    product: Assign
    drain: str
    trips: int

    @property
    def accumulator(self) -> TileType:
        t = self.product.targets[0].type
        assert isinstance(t, TileType)
        return t


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a pipeline, or a whole function, keeps one accumulator."""

    reason: str
    loop: For | None = None


# -- gates on one loop ---------------------------------------------------------------------------------------------------


def read_pipeline(loop: For, facts: Facts) -> DrainedPipeline | Refused:
    """The parts of a drained pipeline, or the first reason it is none."""
    trips = trip_count(loop)
    reason = _wrong_frame(loop, trips)
    if reason is not None:
        return Refused(reason, loop)
    body = [s for s in loop.body if isinstance(s, Assign)]
    if len(body) != len(loop.body) - 1 or not isinstance(loop.body[-1], Yield):
        return Refused("its body is not flat", loop)
    producers = [s for s in body if any(_in_acc(v) for v in s.targets)]
    drains = [s for s in body if isinstance(s.value, Call) and s.value.op in STORE_LIKE]
    if len(producers) != 1 or len(drains) != 1 or any(_in_acc(v) for v in loop.carried):
        return Refused("it does not hold exactly one accumulator and one store", loop)
    product, drain = producers[0], drains[0]
    reason = _wrong_product(product, loop, facts) or _wrong_drain(drain, product, loop, facts) or _other_trouble(body, product)
    if reason is not None:
        return Refused(reason, loop)
    assert isinstance(drain.value, Call)
    assert trips is not None
    return DrainedPipeline(loop, product, drain.value.op, trips)


def trip_count(loop: For) -> int | None:
    """How often a loop runs, where its bounds are numbers."""
    bounds = [e.value if isinstance(e, Const) and type(e.value) is int else None for e in (loop.start, loop.stop, loop.step)]
    start, stop, step = bounds
    if start is None or stop is None or step is None or step <= 0:
        return None
    return max(0, ceil_div(stop - start, step))


def _wrong_frame(loop: For, trips: int | None) -> str | None:
    if any(name in POLICY_ATTRIBUTES for name, _ in loop.attrs):
        return "it already says how its accumulators alternate"
    if loop.stage is None or loop.stage < 2:
        return "it has fewer than two stages"
    if trips is None:
        return "its bounds are not numbers"
    if trips == 0 or trips % loop.stage:
        return f"its {trips} trips are no multiple of its {loop.stage} stages"
    return None


def _wrong_product(product: Assign, loop: For, facts: Facts) -> str | None:
    """The accumulator comes from one plain matmul of a moving and a fixed L0 operand."""
    call = product.value
    if not isinstance(call, Call) or call.op != "tile.matmul" or not _static_acc(product):
        return "its accumulator is not made by a plain tile.matmul of static shape"
    left, right = call.args
    if not (_static_in(left, Space.LEFT) and _static_in(right, Space.RIGHT)):
        return "the operands of its matmul are not static tiles in Left and Right"
    assert isinstance(left, Var)
    assert isinstance(right, Var)
    inside = [v for v in (left, right) if _made_in(v, loop, facts)]
    if len(inside) != 1:
        return "not exactly one operand of its matmul is made inside the loop"
    moving, fixed = inside[0], right if inside[0] is left else left
    made = facts.call_of(moving)
    source = made.args[0] if made is not None and made.op in ("tile.extract", "tile.move") else None
    if not (isinstance(source, Var) and isinstance(source.type, TileType) and source.type.space is Space.MAT):
        return "its moving operand is not extracted or moved from Mat in every trip"
    origin = facts.definitions.get(fixed)
    if origin is not None and origin.origin is Origin.CARRIED:
        return "its fixed operand is carried by a loop"
    return None


def _wrong_drain(drain: Assign, product: Assign, loop: For, facts: Facts) -> str | None:
    """The accumulator goes into a carried value, and the result is handed on in that value's place; all of them used once."""
    call, acc = drain.value, product.targets[0]
    assert isinstance(call, Call)
    if call.op not in DRAINS or len(drain.targets) != 1:
        return "its store is neither tile.store nor tile.assemble"
    source, destination = (call.args[0], call.args[2]) if call.op == "tile.store" else (call.args[1], call.args[0])
    if source is not acc or destination not in loop.carried:
        return "its store does not take the accumulator into a carried value"
    assert isinstance(destination, Var)
    handed_on = loop.body[-1]
    assert isinstance(handed_on, Yield)
    if handed_on.values[loop.carried.index(destination)] is not drain.targets[0]:
        return "what its store makes is not handed on to the next trip"
    for value, what in ((acc, "accumulator"), (drain.targets[0], "store's result"), (destination, "carried target")):
        if len(facts.uses_of(value)) != 1:
            return f"its {what} is not used exactly once"
    return None


def _other_trouble(body: list[Assign], product: Assign) -> str | None:
    """No other accumulator is read in the loop, and nothing in it has effects that are not known."""
    own = product.targets[0]
    for s in body:
        if is_scalar_arithmetic(s):
            continue
        if not isinstance(s.value, Call) or lookup(s.value.op) is None:
            return "it holds a statement whose effects are not known"
        if any(isinstance(a, Var) and a is not own and _in_acc(a) for a in s.value.args):
            return "it reads another accumulator"
    return None


# -- the whole function ----------------------------------------------------------------------------------------------------


def slot_bytes(t: TileType, target: Target) -> int:
    """Bytes that one accumulator takes in L0C: rows as the target aligns them, size as its allocator does."""
    rows, cols = t.shape
    assert isinstance(rows, int)
    assert isinstance(cols, int)
    return allocated_bytes(target, "l0c", accumulator_bytes(target, rows, cols, t.dtype))


def accumulators_total(facts: Facts, candidates: list[DrainedPipeline], target: Target) -> int | str:
    """Bytes of L0C the function may take with one more accumulator for each candidate, or why that is not known.

    An upper bound after pipeline lowering: every accumulator value counts once when a cube operation makes it (lowering runs
    those one after the other), and otherwise as often as the stages of the pipelines around it multiply to.
    """
    total = 0
    for site, _, s in facts.assigns():
        for v in s.targets:
            if not _in_acc(v):
                continue
            if not _static_acc(s):
                return f"the accumulator {base_name(v.name)!r} has no static shape, so that what L0C holds is not known"
            assert isinstance(v.type, TileType)
            total += slot_bytes(v.type, target) * (1 if _is_cube(s) else _copies(site))
    return total + sum(slot_bytes(p.accumulator, target) for p in candidates)


def _copies(site: Site) -> int:
    copies = 1
    for loop in site.loops:
        if loop.kind is LoopKind.PIPELINE and loop.stage is not None:
            copies *= loop.stage
    return copies


def _is_cube(s: Assign) -> bool:
    if not isinstance(s.value, Call):
        return False
    op = lookup(s.value.op)
    return op is not None and op.kind == "cube"


def _in_acc(v: Var) -> bool:
    return isinstance(v.type, TileType) and v.type.space is Space.ACC


def _static_acc(s: Assign) -> bool:
    return all(isinstance(v.type, TileType) and v.type.static and len(v.type.shape) == 2 for v in s.targets)


def _static_in(e: object, space: Space) -> bool:
    return isinstance(e, Var) and isinstance(e.type, TileType) and e.type.space is space and e.type.static


def _made_in(v: Var, loop: For, facts: Facts) -> bool:
    """Is the value made by a statement of the loop's body (or carried by it)?"""
    found = facts.definitions.get(v)
    return found is not None and found.site.owner is loop
