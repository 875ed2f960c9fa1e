"""Valid shapes of values carried through loops (specification 2, "repairing the valid shape of carried values").

A loop types its carried value by the seed. Where the body provably yields a narrower product, the seed is declared again:
compact, and narrowed by ``set_validshape``, so that every reader of the accumulator walks the pitch that the matrix unit wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ir_bridge.ir.nodes import Call, Expr, Var, vars_in
from ir_bridge.ir.ops import type_of
from ir_bridge.ir.tile_types import matmul_type
from ir_bridge.ir.types import Dim, Space, TileType, Type

Valid = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Carry:
    """A carried value and where it comes from: its seed, what the body yields for it, and how values of the body are made."""

    seed: Var
    carried: Var
    value: Expr
    made: dict[Var, Call]
    phis: dict[Var, tuple[Expr, ...]]


def narrowed_seed(carry: Carry, local: frozenset[Var]) -> Valid | None:
    """The valid region to declare an accumulator's seed with; None when it stays as it is.

    It stays when it is no fresh accumulator, when the yield is no narrower, and when the extents are computed inside the loop
    (``local``), where the seed can't name them. An accumulator of one block of rows reads the same either way; it is narrowed all
    the same, so that a store of it writes the valid rows alone.
    """
    t = carry.carried.type
    if not isinstance(t, TileType) or t.space is not Space.ACC or not _is_seed(carry.seed, carry.made):
        return None
    found = _proven(carry.value, carry)
    if found is None or found == t.valid:
        return None
    if any(v in local for d in found if not isinstance(d, int) for v in vars_in(d)):
        return None
    return found


def _is_seed(v: Var, made: dict[Var, Call]) -> bool:
    call = made.get(v)
    if call is not None and call.op == "tile.set_validshape" and isinstance(call.args[0], Var):
        call = made.get(call.args[0])
    return call is not None and call.op == "tile.create"


def _proven(e: Expr, carry: Carry) -> Valid | None:
    """The extent that ``e`` is known to be valid in, taking the carried value to be no wider; None: the carried value itself."""
    if e is carry.carried or not isinstance(e, Var):
        return None
    arms = carry.phis.get(e)
    if arms is not None:
        found = [p for p in (_proven(a, carry) for a in arms) if p is not None]
        if not found:
            return None
        return found[0] if all(p == found[0] for p in found) else _declared(e)
    call = carry.made.get(e)
    if call is not None and call.op == "tile.matmul_acc":
        before = _proven(call.args[0], carry)
        left, right = type_of(call.args[1]), type_of(call.args[2])
        assert isinstance(left, TileType)
        assert isinstance(right, TileType)
        added = matmul_type(left, right).valid
        return added if before is None or before == added else _declared(e)
    return _declared(e)


def _declared(v: Var) -> Valid | None:
    return v.type.valid if isinstance(v.type, TileType) else None


def agreed(a: Type, b: Type) -> Type:
    """The type of a value that is one of two: the first's (as it reads in the text), compact if either is."""
    if not isinstance(a, TileType) or not isinstance(b, TileType) or a.view.compact == b.view.compact:
        return a
    return replace(a, view=replace(a.view, compact=a.view.compact or b.view.compact))
