"""Batch plans: any published problem in 150 ms, warm, and 1,000 random ones in a minute on two processes."""

from __future__ import annotations

import json
import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from harness import Result, best_of, seconds

PROBLEMS, PROCESSES = 1000, 2


def published() -> list[dict[str, Any]]:
    """The batch shapes of the corpus."""
    from tilesat.corpus.shapes import SHAPES

    rows = json.loads(SHAPES.read_text(encoding="utf-8"))["batch"]
    return [{k: v for k, v in row.items() if k != "source"} for row in rows]


def random_problem(seed: int) -> dict[str, Any]:
    """A problem of any size: extents are drawn evenly on a logarithmic scale."""
    rng = random.Random(seed)
    found: dict[str, Any] = {name: int(2 ** rng.uniform(0, top)) for name, top in (("B", 11), ("M", 12), ("N", 12), ("K", 16))}
    found |= {"dtype": rng.choice(("bf16", "fp16", "fp32", "int8")), "bias": rng.choice((None, None, "shared", "batched"))}
    found |= {"transpose_a": rng.random() < 0.3, "transpose_b": rng.random() < 0.3}
    return found | ({rng.choice(("batch_a", "batch_b")): 1} if rng.random() < 0.2 else {})


def plan(arguments: dict[str, Any]) -> str:
    """Plan one problem, its program included."""
    from tilesat.batch import plan_batch

    found = plan_batch(**arguments)
    return f"{found.branch} {len(found.program.functions)}"


def plan_some(seeds: list[int]) -> int:
    return len([plan(random_problem(s)) for s in seeds])


def thousand() -> None:
    """A thousand problems over two processes, their start included."""
    parts = [list(range(i, PROBLEMS, PROCESSES)) for i in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        assert sum(pool.map(plan_some, parts)) == PROBLEMS


def measure() -> list[Result]:
    from tilesat.batch import candidates_of

    shapes = published()
    for row in shapes:
        plan(row)
    slowest = 0.0
    for row in shapes:

        def fresh(row: dict[str, Any] = row) -> None:
            candidates_of.cache_clear()
            plan(row)

        slowest = max(slowest, *best_of(3, fresh))
    return [
        Result("batch plan, slowest published problem", slowest * 1e3, 150, "ms", "warm, L0 rules included"),
        Result("1,000 random batch plans", seconds(thousand), 60, "s", "two processes, from their start"),
    ]
