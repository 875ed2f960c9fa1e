"""A simulated run as a picture inside of a report."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cost.simulator.picture import draw
from tilesat.studies.page import bare

if TYPE_CHECKING:
    from cost.simulator.timeline import Timeline


def timeline(run: Timeline, title: str, label: str) -> str:
    """The run's lanes over time, as SVG to put into a page, where ``label`` is unique."""
    with tempfile.TemporaryDirectory(prefix="tilesat-") as folder:
        path = Path(folder) / "timeline.svg"
        draw(run, path, title)
        return bare(path.read_text(encoding="utf-8"), label)
