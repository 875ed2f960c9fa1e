"""A :class:`Program` as PyPTO text that PyPTO compiles.

Every value has a name of its own without ``__`` (:mod:`ir_bridge.ir.names`), every single assigned value its type, every
operation its canonical form. The text is a function of the program alone, and the work linear in its length.
"""

from __future__ import annotations

from collections.abc import Sequence

from cost.errors import TilesatError
from ir_bridge.ir.names import Names, base_name, identifier
from ir_bridge.ir.nodes import (
    ONE,
    ZERO,
    Assign,
    Call,
    Direction,
    Expr,
    For,
    Function,
    If,
    LoopKind,
    Param,
    Pass,
    Program,
    Return,
    Scope,
    Stmt,
    Var,
    Yield,
)
from ir_bridge.ir.print_exprs import ExprPrinter, is_written, literal

_INDENT = "    "


class PrintError(TilesatError):
    """A program that is not well formed enough to be written down."""


def print_program(program: Program) -> str:
    """The text of a program; ``parse`` of it gives an equal program."""
    name = base_name(identifier(program.name))
    lines = [f"# pypto.program: {name}", "import pypto.language as pl", *program.preamble, ""]
    module = Names()
    dynamic = {v: module.fresh(v.name) for v in program.dynamic}
    for text in dynamic.values():
        lines.append(f'{text} = pl.dynamic("{text}")')
    if dynamic:
        lines.append("")
    lines += ["@pl.program", f"class {name}:"]
    printed = Names()
    functions = {f.name: printed.fresh(f.name) for f in program.functions}
    modules = _imported(program.preamble)
    for f in program.functions:
        _FunctionPrinter(lines, dynamic, functions, modules).function(f)
    if program.epilogue:
        lines += ["", "", *program.epilogue]
    return "\n".join(lines) + "\n"


def print_function(function: Function) -> str:
    """The text of one function, decorator included, not indented."""
    lines: list[str] = []
    _FunctionPrinter(lines, {}, {function.name: base_name(identifier(function.name))}, frozenset()).function(function)
    return "\n".join([line.removeprefix(_INDENT) for line in lines]) + "\n"


def print_expr(e: Expr) -> str:
    """The text of an expression on its own, each value under its own name."""
    return ExprPrinter(lambda v: base_name(v.name), {}, frozenset()).expr(e)


def _imported(preamble: Sequence[str]) -> frozenset[str]:
    """The names that import lines bind."""
    found: set[str] = set()
    for line in preamble:
        words = line.split()
        if words[:1] in (["import"], ["from"]) and "import" in words:
            for part in line[line.index("import") + 6 :].split(","):
                found.add(part.split()[-1].partition(".")[0])
    return frozenset(found)


class _FunctionPrinter:
    """Prints one function into ``lines``."""

    def __init__(self, lines: list[str], dynamic: dict[Var, str], functions: dict[str, str], modules: frozenset[str]) -> None:
        self._lines = lines
        self._names = Names([*dynamic.values(), *sorted(modules)])
        self._called: dict[Var, str] = dict(dynamic)
        self._exprs = ExprPrinter(self._use, functions, modules)
        self._functions = functions
        self._table = {
            Assign: self._assign,
            For: self._for,
            If: self._if,
            Scope: self._scope,
            Yield: self._stray_yield,
            Return: self._return,
            Pass: self._pass,
        }

    # -- names ----------------------------------------------------------------------------------------------------------------

    def _use(self, v: Var) -> str:
        found = self._called.get(v)
        if found is None:
            raise PrintError(f"value {v.name!r} is used before it is defined")
        return found

    def _define(self, v: Var) -> str:
        found = self._called.get(v)
        if found is None:
            found = self._called[v] = self._names.fresh(v.name)
        return found

    # -- functions -------------------------------------------------------------------------------------------------------------

    def function(self, f: Function) -> None:
        """Print a function as a method of the program class."""
        e = self._exprs
        kind = [] if f.kind == "Opaque" and not f.decorator else [f"type=pl.FunctionType.{f.kind}"]
        for p in f.params:
            self._define(p.var)
        options = ", ".join(kind + [f"{k}={e.expr(v)}" for k, v in f.decorator])
        params = ", ".join((["self"] if f.has_self else []) + [self._param(p) for p in f.params])
        self._lines.append(f"{_INDENT}@pl.function({options})" if options else f"{_INDENT}@pl.function")
        self._lines.append(f"{_INDENT}def {self._functions[f.name]}({params}){self._returns(f)}:")
        if f.doc is not None:
            self._lines.append(2 * _INDENT + _docstring(f.doc))
        self._block(f.body, 2 * _INDENT)

    def _param(self, p: Param) -> str:
        name, t = self._called[p.var], self._exprs.type(p.var.type)
        if p.direction is not Direction.IN:
            t = f"pl.{p.direction.value}[{t}]"
        text = f"{name}: {t}" if t else name
        if p.default is None:
            return text
        return f"{text} = {self._exprs.expr(p.default)}" if t else f"{text}={self._exprs.expr(p.default)}"

    def _returns(self, f: Function) -> str:
        if not f.returns:
            return ""
        types = [self._exprs.type(t) for t in f.returns]
        return f" -> {types[0]}" if len(types) == 1 else f" -> tuple[{', '.join(types)}]"

    # -- statements -----------------------------------------------------------------------------------------------------------

    def _block(self, block: Sequence[Stmt], indent: str, results: tuple[Var, ...] = ()) -> None:
        """Print a block; one that has ``results`` ends with the yield that defines them."""
        body = block
        if results:
            last = block[-1] if block else None
            if not isinstance(last, Yield) or len(last.values) != len(results):
                raise PrintError(f"a block that defines {[v.name for v in results]} does not end with a yield of as many values")
            body = block[:-1]
        table = self._table
        for s in body:
            table[type(s)](s, indent)  # type: ignore[operator]
        if results:
            self._yield(last, results, indent)  # type: ignore[arg-type]
        elif not body:
            self._lines.append(f"{indent}pass")

    def _assign(self, s: Assign, indent: str) -> None:
        value = self._exprs.expr(s.value)
        targets = s.targets
        if len(targets) == 1:
            v = targets[0]
            name = self._define(v)
            t = self._exprs.type(v.type)
            self._lines.append(f"{indent}{name}: {t} = {value}" if t else f"{indent}{name} = {value}")
        elif targets:
            self._lines.append(f"{indent}{', '.join([self._define(v) for v in targets])} = {value}")
        else:
            self._lines.append(f"{indent}{value}")

    def _yield(self, s: Yield, results: tuple[Var, ...], indent: str) -> None:
        values = ", ".join([self._exprs.expr(v) for v in s.values])
        names = ", ".join([self._define(v) for v in results])
        if len(results) == 1 and is_written(results[0].type):
            names += f": {self._exprs.type(results[0].type)}"
        self._lines.append(f"{indent}{names} = pl.yield_({values})")

    def _stray_yield(self, s: Yield, indent: str) -> None:
        raise PrintError("a yield that is not the last statement of a loop body or branch with results")

    def _return(self, s: Return, indent: str) -> None:
        values = [self._exprs.expr(v) for v in s.values]
        self._lines.append(f"{indent}return {', '.join(values)}" if values else f"{indent}return")

    def _pass(self, s: Pass, indent: str) -> None:
        self._lines.append(f"{indent}pass")

    def _scope(self, s: Scope, indent: str) -> None:
        header = self._exprs.expr(s.header)
        if isinstance(s.header, Call) and s.header.op == "split_aiv" and s.name is not None:
            self._lines.append(f"{indent}for {self._define(s.name)} in {header}:")
        else:
            bound = "" if s.name is None else f" as {self._define(s.name)}"
            self._lines.append(f"{indent}with {header}{bound}:")
        self._block(s.body, indent + _INDENT)

    def _if(self, s: If, indent: str) -> None:
        self._lines.append(f"{indent}if {self._exprs.expr(s.cond)}:")
        for v in s.results:
            self._define(v)
        self._block(s.then, indent + _INDENT, s.results)
        if s.orelse is not None:
            self._lines.append(f"{indent}else:")
            self._block(s.orelse, indent + _INDENT, s.results)
        elif s.results:
            raise PrintError(f"a branch that defines {[v.name for v in s.results]} has no else")

    # -- loops ----------------------------------------------------------------------------------------------------------------

    def _for(self, s: For, indent: str) -> None:
        for v in s.results:
            self._define(v)
        header = self._loop_call(s)
        if s.kind is LoopKind.WHILE:
            self._while_header(s, header, indent)
        else:
            assert s.counter is not None
            target = self._define(s.counter)
            if s.carried:
                target += f", ({', '.join([self._define(v) for v in s.carried])}{',' if len(s.carried) == 1 else ''})"
            self._lines.append(f"{indent}for {target} in {header}:")
        self._block(s.body, indent + _INDENT, s.results)

    def _while_header(self, s: For, header: str, indent: str) -> None:
        """``pl.while_`` with its ``pl.cond``; a loop that carries nothing is a plain ``while``."""
        assert s.cond is not None
        if not s.carried:
            self._lines.append(f"{indent}while {self._exprs.expr(s.cond)}:")
            return
        target = ", ".join([self._define(v) for v in s.carried])
        self._lines.append(f"{indent}for ({target}{',' if len(s.carried) == 1 else ''}) in {header}:")
        self._lines.append(f"{indent}{_INDENT}pl.cond({self._exprs.expr(s.cond)})")

    def _loop_call(self, s: For) -> str:
        e = self._exprs
        parts: list[str] = []
        if s.kind is not LoopKind.WHILE:
            if s.step != ONE:
                parts = [e.expr(s.start), e.expr(s.stop), e.expr(s.step)]
            elif s.start != ZERO:
                parts = [e.expr(s.start), e.expr(s.stop)]
            else:
                parts = [e.expr(s.stop)]
        if s.stage is not None:
            parts.append(f"stage={s.stage}")
        parts += [f"{k}={e.expr(v)}" for k, v in s.options]
        if s.inits:
            inits = [e.expr(v) for v in s.inits]
            parts.append(f"init_values=({', '.join(inits)}{',' if len(inits) == 1 else ''})")
        if s.attrs:
            parts.append(f"attrs={e.attrs(s.attrs)}")
        return f"pl.{s.kind.value}({', '.join(parts)})"


def _docstring(text: str) -> str:
    """A docstring as one literal."""
    if "\\" in text or '"' in text or "\n" in text or not text.isprintable():
        return literal(text)
    return f'"""{text}"""'
