"""Nodes of the structured loop IR: immutable, typed, in SSA form.

A :class:`Var` is one definition and is compared by identity; its name is only what it prints as. Everything else is a
frozen record. Two programs are equal (``==``) when they are the same up to SSA names and source locations
(:mod:`ir_bridge.ir.equality`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union

from cost.dtypes import INDEX, DType
from ir_bridge.ir.types import UNKNOWN, ScalarType, Type


@dataclass(frozen=True, slots=True)
class Loc:
    """A place in the source text; line 0 means "made by tilesat"."""

    line: int = 0
    col: int = 0
    file: str = "<string>"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}" if self.line else "<made by tilesat>"


NOWHERE = Loc()

# -- expressions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """One SSA definition: a parameter, an assigned value, a loop counter, a carried value, a module-level name."""

    name: str
    type: Type = UNKNOWN


@dataclass(frozen=True, slots=True)
class Const:
    """A literal: int, float, bool, str or None. ``dtype`` None prints bare; else as ``pl.const(value, dtype)``."""

    value: int | float | bool | str | None
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A dotted name of the language that is not a value: ``pl.BF16``, ``pl.Mem.Mat``, ``self.kernel``."""

    text: str


@dataclass(frozen=True, slots=True)
class ListExpr:
    """``[a, b]``, or ``(a, b)`` when ``is_tuple``: offsets, shapes, argument groups."""

    items: tuple[Expr, ...]
    is_tuple: bool = False


@dataclass(frozen=True, slots=True)
class Binary:
    """``left op right``; op is Python's text: + - * // % / << >> & | ^, comparisons, ``and``, ``or``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    """``op operand``; op is ``-``, ``+``, ``~`` or ``not``."""

    op: str
    operand: Expr


#: Ends the name of an operation whose call the table's signature refuses: to everyone but the printer it is unknown.
AS_WRITTEN = "?"


@dataclass(frozen=True, slots=True)
class Call:
    """An operation or a call.

    ``op`` is the full dotted name without the leading ``pl.``: "tile.matmul", "tensor.read", "min", "const", "submit";
    a call of a sibling function is "self.name". Operations of the op table hold their arguments in canonical form
    (:func:`ir_bridge.ir.ops.canonical`): value operands and the table's other positional arguments in ``args``, the rest
    in ``kwargs`` in the table's order, defaults left out. Other calls hold them as written; so does a call of a vector
    operation in a form that the table refuses, which goes by a name of its own, "tile.scatter?" (see :data:`AS_WRITTEN`).
    ``attrs`` is the trailing ``attrs={...}``.
    """

    op: str
    args: tuple[Expr, ...] = ()
    kwargs: tuple[tuple[str, Expr], ...] = ()
    attrs: tuple[tuple[str, Expr], ...] = ()

    def kwarg(self, name: str) -> Expr | None:
        for key, value in self.kwargs:
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Index:
    """``base[index]``: subscripts and slices, as written (``Call("slice", …)`` for ``a:b``)."""

    base: Expr
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class DictExpr:
    """``{"key": value}`` inside a call tilesat only carries along."""

    items: tuple[tuple[Expr, Expr], ...]


Expr = Union[Var, Const, Symbol, ListExpr, Binary, Unary, Call, Index, DictExpr]

# -- statements ----------------------------------------------------------------------------------------------------


class LoopKind(enum.Enum):
    """PyPTO's loops, ``pl.<value>``."""

    RANGE = "range"
    PARALLEL = "parallel"
    UNROLL = "unroll"
    PIPELINE = "pipeline"
    SPMD = "spmd"
    SPLIT_AIV = "split_aiv"
    WHILE = "while_"


@dataclass(frozen=True, slots=True)
class Assign:
    """``targets = value``: no target for a bare statement, several for ``a, b = self.f(x)``.

    ``annotated`` says whether the type was written; a printed program always writes it for one target.
    """

    targets: tuple[Var, ...]
    value: Expr
    loc: Loc = NOWHERE

    @property
    def target(self) -> Var:
        """The one target; only for statements that have exactly one."""
        (one,) = self.targets
        return one


@dataclass(frozen=True, slots=True)
class For:
    """A loop. ``carried`` are its iter-args (bound anew each trip), ``inits`` their first values, ``results`` what the
    loop defines outside; the body then ends with a :class:`Yield` of as many values.

    A ``while_`` loop has ``cond`` and no counter. ``stage`` is given for pipelines only.
    """

    kind: LoopKind
    counter: Var | None
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    carried: tuple[Var, ...] = ()
    inits: tuple[Expr, ...] = ()
    results: tuple[Var, ...] = ()
    stage: int | None = None
    attrs: tuple[tuple[str, Expr], ...] = ()
    options: tuple[tuple[str, Expr], ...] = ()  # other keywords of the loop call, as written
    cond: Expr | None = None
    loc: Loc = NOWHERE


@dataclass(frozen=True, slots=True)
class If:
    """A branch; with ``results`` both arms end with a :class:`Yield`. ``orelse`` None: there was no else."""

    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] | None = None
    results: tuple[Var, ...] = ()
    loc: Loc = NOWHERE


@dataclass(frozen=True, slots=True)
class Scope:
    """``with header [as name]:`` blocks; names defined inside are visible after it."""

    header: Expr
    body: tuple[Stmt, ...]
    name: Var | None = None
    loc: Loc = NOWHERE


@dataclass(frozen=True, slots=True)
class Yield:
    """The values a loop body or an arm hands on; only as its last statement."""

    values: tuple[Expr, ...]
    loc: Loc = NOWHERE


@dataclass(frozen=True, slots=True)
class Return:
    values: tuple[Expr, ...] = ()
    loc: Loc = NOWHERE


@dataclass(frozen=True, slots=True)
class Pass:
    loc: Loc = NOWHERE


Stmt = Union[Assign, For, If, Scope, Yield, Return, Pass]
Block = tuple[Stmt, ...]

# -- functions -----------------------------------------------------------------------------------------------------


class Direction(enum.Enum):
    IN = "In"
    OUT = "Out"
    INOUT = "InOut"


@dataclass(frozen=True, slots=True)
class Param:
    var: Var
    direction: Direction = Direction.IN
    default: Expr | None = None


#: Function kinds whose bodies are tile programs; the others are carried along untouched.
CORE_KINDS = frozenset({"InCore", "AIC", "AIV"})


@dataclass(frozen=True, slots=True)
class Function:
    """A function: ``kind`` is PyPTO's FunctionType ("InCore", "Opaque", …), ``decorator`` the other decorator keywords in order
    (level, role, …), ``has_self`` whether the text had a ``self`` parameter, ``returns`` the declared result types."""

    name: str
    params: tuple[Param, ...]
    body: Block
    returns: tuple[Type, ...] = ()
    kind: str = "Opaque"
    decorator: tuple[tuple[str, Expr], ...] = ()
    has_self: bool = True
    doc: str | None = None
    loc: Loc = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A module: one program class, its functions in order, and module-level dynamic dimensions.

    ``dynamic`` maps each ``N = pl.dynamic("N")`` name to its Var. ``preamble`` holds other module-level lines before the class
    verbatim, ``epilogue`` those after it.
    """

    name: str
    functions: tuple[Function, ...]
    dynamic: tuple[Var, ...] = ()
    preamble: tuple[str, ...] = ()
    file: str = field(default="<string>")
    epilogue: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Program):
            return NotImplemented
        from ir_bridge.ir.equality import same

        return same(self, other)

    def __hash__(self) -> int:
        from ir_bridge.ir.names import base_name

        return hash((base_name(self.name), tuple(base_name(f.name) for f in self.functions)))

    def __str__(self) -> str:
        from ir_bridge.ir.printer import print_program

        return print_program(self)

    def function(self, name: str) -> Function:
        """The function called ``name``; KeyError when there is none."""
        for f in self.functions:
            if f.name == name:
                return f
        raise KeyError(name)


# -- small makers, used everywhere -----------------------------------------------------------------------------------

ZERO = Const(0)
ONE = Const(1)
INDEX_SCALAR = ScalarType(INDEX)


def walk(block: Block) -> Iterator[Stmt]:
    """Every statement of a block, outer before inner, in program order."""
    for s in block:
        yield s
        for inner in blocks_of(s):
            yield from walk(inner)


def blocks_of(s: Stmt) -> tuple[Block, ...]:
    """The blocks directly inside a statement."""
    if isinstance(s, (For, Scope)):
        return (s.body,)
    if isinstance(s, If):
        return (s.then,) if s.orelse is None else (s.then, s.orelse)
    return ()


def defined(s: Stmt) -> tuple[Var, ...]:
    """The values a statement defines for the statements after it in its block."""
    if isinstance(s, Assign):
        return s.targets
    if isinstance(s, (For, If)):
        return s.results
    return ()


def subexpressions(e: Expr) -> Iterator[Expr]:
    """The expression and everything inside it, outer first."""
    yield e
    if isinstance(e, Call):
        for a in e.args:
            yield from subexpressions(a)
        for _, v in e.kwargs:
            yield from subexpressions(v)
        for _, v in e.attrs:
            yield from subexpressions(v)
    elif isinstance(e, ListExpr):
        for a in e.items:
            yield from subexpressions(a)
    elif isinstance(e, Binary):
        yield from subexpressions(e.left)
        yield from subexpressions(e.right)
    elif isinstance(e, Unary):
        yield from subexpressions(e.operand)
    elif isinstance(e, Index):
        yield from subexpressions(e.base)
        for a in e.index:
            yield from subexpressions(a)
    elif isinstance(e, DictExpr):
        for k, v in e.items:
            yield from subexpressions(k)
            yield from subexpressions(v)


def expressions_of(s: Stmt) -> Iterator[Expr]:
    """The expressions written directly in a statement (not those in its inner blocks)."""
    if isinstance(s, Assign):
        yield s.value
    elif isinstance(s, For):
        yield from (s.start, s.stop, s.step)
        yield from s.inits
        for _, v in (*s.attrs, *s.options):
            yield v
        if s.cond is not None:
            yield s.cond
    elif isinstance(s, If):
        yield s.cond
    elif isinstance(s, Scope):
        yield s.header
    elif isinstance(s, (Yield, Return)):
        yield from s.values


def vars_in(e: Expr) -> Iterator[Var]:
    """Every use of a value inside an expression, with repeats."""
    for x in subexpressions(e):
        if isinstance(x, Var):
            yield x
