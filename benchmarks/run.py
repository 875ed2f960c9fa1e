"""Measure every performance budget and print them as a table: ``make bench``, or ``python benchmarks/run.py [NAME…]``.

Exits with 1 where a budget is exceeded. ``--save`` puts the table into ``benchmarks/README.md``.
"""

from __future__ import annotations

import importlib
import platform
import sys
from datetime import date
from pathlib import Path

from harness import Result, table

README = Path(__file__).with_name("README.md")
MARK = "<!-- the last table -->\n"


def main() -> int:
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    found: list[Result] = []
    for path in sorted(README.parent.glob("bench_*.py")):
        if names and path.stem.removeprefix("bench_") not in names:
            continue
        print(f"measuring {path.stem} …", file=sys.stderr)
        found += importlib.import_module(path.stem).measure()
    print(table(found))
    if "--save" in sys.argv:
        head = README.read_text(encoding="utf-8").partition(MARK)[0]
        where = f"Python {platform.python_version()}, {platform.machine()}, {date.today().isoformat()}"
        README.write_text(f"{head}{MARK}\n{where}:\n\n{table(found)}\n", encoding="utf-8")
    over = [r.what for r in found if not r.within]
    if over:
        print(f"\nover budget: {'; '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
