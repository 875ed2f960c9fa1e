"""A run as a picture: one row a lane, one bar a stretch of work. Needs matplotlib (the extra `plots`)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from cost.errors import TilesatError
from cost.simulator.core import Lane
from cost.simulator.timeline import Timeline
from cost.simulator.whole_file import whole_file

#: Gaps narrower than this share of the picture are not drawn: a million bars would be neither seen nor quick.
FINEST = 1 / 2000
COLOURS = ("#4c78a8", "#72b7b2", "#e45756", "#f58518", "#b279a2", "#54a24b")


def draw(timeline: Timeline, path: str | os.PathLike[str], title: str = "") -> None:
    """Write the timeline to ``path``: SVG or PNG, by its ending. The same run gives the same bytes. The file appears
    whole or not at all.

    Raises :class:`TilesatError` where matplotlib is missing or the ending is another, OSError when the file can't be written.
    """
    kind = kind_of(path)
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as e:
        raise TilesatError("drawing needs matplotlib, which is the extra 'plots': pip install 'tilesat[plots]'") from e
    lanes = [lane for lane in Lane if (timeline.lane == lane).any()]
    figure = Figure(figsize=(10, 0.9 + 0.45 * max(1, len(lanes))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for row, lane in enumerate(lanes):
        bars = _bars(timeline, lane)
        axes.broken_barh(bars, (row - 0.38, 0.76), facecolors=COLOURS[lane], linewidth=0)
    axes.set_yticks(range(len(lanes)), [lane.name for lane in lanes])
    axes.set_ylim(max(0.5, len(lanes) - 0.5), -0.5)
    axes.set_xlim(0, max(timeline.cycles, 1.0))
    axes.set_xlabel("cycles")
    axes.set_title(title or f"{timeline.cycles:,.0f} cycles", fontsize=10)
    with whole_file(path) as partial, matplotlib.rc_context({"svg.hashsalt": "tilesat"}):
        figure.savefig(partial, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else {"Software": None})


def kind_of(path: str | os.PathLike[str]) -> str:
    """ "svg" or "png". Raises :class:`TilesatError` for a path with another ending."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("svg", "png"):
        raise TilesatError(f"a timeline is drawn as .svg or .png, not {Path(path).name!r}")
    return kind


def _bars(timeline: Timeline, lane: Lane) -> list[tuple[float, float]]:
    """(start, length) of a lane's stretches of work, gaps too narrow to see closed."""
    mine = timeline.lane == lane
    start, end = timeline.start[mine], timeline.end[mine]
    opens = np.concatenate(([True], start[1:] - end[:-1] > timeline.cycles * FINEST))
    first = np.flatnonzero(opens)
    last = np.concatenate((first[1:] - 1, [len(start) - 1]))
    return list(zip(start[first].tolist(), (end[last] - start[first]).tolist(), strict=True))
