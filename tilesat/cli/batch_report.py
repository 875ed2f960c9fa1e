"""A batch plan for people and for programs: text tables, and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesat.cli.output import show_table

if TYPE_CHECKING:
    from cost.batch.latency import Latency
    from tilesat.batch import BatchPlan

#: What each parameter of a plan is, by the names of ``plan.params`` (units: elements, unless said).
MEANING = {
    "way": "how the product was reduced",
    "inner_branch": "the branch the reduced product takes",
    "b0": "least batches that are merged",
    "b_core": "batches of the busiest core",
    "b": "batches merged in one product",
    "b_l0": "batches in L0 at once",
    "k_l0": "K of an L0 panel by the specification's formula",
    "k_l1": "K of a panel in L1",
    "b_l1": "batches in L1 at once",
    "merged_m": "rows of the merged product, boxed",
    "merged_n": "columns of the merged product, boxed",
    "case": "what L1 holds (conditions 3a to 3e)",
    "step": "pieces of the operand that is cut",
    "batches_per_load": "batches that one transfer brings",
    "base_m": "BaseM by the specification's formula",
    "base_n": "BaseN by the specification's formula",
    "base_k": "BaseK by the specification's formula",
    "m_l1": "rows of a piece of A in L1",
    "l1_buffers": "buffers of a panel in L1",
    "l0c_buffers": "accumulators in L0C",
    "m_t": "rows of a block",
    "n_t": "columns of a block",
    "m_cnt": "blocks along M",
    "n_cnt": "blocks along N",
    "blocks": "blocks in all",
    "blocks_per_batch": "cores for each batch",
    "cores": "cores that have work",
    "window": "row blocks in a swizzle window",
    "l2_m": "L2 parts along M",
    "l2_n": "L2 parts along N",
    "full_load": "the operand that stays in L1",
    "grid_k": "segments of K",
    "single_core_k": "K of one segment",
    "reduction": "how partial sums meet",
    "workspace_bytes": "bytes of global memory set aside beside the tensors",
    "m": "L0 tile, rows",
    "n": "L0 tile, columns",
    "k": "L0 tile, depth",
}


def split_name(split: frozenset[str]) -> str:
    """The split class as the specification writes it: ``{B,M}``."""
    return "{" + ",".join(d for d in "BMNK" if d in split) + "}"


def plan_json(plan: BatchPlan, with_program: bool = False) -> dict[str, Any]:
    """The plan as plain data; ``docs/cli.md`` lists its fields."""
    p = plan.problem
    data: dict[str, Any] = {
        "schema": "tilesat.batch/1",
        "problem": {
            **{name: getattr(p, name) for name in ("B", "M", "N", "K", "batch_a", "batch_b")},
            "dtype": p.operand.name,
            **{name: getattr(p, name) for name in ("bias", "transpose_a", "transpose_b")},
        },
        "chip": plan.chip.name,
        "branch": plan.branch,
        "split": [d for d in "BMNK" if d in plan.split],
        "params": plan.params,
        "latency": _latency_json(plan.latency),
        "alternatives": {branch: latency.total for branch, latency in plan.alternatives.items()},
        "refused": {branch: list(reasons) for branch, reasons in plan.refused.items()},
        "notes": list(plan.notes),
    }
    return data | ({"program": str(plan.program)} if with_program else {})


def _latency_json(latency: Latency) -> dict[str, Any]:
    return {
        "unit": "us",
        "total": latency.total,
        "bound": latency.bound,
        "terms": latency.terms,
        "phases": latency.phases,
    }


def tell(plan: BatchPlan) -> None:
    """The plan in tables: the branch, its parameters, the latency by term, what else was capable, what was refused and why."""
    print(f"{plan.problem} on {plan.chip.name}")
    print(f"branch {plan.branch}, split {split_name(plan.split)}, {plan.latency.total:.3f} µs, {plan.latency.bound} bound\n")
    if plan.params:
        show_table(("parameter", ">value", "meaning"), _parameters(plan))
        print()
    show_table(("term", ">µs"), _terms(plan.latency))
    print()
    show_table(("capable branch", ">µs"), [(b, f"{x.total:.3f}") for b, x in _by_total(plan)])
    if plan.refused:
        print()
        show_table(("refused", "because"), _refusals(plan))
    for text in plan.notes:
        print(f"\nnote: {text}")


def _parameters(plan: BatchPlan) -> list[tuple[str, str, str]]:
    return [(name, "–" if v is None else str(v), MEANING.get(name, "")) for name, v in plan.params.items()]


def _terms(latency: Latency) -> list[tuple[str, str]]:
    rows = [(name, f"{value:.3f}") for name, value in latency.terms.items()]
    return [*rows, ("phases before and after", f"{latency.phases:.3f}")] if latency.phases else rows


def _by_total(plan: BatchPlan) -> list[tuple[str, Latency]]:
    return sorted(plan.alternatives.items(), key=lambda item: item[1].total)


def _refusals(plan: BatchPlan) -> list[tuple[str, str]]:
    return [(branch if i == 0 else "", reason) for branch, reasons in plan.refused.items() for i, reason in enumerate(reasons)]
