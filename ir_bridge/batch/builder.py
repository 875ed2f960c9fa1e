"""A small statement builder for multi-core programs: values with inferred types, loops that carry tensors, scalars by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ir_bridge.ir.nodes import (
    INDEX_SCALAR,
    Assign,
    Binary,
    Call,
    Const,
    Expr,
    For,
    LoopKind,
    Stmt,
    Var,
    Yield,
)
from ir_bridge.ir.ops import make, result_types
from ir_bridge.ir.ops_registry import as_expr
from ir_bridge.ir.types import Space

#: An index: a number, or an expression of counters.
Index = Any
Body = Callable[["Builder", Var, tuple[Var, ...]], tuple[Var, ...]]

DOUBLE_C = ("pipeline_double_buffer_c", Const(True))


def add(a: Index, b: Index) -> Index:
    """a + b, folded where it is a number or a side is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0 and isinstance(a, int):
        return b
    if b == 0 and isinstance(b, int):
        return a
    return Binary("+", as_expr(a), as_expr(b))


def sub(a: Index, b: Index) -> Index:
    """a − b, folded where it is a number or b is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if isinstance(b, int) and b == 0 else Binary("-", as_expr(a), as_expr(b))


def mul(a: Index, b: Index) -> Index:
    """a · b, folded where it is a number or a side is 0 or 1."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    for x, y in ((a, b), (b, a)):
        if isinstance(x, int) and x in (0, 1):
            return y if x else 0
    return Binary("*", as_expr(a), as_expr(b))


def div(a: Index, b: int) -> Index:
    """⌊a / b⌋, folded where it is a number or b is 1."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a if isinstance(b, int) and b == 1 else Binary("//", as_expr(a), as_expr(b))


def mod(a: Index, b: Index) -> Index:
    """a mod b, folded where it is a number or b is 1."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return 0 if isinstance(b, int) and b == 1 else Binary("%", as_expr(a), as_expr(b))


def smaller(a: Index, b: Index) -> Index:
    """min(a, b), folded where it is a number."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return Call("min", (as_expr(a), as_expr(b)))


def larger(a: Index, b: Index) -> Index:
    """max(a, b), folded where it is a number."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return Call("max", (as_expr(a), as_expr(b)))


def is_zero(x: Index) -> Expr:
    """x == 0"""
    return Binary("==", as_expr(x), Const(0))


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """a and b, None standing for true."""
    if a is None or b is None:
        return b if a is None else a
    return Binary("and", a, b)


class Builder:
    """A list of statements under construction."""

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out: list[Stmt] = []

    def let(self, name: str, op: str, *args: Any, **kwargs: Any) -> Var:
        """``name = op(…)``, with the type that the op table gives it."""
        call = make(op, *args, **kwargs)
        (type_,) = result_types(call.op, call.args, call.kwargs)
        v = Var(name, type_)
        self.out.append(Assign((v,), call))
        return v

    def scalar(self, name: str, value: Index) -> Index:
        """A named index; a number or a name stays what it is."""
        if isinstance(value, (int, Var)):
            return value
        v = Var(name, INDEX_SCALAR)
        self.out.append(Assign((v,), as_expr(value)))
        return v

    def clipped(self, name: str, start: Index, size: int, extent: Index) -> Index:
        """How much of [start, start + size) lies below ``extent``; a number where ``size`` divides it."""
        if isinstance(extent, int):
            if isinstance(start, int):
                return min(size, extent - start)
            if extent % size == 0:
                return size
        return self.scalar(name, smaller(size, sub(extent, start)))

    def loop(
        self,
        kind: LoopKind,
        name: str,
        bounds: tuple[Index, Index, Index],
        carry: Sequence[Var],
        body: Body,
        *,
        stage: int | None = None,
        double_c: bool = False,
    ) -> tuple[Var, ...]:
        """A loop whose body maps the carried values to the next ones; its results are what the last trip hands on.

        A loop of one trip whose bounds are numbers is written straight.
        """
        start, stop, step = bounds
        if all(isinstance(x, int) for x in bounds) and kind is not LoopKind.SPMD and start < stop <= start + step:
            return body(self, start, tuple(carry))
        counter = Var(name, INDEX_SCALAR)
        carried = tuple(Var(v.name, v.type) for v in carry)
        inner = Builder()
        handed_on = body(inner, counter, carried)
        results = tuple(Var(v.name, v.type) for v in carry)
        if kind is LoopKind.PIPELINE and stage is None:
            stage = 2
        statements = (*inner.out, Yield(handed_on)) if carry else tuple(inner.out)
        self.out.append(
            For(
                kind,
                counter,
                as_expr(start),
                as_expr(stop),
                as_expr(step),
                statements,
                carried,
                tuple(carry),
                results,
                stage if kind is LoopKind.PIPELINE else None,
                (DOUBLE_C,) if double_c else (),
            )
        )
        return results

    def accumulator(self, name: str, shape: tuple[int, int], dtype: Any, rows: Index, columns: Index) -> Var:
        """An accumulator seed, narrowed to rows × columns; declared compact where rows are narrowed (specification 1)."""
        narrow_rows, narrow_columns = (not isinstance(v, int) or v != s for v, s in zip((rows, columns), shape, strict=True))
        more = {"compact": True} if narrow_rows else {}
        seed = self.let(name, "tile.create", list(shape), dtype=dtype, target_memory=Space.ACC, **more)
        if not narrow_rows and not narrow_columns:
            return seed
        return self.let(name, "tile.set_validshape", seed, rows, columns)
