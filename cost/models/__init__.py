"""Cost models by name: the built-in ones, one file each, and those that users bring.

A user's model is a Python object with a ``name`` and a ``price`` method (or just a function), the place of one in a file
(``file.py:NAME``), or an entry point of the group ``tilesat.cost_models``. A built-in name always means the built-in model.
"""

from __future__ import annotations

import difflib
import functools
from typing import TYPE_CHECKING

from cost.errors import CostModelError
from cost.models import overlap, padded, random, roofline, roofline_v1, tails, traffic
from cost.models.base import CostModel, FunctionModel, check_prices, wall_only
from cost.places import is_place, load_object

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["ENTRY_POINTS", "CostModel", "FunctionModel", "check_prices", "cost_model", "cost_models", "wall_only"]

ENTRY_POINTS = "tilesat.cost_models"

BUILT_IN: dict[str, CostModel] = {m.MODEL.name: m.MODEL for m in (roofline, tails, roofline_v1, traffic, padded, overlap, random)}


def cost_models() -> tuple[str, ...]:
    """Names of all models that can be asked for: built in, then from entry points."""
    return (*BUILT_IN, *(name for name in _entry_points() if name not in BUILT_IN))


def cost_model(model: object) -> CostModel:
    """The model meant by a name ("roofline", "random:7"), or a user's own object, function or place of one ("file.py:NAME").

    Raises :class:`CostModelError` for an unknown name (listing the known ones and the nearest) or an object that is no model.
    """
    if not isinstance(model, str):
        return _adapt(model, "the cost model")
    if model in BUILT_IN:
        return BUILT_IN[model]
    if model.startswith("random:"):
        return _seeded(model)
    if is_place(model):
        return _adapt(load_object(model, CostModelError), model)
    entry = _entry_points().get(model)
    if entry is None:
        known = cost_models()
        near = difflib.get_close_matches(model.lower(), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise CostModelError(f"unknown cost model {model!r}.{hint} Known: {', '.join(known)}; or the place of one, file.py:NAME.")
    try:
        loaded = entry.load()
    except Exception as e:
        raise CostModelError(f"cost model {model!r} cannot be loaded from its entry point: {type(e).__name__}: {e}") from e
    return _adapt(loaded, f"the entry point {model!r}", name=model)


def _seeded(name: str) -> CostModel:
    digits = name.partition(":")[2]
    if not digits.isascii() or not digits.isdigit():
        raise CostModelError(f"cost model {name!r}: the seed is a whole number, as in 'random:7'")
    return random.model(int(digits))


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {e.name: e for e in sorted(entry_points(group=ENTRY_POINTS), key=lambda e: e.name)}


def _adapt(thing: object, where: str, name: str | None = None) -> CostModel:
    """A user's object as a model: one already, a class of one, or a pricing function."""
    if isinstance(thing, type):
        try:
            thing = thing()
        except Exception as e:
            raise CostModelError(f"{where}: making a {thing} failed: {type(e).__name__}: {e}") from e
    if isinstance(thing, CostModel) and callable(thing.price) and isinstance(thing.name, str):
        return thing
    price = getattr(thing, "price", thing)
    if not callable(price):
        raise CostModelError(f"{where} is {type(thing).__name__}: it needs a name and price(candidates, problem, target)")
    return FunctionModel(name or str(getattr(thing, "__name__", type(thing).__name__)), price)
