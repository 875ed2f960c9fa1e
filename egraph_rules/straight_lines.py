"""Straight lines: what a schedule emits outside its loops, in the statement list that the product stands in.

Full-K grids peel their L-shaped boundary, and a grid of one block has no loops; K-splitting peels a narrower last panel, and a
single full one and what comes before a bias is added. Where an author's own pipeline is the loop around these lines, it keeps
as many copies of each panel as it has stages (``panels``, ``blocks`` and ``single`` of the problem); a loop of ours keeps two.
"""

from __future__ import annotations

from egraph_rules.conditions import line_a, line_b
from egraph_rules.expr import Comparison, Condition, Int, Integer, larger_of, literal, predicate, smaller_of
from egraph_rules.language import P


def _some(x: Integer) -> Integer:
    """1 where ``x`` is positive, else 0."""
    return smaller_of(x, 1)


def _straight(line: Integer, scope: Integer, boundary: Integer) -> Integer:
    """Bytes a row of all copies of a window's panel takes: of a single block (scope WHOLE), or where a boundary holds one."""
    single = literal(1) - _some(scope)
    return line * larger_of(single * P.single, _some(boundary) * P.blocks)


@predicate
def blocks_fit_l0a(m: Integer, n: Integer, scope: Integer) -> Comparison:
    """the panels of A beside {m} × {n} windows, in straight lines, fit L0A as often as the pipeline around them keeps them"""
    return larger_of(line_a(P.M % m) * P.blocks, _straight(line_a(m), scope, P.N % n)) * P.max_k <= P.l0a


@predicate
def blocks_fit_l0b(m: Integer, n: Integer, scope: Integer) -> Comparison:
    """the panels of B beside {m} × {n} windows, in straight lines, fit L0B as often as the pipeline around them keeps them"""
    return larger_of(line_b(P.N % n) * P.blocks, _straight(line_b(n), scope, P.M % m)) * P.max_k <= P.l0b


def straight_blocks_fit(m: Int, n: Int, scope: Int) -> list[Condition]:
    """The blocks outside both loops of a full-K grid fit, whatever loop they stand in."""
    return [blocks_fit_l0a(m, n, scope), blocks_fit_l0b(m, n, scope)]


@predicate
def straight_panels_fit(k: Integer, deepest: Integer) -> Comparison:
    """panels of {k} in straight lines fit as often as the pipeline around them keeps them, where two of {deepest} fit"""
    first = P.bias_rebuilt + P.bias_held + literal(1) // (P.max_k // k)
    return larger_of(P.max_k % k, k * _some(first)) * P.panels <= deepest * 2
