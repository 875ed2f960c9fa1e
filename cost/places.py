"""Objects of the user's own, by where they are written: ``path/to/file.py:NAME`` or ``package.module:NAME``.

Wherever a cost model, a rule family or a referee is named by text, in Python or on the command line, such a place names yours.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from cost.errors import TilesatError, suggestion


def is_place(spec: object) -> bool:
    """Does a specification name a place in a file or module (and not a seeded random model)?"""
    return isinstance(spec, str) and ":" in spec and not spec.startswith("random:")


def load_object(spec: str, error: type[TilesatError] = TilesatError) -> Any:
    """The object at ``file.py:NAME`` or ``module:NAME``; Raises ``error`` where nothing is there."""
    where, _, name = spec.rpartition(":")
    if not where.strip() or not name.strip():
        raise error(f"{spec!r} names no object; write file.py:NAME or module:NAME")
    try:
        module = _module_of_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except FileNotFoundError:
        raise error(f"{spec}: there is no file {where}") from None
    except (Exception, SystemExit) as e:
        raise error(f"{spec}: importing {where} failed: {type(e).__name__}: {e}") from e
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise error(f"{spec}: {where} defines no {name!r}.{suggestion(name, public)}")
    return getattr(module, name)


def _module_of_file(path: Path) -> Any:
    """The module a file makes, under a name of its own; it is run once a process."""
    path = path.resolve()
    name = f"tilesat_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
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
