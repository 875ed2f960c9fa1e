"""``tilesat choose``: the tile of one product, without a program."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tilesat.cli import options
from tilesat.cli.numbers import Numbers
from tilesat.cli.outcome import DONE, command
from tilesat.cli.output import show_json


def register(app: typer.Typer) -> None:
    app.command("choose", cls=Numbers)(command(choose))


def choose(
    m: Annotated[int, typer.Argument(metavar="M", help="Rows of the left operand.", show_default=False)],
    n: Annotated[int, typer.Argument(metavar="N", help="Columns of the right operand.", show_default=False)],
    k: Annotated[int, typer.Argument(metavar="K", help="What is summed over.", show_default=False)],
    dtype: Annotated[str, typer.Option("--dtype", "-d", metavar="TYPE", help="The operands' element type.")] = "bf16",
    target: options.TargetName = "ascend910b",
    operand_stationary: Annotated[
        bool, typer.Option("--operand-stationary", help="Allow A- and B-stationary schedules.", show_default=False)
    ] = False,
    double_buffer_c: Annotated[
        bool, typer.Option("--double-buffer-c", help="Allow two accumulators.", show_default=False)
    ] = False,
    accumulate: Annotated[bool, typer.Option("--accumulate", help="The accumulator is read too.", show_default=False)] = False,
    bias: Annotated[
        str | None, typer.Option(metavar="WHERE", help="mat: rebuilt per window; bias: in the table already.", show_default=False)
    ] = None,
    box_m: Annotated[int, typer.Option(metavar="N", help="Physical box of a window's rows.")] = 1,
    box_n: Annotated[int, typer.Option(metavar="N", help="Physical box of a window's columns.")] = 1,
    allow_padding: Annotated[
        bool, typer.Option("--allow-padding", help="Tiles may exceed the extents, and K be anything.", show_default=False)
    ] = False,
    rules: options.Rules = "reference",
    cost_model: options.CostModel = "roofline",
    json: options.AsJson = False,
) -> int:
    """Choose the L0 tile of one product C[M, N] = A[M, K] @ B[K, N]."""
    import tilesat

    chosen = tilesat.choose_tile(
        M=m,
        N=n,
        K=k,
        dtype=dtype,
        target=target,
        operand_stationary=operand_stationary,
        double_buffer_c=double_buffer_c,
        accumulate=accumulate,
        box_m=box_m,
        box_n=box_n,
        bias=bias,
        allow_padding=allow_padding,
        rules=rules,
        cost_model=cost_model,
    )
    if json:
        show_json({"schema": "tilesat.choose/1", "M": m, "N": n, "K": k, "dtype": dtype, **dataclasses.asdict(chosen)})
        return DONE
    accumulators = "two accumulators" if chosen.double_buffer_c else "one accumulator"
    print(f"tile {chosen.m} × {chosen.n} × {chosen.k}, {chosen.stationarity}-stationary, {accumulators}")
    terms = ", ".join(f"{name} {value:,.1f}" for name, value in chosen.breakdown.items() if name != "wall")
    print(f"{chosen.wall_cycles:,} {chosen.unit}" + (f" ({terms})" if terms else ""))
    print(f"{chosen.traffic_bytes:,} bytes moved, {chosen.padded_volume:,} multiply-accumulates")
    return DONE
