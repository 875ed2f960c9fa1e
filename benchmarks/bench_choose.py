"""`choose_tile`, warm, for problems it has not seen: against the numpy brute force of the tests."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from harness import Result, best_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

#: At most this many times the brute force, or this many milliseconds, whichever is larger.
TIMES, MILLISECONDS = 10.0, 8.0


def measure() -> Iterator[Result]:
    from brute_force import brute_force_numpy

    from tilesat import choose_tile

    common = {"dtype": "bf16", "target": "ascend910b", "operand_stationary": True, "double_buffer_c": True}
    choose_tile(M=64, N=64, K=64, **common)
    for title, (m, n, k) in (("16 × 256 × 512", (16, 256, 512)), ("512³", (512, 512, 512)), ("4096³", (4096, 4096, 4096))):
        pairs = []
        for i in range(15):
            case = {"M": m, "N": n + 16 * i, "K": k, **common}
            ours = best_of(1, lambda case=case: choose_tile(**case))[0]
            theirs = best_of(1, lambda case=case: brute_force_numpy(case))[0]
            pairs.append((ours, theirs))
        ours, theirs = (statistics.median(side) * 1e3 for side in zip(*pairs, strict=True))
        note = f"brute force {theirs:.2f} ms, {ours / theirs:.1f} times; medians of 15 new problems"
        yield Result(f"choose_tile, {title}", ours, max(TIMES * theirs, MILLISECONDS), "ms", note)
