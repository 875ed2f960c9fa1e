"""Conversions of scatters and gathers, and of the boundary of a vector split."""

from __future__ import annotations

from cost.dtypes import DTYPES, INDEX, INT32, DType
from ir_bridge.convert.emitter import Emitter, constant
from ir_bridge.convert.ops_elementwise import one, select_scratch, static, tile_type, zero
from ir_bridge.convert.registry import Input, Site, conversion
from ir_bridge.convert.spaces import operand_space
from ir_bridge.ir.nodes import ONE, ZERO, Assign, Binary, Const, Expr, For, LoopKind, Stmt, Var, Yield
from ir_bridge.ir.ops import as_expr, make, type_of
from ir_bridge.ir.ops_registry import space_of
from ir_bridge.ir.ops_types import is_narrowed, scalar
from ir_bridge.ir.types import Dim, Space, TensorType, TileType

_INT16 = DTYPES["int16"]


def _int32(value: int) -> Const:
    return Const(value, INT32)


# -- scatter_update ----------------------------------------------------------------------------------------------------


@conversion(
    "tensor.scatter_update",
    inputs=(
        Input(0, operand_space(("tile.sel",), 2)),
        Input(2, operand_space(("tile.muls",), 0)),
        Input(3, operand_space(("tile.scatter",), 1)),
    ),
)
def _scatter_update(b: Emitter, s: Site) -> Expr:
    """Scatter rows, and a mask of ones, by flat index into zeros; then select: a scatter keeps nothing of its destination."""
    base, _, index, src = s.args
    m, d = static(b, s.call.op, tile_type(base).shape)
    n = static(b, s.call.op, tile_type(src).shape)[0]
    t = tile_type(base)
    flat = _narrowed_index(b, t.dtype, _row_index(b, index, n, d))
    values = b.emit("tile.full", [m, d], dtype=t.dtype, value=zero(t), name="su_v0")
    scattered = b.emit("tile.scatter", values, src, flat, name="su_vals")
    blank = b.emit("tile.full", [m, d], dtype=t.dtype, value=zero(t), name="su_m0")
    ones = b.emit("tile.full", [n, d], dtype=t.dtype, value=one(t), name="su_ones")
    mask = b.emit("tile.scatter", blank, ones, flat, name="su_mask")
    pred = b.emit("tile.cmps", mask, zero(t), cmp_type=1, name="su_pred")
    return b.emit("tile.sel", pred, scattered, base, select_scratch(b, "su_tmp"), name=s.name)


def _row_index(b: Emitter, index: Expr, n: int, d: int) -> Var:
    """``flat[k, c] = index.flat[k] * d + c``, in int32 throughout."""
    t = tile_type(index)
    if t.dtype != INT32:
        raise b.refusal(f"a row index of {t.dtype.name}", "give the index as pl.INT32")
    col = b.emit("tile.ci", _int32(0), [1, d], dtype=INT32, descending=False, name="su_col")
    template = b.emit("tile.full", [n, d], dtype=INT32, value=0, name="su_tmpl")
    columns = b.emit("tile.col_expand", template, col, name="su_col_nd")
    rows = b.emit("tile.reshape", index, [n, 1], name="su_idx_flat")
    base = b.emit("tile.muls", rows, _int32(d), name="su_row_base")
    return b.emit("tile.row_expand_add", columns, base, name="su_flat_idx")


def _narrowed_index(b: Emitter, data: DType, flat: Var) -> Var:
    """The finished flat index in the width that the scatter takes: int16 for elements of two bytes."""
    if data.bits == 32:
        return flat
    if data.bits != 16:
        raise b.refusal(f"scatter_update of {data.name} elements", "cast to an element type of two or four bytes first")
    return b.emit("tile.cast", flat, target_type=_INT16, mode="round", name="su_flat_idx16")


# -- gather ------------------------------------------------------------------------------------------------------------


@conversion("tensor.gather", memory=(0,))
def _gather(b: Emitter, s: Site) -> Expr:
    """By flat index; an index along one dimension is made flat first."""
    source, index = s.args[0], s.args[1]
    if isinstance(source, Var) and isinstance(source.type, TileType):
        source = b.trimmed(source, _shape_of(s.call.args[0]))  # flat indices count its logical rows
    dim = s.call.kwarg("dim")
    if dim is not None:
        axis = constant(dim)
        assert isinstance(axis, int)
        index = _flat_index(b, s, source, index, axis)
    if isinstance(type_of(source), TileType):
        return _gather_on_chip(b, s, source, index)
    return b.emit("tile.mgather", source, index, coalesce="elem", name=s.name)


def _gather_on_chip(b: Emitter, s: Site, source: Expr, index: Expr) -> Expr:
    compact = _compacted(b, s, source)
    t = tile_type(index)
    scratch = b.emit("tile.create", static(b, s.call.op, t.shape), dtype=INT32, target_memory=Space.VEC, name=f"{s.name}_tmp")
    if is_narrowed(t):
        scratch = b.emit("tile.set_validshape", scratch, *t.valid, name=f"{s.name}_tmp_valid")
    found = b.emit("tile.gather", compact, index, scratch, name=s.name if not is_narrowed(t) else f"{s.name}_all")
    return b.emit("tile.set_validshape", found, *t.valid, name=s.name) if is_narrowed(t) else found


def _compacted(b: Emitter, s: Site, source: Expr) -> Expr:
    """The source with its rows packed: itself where that is proven, else a copy (integers can't be extracted on a2a3)."""
    if isinstance(source, Var) and b.is_packed(source):
        return source
    t = tile_type(source)
    if t.dtype.is_float:
        return b.emit("tile.extract", source, 0, 0, list(t.shape), target_memory=Space.VEC, name=f"{s.name}_packed")
    return b.emit("tile.adds", source, 0, name=f"{s.name}_packed")


def _flat_index(b: Emitter, s: Site, source: Expr, index: Expr, dim: int) -> Expr:
    """``index[i, j]`` along a dimension as a flat index of the source: ``i * C + index`` or ``index * C + j``."""
    t, shape = tile_type(index), _shape_of(source)
    if len(shape) != 2:
        raise b.refusal(
            f"pl.gather along a dimension of a tensor of rank {len(shape)}", "reshape the source and the index to 2-D"
        )
    if t.dtype != INT32:
        raise b.refusal(f"pl.gather by an index of {t.dtype.name}", "give the index as pl.INT32")
    rows, cols = static(b, s.call.op, t.shape)
    width = static(b, s.call.op, shape)[1]
    if dim % 2 == 1:
        line = b.emit("tile.ci", _int32(0), [1, rows], dtype=INT32, descending=False, name=f"{s.name}_row")
        column = b.emit("tile.reshape", line, [rows, 1], name=f"{s.name}_row_n1")
        base = b.emit("tile.muls", column, _int32(width), name=f"{s.name}_row_base")
        return b.emit("tile.row_expand_add", index, base, name=f"{s.name}_flat")
    scaled = b.emit("tile.muls", index, _int32(width), name=f"{s.name}_scaled")
    line = b.emit("tile.ci", _int32(0), [1, cols], dtype=INT32, descending=False, name=f"{s.name}_col")
    return b.emit("tile.col_expand_add", scaled, line, name=f"{s.name}_flat")


def _shape_of(e: Expr) -> tuple[Dim, ...]:
    t = type_of(e)
    assert isinstance(t, (TensorType, TileType))
    return t.shape


# -- gathers of rows out of global memory ------------------------------------------------------------------------------


@conversion("tensor.paged_gather", memory=(0, 1, 2))
def _paged_gather(b: Emitter, s: Site) -> Expr:
    """A loop that copies one physical row a time from global memory into the tile that is being filled."""
    source, indices, table = s.args
    for name, e in (("source", source), ("indices", indices), ("block table", table)):
        if isinstance(type_of(e), TileType):
            raise b.refusal(f"pl.paged_gather whose {name} is computed on chip", "pass it as a parameter in global memory")
    kw = dict(s.call.kwargs)
    rows, cols = constant(kw["max_indices"]), constant(kw["size"])
    trans = bool(constant(kw.get("is_trans")))
    space = Space.MAT if "target_memory" not in kw else space_of(s.call.op, "target_memory", kw["target_memory"])
    if trans and space is not Space.MAT:
        raise b.refusal("pl.paged_gather with is_trans=True into Vec", "gather into pl.Mem.Mat, or transpose the result")
    shape = [cols, rows] if trans else [rows, cols]
    extra = {"transpose": True} if trans else {}
    dtype = source.type.dtype  # type: ignore[union-attr]
    acc = b.emit("tile.create", shape, dtype=dtype, target_memory=space, name=f"{s.name}_acc", **extra)
    return _row_loop(b, s, acc, block=constant(kw["block_size"]), offset=kw.get("offset", ZERO), trans=trans)


def _row_loop(b: Emitter, s: Site, acc: Var, *, block: object, offset: Expr, trans: bool) -> Var:
    source, indices, table = s.args
    last = len(_shape_of(indices)) - 1
    count = Var("rows", scalar(INDEX))
    b.out.append(Assign((count,), make("tensor.dim", indices, last), b.loc))
    i, carried, result = Var("i", scalar(INDEX)), Var(acc.name, acc.type), Var(s.name, acc.type)
    idx, phys = Var("idx", scalar(INT32)), Var("phys", scalar(INT32))
    width = as_expr(block)
    body: list[Stmt] = [
        Assign((idx,), make("tensor.read", indices, [*([0] * last), i]), b.loc),
        Assign(
            (phys,),
            Binary(
                "+",
                Binary("*", make("tensor.read", table, _entry(table, Binary("//", idx, width))), width),
                Binary("%", idx, width),
            ),
            b.loc,
        ),
    ]
    size = acc.type.shape[0 if trans else 1]  # type: ignore[union-attr]
    extra = {"transpose": True} if trans else {}
    call = make("tile.gather_row", carried, source, [0, i] if trans else [i, 0], [phys, offset], [1, size], **extra)
    step = Var(f"{s.name}_row", acc.type)
    body += [Assign((step,), call, b.loc), Yield((step,), b.loc)]
    b.out.append(For(LoopKind.RANGE, i, ZERO, count, ONE, tuple(body), (carried,), (acc,), (result,), loc=b.loc))
    return result


def _entry(table: Expr, page: Expr) -> list[object]:
    return [*([0] * (len(_shape_of(table)) - 1)), page]


@conversion("tensor.gather_row", memory=(0, 1))
def _gather_row(b: Emitter, s: Site) -> Expr:
    """One window of rows that the caller addresses, copied from global memory into the tile."""
    acc, source = s.args[0], s.args[1]
    if not isinstance(type_of(acc), TileType):
        raise b.refusal("pl.gather_row into global memory", "gather into a tile made with pl.create_l1")
    if isinstance(type_of(source), TileType):
        raise b.refusal("pl.gather_row from a value computed on chip", "gather from a parameter in global memory")
    valid = s.call.kwarg("valid_shape")
    more = () if valid is None else (b.scalar(valid),)
    extra = {"transpose": True} if constant(s.call.kwarg("transpose")) else {}
    return b.emit("tile.gather_row", acc, source, *[b.scalar(a) for a in s.args[2:5]], *more, name=s.name, **extra)


# -- the boundary of a vector split ------------------------------------------------------------------------------------


def _boundary(name: str) -> None:
    @conversion(f"tensor.{name}", memory=(0,))
    def rule(b: Emitter, s: Site) -> Expr:
        """The tile operation of the same name, which is the transfer itself: nothing is loaded for it."""
        if not isinstance(type_of(s.args[0]), TileType):
            raise b.refusal(
                f"pl.{name} of a tensor in global memory", "slice the tensor for each lane, or split a computed value"
            )
        shape = _shape_of(s.call.args[0])
        if _shape_of(s.args[0]) != shape:
            raise b.refusal(
                f"pl.{name} of a product that is no whole number of fractals, {list(shape)}",
                "pad its operands to multiples of 16 rows and columns",
            )
        return b.emit(f"tile.{name}", s.args[0], split=s.call.kwarg("split"), name=s.name)


for _name in ("aiv_shard", "aic_gather"):
    _boundary(_name)
