"""Functions: decorator, parameters, declared results, body."""

from __future__ import annotations

import ast

from ir_bridge.ir.names import Names, base_name
from ir_bridge.ir.nodes import Expr, Function, Param, Return, Stmt, Symbol, Var, vars_in
from ir_bridge.ir.ops import OpError, type_of
from ir_bridge.ir.parse_context import Module, Signature
from ir_bridge.ir.parse_errors import nearest
from ir_bridge.ir.parse_exprs import ExprReader
from ir_bridge.ir.parse_rebinds import Rebinds
from ir_bridge.ir.parse_stmts import StmtReader
from ir_bridge.ir.parse_text import FunctionText
from ir_bridge.ir.parse_types import TypeReader, dotted
from ir_bridge.ir.types import UNKNOWN, ScalarType, TensorType, Type

KINDS = ("Opaque", "Orchestration", "InCore", "AIC", "AIV", "Group", "Spmd", "Inline", "Graph")


class _Written(ast.NodeTransformer):
    """Puts the names values print under in place of those they were written under."""

    def __init__(self, env: dict[str, Expr]) -> None:
        self._env = env

    def visit_Name(self, node: ast.Name) -> ast.Name:
        value = self._env.get(node.id)
        return ast.Name(value.name, node.ctx) if isinstance(value, Var) else node


class FunctionReader:
    """Reads one function, in two steps: its header (so that all callers know its results), then its body."""

    def __init__(self, module: Module, text: FunctionText, interned: dict[str, ast.expr]) -> None:
        node = text.node
        self._module = module
        self._text = text
        self._node = node
        self._source = module.source
        printed = [v.name for v in module.values.values() if isinstance(v, Var)]
        self._exprs = ExprReader(module, Names([*printed, *sorted(module.imported)]))
        self._types = TypeReader(self._source, self._exprs.read, self._written, interned, module.constants)
        self._stmts = StmtReader(self._exprs, self._types, Rebinds(node.body if text.complete else None))
        self._params: list[Param] = []
        self._returns: tuple[Type, ...] = ()
        self._has_self = False

    def _written(self, node: ast.expr) -> str:
        """The text of a part that is kept as written."""
        env = self._exprs.env
        named = any(type(n) is ast.Name and isinstance(env.get(n.id), Var) for n in ast.walk(node))
        return ast.unparse(_Written(env).visit(node) if named else node)

    def header(self, signature: Signature) -> None:
        """Read parameters and declared results into ``signature``."""
        self._source.base = self._text.base
        args = self._node.args
        for wrong in (*args.posonlyargs, *args.kwonlyargs, args.vararg, args.kwarg):
            if wrong is not None:
                self._source.fail(wrong, "a parameter that is not plain", "name: type")
        defaults: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults)) + list(args.defaults)
        seen: set[str] = set()
        for i, (a, default) in enumerate(zip(args.args, defaults, strict=True)):
            if i == 0 and a.arg == "self":
                self._has_self = True
                continue
            if a.arg in seen:
                self._source.fail(a, f"two parameters named {a.arg!r}", "a name of its own for each parameter")
            seen.add(a.arg)
            t, direction = self._types.read_param(a.annotation)
            var = Var(self._exprs.names.fresh(a.arg), t)
            self._stmts.bind(a.arg, var)
            self._params.append(Param(var, direction, None if default is None else self._exprs.read(default)))
        self._returns = self._types.read_returns(self._node.returns)
        signature.params = tuple([p.var for p in self._params])
        signature.returns = self._returns

    def function(self, signature: Signature) -> Function:
        """The whole function; :meth:`header` must have been called."""
        self._source.base = self._text.base
        loc = self._source.loc(self._node)
        kind, decorator = self._decorator()
        doc: str | None = None
        body: list[Stmt] = []
        for i, (base, nodes) in enumerate(self._text.body()):
            self._source.base = base
            if i == 0:
                doc = _docstring(nodes[0])
            body += self._stmts.block(nodes)
        signature.found = self._found(body)
        return Function(
            signature.name,
            tuple(self._params),
            tuple(body),
            self._returns,
            kind,
            decorator,
            self._has_self,
            doc,
            loc,
        )

    def _found(self, body: list[Stmt]) -> tuple[Type, ...]:
        """The types of what the body returns; unknown where a type names what callers do not know."""
        last = body[-1] if body else None
        known = {*(p.var for p in self._params), *(v for v in self._module.values.values() if isinstance(v, Var))}
        found: list[Type] = []
        for e in last.values if isinstance(last, Return) else ():
            try:
                t = type_of(e)
            except OpError:
                t = UNKNOWN  # an operation on something of unknown type
            shape = t.shape if isinstance(t, TensorType) else ()
            named = {v for d in shape if not isinstance(d, int) for v in vars_in(d)}
            found.append(t if isinstance(t, (TensorType, ScalarType)) and named <= known else UNKNOWN)
        return tuple(found)

    def _decorator(self) -> tuple[str, tuple[tuple[str, Expr], ...]]:
        """(kind, other keywords) of ``@pl.function(type=..., ...)``."""
        node = self._node
        wanted = "@pl.function, or @pl.function(type=pl.FunctionType.InCore)"
        if len(node.decorator_list) != 1:
            self._source.fail(node, f"function {node.name!r} has {len(node.decorator_list)} decorators", wanted)
        (d,) = node.decorator_list
        if dotted(d.func if isinstance(d, ast.Call) else d) != "pl.function":
            self._source.fail(d, f"an unknown decorator of function {node.name!r}", wanted)
        if not isinstance(d, ast.Call):
            return "Opaque", ()
        if d.args:
            self._source.fail(d.args[0], "a decorator argument without keyword", wanted)
        kind = "Opaque"
        rest: list[tuple[str, Expr]] = []
        for k in d.keywords:
            if k.arg == "type":
                kind = self._kind(k.value)
            elif k.arg is not None:
                rest.append((k.arg, self._exprs.read(k.value)))
        return kind, tuple(rest)

    def _kind(self, node: ast.expr) -> str:
        e = self._exprs.read(node)
        text = e.text if isinstance(e, Symbol) else self._source.snippet(node)
        kind = text.removeprefix("pl.FunctionType.")
        if kind not in KINDS:
            self._source.fail(
                node,
                f"unknown function type {kind}{nearest(kind, KINDS)}",
                "one of " + ", ".join(f"pl.FunctionType.{k}" for k in KINDS),
            )
        return kind


def _docstring(node: ast.stmt) -> str | None:
    """The text of a docstring; None when the statement is none."""
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def signatures(module: Module, texts: list[FunctionText]) -> None:
    """Enter the program's functions into ``module``, by written and by printed name; two of one name are refused."""
    names = Names()
    for text in texts:
        node = text.node
        module.source.base = text.base
        if node.name in module.functions:
            module.source.fail(node, f"two functions named {node.name!r}", "a name of its own for each function")
        signature = Signature(names.fresh(base_name(node.name)))
        module.functions[node.name] = signature
        module.signatures[signature.name] = signature
