"""Conversion time against program length: 1,000 statements must convert in under a second, and time must grow linearly.

The bound is held by ``tests/test_convert_speed.py``.
"""

from __future__ import annotations

from harness import Result, best_of


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


def measure() -> list[Result]:
    """A thousand statements in a second, and time that grows as the program does."""
    from ir_bridge.convert import convert
    from ir_bridge.ir.parser import parse

    short, long = (parse(program_text(n)) for n in (1000, 4000))
    a_thousand, four_thousand = best_of(3, lambda: convert(short), lambda: convert(long))
    return [
        Result("convert, 1,000 statements", a_thousand, 1.0, "s"),
        Result("convert, 4,000 statements against 1,000", four_thousand / a_thousand, 6.0, "×", "linear is 4"),
    ]
