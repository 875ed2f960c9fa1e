"""SSA and scoping: every value defined once, before its uses, in a block that encloses them; blocks end as they must."""

from __future__ import annotations

from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    Assign,
    Block,
    Call,
    Expr,
    For,
    Function,
    If,
    Loc,
    LoopKind,
    Program,
    Return,
    Scope,
    Stmt,
    Symbol,
    Var,
    Yield,
    expressions_of,
    vars_in,
)
from ir_bridge.ir.ops import type_of
from ir_bridge.ir.types import ScalarType, TensorType, TileType, Type
from ir_bridge.ir.verifier_compare import mismatch
from ir_bridge.ir.verifier_findings import Report, shown


def check_scopes(program: Program, function: Function, report: Report) -> None:
    """Findings of kinds "ssa", "structure" and "call" (and "type" where values cross a block's edge) of one function."""
    _Scopes(program, function, report).run()


class _Scopes:
    def __init__(self, program: Program, function: Function, report: Report) -> None:
        self.program, self.function, self.report = program, function, report
        self.visible: set[Var] = set(program.dynamic)
        self.ever: set[Var] = set(program.dynamic)
        self.log: list[Var] = []  # what became visible, in order, to be undone at a block's end
        self.siblings = {f.name: f for f in program.functions}

    def run(self) -> None:
        names: set[str] = set()
        for p in self.function.params:
            if p.var.name in names:
                self.report.add(
                    "ssa", base_name(p.var.name), f"two parameters are called {base_name(p.var.name)!r}", self.function.loc
                )
            names.add(p.var.name)
            self.visible.update(_dims(p.var.type) - self.visible)
            self.define(p.var, self.function.loc)
        self.block(self.function.body, at_top=True)
        self.returns()

    # -- definitions and uses ------------------------------------------------------------------------------------------------

    def define(self, v: Var, loc: Loc) -> None:
        if v in self.ever:
            self.report.add("ssa", base_name(v.name), f"'{base_name(v.name)}' is defined twice", loc)
        self.ever.add(v)
        self.visible.add(v)
        self.log.append(v)

    def leave(self, mark: int) -> None:
        """Names defined since the log had ``mark`` entries are visible no longer."""
        self.visible.difference_update(self.log[mark:])
        del self.log[mark:]

    def use(self, e: Expr, loc: Loc) -> None:
        if type(e) is Var:
            self.use_var(e, loc)
        else:
            for v in vars_in(e):
                self.use_var(v, loc)

    def use_var(self, v: Var, loc: Loc) -> None:
        if v not in self.visible:
            what = "is used outside the block that defines it" if v in self.ever else "is used before it is defined"
            self.report.add("ssa", base_name(v.name), f"'{base_name(v.name)}' {what}", loc)

    def types(self, targets: tuple[Var, ...], loc: Loc) -> None:
        """Names inside a type (dynamic dimensions, valid rows) must be visible too."""
        for t in targets:
            for v in _dims(t.type):
                self.use_var(v, loc)

    # -- blocks --------------------------------------------------------------------------------------------------------------

    def inside(self, block: Block) -> None:
        """A block whose names are gone after it."""
        mark = len(self.log)
        self.block(block)
        self.leave(mark)

    def block(self, block: Block, at_top: bool = False) -> None:
        last = len(block) - 1
        for i, s in enumerate(block):
            if isinstance(s, (Yield, Return)) and i != last:
                self.report.add("structure", "", f"a {_word(s)} is the last statement of its block", s.loc)
            if isinstance(s, Return) and not at_top:
                self.report.add("structure", "", "a return stands at the end of the function, not inside a block", s.loc)
            if isinstance(s, Yield) and at_top:
                self.report.add("structure", "", "a yield ends a loop body or a branch, not a function", s.loc)
            self.statement(s, at_top)

    def statement(self, s: Stmt, at_top: bool) -> None:
        if isinstance(s, Assign):
            self.use(s.value, s.loc)
            self.assign(s)
        elif isinstance(s, For):
            self.loop(s)
        elif isinstance(s, If):
            self.branch(s)
        else:
            for e in expressions_of(s):
                self.use(e, s.loc)
            if isinstance(s, Scope):
                if s.name is not None:
                    self.define(s.name, s.loc)
                self.block(s.body, at_top)

    def assign(self, s: Assign) -> None:
        value = s.value
        if isinstance(value, Call):
            if value.op.startswith("self."):
                self.sibling(s, value)
            elif value.op in ("submit", "spmd_submit"):
                self.submission(s, value)
        self.types(s.targets, s.loc)
        for t in s.targets:
            self.define(t, s.loc)

    def loop(self, s: For) -> None:
        for e in (s.start, s.stop, s.step, *s.inits, *[v for _, v in (*s.attrs, *s.options)]):
            self.use(e, s.loc)
        if not len(s.inits) == len(s.carried) == len(s.results):
            counts = f"{len(s.inits)} initial values, {len(s.carried)} carried values, {len(s.results)} results"
            self.report.add("structure", "", f"a loop with {counts}; it needs one of each", s.loc)
        if s.kind is LoopKind.PIPELINE and (s.stage is None or s.stage < 1):
            self.report.add("structure", "", "a pipeline needs stage >= 1", s.loc)
        if (s.kind is LoopKind.WHILE) != (s.cond is not None):
            self.report.add("structure", "", "a while loop, and no other, has a condition", s.loc)
        self.agree("the initial value", s.inits, s.carried, s.loc)
        self.types(s.carried, s.loc)
        mark = len(self.log)
        for v in (*(() if s.counter is None else (s.counter,)), *s.carried):
            self.define(v, s.loc)
        if s.cond is not None:
            self.use(s.cond, s.loc)
        self.block(s.body)
        self.ends(s.body, s.carried, "the loop's body", s.loc)
        self.leave(mark)
        self.agree("the carried value", s.carried, s.results, s.loc)
        for v in s.results:
            self.define(v, s.loc)

    def branch(self, s: If) -> None:
        self.use(s.cond, s.loc)
        self.inside(s.then)
        if s.orelse is not None:
            self.inside(s.orelse)
        if s.results and s.orelse is None:
            self.report.add("structure", "", "a branch with results needs an else", s.loc)
        self.ends(s.then, s.results, "the first arm", s.loc)
        if s.orelse is not None:
            self.ends(s.orelse, s.results, "the second arm", s.loc)
        for v in s.results:
            self.define(v, s.loc)

    def ends(self, block: Block, receivers: tuple[Var, ...], what: str, loc: Loc) -> None:
        """A block whose values go to ``receivers`` must yield as many, of their types."""
        last = block[-1] if block else None
        values = last.values if isinstance(last, Yield) else ()
        if len(values) != len(receivers):
            place = last.loc if isinstance(last, Yield) else loc
            self.report.add("structure", "", f"{what} yields {len(values)} values where {len(receivers)} are wanted", place)
            return
        if isinstance(last, Yield):
            self.agree("the yielded value", values, receivers, last.loc)

    def agree(self, what: str, values: tuple[Expr, ...], receivers: tuple[Var, ...], loc: Loc) -> None:
        for value, receiver in zip(values, receivers, strict=False):
            problem = mismatch(receiver.type, type_of(value))
            if problem:
                self.report.add("type", what, f"{what} {shown(value)} of '{base_name(receiver.name)}': {problem}", loc)

    # -- returns and calls -----------------------------------------------------------------------------------------------------

    def returns(self) -> None:
        f = self.function
        last = f.body[-1] if f.body else None
        while isinstance(last, Scope) and last.body:
            last = last.body[-1]
        values = last.values if isinstance(last, Return) else ()
        if not f.returns:
            return
        if len(values) != len(f.returns):
            loc = last.loc if isinstance(last, Return) else f.loc
            self.report.add("structure", "", f"the function declares {len(f.returns)} results and returns {len(values)}", loc)
            return
        for value, t in zip(values, f.returns, strict=True):
            problem = mismatch(t, type_of(value))
            if problem:
                self.report.add("type", "return", f"the returned value {shown(value)}: {problem}", last.loc if last else f.loc)

    def sibling(self, s: Assign, call: Call) -> None:
        """A call of another function of the program; its outputs may be left out (the runtime allocates them)."""
        callee = self.siblings.get(call.op[5:])
        if callee is None:
            self.report.add("call", call.op, f"{call.op}: no such function in this program", s.loc)
            return
        given = len(call.args) + len(call.kwargs)
        if given > len(callee.params):
            self.report.add("call", call.op, f"{call.op} takes {len(callee.params)} arguments, {given} given", s.loc)
        if s.targets and callee.returns and len(s.targets) != len(callee.returns):
            self.report.add("call", call.op, f"{call.op} has {len(callee.returns)} results, {len(s.targets)} names", s.loc)
        if len(call.args) == len(callee.params):
            for value, p in zip(call.args, callee.params, strict=True):
                problem = None if _by_dims(p.var.type) else mismatch(p.var.type, type_of(value))
                if problem:
                    self.report.add(
                        "call", call.op, f"{call.op}: argument {shown(value)} for '{base_name(p.var.name)}': {problem}", s.loc
                    )

    def submission(self, s: Assign, call: Call) -> None:
        """``pl.submit(self.kernel, …)`` names a function of the program."""
        first = call.args[0] if call.args else None
        if isinstance(first, Symbol) and first.text.startswith("self.") and first.text[5:] not in self.siblings:
            self.report.add("call", call.op, f"{first.text}: no such function in this program", s.loc)


def _word(s: Yield | Return) -> str:
    return "yield" if isinstance(s, Yield) else "return"


def _by_dims(t: Type) -> bool:
    """Is the type written with names that mean something only in the callee?"""
    return isinstance(t, (TensorType, TileType)) and any(not isinstance(d, int) for d in t.shape)


_NONE: frozenset[Var] = frozenset()


def _dims(t: Type) -> set[Var] | frozenset[Var]:
    """The names that a type's shape or valid region mentions."""
    if isinstance(t, (ScalarType,)) or not isinstance(t, (TensorType, TileType)):
        return _NONE
    dims = t.shape
    if isinstance(t, TileType) and t.view.valid_shape is not None:
        dims = (*dims, *t.view.valid_shape)
    found = [d for d in dims if type(d) is not int]
    if not found:
        return _NONE
    return {v for d in found if not isinstance(d, (int, Symbol)) for v in vars_in(d)}
