"""What the Vector operations of ``ops_vector`` compute, on the valid corner of their operands.

Floating arithmetic is done in float32 and rounded to the element type once, to nearest, ties to even. Integer arithmetic wraps;
integer division truncates toward zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cost.dtypes import DTYPES, DType
from ir_bridge.ir.semantics import define, meaning
from ir_bridge.ir.semantics_tensor import element, python_scalar
from ir_bridge.ir.semantics_values import Array, SemanticsError, Tile, as_float, extreme, numpy_dtype, tile_from

Args = Sequence[Any]
Kw = Mapping[str, Any]
_UINT8 = DTYPES["uint8"]


def _operand(values: Array, dtype: DType) -> Array:
    return as_float(values, dtype) if dtype.is_float else values


def _rounded(values: Array, dtype: DType) -> Array:
    return np.asarray(values).astype(numpy_dtype(dtype), copy=False)


def _corner(tile: Tile, valid: tuple[int, ...]) -> Array:
    """The part of a tile that meets a result valid in ``valid``; an axis of one element stretches."""
    return tile.data[tuple([slice(0, 1 if n == 1 else v) for n, v in zip(tile.data.shape, valid, strict=True)])]


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        return np.asarray(np.trunc(a.astype(np.float64) / b.astype(np.float64))).astype(a.dtype)
    return np.asarray(a / b)


_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
_ONE: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "recip": lambda x: 1.0 / x,
    "relu": lambda x: np.maximum(x, 0),
    "not": np.invert,
}
_REDUCE: dict[str, Callable[..., Any]] = {"max": np.max, "min": np.min, "sum": np.sum}


def _binary(compute: Callable[[Any, Any], Any]) -> Callable[[Args, Kw], Tile]:
    def run(args: Args, kw: Kw) -> Tile:
        a, b = args
        shape = np.broadcast_shapes(a.data.shape, b.data.shape)
        valid = tuple([w if p == 1 else v for p, v, w in zip(a.data.shape, a.valid, b.valid, strict=True)])
        x, y = _operand(_corner(a, valid), a.dtype), _operand(_corner(b, valid), b.dtype)
        with np.errstate(all="ignore"):
            return tile_from(_rounded(compute(x, y), a.dtype), a.dtype, shape)

    return run


def _with_scalar(compute: Callable[[Any, Any], Any]) -> Callable[[Args, Kw], Tile]:
    def run(args: Args, kw: Kw) -> Tile:
        a, scalar = args
        x = _operand(a.region, a.dtype)
        with np.errstate(all="ignore"):
            return tile_from(_rounded(compute(x, np.asarray(scalar).astype(x.dtype)), a.dtype), a.dtype, a.data.shape)

    return run


def _unary(compute: Callable[[Any], Any]) -> Callable[[Args, Kw], Tile]:
    def run(args: Args, kw: Kw) -> Tile:
        a = args[0]
        with np.errstate(all="ignore"):
            return tile_from(_rounded(compute(_operand(a.region, a.dtype)), a.dtype), a.dtype, a.data.shape)

    return run


def _reduction(compute: Callable[..., Any], axis: int) -> Callable[[Args, Kw], Tile]:
    def run(args: Args, kw: Kw) -> Tile:
        a = args[0]
        shape = list(a.data.shape)
        shape[axis] = 1
        with np.errstate(all="ignore"):
            value = compute(_operand(a.region, a.dtype), axis=axis, keepdims=True)
        return tile_from(_rounded(value, a.dtype), a.dtype, tuple(shape))

    return run


for _name, _f in _TWO.items():
    define(f"tile.{_name}", _binary(_f))
for _name, _scalar_form in zip(_TWO, ("adds", "subs", "muls", "divs", "maxs", "mins"), strict=True):
    define(f"tile.{_scalar_form}", _with_scalar(_TWO[_name]))
for _name, _g in _ONE.items():
    define(f"tile.{_name}", _unary(_g))
for _name, _h in _REDUCE.items():
    define(f"tile.row_{_name}", _reduction(_h, -1))
    define(f"tile.col_{_name}", _reduction(_h, -2))
for _axis in ("row", "col"):
    define(f"tile.{_axis}_expand", _binary(lambda x, v: np.broadcast_to(v, x.shape)))
    for _name in ("add", "sub", "mul", "div"):
        define(f"tile.{_axis}_expand_{_name}", _binary(_TWO[_name]))


# -- fills, comparison, selection ------------------------------------------------------------------------------------------------


@meaning("tile.full")
def full(args: Args, kw: Kw) -> Tile:
    data = np.full(args[0], kw["value"]).astype(numpy_dtype(kw["dtype"]))
    return Tile(data, args[0], kw["dtype"])


@meaning("tile.ci")
def ci(args: Args, kw: Kw) -> Tile:
    """``start, start + 1, …`` (or downward) row by row."""
    start, shape = args
    count = np.arange(int(np.prod(shape))).reshape(shape)
    data = (start - count if kw.get("descending") else start + count).astype(numpy_dtype(kw["dtype"]))
    return Tile(data, tuple(shape), kw["dtype"])


_COMPARE: tuple[Callable[[Any, Any], Any], ...] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)


def comparison(op: str, kw: Kw) -> Callable[[Any, Any], Any]:
    """The comparison that ``cmp_type`` of ``op`` means (the first one where it is not given)."""
    kind = kw.get("cmp_type", 0)
    if not isinstance(kind, int) or not 0 <= kind < len(_COMPARE):
        raise SemanticsError(f"{op}: cmp_type {kind!r}; known: 0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge")
    return _COMPARE[kind]


def _packed(a: Tile, other: Any, kw: Kw) -> Tile:
    """One bit an element, packed along the rows, first element in the lowest bit."""
    bits = comparison("tile.cmp", kw)(_operand(a.region, a.dtype), other)
    return tile_from(np.packbits(bits, axis=-1, bitorder="little"), _UINT8, a.data.shape)


@meaning("tile.cmp")
def cmp(args: Args, kw: Kw) -> Tile:
    a, b = args
    return _packed(a, _operand(_corner(b, a.valid), b.dtype), kw)


@meaning("tile.cmps")
def cmps(args: Args, kw: Kw) -> Tile:
    return _packed(args[0], args[1], kw)


@meaning("tile.sel")
def sel(args: Args, kw: Kw) -> Tile:
    """``a`` where the packed predicate has a one, else ``b``."""
    mask, a, b = args[:3]
    rows, cols = a.valid
    bits = np.unpackbits(mask.data[:rows, : (cols + 7) // 8], axis=-1, bitorder="little")[:, :cols]
    return tile_from(np.where(bits == 1, a.region, _corner(b, a.valid)).astype(a.data.dtype), a.dtype, a.data.shape)


@meaning("tile.scatter")
def scatter(args: Args, kw: Kw) -> Tile:
    """The destination with each source element written at its flat index, in row order."""
    dst, src, indexes = args
    flat = indexes.data[tuple([slice(0, v) for v in src.valid])].astype(np.int64)
    if flat.size and (flat.min() < 0 or flat.max() >= dst.data.size):
        raise SemanticsError(f"tile.scatter: an index lies outside the {dst.data.size} elements of the destination")
    data = dst.data.copy()
    data.reshape(-1)[flat.reshape(-1)] = src.region.reshape(-1)
    return Tile(data, dst.valid, dst.dtype)


@meaning("tile.transpose")
def transpose(args: Args, kw: Kw) -> Tile:
    a, one, two = args[:3]
    valid = list(a.valid)
    valid[one], valid[two] = valid[two], valid[one]
    return Tile(a.data.swapaxes(one, two).copy(), tuple(valid), a.dtype)


@meaning("tile.fillpad")
def fillpad(args: Args, kw: Kw) -> Tile:
    """The tile with everything outside its valid corner set to the pad value (0 unless said)."""
    a = args[0]
    data = np.full(a.data.shape, _pad_value(kw.get("pad_value"), a.dtype)).astype(a.data.dtype)
    data[tuple([slice(0, v) for v in a.valid])] = a.region
    return Tile(data, a.data.shape, a.dtype)


def _pad_value(value: Any, dtype: DType) -> Any:
    if value is None or isinstance(value, (int, float)):
        return value or 0
    word = str(getattr(value, "text", value)).rsplit(".", 1)[-1].lower()
    if word in ("null", "zero"):
        return 0
    if word in ("max", "min"):
        return extreme(dtype, word == "max")
    raise SemanticsError(f"tile.fillpad: pad_value {word!r}; known: a number, zero, min, max")


@meaning("tile.read")
def read(args: Args, kw: Kw) -> int | float | bool:
    tile, indices = args
    return python_scalar(tile.data[element("tile.read", tile.data, indices)])


@meaning("tile.write")
def write(args: Args, kw: Kw) -> None:
    tile, indices, value = args
    tile.data[element("tile.write", tile.data, indices)] = value
