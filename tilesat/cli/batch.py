"""``tilesat batch``: how a batch matmul is spread over the cores of a chip."""

from __future__ import annotations

from typing import Annotated

import typer

from tilesat.cli import options
from tilesat.cli.numbers import Numbers
from tilesat.cli.outcome import DONE, command
from tilesat.cli.output import progress, show_json


def register(app: typer.Typer) -> None:
    app.command("batch", cls=Numbers)(command(batch))


def batch(
    b: Annotated[int, typer.Argument(metavar="B", help="Batches of the result.", show_default=False)],
    m: Annotated[int, typer.Argument(metavar="M", help="Rows of each result.", show_default=False)],
    n: Annotated[int, typer.Argument(metavar="N", help="Columns of each result.", show_default=False)],
    k: Annotated[int, typer.Argument(metavar="K", help="What is summed over.", show_default=False)],
    dtype: Annotated[str, typer.Option("--dtype", "-d", metavar="TYPE", help="The operands' element type.")] = "bf16",
    batch_a: Annotated[int | None, typer.Option(metavar="N", help="Batches of A: B, or 1 to share it.", show_default="B")] = None,
    batch_b: Annotated[int | None, typer.Option(metavar="N", help="Batches of B: B, or 1 to share it.", show_default="B")] = None,
    bias: Annotated[
        str | None, typer.Option(metavar="KIND", help="shared: one \\[N]; batched: \\[B, 1, N].", show_default=False)
    ] = None,
    transpose_a: Annotated[bool, typer.Option("--transpose-a", help="A is stored \\[batch, K, M].", show_default=False)] = False,
    transpose_b: Annotated[bool, typer.Option("--transpose-b", help="B is stored \\[batch, N, K].", show_default=False)] = False,
    chip: Annotated[str, typer.Option(metavar="NAME", help="A chip by name, or the path of a description.")] = "ascend950pr",
    reading: Annotated[str, typer.Option(metavar="NAME", help="Whose entry conditions hold: analysis or operator.")] = "analysis",
    order: Annotated[
        str, typer.Option(metavar="NAME", help="latency: the cheapest branch; operator: the first capable.")
    ] = "latency",
    any_order: Annotated[
        bool, typer.Option("--nondeterministic", help="Partial sums may be added in any order.", show_default=False)
    ] = False,
    rules: Annotated[
        str, typer.Option(metavar="SPEC", help='The branches there are: "all", "all,-merge_batch"; file.py:FAMILY adds yours.')
    ] = "all",
    program: Annotated[
        bool, typer.Option("--program", help="Print the plan as a multi-core program instead.", show_default=False)
    ] = False,
    json: options.AsJson = False,
) -> int:
    """Plan a batch matmul C[B, M, N] = A[B, M, K] @ B[B, K, N].

    The branch, its parameters down to the L0 tile, the predicted microseconds of every capable branch, and why others are not.
    """
    from tilesat.batch import plan_batch
    from tilesat.cli.batch_report import plan_json, tell

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
        show_json(plan_json(plan, with_program=program))
    elif program:
        print(text)
    else:
        tell(plan)
    return DONE
