"""`roofline`: the specification's wall (:mod:`cost.roofline`)."""

from __future__ import annotations

from cost import roofline
from cost.models.base import FunctionModel

MODEL = FunctionModel(
    "roofline", roofline.price, "the specification's roofline: max(load, MAD) + drain, or with the drain hidden"
)
