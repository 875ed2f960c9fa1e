"""Operations on tensors in global memory: allocation, element access, windows and views.

What an author writes on whole tensors (arithmetic, products, reductions) is in :mod:`ir_bridge.ir.ops_tensor_math`; here
are the operations whose subject is memory itself (specification 2, "GM identity", "memory consistency"). A tensor value that
was computed has no address yet: conversion decides whether it lives on chip or in global memory.
"""

from __future__ import annotations

import re

from cost.dtypes import INDEX
from ir_bridge.ir.nodes import Expr, Symbol
from ir_bridge.ir.ops_registry import (
    Arg,
    Effects,
    Kwargs,
    OpDef,
    OpError,
    TypeRule,
    as_dim,
    dims,
    dtype_of,
    register,
    show,
    tensor_of,
)
from ir_bridge.ir.ops_types import check_valid, check_window, operand_type, scalar
from ir_bridge.ir.tile_types import narrowing_allowed
from ir_bridge.ir.types import Dim, TensorType, Type

#: What ``tensor.create`` allocates unless it says otherwise.
ND_LAYOUT = Symbol("pl.TensorLayout.ND")


def tensor_operand(op: str, name: str, e: Expr) -> TensorType:
    """The tensor type of an operand, or an OpError naming it."""
    return tensor_of(op, name, operand_type(e))


def computed(t: TensorType) -> TensorType:
    """The type of a result like ``t`` that is computed: without a view of memory, and on no other device."""
    return t if t.view is None and not t.distributed else TensorType(t.shape, t.dtype)


_VALID = re.compile(r"\bvalid_shape=\[([\d, ]+)\]")


def valid_of(t: TensorType) -> tuple[Dim, ...]:
    """The part of a tensor in memory that holds data: what its view says in numbers, else all of it."""
    found = _VALID.search(t.view) if t.view is not None else None
    if found is None:
        return t.shape
    valid = tuple([int(n) for n in found[1].split(",")])
    return valid if len(valid) == len(t.shape) else t.shape


def elements(shape: tuple[Dim, ...]) -> int | None:
    """How many elements a static shape holds; None when a dimension is not a number."""
    n = 1
    for d in shape:
        if not isinstance(d, int):
            return None
        n *= d
    return n


# -- rules -------------------------------------------------------------------------------------------------------------


def _read(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    t = tensor_operand("tensor.read", "the source", args[0])
    _indices("tensor.read", args[1], t)
    return (scalar(t.dtype),)


def _write(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    _indices("tensor.write", args[1], tensor_operand("tensor.write", "the destination", args[0]))
    return ()


def _indices(op: str, e: Expr, t: TensorType) -> None:
    at = dims(op, "indices", e)
    if len(at) != len(t.shape):
        raise OpError(f"{op}: {len(at)} indices into a tensor of rank {len(t.shape)}")
    for i, d in zip(at, t.shape, strict=True):
        if isinstance(i, int) and isinstance(d, int) and i >= d:
            raise OpError(f"{op}: index {show(at)} lies outside {show(t.shape)}")


def _dim(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    t = tensor_operand("tensor.dim", "the tensor", args[0])
    axis = as_dim(args[1])
    if isinstance(axis, int) and not -len(t.shape) <= axis < len(t.shape):
        raise OpError(f"tensor.dim: axis {axis} of a tensor of rank {len(t.shape)}")
    return (scalar(INDEX),)


def _allocate(op: str) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        return (TensorType(dims(op, "shape", args[0]), dtype_of(op, "dtype", kw["dtype"])),)

    return rule


def _slice(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tensor_operand("tensor.slice", "the source", args[0])
    shape, offset = dims("tensor.slice", "shape", args[1]), dims("tensor.slice", "offset", args[2])
    valid = dims("tensor.slice", "valid_shape", args[3]) if len(args) > 3 else shape
    check_window("tensor.slice", src.shape, offset, valid)
    check_valid("tensor.slice", shape, valid)
    return (TensorType(shape, src.dtype),)


def _assemble(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    dst = tensor_operand("tensor.assemble", "the target", args[0])
    src = operand_type(args[1])
    shape = getattr(src, "shape", None)
    if shape is None:
        raise OpError("tensor.assemble: the source must be a tensor or a tile")
    offset = dims("tensor.assemble", "offset", args[2])
    if len(shape) == len(offset) == len(dst.shape):
        check_window("tensor.assemble", dst.shape, offset, getattr(src, "valid", shape))
    else:
        raise OpError(f"tensor.assemble: a source {show(shape)} at {show(offset)} of a target {show(dst.shape)}: ranks differ")
    if isinstance(src, TensorType) and not narrowing_allowed(src.dtype, dst.dtype):
        raise OpError(
            f"tensor.assemble: {src.dtype.name} does not go into {dst.dtype.name}; cast the source to {dst.dtype.name} first"
        )
    return (dst,)


def _reshape(op: str) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        src, shape = tensor_operand(op, "the source", args[0]), dims(op, "shape", args[1])
        have, want = elements(src.shape), elements(shape)
        if have is not None and want is not None and have != want:
            raise OpError(f"{op}: {show(src.shape)} and {show(shape)} hold different numbers of elements")
        return (TensorType(shape, src.dtype),)

    return rule


def _reinterpret(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tensor.reinterpret_view"
    src, shape, dtype = tensor_operand(op, "the source", args[0]), dims(op, "shape", args[1]), dtype_of(op, "dtype", kw["dtype"])
    have, want = elements(src.shape), elements(shape)
    if have is not None and want is not None and have * src.dtype.bits != want * dtype.bits:
        raise OpError(
            f"{op}: {show(src.shape)} of {src.dtype.name} and {show(shape)} of {dtype.name} hold different numbers of bytes"
        )
    return (TensorType(shape, dtype),)


def _set_validshape(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tensor_operand("tensor.set_validshape", "the source", args[0])
    if len(src.shape) != 2:
        raise OpError(f"tensor.set_validshape: the source must have two dimensions, not {show(src.shape)}")
    check_valid("tensor.set_validshape", src.shape, (as_dim(args[1]), as_dim(args[2])))
    return (computed(src),)


# -- the table ---------------------------------------------------------------------------------------------------------

_TENSOR = Arg("tensor", aliases=("src", "input"))
_SHAPE = Arg("shape", "list", aliases=("shapes",))
_OFFSET = Arg("offset", "list", aliases=("offsets",))
_DTYPE = Arg("dtype", "dtype")


def _memory(
    name: str,
    args: tuple[Arg, ...],
    rule: TypeRule,
    kind: str,
    effects: Effects | None = None,
    *,
    keywords: tuple[Arg, ...] = (),
    short: str | None = None,
    short_on: str = "tensor",
) -> None:
    register(OpDef(f"tensor.{name}", args, rule, kind, keywords, short or name, effects or Effects(), short_on))


_READS, _VIEWS = Effects(reads=(0,)), Effects(view=0)

_memory("read", (_TENSOR, Arg("indices", "list")), _read, "scalar", _READS)
_memory("write", (_TENSOR, Arg("indices", "list"), Arg("value")), _write, "scalar", Effects(writes=(0,)))
_memory("dim", (_TENSOR, Arg("axis")), _dim, "scalar")
_memory(
    "create",
    (_SHAPE,),
    _allocate("tensor.create"),
    "memory",
    keywords=(_DTYPE, Arg("layout", "literal", ND_LAYOUT, explicit=True)),
    short="create_tensor",
    short_on="any",
)
_memory(
    "create_l1",
    (_SHAPE,),
    _allocate("tensor.create_l1"),
    "memory",
    keywords=(_DTYPE, Arg("transpose", "literal", False)),
    short_on="any",
)
_memory("full", (_SHAPE,), _allocate("tensor.full"), "vector", keywords=(_DTYPE, Arg("value", "value")), short_on="any")
_memory("slice", (_TENSOR, _SHAPE, _OFFSET, Arg("valid_shape", "list", None)), _slice, "view", Effects(reads=(0,), view=0))
_memory(
    "assemble",
    (Arg("target"), Arg("source"), _OFFSET),
    _assemble,
    "transfer",
    Effects(writes=(0,), in_place=0),
    keywords=(Arg("atomic", "literal", None),),
)
_memory("reshape", (_TENSOR, _SHAPE), _reshape("tensor.reshape"), "view", _VIEWS)
_memory("view", (_TENSOR, _SHAPE), _reshape("tensor.view"), "view", _VIEWS)
_memory("reinterpret_view", (_TENSOR, _SHAPE), _reinterpret, "view", _VIEWS, keywords=(_DTYPE,))
_memory(
    "set_validshape",
    (_TENSOR, Arg("rows", aliases=("valid_rows",)), Arg("cols", aliases=("valid_cols",))),
    _set_validshape,
    "view",
    _VIEWS,
)
