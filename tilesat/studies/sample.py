"""Which candidates the referee is asked about, where asking about all of them would take too long.

Candidates are put into strata: their regime (which operand is held, one accumulator or two) and, within it, the quartile of how
many instructions they take. Every stratum gets one place and its share of the rest (largest remainders), drawn without
replacement from a generator that is seeded by the study's seed and the problem alone: the same candidates in every process.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cost.problem import Candidates, Problem

    Rows = NDArray[np.intp]

#: Candidates asked about in a problem, where there are more.
SAMPLE = 600
#: Instructions that the sample of one problem may take altogether; smaller samples and, beyond a ``LEAST``-th of it a candidate,
#: candidates left out keep to it.
BUDGET = 20_000_000
LEAST = 50


@dataclass(frozen=True, slots=True)
class Sample:
    """``rows`` are the candidates asked about, ascending; ``strata`` how many strata they are from; ``left_out`` how many
    candidates were too long to ask about; ``whole``: every candidate is in."""

    rows: Rows
    strata: int
    left_out: int
    whole: bool


def instructions(candidates: Candidates, problem: Problem) -> NDArray[np.float64]:
    """About how many instructions each candidate takes: two loads and a product a block, a drain a window."""
    c, p = candidates, problem
    windows = np.ceil(p.M / c.m) * np.ceil(p.N / c.n)
    count: NDArray[np.float64] = windows * (np.ceil(p.K / c.k) * 3 + 1)
    return count


def choose(candidates: Candidates, problem: Problem, key: str, seed: int = 0, size: int = SAMPLE) -> Sample:
    """The candidates of ``problem`` (named ``key``) to ask about: all where there are at most ``size`` (0: always)."""
    length = instructions(candidates, problem)
    allowed = np.flatnonzero(length <= BUDGET / LEAST) if size else np.arange(len(candidates))
    left_out = len(candidates) - len(allowed)
    if size and len(allowed):
        size = min(size, max(LEAST, int(BUDGET / length[allowed].mean())))
    if not size or len(allowed) <= size:
        return Sample(allowed, 0, left_out, left_out == 0)
    rng = np.random.default_rng([seed, zlib.crc32(key.encode())])
    strata = _strata(candidates, length, allowed)
    places = _places([len(s) for s in strata], size)
    rows = np.concatenate([rng.choice(s, n, replace=False) for s, n in zip(strata, places, strict=True)])
    return Sample(np.sort(rows), len(strata), left_out, False)


def _strata(candidates: Candidates, length: NDArray[np.float64], allowed: Rows) -> list[Rows]:
    regime = candidates.stationarity.astype(np.int64) * 2 + (candidates.dbc == 2)
    strata = []
    for code in np.unique(regime[allowed]):
        mine = allowed[regime[allowed] == code]
        edges = np.quantile(length[mine], (0.25, 0.5, 0.75))
        quartile = np.searchsorted(edges, length[mine], side="left")
        strata += [mine[quartile == q] for q in range(4) if (quartile == q).any()]
    return strata


def _places(sizes: list[int], total: int) -> list[int]:
    """How many to draw from each stratum: one, and its share of the rest by what it has left (largest remainders rounded up)."""
    left = [size - 1 for size in sizes]
    rest = max(0, total - len(sizes))
    shares = [x * rest / max(1, sum(left)) for x in left]
    places = [1 + int(share) for share in shares]
    order = sorted(range(len(sizes)), key=lambda i: (int(shares[i]) - shares[i], i))
    for i in order[: max(0, total - sum(places))]:
        places[i] += 1
    return places
