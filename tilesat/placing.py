"""Conversion with its open placements decided by equality saturation: state, saturate, price, extract."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from cost.hardware import Target
from cost.transfers import TransferModel, transfer_cycles
from egraph_rules.placement.saturate import saturate
from egraph_rules.report import Limits
from extraction.placement import Size, Way, ways
from ir_bridge.convert import convert as convert_by
from ir_bridge.convert.placement import Question
from ir_bridge.ir.nodes import Program, Var


def convert(
    program: Program, target: str | os.PathLike[str] | Target = "ascend910b", *, transfer_model: TransferModel = transfer_cycles
) -> Program:
    """The tile program that a tensor program is (specification 2); a program with nothing to convert comes back as it is.

    Where a value is wanted in several memory spaces and there is more than one way to have it there, ``transfer_model`` decides
    (cycles of each of many transfer steps: see :mod:`cost.transfers`). Raises :class:`ConvertError` naming what can't be
    converted, its place and the repair.
    """

    def choose(questions: Sequence[Question], machine: Target) -> Mapping[Var, str]:
        return cheapest(questions, machine, transfer_model)

    return convert_by(program, target, choose)


def cheapest(questions: Sequence[Question], target: Target, model: TransferModel = transfer_cycles) -> dict[Var, str]:
    """The step into Mat of each value's cheapest way."""
    answers: dict[Var, str] = {}
    for q, found in placements(questions, target, model):
        if found:
            answers[q.value] = dict(found[0].steps)["Mat"]
    return answers


def placements(
    questions: Sequence[Question], target: Target, model: TransferModel = transfer_cycles, limits: Limits | None = None
) -> list[tuple[Question, list[Way]]]:
    """Every way to place each value, cheapest first; none where a limit ended the run before one was found."""
    frozen, _ = saturate(state(questions), limits)
    sizes = {v: Size(q.bytes, q.bytes_in, q.rows, q.columns) for v, q in enumerate(questions)}
    found = ways(frozen, sizes, target, model)
    return [(q, found.get(v, [])) for v, q in enumerate(questions)]


def state(questions: Sequence[Question]) -> dict[str, list[tuple[Any, ...]]]:
    """The questions as facts; a value is its number."""
    facts: dict[str, list[tuple[Any, ...]]] = {"fetched": [], "product_cast": [], "wanted": [], "same_size": []}
    for v, q in enumerate(questions):
        facts["wanted"] += [(v, "Vec"), (v, "Mat")]
        if q.cast is None:
            facts["fetched"].append((v,))
        else:
            facts["product_cast"].append((v, *q.cast))
        if not q.boxed:
            facts["same_size"].append((v,))
    return facts
