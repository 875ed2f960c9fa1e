"""Expressions as closures: each becomes one Python function of the environment, built once and run many times."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from cost.dtypes import DType
from ir_bridge.ir.misspelt import nearest_operation
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import Binary, Call, Const, DictExpr, Expr, Index, ListExpr, Symbol, Unary, Var
from ir_bridge.ir.ops import OpError, canonical, lookup
from ir_bridge.ir.ops_registry import dtype_of, space_of
from ir_bridge.ir.ops_tensor import valid_of
from ir_bridge.ir.semantics import Meaning, meaning_of
from ir_bridge.ir.semantics_tensor_math import narrowed
from ir_bridge.ir.semantics_values import SemanticsError, numpy_dtype
from ir_bridge.ir.types import TensorType

Env = dict[Var, Any]
Getter = Callable[[Env], Any]


class Machine(Protocol):
    """What an expression may ask of the interpreter: to run a sibling function, and which core is running."""

    block: int
    blocks: int

    def call(self, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]: ...


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "not": operator.not_,
}


def compile_expr(e: Expr, machine: Machine) -> Getter:
    """The expression as a function of the environment."""
    if isinstance(e, Var):
        return _variable(e)
    if isinstance(e, Const):
        return _constant(e.value)
    if isinstance(e, Binary):
        return _binary(e, machine)
    if isinstance(e, Call):
        return compile_call(e, machine)
    if isinstance(e, ListExpr):
        return _list(e, machine)
    if isinstance(e, Symbol):
        return _constant(symbol_value(e))
    if isinstance(e, Unary):
        compute, operand = _UNARY[e.op], compile_expr(e.operand, machine)
        return lambda env: compute(operand(env))
    if isinstance(e, Index):
        return _subscript(e, machine)
    if isinstance(e, DictExpr):
        return _constant(e)
    raise SemanticsError(f"an expression of kind {type(e).__name__} has no value")


def _variable(v: Var) -> Getter:
    def get(env: Env) -> Any:
        try:
            return env[v]
        except KeyError:
            raise SemanticsError(f"{base_name(v.name)} is used before it is defined") from None

    return get


def _constant(value: Any) -> Getter:
    return lambda env: value


def _binary(e: Binary, machine: Machine) -> Getter:
    left, right = compile_expr(e.left, machine), compile_expr(e.right, machine)
    if e.op == "and":
        return lambda env: left(env) and right(env)
    if e.op == "or":
        return lambda env: left(env) or right(env)
    compute = _BINARY[e.op]
    if isinstance(e.right, Const):
        value = e.right.value
        return lambda env: compute(left(env), value)
    return lambda env: compute(left(env), right(env))


def _list(e: ListExpr, machine: Machine) -> Getter:
    if all(isinstance(i, Const) for i in e.items):
        return _constant(tuple([i.value for i in e.items if isinstance(i, Const)]))
    getters = [compile_expr(i, machine) for i in e.items]
    return lambda env: tuple([g(env) for g in getters])


def _subscript(e: Index, machine: Machine) -> Getter:
    base, index = compile_expr(e.base, machine), [compile_expr(i, machine) for i in e.index]

    def get(env: Env) -> Any:
        value = base(env)
        if not isinstance(value, (list, tuple)) or len(index) != 1:
            raise SemanticsError("only one index into an array or a tuple of results has reference semantics")
        return value[index[0](env)]

    return get


def symbol_value(s: Symbol) -> Any:
    """``pl.BF16`` as a DType, ``pl.Mem.X`` as a Space, any other symbol as itself."""
    for read in (dtype_of, space_of):
        try:
            return read("", "", s)
        except OpError:
            continue
    return s


# -- calls -----------------------------------------------------------------------------------------------------------------


def compile_call(e: Call, machine: Machine) -> Getter:
    """An operation, a sibling function, or one of the scalar built-ins; anything else fails when it is reached."""
    if e.op.startswith("self."):
        many = compile_sibling(e.op[5:], e.args, e.kwargs, machine)
        return lambda env: _one_or_all(many(env))
    if lookup(e.op) is not None:
        args, kwargs = canonical(e.op, e.args, e.kwargs)
        compute = meaning_of(e.op)
    else:
        args, kwargs, compute = e.args, e.kwargs, _builtin(e.op, machine)
    if compute is None:
        return _unsupported(e.op)
    getters = [compile_expr(a, machine) for a in args]
    if e.op.startswith("tensor."):
        getters = [_narrowed(e.op, i, a, g) for i, (a, g) in enumerate(zip(args, getters, strict=True))]
    keywords = [(k, compile_expr(v, machine)) for k, v in kwargs]
    if all(isinstance(v, (Const, Symbol)) for _, v in kwargs):
        fixed = {k: g({}) for k, g in keywords}
        return lambda env: compute([g(env) for g in getters], fixed)
    return lambda env: compute([g(env) for g in getters], {k: g(env) for k, g in keywords})


def _narrowed(op: str, index: int, e: Expr, get: Getter) -> Getter:
    """An operand of a tensor operation; a tensor whose type says that only a part of it holds data is taken so."""
    d = lookup(op)
    if not isinstance(e, Var) or not isinstance(e.type, TensorType) or e.type.view is None or d is None or d.kind == "scalar":
        return get
    valid = valid_of(e.type)
    if valid == e.type.shape or index in d.effects.reads or index in d.effects.writes:
        return get
    return lambda env: narrowed(get(env), valid)  # type: ignore[arg-type]


def compile_sibling(
    name: str, args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...], machine: Machine
) -> Callable[[Env], list[Any]]:
    """A call of another function of the program, as the list of its results."""
    getters = [compile_expr(a, machine) for a in args]
    keywords = [(k, compile_expr(v, machine)) for k, v in kwargs]
    return lambda env: machine.call(name, [g(env) for g in getters], {k: g(env) for k, g in keywords})


def _one_or_all(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _unsupported(op: str) -> Getter:
    def fail(env: Env) -> Any:
        near = nearest_operation(op)
        hint = "" if near is None else f" (did you mean {near}?)"
        raise SemanticsError(f"{op} has no reference semantics: it is carried along, not executed{hint}")

    return fail


def scalar_cast(value: Any, dtype: DType) -> Any:
    """A Python scalar as ``dtype`` holds it: toward zero for integers (which wrap), to nearest for floats."""
    if dtype.is_float:
        return float(np.asarray(float(value)).astype(np.float32).astype(numpy_dtype(dtype)))
    if dtype.kind == "bool":
        return bool(value)
    whole = int(value)
    if dtype.kind == "uint":
        return whole & ((1 << dtype.bits) - 1)
    half = 1 << (dtype.bits - 1)
    return (whole + half) % (2 * half) - half


def _updated(array: list[Any], index: int, value: Any) -> list[Any]:
    return [*array[:index], value, *array[index + 1 :]]


def _builtin(op: str, machine: Machine) -> Meaning | None:
    """Scalar built-ins, arrays of scalars, and the questions a kernel may ask about its core."""
    if op == "cast":
        return lambda args, kw: scalar_cast(args[0], args[1] if len(args) > 1 else kw["target_type"])
    if op in ("get_block_idx", "tile.get_block_idx"):
        return lambda args, kw: machine.block
    if op in ("get_block_num", "tile.get_block_num"):
        return lambda args, kw: machine.blocks
    return _BUILTINS.get(op)


_BUILTINS: dict[str, Meaning] = {
    "min": lambda args, kw: min(args),
    "max": lambda args, kw: max(args),
    "const": lambda args, kw: args[0],
    "func_attr": lambda args, kw: None,
    "array.create": lambda args, kw: [0] * args[0],
    "array.get_element": lambda args, kw: args[0][args[1]],
    "array.update_element": lambda args, kw: _updated(args[0], args[1], args[2]),
}
