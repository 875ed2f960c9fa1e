"""Counts that need no hardware: blocks of a grid, bytes moved, padded volume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cost.problem import OUTPUT, A, Candidates, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray


def blocks(extent: int, tile: NDArray[np.float64]) -> NDArray[np.float64]:
    """⌈extent / tile⌉. Exact in float64 for any extent a buffer could hold, and much faster than on integers."""
    counted: NDArray[np.float64] = np.ceil(extent / tile)
    return counted


def held(candidates: Candidates, problem: Problem) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(A is held, B is held) across the grid, one flag a candidate: only where one block covers K."""
    full = candidates.k >= problem.K
    a = np.where(candidates.stationarity == OUTPUT, candidates.holds_a, candidates.stationarity == A)
    return full & a, full & ~a


def traffic_bytes(candidates: Candidates, problem: Problem) -> NDArray[np.int64]:
    """Bytes moved: s_a·M·K·r_a + s_b·K·N·r_b + s_c·M·N·γ.

    r_a = 1 where A is held across the grid, else ⌈N/n⌉; r_b = 1 where B is held, else ⌈M/m⌉; γ = 2 where the caller's accumulator
    is read, else 1. The extents are the true ones.
    """
    p = problem
    a_held, b_held = held(candidates, p)
    r_a = np.where(a_held, 1, -(-p.N // candidates.n))
    r_b = np.where(b_held, 1, -(-p.M // candidates.m))
    result = p.c.bytes * p.M * p.N * (2 if p.accumulate else 1)
    total: NDArray[np.int64] = p.a.bytes * p.M * p.K * r_a + p.b.bytes * p.K * p.N * r_b + result
    return total


def padded_volume(candidates: Candidates, problem: Problem) -> NDArray[np.int64]:
    """⌈M/m⌉m · ⌈N/n⌉n · ⌈K/k⌉k: elements multiplied when every tile is charged as a full one."""
    p, c = problem, candidates
    volume: NDArray[np.int64] = -(-p.M // c.m) * c.m * (-(-p.N // c.n) * c.n) * (-(-p.K // c.k) * c.k)
    return volume
