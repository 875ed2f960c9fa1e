"""Types of the structured loop IR: tensors in global memory, tiles on chip, scalars."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from cost.dtypes import DType

if TYPE_CHECKING:
    from ir_bridge.ir.nodes import Expr

#: A dimension: a number, or an expression over names (``pl.dynamic``, scalars).
Dim = Union[int, "Expr"]


class Space(enum.Enum):
    """A memory space, named as PyPTO's ``pl.Mem``."""

    DDR = "DDR"
    VEC = "Vec"
    MAT = "Mat"
    LEFT = "Left"
    RIGHT = "Right"
    ACC = "Acc"
    BIAS = "Bias"
    SCALAR_LOCAL = "ScalarLocal"
    LEFT_SCALE = "LeftScale"
    RIGHT_SCALE = "RightScale"


@dataclass(frozen=True, slots=True)
class View:
    """How a tile lies in its buffer. ``None`` means: as the space implies.

    ``valid_shape`` is the region that holds data, within the physical shape. Layout fields are PyPTO's words:
    ``blayout``/``slayout`` one of "row_major", "col_major", "none_box"; ``compact`` "normal" or None; ``pad`` likewise text.
    """

    valid_shape: tuple[Dim, ...] | None = None
    stride: tuple[Dim, ...] | None = None
    start_offset: Dim | None = None
    blayout: str | None = None
    slayout: str | None = None
    fractal: int | None = None
    pad: str | None = None
    compact: str | None = None


PLAIN = View()

#: (blayout, slayout, fractal) that a space implies; None is a tile not placed yet.
IMPLIED_LAYOUT: dict[Space | None, tuple[str, str, int]] = {
    Space.MAT: ("col_major", "row_major", 512),
    Space.LEFT: ("col_major", "row_major", 512),
    Space.RIGHT: ("row_major", "col_major", 512),
    Space.ACC: ("col_major", "row_major", 1024),
}
_VECTOR_LAYOUT = ("row_major", "none_box", 512)


def implied_layout(space: Space | None) -> tuple[str, str, int]:
    """(blayout, slayout, fractal) of a tile in ``space`` that says nothing else."""
    return IMPLIED_LAYOUT.get(space, _VECTOR_LAYOUT)


@dataclass(frozen=True, slots=True)
class TensorType:
    """A global-memory tensor. ``view`` is the text of a ``pl.TensorView(...)``, kept as written; ``distributed`` says that
    this is the local window of a tensor that other devices hold parts of (``pld.DistributedTensor``)."""

    shape: tuple[Dim, ...]
    dtype: DType
    view: str | None = None
    distributed: bool = False


@dataclass(frozen=True, slots=True)
class TileType:
    """An on-chip tile: physical ``shape`` in elements, element type, space (None: not placed yet), view."""

    shape: tuple[Dim, ...]
    dtype: DType
    space: Space | None = None
    view: View = field(default=PLAIN)

    @property
    def valid(self) -> tuple[Dim, ...]:
        """The valid region, which is the whole tile unless the view says otherwise."""
        return self.shape if self.view.valid_shape is None else self.view.valid_shape

    @property
    def layout(self) -> tuple[str, str, int]:
        """(blayout, slayout, fractal), the view's where it speaks, else what the space implies."""
        implied = implied_layout(self.space)
        view = self.view
        return (view.blayout or implied[0], view.slayout or implied[1], view.fractal or implied[2])

    @property
    def static(self) -> bool:
        """Is the physical shape all numbers?"""
        return all(isinstance(d, int) for d in self.shape)

    def elements(self) -> int:
        """Physical elements; only for static tiles."""
        n = 1
        for d in self.shape:
            assert isinstance(d, int)
            n *= d
        return n

    def at(self, space: Space | None) -> TileType:
        """The same tile in another space, in the layout that space implies (valid region kept)."""
        return TileType(self.shape, self.dtype, space, View(valid_shape=self.view.valid_shape))


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A scalar: index arithmetic, loop counters, predicates."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class OtherType:
    """A type tilesat only carries along (arrays, communication handles…), as written; "" when nothing was written."""

    text: str = ""


UNKNOWN = OtherType()

Type = Union[TensorType, TileType, ScalarType, OtherType]
