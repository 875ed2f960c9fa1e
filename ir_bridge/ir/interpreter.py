"""The reference interpreter: what a program computes, in numpy.

It knows nothing of tiling: loops run in order, tiles are values, tensors are arrays that stores write into. Every program tilesat
writes is checked against it. Functions are compiled to closures once and run many times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cost.errors import TilesatError
from ir_bridge.ir.interpreter_errors import ExecuteError, at
from ir_bridge.ir.interpreter_exprs import Env, Getter, compile_expr, compile_sibling
from ir_bridge.ir.interpreter_inputs import bind_dims, check_arguments, entry, outputs, placed
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    Assign,
    Block,
    Call,
    Const,
    DictExpr,
    Expr,
    For,
    Function,
    If,
    ListExpr,
    Loc,
    LoopKind,
    Pass,
    Program,
    Return,
    Scope,
    Stmt,
    Symbol,
    Var,
    Yield,
    walk,
)
from ir_bridge.ir.ops import type_of
from ir_bridge.ir.semantics_tensor_math import as_array, joined, shard
from ir_bridge.ir.semantics_values import SemanticsError, Tile
from ir_bridge.ir.types import TensorType, TileType

__all__ = ["ExecuteError", "execute"]


def execute(program: Program, function: str | None = None, **arrays: Any) -> dict[str, Any]:
    """Run a function of ``program`` on numpy arrays and return what it computed, by name.

    ``function``: which one; by default the one no other function calls (an Orchestration function first). ``arrays``: one a
    parameter, by its name (SSA suffixes may be left out); a parameter that is only written (``pl.Out``) may be left out and
    then starts unwritten (-1009 everywhere). Arrays are converted to the parameter's element type, never modified.

    Returned are the ``Out`` and ``InOut`` parameters by name, and the function's results as "return" (or "return_0",
    "return_1", … of several). Raises :class:`ExecuteError` for missing or misshapen arrays, and for statements without
    reference semantics, naming them and their place.
    """
    main = entry(program, function)
    interpreter = _Interpreter(program)
    values = check_arguments(main, arrays)
    results = interpreter.run(main, values)
    return outputs(main, values, results)


class _Returned:
    """What a ``return`` hands up through the blocks."""

    __slots__ = ("values",)

    def __init__(self, values: list[Any]) -> None:
        self.values = values


#: A statement: None to go on, a list of yielded values, or a _Returned.
Step = Callable[[Env], Any]
_FAILURES = (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, AttributeError, KeyError)


class _Interpreter:
    """Compiles the functions of one program on demand and runs them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.compiled: dict[str, Step] = {}
        self.block, self.blocks = 0, 1
        self.depth = 0

    # -- functions ---------------------------------------------------------------------------------------------------------

    def call(self, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Run the sibling function ``name``; arguments left out at the call are its output tensors."""
        try:
            function = self.program.function(name)
        except KeyError:
            known = ", ".join(f.name for f in self.program.functions)
            raise SemanticsError(f"self.{name}: no such function in this program; it has {known}") from None
        return self.run(function, placed(function, args, kwargs))

    def run(self, function: Function, args: list[Any]) -> list[Any]:
        """Run a function on argument values; an Spmd function once for each of its cores."""
        if self.depth > 50:
            raise SemanticsError(f"self.{function.name}: functions call each other more than 50 deep")
        cores = core_count(function) if function.kind == "Spmd" else 1
        return self.run_on(function, args, cores)

    def run_on(self, function: Function, args: list[Any], cores: int) -> list[Any]:
        body = self.compiled.get(function.name)
        if body is None:
            body = self.compiled[function.name] = _Compiler(self, function.name).block(function.body)
        outer = self.block, self.blocks
        self.depth += 1
        result: Any = None
        for core in range(cores):
            if cores > 1:
                self.block, self.blocks = core, cores
            env = bind_dims(function, args)
            for p, value in zip(function.params, args, strict=True):
                env[p.var] = as_array(value) if isinstance(p.var.type, TensorType) else value
            result = body(env)
        self.depth -= 1
        self.block, self.blocks = outer
        return result.values if isinstance(result, _Returned) else []


def core_count(function: Function) -> int:
    """The ``core_num`` of an Spmd function, from its attributes; 1 when it says nothing."""
    groups = [v for _, v in function.decorator]
    for s in walk(function.body):
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "func_attr":
            groups.extend(s.value.args)
    entries = [entry for group in groups if isinstance(group, DictExpr) for entry in group.items]
    for key, value in entries:
        if key == Const("core_num") and isinstance(value, Const) and isinstance(value.value, int):
            return value.value
    return 1


class _Compiler:
    """Statements of one function as closures."""

    def __init__(self, machine: _Interpreter, function: str) -> None:
        self.machine = machine
        self.function = base_name(function)

    def expr(self, e: Expr, loc: Loc) -> Getter:
        try:
            return compile_expr(e, self.machine)
        except TilesatError as error:
            raise at(self.function, loc, error) from error

    def guarded(self, get: Getter, loc: Loc) -> Getter:
        """``get`` with the place added to whatever goes wrong in it."""
        function = self.function

        def run(env: Env) -> Any:
            try:
                return get(env)
            except ExecuteError:
                raise
            except (TilesatError, *_FAILURES) as error:
                raise at(function, loc, error) from error

        return run

    def block(self, block: Block) -> Step:
        steps = [self.statement(s) for s in block if not isinstance(s, Pass)]

        def run(env: Env) -> Any:
            for step in steps:
                result = step(env)
                if result is not None:
                    return result
            return None

        return run

    def statement(self, s: Stmt) -> Step:
        if isinstance(s, Assign):
            return self.assign(s)
        if isinstance(s, For):
            return self.while_loop(s) if s.kind is LoopKind.WHILE else self.for_loop(s)
        if isinstance(s, If):
            return self.branch(s)
        if isinstance(s, Scope):
            if isinstance(s.header, Call) and s.header.op == "split_aiv":
                return self.split_region(s, s.header)
            return self.block(s.body)
        assert isinstance(s, (Yield, Return))
        values = self.values(s.values, s.loc)
        if isinstance(s, Yield):
            return values
        in_memory = [isinstance(type_of(e), TensorType) for e in s.values]
        return lambda env: _Returned([as_array(v) if m else v for v, m in zip(values(env), in_memory, strict=True)])

    def values(self, exprs: tuple[Expr, ...], loc: Loc) -> Callable[[Env], list[Any]]:
        getters = [self.expr(e, loc) for e in exprs]
        return self.guarded(lambda env: [g(env) for g in getters], loc)

    # -- assignments -------------------------------------------------------------------------------------------------------

    def assign(self, s: Assign) -> Step:
        if isinstance(s.value, Call) and s.value.op in ("submit", "spmd_submit"):
            return self.unpack(s.targets, self.submission(s, s.value), s.loc)
        value = self.guarded(self.expr(s.value, s.loc), s.loc)
        if len(s.targets) != 1:
            return self.unpack(s.targets, lambda env: _as_list(value(env)), s.loc)
        target = s.target
        if _flattens(s):
            loaded = value
            value = lambda env: _as_matrix(loaded(env))  # noqa: E731

        def run(env: Env) -> None:
            env[target] = value(env)

        return run

    def unpack(self, targets: tuple[Var, ...], value: Callable[[Env], list[Any]], loc: Loc) -> Step:
        def run(env: Env) -> None:
            results = value(env)
            if targets and len(results) != len(targets):
                raise at(self.function, loc, f"{len(targets)} names for {len(results)} results")
            env.update(zip(targets, results, strict=False))

        return run

    def submission(self, s: Assign, call: Call) -> Callable[[Env], list[Any]]:
        """``pl.submit(self.kernel, …)``: the call, done at once; the task id, where one is asked for, is 0."""
        first = call.args[0] if call.args else None
        if not isinstance(first, Symbol) or not first.text.startswith("self."):
            raise at(self.function, s.loc, f"{call.op}: the first argument must be a function of the program, as self.kernel")
        callee = self.machine.program.function(first.text[5:])
        keywords = dict(call.kwargs)
        cores = keywords.get("core_num", Const(1))
        names = {base_name(p.var.name) for p in callee.params}
        passed = tuple([(k, v) for k, v in call.kwargs if base_name(k) in names])
        run = compile_sibling(callee.name, call.args[1:], passed, self.machine)
        count = self.expr(cores, s.loc)
        wanted = len(s.targets)

        def submit(env: Env) -> list[Any]:
            machine = self.machine
            results: list[Any] = []
            total = int(count(env))
            outer = machine.block, machine.blocks
            for core in range(total):
                machine.block, machine.blocks = core, total
                results = run(env)
            machine.block, machine.blocks = outer
            return results if wanted <= len(results) else [*results, 0]

        return self.guarded(submit, s.loc)

    # -- control flow ------------------------------------------------------------------------------------------------------

    def split_region(self, s: Scope, header: Call) -> Step:
        """``for lane in pl.split_aiv(n)``: lanes in step, statement by statement, which trade halves at the boundary."""
        lanes = self.expr(header.args[0], s.loc)
        steps = [self.lane_step(inner) for inner in s.body if not isinstance(inner, Pass)]
        name = s.name

        def run(env: Env) -> None:
            envs = [dict(env) for _ in range(int(lanes(env)))]
            for lane, mine in enumerate(envs):
                if name is not None:
                    mine[name] = lane
            for step in steps:
                step(envs)
            env.update(envs[0])

        return run

    def lane_step(self, s: Stmt) -> Callable[[list[Env]], None]:
        """One statement of a split region, for all lanes."""
        call = s.value if isinstance(s, Assign) and isinstance(s.value, Call) and len(s.targets) == 1 else None
        if call is not None and isinstance(s, Assign) and call.op.endswith((".aiv_shard", ".aic_gather")):
            split = call.kwarg("split")
            axis = split.value if isinstance(split, Const) and isinstance(split.value, int) else 1
            value, target = self.guarded(self.expr(call.args[0], s.loc), s.loc), s.target
            if call.op.endswith(".aiv_shard"):

                def sharded(envs: list[Env]) -> None:
                    for lane, env in enumerate(envs):
                        env[target] = shard(value(env), lane, axis)

                return sharded

            def gathered(envs: list[Env]) -> None:
                whole = joined([value(env) for env in envs], axis)
                for env in envs:
                    env[target] = whole

            return gathered
        step = self.statement(s)

        def each(envs: list[Env]) -> None:
            for env in envs:
                step(env)

        return each

    def for_loop(self, s: For) -> Step:
        bounds = self.values((s.start, s.stop, s.step), s.loc)
        inits = self.values(s.inits, s.loc)
        body = self.block(s.body)
        counter, carried, results = s.counter, s.carried, s.results

        def run(env: Env) -> Any:
            start, stop, step = bounds(env)
            if step == 0:
                raise at(self.function, s.loc, "a loop with step 0 never ends")
            values = inits(env)
            for i in range(start, stop, step):
                if counter is not None:
                    env[counter] = i
                if carried:
                    env.update(zip(carried, values, strict=True))
                given = body(env)
                if given is not None:
                    if type(given) is _Returned:
                        return given
                    values = given
            env.update(zip(results, values, strict=True))
            return None

        return run

    def while_loop(self, s: For) -> Step:
        if s.cond is None:
            raise at(self.function, s.loc, "a while loop needs a condition: pl.cond(...)")
        cond = self.guarded(self.expr(s.cond, s.loc), s.loc)
        inits = self.values(s.inits, s.loc)
        body = self.block(s.body)
        carried, results = s.carried, s.results

        def run(env: Env) -> Any:
            values = inits(env)
            while True:
                env.update(zip(carried, values, strict=True))
                if not cond(env):
                    break
                given = body(env)
                if given is not None:
                    if type(given) is _Returned:
                        return given
                    values = given
            env.update(zip(results, values, strict=True))
            return None

        return run

    def branch(self, s: If) -> Step:
        cond = self.guarded(self.expr(s.cond, s.loc), s.loc)
        then = self.block(s.then)
        orelse = self.block(s.orelse) if s.orelse is not None else None
        results = s.results

        def run(env: Env) -> Any:
            taken = then if cond(env) else orelse
            given = taken(env) if taken is not None else None
            if type(given) is _Returned:
                return given
            if results:
                env.update(zip(results, given or [], strict=True))
            return None

        return run


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, tuple) else [value]


def _flattens(s: Assign) -> bool:
    """Is this a load of an N-D window that the program declares as the 2-D tile it is flattened to?"""
    if not isinstance(s.value, Call) or s.value.op != "tile.load" or len(s.value.args) < 3:
        return False
    declared, shape = s.target.type, s.value.args[2]
    return isinstance(declared, TileType) and isinstance(shape, ListExpr) and len(declared.shape) == 2 < len(shape.items)


def _as_matrix(tile: Tile) -> Tile:
    """A tile of any rank as rows × last axis; its valid rows must lie together."""
    *rows, cols = tile.data.shape
    *valid_rows, valid_cols = tile.valid
    if tuple(valid_rows[1:]) != tuple(rows[1:]) and valid_rows[0] != 1:
        raise SemanticsError(f"tile.load: the valid part {list(tile.valid)} of {list(tile.data.shape)} is no block of rows")
    valid = (int(np.prod(valid_rows)), valid_cols)
    return Tile(tile.data.reshape(int(np.prod(rows)), cols), valid, tile.dtype)
