"""Fingerprints of what users bring: the source of a cost model, and what it was made with.

Two objects of one class that hold different numbers are different models, although their source is the same. A fingerprint
depends on content alone, never on addresses or the process, so that a study is recognised when it is run again.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np


def digest(text: str) -> str:
    """A short fingerprint of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def source(thing: Any) -> str | None:
    """A fingerprint of the source of the module that defines a function or class; None where it cannot be read."""
    try:
        text = inspect.getsource(inspect.getmodule(thing) or thing)
    except (OSError, TypeError):
        return None
    return digest(text)


def state(thing: Any) -> str | None:
    """A fingerprint of what an object or function holds: attributes, closed-over values, defaults; None where that is nothing."""
    held = _held(thing, frozenset())
    return digest(repr(held)) if held else None


def _held(thing: Any, around: frozenset[int]) -> list[Any]:
    """What ``thing`` holds, as nested lists; ``around`` are the ids of what it is being looked at from."""
    inside = around | {id(thing)}
    if isinstance(thing, types.FunctionType):
        cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True)
        named = [(name, c.cell_contents) for name, c in cells if _filled(c)]
        named += [("", x) for x in thing.__defaults__ or ()] + sorted((thing.__kwdefaults__ or {}).items())
    elif isinstance(thing, types.MethodType):
        return _held(thing.__self__, around)
    elif isinstance(thing, functools.partial):
        named = [("", thing.func), ("", list(thing.args)), *sorted(thing.keywords.items())]
    elif isinstance(thing, type | types.ModuleType | types.BuiltinFunctionType):
        return []
    else:
        slots = [s for c in type(thing).__mro__ for s in _slots(c) if hasattr(thing, s)]
        named = sorted({**{s: getattr(thing, s) for s in slots}, **getattr(thing, "__dict__", {})}.items())
        named = [(name, x) for name, x in named if not _remembered(thing, name)]
    return [[name, _plain(x, inside)] for name, x in named]


def _plain(x: Any, around: frozenset[int]) -> Any:
    """A value as nested lists of plain data."""
    if x is None or isinstance(x, bool | int | float | complex | str | bytes):
        return x
    if id(x) in around:
        return "…"
    inside = around | {id(x)}
    if isinstance(x, list | tuple):
        return [_plain(y, inside) for y in x]
    if isinstance(x, set | frozenset):
        return ["set", *sorted(repr(_plain(y, inside)) for y in x)]
    if isinstance(x, Mapping):
        return ["map", *sorted([repr(_plain(k, inside)), repr(_plain(v, inside))] for k, v in x.items())]
    if isinstance(x, np.ndarray) and x.dtype != object:
        return [str(x.dtype), list(x.shape), hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()]
    if isinstance(x, np.generic | PurePath):
        return str(x)
    kind = x if isinstance(x, type | types.FunctionType) else type(x)
    return [kind.__qualname__, *_held(x, around)]


def _remembered(thing: Any, name: str) -> bool:
    """Is an attribute only what a cached property has found out?"""
    return isinstance(inspect.getattr_static(type(thing), name, None), functools.cached_property)


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises where the cell is empty
    except ValueError:
        return False
    return True


def _slots(kind: type) -> tuple[str, ...]:
    found = kind.__dict__.get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(s for s in found if s not in ("__dict__", "__weakref__"))
