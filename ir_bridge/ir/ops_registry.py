"""What an operation is, and the one registry of them: the op table.

Families register their operations from files of their own (``ops_tile``, ``ops_vector``, ``ops_tensor``); nothing else in the
code lists operations. An :class:`OpDef` states the signature, the spaces operands must be in, the rule for the result's type and
what the operation does to memory. Reference semantics are registered beside it by name (:mod:`ir_bridge.ir.semantics`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from cost.dtypes import DTYPES, DType
from cost.errors import TilesatError
from ir_bridge.ir.nodes import Const, Expr, ListExpr, Symbol
from ir_bridge.ir.types import Dim, Space, TensorType, TileType, Type


class OpError(TilesatError):
    """A call that breaks its operation's signature or type rule; the message starts with the operation's name."""


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()

Kwargs = Mapping[str, Expr]
TypeRule = Callable[[tuple[Expr, ...], Kwargs], tuple[Type, ...]]


@dataclass(frozen=True, slots=True)
class Arg:
    """One parameter of an operation.

    ``kind`` says what stands there: "value" (a tile, tensor or scalar), "list" (offsets, a shape), "space" (``pl.Mem.X``),
    "dtype" (``pl.BF16``), or "literal". ``default`` is REQUIRED, None (absent when not given), the name of an earlier
    parameter whose value it takes (``"=shape"``), or the literal itself. ``explicit`` defaults are written out in canonical
    form; others are left out. ``spaces``: where a tile operand may be, its final space first (empty: anywhere).
    """

    name: str
    kind: str = "value"
    default: object = REQUIRED
    explicit: bool = False
    spaces: tuple[Space, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Effects:
    """What a call does beyond computing its result, by positional index.

    ``reads``/``writes``: operands whose memory is read / written as an effect (global tensors, tiles written element by element).
    ``in_place``: the operand whose buffer the result is, updated. ``view``: the operand whose buffer the result shows unchanged.
    """

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    in_place: int | None = None
    view: int | None = None


PURE = Effects()


@dataclass(frozen=True, slots=True)
class OpDef:
    """One operation. ``kind``: "cube", "vector", "view", "transfer", "scalar" or "memory".

    ``args`` are the positional parameters of canonical form, ``keywords`` those that canonical form keeps in ``kwargs``
    (they may be written by position too, after ``args``, in this order). ``short`` is the name of the ``pl.`` short form.
    """

    name: str
    args: tuple[Arg, ...]
    rule: TypeRule
    kind: str
    keywords: tuple[Arg, ...] = ()
    short: str | None = None
    effects: Effects = PURE
    #: "tile", "tensor" or "any": what the first operand must be for the short form to mean this operation
    short_on: str = "tile"
    positions: dict[str, int] = field(default_factory=dict, compare=False)

    def spaces_of(self, index: int) -> tuple[Space, ...]:
        """The spaces operand ``index`` may be in, the one it must end in first; empty when any will do."""
        return self.args[index].spaces if index < len(self.args) else ()


_TABLE: dict[str, OpDef] = {}
_SHORT: dict[str, list[OpDef]] = {}


def register(op: OpDef) -> OpDef:
    """Add an operation to the table; a second one of the same name is an error."""
    if op.name in _TABLE:
        raise OpError(f"{op.name}: registered twice")
    for i, a in enumerate(op.args + op.keywords):
        for name in (a.name, *a.aliases):
            if op.positions.setdefault(name, i) != i:
                raise OpError(f"{op.name}: two parameters are called {name!r}")
    _TABLE[op.name] = op
    if op.short is not None:
        _SHORT.setdefault(op.short, []).append(op)
    return op


def lookup(op: str) -> OpDef | None:
    """The operation called ``op`` ("tile.matmul"), or None: then a call of it is opaque."""
    return _TABLE.get(op)


def all_ops() -> tuple[OpDef, ...]:
    """Every operation of the table, in the order of registration."""
    return tuple(_TABLE.values())


def short_forms(name: str) -> list[OpDef]:
    """The operations that ``pl.<name>`` may stand for."""
    return _SHORT.get(name, [])


# -- canonical calls -----------------------------------------------------------------------------------------------------


def canonical(
    op: str, args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...]
) -> tuple[tuple[Expr, ...], tuple[tuple[str, Expr], ...]]:
    """(args, kwargs) of a call of ``op`` in canonical form; raises :class:`OpError` naming what is wrong.

    Keywords the table does not know are kept, after those it knows, so that nothing PyPTO wrote is lost; one that looks like a
    misspelling of a known one is refused.
    """
    d = _TABLE.get(op)
    if d is None:
        return args, kwargs
    slots, extra = _sort_arguments(d, args, kwargs)
    npos = len(d.args)
    out_args: list[Expr] = []
    for i, a in enumerate(d.args):
        value = slots[i]
        if value is None:
            value = _default(d, a, slots)
            if value is None:
                if any(s is not None for s in slots[i + 1 : npos]):
                    raise OpError(f"{op}: argument {a.name!r} is missing")
                break
        slots[i] = value = normalise(op, a, value)
        out_args.append(value)
    out_kwargs: list[tuple[str, Expr]] = []
    for a, value in zip(d.keywords, slots[npos:], strict=True):
        if value is None:
            value = _default(d, a, slots)
            if value is None:
                continue
        value = normalise(op, a, value)
        if not a.explicit and a.default is not REQUIRED and isinstance(value, Const) and value.value == a.default:
            continue
        out_kwargs.append((a.name, value))
    return tuple(out_args), (*out_kwargs, *extra)


def _sort_arguments(
    d: OpDef, args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...]
) -> tuple[list[Expr | None], list[tuple[str, Expr]]]:
    """Each given argument in the slot of its parameter; keywords the table does not know come back separately."""
    size = len(d.args) + len(d.keywords)
    if len(args) > size:
        raise OpError(f"{d.name}: takes at most {size} arguments, {len(args)} given")
    slots: list[Expr | None] = [*args, *([None] * (size - len(args)))]
    extra: list[tuple[str, Expr]] = []
    for key, value in kwargs:
        i = d.positions.get(key)
        if i is None:
            near = difflib.get_close_matches(key, d.positions, n=1, cutoff=0.8)
            if near:
                raise OpError(f"{d.name}: unknown keyword {key!r}; did you mean {near[0]!r}?")
            extra.append((key, value))
        elif slots[i] is not None:
            raise OpError(f"{d.name}: argument {key!r} given twice")
        else:
            slots[i] = value
    return slots, extra


def _default(d: OpDef, a: Arg, slots: list[Expr | None]) -> Expr | None:
    """The value of a parameter that was not given; None when canonical form leaves it out."""
    if a.default is REQUIRED:
        raise OpError(f"{d.name}: argument {a.name!r} is missing")
    if a.default is None or not a.explicit:
        return None
    if isinstance(a.default, str) and a.default.startswith("="):
        return slots[d.positions[a.default[1:]]]
    return as_expr(a.default)


def normalise(op: str, a: Arg, value: Expr) -> Expr:
    """An argument in the one spelling canonical form uses: lists for tuples, ``pl.Mem.X``, ``pl.BF16``."""
    if a.kind == "value":
        return value
    if a.kind == "list":
        if not isinstance(value, ListExpr):
            raise OpError(f"{op}: {a.name} must be a list like [0, 0]")
        return ListExpr(value.items) if value.is_tuple else value
    if a.kind == "space":
        return space_symbol(space_of(op, a.name, value))
    if a.kind == "dtype":
        return dtype_symbol(dtype_of(op, a.name, value))
    return value


# -- spellings -----------------------------------------------------------------------------------------------------------

_SPACE_SYMBOLS = {space: Symbol(f"pl.Mem.{space.value}") for space in Space}
_SPACES_BY_TEXT = {f"pl.{prefix}.{s.value}": s for s in Space for prefix in ("Mem", "MemorySpace")}
_DTYPE_SYMBOLS = {d: Symbol(f"pl.{d.spelling}") for d in DTYPES.values()}
_DTYPES_BY_TEXT = {f"{prefix}.{d.spelling}": d for d in DTYPES.values() for prefix in ("pl", "pl.DataType")}


def space_symbol(space: Space) -> Symbol:
    """``pl.Mem.X``."""
    return _SPACE_SYMBOLS[space]


def dtype_symbol(dtype: DType) -> Symbol:
    """``pl.BF16``."""
    return _DTYPE_SYMBOLS[dtype]


def space_of(op: str, name: str, value: Expr | None) -> Space:
    """The memory space a Symbol names; OpError listing the known ones otherwise."""
    text = value.text if isinstance(value, Symbol) else None
    found = _SPACES_BY_TEXT.get(text) if text is not None else None
    if found is None:
        known = ", ".join(f"pl.Mem.{s.value}" for s in Space)
        raise OpError(f"{op}: {name} must be a memory space, not {text or 'an expression'}; known: {known}")
    return found


def dtype_of(op: str, name: str, value: Expr | None) -> DType:
    """The element type a Symbol names; OpError listing the known ones otherwise."""
    text = value.text if isinstance(value, Symbol) else None
    found = _DTYPES_BY_TEXT.get(text) if text is not None else None
    if found is None:
        known = ", ".join(d.spelling for d in DTYPES.values())
        raise OpError(f"{op}: {name} must be an element type, not {text or 'an expression'}; known: {known}")
    return found


@lru_cache(maxsize=4096)
def _int_const(value: int) -> Const:
    return Const(value)


def as_expr(value: object) -> Expr:
    """An expression from a Python value: numbers and text become constants, lists ListExprs, Space and DType symbols."""
    kind = type(value)
    if kind is int:
        return _int_const(value)
    if kind is list or kind is tuple:
        return ListExpr(tuple([as_expr(v) for v in value]))  # type: ignore[attr-defined]
    if kind is Space:
        return _SPACE_SYMBOLS[value]  # type: ignore[index]
    if kind is DType:
        return _DTYPE_SYMBOLS[value]  # type: ignore[index]
    if value is None or kind in (bool, float, str):
        return Const(value)  # type: ignore[arg-type]
    return value  # type: ignore[return-value]


# -- reading operands in type rules ---------------------------------------------------------------------------------------


def as_dim(e: Expr) -> Dim:
    """A dimension from an expression: an int where it is a number."""
    if type(e) is Const and type(e.value) is int:
        return e.value
    return e


def dims(op: str, name: str, value: Expr) -> tuple[Dim, ...]:
    """The dimensions of a list argument; static ones must be no less than 0."""
    if not isinstance(value, ListExpr):
        raise OpError(f"{op}: {name} must be a list like [16, 64]")
    found = tuple([as_dim(e) for e in value.items])
    for d in found:
        if isinstance(d, int) and d < 0:
            raise OpError(f"{op}: {name} holds a negative number: {d}")
        if type(d) is Const:
            raise OpError(f"{op}: {name} holds {d.value!r}, which is no integer")
    return found


def number(op: str, name: str, e: Expr) -> int:
    """An argument that must be a literal integer."""
    value = as_dim(e)
    if not isinstance(value, int):
        raise OpError(f"{op}: {name} must be a number, not an expression")
    return value


def show(shape: tuple[Dim, ...]) -> str:
    """A shape as messages write it; dimensions that are expressions show as their name or ``?``."""
    return "[" + ", ".join(str(d) if isinstance(d, int) else getattr(d, "name", "?") for d in shape) + "]"


def tile_of(op: str, name: str, t: Type) -> TileType:
    """``t`` as a tile type, or an OpError that names the operand."""
    if not isinstance(t, TileType):
        raise OpError(f"{op}: {name} must be a tile, not {describe(t)}")
    return t


def tensor_of(op: str, name: str, t: Type) -> TensorType:
    """``t`` as a tensor type, or an OpError that names the operand."""
    if not isinstance(t, TensorType):
        raise OpError(f"{op}: {name} must be a tensor, not {describe(t)}")
    return t


def describe(t: Type) -> str:
    """A type in a few words, for messages."""
    if isinstance(t, TileType):
        where = f" in {t.space.value}" if t.space else ""
        return f"a tile {show(t.shape)} of {t.dtype.name}{where}"
    if isinstance(t, TensorType):
        return f"a tensor {show(t.shape)} of {t.dtype.name}"
    dtype = getattr(t, "dtype", None)
    return f"a scalar of {dtype.name}" if dtype is not None else "a value of unknown type"
