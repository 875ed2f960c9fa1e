"""Tables as text: CSV for programs, Markdown for people. The same figures give the same bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A CSV file with a header; numbers to ten significant digits, nothing for None."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(c)) for c in columns])
    return out.getvalue()


def _cell(x: Any) -> str:
    if x is None:
        return ""
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, float):
        return format(x, ".10g")
    return ", ".join(map(str, x)) if isinstance(x, (list, tuple)) else str(x)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a column name that begins with ">" is aligned right."""
    names = [c.removeprefix(">") for c in columns]
    rule = ["--:" if c.startswith(">") else "---" for c in columns]
    lines = [names, rule, *[[c.replace("|", "\\|") for c in row] for row in rows]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def percent(x: float | None, digits: int = 1) -> str:
    """0.123 as "12.3 %"; a dash for None; thousands of percent as a factor."""
    if x is None:
        return "–"
    return f"{x:.{digits}%}".replace("%", " %") if abs(x) < 10 else f"{1 + x:,.0f}×"


def number(x: float | None, digits: int = 2) -> str:
    """A figure, or a dash for None."""
    return "–" if x is None else f"{x:,.{digits}f}"


def seconds(x: float) -> str:
    """A duration in the unit that fits it."""
    if x < 1e-3:
        return f"{x * 1e6:.0f} µs"
    return f"{x * 1e3:.1f} ms" if x < 1 else f"{x:.1f} s"
