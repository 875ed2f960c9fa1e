"""Simulate a tiled program on one core of a target, instruction by instruction: `tilesat.simulate`.

The core's rules are those of :mod:`cost.simulator`; which instructions a statement is, :mod:`tilesat.simulation_ops` says. See
``docs/simulator.md`` for examples worked by hand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cost.errors import suggestion
from cost.hardware import Target, get_target
from cost.simulator import Core, Durations, LaneUse, Step, Timeline
from cost.simulator.picture import draw
from cost.simulator.trace import trace, write_trace
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import CORE_KINDS, Function, Program
from ir_bridge.ir.types import TensorType, TileType
from tilesat.simulation_blocks import Runner
from tilesat.simulation_ops import Machine, SimulationError

__all__ = ["SimulationError", "SimulationResult", "simulate"]


@dataclass(frozen=True, slots=True, eq=False)
class SimulationResult:
    """What a simulated run took. All times are cycles of one core.

    ``notes`` say what was not modelled, ``timeline`` holds every instruction (:class:`cost.simulator.Timeline`).
    """

    target: Target
    function: str
    residency: str
    timeline: Timeline
    notes: tuple[str, ...]

    @property
    def cycles(self) -> float:
        """From the first instruction's start to the last data's arrival."""
        return self.timeline.cycles

    @property
    def seconds(self) -> float:
        """The same at the target's nominal clock (not calibrated)."""
        return self.cycles / (self.target.machine.clock_ghz * 1e9)

    @property
    def lanes(self) -> dict[str, LaneUse]:
        """Busy, stalled and idle cycles of every lane that had work, with what the stalls waited for."""
        return self.timeline.lanes()

    @property
    def peak_bytes(self) -> dict[str, int]:
        """The most bytes in use at once, by buffer."""
        return self.timeline.peak_bytes

    @property
    def overflow(self) -> dict[str, int]:
        """Bytes that did not fit, by buffer: such a program can't run as it stands, and its cycles mean little."""
        return self.timeline.overflow

    @property
    def critical_path(self) -> list[Step]:
        """The chain of instructions that each waited for the one before, in time order."""
        return self.timeline.critical_path()

    @property
    def lower_bound(self) -> float:
        """The largest total work of a lane."""
        return self.timeline.lower_bound

    @property
    def bound_by(self) -> str:
        """The lane that sets the lower bound."""
        return self.timeline.bound_by

    @property
    def distance(self) -> float:
        """How far above the lower bound the run is: 0.25 is 25 %."""
        return self.cycles / self.lower_bound - 1 if self.lower_bound else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single instructions, as plain data."""
        lanes = {
            name: {"instructions": u.instructions, "busy": u.busy, "stalled": u.stalled, "idle": u.idle, "stalls": u.stalls}
            for name, u in self.lanes.items()
        }
        return {
            "target": self.target.name,
            "function": self.function,
            "residency": self.residency,
            "cycles": self.cycles,
            "lower_bound": self.lower_bound,
            "bound_by": self.bound_by,
            "distance": self.distance,
            "lanes": lanes,
            "peak_bytes": self.peak_bytes,
            "overflow": self.overflow,
            "notes": list(self.notes),
        }

    def trace(self) -> dict[str, Any]:
        """The run as a Chrome/Perfetto trace; one microsecond shown is one cycle."""
        return trace(self.timeline, self._title, self._about)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to ``path`` (open it at ui.perfetto.dev); the file appears whole or not at all."""
        write_trace(self.timeline, path, self._title, self._about)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the timeline to ``path``, .svg or .png (needs the extra `plots`)."""
        draw(self.timeline, path, f"{self._title}: {self.cycles:,.0f} cycles")

    @property
    def _title(self) -> str:
        return f"{self.function} on {self.target.name}"

    @property
    def _about(self) -> dict[str, Any]:
        return {"target": self.target.name, "residency": self.residency, "cycles": self.cycles}

    def __str__(self) -> str:
        head = f"{self._title}, operands in {'Mat' if self.residency == 'mat' else 'global memory'}: {self.cycles:,.0f} cycles"
        rows = [head, f"lower bound {self.lower_bound:,.0f} ({self.bound_by}), {self.distance:.1%} above it"]
        for name, u in self.lanes.items():
            stalls = ", ".join(f"{cycles:,.0f} {what}" for what, cycles in sorted(u.stalls.items(), key=lambda x: -x[1]))
            line = f"  {name:<8}{u.instructions:>8} instructions{u.busy:>12,.0f} busy{u.stalled:>12,.0f} stalled"
            rows.append(f"{line}  ({stalls})" if stalls else line)
        rows.append("peak bytes: " + (", ".join(f"{b} {n:,}" for b, n in self.peak_bytes.items()) or "none"))
        rows += [f"overflow: {n:,} bytes of {b} do not fit" for b, n in self.overflow.items()]
        return "\n".join([*rows, *(f"note: {n}" for n in self.notes)])


def simulate(
    program: Program,
    target: str | os.PathLike[str] | Target = "ascend910b",
    residency: str = "gm",
    function: str | None = None,
    scalars: Mapping[str, int] | None = None,
    capacity: Mapping[str, int] | None = None,
) -> SimulationResult:
    """Run one function of a tiled ``program`` on a model of one core of ``target``.

    ``residency="gm"``: operands start in global memory. ``"mat"``: what the program loads into Mat is there from the start and
    takes no time, as the roofline has it. ``function`` is needed where the program has several core functions. ``scalars`` gives
    values by name to scalar parameters and dynamic dimensions that loops depend on. ``capacity`` overrides buffer sizes in bytes
    ("l0a", "l0b", "l0c", "mat", "bias", "vec").

    Raises :class:`SimulationError` (place and repair in the message) and :class:`TargetError`.
    """
    chip = get_target(target)
    if residency not in ("gm", "mat"):
        raise SimulationError(f"residency is 'gm' or 'mat', not {residency!r}")
    for name, size in (capacity or {}).items():
        chip.capacity(name)
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise SimulationError(f"capacity: {name} must be a number of bytes, not {size!r}")
    chosen = _function(program, function)
    _check_scalars(scalars or {}, program, chosen)
    core = Core(chip, capacity)
    machine = Machine(core, Durations(chip), resident=residency == "mat")
    Runner(machine, chosen, program.dynamic, scalars or {}).run()
    return SimulationResult(chip, chosen.name, residency, Timeline(core, machine.labels), tuple(machine.notes))


def _check_scalars(given: Mapping[str, int], program: Program, function: Function) -> None:
    """Every name that is given a value must be a scalar parameter or a dynamic dimension."""
    scalars = [p.var for p in function.params if not isinstance(p.var.type, (TensorType, TileType))]
    known = {base_name(v.name): v.name for v in (*scalars, *program.dynamic)}
    for name in given:
        if name not in known and name not in known.values():
            hint = f"{suggestion(name, known)} It has: {', '.join(known) or 'none'}"
            raise SimulationError(f"{name!r} is no scalar parameter or dynamic dimension of {function.name}.{hint}")


def _function(program: Program, name: str | None) -> Function:
    """The function that is meant: by name, or the only one that runs on a core, or the only one at all."""
    names = [f.name for f in program.functions]
    if name is not None:
        if name not in names:
            raise SimulationError(f"the program has no function {name!r}; it has {', '.join(names) or 'none'}")
        return program.function(name)
    found = [f for f in program.functions if f.kind in CORE_KINDS] or list(program.functions)
    if len(found) != 1:
        raise SimulationError(f"which function? The program has {', '.join(f.name for f in found) or 'none'}; give function=")
    return found[0]
