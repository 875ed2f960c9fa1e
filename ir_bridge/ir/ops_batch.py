"""Operations of multi-core batch programs: batches of a tensor as one matrix, and transfers of several matrices at a time.

A contiguous tensor [B, R, C] is the matrix [B·R, C] without a byte moved. MTE2's matrix transfer takes several matrices in one
command, each laid out in boxes of its own; FIXPIPE writes several equal blocks in one command. ``tile.load_stack`` and
``tile.store_diagonal`` say so (specification 3, "MergeBatch": [b, M, K] → [bM, K], BlockTrace).
"""

from __future__ import annotations

from ir_bridge.ir.nodes import Const, Expr
from ir_bridge.ir.ops_registry import (
    Arg,
    Effects,
    Kwargs,
    OpDef,
    OpError,
    dims,
    register,
    show,
    space_of,
    tensor_of,
    tile_of,
)
from ir_bridge.ir.ops_tensor import elements
from ir_bridge.ir.ops_types import check_valid, operand_type, valid_or_none
from ir_bridge.ir.types import PLAIN, Dim, Space, TensorType, TileType, Type, View


def _fold(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src = tensor_of("tensor.fold", "the source", operand_type(args[0]))
    shape = dims("tensor.fold", "shape", args[1])
    have, want = elements(src.shape), elements(shape)
    if have is not None and want is not None and have != want:
        raise OpError(f"tensor.fold: {show(src.shape)} and {show(shape)} hold different numbers of elements")
    return (TensorType(shape, src.dtype),)


def _three(op: str, name: str, e: Expr) -> tuple[Dim, Dim, Dim]:
    found = dims(op, name, e)
    if len(found) != 3:
        raise OpError(f"{op}: {name} must be [parts, rows, columns], not {show(found)}")
    return found[0], found[1], found[2]


def _number(op: str, name: str, d: Dim) -> int:
    if not isinstance(d, int):
        raise OpError(f"{op}: {name} must be a number")
    return d


def stack_type(tensor: TensorType, shape: tuple[int, int, int], valid: tuple[Dim, Dim, Dim], axis: int, space: Space) -> TileType:
    """The tile of ``shape[0]`` parts laid below one another (axis 0) or side by side (axis 1).

    Along the stacked axis everything is valid, padding being zero; along the other what every part holds.
    """
    parts, rows, columns = shape
    physical = (parts * rows, columns) if axis == 0 else (rows, parts * columns)
    inside: tuple[Dim, ...] = (physical[0], valid[2]) if axis == 0 else (valid[1], physical[1])
    narrowed = valid_or_none(physical, inside)
    if space is Space.MAT and physical[0] == 1:  # a bias row, as tile.load has it
        return TileType(physical, tensor.dtype, space, View(narrowed, blayout="row_major", slayout="none_box"))
    return TileType(physical, tensor.dtype, space, PLAIN if narrowed is None else View(narrowed))


def _load_stack(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tile.load_stack"
    tensor = tensor_of(op, "the source", operand_type(args[0]))
    if len(tensor.shape) != 2 or len(dims(op, "offsets", args[1])) != 2:
        raise OpError(f"{op}: the source must be a matrix, not {show(tensor.shape)}; fold its batches first")
    parts, rows, columns = _three(op, "shape", args[2])
    valid = _three(op, "valid_shape", args[3])
    check_valid(op, (parts, rows, columns), valid)
    shape = (_number(op, "parts", parts), _number(op, "rows", rows), _number(op, "columns", columns))
    axis = kw["axis"]
    if not isinstance(axis, Const) or axis.value not in (0, 1):
        raise OpError(f"{op}: axis must be 0 (below one another) or 1 (side by side)")
    return (stack_type(tensor, shape, valid, int(axis.value), space_of(op, "target_memory", kw["target_memory"])),)


def _store_diagonal(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tile.store_diagonal"
    tile = tile_of(op, "the source", operand_type(args[0]))
    tensor = tensor_of(op, "the destination", operand_type(args[2]))
    if len(tensor.shape) != 2 or len(tile.shape) != 2:
        raise OpError(f"{op}: source and destination must be matrices, not {show(tile.shape)} and {show(tensor.shape)}")
    _three(op, "blocks", args[3])
    if len(dims(op, "pitch", args[4])) != 2:
        raise OpError(f"{op}: pitch must be [rows, columns] from one block to the next")
    return (tensor,)


register(
    OpDef(
        "tensor.fold",
        (Arg("tensor"), Arg("shape", "list")),
        _fold,
        "view",
        short_on="tensor",
        effects=Effects(view=0),
    )
)
register(
    OpDef(
        "tile.load_stack",
        (
            Arg("tensor"),
            Arg("offsets", "list", aliases=("offset",)),
            Arg("shapes", "list", aliases=("shape",)),
            Arg("valid_shapes", "list", aliases=("valid_shape",)),
            Arg("pitch"),
        ),
        _load_stack,
        "transfer",
        (Arg("axis", "literal", 0, explicit=True), Arg("target_memory", "space", Space.MAT, explicit=True)),
        effects=Effects(reads=(0,)),
    )
)
register(
    OpDef(
        "tile.store_diagonal",
        (
            Arg("tile", spaces=(Space.ACC,)),
            Arg("offsets", "list", aliases=("offset",)),
            Arg("tensor"),
            Arg("blocks", "list"),
            Arg("pitch", "list"),
        ),
        _store_diagonal,
        "transfer",
        effects=Effects(writes=(2,)),
    )
)
