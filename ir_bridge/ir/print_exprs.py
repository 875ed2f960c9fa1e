"""Expressions and types as PyPTO text, given what each value is called."""

from __future__ import annotations

from collections.abc import Callable

from cost.dtypes import INDEX, DType
from ir_bridge.ir.nodes import AS_WRITTEN, Binary, Call, Const, DictExpr, Expr, Index, ListExpr, Symbol, Unary, Var
from ir_bridge.ir.types import Dim, OtherType, ScalarType, TensorType, TileType, Type, View, implied_layout

#: How strongly operators bind; a comparison in a comparison is always put in parentheses.
_BINDS = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4),
    "|": 5,
    "^": 6,
    "&": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "//": 10,
    "%": 10,
    "@": 10,
    "**": 12,
}
_NOT = 3
_SIGN = 11
_ATOM = 13


def literal(value: object) -> str:
    """A Python literal; infinities as a number too large."""
    if isinstance(value, float):
        return repr(value).replace("inf", "1e309")
    return repr(value)


def key(text: str) -> str:
    """A dictionary key, which PyPTO puts in double quotes."""
    written = repr(text)
    return f'"{written[1:-1]}"' if written[0] == "'" and '"' not in written else written


def _const(e: Const) -> str:
    text = literal(e.value)
    if e.dtype is None or (e.dtype is INDEX and type(e.value) is int):
        return text
    return f"pl.const({text}, pl.{e.dtype.spelling})"


class ExprPrinter:
    """Prints expressions and types of one function.

    ``name`` gives the printed name of a value, ``functions`` the printed names of the program's functions, ``modules`` the names
    imported besides ``pl``.
    """

    def __init__(self, name: Callable[[Var], str], functions: dict[str, str], modules: frozenset[str]) -> None:
        self._name = name
        self._functions = functions
        self._modules = modules
        self._types: dict[int, str] = {}  # by id: types live as long as the program being printed
        self._table: dict[type, Callable[..., str]] = {
            Var: name,
            Const: _const,
            Call: self._call,
            ListExpr: self._list,
            Symbol: self._symbol,
            Binary: self._binary,
            Unary: self._unary,
            Index: self._index,
            DictExpr: self._dict,
        }

    # -- expressions ----------------------------------------------------------------------------------------------------------

    def expr(self, e: Expr) -> str:
        """The text of an expression, as an argument or a right side."""
        return self._table[type(e)](e)

    def _operand(self, e: Expr, least: int) -> str:
        """The text of an operand, in parentheses where it binds less strongly than ``least``."""
        text = self._table[type(e)](e)
        return f"({text})" if _strength(e) < least else text

    def _symbol(self, e: Symbol) -> str:
        text = e.text
        if text.startswith("self."):
            return f"self.{self._functions.get(text[5:], text[5:])}"
        return text

    def _list(self, e: ListExpr) -> str:
        table = self._table
        inner = ", ".join([table[type(x)](x) for x in e.items])
        if e.is_tuple:
            return f"({inner},)" if len(e.items) == 1 else f"({inner})"
        return f"[{inner}]"

    def _dict(self, e: DictExpr) -> str:
        return "{" + ", ".join([f"{self._key(k)}: {self.expr(v)}" for k, v in e.items]) + "}"

    def _key(self, e: Expr) -> str:
        return key(e.value) if isinstance(e, Const) and isinstance(e.value, str) else self.expr(e)

    def attrs(self, attrs: tuple[tuple[str, Expr], ...]) -> str:
        """``{"key": value}`` of ``attrs=``."""
        return "{" + ", ".join([f"{key(k)}: {self.expr(v)}" for k, v in attrs]) + "}"

    def _binary(self, e: Binary) -> str:
        strength = _BINDS[e.op]
        left, right = strength, strength + 1
        if strength == 4:
            left = 5
        elif e.op == "**":
            left, right = strength + 1, _SIGN
        return f"{self._operand(e.left, left)} {e.op} {self._operand(e.right, right)}"

    def _unary(self, e: Unary) -> str:
        if e.op == "not":
            return f"not {self._operand(e.operand, _NOT)}"
        return f"{e.op}{self._operand(e.operand, _SIGN)}"

    def _index(self, e: Index) -> str:
        return f"{self._operand(e.base, _ATOM)}[{', '.join([self._index_part(p) for p in e.index])}]"

    def _index_part(self, e: Expr) -> str:
        if not isinstance(e, Call) or e.op != "slice":
            return self.expr(e)
        return ":".join(["" if isinstance(a, Const) and a.value is None else self.expr(a) for a in e.args])

    def _call(self, e: Call) -> str:
        op = e.op
        table = self._table
        parts = [table[type(a)](a) for a in e.args]
        if e.kwargs:
            parts += [f"{k}={table[type(v)](v)}" for k, v in e.kwargs]
        if e.attrs:
            parts.append(f"attrs={self.attrs(e.attrs)}")
        if op.startswith("self."):
            return f"self.{self._functions.get(op[5:], op[5:])}({', '.join(parts)})"
        if op == "getattr" or op == "call":
            return self._of_value(e, parts)
        if op.endswith(AS_WRITTEN):
            op = op.removesuffix(AS_WRITTEN)
        if self._modules and op.partition(".")[0] in self._modules:
            return f"{op}({', '.join(parts)})"
        if op.endswith(".not"):
            op += "_"  # a keyword of Python can't be a name in it
        return f"pl.{op}({', '.join(parts)})"

    def _of_value(self, e: Call, parts: list[str]) -> str:
        """``x.name`` and ``x.name(...)`` on a value."""
        head = self._operand(e.args[0], _ATOM)
        if e.op == "getattr" and isinstance(e.args[1], Const):
            return f"{head}.{e.args[1].value}"
        return f"{head}({', '.join(parts[1:])})"

    # -- types ----------------------------------------------------------------------------------------------------------------

    def type(self, t: Type) -> str:
        """The annotation of a type; "" for an unknown one."""
        found = self._types.get(id(t))
        if found is None:
            found = self._types[id(t)] = self._type(t)
        return found

    def _type(self, t: Type) -> str:
        if isinstance(t, TileType):
            text = f"pl.Tile[{self.dims(t.shape)}, pl.{t.dtype.spelling}"
            if t.space is not None:
                text += f", pl.Mem.{t.space.value}"
            view = self._view(t)
            return f"{text}, pl.TileView({view})]" if view else f"{text}]"
        if isinstance(t, TensorType):
            text = f"{'pld.DistributedTensor' if t.distributed else 'pl.Tensor'}[{self.dims(t.shape)}, pl.{t.dtype.spelling}"
            return f"{text}]" if t.view is None else f"{text}, {t.view}]"
        if isinstance(t, ScalarType):
            return scalar_text(t.dtype)
        return t.text

    def dims(self, shape: tuple[Dim, ...]) -> str:
        """``[16, n]``."""
        return "[" + ", ".join([str(d) if type(d) is int else self.expr(d) for d in shape]) + "]"  # type: ignore[arg-type]

    def _view(self, t: TileType) -> str:
        """The fields of a view that differ from what the space implies, in PyPTO's order."""
        v: View = t.view
        blayout, slayout, fractal = implied_layout(t.space)
        fields: list[str] = []
        if v.valid_shape is not None and v.valid_shape != t.shape:
            fields.append(f"valid_shape={self.dims(v.valid_shape)}")
        if v.stride is not None:
            fields.append(f"stride={self.dims(v.stride)}")
        if v.start_offset is not None:
            fields.append(f"start_offset={v.start_offset if isinstance(v.start_offset, int) else self.expr(v.start_offset)}")
        if v.blayout is not None and v.blayout != blayout:
            fields.append(f"blayout=pl.TileLayout.{v.blayout}")
        if v.slayout is not None and v.slayout != slayout:
            fields.append(f"slayout=pl.TileLayout.{v.slayout}")
        if v.fractal is not None and v.fractal != fractal:
            fields.append(f"fractal={v.fractal}")
        if v.pad is not None:
            fields.append(f"pad={v.pad if '.' in v.pad else f'pl.PadValue.{v.pad}'}")
        if v.compact is not None:
            fields.append(f"compact={v.compact if '.' in v.compact else f'pl.CompactMode.{v.compact}'}")
        return ", ".join(fields)


def scalar_text(dtype: DType) -> str:
    """``pl.Scalar[pl.INT64]``."""
    return f"pl.Scalar[pl.{dtype.spelling}]"


def _strength(e: Expr) -> int:
    """How strongly the outermost operator of an expression binds."""
    kind = type(e)
    if kind is Binary:
        return _BINDS[e.op]  # type: ignore[union-attr]
    if kind is Unary:
        return _NOT if e.op == "not" else _SIGN  # type: ignore[union-attr]
    if kind is Const:
        value = e.value  # type: ignore[union-attr]
        if type(value) is int:
            return _SIGN  # "1.name" would be a float
        return _SIGN if isinstance(value, float) and repr(value).startswith("-") else _ATOM
    return _ATOM


def is_written(t: Type) -> bool:
    """Can the type be written as an annotation?"""
    return not isinstance(t, OtherType) or t.text != ""
