"""Options that several commands share."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from tilesat.cli.outcome import UsageError

File = Annotated[str, typer.Argument(metavar="FILE", help="A PyPTO program; - reads it from stdin.", show_default=False)]
TargetName = Annotated[
    str, typer.Option("--target", "-t", metavar="NAME", help="A target's name or alias, or the path of a description.")
]
Planner = Annotated[str, typer.Option(metavar="NAME", help="Who will place buffers: dsa_rp, pypto or ptoas.")]
DoubleBufferC = Annotated[
    bool, typer.Option("--pypto-double-buffer-c", help="Allow two accumulators under planner pypto too.", show_default=False)
]
Rules = Annotated[
    str,
    typer.Option(metavar="SPEC", help='A rule set: "reference", "all", "reference,-cast_fold"; file.py:FAMILY adds yours.'),
]
CostModel = Annotated[
    str, typer.Option(metavar="NAME", help="The cost model that picks among the legal plans, or file.py:NAME for yours.")
]
Extractor = Annotated[
    str, typer.Option(metavar="NAME", help="dag: shared work counts once; tree: every time; exact: also keeps Mat's capacity.")
]
Force = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=m,n,k", help="Fix the tile of a product; may be given again for others.", show_default=False),
]
LimitSeconds = Annotated[
    float | None, typer.Option(metavar="S", help="End saturation after S seconds with the best plan so far.", show_default="10")
]
LimitNodes = Annotated[
    int | None,
    typer.Option(metavar="N", help="End saturation at N e-graph rows with the best plan so far.", show_default="200000"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.", show_default=False)]
FunctionName = Annotated[
    str | None, typer.Option("--function", metavar="NAME", help="The function that is meant.", show_default=False)
]


def three(text: str, option: str) -> tuple[int, int, int]:
    """ "64,128,256" as (m, n, k)."""
    parts = [p.strip() for p in text.replace("x", ",").replace("×", ",").split(",")]
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() for p in parts):
        raise UsageError(f"{option}: {text!r} is no tile; give three whole numbers m,n,k, as in 64,128,256")
    m, n, k = map(int, parts)
    return m, n, k


def pairs(items: list[str] | None, option: str, example: str) -> dict[str, str]:
    """["a=1", "b=2"] as {"a": "1", "b": "2"}; a name given twice is refused."""
    found: dict[str, str] = {}
    for item in items or []:
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UsageError(f"{option}: {item!r} is not NAME=VALUE, as in {example}")
        if name.strip() in found:
            raise UsageError(f"{option}: {name.strip()!r} is given twice")
        found[name.strip()] = value.strip()
    return found


def tiles(items: list[str] | None, option: str) -> dict[str, tuple[int, int, int]]:
    """["c=64,128,256"] as {"c": (64, 128, 256)}."""
    return {name: three(text, option) for name, text in pairs(items, option, f"{option} c=64,128,256").items()}


def whole_numbers(items: list[str] | None, option: str, example: str) -> dict[str, int]:
    """["T=64"] as {"T": 64}."""
    found = {}
    for name, value in pairs(items, option, example).items():
        if not value.removeprefix("-").isascii() or not value.removeprefix("-").isdigit():
            raise UsageError(f"{option}: {value!r} for {name!r} is no whole number; write it as in {example}")
        found[name] = int(value)
    return found


def one_of(value: str, known: tuple[str, ...], option: str) -> str:
    """``value`` if it is one of the known ones, else an error that lists them."""
    if value in known:
        return value
    near = difflib.get_close_matches(value, known, 1)
    hint = f" did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"{option}: unknown value {value!r};{hint} known: {', '.join(known)}")
