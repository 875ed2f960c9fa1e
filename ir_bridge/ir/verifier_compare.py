"""Do two types agree? The answer is what differs, in words."""

from __future__ import annotations

from ir_bridge.ir.ops_registry import describe, show
from ir_bridge.ir.types import Dim, OtherType, ScalarType, TensorType, TileType, Type


def mismatch(expected: Type, found: Type, layout: bool = True) -> str | None:
    """How ``found`` differs from ``expected``, or None; unknown types and dimensions agree with anything.

    ``layout`` False leaves the layout of tiles (blayout, slayout) out of the comparison.
    """
    if expected is found or expected == found or isinstance(expected, OtherType) or isinstance(found, OtherType):
        return None
    if isinstance(expected, TileType) and isinstance(found, TileType):
        return _tiles(expected, found, layout)
    if isinstance(expected, TensorType) and isinstance(found, TensorType):
        if _dims_differ(expected.shape, found.shape) or expected.dtype != found.dtype:
            return f"expected {describe(expected)}, found {describe(found)}"
        return None
    if isinstance(expected, ScalarType) and isinstance(found, ScalarType) and _group(expected) == _group(found):
        return None
    return f"expected {describe(expected)}, found {describe(found)}"


def _group(t: ScalarType) -> str:
    """Scalars of one group convert into each other silently."""
    return "int" if t.dtype.kind in ("int", "uint", "index") else t.dtype.kind


def _dims_differ(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Are the shapes certainly different?"""
    return len(a) != len(b) or any(isinstance(p, int) and isinstance(q, int) and p != q for p, q in zip(a, b, strict=True))


def _tiles(expected: TileType, found: TileType, layout: bool) -> str | None:
    if _dims_differ(expected.shape, found.shape) or expected.dtype != found.dtype:
        return f"expected {describe(expected)}, found {describe(found)}"
    if expected.space is not found.space and expected.space is not None and found.space is not None:
        return f"expected {describe(expected)}, found it in {found.space.value}"
    if _valid_differs(expected, found):
        return f"expected valid shape {show(expected.valid)}, found {show(found.valid)} (physical {show(found.shape)})"
    if expected.view.compact != found.view.compact:
        return f"expected compact={expected.view.compact or 'none'}, found compact={found.view.compact or 'none'}"
    if layout and expected.space is found.space and expected.layout[:2] != found.layout[:2]:
        return f"expected layout {'/'.join(expected.layout[:2])}, found {'/'.join(found.layout[:2])}"
    return None


def _valid_differs(a: TileType, b: TileType) -> bool:
    """Valid regions differ when numbers do, or when only one of them is known to be the whole tile."""
    v, w = a.view.valid_shape, b.view.valid_shape
    if v == w:
        return False
    if v is None or w is None:
        given, shape = (w, b.shape) if v is None else (v, a.shape)
        return given is not None and given != shape
    return _dims_differ(v, w)
