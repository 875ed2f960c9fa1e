"""Expressions: Python's syntax tree in, IR expressions out, with names resolved to values and calls in canonical form."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import NoReturn

from cost.dtypes import DTYPES, INDEX
from ir_bridge.ir import ops
from ir_bridge.ir.names import Names, base_name
from ir_bridge.ir.nodes import (
    AS_WRITTEN,
    Assign,
    Binary,
    Call,
    Const,
    DictExpr,
    Expr,
    Index,
    ListExpr,
    Stmt,
    Symbol,
    Unary,
    Var,
)
from ir_bridge.ir.parse_context import Module, Signature
from ir_bridge.ir.parse_errors import nearest
from ir_bridge.ir.parse_subscripts import read_subscript
from ir_bridge.ir.parse_types import dotted, substitute
from ir_bridge.ir.types import UNKNOWN, OtherType, ScalarType, TensorType, TileType, Type

#: Expressions, and blocks in blocks, nest at most this deep: what follows walks them by recursion.
MAX_DEPTH = 100

BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.MatMult: "@",
}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
#: What an operator on tensors or tiles stands for.
_ON_TENSORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul"}
_ON_ONE_TENSOR = {"-": "neg", "~": "not"}
#: Operations of two operands, the first of which is a tensor or tile.
_TENSOR_FIRST = frozenset({"add", "sub", "mul", "div", "maximum", "minimum"})
_COMMUTES = frozenset({"+", "*", "add", "mul", "maximum", "minimum"})
#: Kinds of operations whose rules hold for every statement, annotated or not.
_STRICT = ("cube", "transfer", "memory")
_PYTHON_CALLS = frozenset({"range", "min", "max"})


class ExprReader:
    """Reads expressions of one function.

    ``env`` maps the names in scope to what they stand for now; ``pending`` collects statements that nested calls were moved
    into, to be placed before the statement being read; ``lost`` says of names that went out of scope where they were defined.
    ``lenient`` is set for statements of dumps, which say themselves what type they give: a call that the table's signature
    refuses is then taken as written, under a name that the table does not know, unless it is a matter of the cube core.
    ``split`` is how the enclosing ``pl.split_aiv`` region splits, which its operations need not repeat.
    """

    def __init__(self, module: Module, names: Names) -> None:
        self.module = module
        self.source = module.source
        self.names = names
        self.env: dict[str, Expr] = dict(module.values)
        self.lost: dict[str, str] = {}
        self.pending: list[Stmt] = []
        self.lenient = False
        self.split: int | None = None
        self._depth = 0
        self._table = {
            ast.Name: self._name,
            ast.Constant: self._constant,
            ast.Call: self._call,
            ast.List: self._list,
            ast.Tuple: self._list,
            ast.Attribute: self._attribute,
            ast.BinOp: self._binary,
            ast.Compare: self._compare,
            ast.BoolOp: self._bool,
            ast.UnaryOp: self._unary,
            ast.Subscript: self._subscript,
            ast.Dict: self._dict,
        }

    def read(self, node: ast.expr) -> Expr:
        """The expression a node stands for."""
        reader = self._table.get(type(node))
        if reader is None:
            self.source.fail(node, f"{type(node).__name__} is not part of the language", "a value, a call or arithmetic")
        return reader(node)  # type: ignore[operator, no-any-return]

    def value(self, node: ast.expr) -> Expr:
        """As :meth:`read`, for places that want a value with a name: a call of an operation gets its own statement."""
        e = self.read(node)
        return self.hoisted(e, node) if type(e) is Call else e

    def fail(self, node: ast.AST | None, problem: str, expected: str = "") -> NoReturn:
        """Refuse the text at ``node``."""
        self.source.fail(node, problem, expected)

    # -- leaves -------------------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> Expr:
        found = self.env.get(node.id)
        return self._undefined(node) if found is None else found

    def _undefined(self, node: ast.Name) -> NoReturn:
        name = node.id
        if name in self.lost:
            self.fail(node, f"{name!r} is not defined here: {self.lost[name]}", "a value defined before on every path")
        if name in self.module.imported:
            self.fail(node, f"the module {name!r} is not a value", f"{name}.something")
        self.fail(node, f"{name!r} is not defined{nearest(name, self.env)}", "a parameter or a value assigned before")

    def _constant(self, node: ast.Constant) -> Expr:
        value = node.value
        if type(value) is int:
            return self.int_const(value, node)
        if value is None or isinstance(value, (bool, float, str)):
            return Const(value)
        self.fail(node, f"a literal of type {type(value).__name__}", "a number, text, True, False or None")

    def int_const(self, value: int, node: ast.AST) -> Const:
        """The constant of an integer; it must fit 64 bits."""
        found = self.module.ints.get(value)
        if found is None:
            if not -(1 << 63) <= value < 1 << 64:
                self.fail(node, f"an integer of {value.bit_length()} bits", "one that fits 64 bits")
            found = self.module.ints[value] = Const(value)
        return found

    def _attribute(self, node: ast.Attribute) -> Expr:
        text = dotted(node)
        if text is not None:
            found = self.module.symbols.get(text)
            if found is not None:
                return found
            root = text.partition(".")[0]
            if root == "self" and root not in self.env:
                return self._self(node, text)
            if root in self.module.imported and root not in self.env:
                text = text.replace("pl.MemorySpace.", "pl.Mem.", 1).replace("pl.DataType.", "pl.", 1)
                found = self.module.symbols[text] = Symbol(text)
                return found
        base = self._deeper(node.value)
        t = ops.type_of(base)
        if node.attr == "shape" and isinstance(t, (TensorType, TileType)):
            return ListExpr(tuple([ops.as_expr(d) for d in t.shape]))
        return Call("getattr", (base, Const(node.attr)))

    def _self(self, node: ast.Attribute, text: str) -> Symbol:
        return Symbol(f"self.{self._function(node, text.removeprefix('self.')).name}")

    def _function(self, node: ast.AST, name: str) -> Signature:
        found = self.module.functions.get(name)
        if found is None:
            self.fail(
                node, f"the program has no function {name!r}{nearest(name, self.module.functions)}", "a function of this program"
            )
        return found

    # -- what holds other expressions -----------------------------------------------------------------------------------------

    def _deeper(self, node: ast.expr) -> Expr:
        """Read an inner expression, one level down."""
        kind = type(node)
        if kind is ast.Name:
            return self._name(node)  # type: ignore[arg-type]
        if kind is ast.Constant:
            return self._constant(node)  # type: ignore[arg-type]
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(node, "an expression nested too deeply", f"at most {MAX_DEPTH} levels; give its parts names")
        e = self.read(node)
        self._depth -= 1
        return e

    def _list(self, node: ast.List | ast.Tuple) -> Expr:
        deeper = self._deeper
        return ListExpr(tuple([deeper(x) for x in node.elts]), type(node) is ast.Tuple)

    def _dict(self, node: ast.Dict) -> Expr:
        items: list[tuple[Expr, Expr]] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.fail(node, "** in a dictionary", "plain keys and values")
            items.append((self._deeper(key), self._deeper(value)))
        return DictExpr(tuple(items))

    def _unary(self, node: ast.UnaryOp) -> Expr:
        op = _UNARY[type(node.op)]
        e = self._deeper(node.operand)
        if op == "-" and type(e) is Const and type(e.value) in (int, float) and e.dtype is None:
            return self.int_const(-e.value, node) if type(e.value) is int else Const(-e.value)  # type: ignore[operator]
        if self.is_array(e, node):
            name = _ON_ONE_TENSOR.get(op)
            if name is not None:
                x = self.hoisted(e, node)
                return self.call(self._short(name, (x,)), (x,), (), node)
            if op == "+":
                return e
            self.fail(node, f"{op} of a tensor or tile", "pl.cmp(x, 0, cmp_type=0) for the elements that are zero")
        return Unary(op, e)

    def _binary(self, node: ast.BinOp) -> Expr:
        return self.binary(BINARY[type(node.op)], self._deeper(node.left), self._deeper(node.right), node)

    def binary(self, op: str, left: Expr, right: Expr, node: ast.expr) -> Expr:
        """``left op right``; on tensors and tiles an operator is the operation it stands for."""
        name = _ON_TENSORS.get(op)
        first = self.is_array(left, node)
        if not first and self.is_array(right, node) and type(_type(left)) is not OtherType:
            return self._scalar_first(op, left, right, node)
        if type(left) is Const and type(right) is Const:
            found = folded(op, left, right)
            if found is not None:
                return self.int_const(found, node)
        if first:
            if name is None:
                self.fail(
                    node, f"the operator {op} on tensors or tiles", f"one of {' '.join(_ON_TENSORS)}, or pl.<operation>(...)"
                )
            operands = (self.hoisted(left, node), self.hoisted(right, node))
            return self.call(self._short(name, operands), operands, (), node)
        return Binary(op, left, right)

    def _scalar_first(self, op: str, left: Expr, right: Expr, node: ast.expr) -> Expr:
        """``scalar op tensor``: operations take the tensor first, so the operands change places, ``s - x`` being ``-x + s``."""
        if op in _COMMUTES:
            return self.binary(op, right, left, node)
        if op == "-":
            x = self.hoisted(right, node)
            return self.binary("+", self.call(self._short("neg", (x,)), (x,), (), node), left, node)
        repair = "pl.recip(x), or pl.div(pl.full(...), x)" if op == "/" else "a tensor or tile on the left"
        self.fail(node, f"{op} of a scalar by a tensor or tile", repair)

    def _bool(self, node: ast.BoolOp) -> Expr:
        op = "and" if type(node.op) is ast.And else "or"
        if len(node.values) > MAX_DEPTH:
            self.fail(node, f"a condition of {len(node.values)} parts", f"at most {MAX_DEPTH}")
        e = self._deeper(node.values[0])
        for value in node.values[1:]:
            e = Binary(op, e, self._deeper(value))
        return e

    def _compare(self, node: ast.Compare) -> Expr:
        if len(node.ops) > MAX_DEPTH:
            self.fail(node, f"a comparison of {len(node.ops)} parts", f"at most {MAX_DEPTH}")
        e: Expr | None = None
        left = self._deeper(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            text = _COMPARE.get(type(op))
            if text is None:
                self.fail(node, f"the comparison {type(op).__name__}", "one of == != < <= > >=")
            right = self._deeper(right_node)
            if _is_array(left) or _is_array(right):
                kind = list(_COMPARE.values()).index(text)
                self.fail(node, f"the comparison {text} of tensors or tiles", f"pl.cmp(x, y, cmp_type={kind})")
            link = Binary(text, left, right)
            e = link if e is None else Binary("and", e, link)
            left = right
        assert e is not None
        return e

    def _subscript(self, node: ast.Subscript) -> Expr:
        base = self._deeper(node.value)
        if type(base) is Call and base.op.startswith("self."):
            types = self.results(base, node)
            several = len(types) > 1
            base = ListExpr(tuple(self.given_names(base, types, node)), True) if several else self.hoisted(base, node)
        if isinstance(ops.type_of(base), (TensorType, TileType)):
            base = self.hoisted(base, node)
            read = read_subscript(base, self.index(node.slice))
            if read is not None:
                return self.call(*read, (), node)
        index = self.index(node.slice)
        if type(base) is ListExpr and len(index) == 1 and isinstance(index[0], Const) and type(index[0].value) is int:
            if not -len(base.items) <= index[0].value < len(base.items):
                self.fail(node, f"element {index[0].value} of {len(base.items)}", "an element that is there")
            return base.items[index[0].value]
        return Index(base, index)

    def index(self, node: ast.expr) -> tuple[Expr, ...]:
        """The parts of a subscript; ``a:b`` is ``Call("slice", (a, b))``, with None where a bound is left out."""
        parts = node.elts if type(node) is ast.Tuple else [node]
        return tuple([self._slice(p) if type(p) is ast.Slice else self._deeper(p) for p in parts])

    def _slice(self, node: ast.Slice) -> Call:
        bounds = (node.lower, node.upper) if node.step is None else (node.lower, node.upper, node.step)
        return Call("slice", tuple([Const(None) if b is None else self._bound(b) for b in bounds]))

    def _bound(self, node: ast.expr) -> Expr:
        e = self._deeper(node)
        if self.is_array(e, node):
            self.fail(node, "a tensor or tile as the bound of a slice", "a scalar, as pl.read(x, [i]) gives it")
        return e

    # -- calls --------------------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Expr:
        deeper = self._deeper
        func = node.func
        if type(func) is ast.Attribute and type(func.value) is ast.Attribute and type(func.value.value) is ast.Name:
            head: str | None = f"{func.value.value.id}.{func.value.attr}.{func.attr}"  # the common case, quickly
        else:
            head = dotted(func)
        if head is None or head.partition(".")[0] in self.env:
            return self._call_of_value(node)
        args = tuple([deeper(a) for a in node.args])
        for a in args:
            if type(a) is Call:
                args = tuple([self.hoisted(a, node) for a in args])
                break
        kwargs: list[tuple[str, Expr]] = []
        attrs: tuple[tuple[str, Expr], ...] = ()
        for k in node.keywords:
            if k.arg is None:
                self.fail(node, "** in a call", "keywords written out")
            if k.arg == "attrs":
                attrs = self.attrs(k.value)
            else:
                given = deeper(k.value)
                kwargs.append((k.arg, self.hoisted(given, node) if type(given) is Call else given))
        return self._named_call(head, args, tuple(kwargs), attrs, node)

    def _named_call(
        self,
        head: str,
        args: tuple[Expr, ...],
        kwargs: tuple[tuple[str, Expr], ...],
        attrs: tuple[tuple[str, Expr], ...],
        node: ast.Call,
    ) -> Expr:
        root, _, rest = head.partition(".")
        if root == "pl" and rest:
            if rest.endswith("not_"):
                rest = rest.removesuffix("_")  # pl.not_, pl.tile.not_: the operation "not"
            if rest.startswith("self."):
                self.fail(node, f"{head!r} is not a function of the language", f"{rest}(...) for a function of the program")
            if "." in rest:
                return self.call(rest, args, kwargs, node, attrs)
            if rest == "const":
                return self._const(args, node)
            if rest == "yield_":
                self.fail(node, "pl.yield_ is not the last statement of a loop body or branch", "it to stand last, on its own")
            self._refuse_scalar_first(rest, args, node)
            return self.call(self._short(rest, args), args, kwargs, node, attrs)
        if root == "self" and rest:
            return Call(f"self.{self._function(node, rest).name}", args, kwargs, attrs)
        if root in self.module.imported and rest:
            return Call(head, args, kwargs, attrs)
        hint = f"pl.{head}" if head in _PYTHON_CALLS else "pl.<operation>(...) or self.<function>(...)"
        self.fail(node, f"{head!r} is not a function of the language", hint)

    def _call_of_value(self, node: ast.Call) -> Expr:
        """``x.method(...)`` on a value: carried along as written."""
        if node.keywords:
            self.fail(node, "keywords in a call of a value's method", "an operation written pl.<operation>(...)")
        return Call("call", (self._deeper(node.func), *[self._deeper(a) for a in node.args]))

    def _refuse_scalar_first(self, name: str, args: tuple[Expr, ...], node: ast.Call) -> None:
        """Refuse ``pl.sub(1.0, x)``: these operations take the tensor first, and what they would be is not known otherwise."""
        if name in _TENSOR_FIRST and len(args) == 2 and isinstance(_type(args[0]), ScalarType) and _is_array(args[1]):
            repair = f"pl.{name}(x, scalar)" if name in _COMMUTES else "scalar - x" if name == "sub" else "pl.recip(x)"
            self.fail(node, f"pl.{name} takes the tensor or tile first", repair)

    def _short(self, name: str, args: tuple[Expr, ...]) -> str:
        """The operation ``pl.<name>`` means for these operands."""
        found = ops.short_op(name, args)
        if found is None and args and isinstance(ops.type_of(args[0]), TensorType) and ops.lookup(f"tile.{name}"):
            return f"tensor.{name}"
        return found or name

    def _const(self, args: tuple[Expr, ...], node: ast.Call) -> Expr:
        if len(args) != 2 or not isinstance(args[1], Symbol) or type(args[0]) is not Const:
            self.fail(node, "pl.const needs a literal and an element type", "pl.const(0, pl.INT64)")
        value, dtype = args[0].value, DTYPES.get(args[1].text.removeprefix("pl.").lower())
        if dtype is None:
            self.fail(
                node, f"unknown element type {args[1].text}", "one of " + ", ".join(f"pl.{d.spelling}" for d in DTYPES.values())
            )
        return args[0] if dtype is INDEX and type(value) is int else Const(value, dtype)

    def attrs(self, node: ast.expr) -> tuple[tuple[str, Expr], ...]:
        """``attrs={"key": value}``."""
        e = self._deeper(node)
        if not isinstance(e, DictExpr) or not all(isinstance(k, Const) and isinstance(k.value, str) for k, _ in e.items):
            self.fail(node, "attrs must be a dictionary with text keys", 'attrs={"key": value}')
        return tuple([(k.value, v) for k, v in e.items])  # type: ignore[union-attr, misc]

    def call(
        self,
        op: str,
        args: tuple[Expr, ...],
        kwargs: tuple[tuple[str, Expr], ...],
        node: ast.AST,
        attrs: tuple[tuple[str, Expr], ...] = (),
    ) -> Call:
        """A call of an operation in canonical form; the table's complaints become errors at ``node``."""
        if self.split is not None and self._takes_split(op, kwargs):
            kwargs = (*kwargs, ("split", Const(self.split)))
        try:
            return Call(op, *ops.canonical(op, args, kwargs), attrs)
        except ops.OpError as error:
            if self._tolerated(op):
                return Call(f"{op}{AS_WRITTEN}", args, kwargs, attrs)
            self.fail(node, str(error), f"a call as {op} takes it")

    @staticmethod
    def _takes_split(op: str, kwargs: tuple[tuple[str, Expr], ...]) -> bool:
        d = ops.lookup(op)
        return d is not None and any(k.name == "split" for k in d.keywords) and all(k != "split" for k, _ in kwargs)

    def _tolerated(self, op: str) -> bool:
        d = ops.lookup(op)
        return self.lenient and d is not None and d.kind not in _STRICT

    def results(self, e: Expr, node: ast.AST) -> tuple[Type, ...]:
        """The types of what a statement's right side gives.

        An operation of the table with operands of unknown type is taken as it stands; other operands must obey its rule.
        """
        if type(e) is not Call:
            return (ops.type_of(e),)
        if e.op.startswith("self."):
            return self._results_of_function(e)
        try:
            types = ops.result_types(e.op, e.args, e.kwargs)
        except ops.OpError as error:
            if self._tolerated(e.op) or any(type(ops.operand_type(a)) is OtherType for a in e.args if type(a) is Var):
                return (UNKNOWN,)
            self.fail(node, str(error), f"operands as {e.op} takes them")
        for t in types:
            if isinstance(t, (TensorType, TileType)) and any(type(d) is int and d < 0 for d in t.shape):
                self.fail(node, f"{e.op} gives {t}, which has a negative extent", "extents of 0 or more")
        return types

    def _results_of_function(self, e: Call) -> tuple[Type, ...]:
        """What the callee declares, or else returns, its dimensions as the caller knows them."""
        callee = self.module.signatures[e.op.removeprefix("self.")]
        returns = callee.returns or callee.found
        if not returns:
            return (UNKNOWN,)
        table: dict[Var, Expr] = dict(zip(callee.params, e.args, strict=False))
        named = {base_name(p.name): p for p in callee.params}
        table |= {named[k]: x for k, x in e.kwargs if k in named}
        for p, a in list(table.items()):
            t, given = p.type, ops.type_of(a)
            if isinstance(t, TensorType) and isinstance(given, TensorType) and len(t.shape) == len(given.shape):
                for d, n in zip(t.shape, given.shape, strict=True):
                    if isinstance(d, Var):
                        table.setdefault(d, ops.as_expr(n))
        return tuple([substitute(t, table) for t in returns])

    def hoisted(self, e: Expr, node: ast.expr | ast.stmt) -> Expr:
        """A nested call that makes a tile or tensor, or calls a function of the program, becomes a statement of its own; the
        value it defines stands in its place."""
        if type(e) is not Call:
            return e
        types = self.results(e, node)
        if not e.op.startswith("self.") and (len(types) != 1 or not isinstance(types[0], (TensorType, TileType))):
            return e
        (var,) = self.given_names(e, types if len(types) == 1 else (UNKNOWN,), node)
        return var

    def is_array(self, e: Expr, node: ast.expr) -> bool:
        """Is an operand a tensor or a tile, whole or computed by a call? A call that has no type is refused at ``node``."""
        if type(e) is not Call:
            return _is_array(e)
        types = self.results(e, node)
        return len(types) == 1 and isinstance(types[0], (TensorType, TileType))

    def given_names(self, e: Call, types: tuple[Type, ...], node: ast.expr | ast.stmt) -> tuple[Var, ...]:
        """The results of a nested call as values: it becomes a statement before the one being read."""
        variables = tuple([Var(self.names.fresh(e.op.rpartition(".")[2]), t) for t in types])
        self.pending.append(Assign(variables, e, self.source.loc(node)))
        return variables


def _is_array(e: Expr) -> bool:
    """Is this a tensor or a tile, whole or computed by a call?"""
    return isinstance(_type(e), (TensorType, TileType))


def _type(e: Expr) -> Type:
    """The type of an expression; unknown for a call that is carried along although the table has no type for it."""
    try:
        return ops.type_of(e)
    except ops.OpError:
        return UNKNOWN


_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


def folded(op: str, left: Const, right: Const) -> int | None:
    """The value of arithmetic on plain integers, as Python has it; None for any other, and beyond 64 bits."""
    a, b = left.value, right.value
    if op not in _FOLD or type(a) is not int or type(b) is not int or (left.dtype, right.dtype) != (None, None):
        return None
    if b == 0 and op in ("//", "%"):
        return None
    found = _FOLD[op](a, b)
    return found if -(1 << 63) <= found < 1 << 64 else None
