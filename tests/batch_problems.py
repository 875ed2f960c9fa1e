"""Batch problems for tests: a small chip on which every branch is met by small tensors, drawn problems, numpy's answer."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from cost.batch.chip import Chip, get_chip
from cost.batch.latency import Latency
from cost.batch.problem import BatchProblem
from egraph_rules.batch import language as L
from extraction.batch import SCHEDULES, Choice, reduced_problem

PR = get_chip("ascend950pr")
#: A chip with four cores and floors so low that tensors of a few thousand elements meet every branch and every case.
SMALL = dataclasses.replace(
    PR,
    name="small",
    cores=4,
    vector_cores=8,
    l1_bytes=32768,
    l0a_bytes=8192,
    l0b_bytes=8192,
    l0c_bytes=32768,
    bias_bytes=512,
    vec_bytes=16384,
    l2_bytes=20000,
    min_tile_bytes=256,
    min_bytes_per_core=1024,
    run_bytes=32,
    stream_k_theta=16,
    stream_k_min_segment=32,
)
HELD = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp32": np.float32, "int8": np.int8}


def arrays(p: BatchProblem, seed: int) -> tuple[dict[str, Any], Any]:
    """Integer-valued operands as the program takes them, and numpy's result in C's element type."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (p.batch_a, p.M, p.K)), rng.integers(-3, 4, (p.batch_b, p.K, p.N))
    c = np.matmul(a, b) + np.zeros((p.B, 1, 1), np.int64)
    operand = HELD[p.operand.name]
    result = HELD.get(p.result.name, np.int32)
    given = {
        "a": (a.swapaxes(1, 2) if p.transpose_a else a).astype(operand).copy(),
        "b": (b.swapaxes(1, 2) if p.transpose_b else b).astype(operand).copy(),
    }
    if p.bias is not None:
        bias = rng.integers(-5, 6, (p.N,) if p.bias == "shared" else (p.B, 1, p.N))
        given["bias"] = bias.astype(result)
        c = c + bias
    exact = c.astype(np.int32) if result is np.int32 else c.astype(np.float32).astype(result)
    return given, exact


HOMES = ("any", "iterated", "cut", "merged", "merged_broadcast", "streamed", "broadcast", "shallow", "blocks")


def drawn(seed: int) -> tuple[Chip, dict[str, Any], str, bool]:
    """A problem near some branch's home: (chip, arguments of ``batch_problem``, reading, deterministic)."""
    rng = random.Random(seed)
    home = HOMES[seed % len(HOMES)]
    chip = PR if seed % 4 == 3 else SMALL
    size = {"B": rng.choice((1, 2, 3, 5, 8, 12, 17)), "M": rng.randint(1, 70), "N": rng.randint(1, 70), "K": rng.randint(1, 100)}
    if home == "iterated":
        size["B"] = rng.choice((4, 7, 8, 11) if chip is SMALL else (32, 40, 64))
    elif home == "cut":
        chip = SMALL
        size |= {"B": rng.choice((4, 4, 8)), "M": rng.randint(16, 150), "N": rng.randint(16, 150), "K": rng.randint(60, 200)}
    elif home.startswith("merged"):
        chip = SMALL
        size |= {"B": rng.choice((16, 17, 20, 24)), "M": rng.randint(1, 24), "N": rng.randint(1, 24), "K": rng.randint(30, 130)}
    elif home == "streamed":
        size |= {"B": rng.randint(1, 2), "M": rng.randint(1, 16), "N": rng.randint(1, 16), "K": rng.randint(200, 900)}
    elif home == "shallow":
        size |= {"K": rng.choice((0, 1, 1)), "B": rng.choice((3, 16, 20))}
    elif home == "blocks":
        size |= {"B": rng.randint(1, 3), "M": rng.randint(60, 150), "N": rng.randint(60, 150)}
    arguments: dict[str, Any] = {
        **size,
        "operand": rng.choice(tuple(HELD)),
        "bias": rng.choice((None, None, "shared", "batched")),
        "transpose_a": rng.random() < 0.4,
        "transpose_b": rng.random() < 0.4,
    }
    if home == "merged_broadcast":
        arguments["batch_a"] = 1
    elif home == "broadcast":
        arguments[rng.choice(("batch_a", "batch_b"))] = 1
    return chip, arguments, rng.choice(("analysis", "analysis", "operator")), rng.random() < 0.5


def candidates(frozen: Any, p: BatchProblem) -> Iterator[Choice]:
    """Every schedule in a saturated e-graph, priced or not: all of them must be sound."""
    nothing = Latency({}, 0.0, 0.0)
    reduced: dict[int, list[Choice]] = {}
    for table in SCHEDULES:
        names = [c for c, _ in table.columns][1:]
        rows = np.array(frozen.numbers(table)[0], dtype=np.int64).reshape(-1, len(names) + 1)
        for number, *columns in rows[np.lexsort(rows.T[::-1])].tolist():
            choice = Choice(table.name, reduced_problem(p, number), dict(zip(names, columns, strict=True)), nothing)
            if number == L.GIVEN:
                yield choice
            else:
                reduced.setdefault(number, []).append(choice)
    for number, role, *_ in sorted(frozen.rows(L.Reduced)):
        for inner in reduced.get(number + role, ()):
            yield Choice("Reduced", p, {"role": role}, nothing, inner)


def kind_of(choice: Choice) -> str:
    """What sort of schedule this is, finer than its branch."""
    c = choice.columns
    if choice.inner is not None:
        return f"{L.ROLES[c['role']]} {kind_of(choice.inner)}"
    detail = {
        "IterBatch": lambda: f" {c['case']}",
        "Blocks": lambda: f" held {c['held']}" + (" in L2 parts" if c["cut_m"] * c["cut_n"] > 1 else ""),
        "StreamK": lambda: " atomic" if c["atomic"] else " workspace",
        "MergeBatch": lambda: " panels" if c["k_l1"] < choice.problem.K else " whole",
    }.get(choice.kind)
    return choice.kind + (detail() if detail is not None else "")
