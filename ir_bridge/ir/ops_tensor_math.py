"""Computing operations on tensors: products, elementwise arithmetic, reductions, selection, gathers (specification 2).

A tensor operation says what is computed and nothing of where: its type rule gives shape and element type, and conversion
chooses tiles and memory spaces. An axis of one element stretches over the other operand's, as in numpy.
"""

from __future__ import annotations

from cost.dtypes import INT32, DType, accumulator
from ir_bridge.ir.nodes import Const, Expr
from ir_bridge.ir.ops_registry import Arg, Effects, Kwargs, OpDef, OpError, TypeRule, dims, dtype_of, number, register, show
from ir_bridge.ir.ops_tensor import computed, elements, tensor_operand
from ir_bridge.ir.ops_tile import CAST_MODES
from ir_bridge.ir.ops_types import operand_type, same_dim
from ir_bridge.ir.types import Dim, ScalarType, TensorType, Type


def flag(kw: Kwargs, name: str) -> bool:
    """A literal keyword that is True; absent means False."""
    value = kw.get(name)
    return isinstance(value, Const) and bool(value.value)


def broadcast(op: str, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of an elementwise result; both operands have one rank, and an axis of one element stretches."""
    if len(a) != len(b):
        raise OpError(f"{op}: operands have shapes {show(a)} and {show(b)}; reshape one so that the ranks agree")
    out: list[Dim] = []
    for p, q in zip(a, b, strict=True):
        if not same_dim(p, q) and 1 not in (p, q):
            raise OpError(f"{op}: operands have shapes {show(a)} and {show(b)}")
        out.append(q if p == 1 else p)
    return tuple(out)


def _same_elements(op: str, a: TensorType, b: TensorType) -> None:
    if a.dtype != b.dtype:
        raise OpError(f"{op}: operands hold {a.dtype.name} and {b.dtype.name}; cast one of them")


# -- products ----------------------------------------------------------------------------------------------------------


def product_dtype(operand: DType, out: DType | None) -> DType:
    """The element type of ``tensor.matmul``: ``out_dtype``, else the operands' own (int32 for integers)."""
    if out is not None:
        return out
    return operand if operand.is_float else INT32


def product_shape(op: str, a: tuple[Dim, ...], b: tuple[Dim, ...], kw: Kwargs) -> tuple[Dim, ...]:
    """[..., M, N] of a product; leading axes stretch as in numpy, and the inner extents must agree."""
    if len(a) < 2 or len(b) < 2:
        raise OpError(f"{op}: operands must have two dimensions or more, not {show(a)} and {show(b)}")
    m, k = a[-2:][::-1] if flag(kw, "a_trans") else a[-2:]
    k2, n = b[-2:][::-1] if flag(kw, "b_trans") else b[-2:]
    if not same_dim(k, k2):
        raise OpError(f"{op}: operands disagree on K: {k} against {k2} ({show(a)} and {show(b)})")
    lead_a, lead_b = a[:-2], b[:-2]
    rank = max(len(lead_a), len(lead_b))
    ones: tuple[Dim, ...] = (1,)
    lead = broadcast(op, ones * (rank - len(lead_a)) + lead_a, ones * (rank - len(lead_b)) + lead_b)
    return (*lead, m, n)


def _operands(op: str, a: Expr, b: Expr) -> tuple[TensorType, TensorType]:
    left, right = tensor_operand(op, "the left operand", a), tensor_operand(op, "the right operand", b)
    _same_elements(op, left, right)
    return left, right


def _matmul(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tensor.matmul"
    left, right = _operands(op, args[0], args[1])
    out = kw.get("out_dtype")
    dtype = product_dtype(left.dtype, None if out is None else dtype_of(op, "out_dtype", out))
    return (TensorType(product_shape(op, left.shape, right.shape, kw), dtype),)


def _matmul_acc(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tensor.matmul_acc"
    acc = tensor_operand(op, "the accumulator", args[0])
    left, right = _operands(op, args[1], args[2])
    shape = product_shape(op, left.shape, right.shape, kw)
    if len(shape) != len(acc.shape) or not all(same_dim(p, q) for p, q in zip(shape, acc.shape, strict=True)):
        raise OpError(f"{op}: the accumulator is {show(acc.shape)}, the product {show(shape)}")
    if acc.dtype != accumulator(left.dtype):
        raise OpError(
            f"{op}: the accumulator holds {acc.dtype.name}, products of {left.dtype.name} are summed in "
            f"{accumulator(left.dtype).name}; create it with that element type"
        )
    return (acc,)


# -- elementwise, reductions -------------------------------------------------------------------------------------------


def _binary(op: str) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        a, second = tensor_operand(op, "the first operand", args[0]), operand_type(args[1])
        if not isinstance(second, TensorType):
            if not isinstance(second, ScalarType):
                raise OpError(f"{op}: the second operand must be a tensor or a scalar")
            return (computed(a),)
        _same_elements(op, a, second)
        shape = broadcast(op, a.shape, second.shape)
        return (computed(a) if shape == a.shape else TensorType(shape, a.dtype),)

    return rule


def _unary(op: str) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        return (computed(tensor_operand(op, "the operand", args[0])),)

    return rule


def _reduce(op: str, axis: int) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        a = tensor_operand(op, "the operand", args[0])
        if len(a.shape) < 2:
            raise OpError(f"{op}: the operand must have two dimensions, not {show(a.shape)}")
        shape = list(a.shape)
        shape[axis] = 1
        return (TensorType(tuple(shape), a.dtype),)

    return rule


def _expand(op: str, axis: int) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        a, v = tensor_operand(op, "the tensor", args[0]), tensor_operand(op, "the vector", args[1])
        _same_elements(op, a, v)
        fits = len(v.shape) == len(a.shape) and all(
            d == 1 if i == axis % len(a.shape) else same_dim(d, p) for i, (d, p) in enumerate(zip(v.shape, a.shape, strict=True))
        )
        if not fits:
            raise OpError(f"{op}: a vector {show(v.shape)} does not stretch over {show(a.shape)}")
        return (computed(a),)

    return rule


def _cast(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    src, target = tensor_operand("tensor.cast", "the source", args[0]), dtype_of("tensor.cast", "target_type", kw["target_type"])
    mode = kw["mode"]
    if not isinstance(mode, Const) or mode.value not in CAST_MODES:
        raise OpError(f"tensor.cast: unknown mode; known: {', '.join(CAST_MODES)}")
    if target == src.dtype:
        raise OpError(f"tensor.cast: the source already holds {target.name}; drop the cast")
    return (TensorType(src.shape, target),)


def _transpose(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tensor.transpose"
    src = tensor_operand(op, "the source", args[0])
    a, b = number(op, "axis1", args[1]), number(op, "axis2", args[2])
    rank = len(src.shape)
    if not (-rank <= a < rank and -rank <= b < rank) or a % rank == b % rank:
        raise OpError(f"{op}: axes {a} and {b} of a tensor of rank {rank}")
    shape = list(src.shape)
    shape[a], shape[b] = shape[b], shape[a]
    return (TensorType(tuple(shape), src.dtype),)


def _sel(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    tensor_operand("tensor.sel", "the mask", args[0])
    return _binary("tensor.sel")(args[1:3], kw)


# -- scatter and gather ------------------------------------------------------------------------------------------------


def _scatter_update(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tensor.scatter_update"
    base, index = tensor_operand(op, "the input", args[0]), tensor_operand(op, "the index", args[2])
    src = tensor_operand(op, "the source", args[3])
    if number(op, "dim", args[1]) != -2:
        raise OpError(f"{op}: only whole rows are scattered; dim must be -2")
    _same_elements(op, base, src)
    if len(base.shape) != 2 or len(src.shape) != 2 or not same_dim(base.shape[1], src.shape[1]):
        raise OpError(f"{op}: rows of {show(src.shape)} do not replace rows of {show(base.shape)}")
    count = elements(index.shape)
    if index.dtype.kind == "float" or not (count is None or same_dim(count, src.shape[0])):
        raise OpError(f"{op}: the index {show(index.shape)} must hold one integer for each row of {show(src.shape)}")
    return (computed(base),)


def _gather(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tensor.gather"
    src, index = tensor_operand(op, "the source", args[0]), tensor_operand(op, "the index", args[1])
    if index.dtype.kind == "float":
        raise OpError(f"{op}: the index must hold integers, not {index.dtype.name}")
    dim = kw.get("dim")
    if dim is not None:
        axis = number(op, "dim", dim)
        rank = len(src.shape)
        if len(index.shape) != rank or not -rank <= axis < rank:
            raise OpError(f"{op}: index {show(index.shape)} along dimension {axis} of {show(src.shape)}")
    return (TensorType(index.shape, src.dtype),)


def _paged_gather(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tensor.paged_gather"
    src = tensor_operand(op, "the source", args[0])
    for name, e in zip(("the indices", "the block table"), args[1:3], strict=True):
        if tensor_operand(op, name, e).dtype.kind == "float":
            raise OpError(f"{op}: {name} must hold integers")
    rows, cols = number(op, "max_indices", kw["max_indices"]), number(op, "size", kw["size"])
    return (TensorType((cols, rows) if flag(kw, "is_trans") else (rows, cols), src.dtype),)


def _gather_row(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
    op = "tensor.gather_row"
    acc, src = tensor_operand(op, "the accumulator", args[0]), tensor_operand(op, "the source", args[1])
    _same_elements(op, acc, src)
    check_gather_row(op, args, kw)
    return (acc,)


def check_gather_row(op: str, args: tuple[Expr, ...], kw: Kwargs) -> None:
    """Window and valid shape of a gathered row block: static shapes, valid within them, not valid and transposed together."""
    shapes = dims(op, "shapes", args[4])
    if not all(isinstance(d, int) for d in shapes):
        raise OpError(f"{op}: shapes must be numbers, not {show(shapes)}; give the run-time extent as valid_shape")
    valid = kw.get("valid_shape", args[5] if len(args) > 5 else None)
    if valid is None:
        return
    if flag(kw, "transpose"):
        raise OpError(f"{op}: valid_shape and transpose=True exclude each other; gather whole windows when transposing")
    extents = dims(op, "valid_shape", valid)
    if len(extents) != len(shapes) or any(
        isinstance(v, int) and isinstance(s, int) and v > s for v, s in zip(extents, shapes, strict=True)
    ):
        raise OpError(f"{op}: valid_shape {show(extents)} does not lie in shapes {show(shapes)}")


# -- the boundary of a vector split ------------------------------------------------------------------------------------


def split_shape(op: str, shape: tuple[Dim, ...], kw: Kwargs, factor: tuple[int, int]) -> tuple[Dim, ...]:
    """The shape of one lane's half (factor (1, 2)) or of the whole again (factor (2, 1)), along the split axis."""
    if len(shape) != 2:
        raise OpError(
            f"{op}: {show(shape)} is not 2-D, and a split by rows or columns means nothing on it; pl.reshape it to 2-D first"
        )
    axis = {1: 0, 2: 1}.get(number(op, "split", kw["split"]))
    if axis is None:
        raise OpError(f"{op}: split must be 1 (rows) or 2 (columns)")
    extent, (up, down) = shape[axis], factor
    if not isinstance(extent, int):
        raise OpError(f"{op}: the split axis of {show(shape)} must be a number")
    if extent * up % down:
        raise OpError(f"{op}: {extent} elements do not split in two")
    halves = list(shape)
    halves[axis] = extent * up // down
    return tuple(halves)


def _split(op: str, factor: tuple[int, int]) -> TypeRule:
    def rule(args: tuple[Expr, ...], kw: Kwargs) -> tuple[Type, ...]:
        t = operand_type(args[0])
        if isinstance(t, TensorType) and t.distributed:
            raise OpError(f"{op}: a distributed tensor can't be split between vector cores; split a local tensor")
        src = tensor_operand(op, "the operand", args[0])
        return (TensorType(split_shape(op, src.shape, kw, factor), src.dtype),)

    return rule


# -- the table ---------------------------------------------------------------------------------------------------------


def _math(
    name: str,
    args: tuple[Arg, ...],
    rule: TypeRule,
    keywords: tuple[Arg, ...] = (),
    *,
    kind: str = "vector",
    effects: Effects | None = None,
    short_on: str = "tensor",
) -> None:
    register(OpDef(f"tensor.{name}", args, rule, kind, keywords, name, effects or Effects(), short_on))


_X = Arg("input", aliases=("tensor", "src"))
_A, _B = Arg("lhs"), Arg("rhs", aliases=("scalar", "value"))
_TRANS = (Arg("a_trans", "literal", False), Arg("b_trans", "literal", False))

_math(
    "matmul",
    (Arg("lhs"), Arg("rhs")),
    _matmul,
    (Arg("out_dtype", "dtype", None), *_TRANS, Arg("c_matrix_nz", "literal", False)),
    kind="cube",
)
_math(
    "matmul_acc",
    (Arg("acc"), Arg("lhs"), Arg("rhs"), Arg("init_cond", default=None)),
    _matmul_acc,
    _TRANS,
    kind="cube",
    effects=Effects(in_place=0),
)

for _name in ("add", "sub", "mul", "div", "maximum", "minimum", "adds", "subs", "muls", "divs", "maxs", "mins"):
    _math(_name, (_A, _B), _binary(f"tensor.{_name}"))
for _name in ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "recip", "relu", "not"):
    _math(_name, (_X,), _unary(f"tensor.{_name}"))
for _name in ("row_max", "row_min", "row_sum"):
    _math(_name, (_X,), _reduce(f"tensor.{_name}", -1))
for _name in ("col_max", "col_min"):
    _math(_name, (_X,), _reduce(f"tensor.{_name}", -2))
_math("col_sum", (_X,), _reduce("tensor.col_sum", -2), (Arg("is_binary", "literal", False),))
for _name in ("", "_add", "_sub", "_mul", "_div"):
    _math(f"row_expand{_name}", (_X, Arg("vector")), _expand(f"tensor.row_expand{_name}", -1))
    _math(f"col_expand{_name}", (_X, Arg("vector")), _expand(f"tensor.col_expand{_name}", -2))

_math("cast", (_X,), _cast, (Arg("target_type", "dtype", aliases=("dtype",)), Arg("mode", "literal", "round", explicit=True)))
_math("transpose", (_X, Arg("axis1"), Arg("axis2")), _transpose)
_math("cmp", (_A, _B), _binary("tensor.cmp"), (Arg("cmp_type", "literal", 0, explicit=True),))
_math("sel", (Arg("mask"), _A, _B), _sel)

_math("scatter_update", (Arg("input"), Arg("dim"), Arg("index"), Arg("src")), _scatter_update)
_math("gather", (_X, Arg("index")), _gather, (Arg("dim", "literal", None),), effects=Effects(reads=(0, 1)))
_math(
    "paged_gather",
    (Arg("src"), Arg("indices"), Arg("block_table")),
    _paged_gather,
    (
        Arg("block_size", "literal"),
        Arg("max_indices", "literal"),
        Arg("size", "literal"),
        Arg("offset", default=0, aliases=("col_off",)),
        Arg("target_memory", "space", None, aliases=("space",)),
        Arg("is_trans", "literal", False),
    ),
    kind="transfer",
    effects=Effects(reads=(0, 1, 2)),
)
_math(
    "gather_row",
    (
        Arg("acc"),
        Arg("src"),
        Arg("dst_offset", "list", aliases=("dst_off",)),
        Arg("src_offset", "list", aliases=("src_off",)),
        Arg("shapes", "list", aliases=("shape",)),
    ),
    _gather_row,
    (Arg("transpose", "literal", False), Arg("valid_shape", "list", None)),
    kind="transfer",
    effects=Effects(reads=(1,), in_place=0),
)
_math("aiv_shard", (_X,), _split("tensor.aiv_shard", (1, 2)), (Arg("split", "literal"),), kind="transfer")
_math("aic_gather", (_X,), _split("tensor.aic_gather", (2, 1)), (Arg("split", "literal"),), kind="transfer")
