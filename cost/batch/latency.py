"""The latency model of specification 3: the slowest lane decides.

    T = max(MMAD, MTE2, MTE1, Fixpipe [, Reduce] [, Vector]) + phases

All terms are microseconds of the busiest core, or of the chip's shared channels where those are slower (docs/batch.md gives
every formula with its units). A branch says what it does as :class:`Work`; this module turns work into time, and knows no
branches: that cutting B is free, cutting M or N cheap and cutting K dear is nowhere written, it follows from the work.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from cost.batch.chip import Chip

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

#: Names of the terms, in the order in which they are shown.
TERMS = ("MMAD", "MTE2", "MTE1", "Fixpipe", "Reduce", "Vector")


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What schedules do, one row each: float64 arrays (or numbers, which mean the same for every row).

    Of the busiest core: ``mmad`` and ``mte1`` cycles of the cube and of loads into L0; ``drain`` cycles of FIXPIPE; ``transfers``
    MTE2 commands; ``gm`` and ``l2`` bytes it reads from global memory and from L2, short runs billed at their floor;
    ``core_written`` bytes it writes; ``vector`` and ``reduce_vector`` cycles of a vector core; ``exposed`` is 1 where a single
    accumulator makes the cube wait for its drain; ``serial`` is 1 where a single L1 buffer makes the cube wait for MTE2.

    Of the chip: ``gm_read``, ``l2_read`` and ``written`` bytes; ``reduced`` bytes that the reduction moves; ``phased`` bytes
    that phases before or after the product move, and ``barriers`` between phases.
    """

    mmad: Any = 0.0
    mte1: Any = 0.0
    drain: Any = 0.0
    transfers: Any = 0.0
    gm: Any = 0.0
    l2: Any = 0.0
    vector: Any = 0.0
    exposed: Any = 0.0
    serial: Any = 0.0
    gm_read: Any = 0.0
    l2_read: Any = 0.0
    written: Any = 0.0
    core_written: Any = 0.0
    reduced: Any = 0.0
    reduce_vector: Any = 0.0
    phased: Any = 0.0
    barriers: Any = 0.0

    def arrays(self, rows: int) -> dict[str, Array]:
        """Every field as a float64 array of ``rows`` rows."""
        return {f.name: np.broadcast_to(np.asarray(getattr(self, f.name), dtype=np.float64), (rows,)) for f in fields(self)}


@dataclass(frozen=True, slots=True, eq=False)
class Latencies:
    """The price of every schedule, in microseconds: the terms by name (zeros where a branch has no such term), phases, totals."""

    terms: dict[str, Array]
    phases: Array
    total: Array

    def row(self, i: int) -> Latency:
        """One schedule's latency."""
        terms = {name: float(t[i]) for name, t in self.terms.items()}
        always = ("MMAD", "MTE2", "MTE1", "Fixpipe")
        return Latency({n: t for n, t in terms.items() if n in always or t > 0}, float(self.phases[i]), float(self.total[i]))


@dataclass(frozen=True, slots=True)
class Latency:
    """One plan's predicted latency in microseconds: its ``terms``, the ``phases`` that nothing overlaps, and the ``total``."""

    terms: dict[str, float]
    phases: float
    total: float

    @property
    def bound(self) -> str:
        """The slowest term, which is the one worth improving."""
        return max(self.terms, key=lambda name: self.terms[name])

    def __getitem__(self, term: str) -> float:
        """One term, by name; 0 where the branch has no such term."""
        if term not in TERMS:
            raise KeyError(f"{term}: a latency has the terms {', '.join(TERMS)}")
        return self.terms.get(term, 0.0)

    def __float__(self) -> float:
        return self.total

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value:.3f}" for name, value in self.terms.items())
        return f"{self.total:.3f} µs ({self.bound} bound: {shown}; phases {self.phases:.3f})"


def latencies(work: Work, chip: Chip, rows: int) -> Latencies:
    """The latency of every row of ``work`` on ``chip``."""
    w = work.arrays(rows)
    cycle = 1.0 / (chip.clock_ghz * 1e3)
    gm_rate, l2_rate = chip.gm_tb_s * 1e6, chip.l2_tb_s * 1e6  # bytes a microsecond, of the chip
    mte2_core = (
        w["transfers"] * chip.mte2_head_cycles + w["gm"] / chip.gm_bytes_per_cycle + w["l2"] / chip.l2_bytes_per_cycle
    ) * cycle
    # Reads and writes share the channel of global memory, so its occupancy bounds how fast reads can come in.
    mte2 = np.maximum(np.maximum(mte2_core, (w["gm_read"] + w["written"]) / gm_rate), w["l2_read"] / l2_rate)
    fixpipe = np.maximum(
        w["drain"] * cycle, np.maximum(w["core_written"] / chip.gm_bytes_per_cycle * cycle, w["written"] / gm_rate)
    )
    waits = w["exposed"] * w["drain"] * cycle + w["serial"] * mte2_core
    terms = {
        "MMAD": w["mmad"] * cycle + np.where(w["mmad"] > 0, waits, 0.0),
        "MTE2": mte2,
        "MTE1": w["mte1"] * cycle + np.where(w["mte1"] > 0, waits, 0.0),
        "Fixpipe": fixpipe,
        "Reduce": np.maximum(w["reduced"] / gm_rate, w["reduce_vector"] * cycle),
        "Vector": w["vector"] * cycle,
    }
    phases = w["phased"] / gm_rate + w["barriers"] * chip.sync_cycles * cycle
    total = np.max(np.stack([terms[n] for n in TERMS]), axis=0) + phases
    return Latencies(terms, phases, total)
