"""The one piece of ground truth: published device times of the same product under two tiles, on one cube core of a 910B2.

Every model, and the simulator beside them, predicts the ratio time(old tile) / time(new tile) of each pair, output-stationary
with one accumulator on ascend910b, as it was measured. Its error is the mean of |ln(predicted ratio / device ratio)|.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cost import roofline
from cost.dtypes import BF16
from cost.errors import CostModelError
from cost.hardware import get_target
from cost.models import CostModel, check_prices
from cost.problem import OUTPUT, Candidates, Problem
from cost.simulator.schedule import simulated_cycles
from tilesat.studies.metrics import log_error, spearman

PAIRS = Path(__file__).parent.parent / "data" / "measured_tile_pairs.json"
TARGET = "ascend910b"


@cache
def pairs() -> tuple[dict[str, Any], ...]:
    """The measurements."""
    found: list[dict[str, Any]] = json.loads(PAIRS.read_text(encoding="utf-8"))["pairs"]
    return tuple(found)


def candidates_of(pair: Mapping[str, Any]) -> tuple[Problem, Candidates]:
    """A pair's product, and its old and new tile as schedules."""
    target = get_target(TARGET)
    problem = Problem.of(pair["M"], pair["N"], pair["K"], BF16)
    tiles = (tuple(pair["old"]), tuple(pair["new"]))
    rows = [(m, n, k, OUTPUT, bool(roofline.hoist_a(problem, target, m, n)), 1) for m, n, k in tiles]
    return problem, Candidates.of(rows)


def predicted(model: CostModel | None) -> list[float]:
    """The model's ratio of every pair; None: the simulator's. Raises CostModelError."""
    target, ratios = get_target(TARGET), []
    for pair in pairs():
        problem, candidates = candidates_of(pair)
        if model is None:
            old, new = simulated_cycles(candidates, problem, target)
        else:
            old, new = check_prices(model, candidates, problem, target).wall
        if not (old > 0 and new > 0):
            raise CostModelError(f"{model.name if model else 'simulator'} priced a measured tile at 0: no ratio")
        ratios.append(float(old / new))
    return ratios


def judge(ratios: Sequence[float]) -> dict[str, Any]:
    """How a model's ratios compare with the device's: ``ordered`` pairs of all, ``error``, ``correlation`` of the log ratios
    (Pearson's r and Spearman's ρ; None where the model sees no difference at all)."""
    device = [float(p["device"]) for p in pairs()]
    mine, theirs = np.log(ratios), np.log(device)
    ordered = sum(bool(abs(a) > 1e-9) and (a > 0) == (b > 0) for a, b in zip(mine.tolist(), theirs.tolist(), strict=True))
    varied = float(np.ptp(mine)) > 1e-9
    return {
        "ratios": list(ratios),
        "ordered": ordered,
        "pairs": len(device),
        "error": log_error(ratios, device),
        "pearson": float(np.corrcoef(mine, theirs)[0, 1]) if varied else None,
        "spearman": spearman(mine, theirs) if varied else None,
    }


def table(models: Sequence[CostModel]) -> list[dict[str, Any]]:
    """A row for every model, then the simulator's and, for the pairs it was published for, the vendor's simulator's."""
    rows: list[dict[str, Any]] = []
    for model in (*models, None):
        name = "simulator" if model is None else model.name
        try:
            rows.append({"model": name, **judge(predicted(model))})
        except CostModelError as e:
            rows.append({"model": name, "failed": str(e)})
    known = [p for p in pairs() if p["simulator"] is not None]
    ratios = [float(p["simulator"]) for p in known]
    device = [float(p["device"]) for p in known]
    ordered = sum((a > 1) == (b > 1) for a, b in zip(ratios, device, strict=True))
    log_a, log_b = np.log(ratios), np.log(device)
    vendor = {
        "model": "vendor's simulator",
        "ratios": [None if p["simulator"] is None else float(p["simulator"]) for p in pairs()],
        "ordered": ordered,
        "pairs": len(known),
        "error": log_error(ratios, device),
        "pearson": float(np.corrcoef(log_a, log_b)[0, 1]),
        "spearman": spearman(log_a, log_b),
    }
    return [*rows, vendor]
