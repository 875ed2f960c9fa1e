"""Annotations: ``pl.Tensor[...]``, ``pl.Tile[...]``, ``pl.Scalar[...]``, parameter directions, and what is only carried along."""

from __future__ import annotations

import ast
from collections.abc import Callable

from cost.dtypes import DTYPES, DType
from ir_bridge.ir.nodes import Binary, Call, Const, Direction, Expr, Var
from ir_bridge.ir.ops_registry import as_expr
from ir_bridge.ir.parse_errors import Source, nearest
from ir_bridge.ir.types import (
    UNKNOWN,
    Dim,
    OtherType,
    ScalarType,
    Space,
    TensorType,
    TileType,
    Type,
    View,
)

#: More axes than this is no tensor but a mistake.
MAX_RANK = 32

_DTYPES = {f"{prefix}.{d.spelling}": d for d in DTYPES.values() for prefix in ("pl", "pl.DataType")}
_SPACES = {f"{prefix}.{s.value}": s for s in Space for prefix in ("pl.Mem", "pl.MemorySpace")}
_DIRECTIONS = {"pl.In": Direction.IN, "pl.Out": Direction.OUT, "pl.InOut": Direction.INOUT}
_LAYOUTS = ("row_major", "col_major", "none_box")
#: Heads of tensor types; is the tensor distributed?
_TENSORS = {"pl.Tensor": False, "pld.DistributedTensor": True, "pl.DistributedTensor": True}
_VIEW_FIELDS = ("valid_shape", "stride", "start_offset", "blayout", "slayout", "fractal", "pad", "compact")
#: The prefix under which each enumerated view field is written.
VIEW_ENUMS = {
    "blayout": "pl.TileLayout.",
    "slayout": "pl.TileLayout.",
    "pad": "pl.PadValue.",
    "compact": "pl.CompactMode.",
}


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` as text; None when the node is no dotted name."""
    kind = type(node)
    if kind is ast.Name:
        return node.id  # type: ignore[attr-defined, no-any-return]
    if kind is ast.Attribute:
        head = dotted(node.value)  # type: ignore[attr-defined]
        return None if head is None else f"{head}.{node.attr}"  # type: ignore[attr-defined]
    return None


class TypeReader:
    """Reads annotations.

    ``read_expr`` reads a dimension that is no number; ``written`` gives the text of a node with the program's own names in it.
    ``interned`` are annotations that were taken out of the text beforehand (:mod:`ir_bridge.ir.parse_text`), by placeholder.
    """

    def __init__(
        self,
        source: Source,
        read_expr: Callable[[ast.expr], Expr],
        written: Callable[[ast.expr], str],
        interned: dict[str, ast.expr],
        constants: dict[str, ast.expr],
    ) -> None:
        self._source = source
        self._read_expr = read_expr
        self._written = written
        self._interned = interned
        self._constants = constants
        self._known: dict[str, Type] = {}  # interned annotations that name no value, read once
        self._names_values = False

    # -- whole annotations ------------------------------------------------------------------------------------------------

    def read(self, node: ast.expr | None) -> Type:
        """The type an annotation states; UNKNOWN for none."""
        if node is None:
            return UNKNOWN
        if type(node) is ast.Name:
            name = node.id
            found = self._known.get(name)
            if found is not None:
                return found
            if name in self._interned:
                self._names_values = False
                found = self._read(self._interned[name])
                if not self._names_values:
                    self._known[name] = found
                return found
        return self._read(node)

    def read_param(self, node: ast.expr | None) -> tuple[Type, Direction]:
        """The type and direction of a parameter."""
        if isinstance(node, ast.Subscript):
            direction = _DIRECTIONS.get(dotted(node.value) or "")
            if direction is not None:
                return self.read(node.slice), direction
        return self.read(node), Direction.IN

    def read_returns(self, node: ast.expr | None) -> tuple[Type, ...]:
        """The declared result types of a function."""
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return ()
        if isinstance(node, ast.Subscript) and dotted(node.value) in ("tuple", "Tuple", "typing.Tuple", "pl.Tuple"):
            inner = node.slice
            return tuple([self.read(x) for x in (inner.elts if isinstance(inner, ast.Tuple) else [inner])])
        return (self.read(node),)

    def _read(self, node: ast.expr) -> Type:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = self._from_text(node, node.value)
        if isinstance(node, ast.Subscript):
            head = dotted(node.value)
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if head == "pl.Tile":
                return self._tile(node, parts)
            if head in _TENSORS:
                return self._tensor(node, parts, _TENSORS[head])
            if head == "pl.Scalar":
                return ScalarType(self._dtype(parts[0]))
        if not isinstance(node, (ast.Subscript, ast.Attribute, ast.Name, ast.Call)):
            self._source.fail(node, "not a type", "pl.Tensor[...], pl.Tile[...] or pl.Scalar[...]")
        return OtherType(self._text(node))

    def _from_text(self, node: ast.Constant, text: str) -> ast.expr:
        """An annotation written as a string."""
        inner: ast.expr
        try:
            inner = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            self._source.fail(node, "not a type", "pl.Tensor[...], pl.Tile[...] or pl.Scalar[...]")
        for child in ast.walk(inner):
            ast.copy_location(child, node)
        return inner

    # -- their parts --------------------------------------------------------------------------------------------------------

    def _tensor(self, node: ast.Subscript, parts: list[ast.expr], distributed: bool) -> Type:
        if len(parts) < 2:
            self._source.fail(node, "a tensor type needs a shape and an element type", "pl.Tensor[[16, 64], pl.BF16]")
        view = ", ".join([self._text(p) for p in parts[2:]]) or None
        return TensorType(self._shape(parts[0]), self._dtype(parts[1]), view, distributed)

    def _tile(self, node: ast.Subscript, parts: list[ast.expr]) -> Type:
        if len(parts) < 2:
            self._source.fail(node, "a tile type needs a shape and an element type", "pl.Tile[[16, 64], pl.BF16, pl.Mem.Mat]")
        shape, dtype = self._shape(parts[0]), self._dtype(parts[1])
        space: Space | None = None
        view = View()
        for p in parts[2:]:
            text = dotted(p.func if isinstance(p, ast.Call) else p) or ""
            if text in _SPACES:
                space = _SPACES[text]
            elif text in ("pl.TileView", "pl.tile.TileView") and isinstance(p, ast.Call):
                view = self._view(p, shape)
            elif text.startswith(("pl.Mem.", "pl.MemorySpace.")):
                known = ", ".join(f"pl.Mem.{s.value}" for s in Space)
                self._source.fail(p, f"unknown memory space {text}", f"one of {known}")
            else:
                return OtherType(self._text(node))
        return TileType(shape, dtype, space, view)

    def _shape(self, node: ast.expr) -> tuple[Dim, ...]:
        if not isinstance(node, (ast.List, ast.Tuple)):
            if isinstance(node, ast.Name) and isinstance(self._constants.get(node.id), (ast.List, ast.Tuple)):
                return self._shape(self._constants[node.id])
            self._source.fail(node, "not a shape", "a list of dimensions like [16, 64]")
        if len(node.elts) > MAX_RANK:
            self._source.fail(node, f"a shape of {len(node.elts)} dimensions", f"at most {MAX_RANK}")
        return tuple([self._dim(d) for d in node.elts])

    def _dim(self, node: ast.expr) -> Dim:
        if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 1 << 63:
            return node.value
        e = self._read_expr(node)
        if isinstance(e, Const):
            if type(e.value) is not int:
                self._source.fail(node, "not a dimension", "an integer or a name")
            if e.value < 0:
                self._source.fail(node, f"a negative dimension {e.value}", "0 or more")
            return e.value
        self._names_values = True
        return e

    def _dtype(self, node: ast.expr) -> DType:
        text = dotted(node) or ""
        found = _DTYPES.get(text)
        if found is None and text in self._constants:
            text = dotted(self._constants[text]) or ""
            found = _DTYPES.get(text)
        if found is None:
            short = text.rpartition(".")[2] if text else self._source.snippet(node)
            spellings = [d.spelling for d in DTYPES.values()]
            problem = f"unknown element type {text or short!r}{nearest(short.upper(), spellings)}"
            self._source.fail(node, problem, "one of " + ", ".join(f"pl.{s}" for s in spellings))
        return found

    def _view(self, node: ast.Call, shape: tuple[Dim, ...]) -> View:
        fields: dict[str, object] = {}
        given = [*zip(_VIEW_FIELDS, node.args, strict=False), *[(k.arg or "**", k.value) for k in node.keywords]]
        for name, value in given:
            if name not in _VIEW_FIELDS:
                problem = f"unknown field {name!r} of a TileView{nearest(name, _VIEW_FIELDS)}"
                self._source.fail(node, problem, "one of " + ", ".join(_VIEW_FIELDS))
            fields[name] = self._view_field(name, value)
        valid = fields.get("valid_shape")
        if valid == shape:
            del fields["valid_shape"]
        elif isinstance(valid, tuple) and len(valid) != len(shape):
            self._source.fail(node, f"a valid shape of {len(valid)} dimensions in a tile of {len(shape)}")
        return View(**fields)  # type: ignore[arg-type]

    def _view_field(self, name: str, value: ast.expr) -> object:
        if isinstance(value, ast.Constant) and value.value is None:
            return None
        if name in ("valid_shape", "stride"):
            return self._shape(value)
        if name in ("start_offset", "fractal"):
            return self._dim(value)
        text = self._text(value)
        word = text.removeprefix(VIEW_ENUMS[name])
        if name in ("blayout", "slayout") and word not in _LAYOUTS:
            self._source.fail(value, f"unknown layout {text}", "one of " + ", ".join(f"pl.TileLayout.{w}" for w in _LAYOUTS))
        return None if name == "compact" and word == "null" else word

    def _text(self, node: ast.expr) -> str:
        """A part kept as written; it may name values, so it is not shared between places."""
        if not isinstance(node, ast.Attribute):
            self._names_values = True
        return self._written(node)


def substitute(t: Type, table: dict[Var, Expr]) -> Type:
    """A type with the values its dimensions name replaced, all at once: a callee's result as its caller sees it."""
    if isinstance(t, TensorType) and not all(isinstance(d, int) for d in t.shape):
        return TensorType(tuple([_substituted(d, table) for d in t.shape]), t.dtype, t.view, t.distributed)
    return t


def _substituted(d: Dim, table: dict[Var, Expr]) -> Dim:
    if isinstance(d, Var):
        e = table.get(d, d)
        return e.value if isinstance(e, Const) and type(e.value) is int else e
    if isinstance(d, Binary):
        return Binary(d.op, as_expr(_substituted(d.left, table)), as_expr(_substituted(d.right, table)))
    if isinstance(d, Call):
        return Call(d.op, tuple([as_expr(_substituted(a, table)) for a in d.args]), d.kwargs, d.attrs)
    return d
