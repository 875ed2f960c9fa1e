"""Value flow of one function: which tensor values become tiles, and which global tensors each of the others may be.

A value that is computed becomes a tile; a handle that is passed on through writes stays global memory (specification 2,
"value-flow analysis"). Both facts run along the same edges: from a target to its next state, from an initial value or a yield to
the carried value and the loop's result, from the arms of a branch to its result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ir_bridge.convert.registry import conversion_of
from ir_bridge.ir.nodes import Assign, Block, Call, Expr, For, Function, If, Stmt, Var, Yield, walk
from ir_bridge.ir.types import TensorType

_NONE: frozenset[Var] = frozenset()

#: Operations whose result is the next state of operand 0, in the memory where that operand is.
STATES = frozenset({"tensor.assemble", "tile.store"})


@dataclass(slots=True)
class Flow:
    """``tiles``: tensor values that become tiles. ``roots``: for each other tensor value, the parameters (or promoted
    allocations) whose memory it may be. ``sources``: the values each value may be a state of."""

    tiles: set[Var] = field(default_factory=set)
    roots: dict[Var, frozenset[Var]] = field(default_factory=dict)
    sources: dict[Var, list[Var]] = field(default_factory=dict)

    def roots_of(self, e: Expr) -> frozenset[Var]:
        """The global tensors that ``e`` may be; empty when it is on chip."""
        return self.roots.get(e, _NONE) if type(e) is Var else _NONE


def flow_of(f: Function, promoted: Iterable[Var] = ()) -> Flow:
    """The value flow of a function; ``promoted`` are allocations that stay global memory."""
    flow = Flow()
    seeds: list[Var] = []
    stay = set(promoted)
    for s in walk(f.body):
        _collect(flow, s, seeds, stay)
    _spread_tiles(flow, seeds)
    _spread_roots(flow, [p.var for p in f.params if isinstance(p.var.type, TensorType)] + list(stay))
    return flow


def yielded(block: Block) -> tuple[Expr, ...]:
    """What a block yields; nothing when it does not end with a yield."""
    last = block[-1] if block else None
    return last.values if isinstance(last, Yield) else ()


def _link(flow: Flow, target: Var, source: Expr) -> None:
    if type(source) is Var and isinstance(target.type, TensorType) and isinstance(source.type, TensorType):
        flow.sources.setdefault(target, []).append(source)


def _collect(flow: Flow, s: Stmt, seeds: list[Var], stay: set[Var]) -> None:
    if isinstance(s, Assign):
        _collect_assign(flow, s, seeds, stay)
    elif isinstance(s, For):
        for carried, result, init, value in zip(s.carried, s.results, s.inits, yielded(s.body), strict=False):
            _link(flow, carried, init)
            _link(flow, carried, value)
            _link(flow, result, carried)
    elif isinstance(s, If) and s.results:
        for arm in (s.then, s.orelse or ()):
            for result, value in zip(s.results, yielded(arm), strict=False):
                _link(flow, result, value)


def _collect_assign(flow: Flow, s: Assign, seeds: list[Var], stay: set[Var]) -> None:
    value = s.value
    if len(s.targets) != 1 or not isinstance(s.targets[0].type, TensorType):
        return
    target = s.targets[0]
    if type(value) is Var:
        _link(flow, target, value)
    elif isinstance(value, Call):
        if value.op in STATES:
            _link(flow, target, value.args[2 if value.op == "tile.store" else 0])
        elif conversion_of(value.op) is not None and target not in stay:
            seeds.append(target)


def _users(flow: Flow) -> dict[Var, list[Var]]:
    users: dict[Var, list[Var]] = {}
    for target, sources in flow.sources.items():
        for source in sources:
            users.setdefault(source, []).append(target)
    return users


def _spread_tiles(flow: Flow, seeds: list[Var]) -> None:
    users = _users(flow)
    work = list(seeds)
    while work:
        v = work.pop()
        if v in flow.tiles:
            continue
        flow.tiles.add(v)
        work.extend(users.get(v, ()))


def _spread_roots(flow: Flow, starts: list[Var]) -> None:
    users = _users(flow)
    work: list[Var] = []
    for v in starts:
        flow.roots[v] = frozenset((v,))
        work.append(v)
    while work:
        v = work.pop()
        mine = flow.roots[v]
        for u in users.get(v, ()):
            if u in flow.tiles:
                continue
            have = flow.roots.get(u, _NONE)
            if not mine <= have:
                flow.roots[u] = have | mine
                work.append(u)
