"""`padded`: the volume that is multiplied when every tile is charged as a full one."""

from __future__ import annotations

import numpy as np

from cost.breakdown import Breakdown
from cost.hardware import Target
from cost.models.base import FunctionModel
from cost.problem import Candidates, Problem
from cost.volume import padded_volume


def price(candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
    """Multiply-adds, all of them in ``mad``."""
    volume = padded_volume(candidates, problem).astype(np.float64)
    none = np.zeros(len(volume))
    return Breakdown(none, volume, none, none, volume, unit="multiply-adds")


MODEL = FunctionModel("padded", price, "padded volume, in multiply-adds")
