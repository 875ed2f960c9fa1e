"""What one sees while a study runs: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

#: Seconds between two lines where there is no terminal.
PAUSE = 30.0


class Progress:
    """Shows on stderr how far a study is, as a context manager; ``shown`` False shows nothing."""

    def __init__(self, what: str, total: int, done: int, shown: bool) -> None:
        self.what, self.total, self.done, self.failed = what, total, done, 0
        self.shown = shown
        self.began = self.told = time.monotonic()
        self.first = done
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Progress:
        if self.shown and self.done:
            print(f"{self.what}: {self.done} of {self.total} items are done already", file=sys.stderr)
        if self.shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
                *(TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}")),
            )
            self.bar = Bar(*columns, console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task(self.what, total=self.total, completed=self.done, note="")
        return self

    def advance(self, failed: bool) -> None:
        """One more item is done."""
        self.done += 1
        self.failed += failed
        if self.bar is not None:
            self.bar.update(self.task, advance=1, note=self._failures())
        elif self.shown and time.monotonic() - self.told >= PAUSE:
            self.told = time.monotonic()
            pace = (self.told - self.began) / (self.done - self.first)
            left = time.strftime("%H:%M:%S", time.gmtime(pace * (self.total - self.done)))
            print(f"{self.what}: {self.done} of {self.total} items, about {left} left {self._failures()}", file=sys.stderr)

    def _failures(self) -> str:
        return f"{self.failed} failed" if self.failed else ""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()
