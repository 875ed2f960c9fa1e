"""Storage of local allocations (specification 2: "logical returns and their storage", "assemble loops").

An allocation stays a local tile, so that assembles and scalar updates are staged on chip and stored once, at the exit. It is
promoted to an output parameter only where it must be global memory and is returned whole: because a loop assembles it window by
window, an operation needs it in memory, or it doesn't fit on the chip.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cost.hardware import Target
from ir_bridge.convert.errors import refuse
from ir_bridge.convert.flow import yielded
from ir_bridge.convert.registry import conversion_of
from ir_bridge.ir.nodes import Assign, Call, Expr, For, Function, If, Return, Stmt, Var, expressions_of, vars_in, walk
from ir_bridge.ir.types import TensorType

#: Operations that take operand 0 in global memory or on chip, whichever it is.
_EITHER = frozenset({"tensor.assemble", "tensor.gather", "tensor.gather_row", "tensor.aiv_shard", "tensor.aic_gather"})


@dataclass(slots=True)
class _Uses:
    """How one tensor value is used: handed on to next states, returned, or otherwise; ``in_memory`` needs it in global memory."""

    next: list[tuple[str, Var]] = field(default_factory=list)
    returned: bool = False
    other: bool = False
    in_memory: Stmt | None = None


class _UseTable:
    """The uses of every tensor value of a function."""

    def __init__(self, f: Function) -> None:
        self.table: dict[Var, _Uses] = {}
        for s in walk(f.body):
            if isinstance(s, For):
                for init, c, value, r in zip(s.inits, s.carried, yielded(s.body), s.results, strict=False):
                    self.step(init, "loop", c)
                    self.step(value, "yield", r)
            elif isinstance(s, If):
                for arm in (s.then, s.orelse or ()):
                    for value, r in zip(yielded(arm), s.results, strict=False):
                        self.step(value, "arm", r)
            elif isinstance(s, Return):
                for e in s.values:
                    self.of(e).returned = True
            elif isinstance(s, Assign):
                self._assign(s)

    def of(self, e: Expr) -> _Uses:
        return self.table.setdefault(e, _Uses()) if type(e) is Var else _Uses()

    def step(self, e: Expr, how: str, to: Var) -> None:
        self.of(e).next.append((how, to))

    def _assign(self, s: Assign) -> None:
        value, target = s.value, s.targets[0] if len(s.targets) == 1 else None
        if type(value) is Var:
            if target is not None:
                self.step(value, "alias", target)
            return
        call = value if isinstance(value, Call) else None
        subject = call.args[0] if call is not None and call.args else None
        if call is not None and call.op == "tensor.assemble" and target is not None and subject is not None:
            self.step(subject, "assemble", target)
            if call.kwarg("atomic") is not None:
                self.of(subject).in_memory = s
        for e in expressions_of(s):
            for v in vars_in(e):
                if call is not None and call.op == "tensor.assemble" and v is subject and target is not None:
                    continue
                self.of(v).other = True
                if call is not None and isinstance(v.type, TensorType) and _wants_memory(call, v):
                    self.of(v).in_memory = s

    def reach(self, v: Var) -> list[_Uses]:
        """The uses of ``v`` and of every state it becomes."""
        seen: dict[Var, _Uses] = {}
        work = [v]
        while work:
            x = work.pop()
            if x not in seen:
                seen[x] = self.of(x)
                work.extend([to for _, to in seen[x].next])
        return list(seen.values())


def _wants_memory(call: Call, v: Var) -> bool:
    """Does the call need ``v`` in global memory: an operation that loads or addresses it, or one that nobody knows?"""
    c = conversion_of(call.op)
    if c is None:
        return True
    return not c.stays and call.op not in _EITHER and any(i in c.memory and a is v for i, a in enumerate(call.args))


def promoted_allocations(f: Function, target: Target) -> frozenset[Var]:
    """The ``tensor.create`` results of a function that become output parameters.

    Raises ConvertError for one that must be global memory and is not returned.
    """
    created = [
        s
        for s in walk(f.body)
        if isinstance(s, Assign) and len(s.targets) == 1 and isinstance(s.value, Call) and s.value.op == "tensor.create"
    ]
    if not created:
        return frozenset()
    uses = _UseTable(f)
    promoted: set[Var] = set()
    for s in created:
        v = s.targets[0]
        states = uses.reach(v)
        whole = any(u.returned for u in states)
        needed = next((u.in_memory for u in states if u.in_memory is not None), None)
        if needed is not None and not whole:
            raise refuse(
                f.name,
                f"{v.name} must be global memory (for the operation at {needed.loc}) and is not returned",
                f"give it to the function as a pl.Out or pl.InOut parameter, or return {v.name}",
                s.loc,
            )
        if whole and (needed is not None or _assembled_by_loop(states) or not _fits(v, target)):
            promoted.add(v)
    return frozenset(promoted)


def _assembled_by_loop(states: list[_Uses]) -> bool:
    """Is every state only assembled into, carried, or returned, and is there a loop that carries it?"""
    if any(u.other for u in states):
        return False
    if any(sum(how in ("assemble", "loop") for how, _ in u.next) + u.returned > 1 for u in states):
        return False
    steps = {how for u in states for how, _ in u.next}
    return "loop" in steps and "assemble" in steps


def _fits(v: Var, target: Target) -> bool:
    """Could the allocation be a local tile: static, and no larger than the vector buffer?"""
    t = v.type
    assert isinstance(t, TensorType)
    n = 1
    for d in t.shape:
        if not isinstance(d, int):
            return False
        n *= d
    return t.dtype.footprint(n) <= target.vec
