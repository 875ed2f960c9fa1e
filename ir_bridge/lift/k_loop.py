"""K panels of one output window, summed in one accumulator (specification 1, "算法" 7 to 14).

    C[w] = sum over ko in 0, k, 2k, …  of  A[rows, ko : ko + k] @ B[ko : ko + k, columns]

The full panels are a two-stage pipeline around one ``matmul_acc``; a narrower last panel is peeled. The first panel overwrites
the accumulator by its predicate (a plain product), adds the bias as straight lines ahead of the loop (a biased one), or
accumulates into what the caller brought.
"""

from __future__ import annotations

from typing import NamedTuple

from ir_bridge.ir.nodes import INDEX_SCALAR, ZERO, Binary, Expr, LoopKind, Var
from ir_bridge.ir.ops_registry import as_expr
from ir_bridge.ir.types import Space
from ir_bridge.lift.emit import Emitter
from ir_bridge.lift.product import Product

STAGES = 2


class Window(NamedTuple):
    """An output block: rows ``[mi, mi + rows)``, columns ``[ni, ni + cols)``."""

    mi: int
    ni: int
    rows: int
    cols: int


def reduce_k(e: Emitter, p: Product, w: Window, k: int, name: str, into: Var | None = None) -> Var:
    """Emit the reduction of one window in panels ``k`` deep; the accumulated value is ``into`` where its type allows.

    Emitted in this order: accumulator create, Vec→Mat move, bias load and move, straight panels, loop, tail panel.
    """
    full, tail = divmod(p.K, k)
    straight = _straight_panels(p, full)
    acc = p.acc
    if acc is None and not straight:
        acc = e.create(f"{name}_init", p.block_type(*w), Space.ACC)
    p.stage(e)
    bias = p.bias_window(e, name, as_expr(w.ni), w.cols)
    for i in range(straight):
        a, b = _panels(e, p, w, name, as_expr(i * k), k)
        target = into if i + 1 == full and not tail else None
        if acc is None:
            acc = e.matmul(f"{name}_c", a, b, bias, target)
            continue
        acc = e.accumulate(f"{name}_c", acc, a, b, p.cond, target)
    assert acc is not None
    if straight < full:
        acc = _loop(e, p, w, name, acc, (straight * k, full * k, k), None if tail else into)
    if tail:
        a, b = _panels(e, p, w, name, as_expr(full * k), tail)
        acc = e.accumulate(f"{name}_c", acc, a, b, None, into)
    return acc


def _straight_panels(p: Product, full: int) -> int:
    """How many of the full panels run as straight lines: a single one; the first of a biased product, and its second too where
    the loop would have one trip."""
    if p.bias is not None:
        return full if full <= 2 else 1
    return full if full == 1 else 0


def _loop(e: Emitter, p: Product, w: Window, name: str, acc: Var, bounds: tuple[int, int, int], into: Var | None) -> Var:
    """The pipelined loop over full panels, carrying the accumulator from ``acc`` on."""
    ko, carried = Var(f"{name}_ko", INDEX_SCALAR), Var(f"{name}_acc", acc.type)
    body = e.inner()
    a, b = _panels(body, p, w, name, ko, bounds[2])
    summed = body.accumulate(f"{name}_next", carried, a, b, _overwrite(p, ko))
    result = into if into is not None and into.type == acc.type else Var(name, acc.type)
    start, stop, step = (as_expr(x) for x in bounds)
    return e.loop(LoopKind.PIPELINE, ko, (start, stop, step), body, (acc, carried, summed), result, STAGES)


def _overwrite(p: Product, ko: Var) -> Expr | None:
    """When the panel at ``ko`` overwrites the accumulator: the first one, where the caller's predicate, if any, holds too."""
    if p.bias is not None or (p.acc is not None and p.cond is None):
        return None
    first = Binary("==", ko, ZERO)
    return first if p.cond is None else Binary("and", p.cond, first)


def _panels(e: Emitter, p: Product, w: Window, name: str, ko: Expr, width: int) -> tuple[Var, Var]:
    a = p.left_panel(e, name, as_expr(w.mi), w.rows, ko, width)
    return a, p.right_panel(e, name, ko, width, as_expr(w.ni), w.cols)
