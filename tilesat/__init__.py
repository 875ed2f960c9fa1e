"""tilesat: equality-saturation tiling for the matrix cores of Ascend chips.

Everything a user needs is here; heavy libraries load when a function first needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cost.errors import CostModelError, Rejected, TargetError, TilesatError

if TYPE_CHECKING:
    from cost.hardware import Target as Target
    from cost.hardware import get_target as get_target
    from cost.hardware import load_target as load_target
    from cost.hardware import targets as targets
    from cost.models import cost_model as cost_model
    from cost.models import cost_models as cost_models
    from egraph_rules.catalogue import RuleSet as RuleSet
    from egraph_rules.catalogue import RuleSetError as RuleSetError
    from egraph_rules.catalogue import rules as rules
    from egraph_rules.report import Limits as Limits
    from ir_bridge.convert import ConvertError as ConvertError
    from ir_bridge.ir.interpreter import ExecuteError as ExecuteError
    from ir_bridge.ir.interpreter import execute as execute
    from ir_bridge.ir.interpreter_inputs import random_inputs as random_inputs
    from ir_bridge.ir.nodes import Program as Program
    from ir_bridge.ir.parser import ParseError as ParseError
    from ir_bridge.ir.parser import load as load
    from ir_bridge.ir.parser import parse as parse
    from ir_bridge.ir.verifier import Finding as Finding
    from ir_bridge.ir.verifier import VerifyError as VerifyError
    from ir_bridge.ir.verifier import verify as verify
    from ir_bridge.lower.gates import PlacementError as PlacementError
    from tilesat.batch import BatchPlan as BatchPlan
    from tilesat.batch import plan_batch as plan_batch
    from tilesat.choose import Tile as Tile
    from tilesat.choose import choose_tile as choose_tile
    from tilesat.placing import convert as convert
    from tilesat.result import PerfHint as PerfHint
    from tilesat.result import ProductDecision as ProductDecision
    from tilesat.result import Tiling as Tiling
    from tilesat.simulation import SimulationError as SimulationError
    from tilesat.simulation import SimulationResult as SimulationResult
    from tilesat.simulation import simulate as simulate
    from tilesat.tiling import tile as tile

__version__ = "0.1.0"

#: Where each public name lives; it is imported when it is first asked for.
_HOMES = {
    "BatchPlan": "tilesat.batch",
    "ExecuteError": "ir_bridge.ir.interpreter",
    "Finding": "ir_bridge.ir.verifier",
    "ConvertError": "ir_bridge.convert",
    "Limits": "egraph_rules.report",
    "ParseError": "ir_bridge.ir.parser",
    "PerfHint": "tilesat.result",
    "PlacementError": "ir_bridge.lower.gates",
    "ProductDecision": "tilesat.result",
    "Program": "ir_bridge.ir.nodes",
    "RuleSet": "egraph_rules.catalogue",
    "RuleSetError": "egraph_rules.catalogue",
    "SimulationError": "tilesat.simulation",
    "SimulationResult": "tilesat.simulation",
    "Target": "cost.hardware",
    "Tile": "tilesat.choose",
    "Tiling": "tilesat.result",
    "VerifyError": "ir_bridge.ir.verifier",
    "choose_tile": "tilesat.choose",
    "convert": "tilesat.placing",
    "cost_model": "cost.models",
    "cost_models": "cost.models",
    "execute": "ir_bridge.ir.interpreter",
    "get_target": "cost.hardware",
    "load": "ir_bridge.ir.parser",
    "load_target": "cost.hardware",
    "parse": "ir_bridge.ir.parser",
    "plan_batch": "tilesat.batch",
    "random_inputs": "ir_bridge.ir.interpreter_inputs",
    "rules": "egraph_rules.catalogue",
    "simulate": "tilesat.simulation",
    "targets": "cost.hardware",
    "tile": "tilesat.tiling",
    "verify": "ir_bridge.ir.verifier",
}
#: Modules reached as ``tilesat.name``.
_MODULES = ("corpus", "ir", "studies")

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
