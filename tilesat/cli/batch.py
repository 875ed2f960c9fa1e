"""``tilesat batch``: how a batch matmul is spread over the cores of a chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilesat.cli import options
from tilesat.cli.outcome import DONE, command
from tilesat.cli.output import note, progress, show_json, show_table

if TYPE_CHECKING:
    from tilesat.batch import BatchPlan


def register(app: typer.Typer) -> None:
    app.command("batch")(command(batch))


def batch(
    b: Annotated[int, typer.Argument(metavar="B", help="Batches of the result.", show_default=False)],
    m: Annotated[int, typer.Argument(metavar="M", help="Rows of each result.", show_default=False)],
    n: Annotated[int, typer.Argument(metavar="N", help="Columns of each result.", show_default=False)],
    k: Annotated[int, typer.Argument(metavar="K", help="What is summed over.", show_default=False)],
    dtype: Annotated[str, typer.Option("--dtype", "-d", metavar="TYPE", help="The operands' element type.")] = "bf16",
    batch_a: Annotated[int | None, typer.Option(metavar="N", help="Batches of A: B, or 1 to share it.", show_default="B")] = None,
    batch_b: Annotated[int | None, typer.Option(metavar="N", help="Batches of B: B, or 1 to share it.", show_default="B")] = None,
    bias: Annotated[
        str | None, typer.Option(metavar="KIND", help="shared: one [N]; batched: [B, 1, N].", show_default=False)
    ] = None,
    transpose_a: Annotated[bool, typer.Option("--transpose-a", help="A is stored [batch, K, M].", show_default=False)] = False,
    transpose_b: Annotated[bool, typer.Option("--transpose-b", help="B is stored [batch, N, K].", show_default=False)] = False,
    chip: Annotated[str, typer.Option(metavar="NAME", help="A chip by name, or the path of a description.")] = "ascend950pr",
    reading: Annotated[str, typer.Option(metavar="NAME", help="Whose entry conditions hold: analysis or operator.")] = "analysis",
    order: Annotated[
        str, typer.Option(metavar="NAME", help="latency: the cheapest branch; operator: the first capable.")
    ] = "latency",
    any_order: Annotated[
        bool, typer.Option("--nondeterministic", help="Partial sums may be added in any order.", show_default=False)
    ] = False,
    rules: Annotated[str, typer.Option(metavar="SPEC", help='The branches there are: "all", "all,-merge_batch".')] = "all",
    program: Annotated[
        bool, typer.Option("--program", help="Print the plan as a multi-core program instead.", show_default=False)
    ] = False,
    json: options.AsJson = False,
) -> int:
    """Plan a batch matmul C[B, M, N] = A[B, M, K] @ B[B, K, N].

    The branch, its parameters down to the L0 tile, the predicted microseconds of every capable branch, and why others are not.
    """
    from tilesat.batch import plan_batch

    with progress("planning"):
        plan = plan_batch(
            B=b,
            M=m,
            N=n,
            K=k,
            dtype=dtype,
            batch_a=batch_a,
            batch_b=batch_b,
            bias=bias,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            chip=chip,
            reading=reading,
            order=order,
            deterministic=not any_order,
            rules=rules,
        )
        text = str(plan.program) if program else ""
    if json:
        show_json(as_data(plan) | ({"program": text} if program else {}))
    elif program:
        print(text)
    else:
        tell(plan)
    return DONE


def as_data(plan: BatchPlan) -> dict[str, Any]:
    """The plan as plain data; ``docs/cli.md`` lists its fields."""
    return {
        "schema": "tilesat.batch/1",
        "problem": str(plan.problem),
        "chip": plan.chip.name,
        "branch": plan.branch,
        "split": [d for d in "BMNK" if d in plan.split],
        "params": plan.params,
        "latency": _latency(plan.latency),
        "alternatives": {name: _latency(x) for name, x in plan.alternatives.items()},
        "refused": {name: list(reasons) for name, reasons in plan.refused.items()},
        "notes": list(plan.notes),
    }


def _latency(x: Any) -> dict[str, Any]:
    return {"total": x.total, "terms": dict(x.terms), "phases": x.phases}


def tell(plan: BatchPlan) -> None:
    """The plan for people: what was chosen, its parameters, the other branches."""
    split = ", ".join(d for d in "BMNK" if d in plan.split) or "nothing"
    print(f"{plan.problem} on {plan.chip.name}: {plan.branch}, cut along {split}, {plan.latency.total:.2f} µs predicted\n")
    show_table(("parameter", ">value"), [(name, _value(x)) for name, x in plan.params.items()])
    print()
    terms = list(dict.fromkeys(t for x in plan.alternatives.values() for t in x.terms))
    columns = ("branch", *(f">{t}" for t in terms), ">phases", ">µs")
    rows = [
        (name, *(f"{x.terms[t]:.2f}" if t in x.terms else "-" for t in terms), f"{x.phases:.2f}", f"{x.total:.2f}")
        for name, x in sorted(plan.alternatives.items(), key=lambda item: item[1].total)
    ]
    show_table(columns, rows)
    print()
    for name, reasons in plan.refused.items():
        print(f"not {name}:", *reasons, sep="\n  ")
    for text in plan.notes:
        note(f"note: {text}")


def _value(x: object) -> str:
    if isinstance(x, bool) or x is None:
        return {True: "yes", False: "no", None: "-"}[x]
    return f"{x:,}" if isinstance(x, int) else str(x)
