"""`roofline-v1`: the published predecessor of the roofline, for ascend910b.

Bandwidths 200 and 132 bytes a cycle into L0A and L0B, a head of 6 cycles an instruction, a drain of 245 cycles and 118 bytes a
cycle for every tile whatever its shape, and no bubble: with two accumulators the wall is the largest of the three.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from cost.breakdown import Breakdown
from cost.errors import CostModelError
from cost.hardware import Target
from cost.models.base import FunctionModel
from cost.problem import Candidates, Problem
from cost.roofline import load_cycles, mad_cycles
from cost.volume import blocks

BW_L0A, BW_L0B = 200.0, 132.0  # bytes per cycle
BW_DRAIN, DRAIN_FIXED = 118.0, 245.0  # bytes per cycle, cycles per tile
MAD_HEAD = 6.0  # cycles per instruction


def price(candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
    """max(load, MAD) + drain, or the largest of the three with two accumulators; cycles of ascend910b."""
    if target.name != "ascend910b":
        raise CostModelError(f"cost model 'roofline-v1' was published for ascend910b only, not for {target.name}")
    old = dataclasses.replace(target.roofline, bw_l0a=BW_L0A, bw_l0b=BW_L0B, mad_head=MAD_HEAD)
    chip = dataclasses.replace(target, roofline=old)
    m, n, k = (x.astype(np.float64) for x in (candidates.m, candidates.n, candidates.k))
    rows, columns = blocks(problem.M, m), blocks(problem.N, n)
    load = load_cycles(candidates, problem, chip, rows, columns)
    mad = rows * columns * mad_cycles(m, n, k, problem, chip)
    drain = rows * columns * (DRAIN_FIXED + problem.c.bytes * m * n / BW_DRAIN)
    compute = np.maximum(load, mad)
    wall = np.where(candidates.dbc == 2, np.maximum(compute, drain), compute + drain)
    return Breakdown(load, mad, drain, np.zeros(len(m)), wall)


MODEL = FunctionModel("roofline-v1", price, "the roofline's published predecessor (ascend910b only)")
