"""Programs made in Python.

    b = ProgramBuilder("Demo")
    f = b.function("kernel")
    a, w = f.input("a", [128, 512], "bf16"), f.input("w", [512, 128], "bf16")
    out = f.output("out", [128, 128], "fp32")
    a_mat = f.tile.load(a, [0, 0], [128, 512], target_memory="Mat", name="a_mat")
    w_mat = f.tile.load(w, [0, 0], [512, 128], target_memory="Mat", name="w_mat")
    c = f.tile.matmul(a_mat, w_mat, name="c")
    f.returns(f.tile.store(c, [0, 0], out))
    program = b.build()

``f.tile.<op>`` and ``f.tensor.<op>`` offer the whole op table; results have inferred types, and operands that do not fit are
refused where they are given. What is built is in SSA form from the start: loops and branches state what they carry and yield.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cost.dtypes import DType, dtype
from ir_bridge.ir import ops
from ir_bridge.ir.build_blocks import BranchBuilder, BuildError, LoopBuilder
from ir_bridge.ir.nodes import (
    INDEX_SCALAR,
    ONE,
    ZERO,
    Assign,
    Call,
    Direction,
    Expr,
    For,
    Function,
    LoopKind,
    Param,
    Program,
    Return,
    Scope,
    Stmt,
    Symbol,
    Var,
)
from ir_bridge.ir.types import Dim, ScalarType, Space, TensorType, Type


def _space(value: object) -> object:
    """ "Mat" as the memory space it names."""
    if not isinstance(value, str):
        return value
    for s in Space:
        if s.value == value:
            return s
    raise BuildError(f"unknown memory space {value!r}; known: {', '.join(s.value for s in Space)}")


def _argument(key: str, value: object) -> object:
    if key in ("target_memory", "target_space"):
        return _space(value)
    return dtype(value) if key in ("dtype", "target_type", "out_dtype") and isinstance(value, str) else value


class ProgramBuilder:
    """Collects functions; ``build()`` makes the program."""

    def __init__(self, name: str = "Program") -> None:
        self.name = name
        self._functions: list[FunctionBuilder] = []
        self._dynamic: list[Var] = []

    def dynamic(self, name: str) -> Var:
        """A dimension that is known at run time only; usable in shapes."""
        var = Var(name, INDEX_SCALAR)
        self._dynamic.append(var)
        return var

    def function(
        self, name: str = "kernel", kind: str = "InCore", *, has_self: bool = True, **decorator: object
    ) -> FunctionBuilder:
        """A new function; ``decorator`` are further keywords of ``@pl.function``, as expressions or Python values."""
        options = tuple([(k, ops.as_expr(v)) for k, v in decorator.items()])
        made = FunctionBuilder(self, name, kind, options, has_self)
        self._functions.append(made)
        return made

    def find(self, name: str) -> FunctionBuilder:
        """The function called ``name``."""
        for f in self._functions:
            if f.name == name:
                return f
        raise BuildError(f"the program has no function {name!r}; it has {[f.name for f in self._functions]}")

    def build(self) -> Program:
        """The program as it stands."""
        return Program(self.name, tuple([f.build() for f in self._functions]), tuple(self._dynamic))


class _Operations:
    """``f.tile`` and ``f.tensor``: a method for each operation of a family."""

    def __init__(self, function: FunctionBuilder, family: str) -> None:
        self._function = function
        self._family = family

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = f"{self._family}.{name}"
        if name.startswith("_"):
            raise AttributeError(name)

        def emit(*args: Any, **kwargs: Any) -> Any:
            return self._function.op(op, *args, **kwargs)

        emit.__name__ = name
        return emit


class FunctionBuilder:
    """One function being built, statement by statement."""

    def __init__(
        self, program: ProgramBuilder, name: str, kind: str, decorator: tuple[tuple[str, Expr], ...], has_self: bool
    ) -> None:
        self.name = name
        self._program = program
        self._kind = kind
        self._decorator = decorator
        self._has_self = has_self
        self._params: list[Param] = []
        self.result_types: tuple[Type, ...] = ()
        self._blocks: list[list[Stmt]] = [[]]
        self.tile = _Operations(self, "tile")
        self.tensor = _Operations(self, "tensor")

    # -- parameters and results -----------------------------------------------------------------------------------------------

    def param(self, name: str, type: Type, direction: Direction = Direction.IN) -> Var:
        """A parameter of any type."""
        if any(p.var.name == name for p in self._params):
            raise BuildError(f"function {self.name!r} has a parameter {name!r} already")
        var = Var(name, type)
        self._params.append(Param(var, direction))
        return var

    def input(self, name: str, shape: Sequence[Dim], element: str | DType) -> Var:
        """A tensor that is read."""
        return self.param(name, TensorType(tuple(shape), dtype(element)))

    def output(self, name: str, shape: Sequence[Dim], element: str | DType) -> Var:
        """A tensor that is written (``pl.Out``)."""
        return self.param(name, TensorType(tuple(shape), dtype(element)), Direction.OUT)

    def inout(self, name: str, shape: Sequence[Dim], element: str | DType) -> Var:
        """A tensor that is read and written (``pl.InOut``)."""
        return self.param(name, TensorType(tuple(shape), dtype(element)), Direction.INOUT)

    def scalar(self, name: str, element: str | DType = "index") -> Var:
        """A scalar parameter."""
        return self.param(name, ScalarType(dtype(element)))

    def returns(self, *values: object) -> None:
        """``return values``; their types become the function's declared results."""
        exprs = tuple([ops.as_expr(v) for v in values])
        self.result_types = tuple([ops.type_of(e) for e in exprs])
        self._emit(Return(exprs))

    # -- statements -----------------------------------------------------------------------------------------------------------

    def _emit(self, s: Stmt) -> None:
        self._blocks[-1].append(s)

    def op(self, op: str, *args: object, name: str | None = None, type: Type | None = None, **kwargs: object) -> Any:
        """A call of an operation as a statement.

        Returns its result as a value called ``name``; a tuple of values when it has several; None when it is a bare effect.
        ``type`` states the result's type where the table does not infer it. Raises OpError for operands that do not fit.
        """
        call = ops.make(op, *args, **{k: _argument(k, v) for k, v in kwargs.items()})
        types = ops.result_types(call.op, call.args, call.kwargs)
        if type is not None and len(types) == 1:
            types = (ops.fill(type, types[0]),)
        return self._define(call, types, name or op.rpartition(".")[2])

    def call(self, function: str, *args: object, name: str | None = None) -> Any:
        """A call of another function of the program; its results as :meth:`op` gives them."""
        callee = self._program.find(function)
        call = Call(f"self.{function}", tuple([ops.as_expr(a) for a in args]))
        return self._define(call, callee.result_types, name or function)

    def let(self, value: object, name: str = "x", type: Type | None = None) -> Var:
        """``name = value`` for scalars and other expressions."""
        e = ops.as_expr(value)
        var = Var(name, ops.type_of(e) if type is None else type)
        self._emit(Assign((var,), e))
        return var

    def expr(self, text: str, **values: object) -> Expr:
        """An expression from text: ``f.expr("ko == 0 and k0 == 0", ko=ko, k0=k0)``."""
        return expr(text, **values)

    def _define(self, call: Call, types: tuple[Type, ...], name: str) -> Any:
        if not types:
            self._emit(Assign((), call))
            return None
        names = [name] if len(types) == 1 else [f"{name}_{i}" for i in range(len(types))]
        targets = tuple([Var(n, t) for n, t in zip(names, types, strict=True)])
        self._emit(Assign(targets, call))
        return targets[0] if len(targets) == 1 else targets

    @contextmanager
    def _block(self) -> Iterator[list[Stmt]]:
        """Statements made meanwhile go to a block of their own."""
        self._blocks.append([])
        try:
            yield self._blocks[-1]
        finally:
            self._blocks.pop()

    # -- loops ----------------------------------------------------------------------------------------------------------------

    def range(self, *bounds: object, **options: Any) -> Any:
        """``with f.range(stop)`` or ``(start, stop[, step])``; see :meth:`loop` for the keywords."""
        return self.loop(LoopKind.RANGE, *bounds, **options)

    def parallel(self, *bounds: object, **options: Any) -> Any:
        """As :meth:`range`, trips independent of each other."""
        return self.loop(LoopKind.PARALLEL, *bounds, **options)

    def unroll(self, *bounds: object, **options: Any) -> Any:
        """As :meth:`range`, unrolled by the compiler."""
        return self.loop(LoopKind.UNROLL, *bounds, **options)

    def pipeline(self, *bounds: object, stage: int = 2, **options: Any) -> Any:
        """As :meth:`range`, with ``stage`` trips overlapping."""
        return self.loop(LoopKind.PIPELINE, *bounds, stage=stage, **options)

    @contextmanager
    def loop(
        self,
        kind: LoopKind,
        *bounds: object,
        carry: Sequence[Expr] | Mapping[str, Expr] = (),
        name: str = "i",
        stage: int | None = None,
        attrs: Mapping[str, object] | None = None,
        **options: object,
    ) -> Iterator[LoopBuilder]:
        """A loop over ``bounds``; ``carry`` gives the first values of what it carries, by name or in order.

        Inside, ``loop.index`` is the counter, ``loop.carried`` the carried values, and ``loop.yields(...)`` hands on as many;
        after it, ``loop.result`` (or ``loop.results``) are the last ones.
        """
        if not 1 <= len(bounds) <= 3:
            raise BuildError(f"a loop takes (stop), (start, stop) or (start, stop, step), not {len(bounds)} bounds")
        given = [ops.as_expr(b) for b in bounds]
        start, stop, step = (ZERO, given[0], ONE) if len(given) == 1 else (*given, ONE)[:3]
        made = LoopBuilder(Var(name, INDEX_SCALAR), carry)
        with self._block() as body:
            yield made
            made.finish(body)
        self._emit(
            For(
                kind,
                made.index,
                start,
                stop,
                step,
                tuple(body),
                made.carried,
                made.inits,
                made.results,
                stage,
                tuple([(k, ops.as_expr(v)) for k, v in (attrs or {}).items()]),
                tuple([(k, ops.as_expr(v)) for k, v in options.items()]),
            )
        )

    @contextmanager
    def while_(self, condition: Callable[..., Expr], carry: Sequence[Expr] | Mapping[str, Expr]) -> Iterator[LoopBuilder]:
        """A loop that runs while ``condition(*carried)`` holds."""
        made = LoopBuilder(None, carry)
        with self._block() as body:
            yield made
            made.finish(body)
        cond = condition(*made.carried)
        self._emit(For(LoopKind.WHILE, None, ZERO, ZERO, ONE, tuple(body), made.carried, made.inits, made.results, cond=cond))

    # -- branches and scopes ---------------------------------------------------------------------------------------------

    @contextmanager
    def branch(self, condition: Expr) -> Iterator[BranchBuilder]:
        """A branch: ``with f.branch(cond) as b: with b.then(): ...; b.yields(x); with b.orelse(): ...``."""
        made = BranchBuilder(self._block)
        yield made
        self._emit(made.finish(condition))

    @contextmanager
    def scope(self, header: str, **values: object) -> Iterator[None]:
        """``with header:``, the header as text."""
        with self._block() as body:
            yield
        self._emit(Scope(expr(header, **values), tuple(body)))

    def build(self) -> Function:
        """The function as it stands."""
        if len(self._blocks) != 1:
            raise BuildError(f"function {self.name!r} is built inside of one of its own loops or branches")
        return Function(
            self.name, tuple(self._params), tuple(self._blocks[0]), self.result_types, self._kind, self._decorator, self._has_self
        )


def expr(text: str, **values: object) -> Expr:
    """An expression of the language from its text, names standing for ``values``. Raises ParseError."""
    from ir_bridge.ir.parser import parse_expr

    return parse_expr(text, {k: ops.as_expr(v) for k, v in values.items()})


def symbol(text: str) -> Symbol:
    """A dotted name of the language: ``symbol("pl.Role.SubWorker")``."""
    return Symbol(text)


__all__ = ["BuildError", "FunctionBuilder", "LoopBuilder", "ProgramBuilder", "expr", "symbol"]
