"""Reference semantics of the op table: one numpy function an operation, registered by name.

A function takes the evaluated positional operands and the keywords (``pl.BF16`` as a DType, ``pl.Mem.X`` as a Space) and returns
the result, or None for a bare effect. Families register from files of their own, as operations do; this module needs numpy, so
it is imported only by the interpreter.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from cost.errors import TilesatError

Meaning = Callable[[Sequence[Any], Mapping[str, Any]], Any]

#: Modules that register meanings when they are imported.
FAMILIES = ("semantics_tile", "semantics_vector", "semantics_tensor", "semantics_tensor_math", "semantics_batch")

_MEANINGS: dict[str, Meaning] = {}


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Register the decorated function as what the operations called ``names`` compute."""

    def register(function: Meaning) -> Meaning:
        for name in names:
            define(name, function)
        return function

    return register


def define(name: str, function: Meaning) -> None:
    """Register what the operation called ``name`` computes; a second meaning is an error."""
    if name in _MEANINGS:
        raise TilesatError(f"{name}: its reference semantics are registered twice")
    _MEANINGS[name] = function


@cache
def _load_families() -> None:
    for family in FAMILIES:
        importlib.import_module(f"ir_bridge.ir.{family}")


def meaning_of(op: str) -> Meaning | None:
    """What ``op`` computes, or None when it is opaque."""
    _load_families()
    return _MEANINGS.get(op)
