"""Memory consistency before conversion (specification 2, "limits of GM store consistency").

Bulk stores go by MTE3, scalar writes by the data cache, and nothing keeps the two coherent on one tensor. Two patterns are
rewritten so that one path suffices:

    for i in range(n): write(t, [r, i], constant)      =>  t = assemble(t, full([1, n], constant), [r, 0])
    out = assemble(out, full(whole), zeros); write(out, …)   =>  write(full, …) …; out = assemble(out, full, zeros)

What is still written both ways is refused after conversion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ir_bridge.convert.access import BULK, SCALAR, Signatures, access_of
from ir_bridge.convert.flow import Flow, flow_of
from ir_bridge.ir.nodes import (
    ZERO,
    Assign,
    Binary,
    Block,
    Call,
    Const,
    Expr,
    For,
    Function,
    If,
    ListExpr,
    LoopKind,
    Return,
    Scope,
    Stmt,
    Var,
    expressions_of,
    vars_in,
    walk,
)
from ir_bridge.ir.ops import make
from ir_bridge.ir.types import TensorType

#: MTE3 writes rows of whole 32-byte lines.
LINE_BYTES = 32


# -- constant fill loops -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fill:
    """One write of a fill loop as a bulk store: ``value`` into ``extent`` elements of ``target``'s last axis from ``offset``."""

    target: Var
    offset: tuple[Expr, ...]
    extent: int
    value: Const


def promote_fills(f: Function, signatures: Signatures) -> Function:
    """Constant fill loops of global tensors as bulk stores; all stay loops when one would mix the paths to a parameter."""
    flow = flow_of(f)
    loops: dict[int, list[Fill]] = {}
    for s in walk(f.body):
        if isinstance(s, For):
            fills = fills_of(s, flow)
            if fills is not None:
                loops[id(s)] = fills
    if not loops:
        return f
    promoted = replace(f, body=_replaced(f.body, loops))
    mixed = access_of(promoted, signatures).paths
    return f if any(BULK in paths and SCALAR in paths for paths in mixed.values()) else promoted


def fills_of(s: For, flow: Flow) -> list[Fill] | None:
    """The bulk stores that a loop amounts to; None when it is no constant fill of aligned, contiguous elements."""
    stop = s.stop.value if isinstance(s.stop, Const) else None
    if (
        s.kind is not LoopKind.RANGE
        or s.start != ZERO
        or s.step != Const(1)
        or not isinstance(stop, int)
        or s.carried
        or not s.body
    ):
        return None
    found = []
    for inner in s.body:
        fill = _fill(inner, s.counter, stop, flow)
        if fill is None:
            return None
        found.append(fill)
    return found


def _fill(s: Stmt, counter: Var | None, extent: int, flow: Flow) -> Fill | None:
    call = s.value if isinstance(s, Assign) and not s.targets else None
    if not isinstance(call, Call) or call.op != "tensor.write":
        return None
    target, where, value = call.args
    if (
        not isinstance(target, Var)
        or not flow.roots_of(target)
        or not isinstance(value, Const)
        or not isinstance(where, ListExpr)
    ):
        return None
    *lead, last = where.items
    first = _start(last, counter)
    if first is None or any(v is counter for e in lead for v in vars_in(e)):
        return None
    t = target.type
    assert isinstance(t, TensorType)
    if extent * t.dtype.bytes % LINE_BYTES or not _starts_on_line(t, (*lead, Const(first))):
        return None
    return Fill(target, (*lead, Const(first)), extent, value)


def _starts_on_line(t: TensorType, where: tuple[Expr, ...]) -> bool:
    """Is the flat position of ``where`` a whole number of lines, whatever the indices that are not numbers come to?"""
    stride, known = 1, 0
    for index, d in zip(reversed(where), reversed(t.shape), strict=True):
        if isinstance(index, Const) and isinstance(index.value, int):
            known += index.value * stride
        elif stride * t.dtype.bytes % LINE_BYTES:
            return False
        if not isinstance(d, int):
            return index is where[0] and known * t.dtype.bytes % LINE_BYTES == 0
        stride *= d
    return known * t.dtype.bytes % LINE_BYTES == 0


def _start(index: Expr, counter: Var | None) -> int | None:
    """n where the index is ``counter + n``; None when it is anything else."""
    if index is counter:
        return 0
    if isinstance(index, Binary) and index.op == "+":
        for a, b in ((index.left, index.right), (index.right, index.left)):
            if a is counter and isinstance(b, Const) and isinstance(b.value, int):
                return b.value
    return None


def _replaced(block: Block, loops: dict[int, list[Fill]]) -> Block:
    out: list[Stmt] = []
    for s in block:
        if isinstance(s, For) and id(s) in loops:
            for fill in loops[id(s)]:
                out.extend(_bulk(fill, s))
        elif isinstance(s, (For, Scope)):
            out.append(replace(s, body=_replaced(s.body, loops)))
        elif isinstance(s, If):
            out.append(replace(s, then=_replaced(s.then, loops), orelse=None if s.orelse is None else _replaced(s.orelse, loops)))
        else:
            out.append(s)
    return tuple(out)


def _bulk(fill: Fill, s: For) -> list[Stmt]:
    t = fill.target.type
    assert isinstance(t, TensorType)
    shape = (*([1] * (len(t.shape) - 1)), fill.extent)
    full = Var(f"{fill.target.name}_fill", TensorType(shape, t.dtype))
    value = make("tensor.full", list(shape), dtype=t.dtype, value=Const(fill.value.value))
    return [
        Assign((full,), value, s.loc),
        Assign((), make("tensor.assemble", fill.target, full, list(fill.offset)), s.loc),
    ]


# -- a full tensor, then updates ---------------------------------------------------------------------------------------


def stage_updates(f: Function) -> Function:
    """Scalar updates of a parameter that was filled whole go to the filled value on chip, which is stored once, at the exit."""
    body = list(f.body)
    tail = body.pop() if body and isinstance(body[-1], Return) else None
    for n, s in enumerate(body):
        staged = _staged(f, body, n, s)
        if staged is not None:
            rest, store = staged
            return stage_updates(replace(f, body=(*body[:n], *rest, store, *(() if tail is None else (tail,)))))
    return f


def _staged(f: Function, body: list[Stmt], n: int, s: Stmt) -> tuple[list[Stmt], Stmt] | None:
    """(statements after the initialising store with updates turned to the local value, the store at the exit), or None."""
    call = s.value if isinstance(s, Assign) else None
    if (
        not isinstance(s, Assign)
        or not isinstance(call, Call)
        or call.op != "tensor.assemble"
        or call.kwarg("atomic") is not None
    ):
        return None
    target, full, offset = call.args[:3]
    states = {target, *s.targets}
    if not isinstance(target, Var) or not isinstance(full, Var) or not _covers(target, full, offset):
        return None
    if target not in {p.var for p in f.params} or not _is_private_full(f, full):
        return None
    rest = body[n + 1 :]
    before = [x for x in body[:n] if any(v is target for v in _values(x))]
    if before or not any(_updates(x, states) for x in walk(tuple(rest))) or not _only_updates(tuple(rest), states):
        return None
    return [_turned(x, states, full) for x in rest], s


def _covers(target: Var, full: Var, offset: Expr) -> bool:
    a, b = target.type, full.type
    same = isinstance(a, TensorType) and isinstance(b, TensorType) and a.shape == b.shape and a.dtype == b.dtype
    return same and isinstance(offset, ListExpr) and all(o == ZERO for o in offset.items)


def _is_private_full(f: Function, full: Var) -> bool:
    """Is ``full`` made by ``tensor.full`` and used only to be stored?"""
    uses = 0
    made = False
    for s in walk(f.body):
        if isinstance(s, Assign) and full in s.targets:
            made = isinstance(s.value, Call) and s.value.op == "tensor.full"
        uses += sum(1 for v in _values(s) if v is full)
    return made and uses == 1


def _values(s: Stmt) -> list[Var]:
    """Values used directly in a statement or in its blocks."""
    return [v for inner in walk((s,)) for e in expressions_of(inner) for v in vars_in(e)]


def _updates(s: Stmt, states: set[Expr]) -> bool:
    return isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tensor.write" and s.value.args[0] in states


def _only_updates(rest: Block, states: set[Expr]) -> bool:
    """Is the tensor only written element by element from here on (and returned)?"""
    for s in walk(rest):
        used = [v for e in expressions_of(s) for v in vars_in(e) if v in states]
        if used and not (_updates(s, states) and len(used) == 1):
            return False
    return True


def _turned(s: Stmt, states: set[Expr], full: Var) -> Stmt:
    if isinstance(s, Assign) and _updates(s, states):
        assert isinstance(s.value, Call)
        return replace(s, value=replace(s.value, args=(full, *s.value.args[1:])))
    if isinstance(s, (For, Scope)):
        return replace(s, body=tuple([_turned(x, states, full) for x in s.body]))
    if isinstance(s, If):
        orelse = None if s.orelse is None else tuple([_turned(x, states, full) for x in s.orelse])
        return replace(s, then=tuple([_turned(x, states, full) for x in s.then]), orelse=orelse)
    return s
