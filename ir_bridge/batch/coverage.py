"""Does a multi-core program make every element of C, once, from exactly its own row, column and all of K?

The program is run on *provenance* instead of numbers. A cell knows which element of A, B or the bias it came from; a product's
cell knows its row of A, its column of B and a fingerprint of the K indices that were summed: every index has a fixed random
64-bit weight, so only 0 … K−1, each once, sum to the whole. Nothing of this is shared with the reference interpreter or the lift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost.batch.problem import BatchProblem
from cost.errors import TilesatError
from ir_bridge.ir.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Const,
    Expr,
    For,
    ListExpr,
    Pass,
    Program,
    Return,
    Stmt,
    Symbol,
    Var,
    Yield,
)
from ir_bridge.ir.types import TensorType

#: What a cell is: nobody wrote it, an element of A, B or the bias, zero, or a sum of products.
NOTHING, OF_A, OF_B, OF_BIAS, ZERO, SUM = range(6)
_WHAT = ("nothing", "an element of A", "an element of B", "an element of the bias", "zero", "a sum")
#: ``id``: flat index in A, B or bias; of a sum its ``row`` of A and ``column`` of B (folded over batches), the fingerprint
#: ``depth`` of its K indices, and how often which ``bias`` element was added.
CELL = np.dtype(
    [
        ("kind", np.uint8),
        ("id", np.int64),
        ("row", np.int64),
        ("column", np.int64),
        ("depth", np.uint64),
        ("biases", np.int16),
        ("bias", np.int64),
    ]
)
Cells = Any


class CoverageError(TilesatError):
    """A program that does not make C: an element missing, written twice, or summed from the wrong things."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a covering program does: elements of C, stores to each (1), and partial sums added to each in memory (0 without)."""

    elements: int
    stores: int
    atomic_adds: int


@dataclass(slots=True)
class _Tile:
    cells: Cells
    valid: tuple[int, int]

    @property
    def region(self) -> Cells:
        return self.cells[: self.valid[0], : self.valid[1]]


@dataclass(slots=True)
class _Tensor:
    """Cells of a tensor and the number of stores and atomic additions each has seen; views share them."""

    cells: Cells
    stores: Any
    adds: Any

    def view(self, shape: tuple[int, ...]) -> _Tensor:
        return _Tensor(self.cells.reshape(shape), self.stores.reshape(shape), self.adds.reshape(shape))


def check_coverage(program: Program, p: BatchProblem) -> Coverage:
    """Check ``program`` (as :func:`ir_bridge.batch.lift.lift_batch` writes them) against its problem.

    Raises :class:`CoverageError` naming the first element that is wrong and how.
    """
    (function,) = program.functions
    run = _Run(p)
    env: dict[Var, Any] = {param.var: run.parameter(param.var) for param in function.params}
    run.block(function.body, env)
    return _verdict(p, env[function.params[-1].var], run)


def _verdict(p: BatchProblem, c: _Tensor, run: _Run) -> Coverage:
    batch, m, n = np.indices((p.B, p.M, p.N))
    cells = c.cells
    wanted_bias = {None: 0 * n, "shared": n, "batched": batch * p.N + n}[p.bias]
    _demand(cells["kind"] == SUM if p.K else np.isin(cells["kind"], (SUM, ZERO)), cells, "holds {kind}, not a sum")
    _demand(c.stores == 1, cells, "is stored {stores} times, not once", stores=c.stores)
    if p.K:
        row = (batch if p.batch_a > 1 else 0) * p.M + m
        column = (batch if p.batch_b > 1 else 0) * p.N + n
        _demand(cells["row"] == row, cells, "comes from row {row} of A")
        _demand(cells["column"] == column, cells, "comes from column {column} of B")
        _demand(cells["depth"] == run.whole, cells, "does not sum every index of K once")
    _demand(cells["biases"] == (p.bias is not None), cells, "has the bias added {biases} times")
    _demand((cells["bias"] == wanted_bias) | (p.bias is None), cells, "has element {bias} of the bias added")
    return Coverage(cells.size, int(c.stores.max()), int(c.adds.max()))


def _demand(good: Any, cells: Cells, problem: str, **extra: Any) -> None:
    if np.all(good):
        return
    at = tuple(int(x) for x in np.argwhere(~good)[0])
    cell = cells[at]
    values = {name: cell[name] for name in cells.dtype.names} | {k: v[at] for k, v in extra.items()}
    values["kind"] = _WHAT[int(cell["kind"])]
    bad = int((~good).sum())
    raise CoverageError(f"C{list(at)} {problem.format(**values)} ({bad} of {good.size} elements)")


class _Run:
    """One run of a program on provenance."""

    def __init__(self, p: BatchProblem) -> None:
        self.p = p
        rng = np.random.default_rng(20_240_229)
        self.weight = rng.integers(1, 2**63, size=max(p.K, 1), dtype=np.uint64)
        self.whole = self.weight[: p.K].sum(dtype=np.uint64)

    # -- tensors -----------------------------------------------------------------------------------------------------

    def parameter(self, v: Var) -> _Tensor:
        assert isinstance(v.type, TensorType)
        shape = tuple(int(d) for d in v.type.shape if isinstance(d, int))
        tensor = self.memory(shape)
        kind = {"a": OF_A, "b": OF_B, "bias": OF_BIAS}.get(v.name)
        if kind is not None:
            tensor.cells["kind"] = kind
            tensor.cells["id"] = np.arange(tensor.cells.size).reshape(shape)
        return tensor

    def memory(self, shape: tuple[int, ...]) -> _Tensor:
        return _Tensor(np.zeros(shape, CELL), np.zeros(shape, np.int32), np.zeros(shape, np.int32))

    # -- statements --------------------------------------------------------------------------------------------------

    def block(self, block: Block, env: dict[Var, Any]) -> list[Any]:
        for s in block:
            given = self.statement(s, env)
            if given is not None:
                return given
        return []

    def statement(self, s: Stmt, env: dict[Var, Any]) -> list[Any] | None:
        if isinstance(s, Assign):
            env[s.target] = self.value(s.value, env)
        elif isinstance(s, For):
            self.loop(s, env)
        elif isinstance(s, (Yield, Return)):
            return [self.value(e, env) for e in s.values]
        elif not isinstance(s, Pass):
            raise CoverageError(f"coverage does not know statements of kind {type(s).__name__}")
        return None

    def loop(self, s: For, env: dict[Var, Any]) -> None:
        values = [self.value(e, env) for e in s.inits]
        start, stop, step = (self.value(e, env) for e in (s.start, s.stop, s.step))
        assert s.counter is not None
        for i in range(start, stop, step):
            env[s.counter] = i
            env.update(zip(s.carried, values, strict=True))
            values = self.block(s.body, env)
        env.update(zip(s.results, values, strict=True))

    def value(self, e: Expr, env: dict[Var, Any]) -> Any:
        if isinstance(e, Var):
            return env[e]
        if isinstance(e, Const):
            return e.value
        if isinstance(e, ListExpr):
            return tuple(self.value(x, env) for x in e.items)
        if isinstance(e, Binary):
            left, right = self.value(e.left, env), self.value(e.right, env)
            return _SCALAR[e.op](left, right)
        if isinstance(e, Call):
            return self.call(e, env)
        if isinstance(e, Symbol):
            return e.text
        raise CoverageError(f"coverage does not know expressions of kind {type(e).__name__}")

    def call(self, e: Call, env: dict[Var, Any]) -> Any:
        args = [self.value(a, env) for a in e.args]
        if e.op in ("min", "max"):
            return min(args) if e.op == "min" else max(args)
        operation = _OPERATIONS.get(e.op)
        if operation is None:
            raise CoverageError(f"coverage does not know {e.op}")
        return operation(self, args, {k: self.value(v, env) for k, v in e.kwargs})

    # -- products ----------------------------------------------------------------------------------------------------

    def left(self, cells: Cells) -> tuple[Any, Any]:
        """(row of A, K index) of cells of A; −1 where they are zero padding."""
        p = self.p
        ids = cells["id"]
        batch, inside = ids // max(p.M * p.K, 1), ids % max(p.M * p.K, 1)
        row, k = (inside % p.M, inside // p.M) if p.transpose_a else (inside // max(p.K, 1), inside % max(p.K, 1))
        return self.known(cells, OF_A, "a left operand", batch * p.M + row, k)

    def right(self, cells: Cells) -> tuple[Any, Any]:
        """(column of B, K index) of cells of B; −1 where they are zero padding."""
        p = self.p
        ids = cells["id"]
        batch, inside = ids // max(p.N * p.K, 1), ids % max(p.N * p.K, 1)
        k, column = (inside % max(p.K, 1), inside // max(p.K, 1)) if p.transpose_b else (inside // p.N, inside % p.N)
        return self.known(cells, OF_B, "a right operand", batch * p.N + column, k)

    def known(self, cells: Cells, kind: int, what: str, place: Any, k: Any) -> tuple[Any, Any]:
        mine = cells["kind"] == kind
        stray = ~mine & (cells["kind"] != ZERO)
        if stray.any():
            found = _WHAT[int(cells["kind"][stray][0])]
            raise CoverageError(f"{what} of a product holds {found}")
        return np.where(mine, place, -1), np.where(mine, k, -1)

    def product(self, left: _Tile, right: _Tile) -> Cells:
        m, k = left.valid
        n = right.valid[1]
        rows, left_k = self.left(left.cells[:m, :k])
        columns, right_k = self.right(right.cells[:k, :n])
        row, column = rows.max(axis=1, initial=-1), columns.max(axis=0, initial=-1)
        if ((rows != row[:, None]) & (rows >= 0)).any() or ((columns != column[None, :]) & (columns >= 0)).any():
            raise CoverageError("a row of a left operand, or a column of a right one, mixes several")
        depth_left, depth_right = left_k.max(axis=0, initial=-1), right_k.max(axis=1, initial=-1)
        uneven = ((left_k != depth_left[None, :]) & (left_k >= 0)).any() or (
            (right_k != depth_right[:, None]) & (right_k >= 0)
        ).any()
        if uneven or ((depth_left != depth_right) & (depth_left >= 0) & (depth_right >= 0)).any():
            raise CoverageError("a product multiplies different indices of K")
        weights = np.where(left_k >= 0, self.weight[np.maximum(left_k, 0)], np.uint64(0)).astype(np.uint64)
        out = np.zeros((m, n), CELL)
        out["kind"], out["row"], out["column"] = SUM, row[:, None], column[None, :]
        out["depth"] = weights @ (right_k >= 0).astype(np.uint64)
        return out


def _same_sum(a: Cells, b: Cells) -> None:
    if ((a["row"] != b["row"]) | (a["column"] != b["column"])).any():
        raise CoverageError("sums of different elements of C are added")


def _added(a: Cells, b: Cells) -> Cells:
    """Sums of the same elements, added. Where one of them is nothing (a padding column under a bias) so is the total."""
    nothing = (a["kind"] == NOTHING) | (b["kind"] == NOTHING)
    if not (nothing | ((a["kind"] == SUM) & (b["kind"] == SUM))).all():
        raise CoverageError("something that is no sum is added to a sum")
    if nothing.all():
        raise CoverageError("a product is added to an accumulator that nobody set")
    _same_sum(a[~nothing], b[~nothing])
    out = a.copy()
    out["kind"] = np.where(nothing, NOTHING, SUM)
    out["depth"] += b["depth"]
    out["biases"] += b["biases"]
    out["bias"] += b["bias"]
    return out


def _with_bias(cells: Cells, bias: Cells) -> Cells:
    """A bias row [1, n] added to every row."""
    if not np.isin(bias["kind"], (OF_BIAS, ZERO, NOTHING)).all():
        raise CoverageError("what is added as a bias is none")
    out = cells.copy()
    given = bias["kind"] == OF_BIAS
    out["kind"] = np.where(bias["kind"] == NOTHING, NOTHING, SUM)
    out["biases"] += given.astype(np.int16)
    out["bias"] += np.where(given, bias["id"], 0)
    return out


# -- operations ------------------------------------------------------------------------------------------------------


def _placed(cells: Cells, shape: tuple[int, ...]) -> _Tile:
    whole = np.zeros(shape, CELL)
    whole[: cells.shape[0], : cells.shape[1]] = cells
    return _Tile(whole, cells.shape)


def _window(cells: Cells, at: tuple[int, ...], size: tuple[int, ...]) -> Any:
    where = tuple(slice(o, o + s) for o, s in zip(at, size, strict=True))
    if any(o < 0 or o + s > e for o, s, e in zip(at, size, cells.shape, strict=True)):
        raise CoverageError(f"a window {list(size)} at {list(at)} reaches out of {list(cells.shape)}")
    return where


def _load(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tile:
    tensor, at, shape, valid = args
    return _placed(tensor.cells[_window(tensor.cells, at, valid)], shape)


def _load_stack(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tile:
    tensor, (row, col), (parts, rows, columns), (count, held, wide), pitch = args
    axis = kw["axis"]
    out = np.zeros((parts * rows, columns) if axis == 0 else (rows, parts * columns), CELL)
    out["kind"] = ZERO
    for i in range(count):
        r, c = (i * rows, 0) if axis == 0 else (0, i * columns)
        out[r : r + held, c : c + wide] = tensor.cells[_window(tensor.cells, (row + i * pitch, col), (held, wide))]
    return _Tile(out, (parts * rows, wide) if axis == 0 else (held, parts * columns))


def _extract(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tile:
    tile, row, col, shape = args
    cells = tile.cells[_window(tile.cells, (row, col), shape)].copy()
    rows, columns = (max(0, min(s, v - o)) for s, v, o in zip(shape, tile.valid, (row, col), strict=True))
    return _Tile(cells, (rows, columns))


def _matmul_acc(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tile:
    acc, left, right = args[:3]
    product = run.product(left, right)
    m, n = product.shape
    cells = acc.cells.copy()
    overwrites = len(args) > 3 and bool(args[3])
    cells[:m, :n] = product if overwrites else _added(cells[:m, :n], product)
    return _Tile(cells, acc.valid)


def _matmul_bias(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tile:
    left, right, bias = args
    product = run.product(left, right)
    return _placed(_with_bias(product, bias.cells[:1, : product.shape[1]]), (left.cells.shape[0], right.cells.shape[1]))


def _write(tensor: _Tensor, where: Any, cells: Cells, atomic: bool) -> None:
    if (cells["kind"] == NOTHING).any():
        raise CoverageError("a store writes what nobody computed")
    if not atomic:
        tensor.cells[where] = cells
        tensor.stores[where] += 1
        return
    before = tensor.cells[where].copy()
    cleared = (before["kind"] == ZERO) | ((before["kind"] == SUM) & (before["row"] < 0))
    if not (cleared | (before["kind"] == SUM)).all():
        raise CoverageError("an atomic addition finds memory that nobody cleared")
    for name in ("row", "column"):
        before[name] = np.where(cleared, cells[name], before[name])
    before["kind"] = SUM
    tensor.cells[where] = _added(before, cells)
    tensor.adds[where] += 1


def _store(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tensor:
    tile, at, tensor = args
    where = _window(tensor.cells, at, tile.valid)
    _write(tensor, where, tile.region, "atomic" in kw)
    return tensor  # type: ignore[no-any-return]


def _store_diagonal(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tensor:
    tile, (row, col), tensor, (blocks, rows, columns), (down, right) = args
    for i in range(blocks):
        block = tile.cells[_window(tile.cells, (i * down, i * right), (rows, columns))]
        _write(tensor, _window(tensor.cells, (row + i * rows, col), (rows, columns)), block, False)
    return tensor  # type: ignore[no-any-return]


def _full(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tile:
    if kw["value"] != 0:
        raise CoverageError("a fill is expected to be zero")
    cells = np.zeros(args[0], CELL)
    cells["kind"], cells["row"], cells["column"] = ZERO, -1, -1
    return _Tile(cells, args[0])


def _row_expand_mul(run: _Run, args: list[Any], kw: dict[str, Any]) -> _Tile:
    """B's rows times A's column, element by element (K = 1)."""
    tile, vector = args
    rows, columns = tile.valid
    column, right_k = run.right(tile.region)
    row, left_k = run.left(vector.cells[:rows, :1])
    if (right_k != left_k).any():
        raise CoverageError("a product multiplies different indices of K")
    out = np.zeros((rows, columns), CELL)
    out["kind"], out["row"], out["column"], out["depth"] = SUM, row, column, run.weight[right_k]
    return _placed(out, tile.cells.shape)


_SCALAR: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "==": lambda a, b: a == b,
    "and": lambda a, b: a and b,
}
_Operation = Callable[[_Run, list[Any], dict[str, Any]], Any]
_OPERATIONS: dict[str, _Operation] = {
    "tensor.fold": lambda run, a, kw: a[0].view(a[1]),
    "tensor.create": lambda run, a, kw: run.memory(a[0]),
    "tile.load": _load,
    "tile.load_stack": _load_stack,
    "tile.create": lambda run, a, kw: _Tile(np.zeros(a[0], CELL), a[0]),
    "tile.set_validshape": lambda run, a, kw: _Tile(a[0].cells, (a[1], a[2])),
    "tile.transpose_view": lambda run, a, kw: _Tile(a[0].cells.T, a[0].valid[::-1]),
    "tile.extract": _extract,
    "tile.matmul": lambda run, a, kw: _placed(run.product(*a), (a[0].cells.shape[0], a[1].cells.shape[1])),
    "tile.matmul_acc": _matmul_acc,
    "tile.matmul_bias": _matmul_bias,
    "tile.store": _store,
    "tile.store_diagonal": _store_diagonal,
    "tile.full": _full,
    "tile.cast": lambda run, a, kw: a[0],
    "tile.add": lambda run, a, kw: _placed(_added(a[0].region, a[1].region), a[0].cells.shape),
    "tile.col_expand": lambda run, a, kw: _placed(np.broadcast_to(a[1].cells[:1, : a[0].valid[1]], a[0].valid), a[0].cells.shape),
    "tile.col_expand_add": lambda run, a, kw: _placed(_with_bias(a[0].region, a[1].cells[:1, : a[0].valid[1]]), a[0].cells.shape),
    "tile.row_expand_mul": _row_expand_mul,
}
