"""Scalars while a program is simulated: only those that steer loops and branches are computed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Union

from ir_bridge.ir.nodes import Assign, Binary, Block, Call, Const, Expr, For, If, Unary, Var, Yield, vars_in, walk

#: A scalar's value; None where it is not known.
Scalar = Union[int, float, bool, str, None]
Evaluate = Callable[[], Scalar]

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "/": operator.truediv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_}


def steering(body: Block) -> set[Var]:
    """The values that loop bounds and branches depend on, through any arithmetic in between."""
    wanted: set[Var] = set()
    statements = list(walk(body))
    for s in statements:
        if isinstance(s, For):
            for e in (s.start, s.stop, s.step, *([] if s.cond is None else [s.cond])):
                wanted.update(vars_in(e))
        elif isinstance(s, If):
            wanted.update(vars_in(s.cond))
    grown = -1
    while grown != len(wanted):
        grown = len(wanted)
        for s in statements:
            for source in _sources(s, wanted):
                wanted.update(vars_in(source))
    return wanted


def _sources(s: object, wanted: set[Var]) -> list[Expr]:
    """The expressions that wanted values of a statement are made from."""
    if isinstance(s, Assign):
        return [s.value] if any(t in wanted for t in s.targets) else []
    if isinstance(s, For):
        carried = [i for i, v in enumerate(s.carried) if v in wanted or s.results[i] in wanted]
        last = s.body[-1] if s.body else None
        yields = last.values if isinstance(last, Yield) else ()
        return [s.inits[i] for i in carried] + [yields[i] for i in carried if i < len(yields)]
    if isinstance(s, If):
        results = [i for i, v in enumerate(s.results) if v in wanted]
        ends = [arm[-1] for arm in (s.then, s.orelse) if arm]
        return [y.values[i] for y in ends if isinstance(y, Yield) for i in results]
    return []


def compile_scalar(e: Expr, slot: Callable[[Var], int], env: list[Any]) -> Evaluate:
    """A function that computes ``e`` from the values in ``env``; None where something is not known."""
    if isinstance(e, Const):
        value = e.value
        return lambda: value
    if isinstance(e, Var):
        i = slot(e)
        return lambda: env[i] if isinstance(env[i], (int, float)) else None
    if isinstance(e, Binary):
        return _compile_binary(e, slot, env)
    if isinstance(e, Unary) and e.op in _UNARY:
        apply, operand = _UNARY[e.op], compile_scalar(e.operand, slot, env)
        return _known(apply, operand)
    if isinstance(e, Call) and e.op in ("min", "max") and len(e.args) == 2:
        left, right = (compile_scalar(a, slot, env) for a in e.args)
        return _known(min if e.op == "min" else max, left, right)
    if isinstance(e, Call) and e.op in ("cast", "const", "tile.cast") and e.args:
        return compile_scalar(e.args[0], slot, env)
    return lambda: None


def _compile_binary(e: Binary, slot: Callable[[Var], int], env: list[Any]) -> Evaluate:
    left, right = compile_scalar(e.left, slot, env), compile_scalar(e.right, slot, env)
    if e.op in ("and", "or"):
        settles = e.op == "or"

        def logical() -> Scalar:
            a, b = left(), right()
            if (a is not None and bool(a) == settles) or (b is not None and bool(b) == settles):
                return settles
            return None if a is None or b is None else not settles

        return logical
    apply = _BINARY.get(e.op)
    return _known(apply, left, right) if apply is not None else lambda: None


def _known(apply: Callable[..., Any], *operands: Evaluate) -> Evaluate:
    """``apply`` to the operands where they are all known and it is defined on them."""

    def compute() -> Scalar:
        values = [o() for o in operands]
        if any(v is None for v in values):
            return None
        try:
            result: Scalar = apply(*values)
        except (ArithmeticError, TypeError, ValueError):
            return None
        return result

    return compute
