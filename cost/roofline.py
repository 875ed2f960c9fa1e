"""The roofline wall of an L0 tile, as specification 1 has it ("Cost model & design space").

    one accumulator:   wall = max(load, MAD) + drain                      (the drain is exposed)
    two accumulators:  wall = max(load, MAD, drain) + min(compute, drain) / T,  compute = max(load, MAD), T output tiles

The terms, all in cycles of one core, with true M, N, K, element bytes s_a, s_b, s_c and the target's constants:

    load   operands from Mat into L0A and L0B. A_once = M·K·s_a / bw_l0a and B_once = K·N·s_b / bw_l0b; an operand that is held
           across the grid is loaded once, one that streams again for every block of the other axis
    MAD    per tile and K block: mad_head + passes · ⌈m/16⌉ · ⌈n/align_n⌉ · ⌈width·s_a / mad_k_fractal_bytes⌉
    drain  per tile: drain_fixed + m · (max(drain_row, s_c·n / bw_drain) + drain_penalty · (odd(N1) − 1)), with N1 the number of
           accumulator fractals of drain_c0_bytes along n, and odd(x) the odd part of x

MAD and drain charge a boundary tile as a full one. Everything is exact in float64 up to the final division, and vectorised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cost.breakdown import Breakdown
from cost.hardware import Target
from cost.problem import Candidates, Problem
from cost.volume import blocks, held

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Extent = TypeVar("Extent", int, NDArray[np.int64])
else:
    Extent = TypeVar("Extent")


def loads_once(problem: Problem, target: Target) -> tuple[float, float]:
    """(A_once, B_once): cycles to load each whole operand one time."""
    p, r = problem, target.roofline
    return p.M * p.K * p.a.bytes / r.bw_l0a, p.K * p.N * p.b.bytes / r.bw_l0b


def hoist_a(problem: Problem, target: Target, m: Extent, n: Extent) -> Extent:
    """Does an output-stationary full-K grid of m × n tiles hold A in its outer loop (rows outer)? Ties hold A.

    Decided in bandwidth-weighted cycles, not in bytes. Takes integers or arrays; bool, or an array of them.
    """
    a_once, b_once = loads_once(problem, target)
    return a_once + b_once * -(-problem.M // m) <= a_once * -(-problem.N // n) + b_once  # type: ignore[return-value]


def passes(problem: Problem, target: Target) -> float:
    """How often the cube goes over one fractal: more for 4-byte operands, by the target's factor."""
    size = problem.a.bytes
    return target.roofline.mad_fp32_passes if size == 4 else max(1.0, size / 2)


def load_cycles(candidates: Candidates, problem: Problem, target: Target, rows: Array, columns: Array) -> Array:
    """Cycles to load the operands of every candidate; ``rows`` × ``columns`` tiles in its grid."""
    a_once, b_once = loads_once(problem, target)
    a_held, b_held = held(candidates, problem)
    load: Array = a_once * np.where(a_held, 1.0, columns) + b_once * np.where(b_held, 1.0, rows)
    return load


def mad_cycles(m: Array, n: Array, k: Array, problem: Problem, target: Target) -> Array:
    """Cycles of the cube for one m × n output tile over all of K; the K tail is a block of its own width."""
    r = target.roofline
    size, step = problem.a.bytes, r.mad_k_fractal_bytes
    fractals = np.ceil(m / 16) * np.ceil(n / problem.align_n) * passes(problem, target)
    full = np.floor(problem.K / k)
    tail = problem.K - full * k
    k_steps = full * np.ceil(k * size / step) + np.ceil(tail * size / step)
    cycles: Array = r.mad_head * (full + (tail > 0)) + fractals * k_steps
    return cycles


def drain_cycles(m: Array, n: Array, problem: Problem, target: Target) -> Array:
    """Cycles of FIXPIPE to move one m × n accumulator out of L0C."""
    r = target.roofline
    fractals = np.ceil(n * problem.c.bytes / r.drain_c0_bytes).astype(np.int64)
    odd_part = fractals / (fractals & -fractals)
    per_row = np.maximum(r.drain_row, n * problem.c.bytes / r.bw_drain) + r.drain_penalty * (odd_part - 1)
    cycles: Array = r.drain_fixed + m * per_row
    return cycles


def combine(load: Array, mad: Array, drain: Array, tiles: Array, candidates: Candidates) -> Breakdown:
    """The wall from its terms, by the number of accumulators."""
    compute = np.maximum(load, mad)
    two = candidates.dbc == 2
    if not two.any():
        return Breakdown(load, mad, drain, np.zeros(len(load)), compute + drain)
    bubble = np.where(two, np.minimum(compute, drain) / tiles, 0.0)
    return Breakdown(load, mad, drain, bubble, np.where(two, np.maximum(compute, drain) + bubble, compute + drain))


def price(candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
    """The roofline wall of every candidate, in cycles, with its terms."""
    m, n, k = (x.astype(np.float64) for x in (candidates.m, candidates.n, candidates.k))
    rows, columns = blocks(problem.M, m), blocks(problem.N, n)
    tiles = rows * columns
    load = load_cycles(candidates, problem, target, rows, columns)
    mad = tiles * mad_cycles(m, n, k, problem, target)
    drain = tiles * drain_cycles(m, n, problem, target)
    return combine(load, mad, drain, tiles, candidates)
