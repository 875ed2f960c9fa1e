"""Studies: which cost model to trust, which rules matter.

    tilesat.studies.compare_cost_models("standard", ["roofline", "roofline-tails"], "ascend910b", out="results/models")
    tilesat.studies.ablate("standard", base="all", design="one-out", out="results/rules")

Both run their work items in worker processes (or on a Dask cluster), keep every result the moment it comes and go on where they
were interrupted. See docs/studies.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cost.errors import suggestion
from tilesat.studies.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cost.hardware import Target
    from egraph_rules.report import Limits
    from tilesat.corpus.suites import CorpusLike
    from tilesat.studies.comparison import Comparison
    from tilesat.studies.effects import Ablation

__all__ = ["StudyError", "ablate", "compare_cost_models"]


def compare_cost_models(
    corpus: CorpusLike = "standard",
    models: Sequence[object] | None = None,
    target: str | os.PathLike[str] | Target = "ascend910b",
    referee: object = "simulator",
    *,
    rules: object = "all",
    sample: int | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    executor: str | None = None,
    retry: bool = False,
    progress: bool = False,
) -> Comparison:
    """Compare cost models on every product of a corpus, by a referee.

    ``corpus``: a suite ("smoke", "standard", "full"), a folder of programs, a .csv of shapes, or entries and problems.
    ``models``: names, objects, or places ("file.py:NAME"); None is all there are. ``referee``: "simulator", or a model taken as
    the truth. ``rules`` make the candidates. ``sample``: candidates the referee is asked about a product (0: all), drawn by
    ``seed``.

    ``out`` is a results folder: rows are kept there as they come, a run that was cut short goes on where it ended, and tables and
    reports are written beside them; ``retry`` runs items again that failed. ``workers`` processes (None: one a core; 0: in this
    process), or ``executor``, the ``dask://HOST:PORT`` of a cluster, do the work.

    Raises :class:`StudyError`, CorpusError, CostModelError or RuleSetError for names that mean nothing and folders that cannot be
    used. A product that fails is a row with its error.
    """
    from cost.hardware import get_target
    from cost.models import cost_models
    from tilesat.corpus import load
    from tilesat.studies.comparison import Comparison
    from tilesat.studies.cost_models import CostModelStudy
    from tilesat.studies.harness import run
    from tilesat.studies.problems import distinct
    from tilesat.studies.sample import SAMPLE

    chip = get_target(target)
    found = load(corpus, chip)
    given = cost_models() if models is None else [models] if isinstance(models, str) else models
    named = tuple(given)
    if not named:
        raise StudyError("no cost model to compare: give at least one")
    study = CostModelStudy(
        *(found.name, found.digest, distinct(found, chip), named, chip, referee, rules),
        *(SAMPLE if sample is None else _count("sample", sample), _count("seed", seed)),
    )
    rows = run(
        study,
        out=out,
        workers=workers,
        executor=executor,
        retry=retry,
        progress=progress,
        finish=lambda rows: Comparison(study, tuple(rows)).files(),
    )
    return Comparison(study, tuple(rows))


def ablate(
    corpus: CorpusLike = "standard",
    base: object = "all",
    design: str | Sequence[object] = "one-out",
    target: str | os.PathLike[str] | Target = "ascend910b",
    *,
    planner: str = "dsa_rp",
    cost_model: object = "roofline",
    extractor: str = "dag",
    residency: str = "mat",
    limits: Limits | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    executor: str | None = None,
    retry: bool = False,
    progress: bool = False,
) -> Ablation:
    """Tile every program of a corpus under every rule set of a design, and measure what the sets' families are worth.

    ``base``: a rule set (name, set, or names and places of families). ``design``: "one-out" takes each family of the base away,
    "one-in" puts each into the least set there is, "pairs" takes each pair away too; or a list of rule sets to compare with the
    base. ``residency``: where the simulator has operands begin, "mat" or "gm". ``corpus``, ``out`` to ``progress`` and what is
    raised are as for :func:`compare_cost_models`; a program that fails, or is left without a legal plan, is a row.
    """
    from cost.hardware import get_target
    from egraph_rules.report import Limits
    from tilesat.corpus import load
    from tilesat.pipeline import EXTRACTORS, PLANNERS
    from tilesat.studies.ablation import AblationStudy
    from tilesat.studies.effects import Ablation
    from tilesat.studies.harness import run
    from tilesat.studies.rule_sets import variants

    chip = get_target(target)
    found = load(corpus, chip)
    _one_of("planner", planner, PLANNERS)
    _one_of("extractor", extractor, EXTRACTORS)
    _one_of("residency", residency, ("mat", "gm"))
    named = design if isinstance(design, str) else "given sets"
    study = AblationStudy(
        *(found.name, found.digest, found.entries, variants(base, design), named, chip, planner, cost_model, extractor),
        *(residency, limits or Limits()),
    )
    rows = run(
        study,
        out=out,
        workers=workers,
        executor=executor,
        retry=retry,
        progress=progress,
        finish=lambda rows: Ablation(study, tuple(rows)).files(),
    )
    return Ablation(study, tuple(rows))


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise StudyError(f"unknown {name} {value!r}.{suggestion(value, known)} Known: {', '.join(known)}")


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise StudyError(f"{name} = {value!r}: give a whole number from 0 up")
    return value
