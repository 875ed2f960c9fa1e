"""The three phases over a whole program."""

from __future__ import annotations

import os
from dataclasses import replace

from cost.hardware import Target, get_target
from ir_bridge.convert import ops_cube, ops_elementwise, ops_gather, ops_memory
from ir_bridge.convert.access import called
from ir_bridge.convert.calls import CallUpdater, directed, stated_attributes
from ir_bridge.convert.errors import ConvertError
from ir_bridge.convert.incore import Converted, convert_function
from ir_bridge.convert.memory import promote_fills
from ir_bridge.convert.outline import has_core_regions, outline
from ir_bridge.convert.placement import Chooser, as_documented
from ir_bridge.convert.registry import conversion_of
from ir_bridge.ir.nodes import (
    CORE_KINDS,
    Assign,
    Block,
    Call,
    Direction,
    Expr,
    Function,
    Program,
    Var,
    blocks_of,
    expressions_of,
    subexpressions,
    walk,
)

#: The files that register conversions; importing this module fills the registry.
FAMILIES = (ops_elementwise, ops_cube, ops_memory, ops_gather)


def needs_conversion(program: Program) -> bool:
    """Does some InCore, AIC or AIV function (or core region) still compute on tensors, write a parameter declared as read, or
    fill one element by element where a bulk store would do?"""
    signatures = {f.name: f for f in program.functions}
    return any(_needs(f, signatures) if f.kind in CORE_KINDS else has_core_regions(f) for f in program.functions)


def _needs(f: Function, signatures: dict[str, Function]) -> bool:
    read_only = {p.var for p in f.params if p.direction is Direction.IN}
    work = _tensor_calls(f.body)
    if any(_is_tensor_work(call, read_only) for call in work):
        return True
    return any(call.op == "tensor.write" for call in work) and promote_fills(f, signatures) is not f


def _tensor_calls(body: Block) -> list[Call]:
    """The tensor operations that are statements (what is nested in expressions only reads memory), in no particular order."""
    found: list[Call] = []
    work = [body]
    while work:
        for s in work.pop():
            if type(s) is Assign:
                if type(s.value) is Call and s.value.op.startswith("tensor."):
                    found.append(s.value)
            else:
                work.extend(blocks_of(s))
    return found


def _calls(block: Block) -> list[Call]:
    return [x for s in walk(block) for e in expressions_of(s) for x in subexpressions(e) if type(x) is Call]


def _is_tensor_work(call: Call, read_only: set[Var]) -> bool:
    c = conversion_of(call.op)
    if c is None:
        return False
    if not c.stays:
        return True
    subject: Expr | None = call.args[0] if call.args else None
    return call.op == "tensor.write" and subject in read_only


def convert(program: Program, target: str | os.PathLike[str] | Target = "ascend910b", choose: Chooser = as_documented) -> Program:
    """The tile program that ``program`` is.

    Functions on tensors become functions on tiles, results gain output parameters, and callers allocate them. A program with
    nothing to convert comes back as it is. ``choose`` decides where a value that is wanted in several memory spaces comes from
    (:mod:`ir_bridge.convert.placement`). Raises :class:`ConvertError` naming what can't be converted, its place and the repair.
    """
    machine = get_target(target)
    if not needs_conversion(program):
        return program
    program = outline(program)
    originals = {f.name: f for f in program.functions}
    done: dict[str, Converted] = {}
    for f in _callees_first(program):
        done[f.name] = _converted(f, program, machine, originals, done, choose)
    return replace(program, functions=tuple([done[f.name].function for f in program.functions]))


def _converted(
    f: Function,
    program: Program,
    machine: Target,
    originals: dict[str, Function],
    done: dict[str, Converted],
    choose: Chooser,
) -> Converted:
    signatures = {**originals, **{name: c.function for name, c in done.items()}}
    f = stated_attributes(f)
    if f.kind in CORE_KINDS:
        return convert_function(f, program, machine, signatures, choose)
    updated = CallUpdater(f, done, originals).updated()
    return replace(updated, function=directed(updated.function, signatures))


def _callees_first(program: Program) -> list[Function]:
    """Core functions, then everything else after what it calls; refuses functions that call each other in a circle."""
    by_name = {f.name: f for f in program.functions}
    order: list[Function] = []
    state: dict[str, int] = {}

    def visit(f: Function) -> None:
        if state.get(f.name) == 2:
            return
        if state.get(f.name) == 1:
            raise ConvertError(f"{f.name} calls itself, through the functions it calls; give the loop its own function")
        state[f.name] = 1
        for call in _calls(f.body):
            found = called(call)
            if found is not None and found[0] in by_name:
                visit(by_name[found[0]])
        state[f.name] = 2
        order.append(f)

    for f in program.functions:
        visit(f)
    return order


__all__ = ["convert", "needs_conversion"]
