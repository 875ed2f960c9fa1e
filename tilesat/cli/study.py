"""``tilesat study``: compare cost models, take rule families away; both keep what they find as they go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilesat.cli import options
from tilesat.cli.outcome import DONE, FOUND, INTERRUPTED, command, complain
from tilesat.cli.output import note, show_json, show_table
from tilesat.cli.tile import limits

if TYPE_CHECKING:
    from tilesat.studies.comparison import Comparison
    from tilesat.studies.effects import Ablation

Corpus = Annotated[
    str, typer.Option(metavar="WHAT", help="A suite (smoke, standard, full), a folder of programs or a .csv of shapes.")
]
Out = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="DIR", help="Keep results here; run again to go on where it ended.", show_default=False),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="NAME", help="A cost model, or file.py:NAME; again for more. All if none.", show_default=False
    ),
]
Base = Annotated[str, typer.Option(metavar="SPEC", help="The rule set that families are taken from; file.py:FAMILY adds yours.")]
Referee = Annotated[str, typer.Option(metavar="NAME", help="Who is right: simulator, a model, or file.py:NAME.")]
Workers = Annotated[
    int | None, typer.Option(metavar="N", help="Worker processes; 0 works in this one.", show_default="one a core")
]
Executor = Annotated[
    str | None,
    typer.Option(metavar="dask://HOST:PORT", help="Work on a Dask cluster (extra cluster).", show_default=False),
]

Retry = Annotated[bool, typer.Option("--retry", help="Run items again that failed.", show_default=False)]


def register(app: typer.Typer) -> None:
    group = typer.Typer(name="study", help="Studies: which cost model to trust, which rules matter.", no_args_is_help=True)
    group.command("cost-models")(command(cost_models))
    group.command("ablation")(command(ablation))
    group.command("batch")(command(batch))
    group.command("all")(command(everything))
    app.add_typer(group)


def cost_models(
    corpus: Corpus = "standard",
    model: Models = None,
    target: options.TargetName = "ascend910b",
    referee: Referee = "simulator",
    rules: Annotated[str, typer.Option(metavar="SPEC", help="The rule set that makes the candidates.")] = "all",
    sample: Annotated[
        int | None, typer.Option(metavar="N", help="Candidates to simulate a product; 0: all.", show_default="600")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sample.")] = 0,
    out: Out = None,
    workers: Workers = None,
    executor: Executor = None,
    retry: Retry = False,
    json: options.AsJson = False,
) -> int:
    """Compare cost models on every product of a corpus, by a referee.

    One saturation a product serves every model. See docs/studies.md for the figures.
    """
    from tilesat.studies import compare_cost_models

    study = partial(
        compare_cost_models,
        corpus,
        model,
        target,
        referee,
        rules=rules,
        sample=sample,
        seed=seed,
        out=out,
        workers=workers,
        executor=executor,
        retry=retry,
        progress=True,
    )
    found = _kept(study, out)
    if isinstance(found, int):
        return found
    code = _tell_comparison(found, out, json)
    return code if model is None else _asked_in_vain(found, code)


def ablation(
    corpus: Corpus = "standard",
    base: Base = "all",
    design: Annotated[str, typer.Option(metavar="NAME", help="one-out, one-in or pairs.")] = "one-out",
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SPEC", help="Compare this rule set with the base; again for more.", show_default=False),
    ] = None,
    target: options.TargetName = "ascend910b",
    planner: options.Planner = "dsa_rp",
    cost_model: options.CostModel = "roofline",
    extractor: options.Extractor = "dag",
    residency: Annotated[str, typer.Option(metavar="WHERE", help="Where operands begin in the simulator: mat or gm.")] = "mat",
    limit_seconds: options.LimitSeconds = None,
    limit_nodes: options.LimitNodes = None,
    out: Out = None,
    workers: Workers = None,
    executor: Executor = None,
    retry: Retry = False,
    json: options.AsJson = False,
) -> int:
    """Tile every program of a corpus under every rule set of a design.

    A rule set that leaves a program without a legal plan is a result. See docs/studies.md for the figures.
    """
    from tilesat.studies import ablate

    study = partial(
        ablate,
        corpus,
        base,
        sets or design,
        target,
        planner=planner,
        cost_model=cost_model,
        extractor=extractor,
        residency=residency,
        limits=limits(limit_seconds, limit_nodes),
        out=out,
        workers=workers,
        executor=executor,
        retry=retry,
        progress=True,
    )
    found = _kept(study, out)
    if isinstance(found, int):
        return found
    return _tell_ablation(found, out, json)


def batch(
    suite: Annotated[str, typer.Option(metavar="NAME", help="smoke, standard or full.")] = "standard",
    chip: Annotated[str, typer.Option(metavar="NAME", help="A chip's name, or the path of a description.")] = "ascend950pr",
    reading: Annotated[str, typer.Option(metavar="NAME", help="analysis or operator.")] = "analysis",
    out: Out = None,
    workers: Workers = None,
    executor: Executor = None,
) -> int:
    """Plan batch matmuls with and without each branch's rules, and compare the latency model with the simulator.

    See docs/batch.md for branches, readings and what is approximated.
    """
    from tilesat.studies.batch import study_batch

    study = partial(study_batch, suite, chip=chip, reading=reading, out=out, workers=workers, executor=executor, progress=True)
    found = _kept(study, out)
    if isinstance(found, int):
        return found
    print(found.markdown())
    return _ended({r["item"]: r["error"] for r in found.rows if "error" in r}, out)


def everything(
    corpus: Corpus = "standard",
    target: options.TargetName = "ascend910b",
    out: Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="Results go to folders below this one.")] = "results",
    workers: Workers = None,
    executor: Executor = None,
    retry: Retry = False,
) -> int:
    """Both studies with all models and all rules: the tables of docs/findings.md.

    DIR/cost-models and DIR/ablation hold the tables and reports.
    """
    common: dict[str, Any] = {"corpus": corpus, "target": target, "workers": workers, "executor": executor, "retry": retry}
    first = cost_models(out=str(Path(out) / "cost-models"), **common)
    if first not in (DONE, FOUND):
        return first
    print()
    second = ablation(out=str(Path(out) / "ablation"), **common)
    return second if second not in (DONE, FOUND) else max(first, second)


def _kept(study: Callable[[], Any], out: str | None) -> Any:
    """What a study found, or the exit code of one that was interrupted."""
    try:
        return study()
    except KeyboardInterrupt:
        if out is None:
            return complain("interrupted; without --out nothing is kept", INTERRUPTED)
        return complain(f"interrupted; what is done is kept in {out}, and the same command goes on from there", INTERRUPTED)


def _tell_comparison(found: Comparison, out: str | None, json: bool) -> int:
    import dataclasses

    from tilesat.studies.comparison_text import measured_table, statement, summary_table

    if json:
        summary = [dataclasses.asdict(s) for s in found.summary]
        data = {"summary": summary, "measured": list(found.measured), "audit": list(found.audit), "errors": found.errors}
        data["failures"] = {m: failed for m in found.models if (failed := found.failures(m))}
        show_json({"schema": "tilesat.cost_models/1", "corpus": found.study.corpus, "target": found.study.target.name, **data})
    else:
        print(statement(found))
        show_table(*summary_table(found))
        print("\nagainst device times (910B2)")
        show_table(*measured_table(found.measured))
    for model in found.models:
        for why in dict.fromkeys(found.failures(model).values()):
            note(f"{model} failed: {why}")
    return _ended(found.errors, out)


def _asked_in_vain(found: Comparison, code: int) -> int:
    """Models that were asked for by name and priced nothing are an error, beside which ``code`` stands."""
    for name, why in found.helpless.items():
        code = complain(f"cost model {name!r} priced no product; first it failed so:\n{why}", FOUND)
    return code


def _tell_ablation(found: Ablation, out: str | None, json: bool) -> int:
    import dataclasses

    from tilesat.studies.ablation_text import effects_table, interactions_table, never_fired, statement

    if json:
        effects = [dataclasses.asdict(e) for e in found.effects]
        pairs = [dataclasses.asdict(i) for i in found.interactions]
        data = {"effects": effects, "interactions": pairs, "never_fired": list(found.never_fired), "errors": found.errors}
        show_json({"schema": "tilesat.ablation/1", "corpus": found.study.corpus, "target": found.study.target.name, **data})
    else:
        print(statement(found))
        show_table(*effects_table(found))
        if found.interactions:
            print()
            show_table(*interactions_table(found))
        print("\n" + never_fired(found))
    for item in found.unsound:
        note(f"unsound: {item}: the tiled program has a finding that its source has not; please report it")
    return _ended(found.errors, out) if not found.unsound else FOUND


def _ended(errors: dict[str, str], out: str | None) -> int:
    for item, why in errors.items():
        note(f"failed: {item}: {why}")
    if out is not None:
        note(f"results are in {out}")
    return FOUND if errors else DONE
