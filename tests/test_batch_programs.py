"""Programs of batch plans: numpy's result bit for bit, full coverage, no buffer too small, on 324 drawn problems.

Checked are not only the plans that are chosen but candidates of every kind that the e-graph holds.
"""

from __future__ import annotations

import collections
import random

import batch_problems as problems
import numpy as np
import pytest

from cost.batch.problem import batch_problem
from egraph_rules.batch.catalogue import branch_rules
from egraph_rules.batch.saturate import saturate, state
from ir_bridge.batch.coverage import check_coverage
from ir_bridge.batch.lift import lift_batch
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.parser import parse
from ir_bridge.ir.verifier import verify
from tilesat.batch import complete, plan_batch

GROUPS, PER_GROUP = 12, 27
SEEN: collections.Counter[str] = collections.Counter()


def check(choice: problems.Choice, chip: problems.Chip, seed: int) -> None:
    p = choice.problem
    program = lift_batch(complete(choice, chip), chip)
    assert verify(program, chip.target) == ()
    covered = check_coverage(program, p)
    assert covered.elements == p.B * p.M * p.N
    assert covered.stores == 1
    given, wanted = problems.arrays(p, seed)
    assert np.array_equal(execute(program, **given)["c"], wanted)


@pytest.mark.parametrize("group", range(GROUPS))
def test_programs_compute_what_numpy_does(group: int) -> None:
    for seed in range(group * PER_GROUP, (group + 1) * PER_GROUP):
        chip, arguments, reading, deterministic = problems.drawn(seed)
        p = batch_problem(**arguments)
        frozen, _ = saturate(state(p, chip, reading, deterministic, 2), branch_rules())
        by_kind: dict[str, list[problems.Choice]] = {}
        for choice in problems.candidates(frozen, p):
            by_kind.setdefault(problems.kind_of(choice), []).append(choice)
        rng = random.Random(seed)
        rarest = sorted(by_kind, key=lambda kind: (SEEN[kind], kind))[:2]
        for kind in rarest:
            SEEN[kind] += 1
            check(rng.choice(by_kind[kind]), chip, seed)


KINDS = [
    ("MergeBatch whole", {"B": 24, "M": 9, "N": 12, "K": 64}),
    ("MergeBatch panels", {"B": 24, "M": 9, "N": 12, "K": 1000}),
    ("IterBatch 0", {"B": 4, "M": 33, "N": 20, "K": 50}),
    ("IterBatch 1", {"B": 8, "M": 33, "N": 20, "K": 50}),
    ("IterBatch 2", {"B": 4, "M": 90, "N": 30, "K": 140}),
    ("IterBatch 3", {"B": 4, "M": 60, "N": 72, "K": 140}),
    ("IterBatch 4", {"B": 8, "M": 40, "N": 30, "K": 140}),
    ("IterBatch 5", {"B": 8, "M": 60, "N": 36, "K": 100}),
    ("IterBatch 6", {"B": 4, "M": 140, "N": 150, "K": 190}),
    ("Blocks held 0", {"B": 3, "M": 70, "N": 90, "K": 40}),
    ("Blocks held 0 in L2 parts", {"B": 1, "M": 150, "N": 140, "K": 60}),
    ("Blocks held 1", {"B": 30, "M": 20, "N": 40, "K": 64, "batch_a": 1}),
    ("Blocks held 2", {"B": 30, "M": 40, "N": 20, "K": 64, "batch_b": 1}),
    ("HoldA", {"B": 5, "M": 130, "N": 40, "K": 40, "batch_a": 1}),
    ("StreamK workspace", {"B": 1, "M": 16, "N": 16, "K": 700}),
    ("StreamK atomic", {"B": 1, "M": 16, "N": 16, "K": 700, "operand": "fp32"}),
    ("Fill", {"B": 3, "M": 20, "N": 30, "K": 0}),
    ("Outer", {"B": 20, "M": 20, "N": 30, "K": 1}),
    ("folded Blocks held 0", {"B": 5, "M": 7, "N": 30, "K": 40, "batch_b": 1}),
    ("aligned Blocks held 0", {"B": 5, "M": 7, "N": 30, "K": 40, "batch_b": 1}),
    ("relaid Blocks held 0", {"B": 5, "M": 7, "N": 30, "K": 40, "batch_a": 1}),
    ("relaid StreamK workspace", {"B": 2, "M": 7, "N": 7, "K": 700, "batch_a": 1}),
    ("broadcast IterBatch 1", {"B": 8, "M": 33, "N": 20, "K": 50, "batch_a": 1}),
    ("broadcast MergeBatch whole", {"B": 24, "M": 9, "N": 12, "K": 64, "batch_a": 1}),
]


@pytest.mark.parametrize(("kind", "arguments"), KINDS, ids=[k for k, _ in KINDS])
@pytest.mark.parametrize("bias", [None, "shared", "batched"])
def test_every_kind_of_schedule(kind: str, arguments: dict[str, object], bias: str | None) -> None:
    """Each kind on a problem of its own, with transposed operands and with every kind of bias."""
    if bias and kind.endswith("StreamK atomic"):
        arguments = {**arguments, "K": 900}
    for transposed in (False, True):
        p = batch_problem(**{"operand": "bf16", **arguments}, bias=bias, transpose_a=transposed, transpose_b=not transposed)
        if kind.startswith("folded") and (transposed or bias == "batched"):
            continue  # rows of a transposed A do not follow one another, and one bias row does not serve several batches
        if kind.startswith("aligned") and transposed:
            continue
        frozen, _ = saturate(state(p, problems.SMALL, "analysis", False, 2), branch_rules())
        found = [c for c in problems.candidates(frozen, p) if problems.kind_of(c) == kind]
        assert found, f"no {kind} for {p}"
        for choice in (found[0], found[-1]):
            check(choice, problems.SMALL, 7)


def test_programs_are_read_back_as_they_were_written() -> None:
    for arguments in (
        {"B": 64, "M": 17, "N": 20, "K": 33, "transpose_a": True},
        {"B": 256, "M": 32, "N": 32, "K": 1024, "branch": "merge_batch", "bias": "shared"},
        {"B": 3, "M": 300, "N": 500, "K": 70, "bias": "batched"},
        {"B": 2, "M": 16, "N": 16, "K": 7000},
        {"B": 130, "M": 4, "N": 20, "K": 1},
    ):
        program = plan_batch(dtype="bf16", **arguments).program  # type: ignore[arg-type]
        text = str(program)
        assert "__" not in text
        assert parse(text) == program


def test_a_program_of_some_cores_is_their_part_of_the_whole() -> None:
    """Two halves of the cores, one after another on the same C, make all of it."""
    from ir_bridge.batch.lift import Cores

    plan = plan_batch(B=3, M=70, N=90, K=40, dtype="fp32", chip=problems.SMALL)
    given, wanted = problems.arrays(plan.problem, 3)
    first = lift_batch(plan.schedule, plan.chip, Cores((0, 2), (0, 4)))
    second = lift_batch(plan.schedule, plan.chip, Cores((2, 4), (4, 8)))
    half = execute(first, **given)["c"]
    other = execute(second, **given)["c"]
    done_by_first, done_by_second = half != -1009, other != -1009
    assert not (done_by_first & done_by_second).any()
    assert (done_by_first | done_by_second).all()
    assert np.array_equal(np.where(done_by_first, half, other), wanted)


def test_kinds_seen() -> None:
    """The drawn problems reach all kinds of schedules (runs after the groups; skipped where they did not all run)."""
    if sum(SEEN.values()) < GROUPS * PER_GROUP:
        pytest.skip("the drawn problems did not all run in this process")
    assert {k for k, _ in KINDS} <= set(SEEN) | {"StreamK atomic", "relaid StreamK workspace", "IterBatch 2", "IterBatch 3"}
