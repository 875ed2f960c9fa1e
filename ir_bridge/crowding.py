"""Whose tiling fills Mat beyond what it holds.

The documented pass weighs a scratch against the whole of Mat and leaves what else lies there to later steps. Here the tiled
program is looked at as a whole: where Mat overflows and did not in the source, the products whose scratch, staged operand or
later store did it are named, so that they can be left as they stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cost.hardware import Target
from ir_bridge.analysis import facts_of, memory_of
from ir_bridge.ir.nodes import CORE_KINDS, Function, Loc, Program, Var
from ir_bridge.ir.verifier_memory import LiveRange, overflows


class Tenant(NamedTuple):
    """A product that was tiled: its number, function and place; its operands; is it computed where its store stands?"""

    v: int
    function: str
    loc: Loc
    operands: tuple[Var, ...]
    at_store: bool


def crowded_out(before: Program, after: Program, target: Target, tenants: Iterable[Tenant]) -> frozenset[int]:
    """Numbers of the products that Mat has no room for as they were tiled; empty when everything fits.

    Functions whose source overflows Mat already are left alone.
    """
    by_function: dict[str, list[Tenant]] = {}
    for t in tenants:
        by_function.setdefault(t.function, []).append(t)
    out: set[int] = set()
    sources = {f.name: f for f in before.functions}
    for f in after.functions:
        if f.kind in CORE_KINDS and f.name in by_function:
            out |= _crowded_in(sources[f.name], f, target, by_function[f.name])
    return frozenset(out)


def _crowded_in(before: Function, after: Function, target: Target, tenants: list[Tenant]) -> set[int]:
    points = [o.live for o in overflows(after, target) if o.buffer == "mat"]
    if not points or any(o.buffer == "mat" for o in overflows(before, target)):
        return set()
    return set().union(*(_to_leave(live, before, tenants) for live in points))


def _to_leave(live: tuple[LiveRange, ...], before: Function, tenants: list[Tenant]) -> set[int]:
    """Of what is alive at one point: the owner of the largest tile that tiling made; else products that keep operands longer."""
    places = {t.loc: t for t in tenants}
    made = [r for r in live if r.loc in places]
    if made:
        return {places[max(made, key=lambda r: r.total).loc].v}
    names, facts = {r.name for r in live}, facts_of(before)
    origins = {t.v: [memory_of(x, facts) or x for x in t.operands] for t in tenants if t.at_store}
    return {v for v, tiles in origins.items() if any(x.name in names for x in tiles)}
