"""Arrays in and out of the interpreter: which function runs, what its parameters are, dynamic dimensions, random inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cost.dtypes import DType
from cost.errors import suggestion
from ir_bridge.ir.interpreter_errors import ExecuteError
from ir_bridge.ir.interpreter_exprs import Env, compile_expr
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import Call, Const, Direction, Expr, Function, Param, Program, Var, expressions_of, subexpressions, walk
from ir_bridge.ir.semantics_values import Array, SemanticsError, Tile, numpy_dtype, unwritten
from ir_bridge.ir.types import Dim, ScalarType, TensorType, TileType

#: Extent that random inputs give a dynamic dimension nobody fixed.
DEFAULT_EXTENT = 64
#: No dimension of an array is larger.
LARGEST_DIMENSION = (1 << 31) - 1


def entry(program: Program, name: str | None) -> Function:
    """The function to run: the named one, else the one that no other calls, Orchestration first."""
    if not program.functions:
        raise ExecuteError("the program has no functions")
    if name is not None:
        for f in program.functions:
            if f.name == name:
                return f
        raise ExecuteError(f"no function {name!r}; the program has {', '.join(f.name for f in program.functions)}")
    called = {name for f in program.functions for name in _callees(f)}
    roots = [f for f in program.functions if f.name not in called] or list(program.functions)
    chosen = [f for f in roots if f.kind == "Orchestration"] or roots
    if len(chosen) > 1:
        raise ExecuteError(f"which function? Name one of {', '.join(f.name for f in chosen)} (function=...)")
    return chosen[0]


def _callees(f: Function) -> set[str]:
    """Names of the siblings a function mentions."""
    found: set[str] = set()
    for s in walk(f.body):
        for e in expressions_of(s):
            for x in subexpressions(e):
                text = x.op if isinstance(x, Call) else getattr(x, "text", "")
                if text.startswith("self."):
                    found.add(text[5:])
    return found


# -- arguments -----------------------------------------------------------------------------------------------------------------


def check_arguments(function: Function, given: Mapping[str, Any]) -> list[Any]:
    """The values of a function's parameters from arrays by name; ExecuteError names what is missing, unknown or misshapen."""
    by_name = _match_names(function, given)
    env: Env = {}
    values: dict[int, Any] = {}
    for i, p in enumerate(function.params):
        if i in by_name:
            values[i] = _argument(p, by_name[i])
            _bind(p, values[i], env)
    for i, p in enumerate(function.params):
        if i not in values:
            values[i] = _left_out(function, p, env)
    for i, p in enumerate(function.params):
        _check_shape(p, values[i], env)
    return [values[i] for i in range(len(function.params))]


def _match_names(function: Function, given: Mapping[str, Any]) -> dict[int, Any]:
    """Given values by the position of their parameter; SSA suffixes on either side do not matter."""
    positions = {base_name(p.var.name): i for i, p in enumerate(function.params)}
    found: dict[int, Any] = {}
    for key, value in given.items():
        i = positions.get(base_name(key))
        if i is None:
            raise ExecuteError(f"{function.name} has no parameter {key!r}; it has {', '.join(positions)}")
        found[i] = value
    return found


def _argument(p: Param, value: Any) -> Any:
    """One argument as the interpreter holds it, converted to the parameter's element type; never the caller's own array."""
    name, t = base_name(p.var.name), p.var.type
    if isinstance(t, ScalarType):
        array = np.asarray(value)
        if array.ndim:
            raise ExecuteError(f"{name} is a scalar of {t.dtype.name}, given an array of shape {list(array.shape)}")
        return array.item() if array.dtype.kind in "biuf" else float(array)
    if isinstance(t, TensorType):
        return _converted(name, value, t.dtype)
    if isinstance(t, TileType):
        data = _converted(name, value, t.dtype)
        return Tile(data, data.shape, t.dtype)
    return value


def _converted(name: str, value: Any, dtype: DType) -> Array:
    array = np.asarray(value)
    try:
        held = numpy_dtype(dtype)
    except SemanticsError as e:
        raise ExecuteError(f"{name}: {e}") from e
    if array.dtype == held:
        return array.copy()
    if array.dtype.kind in "OSUMmc":
        raise ExecuteError(f"{name} must hold numbers of {dtype.name}, not {array.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(held)
    if not dtype.is_float and not np.array_equal(result.astype(np.float64), array.astype(np.float64)):
        raise ExecuteError(f"{name}: its {array.dtype} values do not all fit {dtype.name}; convert them first")
    return result


def _left_out(function: Function, p: Param, env: Env) -> Any:
    """The value of a parameter nobody gave: unwritten memory for an output tensor, its default, or an error."""
    t = p.var.type
    if p.direction is Direction.OUT and isinstance(t, TensorType):
        return unwritten(_extents(p, t.shape, env), t.dtype)
    if isinstance(p.default, Const):
        return p.default.value
    name = base_name(p.var.name)
    raise ExecuteError(f"{function.name}: no array for parameter {name!r}; pass {name}= ({_wanted(p)})")


def _wanted(p: Param) -> str:
    t = p.var.type
    if isinstance(t, (TensorType, TileType)):
        shape = ", ".join(str(d) if isinstance(d, int) else getattr(d, "name", "?") for d in t.shape)
        return f"shape [{shape}], {t.dtype.name}"
    return f"a scalar of {t.dtype.name}" if isinstance(t, ScalarType) else "of unknown type"


def _extents(p: Param, shape: tuple[Dim, ...], env: Env) -> tuple[int, ...]:
    return tuple([_extent(p, d, env) for d in shape])


def _extent(p: Param, d: Dim, env: Env) -> int:
    if isinstance(d, int):
        return d
    value = _known(d, env)
    if value is None:
        raise ExecuteError(f"{base_name(p.var.name)}: a dynamic dimension is not known from the other arrays; pass this one too")
    return value


class _NoMachine:
    """Dimensions call nothing."""

    block, blocks = 0, 1

    def call(self, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        raise SemanticsError(f"self.{name} in a dimension")


def _known(d: Expr, env: Env) -> int | None:
    """The value of a dimension, if everything in it is bound."""
    if isinstance(d, Var):
        value = env.get(d)
        return None if value is None else int(value)
    try:
        return int(compile_expr(d, _NoMachine())(env))
    except SemanticsError:
        return None


# -- dynamic dimensions ----------------------------------------------------------------------------------------------------------


def _bind(p: Param, value: Any, env: Env) -> None:
    """Bind the dynamic dimensions that a parameter's value shows, and a scalar parameter itself."""
    t = p.var.type
    env[p.var] = value
    if not isinstance(t, (TensorType, TileType)):
        return
    shape = value.data.shape if isinstance(value, Tile) else value.shape
    for d, n in zip(t.shape, shape, strict=False):
        if isinstance(d, Var) and env.setdefault(d, n) != n:
            raise ExecuteError(f"{base_name(p.var.name)}: dimension {d.name} is {n} here and {env[d]} in an earlier array")


def _check_shape(p: Param, value: Any, env: Env) -> None:
    t = p.var.type
    if not isinstance(t, (TensorType, TileType)):
        return
    shape = value.data.shape if isinstance(value, Tile) else value.shape
    wanted = [d if isinstance(d, int) else _known(d, env) for d in t.shape]
    if len(wanted) != len(shape) or any(w is not None and w != n for w, n in zip(wanted, shape, strict=True)):
        raise ExecuteError(f"{base_name(p.var.name)} has shape {list(shape)}, the parameter {_wanted(p)}")


def bind_dims(function: Function, args: list[Any]) -> Env:
    """A fresh environment of a function with its parameters' dynamic dimensions bound."""
    env: Env = {}
    for p, value in zip(function.params, args, strict=True):
        t = p.var.type
        if isinstance(t, TensorType) and isinstance(value, np.ndarray):
            for d, n in zip(t.shape, value.shape, strict=False):
                if isinstance(d, Var):
                    env.setdefault(d, n)
    return env


def placed(function: Function, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of a call in the order of the callee's parameters.

    A call may leave out the callee's output tensors (the runtime allocates them); they start unwritten.
    """
    params = function.params
    if len(args) == len(params) and not kwargs:
        return args
    values: dict[int, Any] = {}
    names = {base_name(p.var.name): i for i, p in enumerate(params)}
    for key, value in kwargs.items():
        if base_name(key) not in names:
            raise SemanticsError(f"self.{function.name} has no parameter {key!r}")
        values[names[base_name(key)]] = value
    free = [i for i in range(len(params)) if i not in values]
    if len(args) < len(free):
        inputs = [i for i in free if params[i].direction is not Direction.OUT]
        free = inputs if len(args) == len(inputs) else free[: len(args)]
    if len(args) > len(free):
        raise SemanticsError(f"self.{function.name} takes {len(params)} arguments, {len(args) + len(kwargs)} given")
    values.update(zip(free, args, strict=True))
    env: Env = {}
    for i, value in values.items():
        _bind(params[i], value, env)
    return [values[i] if i in values else _left_out(function, p, env) for i, p in enumerate(params)]


# -- results ---------------------------------------------------------------------------------------------------------------------


def outputs(function: Function, values: list[Any], results: list[Any]) -> dict[str, Any]:
    """Written parameters by name, then the returned values."""
    found: dict[str, Any] = {}
    for p, value in zip(function.params, values, strict=True):
        if p.direction is not Direction.IN:
            found[base_name(p.var.name)] = _as_array(value)
    for i, value in enumerate(results):
        found["return" if len(results) == 1 else f"return_{i}"] = _as_array(value)
    return found


def _as_array(value: Any) -> Any:
    return value.region if isinstance(value, Tile) else value


# -- random inputs ----------------------------------------------------------------------------------------------------


def random_inputs(
    program: Program,
    seed: int = 0,
    integer: bool = True,
    function: str | None = None,
    dims: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Arrays for every parameter of the function :func:`execute` would run, from a seed.

    With ``integer`` (the default) all values are whole numbers from -2 to 2, small enough that products over a few thousand
    terms are exact in float32; else floats are standard normal. Output tensors get values too, so that what a program leaves
    unwritten shows. ``dims`` gives dynamic dimensions by name; others are 64. Scalars are small non-negative numbers.

    Raises :class:`ExecuteError` for a name in ``dims`` that is no dynamic dimension, and a value that is no extent.
    """
    main = entry(program, function)
    rng = np.random.default_rng(seed)
    free = _free_dims(main)
    _check_dims(dims or {}, main, [base_name(d.name) for d in free])
    env: Env = {d: (dims or {}).get(base_name(d.name), DEFAULT_EXTENT) for d in free}
    found: dict[str, Any] = {}
    for p in main.params:
        t = p.var.type
        if isinstance(t, ScalarType):
            value = int(rng.integers(0, 2))
            found[base_name(p.var.name)] = env[p.var] = bool(value) if t.dtype.name == "bool" else value
        elif isinstance(t, (TensorType, TileType)):
            found[base_name(p.var.name)] = _random_array(rng, _extents(p, t.shape, env), t.dtype, integer)
    return found


def _free_dims(function: Function) -> list[Var]:
    """Dynamic dimensions of the parameters, in order, that are not parameters themselves."""
    params = {p.var for p in function.params}
    found: dict[Var, None] = {}
    for p in function.params:
        shape = p.var.type.shape if isinstance(p.var.type, (TensorType, TileType)) else ()
        for d in shape:
            if not isinstance(d, int):
                found.update({x: None for x in subexpressions(d) if isinstance(x, Var) and x not in params})
    return list(found)


def _check_dims(given: Mapping[str, int], function: Function, known: list[str]) -> None:
    for name, value in given.items():
        if name not in known:
            hint = f"{suggestion(name, known)} It has: {', '.join(dict.fromkeys(known)) or 'none'}"
            raise ExecuteError(f"{name!r} is no dynamic dimension of {function.name}'s parameters.{hint}")
        if not 0 <= value <= LARGEST_DIMENSION:
            raise ExecuteError(f"dimension {name} = {value}: give a whole number from 0 to {LARGEST_DIMENSION}")


def _random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, integer: bool) -> Array:
    held = numpy_dtype(dtype)
    if dtype.name == "bool":
        return rng.integers(0, 2, shape).astype(held)
    if dtype.is_float and not integer:
        return rng.standard_normal(shape).astype(np.float32).astype(held)
    low = -2 if dtype.kind in ("float", "int") else 0
    return rng.integers(low, 3, shape).astype(np.float32).astype(held)
