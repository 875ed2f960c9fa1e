"""Loop headers: ``for i, (carried, ...) in pl.pipeline(start, stop, step, stage=2, init_values=(...))`` and its kin."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ir_bridge.ir.nodes import ONE, ZERO, Const, Expr, LoopKind, Symbol
from ir_bridge.ir.parse_errors import nearest
from ir_bridge.ir.parse_exprs import ExprReader
from ir_bridge.ir.parse_types import dotted

_LOOPS = {f"pl.{kind.value}": kind for kind in LoopKind}
#: How operations inside of a ``pl.split_aiv`` region split: along rows (1) or columns (2).
_SPLIT_MODES: dict[Expr | None, int] = {Symbol("pl.SplitMode.UP_DOWN"): 1, Symbol("pl.SplitMode.LEFT_RIGHT"): 2}
_KNOWN_LOOPS = ", ".join(_LOOPS)


@dataclass(slots=True)
class LoopHeader:
    """The call in a loop's header, read."""

    kind: LoopKind
    bounds: tuple[Expr, Expr, Expr]
    inits: list[Expr]
    stage: int | None
    attrs: tuple[tuple[str, Expr], ...]
    options: tuple[tuple[str, Expr], ...]

    @property
    def split(self) -> int | None:
        """How a ``pl.split_aiv`` region splits; None for other loops."""
        return _SPLIT_MODES.get(next((v for k, v in self.options if k == "mode"), None))


class HeaderReader:
    """Reads loop headers of one function."""

    def __init__(self, exprs: ExprReader) -> None:
        self._exprs = exprs
        self._source = exprs.source

    def read(self, node: ast.For) -> LoopHeader:
        """The call in a loop header."""
        call = node.iter
        text = dotted(call.func) if isinstance(call, ast.Call) else None
        kind = _LOOPS.get(text or "")
        if kind is None or not isinstance(call, ast.Call):
            shown = text or self._source.snippet(call)
            hint = " (did you mean 'pl.range'?)" if text == "range" else nearest(shown, _LOOPS)
            self._source.fail(call, f"not a loop: {shown}{hint}", f"one of {_KNOWN_LOOPS}")
        head = LoopHeader(kind, (ZERO, ZERO, ONE), [], None, (), ())
        options: list[tuple[str, Expr]] = []
        for k in call.keywords:
            if k.arg == "init_values":
                if not isinstance(k.value, (ast.Tuple, ast.List)):
                    self._source.fail(k.value, "init_values is no tuple", "init_values=(a, b)")
                head.inits = [self._exprs.value(v) for v in k.value.elts]
            elif k.arg == "attrs":
                head.attrs = self._exprs.attrs(k.value)
            elif k.arg == "stage" and kind is LoopKind.PIPELINE:
                head.stage = self._stage(k.value)
            elif k.arg is None:
                self._source.fail(k.value, "** in a loop header", "keywords written out")
            else:
                options.append((k.arg, self._exprs.read(k.value)))
        head.options = tuple(options)
        if kind is LoopKind.PIPELINE and head.stage is None:
            self._source.fail(call, "a pipeline without stage", "pl.pipeline(..., stage=2)")
        if kind is not LoopKind.WHILE:
            head.bounds = self._bounds(call, text or "")
        return head

    def _bounds(self, call: ast.Call, text: str) -> tuple[Expr, Expr, Expr]:
        values = [self._exprs.read(a) for a in call.args]
        if not 1 <= len(values) <= 3:
            self._source.fail(call, f"{text} with {len(values)} bounds", "(stop), (start, stop) or (start, stop, step)")
        if len(values) == 1:
            return ZERO, values[0], ONE
        return values[0], values[1], values[2] if len(values) == 3 else ONE

    def _stage(self, node: ast.expr) -> int:
        e = self._exprs.read(node)
        if not isinstance(e, Const) or type(e.value) is not int or e.value < 1:
            self._source.fail(node, "stage is not a positive number", "stage=2")
        return e.value

    def names(self, node: ast.For, head: LoopHeader) -> tuple[str | None, list[str]]:
        """The counter's name and those of the carried values."""
        target = node.target
        if head.kind is LoopKind.WHILE:
            elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            return None, [self._target_name(e) for e in elements]
        if type(target) is ast.Name:
            return target.id, []
        if isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == 2:
            first, second = target.elts
            inner = second.elts if isinstance(second, (ast.Tuple, ast.List)) else [second]
            return self._target_name(first), [self._target_name(e) for e in inner]
        self._source.fail(target, "not a loop target", "i, or i, (carried, ...)")

    def _target_name(self, node: ast.expr) -> str:
        if type(node) is not ast.Name:
            self._source.fail(node, "not a loop target", "i, or i, (carried, ...)")
        return node.id

    def condition(self, node: ast.For) -> tuple[ast.expr, Sequence[ast.stmt]]:
        """The condition a ``pl.while_`` body begins with, and the rest of the body."""
        first = node.body[0]
        call = first.value if isinstance(first, ast.Expr) else None
        if not isinstance(call, ast.Call) or dotted(call.func) != "pl.cond" or len(call.args) != 1:
            self._source.fail(first, "a pl.while_ loop without a condition", "pl.cond(...) as the first statement of its body")
        return call.args[0], node.body[1:]
