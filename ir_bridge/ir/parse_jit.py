"""Kernels without a program class: functions under ``@pl.jit.incore`` or ``@pl.jit`` that stand in a module by themselves.

They are read as the program class they amount to: ``@pl.jit.incore`` is an InCore function, ``@pl.jit`` one that calls others,
and a plain call of another one is a call of a sibling.
"""

from __future__ import annotations

import ast

from ir_bridge.ir.parse_types import dotted

_KINDS = {"pl.jit.incore": "InCore", "pl.jit": "Opaque"}


def _kind(node: ast.stmt) -> str | None:
    if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1:
        return None
    (d,) = node.decorator_list
    return _KINDS.get(dotted(d.func if isinstance(d, ast.Call) else d) or "")


class _Siblings(ast.NodeTransformer):
    """``kernel(x)`` as ``self.kernel(x)`` where a function of the module is meant."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self._names:
            node.func = ast.copy_location(ast.Attribute(ast.Name("self", ast.Load()), node.func.id, ast.Load()), node.func)
            ast.fix_missing_locations(node.func)
        return node


def gathered(tree: ast.Module) -> ast.Module | None:
    """The module with its kernels in a program class; None when it has no such kernels, or a class already."""
    kernels = {n.name: k for n in tree.body if isinstance(n, ast.FunctionDef) and (k := _kind(n)) is not None}
    if not kernels or any(isinstance(n, ast.ClassDef) for n in tree.body):
        return None
    siblings = _Siblings(frozenset(kernels))
    inside: list[ast.stmt] = []
    around: list[ast.stmt] = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name not in kernels:
            around.append(node)
            continue
        decorator = ast.parse(f"pl.function(type=pl.FunctionType.{kernels[node.name]})", mode="eval").body
        for part in ast.walk(decorator):
            ast.copy_location(part, node.decorator_list[0])
        node.decorator_list = [decorator]
        node.args.args.insert(0, ast.copy_location(ast.arg("self"), node))
        inside.append(siblings.visit(node))
    last = inside[-1]
    name = last.name.title().replace("_", "") if isinstance(last, ast.FunctionDef) else "Kernels"
    program = ast.ClassDef(name, [], [], inside, [])
    ast.copy_location(program, inside[0])
    program.decorator_list = [ast.copy_location(ast.Attribute(ast.Name("pl", ast.Load()), "program", ast.Load()), inside[0])]
    ast.fix_missing_locations(program)
    tree.body = [*around, program]
    return tree
