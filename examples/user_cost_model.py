"""A cost model of one's own: the roofline, with the first load and the last product where nothing hides them.

The specification's roofline takes loads and products to overlap all the way: max(load, MAD). But the first product waits for its
panels, and behind the last panels there is a product left. So:

    compute = max(load + one product, the first two panels + MAD)

The rest is the roofline's. Use it like any model:

    tilesat.choose_tile(M=…, N=…, K=…, dtype="bf16", target="910B", cost_model=PipelineFill())
    tilesat study cost-models --model roofline --model examples/user_cost_model.py:PipelineFill
"""

from __future__ import annotations

import numpy as np

from cost.breakdown import Breakdown
from cost.hardware import Target
from cost.problem import Candidates, Problem
from cost.roofline import combine, mad_cycles, price
from cost.volume import blocks


class PipelineFill:
    """max(load + one product, first panels + MAD) + drain; with two accumulators as the roofline hides the drain."""

    name = "pipeline-fill"

    def price(self, candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
        p, r = problem, target.roofline
        terms = price(candidates, problem, target)
        m, n, k = (np.minimum(x, most).astype(np.float64) for x, most in zip(tile(candidates), (p.M, p.N, p.K), strict=True))
        windows, panels = blocks(p.M, m) * blocks(p.N, n), blocks(p.K, k)
        first = m * k * p.a.bytes / r.bw_l0a + k * n * p.b.bytes / r.bw_l0b
        one = mad_cycles(m, n, k, problem, target) / panels
        compute = np.maximum(terms.load + one, first + terms.mad)
        return combine(compute, terms.mad, terms.drain, windows, candidates)


def tile(c: Candidates) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The extents of every candidate."""
    return c.m, c.n, c.k
