"""Operations on global-memory tensors that tile programs hold: element access, sizes, allocation."""

from __future__ import annotations

from cost.dtypes import INDEX
from ir_bridge.ir.nodes import Expr
from ir_bridge.ir.ops_registry import Arg, Effects, Kwargs, OpDef, dims, dtype_of, register, tensor_of
from ir_bridge.ir.ops_types import operand_type, scalar
from ir_bridge.ir.types import TensorType, Type


def _read(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    return (scalar(tensor_of("tensor.read", "the source", operand_type(args[0])).dtype),)


def _write(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    tensor_of("tensor.write", "the destination", operand_type(args[0]))
    return ()


def _dim(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    tensor_of("tensor.dim", "the tensor", operand_type(args[0]))
    return (scalar(INDEX),)


def _create(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    return (TensorType(dims("tensor.create", "shape", args[0]), dtype_of("tensor.create", "dtype", kw["dtype"])),)


_TENSOR = Arg("tensor")

register(
    OpDef(
        "tensor.read",
        (_TENSOR, Arg("indices", "list")),
        _read,
        "scalar",
        short="read",
        short_on="tensor",
        effects=Effects(reads=(0,)),
    )
)
register(
    OpDef(
        "tensor.write",
        (_TENSOR, Arg("indices", "list"), Arg("value")),
        _write,
        "scalar",
        short="write",
        short_on="tensor",
        effects=Effects(writes=(0,)),
    )
)
register(OpDef("tensor.dim", (_TENSOR, Arg("axis")), _dim, "scalar", short="dim", short_on="tensor"))
register(
    OpDef(
        "tensor.create",
        (Arg("shape", "list"),),
        _create,
        "memory",
        (Arg("dtype", "dtype"), Arg("layout", "literal", None)),
        short="create_tensor",
        short_on="any",
    )
)
