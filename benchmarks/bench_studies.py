"""Studies: the standard comparison of all cost models, both smoke studies, another model on an existing snapshot."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import Result, best_of, seconds

PROCESSES = 2


def repricing() -> tuple[str, float, int]:
    """(the slowest model, seconds to price a snapshot and pick, how many candidates) on a product with about 2,000."""
    import numpy as np

    import tilesat
    from cost.hardware import get_target
    from cost.models import cost_model, cost_models
    from cost.problem import Problem
    from extraction.policy import price
    from tilesat.choose import saturate

    target, problem = get_target("ascend910b"), Problem.of(512, 512, 256)
    snapshot, _ = saturate(problem, target, tilesat.rules("all"))
    schedules = snapshot.schedules[0]
    rows, slowest = np.arange(len(schedules)), ("", 0.0)
    for name in cost_models():
        model = cost_model(name)
        (took,) = best_of(20, lambda model=model: price(schedules, problem, model, target).best_of(rows))
        slowest = max(slowest, (name, took), key=lambda x: x[1])
    return *slowest, len(rows)


def measure() -> list[Result]:
    from tilesat.studies import ablate, compare_cost_models

    with tempfile.TemporaryDirectory(prefix="tilesat-") as folder:
        out = Path(folder)
        smoke = seconds(lambda: compare_cost_models("smoke", workers=PROCESSES, out=out / "a"))
        smoke += seconds(lambda: ablate("smoke", workers=PROCESSES, out=out / "b"))
        found = []
        standard = seconds(lambda: found.append(compare_cost_models("standard", workers=PROCESSES, out=out / "c")))
    model, took, candidates = repricing()
    how = f"{len(found[0].results)} products, {len(found[0].models)} models, {PROCESSES} processes, report included"
    return [
        Result("another model on an existing snapshot", took * 1e3, 5, "ms", f"{candidates} candidates, the slowest: {model}"),
        Result("both smoke studies", smoke, 60, "s", f"{PROCESSES} processes, reports included"),
        Result("standard comparison of cost models", standard, 600, "s", how),
    ]
