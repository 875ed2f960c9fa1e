"""One matrix product as lift sees it: operands, extents, and what is fetched once for all of its tiles."""

from __future__ import annotations

from dataclasses import dataclass

from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import ZERO, Assign, Call, Expr, Stmt, Var
from ir_bridge.ir.tile_types import extract_type, matmul_type
from ir_bridge.ir.types import Space, TileType
from ir_bridge.lift.emit import Emitter, LiftError, call_of, extents, items, plus, tile, var

#: Operations a product plan may speak of, and where their left operand stands.
PRODUCTS = {"tile.matmul": 0, "tile.matmul_acc": 1, "tile.matmul_bias": 0}


@dataclass(slots=True)
class BiasRow:
    """The bias of one product: ``resident`` in Bias, ``whole`` in Mat, or rebuilt window by window from its ``load``."""

    resident: Var | None = None
    whole: Var | None = None
    load: Call | None = None

    def window(self, e: Emitter, name: str, ni: Expr, cols: int) -> Var:
        """Bias values of the columns ``[ni, ni + cols)``, in Bias: loaded as ``[1, cols]`` and moved (pto.tload + pto.tmov)."""
        if self.resident is not None:
            return self.resident
        if self.load is None:
            assert self.whole is not None
            if tile(self.whole).shape[1] != cols:
                raise LiftError(
                    f"the bias {base_name(self.whole.name)!r} has no load beside its product to rebuild a window from"
                )
            return e.move(f"{name}_bias", self.whole, Space.BIAS)
        tensor, (row, col) = self.load.args[0], items(self.load.args[1])
        mat = e.load(f"{name}_bias_mat", tensor, (row, plus(col, ni)), (1, cols), (1, cols))
        return e.move(f"{name}_bias", mat, Space.BIAS)


@dataclass(slots=True)
class Product:
    """A product named ``name``, its physical extents in elements.

    ``acc`` and ``cond`` are the caller's accumulator and its overwrite predicate (matmul_acc), ``bias`` the bias (matmul_bias).
    """

    name: str
    left: Var
    right: Var
    M: int
    N: int
    K: int
    acc: Var | None = None
    cond: Expr | None = None
    bias: BiasRow | None = None

    def block_type(self, mi: int, ni: int, rows: int, cols: int) -> TileType:
        """The accumulator's type of one output block, its valid region that of the operands' windows."""
        left = extract_type(tile(self.left), mi, 0, (rows, self.K), Space.LEFT)
        right = extract_type(tile(self.right), 0, ni, (self.K, cols), Space.RIGHT)
        return matmul_type(left, right)

    def stage(self, e: Emitter) -> None:
        """Move a left operand in Vec to Mat, once (specification 1, "Vec 左操作数预存")."""
        if tile(self.left).space is Space.VEC:
            self.left = e.move(f"{self.name}_left", self.left, Space.MAT)

    def left_panel(self, e: Emitter, name: str, row: Expr, rows: int, ko: Expr, width: int) -> Var:
        """``left[row : row + rows, ko : ko + width]`` in Left."""
        return e.extract(f"{name}_a", self.left, row, ko, (rows, width), Space.LEFT)

    def right_panel(self, e: Emitter, name: str, ko: Expr, width: int, col: Expr, cols: int) -> Var:
        """``right[ko : ko + width, col : col + cols]`` in Right."""
        return e.extract(f"{name}_b", self.right, ko, col, (width, cols), Space.RIGHT)

    def bias_window(self, e: Emitter, name: str, col: Expr, cols: int) -> Var | None:
        """The bias of the columns ``[col, col + cols)``, or None for a product without bias."""
        return None if self.bias is None else self.bias.window(e, name, col, cols)

    def whole_k(self, e: Emitter, name: str, row: Expr, rows: int, col: Expr, cols: int) -> Var:
        """One output block whose K fits in one panel, as straight lines."""
        a = self.left_panel(e, name, row, rows, ZERO, self.K)
        b = self.right_panel(e, name, ZERO, self.K, col, cols)
        return e.matmul(f"{name}_c", a, b, self.bias_window(e, name, col, cols))


def product_of(stmt: Assign, before: list[Stmt], rebuild_bias: bool) -> Product:
    """Read a product statement.

    With ``rebuild_bias`` the load of a bias in Mat, which stands in ``before`` (the statements emitted so far in the same
    list), is taken out of it, to be rebuilt window by window.
    """
    call = call_of(stmt)
    at = PRODUCTS[call.op]
    left, right = var(call.args[at]), var(call.args[at + 1])
    (m, k), (_, n) = extents(tile(left)), extents(tile(right))
    p = Product(base_name(stmt.targets[0].name), left, right, m, n, k)
    if at == 1:
        p.acc = var(call.args[0])
        p.cond = call.args[3] if len(call.args) > 3 else None
    elif call.op == "tile.matmul_bias":
        p.bias = _bias_of(var(call.args[2]), before, rebuild_bias)
    return p


def _bias_of(bias: Var, before: list[Stmt], rebuild: bool) -> BiasRow:
    if tile(bias).space is Space.BIAS:
        return BiasRow(resident=bias)
    if rebuild:
        for i in range(len(before) - 1, -1, -1):
            s = before[i]
            if isinstance(s, Assign) and s.targets == (bias,) and isinstance(s.value, Call) and s.value.op == "tile.load":
                del before[i]
                return BiasRow(load=s.value)
    return BiasRow(whole=bias)
