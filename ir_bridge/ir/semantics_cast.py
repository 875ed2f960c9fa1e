"""The seven cast modes, exactly.

Between the two neighbours of ``x`` in the target type (or the two integers around it):

=====  ==============================================================================================
rint   the nearer one; on a tie the one with an even last bit
round  the nearer one; on a tie the one farther from zero
floor  the one toward minus infinity
ceil   the one toward plus infinity
trunc  the one toward zero
odd    the one with an odd last bit (von Neumann rounding: a later, narrower rounding stays correct)
none   as rint. The mode means "no rounding needed"; where the value does need rounding, the vector unit takes rint
=====  ==============================================================================================

A value the target holds is never changed. Beyond the largest finite value, the next step of the grid counts as the neighbour and
becomes infinity; element types without an infinity, and integers, saturate. NaN stays NaN; as an integer it is 0.
"""

from __future__ import annotations

import numpy as np

from cost.dtypes import DType
from ir_bridge.ir.semantics_values import Array, SemanticsError, extreme, numpy_dtype

#: Element types whose every value the second holds (beside the type itself).
_WIDENS = {
    "bf16": ("fp32",),
    "fp16": ("fp32",),
    "fp8e4m3fn": ("bf16", "fp16", "fp32"),
    "fp8e5m2": ("bf16", "fp16", "fp32"),
    "fp4": ("fp8e4m3fn", "fp8e5m2", "bf16", "fp16", "fp32"),
}


def cast(values: Array, source: DType, target: DType, mode: str) -> Array:
    """``values`` of element type ``source`` as ``target``, rounded by ``mode``."""
    held = numpy_dtype(target)
    if target.name in _WIDENS.get(source.name, ()):
        return values.astype(held)
    if "fp8e8m0" in (source.name, target.name):
        raise SemanticsError("tile.cast: fp8e8m0 holds scales, which no cast converts")
    with np.errstate(over="ignore", invalid="ignore"):
        if not target.is_float:
            return _to_integer(values, source, target, mode)
        if source.name == "fp32" and target.name in ("bf16", "fp16") and mode in ("rint", "none"):
            return values.astype(held)
        return _to_float(values.astype(np.float64), target, mode)


def _to_integer(values: Array, source: DType, target: DType, mode: str) -> Array:
    """Round to whole numbers by ``mode`` and saturate."""
    held = numpy_dtype(target)
    low, high = _integer_range(target)
    if not source.is_float:
        return np.clip(values.astype(np.int64), low, high).astype(held)
    whole = round_to_whole(values.astype(np.float64), mode)
    whole = np.nan_to_num(whole, nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = np.clip(whole, float(low), np.nextafter(float(high) + 1.0, 0.0))
    exact = np.where(whole >= float(high), high, inside.astype(np.int64))
    return exact.astype(held)


def _integer_range(dtype: DType) -> tuple[int, int]:
    if dtype.kind in ("int", "index"):
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    if dtype.name == "bool":
        return 0, 1
    return 0, min((1 << dtype.bits) - 1, (1 << 63) - 1)


def round_to_whole(x: Array, mode: str) -> Array:
    """``x`` (float64) rounded to whole numbers by ``mode``."""
    down = np.floor(x)
    up = np.ceil(x)
    if mode == "floor":
        return down
    if mode == "ceil":
        return up
    if mode == "trunc":
        return np.trunc(x)
    if mode == "odd":
        return np.where(down == x, x, np.where(np.mod(down, 2.0) == 1.0, down, up))
    if mode == "round":
        return np.where(x >= 0, np.floor(x + 0.5), np.ceil(x - 0.5))
    return np.rint(x)


def _to_float(x: Array, target: DType, mode: str) -> Array:
    """``x`` (float64) on the grid of ``target``, by choosing between its two neighbours there."""
    held = numpy_dtype(target)
    bits = np.dtype(f"u{held.itemsize}")
    near = x.astype(held)
    largest = np.array(extreme(target), dtype=held)
    beyond = np.abs(x) > largest.astype(np.float64)
    near = np.where(beyond, np.copysign(largest.astype(np.float64), x).astype(held), near).astype(held)
    order = _to_order(near.view(bits), target.bits)
    value = near.astype(np.float64)
    lower = np.where(value > x, order - 1, order)
    upper = np.where(value < x, order + 1, order)
    chosen = np.where(value == x, order, _choose(x, lower, upper, target, mode))
    top = int(_to_order(largest.view(bits), target.bits))
    chosen = np.clip(chosen, -top, top) if not _has_infinity(target) else chosen
    result = _from_order(chosen, target.bits).astype(bits).view(held)
    special = ~np.isfinite(x)
    result = np.where(special, x.astype(held), result).astype(held)
    signed = np.where((x == 0) & np.signbit(x), np.array(-0.0, held), result)
    return np.asarray(signed.astype(held))


def _choose(x: Array, lower: Array, upper: Array, target: DType, mode: str) -> Array:
    """The neighbour (as an order number) that ``mode`` takes."""
    if mode == "floor":
        return lower
    if mode == "ceil":
        return upper
    toward_zero, away = np.where(x > 0, lower, upper), np.where(x > 0, upper, lower)
    if mode == "trunc":
        return toward_zero
    odd_lower = (np.abs(lower) & 1) == 1
    if mode == "odd":
        return np.where(odd_lower, lower, upper)
    down, up = x - _grid_value(lower, target), _grid_value(upper, target) - x
    tie = away if mode == "round" else np.where(odd_lower, upper, lower)
    return np.where(down < up, lower, np.where(up < down, upper, tie))


def _grid_value(order: Array, target: DType) -> Array:
    """The value of an order number; one step past the largest finite value is the next point of the same spacing."""
    held = numpy_dtype(target)
    bits = np.dtype(f"u{held.itemsize}")
    largest = np.array(extreme(target), dtype=held)
    top = int(_to_order(largest.view(bits), target.bits))
    finite = np.clip(order, -top, top)
    value = _from_order(finite, target.bits).astype(bits).view(held).astype(np.float64)
    below = np.array(_from_order(np.array(top - 1), target.bits)).astype(bits).view(held).astype(np.float64)
    step = float(largest.astype(np.float64) - below)
    return np.asarray(value + np.sign(order) * np.where(np.abs(order) > top, step, 0.0))


def _to_order(pattern: Array, bits: int) -> Array:
    """Bit patterns as integers in the order of their values: sign and magnitude to two's complement."""
    sign = 1 << (bits - 1)
    wide = pattern.astype(np.int64)
    magnitude = wide & (sign - 1)
    return np.where(wide & sign, -magnitude, magnitude)


def _from_order(order: Array, bits: int) -> Array:
    return np.where(order < 0, (1 << (bits - 1)) - order, order)


def _has_infinity(target: DType) -> bool:
    return target.name in ("fp32", "fp16", "bf16", "fp8e5m2")
