"""The registry of op conversions: for each tensor operation, how it becomes tile operations and how it wants its operands.

A conversion is a function of the emitter and one statement; it emits tile statements and returns what the statement's
result has become. Operands come in three kinds:

* listed in ``inputs``: brought by the converter in the space that the consuming tile operations demand, loaded at the statement;
* named in ``memory``: kept as global memory, because the lowering itself loads, stores or addresses them;
* all others: tiles in Vec, taken from a load at the function's entry where the parameter is never written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ir_bridge.convert.spaces import OperandSpace, RegistryError
from ir_bridge.ir.nodes import Call, Expr, Loc, Var
from ir_bridge.ir.ops import lookup

if TYPE_CHECKING:
    from ir_bridge.convert.emitter import Emitter


@dataclass(frozen=True, slots=True)
class Site:
    """One statement being converted: the call as written, its operands as brought, the value it defines, a name for it."""

    call: Call
    args: tuple[Expr, ...]
    target: Var | None
    name: str
    loc: Loc


#: Emits the tile statements of one tensor statement; returns the value that stands for its result (None: it has none).
Rule = Callable[["Emitter", Site], "Expr | None"]


@dataclass(frozen=True, slots=True)
class Input:
    """An operand the converter brings as a tile.

    ``cube_axis`` is "m" or "n" for a matmul operand whose axis of that name is boxed to whole fractals: rows, or columns when
    the keyword ``transposed_by`` is set ("m"), and the other way round for "n".
    """

    index: int
    demand: OperandSpace
    transposed_by: str | None = None
    cube_axis: str | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """How one tensor operation converts.

    ``any_size``: operands read by their valid region alone. ``view``: the result shows operand 0, so what is demanded of it is
    demanded of that; ``boxes_through``: the physical rounding of a matmul operand may pass through the view as well.
    ``stays``: the operation may remain in a tile program, on global memory.
    """

    op: str
    rule: Rule
    inputs: tuple[Input, ...] = ()
    memory: frozenset[int] = field(default_factory=frozenset)
    any_size: frozenset[int] = field(default_factory=frozenset)
    view: bool = False
    boxes_through: bool = False
    stays: bool = False

    def wants_tensor(self, index: int) -> bool:
        """Must the operand be a tensor or tile, as far as the registration says?"""
        return index in self.memory or index in self.any_size or self.input_at(index) is not None or (self.view and index == 0)

    def input_at(self, index: int) -> Input | None:
        for i in self.inputs:
            if i.index == index:
                return i
        return None


_REGISTRY: dict[str, Conversion] = {}


def conversion(
    op: str,
    *,
    inputs: tuple[Input, ...] = (),
    memory: tuple[int, ...] = (),
    any_size: tuple[int, ...] = (),
    view: bool = False,
    boxes_through: bool = False,
    stays: bool = False,
) -> Callable[[Rule], Rule]:
    """Register the decorated function as the conversion of ``op``; raises :class:`RegistryError` for an unknown operation."""

    def add(rule: Rule) -> Rule:
        if lookup(op) is None:
            raise RegistryError(f"a conversion is registered for {op!r}, which the op table does not have")
        if op in _REGISTRY:
            raise RegistryError(f"{op}: two conversions are registered")
        _REGISTRY[op] = Conversion(op, rule, inputs, frozenset(memory), frozenset(any_size), view, boxes_through, stays)
        return rule

    return add


def conversion_of(op: str) -> Conversion | None:
    """The conversion of a tensor operation; None when there is none."""
    return _REGISTRY.get(op)


def all_conversions() -> tuple[Conversion, ...]:
    """Every registered conversion, in the order of registration."""
    return tuple(_REGISTRY.values())
