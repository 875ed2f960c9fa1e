"""How long one instruction takes, by lane. Cycles, on the grid of :func:`cost.simulator.core.ticks`.

MTE1, CUBE and FIXPIPE go by the target's calibrated constants (the formulas of :mod:`cost.roofline`, one tile at a time); all
that touches global memory, the vector unit or the road between the two units goes by the nominal ``machine`` figures.
"""

from __future__ import annotations

import numpy as np

from cost.dtypes import DType, accumulator
from cost.hardware import Target
from cost.problem import Problem
from cost.roofline import drain_cycles, mad_cycles
from cost.simulator.core import ticks


class Durations:
    """Durations on one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.gm_latency = ticks(target.machine.gm_latency_cycles)

    def load(self, size: int) -> float:
        """MTE2: ``size`` bytes from global memory; the data is there ``gm_latency`` later."""
        return ticks(size / self.target.machine.gm_bytes_per_cycle)

    def feed(self, size: int, buffer: str) -> float:
        """MTE1: ``size`` bytes from Mat into "l0a", "l0b" or "bias" (for which no figure is published: L0B's is taken)."""
        r = self.target.roofline
        return ticks(size / (r.bw_l0a if buffer == "l0a" else r.bw_l0b))

    def product(self, m: int, n: int, k: int, operand: DType) -> float:
        """CUBE: one instruction, an m × k tile times a k × n tile; on an empty window it is issued and does nothing."""
        if not (m and n and k):
            return ticks(self.target.roofline.mad_head)
        problem = Problem(m, n, k, operand, operand, accumulator(operand))
        (cycles,) = mad_cycles(np.array([float(m)]), np.array([float(n)]), np.array([float(k)]), problem, self.target)
        return ticks(float(cycles))

    def drain(self, m: int, n: int, c: DType) -> float:
        """FIXPIPE: an m × n accumulator out of L0C, to global memory or to Mat; what is empty costs no rows."""
        if not (m and n):
            return ticks(self.target.roofline.drain_fixed)
        (cycles,) = drain_cycles(np.array([float(m)]), np.array([float(n)]), Problem(m, n, 16, c=c), self.target)
        return ticks(float(cycles))

    def store(self, size: int) -> float:
        """MTE3: ``size`` bytes from Vec to global memory."""
        return ticks(size / self.target.machine.mte3_bytes_per_cycle)

    def crossing(self, size: int) -> float:
        """``size`` bytes between the cube's buffers and Vec, either way."""
        return ticks(size / self.target.machine.acc_vec_crossing_bytes_per_cycle)

    def vector(self, size: int) -> float:
        """VEC: an operation whose largest operand or result has ``size`` bytes."""
        return ticks(size / self.target.machine.vec_bytes_per_cycle)
