"""The plan: what extraction decided, product by product, in words that `lift` turns into loops.

A plan speaks of program values by the identity of their SSA variable (opaque here: extraction does not know the IR).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

#: An SSA variable of the program (``ir_bridge.ir.nodes.Var``), used as a key by identity.
Value = Any


class Form(enum.Enum):
    """The shape a product takes.

    AS_IT_STANDS: the statement is kept.  K_LOOP: one accumulator, K in panels (m = M, n = N).
    GRID_STORE: an M × N grid of sub-tiles, each stored to the output.  GRID_SCRATCH: the same grid assembled into Mat.
    """

    AS_IT_STANDS = "as_it_stands"
    K_LOOP = "k_loop"
    GRID_STORE = "grid_store"
    GRID_SCRATCH = "grid_scratch"


@dataclass(frozen=True, slots=True)
class TileChoice:
    """One cube schedule: tile extents in elements, which operand the loop order holds, how many accumulators.

    ``stationarity`` is "output", "a" or "b". ``holds_a`` has meaning where k = K: does the outer loop hold A's panel
    (rows outer)? A-stationary implies True, B-stationary False.
    """

    m: int
    n: int
    k: int
    stationarity: str = "output"
    double_buffer_c: bool = False
    holds_a: bool = True


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """How one matmul, matmul_acc or matmul_bias statement runs.

    ``product`` is the statement's result. ``store`` is the result of the store a GRID_STORE replaces. ``scratch`` is the element
    type name of a GRID_SCRATCH, or of the whole-window scratch of a folded cast. ``cast`` is the result of the cast that is
    folded away (with GRID_SCRATCH: sub-tile by sub-tile; with K_LOOP or AS_IT_STANDS: one whole-window assemble).
    """

    product: Value
    form: Form
    tile: TileChoice | None = None
    store: Value | None = None
    scratch: str | None = None
    cast: Value | None = None


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """How one canonical split-K chain runs: ``loop`` is the source K-loop's result.

    ``tile`` cuts the output into (m, n) windows around the source loop. ``box_m`` and ``box_n`` are the physical boxes of a
    window. ``inner`` gives the K-tiling of the narrowed call of a window by its physical (rows, cols); a window that is missing
    keeps its call whole.
    """

    loop: Value
    tile: TileChoice
    box_m: int
    box_n: int
    inner: dict[tuple[int, int], TileChoice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything decided for one program. ``pipelines`` are results of drained loops that get two accumulators."""

    products: dict[Value, ProductPlan] = field(default_factory=dict)
    chains: dict[Value, ChainPlan] = field(default_factory=dict)
    pipelines: tuple[Value, ...] = ()
