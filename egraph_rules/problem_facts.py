"""A product's problem as facts: extents, element bytes, boxes, capacities, and what the lowering can emit for it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from cost.hardware import Target
from cost.physical import align_up
from egraph_rules.language import FRACTAL, allows, pinned, problem
from egraph_rules.program import ProgramFacts

if TYPE_CHECKING:
    from cost.problem import Problem

#: A design axis that a target's lowering can emit, as ``allows`` names it.
DOUBLE_BUFFER_C = "double_buffer_c"

#: More columns than any product has: no bias, no limit.
_UNLIMITED = 1 << 40

#: Extents from here on are beyond any tensor, and beyond what the rules' integers can weigh.
LARGEST_EXTENT = 1 << 24

#: Tile extents up to here cost little, wanted or not: what the largest L0 buffers of today hold.
_USUAL_EXTENT = 4096


class Copies(NamedTuple):
    """How often an author's own pipelines keep what stands in their bodies, outside our loops (:mod:`.straight_lines`).

    A ``bias`` window in the bias table; ``panels`` of K outside its loop; those of the ``blocks`` of a grid's boundary; those of
    a ``single`` block of all of K, which where it stands as it stood has none.
    """

    bias: int = 1
    panels: int = 1
    blocks: int = 1
    single: int = 1


ONCE = Copies()


def state_problem(
    facts: ProgramFacts,
    p: Problem,
    target: Target,
    *,
    operand_stationary: bool = False,
    double_buffer_c: bool = False,
    copies: Copies = ONCE,
) -> int:
    """Add problem ``p`` and its limits to ``facts``; returns its index."""
    index = len(facts.problems)
    facts.problems.append(p)
    steps = (FRACTAL, p.align_n, p.align_k)
    largest = [align_up(x, step) if p.allow_padding else x for x, step in zip((p.M, p.N, p.K), steps, strict=True)]
    facts.state(
        problem,
        *(index, p.M, p.N, p.K, *largest),
        *(p.a.bytes, p.b.bytes, p.c.bytes, p.box_m, p.box_n, p.align_n, p.align_k, target.l0c_row_align(p.c)),
        *(target.l0a, target.l0b, target.l0c),
        _UNLIMITED if p.bias is None else target.bias // p.c.bytes // copies.bias,
        int(p.bias == "mat"),
        int(p.bias == "bias"),
        *_load_rates(target),
        *(copies.panels, copies.blocks, copies.single),
    )
    if operand_stationary:
        facts.state(pinned, index)
    if double_buffer_c:
        facts.state(allows, index, DOUBLE_BUFFER_C)
    return index


def _load_rates(target: Target) -> tuple[int, int]:
    """L0A and L0B load rates as whole numbers in the same ratio, as small as they can be: products of them must fit i64."""
    a, b = round(target.roofline.bw_l0a * 1000), round(target.roofline.bw_l0b * 1000)
    common = math.gcd(a, b)
    return a // common, b // common


def largest_extent(target: Target, problems: Iterable[Problem]) -> int:
    """No legal tile extent is larger: one fractal of the other axis fills L0C, and one of K an operand buffer.

    Where that allows very large ones, the problems say how many are wanted; a power of two, so that programs share engines.
    """
    elements = max(target.l0c // (FRACTAL * 4), target.l0a // FRACTAL, target.l0b // FRACTAL)
    fitting = max(FRACTAL, elements // FRACTAL * FRACTAL)
    if fitting <= _USUAL_EXTENT:
        return fitting
    wanted = max((extent for p in problems for extent in (p.M, p.N, p.K)), default=0)
    return min(fitting, max(_USUAL_EXTENT, 1 << (wanted + FRACTAL - 1).bit_length()))
