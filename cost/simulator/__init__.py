"""The pipeline simulator: an instruction stream on a model of one core.

:mod:`core` runs the stream, :mod:`durations` says how long instructions take, :mod:`timeline` what the run amounts to,
:mod:`trace` and :mod:`picture` show it. :mod:`schedule` runs one product under one schedule; what a whole program's
instructions are is no business of this room: see ``tilesat.simulation``.
"""

from __future__ import annotations

from cost.simulator.core import Core, Lane, Ring, Value, ticks
from cost.simulator.durations import Durations
from cost.simulator.timeline import LaneUse, Step, Timeline

__all__ = ["Core", "Durations", "Lane", "LaneUse", "Ring", "Step", "Timeline", "Value", "ticks"]
