"""The demo: tile a chain of two matmuls, show what was decided and why, and check the numbers. Run by ``make demo``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

import tilesat

CHAIN = Path(__file__).with_name("chain.py")
TARGET = "ascend910b"


def main() -> None:
    console = Console()
    program = tilesat.load(CHAIN)
    tiling = tilesat.tile(program, target=TARGET)

    show(console, "the program as written: examples/chain.py", code(CHAIN.read_text(encoding="utf-8")))
    show(console, f"tiled for {TARGET}", code(str(tiling.program)))
    show(console, "what was decided", decisions(tiling))
    show(console, f"predicted cycles: {tiling.cycles:,.0f}", cycles(tiling))
    show(console, "why c has this tile", Text(str(tiling.explain("c"))))
    show(console, "the tiled program against the untiled one", numbers(program, tiling.program))
    findings = tilesat.verify(tiling.program, TARGET)
    show(console, "the verifier", Text("\n".join(map(str, findings)) or f"no findings: the tiled program fits {TARGET}"))
    show(console, "one core, instruction by instruction", Text(str(tilesat.simulate(tiling.program, TARGET))))


def show(console: Console, title: str, *parts: Text | Table) -> None:
    console.rule(title)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text))
    console.print()


def code(text: str) -> Text:
    return Syntax("", "python", background_color="default").highlight(text.strip())


def decisions(tiling: tilesat.Tiling) -> Table:
    """What was decided for each product."""
    table = Table("product", "M × N × K", "tile m × n × k", "held", "L0C", "result in")
    for d in tiling.decisions:
        extents, tile = f"{d.M} × {d.N} × {d.K}", f"{d.m} × {d.n} × {d.k}"
        table.add_row(d.name, extents, tile, str(d.stationarity), "×2" if d.double_buffer_c else "×1", d.placement)
    return table


def cycles(tiling: tilesat.Tiling) -> Table:
    """The predicted cycles of each product, term by term."""
    terms = {"load": "loading L0A, L0B", "mad": "multiplying", "drain": "draining L0C", "bubble": "bubble", "wall": "all"}
    table = Table("product")
    for name in terms.values():
        table.add_column(name, justify="right")
    for d in tiling.decisions:
        table.add_row(d.name, *[f"{d.breakdown[t]:,.0f}" for t in terms])
    return table


def numbers(program: tilesat.Program, tiled: tilesat.Program) -> Table:
    """Both programs executed on the same inputs: how many elements of the output differ, and by how much at most."""
    table = Table("inputs", "elements", "different", "largest difference")
    for kind, integer in (("whole numbers from -2 to 2", True), ("normal random numbers", False)):
        inputs = tilesat.random_inputs(program, seed=1, integer=integer)
        before = np.asarray(tilesat.execute(program, **inputs)["out"], dtype=np.float64)
        after = np.asarray(tilesat.execute(tiled, **inputs)["out"], dtype=np.float64)
        different = int((before != after).sum())
        table.add_row(kind, f"{before.size:,}", f"{different:,}", f"{np.abs(before - after).max():g}")
    return table


if __name__ == "__main__":
    main()
