"""What a run of the core amounts to: busy and stalled cycles, peak bytes, the critical path, the lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cost.hardware import BUFFERS
from cost.simulator.core import DATA, FREE, SLOT, Core, Lane

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LaneUse:
    """One lane over the whole run, in cycles. ``busy`` + ``stalled`` + ``idle`` is the length of the run.

    ``stalls`` says what the stalled cycles were spent waiting for: "data from MTE1", "a slot in l0c"; ``idle`` is the time after
    the lane's last instruction.
    """

    instructions: int
    busy: float
    stalled: float
    idle: float
    stalls: dict[str, float]


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of the critical path; ``why`` says what it waited for ("" : nothing, or its own lane)."""

    lane: str
    label: str
    start: float
    end: float
    why: str


class Timeline:
    """A finished run as arrays, one row an instruction in program order, and the figures that follow from them.

    ``lane`` int8 (:class:`Lane`), ``start`` and ``end`` float64 cycles, ``stall`` cycles the lane waited before it, ``why`` the
    code of that wait, ``cause`` the instruction it waited for (−1: none), ``label`` an index into ``labels``.
    """

    def __init__(self, core: Core, labels: list[str]) -> None:
        self.labels = labels
        self.lane = np.frombuffer(core.lane, np.int8) if core.lane else np.zeros(0, np.int8)
        self.why = np.frombuffer(core.why, np.int8) if core.why else np.zeros(0, np.int8)
        self.start, self.end, self.stall = (np.array(x, dtype=np.float64) for x in (core.start, core.end, core.stall))
        self.cause, self.label = (np.array(x, dtype=np.int64) for x in (core.cause, core.label))
        self.cycles = core.horizon
        self.overflow = {b: n for b, n in zip(BUFFERS, core.overflow, strict=True) if n}
        self._last = core.last
        self._bytes = self._histories(core)

    @staticmethod
    def _histories(core: Core) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """(times, bytes held from then on) of every buffer that was used; bytes given back count before bytes taken."""
        when, size = np.array(core.when, dtype=np.float64), np.array(core.bytes, dtype=np.int64)
        where = np.array(core.where, dtype=np.int8)
        histories = {}
        for number, name in enumerate(BUFFERS):
            mine = np.flatnonzero(where == number)
            if len(mine):
                order = mine[np.lexsort((size[mine], when[mine]))]
                histories[name] = when[order], np.cumsum(size[order])
        return histories

    def __len__(self) -> int:
        return len(self.lane)

    def bytes_held(self, buffer: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """(times in cycles, bytes of ``buffer`` in use from then on), ascending."""
        return self._bytes.get(buffer, (np.zeros(0), np.zeros(0, np.int64)))

    @property
    def peak_bytes(self) -> dict[str, int]:
        """The most bytes in use at once, by buffer."""
        return {name: int(held.max()) for name, (_, held) in self._bytes.items()}

    def lanes(self) -> dict[str, LaneUse]:
        """How every lane that had work spent the run."""
        found = {}
        for lane in Lane:
            mine = self.lane == lane
            count = int(mine.sum())
            if not count:
                continue
            busy = float((self.end[mine] - self.start[mine]).sum())
            stall, why = self.stall[mine], self.why[mine]
            stalls = {reason(code): float(stall[why == code].sum()) for code in np.unique(why).tolist() if code != FREE}
            found[lane.name] = LaneUse(count, busy, float(stall.sum()), self.cycles - float(self.end[mine].max()), stalls)
        return found

    @property
    def lower_bound(self) -> float:
        """The largest total work of a lane: no schedule of these instructions is shorter. Cycles."""
        work = np.bincount(self.lane, weights=self.end - self.start, minlength=1)
        return float(work.max())

    @property
    def bound_by(self) -> str:
        """The lane whose work is the lower bound; "" of an empty run."""
        if not len(self):
            return ""
        return Lane(int(np.bincount(self.lane, weights=self.end - self.start).argmax())).name

    def critical_path(self) -> list[Step]:
        """The chain of instructions that each waited for the one before, ending with the last data of the run; in time order."""
        path = []
        at = self._last
        while at >= 0:
            code = int(self.why[at])
            path.append(
                Step(
                    Lane(int(self.lane[at])).name,
                    self.labels[int(self.label[at])],
                    float(self.start[at]),
                    float(self.end[at]),
                    "" if code == FREE else reason(code),
                )
            )
            at = int(self.cause[at])
        return path[::-1]


def reason(code: int) -> str:
    """A stall code in words."""
    if code >= SLOT:
        return f"a slot in {BUFFERS[code - SLOT]}"
    return f"data from {Lane(code - DATA).name}" if code >= DATA else ""
