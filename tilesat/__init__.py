"""tilesat: equality-saturation tiling for the matrix cores of Ascend chips.

Everything a user needs is here; heavy libraries load when a function first needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cost.errors import CostModelError, Rejected, TargetError, TilesatError

if TYPE_CHECKING:
    from cost.hardware import Target, get_target, load_target, targets
    from cost.models import cost_model, cost_models
    from egraph_rules.catalogue import RuleSet, RuleSetError, rules
    from egraph_rules.engine import Limits
    from ir_bridge.ir.interpreter import execute
    from ir_bridge.ir.nodes import Program
    from ir_bridge.ir.parser import ParseError, load, parse
    from ir_bridge.ir.verifier import VerifyError, verify
    from ir_bridge.lower.gates import PlacementError
    from tilesat.choose import Tile, choose_tile
    from tilesat.tiling import PerfHint, ProductDecision, Tiling, tile

__version__ = "0.1.0"

#: Where each public name lives; it is imported when it is first asked for.
_HOMES = {
    "Limits": "egraph_rules.engine",
    "ParseError": "ir_bridge.ir.parser",
    "PerfHint": "tilesat.tiling",
    "PlacementError": "ir_bridge.lower.gates",
    "ProductDecision": "tilesat.tiling",
    "Program": "ir_bridge.ir.nodes",
    "RuleSet": "egraph_rules.catalogue",
    "RuleSetError": "egraph_rules.catalogue",
    "Target": "cost.hardware",
    "Tile": "tilesat.choose",
    "Tiling": "tilesat.tiling",
    "VerifyError": "ir_bridge.ir.verifier",
    "choose_tile": "tilesat.choose",
    "cost_model": "cost.models",
    "cost_models": "cost.models",
    "execute": "ir_bridge.ir.interpreter",
    "get_target": "cost.hardware",
    "load": "ir_bridge.ir.parser",
    "load_target": "cost.hardware",
    "parse": "ir_bridge.ir.parser",
    "rules": "egraph_rules.catalogue",
    "targets": "cost.hardware",
    "tile": "tilesat.tiling",
    "verify": "ir_bridge.ir.verifier",
}
#: Modules reached as ``tilesat.name``.
_MODULES = ("ir",)

__all__ = ["CostModelError", "Rejected", "TargetError", "TilesatError", "__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tilesat.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tilesat' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
