"""``plan_batch``: how a batch matmul is spread over the cores of a chip, and why so (specification 3)."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cost.errors import Rejected, TilesatError

if TYPE_CHECKING:
    from cost.batch.chip import Chip
    from cost.batch.latency import Latency
    from cost.batch.problem import BatchProblem
    from cost.batch.schedule import CoreProduct, Schedule
    from cost.dtypes import DType
    from cost.hardware import Target
    from egraph_rules.report import Limits, Report
    from extraction.batch import Choice
    from extraction.policy import Priced
    from ir_bridge.ir.nodes import Program

#: K beyond this makes no difference to the depth of a panel, and the L0 rules' integers hold no more.
DEEP = 1 << 20
READINGS, ORDERS = ("analysis", "operator"), ("latency", "operator")


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One way to run a batch matmul on all cores of a chip.

    ``branch``: to_matmul, special_k0, special_k1, merge_batch, iter_batch, asw_basic or stream_k. ``split``: the dimensions cut
    between cores, one of the 15 classes. ``params``: every parameter of the branch, down to the L0 tile ``m``, ``n``, ``k``.
    ``latency``: the predicted microseconds by term. ``alternatives``: the latency of the best plan of every capable branch, this
    one's included. ``refused``: the branches that are not capable, each with its reasons in numbers.
    """

    problem: BatchProblem
    chip: Chip
    branch: str
    split: frozenset[str]
    params: dict[str, Any]
    latency: Latency
    alternatives: dict[str, Latency]
    refused: dict[str, tuple[str, ...]]
    schedule: Schedule
    report: Report
    notes: tuple[str, ...] = ()
    _program: list[Program] = field(default_factory=list, repr=False, compare=False)

    @property
    def program(self) -> Program:
        """The plan as multi-core loop IR: an SPMD loop around each core's loops (made when first asked for)."""
        if not self._program:
            from ir_bridge.batch.lift import lift_batch

            self._program.append(lift_batch(self.schedule, self.chip))
        return self._program[0]

    def __str__(self) -> str:
        split = ", ".join(d for d in "BMNK" if d in self.split)
        return f"{self.problem}: {self.branch}, split {{{split}}}, {self.latency}"


def plan_batch(
    *,
    B: int,
    M: int,
    N: int,
    K: int,
    dtype: str | DType,
    batch_a: int | None = None,
    batch_b: int | None = None,
    bias: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    chip: str | os.PathLike[str] | Mapping[str, Any] | Chip = "ascend950pr",
    reading: str = "analysis",
    order: str = "latency",
    deterministic: bool = True,
    branch: str | None = None,
    rules: str = "all",
    b0: int = 2,
    limits: Limits | None = None,
) -> BatchPlan:
    """The plan of C[B, M, N] = A[BatchA, M, K] @ B[BatchB, K, N] (+ bias) on ``chip``.

    ``dtype`` is the operands' element type: bf16, fp16, fp32 or int8. ``batch_a`` and ``batch_b`` are B or 1; ``bias`` is None,
    "shared" ([N]) or "batched" ([B, 1, N]). ``transpose_a``: A is stored [BatchA, K, M]; ``transpose_b``: B is stored
    [BatchB, N, K]. ``reading``: whose entry conditions hold, those of the "analysis" or of the vendor's "operator". ``order``:
    the cheapest capable branch by "latency", or the first one in the "operator"'s order; ``branch``: this branch and no other.
    ``deterministic`` False lets partial sums be added in any order. ``rules``: branch families, as ``"all,-merge_batch"``;
    yours by their place, ``"all,my_rules.py:FAMILY"``. ``b0``: least number of batches that MergeBatch merges. ``limits``
    bound saturation.

    Raises :class:`~cost.errors.Rejected` where there is no plan (an empty result; no capable branch, with every branch's
    reasons), :class:`~cost.errors.TilesatError` for arguments that make no problem.
    """
    from cost.batch.chip import get_chip
    from cost.batch.problem import batch_problem

    for name, value, known in (("reading", reading, READINGS), ("order", order, ORDERS)):
        if value not in known:
            raise TilesatError(f"{name} = {value!r}: give one of {', '.join(map(repr, known))}")
    b0 = _check_options(b0, deterministic, limits)
    problem = batch_problem(
        B=B,
        M=M,
        N=N,
        K=K,
        operand=dtype,
        batch_a=batch_a,
        batch_b=batch_b,
        bias=bias,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    if branch is not None:
        order = _branch(branch)
    return _plan(problem, get_chip(chip), reading, order, deterministic, rules, b0, limits)


def _check_options(b0: object, deterministic: object, limits: object) -> int:
    """``b0`` as an int; options of the wrong kind are refused, and a ``b0`` that no problem's B can reach."""
    from cost.batch.problem import MAX_EXTENT, whole
    from egraph_rules.report import Limits

    least = whole("b0", b0)
    if not 2 <= least <= MAX_EXTENT:
        raise TilesatError(f"b0 = {b0!r}: MergeBatch merges at least 2 batches; give a whole number from 2 to {MAX_EXTENT}")
    if not isinstance(deterministic, bool):
        raise TilesatError(f"deterministic must be True or False, not {deterministic!r}")
    if limits is not None and not isinstance(limits, Limits):
        raise TilesatError(f"limits must be None or a tilesat Limits, not {limits!r}")
    return least


def _branch(name: str) -> str:
    from extraction.batch import BRANCHES

    if name not in BRANCHES:
        raise TilesatError(f"unknown branch {name!r}; known: {', '.join(BRANCHES)}")
    return name


def _plan(
    p: BatchProblem, chip: Chip, reading: str, order: str, deterministic: bool, rules: str, b0: int, limits: Limits | None
) -> BatchPlan:
    """The plan; ``order`` may be a branch's name as well."""

    from egraph_rules.batch.catalogue import branch_rules
    from egraph_rules.batch.saturate import saturate, state
    from egraph_rules.report import StopReason
    from extraction.batch import BRANCHES, best_by_branch, fallback, pick, split_of
    from extraction.batch_refusals import why_refused

    families = branch_rules(rules)
    frozen, report = saturate(state(p, chip, reading, deterministic, b0), families, limits)
    found = best_by_branch(frozen, p, chip)
    refused = {b: why_refused(b, reading, p, chip, b0, frozen, families) for b in BRANCHES if b not in found}
    choice = found.get(order) if order in BRANCHES else pick(found, order)
    if choice is None and report.stop is not StopReason.SATURATED:
        choice = fallback(p, chip)
    if choice is None and order in BRANCHES:
        raise Rejected(f"{order} is not capable of {p} on {chip.name}: {'; '.join(refused[order])}")
    if choice is None:
        reasons = "; ".join(f"{b}: {r[0]}" for b, r in refused.items() if r)
        raise Rejected(f"no branch is capable of {p} on {chip.name} ({reasons})")
    schedule = complete(choice, chip)
    return BatchPlan(
        p,
        chip,
        choice.branch,
        split_of(choice, chip),
        parameters(schedule, chip, b0),
        choice.latency,
        {b: found[b].latency for b in BRANCHES if b in found} or {choice.branch: choice.latency},
        {b: reasons for b, reasons in refused.items() if b != choice.branch},
        schedule,
        report,
        tuple(_notes(p, chip, schedule, report)),
    )


def _notes(p: BatchProblem, chip: Chip, s: Schedule, report: Report) -> Iterator[str]:
    from egraph_rules.report import StopReason
    from ir_bridge.batch.lift import workspace_of

    if report.stop is not StopReason.SATURATED:
        yield f"the {report.stop.value} ended the search; this is the best plan found so far"
    need = p.total_bytes + workspace_of(s, chip)
    if need > chip.gm_bytes:
        yield f"tensors and workspace take {need} bytes, {chip.name} has {chip.gm_bytes} bytes of global memory (nominal)"


# -- the core's product, through the L0 rules ------------------------------------------------------------------------


def complete(choice: Choice, chip: Chip) -> Schedule:
    """A choice completed down to the L0 tile."""
    from cost.batch.schedule import Schedule, core_product

    if choice.inner is not None:
        return Schedule(choice.kind, choice.problem, choice.columns, None, complete(choice.inner, chip))
    product = core_product(choice.kind, choice.problem, chip, choice.columns)
    tile = None if product is None else l0_tile(product, choice.problem, chip)
    return Schedule(choice.kind, choice.problem, choice.columns, tile)


def l0_tile(product: CoreProduct, p: BatchProblem, chip: Chip) -> tuple[int, int, int]:
    """The (m, n, k) of a core's product: the cheapest of the L0 rules' candidates that the loops around it admit.

    A product whose accumulator stays while K streams has one window: then only the depth of its panels is open.
    """
    import numpy as np

    priced = candidates_of(product.M, product.N, min(product.K, DEEP), p.operand, chip.target, product.fixed)
    c = priced.schedules.candidates
    m, n, k = c.m, c.n, c.k
    mask = product.admits(m, n, k)
    if product.fixed:
        mask = mask & (m == product.M) & (n == product.N)
    row = priced.best_of(np.flatnonzero(mask))
    if row is None:
        raise Rejected(
            f"no L0 tile of the core's {product.M} × {product.N} × {product.K} product fits the loops around it on {chip.name}"
        )
    return int(m[row]), int(n[row]), int(k[row])


@functools.lru_cache(maxsize=512)
def candidates_of(M: int, N: int, K: int, operand: DType, target: Target, fixed: bool) -> Priced:
    """Output-stationary schedules of a product by the L0 rules, priced by the roofline; one window only where ``fixed``."""
    from cost.models import cost_model
    from cost.problem import Problem
    from egraph_rules.catalogue import rules
    from extraction.policy import price
    from tilesat.choose import saturate

    problem = Problem.of(M, N, K, operand)
    families = rules("whole,k_split,stationarity" if fixed else "whole,k_split,stationarity,mn_grid")
    taken, _ = saturate(problem, target, families, operand_stationary=False, double_buffer_c=False)
    schedules = taken.schedules.get(0)
    if schedules is None:
        raise Rejected(f"no L0 tile of {M} × {N} × {K} in {operand} fits a core of {target.name}")
    return price(schedules, problem, cost_model("roofline"), target)


# -- parameters ------------------------------------------------------------------------------------------------------


def parameters(s: Schedule, chip: Chip, b0: int) -> dict[str, Any]:
    """Every parameter of a schedule by the names of the specification, the L0 tile included."""
    from ir_bridge.batch.lift import workspace_of

    make = {
        "MergeBatch": _merge_parameters,
        "IterBatch": _iter_parameters,
        "Blocks": _block_parameters,
        "HoldA": _block_parameters,
        "StreamK": _stream_parameters,
        "Reduced": _reduced_parameters,
    }.get(s.kind)
    found: dict[str, Any] = {} if make is None or s.problem.K == 0 else make(s, chip, b0)
    if s.tile is not None:
        found |= dict(zip(("m", "n", "k"), s.tile, strict=True))
    workspace = workspace_of(s, chip)
    return found | ({"workspace_bytes": workspace} if workspace else {})


def _merge_parameters(s: Schedule, chip: Chip, b0: int) -> dict[str, Any]:
    from cost.batch import tiling

    p, b, k_l1 = s.problem, s.columns["b"], s.columns["k_l1"]
    rows, columns = tiling.merged_rows(p, b), tiling.merged_columns(p, b)
    return {
        "b0": b0,
        "b_core": tiling.batches_per_core(p, chip),
        "b": b,
        "b_l0": b,
        "k_l0": tiling.panel_depth(p, chip, rows, columns),
        "k_l1": k_l1,
        "b_l1": b * tiling.merged_groups(p, chip, b, k_l1),
        "merged_m": rows,
        "merged_n": columns,
        "l0c_buffers": 2,
    }


def _iter_parameters(s: Schedule, chip: Chip, b0: int) -> dict[str, Any]:
    from cost.batch import tiling
    from cost.batch.schedule import iter_piece, iter_stage
    from cost.batch.work import iter_block
    from cost.physical import ceil_div

    p, c = s.problem, s.columns
    assert s.tile is not None
    by_rows = c["case"] in (tiling.ONE_RIGHT, tiling.PING_RIGHT)
    cut = int(iter_piece(p, c, s.tile[0], s.tile[2]))
    base = iter_block(p, chip, c["case"], c["accumulators"], cut)
    found = {
        "b_core": tiling.batches_per_core(p, chip),
        "case": tiling.CASE_NAMES[c["case"]],
        "step": ceil_div(p.M if by_rows else p.K, cut) if c["step"] > 1 else 1,
        "batches_per_load": c["batches"],
        "base_m": base[0],
        "base_n": base[1],
        "base_k": base[2],
        "l1_buffers": int(iter_stage(p, chip, c, *s.tile)),
        "l0c_buffers": c["accumulators"],
    }
    if c["step"] > 1:
        found["m_l1" if by_rows else "k_l1"] = cut
    return found


def _block_parameters(s: Schedule, chip: Chip, b0: int) -> dict[str, Any]:
    from cost.batch import tiling
    from cost.physical import ceil_div

    p, c = s.problem, s.columns
    assert s.tile is not None
    held = c.get("held", tiling.HELD_A)
    k_l1, trip = tiling.stream_panels(p, chip, c["m"], c["n"], s.tile[2], p.K, held)
    rows, columns = ceil_div(p.M, c["m"]), ceil_div(p.N, c["n"])
    found = {
        "m_t": c["m"],
        "n_t": c["n"],
        "m_cnt": rows,
        "n_cnt": columns,
        "blocks": p.B * rows * columns,
        "cores": min(chip.cores, p.B * rows * columns),
        "base_k": tiling.panel_depth(p, chip, c["m"], c["n"]),
        "k_l1": k_l1,
        "l1_buffers": 2 * trip,
        "l0c_buffers": c["accumulators"],
        "window": chip.window,
        "l2_m": c.get("cut_m", 1),
        "l2_n": c.get("cut_n", 1),
        "full_load": {tiling.NOTHING: None, tiling.HELD_A: "a", tiling.HELD_B: "b"}[held],
    }
    return found | ({"way": "hold_a"} if s.kind == "HoldA" else {})


def _stream_parameters(s: Schedule, chip: Chip, b0: int) -> dict[str, Any]:
    from cost.batch import tiling

    p, c = s.problem, s.columns
    return {
        "blocks_per_batch": chip.cores // p.B,
        "m_cnt": c["rows"],
        "n_cnt": c["columns"],
        "grid_k": c["grid_k"],
        "single_core_k": tiling.segment(p, c["grid_k"]),
        "cores": p.B * c["rows"] * c["columns"] * c["grid_k"],
        "reduction": "atomic" if c["atomic"] else "workspace",
    }


def _reduced_parameters(s: Schedule, chip: Chip, b0: int) -> dict[str, Any]:
    from egraph_rules.batch.language import ROLES
    from extraction.batch import BRANCH_OF

    assert s.inner is not None
    way = {"folded": "fold_rows", "aligned": "fold_batches", "relaid": "fold_columns", "broadcast": "broadcast_a"}
    inner = parameters(s.inner, chip, b0)
    return {"way": way[ROLES[s.columns["role"]]], "inner_branch": BRANCH_OF[s.inner.kind], **inner}
