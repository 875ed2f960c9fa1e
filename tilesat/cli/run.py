"""``tilesat run``: execute a program on numbers, or two of them and compare."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilesat.cli import options
from tilesat.cli.files import not_over, read_program, write_whole
from tilesat.cli.outcome import DONE, FOUND, UsageError, command
from tilesat.cli.output import progress, show_json, show_table

if TYPE_CHECKING:
    from ir_bridge.ir.nodes import Program

#: Of whole-number inputs everything must agree bit for bit; of others within this share of an output's largest magnitude.
TOLERANCE = 0.01


def register(app: typer.Typer) -> None:
    app.command("run")(command(run))


def run(
    file: options.File,
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="Run this too and compare.", show_default=False)] = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="NPZ", help="Arrays by parameter name; random ones otherwise.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random inputs.")] = 0,
    floats: Annotated[
        bool, typer.Option("--floats", help="Normal random numbers instead of whole ones from -2 to 2.", show_default=False)
    ] = False,
    dim: Annotated[
        list[str] | None, typer.Option(metavar="NAME=N", help="Value of a dynamic dimension (64 otherwise).", show_default=False)
    ] = None,
    function: options.FunctionName = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0,
            help="Allowed difference, relative to an output's largest value.",
            show_default="0; --floats: 0.01",
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(metavar="NPZ", help="Write inputs and outputs here, as in_NAME and out_NAME.", show_default=False),
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Execute a program on random or given inputs; compare two.

    Values are those of the reference semantics. With OTHER both run on the same inputs; exits with 1 where their outputs differ.
    """
    for name in (file, other):
        not_over(name, save, "--save")
    values = options.whole_numbers(dim, "--dim", "--dim T=64")
    if values and inputs is not None:
        raise UsageError("--dim: the arrays of --inputs have their dimensions already; leave one of the two out")
    program = read_program(file)
    second = None if other is None else read_program(other)
    arrays = _arrays(program, inputs, seed, floats, values, function)
    results = _execute(program, file, function, arrays)
    if save is not None:
        _save(save, arrays, _once(results))
    if second is None or other is None:
        _tell(file, _once(results), json)
        return DONE
    allowed = tolerance if tolerance is not None else 0.0 if inputs is None and not floats else TOLERANCE
    again = _execute(second, other, function, _without_outputs(arrays, program, second, function))
    comparisons = compare(*matched(results, again), allowed)
    _tell_comparison(file, other, comparisons, allowed, json)
    return DONE if all(c.agree for c in comparisons) else FOUND


# -- inputs and outputs ---------------------------------------------------------------------------------------------------


def _arrays(
    program: Program, inputs: str | None, seed: int, floats: bool, dims: dict[str, int], function: str | None
) -> dict[str, Any]:
    from ir_bridge.ir.interpreter_inputs import random_inputs

    if inputs is None:
        return random_inputs(program, seed=seed, integer=not floats, function=function, dims=dims)
    import numpy as np

    try:
        archive = np.load(inputs, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise UsageError(f"--inputs: {inputs} holds a single array; save them by name: numpy.savez(path, name=array, …)")
        with archive:
            found = {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile):
        what = "is no .npz archive of plain arrays; make one with numpy.savez(path, name=array, …)"
        raise UsageError(f"--inputs: {inputs} {what}") from None
    saved = {name.removeprefix("in_"): a for name, a in found.items() if name.startswith("in_")}
    return saved if saved and all(n.startswith(("in_", "out_")) for n in found) else found


def _without_outputs(arrays: dict[str, Any], first: Program, second: Program, function: str | None) -> dict[str, Any]:
    """The arrays for the second program: without those of outputs that only the first, a converted one, has as parameters."""
    from ir_bridge.ir.interpreter_errors import ExecuteError
    from ir_bridge.ir.interpreter_inputs import entry
    from ir_bridge.ir.names import base_name
    from ir_bridge.ir.nodes import Direction

    try:
        mine, other = entry(first, function), entry(second, function)
    except ExecuteError:
        return arrays  # running it will say so
    outputs = {base_name(p.var.name) for p in mine.params if p.direction is Direction.OUT}
    outputs -= {base_name(p.var.name) for p in other.params}
    return {n: a for n, a in arrays.items() if base_name(n) not in outputs}


def _execute(program: Program, file: str, function: str | None, arrays: dict[str, Any]) -> dict[str, Any]:
    """What the program computes, by name."""
    import tilesat

    try:
        with progress(f"running {file}"):
            results: dict[str, Any] = tilesat.execute(program, function, **arrays)
    except tilesat.TilesatError as error:
        raise UsageError(f"{file}: {error}") from None
    return results


def _once(results: dict[str, Any]) -> dict[str, Any]:
    """The results without those that are an output parameter once more."""
    named = [v for n, v in results.items() if not n.startswith("return")]
    return {n: v for n, v in results.items() if not (n.startswith("return") and any(v is x for x in named))}


def matched(first: dict[str, Any], second: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two runs' results, to be compared name by name: each value once, under a name that both have where there is one.

    What a tensor program returns is an output parameter of the program converted from it, and returned by that as well.
    """
    repeats = set(first).difference(_once(first)) & set(second).difference(_once(second))
    a, b = ({n: v for n, v in r.items() if n not in repeats} for r in (first, second))
    common = set(a) & set(b)

    def told(results: dict[str, Any]) -> dict[str, Any]:
        known = [results[n] for n in common]
        return {n: v for n, v in results.items() if n in common or not any(v is x for x in known)}

    return told(a), told(b)


def _save(path: str, arrays: dict[str, Any], results: dict[str, Any]) -> None:
    """Everything in one archive; types numpy has no name for (bf16, int4, …) are widened, which loses nothing."""
    import numpy as np

    named = {f"in_{n}": a for n, a in arrays.items()} | {f"out_{n}": a for n, a in results.items()}
    buffer = io.BytesIO()
    np.savez(buffer, **{n: _plain(np.asarray(a)) for n, a in named.items()})
    write_whole(path, buffer.getvalue())


def _plain(array: Any) -> Any:
    import numpy as np

    return array if array.dtype.isbuiltin == 1 else array.astype(np.float32)


def _tell(file: str, results: dict[str, Any], json: bool) -> None:
    import numpy as np

    rows: list[dict[str, Any]] = []
    for name, value in results.items():
        a = np.asarray(value)
        wide = a.astype(np.float64)
        low, high, mean = (float(f(wide)) if a.size else 0.0 for f in (np.min, np.max, np.mean))
        digest = hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:16]
        figures = {"min": low, "max": high, "mean": mean, "sha256": digest}
        rows.append({"name": name, "shape": list(a.shape), "dtype": str(a.dtype), **figures})
    if json:
        show_json({"schema": "tilesat.run/1", "file": file, "outputs": rows})
        return
    columns = ("output", "shape", "type", ">min", ">max", ">mean", "sha256")
    show_table(columns, [_row(**r) for r in rows])


def _row(name: str, shape: list[int], dtype: str, min: float, max: float, mean: float, sha256: str) -> tuple[str, ...]:
    return (name, _shape(shape), dtype, f"{min:g}", f"{max:g}", f"{mean:.4g}", sha256)


# -- comparing ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output of two programs: how many elements differ, by how much at most, and where that is."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    agree: bool
    differ: int
    largest: float
    text: str


def compare(first: dict[str, Any], second: dict[str, Any], tolerance: float) -> list[Comparison]:
    """Outputs of two runs, name by name; a name only one of them has is a mismatch."""
    found = [_compare(n, first[n], second[n], tolerance) for n in first if n in second]
    for n, mine in ((n, n in first) for n in {**first, **second} if (n in first) != (n in second)):
        found.append(Comparison(n, (), "", False, 0, 0.0, f"only the {'first' if mine else 'second'} program has it"))
    return found


def _compare(name: str, left: Any, right: Any, tolerance: float) -> Comparison:
    import numpy as np

    a, b = np.asarray(left), np.asarray(right)
    if a.shape != b.shape or a.dtype != b.dtype:
        text = f"{_shape(a.shape)} of {a.dtype} against {_shape(b.shape)} of {b.dtype}"
        return Comparison(name, a.shape, str(a.dtype), False, a.size, float("inf"), text)
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return Comparison(name, a.shape, str(a.dtype), True, 0, 0.0, "equal, bit for bit" if a.dtype.kind != "b" else "equal")
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(x - y))
    gap = np.where(np.isnan(gap), np.inf, gap)
    where = np.unravel_index(int(np.argmax(gap)), gap.shape)
    largest, differ = float(gap[where]), int((~same).sum())
    scale = float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0))
    agree = largest <= tolerance * scale
    place = ", ".join(str(int(i)) for i in where)
    verdict = "within tolerance" if agree else "DIFFERENT"
    text = f"{verdict}: {differ} of {a.size} elements differ, most at [{place}]: {x[where]:g} against {y[where]:g}"
    return Comparison(name, a.shape, str(a.dtype), bool(agree), differ, largest, text)


def _tell_comparison(file: str, other: str, comparisons: list[Comparison], tolerance: float, json: bool) -> None:
    if json:
        rows = [
            {
                "name": c.name,
                "shape": list(c.shape),
                "dtype": c.dtype,
                "agree": c.agree,
                "differ": c.differ,
                "largest": c.largest,
                "text": c.text,
            }
            for c in comparisons
        ]
        agree = all(c.agree for c in comparisons)
        show_json(
            {
                "schema": "tilesat.run.compare/1",
                "file": file,
                "other": other,
                "tolerance": tolerance,
                "agree": agree,
                "outputs": rows,
            }
        )
        return
    show_table(("output", "shape", "type", "comparison"), [(c.name, _shape(c.shape), c.dtype, c.text) for c in comparisons])


def _shape(shape: Any) -> str:
    return " × ".join(map(str, shape)) or "scalar"
