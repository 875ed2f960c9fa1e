"""The module level: imports, dynamic dimensions, constants, the one program class."""

from __future__ import annotations

import ast
from dataclasses import replace

from ir_bridge.ir.names import Names, base_name
from ir_bridge.ir.nodes import INDEX_SCALAR, Binary, Const, Expr, ListExpr, Program, Symbol, Var
from ir_bridge.ir.parse_context import Module
from ir_bridge.ir.parse_errors import ParseError, Source
from ir_bridge.ir.parse_exprs import ExprReader, folded
from ir_bridge.ir.parse_functions import FunctionReader, signatures
from ir_bridge.ir.parse_jit import gathered
from ir_bridge.ir.parse_rebinds import WholeTextNeeded
from ir_bridge.ir.parse_text import ModuleText, TooMuch, complete_function, in_pieces, whole
from ir_bridge.ir.parse_types import dotted

_IMPORT = "import pypto.language as pl"
_PROGRAM = "a class decorated with @pl.program"


def read_module(source: Source) -> Program:
    """The program in ``source``; raises :class:`ParseError`, and SyntaxError where the text is not Python."""
    try:
        pieces = in_pieces(source.text)
        if pieces is not None:
            return _read(pieces, source)
    except (SyntaxError, TooMuch, ParseError, WholeTextNeeded):
        pass  # whatever is wrong is told by reading the text as one
    source.base = 0
    text = whole(source.text)
    kernels = gathered(text.tree)
    return _read(text if kernels is None else replace(text, tree=kernels), source)


def _read(text: ModuleText, source: Source) -> Program:
    node = _program_class(text.tree, source)
    module = Module(source)
    lines: tuple[list[str], list[str]] = ([], [])
    dynamic = _module_level(text.tree, node, module, lines)
    texts = text.functions
    if texts is None:
        texts = [complete_function(f) for f in _function_nodes(node, source)]
    signatures(module, texts)
    readers = [FunctionReader(module, f, text.interned) for f in texts]
    for f, reader in zip(texts, readers, strict=True):
        reader.header(module.functions[f.node.name])
    functions = tuple([r.function(module.functions[f.node.name]) for f, r in zip(texts, readers, strict=True)])
    return Program(base_name(node.name), functions, tuple(dynamic), tuple(lines[0]), source.file, tuple(lines[1]))


# -- finding the program ---------------------------------------------------------------------------------------------------


def _is_program(node: ast.stmt) -> bool:
    if not isinstance(node, ast.ClassDef):
        return False
    return any(dotted(d.func if isinstance(d, ast.Call) else d) == "pl.program" for d in node.decorator_list)


def _program_class(tree: ast.Module, source: Source) -> ast.ClassDef:
    """The one class that is the program."""
    found = [n for n in tree.body if isinstance(n, ast.ClassDef) and _is_program(n)]
    if len(found) > 1:
        source.fail(found[1], f"two programs: {found[0].name} and {found[1].name}", "one @pl.program class in a file")
    if found:
        return found[0]
    undecorated = next((n for n in tree.body if isinstance(n, ast.ClassDef)), None)
    if undecorated is not None:
        source.fail(undecorated, f"class {undecorated.name} is not decorated", "@pl.program above it")
    source.fail(tree.body[0] if tree.body else None, "there is no program", _PROGRAM)


def _function_nodes(node: ast.ClassDef, source: Source) -> list[ast.FunctionDef]:
    found: list[ast.FunctionDef] = []
    for n in node.body:
        if isinstance(n, ast.FunctionDef):
            found.append(n)
        elif not isinstance(n, ast.Pass) and not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)):
            source.fail(n, f"{type(n).__name__} in the program class", "functions decorated with @pl.function")
    if not found:
        source.fail(node, f"program {node.name} has no function", "functions decorated with @pl.function")
    return found


# -- what stands around it --------------------------------------------------------------------------------------------------


def _module_level(tree: ast.Module, program: ast.ClassDef, module: Module, lines: tuple[list[str], list[str]]) -> list[Var]:
    """Enter imports, dynamic dimensions and constants into ``module``; other statements go to ``lines``, before or after."""
    names = Names()
    dynamic: dict[str, Var] = {}
    where = lines[0]
    for node in tree.body:
        if node is program:
            where = lines[1]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module.imported.update(a.asname or a.name.partition(".")[0] for a in node.names)
            text = ast.unparse(node)
            if text != _IMPORT:
                where.append(text)
        elif not _is_comment(node) and not _define_names(node, module, names, dynamic):
            where.append(_verbatim(node, module.source))
    return list(dynamic.values())


def _is_comment(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _verbatim(node: ast.stmt, source: Source) -> str:
    """The lines of a statement, its decorators included."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *[d.lineno for d in decorators]])
    return "\n".join([source.line(i) for i in range(first, (node.end_lineno or first) + 1)])


def _define_names(node: ast.stmt, module: Module, names: Names, dynamic: dict[str, Var]) -> bool:
    """Enter ``N = pl.dynamic("N")`` and ``TILE = 128``; False when the statement is something else."""
    target: ast.expr
    if isinstance(node, ast.AnnAssign):
        target, value = node.target, node.value
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    else:
        return False
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    elif value is not None:
        pairs = [(target, value)]
    else:
        return False
    found: list[tuple[str, ast.expr, Expr]] = []
    for t, v in pairs:
        e = _dynamic(v, names, dynamic) or _constant(v, module)
        if e is None or not isinstance(t, ast.Name):
            return False
        found.append((t.id, v, e))
    for name, v, e in found:
        module.values[name] = e
        if not isinstance(e, Var):
            module.constants[name] = v
    return True


def _dynamic(node: ast.expr, names: Names, dynamic: dict[str, Var]) -> Var | None:
    """The value of ``pl.dynamic("N")``; every mention of one label is the same dimension."""
    if not isinstance(node, ast.Call) or dotted(node.func) != "pl.dynamic" or len(node.args) != 1:
        return None
    (label,) = node.args
    if not isinstance(label, ast.Constant) or not isinstance(label.value, str):
        return None
    if label.value not in dynamic:
        dynamic[label.value] = Var(names.fresh(label.value), INDEX_SCALAR)
    return dynamic[label.value]


def _constant(node: ast.expr, module: Module) -> Expr | None:
    """The value of a module-level constant: literals, lists of them, ``pl.`` names, arithmetic on integers."""
    try:
        return _folded(ExprReader(module, Names()).read(node))
    except ParseError:
        return None


def _folded(e: Expr) -> Expr | None:
    """A constant expression with its arithmetic done; None when it is no constant."""
    if isinstance(e, (Const, Symbol)):
        return e
    if isinstance(e, ListExpr):
        items = [_folded(x) for x in e.items]
        return None if any(x is None for x in items) else ListExpr(tuple([x for x in items if x is not None]), e.is_tuple)
    if isinstance(e, Binary):
        left, right = _folded(e.left), _folded(e.right)
        found = folded(e.op, left, right) if isinstance(left, Const) and isinstance(right, Const) else None
        return None if found is None else Const(found)
    return None
