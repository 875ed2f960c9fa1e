"""What every part of the parser knows of the text as a whole."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ir_bridge.ir.nodes import Const, Expr, Symbol, Var
from ir_bridge.ir.parse_errors import Source
from ir_bridge.ir.types import Type


@dataclass(slots=True)
class Signature:
    """A function of the program as its callers see it: the name it prints under, parameters, declared results.

    ``found`` are the types of what the body returns, once it has been read; they count where no results are declared.
    """

    name: str
    params: tuple[Var, ...] = ()
    returns: tuple[Type, ...] = ()
    found: tuple[Type, ...] = ()


@dataclass(slots=True)
class Module:
    """What holds for the whole text: imported names, module-level values, the program's functions by their written names."""

    source: Source
    imported: set[str] = field(default_factory=lambda: {"pl"})
    values: dict[str, Expr] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    functions: dict[str, Signature] = field(default_factory=dict)
    signatures: dict[str, Signature] = field(default_factory=dict)  # the same, by the names they print under
    symbols: dict[str, Symbol] = field(default_factory=dict)
    ints: dict[int, Const] = field(default_factory=dict)
