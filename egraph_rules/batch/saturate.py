"""Run the branch rules on one problem: facts in, a saturated e-graph's rows out."""

from __future__ import annotations

from collections.abc import Sequence

from cost.batch.chip import Chip
from cost.batch.problem import BatchProblem
from egraph_rules.batch import language as L
from egraph_rules.engine import Engine, Facts, Frozen, Session, kept_engine
from egraph_rules.report import Limits, Report
from egraph_rules.rule import Family


def chip_row(chip: Chip, p: BatchProblem, b0: int) -> dict[str, int]:
    """The columns of :data:`~egraph_rules.batch.language.chip`, for operands of ``p``'s type."""
    return {
        "C": chip.cores,
        "aiv": chip.vector_cores,
        "l1": chip.l1_bytes,
        "l0a": chip.l0a_bytes,
        "l0b": chip.l0b_bytes,
        "l0c": chip.l0c_bytes,
        "l2": chip.l2_bytes,
        "ub": chip.vec_bytes,
        "bias_table": chip.bias_bytes,
        "balance": chip.balance_milli(p.operand),
        "min_tile": chip.min_tile_bytes,
        "min_core": chip.min_bytes_per_core,
        "min_active": chip.min_active_cores,
        "k_run": chip.k_run_bytes,
        "run": chip.run_bytes,
        "theta": chip.stream_k_theta,
        "min_segment": chip.stream_k_min_segment,
        "workspace_tile": chip.workspace_tile_bytes,
        "b0": b0,
    }


def batch_row(p: BatchProblem) -> dict[str, int]:
    """The columns of :data:`~egraph_rules.batch.language.batch` for the given problem, which is number 0."""
    return {
        "p": 0,
        "role": L.GIVEN,
        "B": p.B,
        "M": p.M,
        "N": p.N,
        "K": p.K,
        "batch_a": p.batch_a,
        "batch_b": p.batch_b,
        "equal": int(p.equal_batches),
        "bytes": p.bytes,
        "bias": (None, "shared", "batched").index(p.bias),
        "trans_a": int(p.transpose_a),
        "trans_b": int(p.transpose_b),
        "box_m": p.box_m,
        "box_n": p.box_n,
        "box_k": p.box_k,
    }


def state(p: BatchProblem, chip: Chip, reading: str, deterministic: bool, b0: int) -> Facts:
    """The facts of one problem on one chip under one reading."""
    facts: dict[str, Sequence[tuple[int | str, ...]]] = {
        "batch": [tuple(batch_row(p).values())],
        "chip": [tuple(chip_row(chip, p, b0).values())],
        "reading": [(reading,)],
    }
    if not deterministic:
        numbers = [(role,) for role in range(L.STRIDE)]
        facts["any_order"] = numbers
        facts["asynchronous"] = numbers if p.sums_exact else []
    return facts


def saturate(facts: Facts, families: tuple[Family, ...], limits: Limits | None = None) -> tuple[Frozen, Report]:
    """Run ``families`` on ``facts`` to their fixpoint, or to a limit that the report names."""
    engine = kept_engine(("batch", families), lambda: Engine(families, L.axioms(), L))
    with Session(engine, facts) as session:
        report = session.run(limits or Limits())
        return session.freeze(), report
