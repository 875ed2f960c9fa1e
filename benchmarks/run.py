"""Measure every performance budget and print them as a table: ``make bench``, or ``python benchmarks/run.py [NAME…]``.

Exits with 1 where a budget is exceeded. ``--save`` puts the table into ``benchmarks/README.md``.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from datetime import date
from pathlib import Path

from harness import Result, table

README = Path(__file__).with_name("README.md")
MARK = "<!-- the last table -->\n"


def main() -> int:
    known = [path.stem.removeprefix("bench_") for path in sorted(README.parent.glob("bench_*.py"))]
    parser = argparse.ArgumentParser(description="Measure the performance budgets.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"measure these alone: {', '.join(known)}")
    parser.add_argument("--save", action="store_true", help="put the table into benchmarks/README.md")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(known))
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; known: {', '.join(known)}")
    found: list[Result] = []
    for name in given.names or known:
        print(f"measuring bench_{name} …", file=sys.stderr)
        found += importlib.import_module(f"bench_{name}").measure()
    print(table(found))
    if given.save:
        head = README.read_text(encoding="utf-8").partition(MARK)[0]
        where = f"Python {platform.python_version()}, {platform.machine()}, {date.today().isoformat()}"
        README.write_text(f"{head}{MARK}\n{where}:\n\n{table(found)}\n", encoding="utf-8")
    over = [r.what for r in found if not r.within]
    if over:
        print(f"\nover budget: {'; '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
