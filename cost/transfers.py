"""What moving a value costs, for the choice of its memory spaces: busy cycles of the lanes that move or cast it.

All figures but the drain's are the nominal ones of :class:`cost.hardware.Machine`: no calibrated ones are published. The cost
of a way to place a value is the sum over its steps: lanes overlap with what else a program does, and the least work leaves most
room.

    load        bytes / gm_bytes_per_cycle                                     MTE2
    move        bytes / acc_vec_crossing_bytes_per_cycle                       MTE3, Vec to Mat
    vector      bytes in / crossing + bytes in / vec_bytes_per_cycle           a product crosses to Vec and is cast there
    fixpipe     drain of an m × n accumulator, as the roofline has it          FIXPIPE casts on the way into Mat
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cost.dtypes import FP32
from cost.errors import CostModelError
from cost.hardware import Target
from cost.problem import Problem
from cost.roofline import drain_cycles

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOAD, MOVE, VECTOR_CAST, FIXPIPE_CAST = range(4)


@dataclass(frozen=True, slots=True)
class Step:
    """One transfer: its kind, the bytes that go in, and the rows and columns of the value."""

    kind: int
    size: int
    rows: int
    columns: int


#: Cycles of each of many steps on a target.
TransferModel = Callable[[Sequence[Step], Target], "NDArray[np.float64]"]


def transfer_cycles(steps: Sequence[Step], target: Target) -> NDArray[np.float64]:
    """Busy cycles of each step."""
    machine = target.machine
    kind = np.array([s.kind for s in steps])
    size = np.array([s.size for s in steps], dtype=np.float64)
    rows, columns = (np.array([getattr(s, n) for s in steps], dtype=np.float64) for n in ("rows", "columns"))
    crossing = size / machine.acc_vec_crossing_bytes_per_cycle
    drained = drain_cycles(rows, columns, Problem(16, 16, 16, c=FP32), target)
    by_kind = (size / machine.gm_bytes_per_cycle, crossing, crossing + size / machine.vec_bytes_per_cycle, drained)
    return np.choose(kind, by_kind)


def checked(model: TransferModel, steps: Sequence[Step], target: Target) -> list[float]:
    """What a model says of some steps; CostModelError where it gives no finite number for one of them."""
    found = np.asarray(model(steps, target), dtype=np.float64) if steps else np.zeros(0)
    if found.shape != (len(steps),):
        raise CostModelError(f"the transfer model gave {found.shape} prices for {len(steps)} steps; give one for each")
    bad = np.flatnonzero(~np.isfinite(found) | (found < 0))
    if len(bad):
        raise CostModelError(f"the transfer model priced {steps[int(bad[0])]} at {found[bad[0]]}; give a number of cycles")
    return [float(x) for x in found]
