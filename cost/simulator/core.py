"""The core: in-order lanes that run an instruction stream against each other.

An instruction starts when its lane is free, the data it reads is there, and the buffer slot it writes is free:

    start = max(end of the lane's instruction before it,
                data of every value it reads,
                the slot: whoever reads what it overwrites is through, and a new value's bytes fit the buffer)
    end   = start + cycles;  the data is there `latency` cycles after that, when the lane is already at work again

Lanes take instructions in program order; across lanes nothing but data and slots holds an instruction back. As every wait is
for an earlier instruction, one pass in program order gives the exact schedule.

The stream is given call by call: :meth:`Core.value` makes a value (a tile in a buffer), :meth:`Core.issue` runs an instruction on
values, :meth:`Core.release` says that no later instruction uses a value. Times are multiples of 2⁻¹⁰ cycles held in float64, so
that sums and comparisons are exact.
"""

from __future__ import annotations

import enum
import heapq
from array import array
from collections import deque
from collections.abc import Mapping, Sequence

from cost.hardware import BUFFERS, Target

TICK = 1024.0  # parts of a cycle


class Lane(enum.IntEnum):
    """The in-order queues of one core, and what they move or compute."""

    MTE2 = 0  #: global memory to Mat or Vec
    MTE1 = 1  #: Mat to L0A, L0B and the bias table
    CUBE = 2  #: products
    FIXPIPE = 3  #: L0C to global memory, Mat or Vec
    VEC = 4  #: vector operations
    MTE3 = 5  #: Vec to global memory or Mat


#: Codes of why an instruction started when it did: its lane (or nothing) held it; data of lane `code - DATA`; a slot of
#: buffer `code - SLOT`.
FREE, DATA, SLOT = 0, 1, 1 + len(Lane)
_LANE_OF_DATA = tuple(DATA + lane for lane in Lane)


def ticks(cycles: float) -> float:
    """``cycles`` rounded to the grid that the core computes on."""
    return round(cycles * TICK) / TICK


class Ring:
    """The slots that the values of one place in the program take in turn.

    A value takes the slot that was given up longest ago, in program order. Where every slot's value is still to be used the ring
    grows by one: no schedule could give one up.
    """

    __slots__ = ("given_up",)

    def __init__(self, slots: int = 1) -> None:
        self.given_up: deque[tuple[float, int]] = deque([(0.0, -1)] * slots)  # (when, by which instruction), oldest first

    def take(self) -> tuple[float, int]:
        """Give the next value its slot: when it is free, and the instruction that gave it up (−1: none)."""
        return self.given_up.popleft() if self.given_up else (0.0, -1)


class Value:
    """A tile in a buffer, or a tensor in global memory (``buffer`` −1).

    ``ready`` is when its data is there, ``last_read`` when its last reader is through, ``*_by`` the instruction meant. A
    ``resident`` value is there from the start and waits for no bytes; any other is ``placed`` once it has its slot and bytes.
    ``refs`` is the user's own count of what refers to it.
    """

    __slots__ = ("born", "buffer", "last_read", "placed", "read_by", "ready", "ready_by", "refs", "resident", "ring", "size")

    def __init__(self, buffer: int = -1, size: int = 0, ring: Ring | None = None, resident: bool = False) -> None:
        self.buffer = buffer
        self.size = size
        self.ring = ring
        self.resident = resident
        self.ready = self.last_read = 0.0
        self.ready_by = self.read_by = -1
        self.born = self.placed = buffer < 0
        self.refs = 0


class Core:
    """One core of a target at work: see the text of the module. ``capacity`` (bytes by buffer name) overrides the target's."""

    def __init__(self, target: Target, capacity: Mapping[str, int] | None = None) -> None:
        sizes = {b: target.capacity(b) for b in BUFFERS} | dict(capacity or {})
        self.capacity = [sizes[b] for b in BUFFERS]
        self.overflow = [0] * len(BUFFERS)  # bytes that did not fit, all waiting done
        self._held = [0] * len(BUFFERS)
        self._dead: list[list[tuple[float, int, int]]] = [[] for _ in BUFFERS]  # heaps of (free from, by, bytes)
        self._lane_free = [0.0] * len(Lane)
        self._lane_last = [-1] * len(Lane)
        # one entry an instruction
        self.lane, self.why = array("b"), array("b")
        self.start, self.end, self.stall = array("d"), array("d"), array("d")
        self.cause, self.label = array("q"), array("q")
        # one entry whenever bytes of a buffer are taken (positive) or given back (negative)
        self.when, self.bytes, self.where = array("d"), array("q"), array("b")
        self.horizon = 0.0  # when the last data is there
        self.last = -1  # the instruction that brings it

    def value(self, buffer: str, size: int, ring: Ring | None = None) -> Value:
        """A value of ``size`` bytes in ``buffer``; it takes its slot and its bytes when it is first written."""
        return Value(BUFFERS.index(buffer), size, ring)

    def issue(
        self,
        lane: int,
        cycles: float,
        reads: Sequence[Value] = (),
        writes: Sequence[Value] = (),
        latency: float = 0.0,
        label: int = 0,
    ) -> int:
        """Run one instruction and return its number. ``cycles`` and ``latency`` are on the grid of :func:`ticks`.

        Two lanes that write one value are taken to write different parts of it: neither waits for the other.
        """
        number = len(self.lane)
        free = start = self._lane_free[lane]
        cause, why = self._lane_last[lane], FREE
        for v in reads:
            if v.ready > start:
                start, cause = v.ready, v.ready_by
                why = _LANE_OF_DATA[self.lane[cause]]
            if not v.placed and not v.resident:  # no instruction made it (an operation that is not modelled did)
                wait, by = self._take(v)
                if wait > start:
                    start, cause, why = wait, by, SLOT + v.buffer
        for v in writes:
            if v.last_read > start:
                start, cause = v.last_read, v.read_by
                why = SLOT + v.buffer if v.buffer >= 0 else _LANE_OF_DATA[self.lane[cause]]
            if not v.placed and not v.resident:
                wait, by = self._take(v)
                if wait > start:
                    start, cause, why = wait, by, SLOT + v.buffer
        end = start + cycles
        done = end + latency
        for v in writes:
            if not v.born:
                self._bear(v, start)
            if done >= v.ready:
                v.ready, v.ready_by = done, number
        for v in reads:
            if not v.born:
                self._bear(v, start)
            if end >= v.last_read:
                v.last_read, v.read_by = end, number
        if done >= self.horizon:
            self.horizon, self.last = done, number
        self._lane_free[lane], self._lane_last[lane] = end, number
        self.lane.append(lane)
        self.start.append(start)
        self.end.append(end)
        self.stall.append(start - free)
        self.why.append(why)
        self.cause.append(cause)
        self.label.append(label)
        return number

    def release(self, v: Value) -> None:
        """No later instruction uses ``v``: its slot and bytes are free once the instructions that use it are through."""
        if v.buffer < 0 or not v.born:
            return
        free, by = (v.last_read, v.read_by) if v.last_read >= v.ready else (v.ready, v.ready_by)
        self.when.append(free)
        self.bytes.append(-v.size)
        self.where.append(v.buffer)
        if not v.resident:
            heapq.heappush(self._dead[v.buffer], (free, by, v.size))
        if v.ring is not None:
            v.ring.given_up.append((free, by))

    def _take(self, v: Value) -> tuple[float, int]:
        """Give ``v`` its slot and its bytes: (when both are there, the instruction that gave up the last of them).

        Bytes are counted, not placed: those freed first are taken first, and fragments do not matter.
        """
        v.placed = True
        wait, by = 0.0, -1
        if v.ring is not None:
            wait, by = v.ring.take()
        held, limit, dead = self._held[v.buffer] + v.size, self.capacity[v.buffer], self._dead[v.buffer]
        while held > limit and dead:
            free, freed_by, size = heapq.heappop(dead)
            held -= size
            if free > wait:
                wait, by = free, freed_by
        if held > limit:
            self.overflow[v.buffer] = max(self.overflow[v.buffer], held - limit)
        self._held[v.buffer] = held
        return wait, by

    def _bear(self, v: Value, start: float) -> None:
        """``v`` holds its bytes from ``start`` on."""
        v.born = True
        self.when.append(start)
        self.bytes.append(v.size)
        self.where.append(v.buffer)
