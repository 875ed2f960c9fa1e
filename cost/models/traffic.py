"""`traffic`: bytes moved into L0 and out of it, and nothing else."""

from __future__ import annotations

import numpy as np

from cost.breakdown import Breakdown
from cost.hardware import Target
from cost.models.base import FunctionModel
from cost.problem import Candidates, Problem
from cost.volume import traffic_bytes


def price(candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
    """Bytes: operands in ``load``, the result (twice where it is read too) in ``drain``."""
    total = traffic_bytes(candidates, problem).astype(np.float64)
    result = float(problem.c.bytes * problem.M * problem.N * (2 if problem.accumulate else 1))
    none = np.zeros(len(total))
    return Breakdown(total - result, none, np.full(len(total), result), none, total, unit="bytes")


MODEL = FunctionModel("traffic", price, "bytes moved into and out of L0")
