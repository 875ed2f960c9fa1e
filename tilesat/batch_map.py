"""Where MergeBatch and IterBatch are both capable, which one the latency model takes: a map over M × N.

python -m tilesat.batch_map docs/batch_map.svg
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilesat.batch import plan_batch

MERGE, ITER = "merge_batch", "iter_batch"
EXTENTS = tuple(range(8, 97, 8))
DEPTHS = (128, 256, 512, 1024)
BATCHES = 1024


@dataclass(frozen=True, slots=True)
class Point:
    """One problem of the map: predicted microseconds of both branches, None where one is not capable."""

    M: int
    N: int
    K: int
    merge: float | None
    iterate: float | None

    @property
    def gain(self) -> float | None:
        """How many times as long the batch-by-batch plan takes as the merged one; None where only one of them is capable."""
        return self.iterate / self.merge if self.merge and self.iterate else None


def arbitration(
    extents: Sequence[int] = EXTENTS, depths: Sequence[int] = DEPTHS, batches: int = BATCHES, **more: Any
) -> list[Point]:
    """The map's points, depth by depth, row by row. ``more``: further arguments of ``plan_batch`` (bf16 unless said)."""
    found = []
    for K in depths:
        for M in extents:
            for N in extents:
                capable = plan_batch(**{"B": batches, "M": M, "N": N, "K": K, "dtype": "bf16", **more}).alternatives
                merge, iterate = (capable[b].total if b in capable else None for b in (MERGE, ITER))
                found.append(Point(M, N, K, merge, iterate))
    return found


def draw(points: Sequence[Point], path: str | os.PathLike[str]) -> None:
    """One panel a depth: blue where merging wins, red where iterating does, white for ties, grey where only one is capable."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.colors import TwoSlopeNorm

    depths = sorted({p.K for p in points})
    extents = sorted({p.M for p in points})
    gains = {(p.K, p.M, p.N): p.gain for p in points}
    top = max([g - 1 for g in gains.values() if g is not None] + [0.01])
    with plt.rc_context({"svg.hashsalt": "tilesat", "font.size": 9}):
        figure, axes = plt.subplots(1, len(depths), figsize=(3.2 * len(depths) + 1, 3.6), sharey=True, squeeze=False)
        for axis, K in zip(axes[0], depths, strict=True):
            grid = np.array([[gains[K, m, n] for n in extents] for m in extents], dtype=float)
            shown = axis.imshow(
                (grid - 1) * 100, origin="lower", cmap="RdBu", norm=TwoSlopeNorm(0, -top * 100, top * 100), aspect="equal"
            )
            axis.set_facecolor("0.85")
            axis.set_title(f"K = {K}")
            axis.set_xlabel("N")
            axis.set_xticks(range(0, len(extents), 2), extents[::2])
            axis.set_yticks(range(0, len(extents), 2), extents[::2])
        axes[0][0].set_ylabel("M")
        figure.suptitle("IterBatch against MergeBatch: how much longer it takes, %  (grey: only one of them is capable)")
        figure.colorbar(shown, ax=list(axes[0]), shrink=0.8)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(arbitration(), sys.argv[1] if len(sys.argv) > 1 else "batch_map.svg")
