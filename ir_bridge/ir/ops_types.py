"""The type of any expression, and dimensions that are numbers or names: arithmetic on them, and checks as far as numbers say."""

from __future__ import annotations

from cost.dtypes import BOOL, FP32, INDEX, DType
from ir_bridge.ir.nodes import Binary, Call, Const, Expr, Unary, Var
from ir_bridge.ir.ops_registry import OpError, as_expr, dtype_of, lookup, show
from ir_bridge.ir.types import UNKNOWN, Dim, ScalarType, TileType, Type

_INDEX = ScalarType(INDEX)
_BOOL = ScalarType(BOOL)
_FLOAT = ScalarType(FP32)
_SCALARS: dict[DType, ScalarType] = {}

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def scalar(dtype: DType) -> ScalarType:
    """The scalar type of an element type (one object per element type)."""
    found = _SCALARS.get(dtype)
    if found is None:
        found = _SCALARS[dtype] = ScalarType(dtype)
    return found


def type_of(e: Expr) -> Type:
    """The type of an expression; UNKNOWN for opaque calls, lists and symbols."""
    kind = type(e)
    if kind is Var:
        return e.type  # type: ignore[union-attr]
    if kind is Const:
        return _type_of_const(e)  # type: ignore[arg-type]
    if kind is Call:
        return _type_of_call(e)  # type: ignore[arg-type]
    if kind is Binary:
        return _type_of_binary(e)  # type: ignore[arg-type]
    if isinstance(e, Unary):
        return _BOOL if e.op == "not" else type_of(e.operand)
    return UNKNOWN


def operand_type(e: Expr) -> Type:
    """The type of an operand; a shorthand of :func:`type_of` for the common case of a name."""
    return e.type if type(e) is Var else type_of(e)


def result_types(op: str, args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...] = ()) -> tuple[Type, ...]:
    """The types a canonical call defines: one a result, none for a bare effect; (UNKNOWN,) for an opaque call.

    Raises OpError when the operands break the operation's rule.
    """
    d = lookup(op)
    if d is not None:
        return d.rule(args, dict(kwargs))
    return (_type_of_builtin(op, args),)


def _type_of_const(e: Const) -> Type:
    if e.dtype is not None:
        return scalar(e.dtype)
    value = e.value
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int):
        return _INDEX
    return _FLOAT if isinstance(value, float) else UNKNOWN


def _type_of_call(e: Call) -> Type:
    found = result_types(e.op, e.args, e.kwargs)
    return found[0] if len(found) == 1 else UNKNOWN


def _type_of_builtin(op: str, args: tuple[Expr, ...]) -> Type:
    """``pl.min``, ``pl.max``, ``pl.cast`` and ``pl.const`` on scalars; everything else is opaque."""
    if op in ("min", "max") and args:
        return _wider(args[0], args[1] if len(args) > 1 else args[0])
    if op in ("cast", "const") and len(args) >= 2:
        return scalar(dtype_of(f"pl.{op}", "type", args[1]))
    return UNKNOWN


def _type_of_binary(e: Binary) -> Type:
    if e.op in _COMPARISONS or (e.op in ("and", "or") and type_of(e.left) == _BOOL):
        return _BOOL
    if e.op == "/":
        found = _wider(e.left, e.right)
        return _FLOAT if found == _INDEX else found
    return _wider(e.left, e.right)


def _wider(left: Expr, right: Expr) -> Type:
    """The type of arithmetic on two scalars: a bare literal takes the other side's type."""
    bare = type(left) is Const and left.dtype is None
    t = type_of(right if bare else left)
    return t if isinstance(t, ScalarType) else UNKNOWN


# -- dimensions --------------------------------------------------------------------------------------------------------------


def same_dim(a: Dim, b: Dim) -> bool:
    """Could the two dimensions be equal? Only two different numbers can not."""
    return a == b or not (isinstance(a, int) and isinstance(b, int))


def dim_min(a: Dim, b: Dim) -> Dim:
    """min(a, b), as a number where both are, or where they are the same."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return a if a == b else Call("min", (as_expr(a), as_expr(b)))


def dim_minus(a: Dim, b: Dim) -> Dim:
    """a - b, as a number where both are."""
    if isinstance(b, int) and b == 0:
        return a
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return Binary("-", as_expr(a), as_expr(b))


def window_valid(physical: Dim, valid: Dim, offset: Dim, size: Dim) -> Dim:
    """How much of ``[offset, offset + size)`` lies in the valid part ``[0, valid)`` of an axis of ``physical`` elements.

    A wholly valid axis gives wholly valid windows: a window never reaches beyond its source.
    """
    if valid == physical:
        return size
    rest = dim_minus(valid, offset)
    if isinstance(rest, int):
        return dim_min(max(rest, 0), size)
    if isinstance(offset, int) and offset == 0:
        return valid if size == physical else dim_min(rest, size)
    return dim_min(Call("max", (as_expr(rest), as_expr(0))), size)


def valid_or_none(shape: tuple[Dim, ...], valid: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """``valid`` as a view holds it: None when it is the whole shape."""
    return None if valid == shape else valid


def is_narrowed(t: TileType) -> bool:
    """Is some part of the tile not known to be valid?"""
    return t.view.valid_shape is not None and t.view.valid_shape != t.shape


def check_window(op: str, src: tuple[Dim, ...], offset: tuple[Dim, ...], shape: tuple[Dim, ...]) -> None:
    """A window must lie in its source, as far as numbers say."""
    if not len(src) == len(offset) == len(shape):
        raise OpError(f"{op}: window {show(shape)} at {show(offset)} of a source {show(src)}: ranks differ")
    for p, o, s in zip(src, offset, shape, strict=True):
        start = o if isinstance(o, int) else 0
        if isinstance(p, int) and isinstance(s, int) and start + s > p:
            raise OpError(f"{op}: window {show(shape)} at {show(offset)} reaches beyond its source {show(src)}")


def check_valid(op: str, shape: tuple[Dim, ...], valid: tuple[Dim, ...]) -> None:
    """A valid region must lie in the physical shape, as far as numbers say."""
    if len(shape) != len(valid) or any(
        isinstance(v, int) and isinstance(s, int) and v > s for v, s in zip(valid, shape, strict=True)
    ):
        raise OpError(f"{op}: valid shape {show(valid)} does not lie in {show(shape)}")
