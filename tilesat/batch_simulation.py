"""A batch plan on the pipeline simulator: one core of many, with its share of the channels (an approximation, stated here).

The simulator models one core. A multi-core run is approximated by the busiest one:

* core 0 and vector core 0, which get the first and therefore never the fewest blocks, run their part of the program;
* **shared bandwidth**: a core draws from global memory at most its own port's rate, and at most the chip's bandwidth divided by
  the cores that are busy; what the latency model says hits L2 comes at L2's rates instead. Both are folded into one effective
  rate, total bytes over the sum of both times, which every load of the core gets;
* stores get the core's share of global-memory bandwidth;
* a barrier between phases costs ``chip.sync_cycles``; cores never wait for each other otherwise, and bank or channel conflicts
  are not modelled.

So the simulator adds what the latency model leaves out (pipelines that fill and drain, stalls on buffers, short transfers), and
takes from it how many bytes come from where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cost.batch.chip import Chip
    from cost.batch.latency import Work
    from cost.batch.schedule import Schedule
    from cost.hardware import Target
    from tilesat.batch import BatchPlan
    from tilesat.simulation import SimulationResult


@dataclass(frozen=True, slots=True, eq=False)
class BatchRun:
    """What the busiest core took: its simulation, the bytes a cycle its loads and stores got, and barriers in cycles."""

    plan: BatchPlan
    simulation: SimulationResult
    load_bytes_per_cycle: float
    store_bytes_per_cycle: float
    barrier_cycles: float

    @property
    def cycles(self) -> float:
        """Cycles of one core's clock, barriers included."""
        return self.simulation.cycles + self.barrier_cycles

    @property
    def microseconds(self) -> float:
        """The same at the chip's nominal clock, comparable to ``plan.latency.total``."""
        return self.plan.chip.microseconds(self.cycles)


def simulate_batch(plan: BatchPlan) -> BatchRun:
    """Simulate a plan's busiest core with its share of the chip's channels; see the module's text for what is approximated.

    Raises :class:`tilesat.SimulationError` where a program cannot be simulated.
    """
    from ir_bridge.batch.lift import Cores, lift_batch
    from tilesat.simulation import simulate

    chip = plan.chip
    work = _work(plan.schedule, chip)
    loads, stores = _shares(work, chip, busy_cores(plan.schedule, chip))
    program = lift_batch(plan.schedule, chip, Cores((0, 1), (0, 1)))
    result = simulate(program, _core(chip, loads, stores))
    return BatchRun(plan, result, loads, stores, float(work.barriers) * chip.sync_cycles)


def busy_cores(s: Schedule, chip: Chip) -> int:
    """Cube cores (vector cores, where only they work) that have something to do."""
    from cost.batch import tiling
    from cost.physical import ceil_div

    if s.inner is not None:
        return busy_cores(s.inner, chip)
    p, c = s.problem, s.columns
    if s.kind in ("Fill", "Outer") or p.K == 0:
        down, across = (1, 1) if s.kind == "Outer" else tiling.vector_grid(chip, p.B, p.M, p.N)
        return min(chip.vector_cores, p.B * down * across)
    if s.kind == "StreamK":
        return p.B * c["rows"] * c["columns"] * c["grid_k"]
    if s.kind in ("MergeBatch", "IterBatch"):
        return ceil_div(p.B, tiling.batches_per_core(p, chip))
    held = c.get("held", tiling.HELD_A)
    rows = 1 if held == tiling.HELD_A else ceil_div(p.M, c["m"])
    columns = 1 if held == tiling.HELD_B else ceil_div(p.N, c["n"])
    return min(chip.cores, p.B * rows * columns)


def _work(s: Schedule, chip: Chip) -> Work:
    """The latency model's work of a schedule (of the reduced problem, with the phases around it)."""
    import numpy as np

    from cost.batch.work import relaid_bytes
    from egraph_rules.batch.language import RELAID
    from extraction.batch import work_of

    if s.inner is None:
        return work_of(s.kind, s.problem, chip, {name: np.array([x]) for name, x in s.columns.items()})
    inner = _work(s.inner, chip)
    if s.columns["role"] != RELAID:
        return inner
    return replace(inner, phased=relaid_bytes(s.problem), barriers=float(inner.barriers) + 1 + (not s.problem.transpose_b))


def _shares(work: Work, chip: Chip, busy: int) -> tuple[float, float]:
    """(load, store) bytes a cycle of one of ``busy`` cores."""
    clock = chip.clock_ghz * 1e9
    gm = min(chip.gm_bytes_per_cycle, chip.gm_tb_s * 1e12 / clock / busy)
    l2 = min(chip.l2_bytes_per_cycle, chip.l2_tb_s * 1e12 / clock / busy)
    from_gm, from_l2 = float(work.arrays(1)["gm_read"][0]), float(work.arrays(1)["l2_read"][0])
    total = from_gm + from_l2
    return (total / (from_gm / gm + from_l2 / l2) if total else gm), gm


def _core(chip: Chip, loads: float, stores: float) -> Target:
    """One core's description with its share of the channels."""
    target = chip.target
    return replace(target, machine=replace(target.machine, gm_bytes_per_cycle=loads, mte3_bytes_per_cycle=stores))
