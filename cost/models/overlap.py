"""`overlap`: the largest lane, as specification 3 prices a core: everything else is taken to be hidden behind it."""

from __future__ import annotations

import numpy as np

from cost import roofline
from cost.breakdown import Breakdown
from cost.hardware import Target
from cost.models.base import FunctionModel
from cost.problem import Candidates, Problem


def price(candidates: Candidates, problem: Problem, target: Target) -> Breakdown:
    """max(load, MAD, drain), the terms as the roofline has them, no bubble."""
    terms = roofline.price(candidates, problem, target)
    wall = np.maximum(np.maximum(terms.load, terms.mad), terms.drain)
    return Breakdown(terms.load, terms.mad, terms.drain, np.zeros(len(wall)), wall)


MODEL = FunctionModel("overlap", price, "the largest of load, MAD and drain")
