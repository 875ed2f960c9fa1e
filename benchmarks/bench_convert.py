"""Conversion time against program length: 1,000 statements must convert in under a second, and time must grow linearly.

    python benchmarks/bench_convert.py

prints one line a size: statements, seconds (best of three), microseconds a statement. The bound is held by
``tests/test_convert_speed.py``.
"""

from __future__ import annotations

import time


def program_text(statements: int) -> str:
    """A kernel of about ``statements`` tensor statements: arithmetic, reductions, casts, products, windows, loops, branches."""
    lines = [
        "import pypto.language as pl",
        "@pl.program",
        "class Long:",
        "    @pl.function(type=pl.FunctionType.InCore)",
        "    def kernel(self, x: pl.Tensor[[64, 64], pl.FP32], w: pl.Tensor[[64, 64], pl.BF16], "
        "out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:",
        "        y = pl.add(x, x)",
    ]
    block = [
        "m = pl.row_max(y)",
        "s = pl.row_expand_sub(y, m)",
        "e = pl.exp(s)",
        "h = pl.cast(e, pl.BF16, mode='rint')",
        "p = pl.matmul(h, w, out_dtype=pl.FP32)",
        "q = pl.add(p, x)",
        "t = x[0:32, 0:64]",
        "u = pl.col_sum(t)",
        "y = pl.add(q, u)",
        "for i in pl.range(4):",
        "    y = pl.maximum(y, 0.0)",
        "    if i == 1:",
        "        y = pl.sub(y, x)",
        "    out[0:64, 0:64] = y",
    ]
    for n in range(statements // len(block)):
        lines += [f"        {s}" for s in block]
        del n
    lines += ["        return y"]
    return "\n".join(lines) + "\n"


def best_of(text: str, times: int = 3) -> float:
    """Seconds that converting the parsed program takes, the best of a few."""
    from ir_bridge.convert import convert
    from ir_bridge.ir.parser import parse

    program = parse(text)
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        convert(program)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    for statements in (250, 500, 1000, 2000, 4000):
        seconds = best_of(program_text(statements))
        print(f"{statements:>6} statements  {seconds:7.4f} s  {seconds / statements * 1e6:6.1f} µs a statement")


if __name__ == "__main__":
    main()
