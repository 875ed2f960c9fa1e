"""Tile operations of the cube core: transfers between memories, products, views (facts/pypto_syntax.md, "Operations on tiles").

A type rule reads a call's operands, refuses what does not go together, and asks :mod:`ir_bridge.ir.tile_types` for the result.
"""

from __future__ import annotations

from ir_bridge.ir.nodes import Const, Expr
from ir_bridge.ir.ops_registry import (
    Arg,
    Effects,
    Kwargs,
    OpDef,
    OpError,
    as_dim,
    dims,
    dtype_of,
    register,
    show,
    space_of,
    tensor_of,
    tile_of,
)
from ir_bridge.ir.ops_types import check_valid, check_window, is_narrowed, operand_type, same_dim
from ir_bridge.ir.tile_types import (
    cast_type,
    create_type,
    extract_type,
    load_type,
    matmul_type,
    move_type,
    narrowing_allowed,
    set_validshape_type,
    slice_type,
    transpose_view_type,
)
from ir_bridge.ir.types import Space, TensorType, TileType, Type

CAST_MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")


# -- checks of operands ------------------------------------------------------------------------------------------------


def _matrix(op: str, name: str, e: Expr) -> TileType:
    t = tile_of(op, name, operand_type(e))
    if len(t.shape) != 2:
        raise OpError(f"{op}: {name} must be a 2-D tile, not {show(t.shape)}")
    return t


def _product(op: str, left: Expr, right: Expr) -> tuple[TileType, TileType]:
    """The operands of a matrix product; their element types and K must agree."""
    a, b = _matrix(op, "the left operand", left), _matrix(op, "the right operand", right)
    if a.dtype != b.dtype:
        raise OpError(f"{op}: operands have different element types, {a.dtype.name} and {b.dtype.name}")
    if not same_dim(a.shape[1], b.shape[0]):
        raise OpError(
            f"{op}: operands disagree on K: left {show(a.shape)}, right {show(b.shape)}; "
            "the left one's columns must equal the right one's rows"
        )
    return a, b


def _accumulates(op: str, name: str, t: TileType, product: TileType) -> None:
    """``t`` must be what the product accumulates into: its shape and element type."""
    if len(t.shape) != 2 or not all(same_dim(p, q) for p, q in zip(t.shape, product.shape, strict=True)):
        raise OpError(f"{op}: {name} is {show(t.shape)}, the product {show(product.shape)}")
    if t.dtype != product.dtype:
        raise OpError(f"{op}: {name} holds {t.dtype.name}, the product {product.dtype.name}")


# -- rules: a call's operands in, types out --------------------------------------------------------------------------------------


def _load(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    tensor = tensor_of("tile.load", "the source", operand_type(args[0]))
    offsets, shape, valid = (dims("tile.load", n, e) for n, e in zip(("offsets", "shape", "valid_shape"), args[1:4], strict=True))
    check_valid("tile.load", shape, valid)
    if len(offsets) != len(tensor.shape):
        raise OpError(f"tile.load: {len(offsets)} offsets into a tensor of rank {len(tensor.shape)}")
    if len(shape) == len(tensor.shape):
        check_window("tile.load", tensor.shape, offsets, valid)
    return (load_type(tensor, shape, valid, space_of("tile.load", "target_memory", kw["target_memory"])),)


def _create(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    shape = dims("tile.create", "shape", args[0])
    if not all(isinstance(d, int) for d in shape):
        raise OpError(f"tile.create: the shape must be static, not {show(shape)}; narrow the tile with set_validshape instead")
    dtype = dtype_of("tile.create", "dtype", kw["dtype"])
    compact, transpose = (isinstance(v, Const) and bool(v.value) for v in (kw.get("compact"), kw.get("transpose")))
    space = space_of("tile.create", "target_memory", kw["target_memory"])
    return (create_type(shape, dtype, space, compact, transpose),)


def _extract(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = _matrix("tile.extract", "the source", args[0])
    row, col = as_dim(args[1]), as_dim(args[2])
    shape = dims("tile.extract", "shape", args[3])
    check_window("tile.extract", src.shape, (row, col), shape)
    return (extract_type(src, row, col, shape, space_of("tile.extract", "target_memory", kw["target_memory"])),)


def _move(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tile_of("tile.move", "the source", operand_type(args[0]))
    return (move_type(src, space_of("tile.move", "target_memory", kw["target_memory"])),)


def _matmul(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    return (matmul_type(*_product("tile.matmul", args[0], args[1])),)


def _matmul_acc(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    acc = tile_of("tile.matmul_acc", "the accumulator", operand_type(args[0]))
    product = matmul_type(*_product("tile.matmul_acc", args[1], args[2]))
    _accumulates("tile.matmul_acc", "the accumulator", acc, product)
    return (acc,)


def _matmul_bias(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    product = matmul_type(*_product("tile.matmul_bias", args[0], args[1]))
    bias = tile_of("tile.matmul_bias", "the bias", operand_type(args[2]))
    n = product.shape[1]
    if len(bias.shape) != 2 or bias.shape[0] != 1 or not same_dim(bias.shape[1], n):
        raise OpError(f"tile.matmul_bias: the bias is {show(bias.shape)}, expected {show((1, n))}")
    return (product,)


def _cast(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tile_of("tile.cast", "the source", operand_type(args[0]))
    dtype = dtype_of("tile.cast", "target_type", kw["target_type"])
    mode = kw["mode"]
    if not isinstance(mode, Const) or mode.value not in CAST_MODES:
        given = mode.value if isinstance(mode, Const) else "an expression"
        raise OpError(f"tile.cast: unknown mode {given!r}; known: {', '.join(CAST_MODES)}")
    if dtype == src.dtype:
        raise OpError(f"tile.cast: the source already holds {dtype.name}; drop the cast")
    return (cast_type(src, dtype),)


def _assemble(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    dst = tile_of("tile.assemble", "the destination", operand_type(args[0]))
    src = tile_of("tile.assemble", "the source", operand_type(args[1]))
    check_window("tile.assemble", dst.shape, dims("tile.assemble", "offset", args[2]), src.valid)
    if not narrowing_allowed(src.dtype, dst.dtype):
        raise OpError(
            f"tile.assemble: {src.dtype.name} does not go into {dst.dtype.name}; "
            "element types must be equal, or fp32 into bf16/fp16"
        )
    return (dst,)


def _store(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    tile_of("tile.store", "the source", operand_type(args[0]))
    tensor = operand_type(args[2])
    if not isinstance(tensor, TensorType):
        tensor_of("tile.store", "the destination", tensor)
    return (tensor,)


def _set_validshape(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = _matrix("tile.set_validshape", "the source", args[0])
    valid = (as_dim(args[1]), as_dim(args[2]))
    check_valid("tile.set_validshape", src.shape, valid)
    return (set_validshape_type(src, valid),)


def _transpose_view(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tile_of("tile.transpose_view", "the source", operand_type(args[0]))
    if len(src.shape) < 2:
        raise OpError(f"tile.transpose_view: the source must have two dimensions, not {show(src.shape)}")
    return (transpose_view_type(src),)


def _slice(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tile_of("tile.slice", "the source", operand_type(args[0]))
    shape, offset = dims("tile.slice", "shape", args[1]), dims("tile.slice", "offset", args[2])
    valid = dims("tile.slice", "valid_shape", args[3]) if len(args) > 3 else None
    check_window("tile.slice", src.shape, offset, shape if valid is None else valid)
    if valid is not None:
        check_valid("tile.slice", shape, valid)
    return (slice_type(src, shape, offset, valid),)


def _reshape(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tile_of("tile.reshape", "the source", operand_type(args[0]))
    shape = dims("tile.reshape", "shape", args[1])
    if is_narrowed(src):
        raise OpError(f"tile.reshape: the source is valid only in {show(src.valid)} of {show(src.shape)}; reshape whole tiles")
    result = TileType(shape, src.dtype, src.space)
    if src.static and result.static and src.elements() != result.elements():
        raise OpError(f"tile.reshape: {show(src.shape)} and {show(shape)} hold different numbers of elements")
    return (result,)


# -- the table ------------------------------------------------------------------------------------------

#: Where a matrix operand may be at the L0 tiling step; it ends in the first one. A product that still stands in Acc
#: crosses over when spaces are inferred, after tiling.
_LEFT = (Space.LEFT, Space.MAT, Space.VEC, Space.ACC)
_RIGHT = (Space.RIGHT, Space.MAT, Space.ACC)
_BIAS = (Space.BIAS, Space.MAT)
_ACC = (Space.ACC,)
_OFFSETS = ("offset",)
_TARGET = Arg("target_memory", "space", aliases=("target_space",))


def _target(default: Space | None) -> Arg:
    return _TARGET if default is None else Arg("target_memory", "space", default, explicit=True)


_LEFT_ARG = Arg("lhs", spaces=_LEFT, aliases=("left",))
_RIGHT_ARG = Arg("rhs", spaces=_RIGHT, aliases=("right",))

register(
    OpDef(
        "tile.load",
        (
            Arg("tensor"),
            Arg("offsets", "list", aliases=_OFFSETS),
            Arg("shapes", "list", aliases=("shape",)),
            Arg("valid_shapes", "list", "=shapes", explicit=True, aliases=("valid_shape",)),
        ),
        _load,
        "transfer",
        (_target(Space.VEC),),
        short="load",
        short_on="any",
        effects=Effects(reads=(0,)),
    )
)
register(
    OpDef(
        "tile.create",
        (Arg("shape", "list", aliases=("shapes",)),),
        _create,
        "memory",
        (Arg("dtype", "dtype"), _target(Space.VEC), Arg("compact", "literal", False), Arg("transpose", "literal", False)),
        short="create_tile",
        short_on="any",
    )
)
register(
    OpDef(
        "tile.extract",
        (
            Arg("src"),
            Arg("row", aliases=("index_row",)),
            Arg("col", aliases=("index_col",)),
            Arg("shape", "list", aliases=("shapes",)),
        ),
        _extract,
        "transfer",
        (_target(None),),
        short="extract",
    )
)
register(OpDef("tile.move", (Arg("tile"),), _move, "transfer", (_target(None),), short="move"))
register(OpDef("tile.matmul", (_LEFT_ARG, _RIGHT_ARG), _matmul, "cube", short="matmul"))
register(
    OpDef(
        "tile.matmul_acc",
        (Arg("acc", spaces=_ACC), _LEFT_ARG, _RIGHT_ARG, Arg("init_cond", default=None)),
        _matmul_acc,
        "cube",
        short="matmul_acc",
        effects=Effects(in_place=0),
    )
)
register(
    OpDef(
        "tile.matmul_bias",
        (_LEFT_ARG, _RIGHT_ARG, Arg("bias", spaces=_BIAS)),
        _matmul_bias,
        "cube",
        short="matmul_bias",
    )
)
register(
    OpDef(
        "tile.cast",
        (Arg("tile", spaces=(Space.VEC, Space.ACC)),),
        _cast,
        "vector",
        (Arg("target_type", "dtype"), Arg("mode", "literal", "round", explicit=True)),
        short="cast",
    )
)
register(
    OpDef(
        "tile.assemble",
        (Arg("dst"), Arg("src"), Arg("offset", "list", aliases=("offsets",))),
        _assemble,
        "transfer",
        short="assemble",
        effects=Effects(in_place=0),
    )
)
register(
    OpDef(
        "tile.store",
        (
            Arg("tile", spaces=(Space.VEC, Space.ACC)),
            Arg("offsets", "list", aliases=_OFFSETS),
            Arg("tensor", aliases=("output_tensor",)),
            Arg("shapes", "list", None, aliases=("shape",)),
        ),
        _store,
        "transfer",
        (Arg("atomic", "literal", None),),
        short="store",
        effects=Effects(writes=(2,)),
    )
)
register(
    OpDef(
        "tile.set_validshape",
        (Arg("tile"), Arg("rows", aliases=("valid_rows",)), Arg("cols", aliases=("valid_cols",))),
        _set_validshape,
        "view",
        short="set_validshape",
        effects=Effects(view=0),
    )
)
register(OpDef("tile.transpose_view", (Arg("tile"),), _transpose_view, "view", short="transpose_view", effects=Effects(view=0)))
register(
    OpDef(
        "tile.slice",
        (
            Arg("tile", aliases=("src",)),
            Arg("shape", "list"),
            Arg("offset", "list", aliases=("offsets",)),
            Arg("valid_shape", "list", None),
        ),
        _slice,
        "view",
        short="slice",
        effects=Effects(view=0),
    )
)
register(OpDef("tile.reshape", (Arg("tile"), Arg("shape", "list")), _reshape, "view", short="reshape", effects=Effects(view=0)))
