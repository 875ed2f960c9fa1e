"""A cost model of one's own: the roofline, without the overlap that the loops do not have.

The specification's roofline takes loads and products to overlap all the way: max(load, MAD). Two things are in the way.

* The first product waits for its panels, and behind the last panels there is a product left:
  compute = max(load + one product, first panels + MAD).
* An operand that is held in one buffer (A- and B-stationary) cannot load its next panel before the last product with this one is
  through, so every panel of it but the first is waited for.

The rest is the roofline's. Use it like any model:

    tilesat.choose_tile(M=…, N=…, K=…, dtype="bf16", target="910B", cost_model=PipelineFill())
    tilesat study cost-models --model roofline --model examples/user_cost_model.py:PipelineFill
"""

from __future__ import annotations

import numpy as np

from cost.breakdown import Breakdown
from cost.hardware import Target
from cost.problem import OUTPUT, Candidates, Problem
from cost.roofline import combine, loads_once, mad_cycles, price
from cost.volume import blocks, held


class PipelineFill:
    """max(load + one product, first panels + MAD), the panels waited for, and the drain as the roofline has it."""

    name = "pipeline-fill"

    def price(self, candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
        p, r, c = problem, target.roofline, candidates
        terms = price(c, problem, target)
        m, n, k = (np.minimum(x, most).astype(np.float64) for x, most in ((c.m, p.M), (c.n, p.N), (c.k, p.K)))
        rows, columns, panels = blocks(p.M, m), blocks(p.N, n), blocks(p.K, k)
        first = m * k * p.a.bytes / r.bw_l0a + k * n * p.b.bytes / r.bw_l0b
        one = mad_cycles(m, n, k, problem, target) / panels
        compute = np.maximum(terms.load + one, first + terms.mad)
        priced = combine(compute, terms.mad, terms.drain, rows * columns, c)
        return Breakdown(terms.load, terms.mad, terms.drain, priced.bubble, priced.wall + waited_for(c, p, target, rows, columns))


def waited_for(c: Candidates, p: Problem, target: Target, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Cycles spent on panels of an operand in one buffer, all but the first."""
    a_once, b_once = loads_once(p, target)
    a_held, b_held = held(c, p)
    one_buffer = c.stationarity != OUTPUT
    return one_buffer * (a_held * a_once * (1 - 1 / rows) + b_held * b_once * (1 - 1 / columns))
