"""The op table, as the rest of the house uses it.

``lookup`` an operation, bring a call into ``canonical`` form, infer its ``result_types``, the ``type_of`` any expression,
``make`` a call from Python values, resolve a short form with ``short_op``, and ``fill`` an annotation from inference.
Operations are registered in ``ops_tile`` (cube, transfers, views), ``ops_vector``, ``ops_tensor`` and ``ops_tensor_math``
(what authors write on whole tensors), ``ops_gather`` and ``ops_batch`` (multi-core batch programs).
"""

from __future__ import annotations

from collections.abc import Sequence

from ir_bridge.ir import ops_batch, ops_gather, ops_tensor, ops_tensor_math, ops_tile, ops_vector
from ir_bridge.ir.nodes import Call, Expr
from ir_bridge.ir.ops_registry import (
    REQUIRED,
    Arg,
    Effects,
    OpDef,
    OpError,
    all_ops,
    as_expr,
    canonical,
    describe,
    dtype_symbol,
    lookup,
    register,
    short_forms,
    space_symbol,
)
from ir_bridge.ir.ops_types import operand_type, result_types, type_of
from ir_bridge.ir.types import PLAIN, ScalarType, TensorType, TileType, Type, View

#: The modules that fill the table; naming them here keeps their registrations imported.
FAMILIES = (ops_tile, ops_vector, ops_tensor, ops_tensor_math, ops_gather, ops_batch)

__all__ = [
    "FAMILIES",
    "REQUIRED",
    "Arg",
    "Effects",
    "OpDef",
    "OpError",
    "all_ops",
    "as_expr",
    "canonical",
    "describe",
    "dtype_symbol",
    "fill",
    "lookup",
    "make",
    "operand_type",
    "register",
    "result_types",
    "short_op",
    "space_symbol",
    "type_of",
]


def short_op(name: str, args: Sequence[Expr]) -> str | None:
    """The operation that ``pl.<name>(args)`` stands for, by the type of its first operand; None when the table has none.

    ``pl.add(tile, 2.0)`` and its kin with a scalar second operand are the ``adds`` forms.
    """
    candidates = short_forms(name)
    if not candidates:
        return None
    first = operand_type(args[0]) if args else None
    on = "tile" if isinstance(first, TileType) else "tensor" if isinstance(first, TensorType) else None
    for d in candidates:
        if d.short_on in ("any", on):
            scalar_form = _SCALAR_FORMS.get(d.name)
            if scalar_form is not None and len(args) > 1 and isinstance(type_of(args[1]), ScalarType):
                return scalar_form
            return d.name
    return None


_SCALAR_FORMS = {
    "tile.add": "tile.adds",
    "tile.sub": "tile.subs",
    "tile.mul": "tile.muls",
    "tile.div": "tile.divs",
    "tile.maximum": "tile.maxs",
    "tile.minimum": "tile.mins",
    "tile.cmp": "tile.cmps",
}


def make(op: str, *args: object, **kwargs: object) -> Call:
    """A canonical call of ``op`` from Python values.

    Ints, floats, text and None become constants, lists ListExprs, Space and DType symbols; expressions stay as they are.
    The call is not type-checked: ask :func:`result_types` (or a rule such as ``tile_types.matmul_type``) for its type.
    """
    exprs = tuple([as_expr(a) for a in args])
    if not kwargs and (d := lookup(op)) is not None and len(exprs) == len(d.args) and not d.keywords:
        return Call(op, exprs)
    return Call(op, *canonical(op, exprs, tuple([(k, as_expr(v)) for k, v in kwargs.items()])))


# -- annotations -------------------------------------------------------------------------------------------------------------


def fill(written: Type, inferred: Type) -> Type:
    """The type of a value that was annotated: the annotation's fields win, inference fills the gaps.

    A tile annotated without a space takes the inferred space. Layout and valid region are filled in where the annotation is
    silent and puts the tile in the same space, in the same physical shape.
    """
    if not isinstance(written, TileType) or not isinstance(inferred, TileType):
        return written
    space = written.space or inferred.space
    if space is not inferred.space or written.shape != inferred.shape:
        return written if written.space is space else TileType(written.shape, written.dtype, space, written.view)
    w, i = written.view, inferred.view
    if w == i or i == PLAIN:
        return written if written.space is space else TileType(written.shape, written.dtype, space, w)
    view = View(
        i.valid_shape if w.valid_shape is None else w.valid_shape,
        i.stride if w.stride is None else w.stride,
        i.start_offset if w.start_offset is None else w.start_offset,
        w.blayout or i.blayout,
        w.slayout or i.slayout,
        i.fractal if w.fractal is None else w.fractal,
        w.pad or i.pad,
        w.compact or i.compact,
    )
    return TileType(written.shape, written.dtype, space, view)
