"""What a callee's types mean to one of its callers (specification 2, "signature shapes bound and substituted simultaneously").

A call binds the callee's scalar parameters to the arguments, its tensor parameters to the tensors given, and the names that
stand alone as dimensions of its tensor parameters to the dimensions of those tensors. The substitution is simultaneous: what a
name stands for is in the caller's terms already and is not substituted again, so ``[N, M]`` passed as ``[M, 128]`` keeps its M.
"""

from __future__ import annotations

from collections.abc import Mapping

from ir_bridge.ir.nodes import Binary, Call, Const, Expr, Function, ListExpr, Unary, Var
from ir_bridge.ir.ops import type_of
from ir_bridge.ir.types import Dim, ScalarType, TensorType, Type

Binding = dict[Var, Expr]


def bind(callee: Function, given: dict[int, Expr], known: Mapping[Var, Type]) -> Binding:
    """The binding of one call; ``given`` are the arguments by position of the callee's parameters before it gained any, and
    ``known`` the types of values that the text leaves open."""
    binding: Binding = {}
    for i, p in enumerate(callee.params):
        e = given.get(i)
        if e is None:
            continue
        t = p.var.type
        if isinstance(t, (ScalarType, TensorType)):
            binding[p.var] = e
        actual = known.get(e, e.type) if isinstance(e, Var) else type_of(e)
        if isinstance(t, TensorType) and isinstance(actual, TensorType) and len(t.shape) == len(actual.shape):
            for d, a in zip(t.shape, actual.shape, strict=True):
                if isinstance(d, Var):
                    binding.setdefault(d, Const(a) if isinstance(a, int) else a)
    return binding


def substituted(e: Expr, binding: Binding) -> Expr:
    """``e`` with every bound name replaced at once."""
    if isinstance(e, Var):
        return binding.get(e, e)
    if isinstance(e, Binary):
        return Binary(e.op, substituted(e.left, binding), substituted(e.right, binding))
    if isinstance(e, Unary):
        return Unary(e.op, substituted(e.operand, binding))
    if isinstance(e, ListExpr):
        return ListExpr(tuple([substituted(i, binding) for i in e.items]), e.is_tuple)
    if isinstance(e, Call):
        kwargs = tuple([(k, substituted(v, binding)) for k, v in e.kwargs])
        return Call(e.op, tuple([substituted(a, binding) for a in e.args]), kwargs, e.attrs)
    return e


def instantiated(t: Type, binding: Binding) -> Type:
    """A callee's tensor type in the caller's terms."""
    if not isinstance(t, TensorType) or not binding:
        return t
    return TensorType(tuple([_dim(d, binding) for d in t.shape]), t.dtype, t.view, t.distributed)


def _dim(d: Dim, binding: Binding) -> Dim:
    if isinstance(d, int):
        return d
    e = substituted(d, binding)
    return e.value if isinstance(e, Const) and isinstance(e.value, int) else e
