"""Objects of the user's own, by where they are written: ``path/to/file.py:NAME`` or ``package.module:NAME``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cost.models import CostModel, cost_model
from egraph_rules.catalogue import RuleSet, rules
from egraph_rules.rule import Family
from tilesat.studies.errors import StudyError, suggestion
from tilesat.studies.manifest import digest


def is_place(spec: object) -> bool:
    """Does a specification name a place in a file or module (and not a seeded random model)?"""
    return isinstance(spec, str) and ":" in spec and not spec.startswith("random:")


def load_object(spec: str) -> Any:
    """The object at ``file.py:NAME`` or ``module:NAME``. Raises :class:`StudyError` saying what is not there."""
    where, _, name = spec.rpartition(":")
    try:
        module = _module_of_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except FileNotFoundError:
        raise StudyError(f"{spec}: there is no file {where}") from None
    except Exception as e:
        raise StudyError(f"{spec}: importing {where} failed: {type(e).__name__}: {e}") from e
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise StudyError(f"{spec}: {where} defines no {name!r}.{suggestion(name, public)}")
    return getattr(module, name)


def _module_of_file(path: Path) -> Any:
    """The module a file makes, under a name of its own; once a process."""
    path = path.resolve()
    name = f"tilesat_user_{path.stem}_{digest(str(path))}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise FileNotFoundError(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def model_of(spec: object) -> CostModel:
    """The cost model of a name, a place, or an object. Raises CostModelError or :class:`StudyError`."""
    return cost_model(load_object(spec) if isinstance(spec, str) and is_place(spec) else spec)


def rules_of(spec: object) -> RuleSet:
    """The rule set of a name, a set, a family, or a sequence of names, families and places.

    In a string, parts that name a place (``file.py:FAMILY``) stand beside the others: ``"all,my_rules.py:FAMILY"``.
    Raises RuleSetError or :class:`StudyError`.
    """
    if isinstance(spec, RuleSet):
        return spec
    parts: list[Any] = spec.split(",") if isinstance(spec, str) else [spec]
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        parts = list(spec)
    items: list[str | Family] = []
    for part in parts:
        found = load_object(part.strip()) if isinstance(part, str) and is_place(part.strip()) else part
        if not isinstance(found, (str, Family)):
            raise StudyError(f"{part} is {type(found).__name__}, no rule family (a function under @family)")
        items.append(found.strip() if isinstance(found, str) else found)
    return rules(items)
