"""A run as a Chrome trace (chrome://tracing, ui.perfetto.dev): a row a lane, a counter a buffer.

One microsecond shown is one cycle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from cost.simulator.core import FREE, Lane
from cost.simulator.timeline import Timeline, reason
from cost.simulator.whole_file import whole_file


def trace_events(timeline: Timeline, name: str = "core") -> Iterator[dict[str, Any]]:
    """The events of the trace, in program order; times in cycles."""
    yield {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": name}}
    for lane in Lane:
        yield {"ph": "M", "pid": 0, "tid": int(lane), "name": "thread_name", "args": {"name": lane.name}}
        yield {"ph": "M", "pid": 0, "tid": int(lane), "name": "thread_sort_index", "args": {"sort_index": int(lane)}}
    columns = (timeline.lane, timeline.start, timeline.end, timeline.label, timeline.stall, timeline.why)
    for lane, start, end, label, stall, why in zip(*(c.tolist() for c in columns), strict=True):
        event = {"ph": "X", "pid": 0, "tid": lane, "name": timeline.labels[label], "ts": start, "dur": end - start}
        if why != FREE:
            event["args"] = {"waited": stall, "for": reason(why)}
        yield event
    for buffer in timeline.peak_bytes:
        for when, held in zip(*(x.tolist() for x in timeline.bytes_held(buffer)), strict=True):
            yield {"ph": "C", "pid": 0, "name": f"{buffer} bytes", "ts": when, "args": {"bytes": held}}


def trace(timeline: Timeline, name: str = "core", about: dict[str, Any] | None = None) -> dict[str, Any]:
    """The whole trace as one JSON object."""
    return {"traceEvents": list(trace_events(timeline, name)), "displayTimeUnit": "ns", "otherData": _about(about)}


def write_trace(
    timeline: Timeline, path: str | os.PathLike[str], name: str = "core", about: dict[str, Any] | None = None
) -> None:
    """Write the trace to ``path``, event by event; the file appears whole or not at all. OSError when it can't be written."""
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as out:
        out.write('{"displayTimeUnit": "ns", "otherData": ' + json.dumps(_about(about)) + ', "traceEvents": [\n')
        separator = ""
        for event in trace_events(timeline, name):
            out.write(separator + json.dumps(event))
            separator = ",\n"
        out.write("\n]}\n")


def _about(about: dict[str, Any] | None) -> dict[str, Any]:
    return {"time": "one microsecond shown is one cycle of the core"} | (about or {})
