"""tilesat: equality-saturation tiling for the matrix cores of Ascend chips.

Everything a user needs is here; heavy libraries load when a function first needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cost.errors import CostModelError, Rejected, TargetError, TilesatError

if TYPE_CHECKING:
    from tilesat.choose import Tile, choose_tile

__version__ = "0.1.0"

#: Where each public name lives; it is imported when it is first asked for.
_HOMES = {
    "Tile": "tilesat.choose",
    "choose_tile": "tilesat.choose",
}

__all__ = ["CostModelError", "Rejected", "TargetError", "TilesatError", "__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tilesat' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
