"""What commands print: tables (drawn on a terminal, plain columns elsewhere), JSON, and progress while something takes long."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

#: Work shorter than this many seconds shows no progress.
PATIENCE = 0.5


def show_json(data: Mapping[str, Any]) -> None:
    """One JSON object on stdout."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO | None = None) -> None:
    """A table on stdout or ``stream``; a column name that begins with ">" is aligned right."""
    out = stream or sys.stdout
    if out.isatty():
        _draw(columns, rows, out)
    else:
        print(plain_table(columns, rows), file=out)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as text: columns two spaces apart, no line ends in blanks."""
    names = [c.removeprefix(">") for c in columns]
    cells = [names, *[list(r) for r in rows]]
    widths = [max(len(r[i]) for r in cells) for i in range(len(names))]
    right = [c.startswith(">") for c in columns]
    lines = []
    for r in cells:
        padded = [x.rjust(w) if side else x.ljust(w) for x, w, side in zip(r, widths, right, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _draw(columns: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for c in columns:
        table.add_column(c.removeprefix(">"), justify="right" if c.startswith(">") else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(file=out).print(table)


def note(message: str) -> None:
    """A line for the reader on stderr, apart from the command's output."""
    print(message, file=sys.stderr)


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Show that ``what`` is going on, on stderr, if that is a terminal and it takes longer than :data:`PATIENCE`."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    shower = threading.Thread(target=_show_progress, args=(what, done), daemon=True)
    shower.start()
    try:
        yield
    finally:
        done.set()
        shower.join()


def _show_progress(what: str, done: threading.Event) -> None:
    if done.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=None)
        done.wait()
