"""Whole programs: many matmuls over few distinct problems, from lower to lift; and what that takes in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from harness import Result, best_of

#: (M, N, K) of the distinct problems: a K loop, a grid, a strip of each kind, a product that fits as it is.
PROBLEMS = ((128, 128, 512), (256, 256, 128), (16, 256, 1024), (272, 144, 64), (64, 64, 64))


def program_text(matmuls: int) -> str:
    """A function of ``matmuls`` matmuls, over :data:`PROBLEMS` in turn, each loading its operands and storing its result."""
    params, body = [], []
    for i, (m, n, k) in enumerate(PROBLEMS):
        params += [f"a{i}: pl.Tensor[[{m}, {k}], pl.BF16]", f"b{i}: pl.Tensor[[{k}, {n}], pl.BF16]"]
        params.append(f"out{i}: pl.Out[pl.Tensor[[{m}, {n}], pl.FP32]]")
    for x in range(matmuls):
        i = x % len(PROBLEMS)
        m, n, k = PROBLEMS[i]
        body += [
            f"l{x} = pl.load(a{i}, [0, 0], [{m}, {k}], target_memory=pl.Mem.Mat)",
            f"r{x} = pl.load(b{i}, [0, 0], [{k}, {n}], target_memory=pl.Mem.Mat)",
            f"c{x} = pl.matmul(l{x}, r{x})",
            f"out{i} = pl.store(c{x}, [0, 0], out{i})",
        ]
    lines = "".join(f"        {line}\n" for line in [*body, "return out0"])
    head = "import pypto.language as pl\n\n\n@pl.program\nclass Many:\n    @pl.function(type=pl.FunctionType.InCore)\n"
    return f"{head}    def kernel(self, {', '.join(params)}):\n{lines}"


def measure() -> Iterator[Result]:
    for rules in ("reference", "all"):
        yield from _times(rules)
    yield _memory()


def _times(rules: str) -> Iterator[Result]:
    import tilesat

    programs = [tilesat.parse(program_text(count)) for count in (len(PROBLEMS), 200, 1000)]
    runs = [lambda p=p: tilesat.tile(p, rules=rules) for p in programs]
    runs[0]()
    few, many, most = best_of(5, *runs)
    note = f"rules {rules}: {few * 1e3:.1f}, {many * 1e3:.1f} and {most * 1e3:.0f} ms"
    yield Result(f"200 matmuls over 5 problems against those 5 alone, {rules}", many / few, 8.0, "times", note)
    yield Result(f"1,000 matmuls against 200, {rules}", most / many, 6.0, "times", "")
    yield Result(f"one more matmul of a known problem, {rules}", (most - many) / 800 * 1e3, 0.6, "ms", "(1,000 - 200) / 800")


def _memory() -> Result:
    """Peak resident memory of a fresh process that tiles the 200 matmuls."""
    script = (
        "import resource, sys, tilesat\nfrom bench_programs import program_text\n"
        "str(tilesat.tile(tilesat.parse(program_text(200))).program)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=here)
    unit = 1024.0 if sys.platform != "darwin" else 1.0
    return Result("peak memory, 200 matmuls", int(done.stdout) * unit / 2**20, 400.0, "MiB", "a process of its own, text to text")
