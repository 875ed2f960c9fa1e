"""Type rules, operand spaces, transfers and fractal boxes, statement by statement."""

from __future__ import annotations

from cost.dtypes import accumulator
from cost.hardware import Target
from cost.physical import box
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import Assign, Call, Expr, Function, Loc, Var, walk
from ir_bridge.ir.ops import OpDef, OpError, canonical, lookup, type_of
from ir_bridge.ir.ops_registry import describe, show
from ir_bridge.ir.tile_types import narrowing_allowed
from ir_bridge.ir.types import Dim, Space, TensorType, TileType, Type, View
from ir_bridge.ir.verifier_compare import mismatch
from ir_bridge.ir.verifier_findings import Report, shown

#: Where a transfer into a space may come from; spaces that are not listed are not reached by transfers.
SOURCES: dict[Space, tuple[Space, ...]] = {
    Space.LEFT: (Space.MAT,),
    Space.RIGHT: (Space.MAT,),
    Space.BIAS: (Space.MAT,),
    Space.LEFT_SCALE: (Space.MAT,),
    Space.RIGHT_SCALE: (Space.MAT,),
    Space.MAT: (Space.MAT, Space.VEC, Space.ACC),
    Space.VEC: (Space.VEC, Space.ACC, Space.MAT),
}
#: Edge of the cube's fractal: M, N and K are cut in multiples of it.
FRACTAL = 16
#: Where a load from global memory can put a tile: the L0 buffers are filled from Mat.
LOADABLE = (Space.MAT, Space.VEC)


def check_types(function: Function, target: Target, report: Report) -> None:
    """Findings of kinds "type", "space" and "box" of one function."""
    for p in function.params:
        check_box(p.var, function.loc, report)
    for s in walk(function.body):
        if isinstance(s, Assign):
            if type(s.value) is Call:
                _call(s, s.value, target, report)
            for t in s.targets:
                check_box(t, s.loc, report)


def _call(s: Assign, call: Call, target: Target, report: Report) -> None:
    d = lookup(call.op)
    if d is None:
        return
    try:
        args, kwargs = canonical(call.op, call.args, call.kwargs)
        inferred = d.rule(args, dict(kwargs))
    except OpError as error:
        report.add("type", d.name, str(error), s.loc)
        return
    _results(s, d, inferred, report)
    _spaces(s, d, args, report)
    check = _CHECKS.get(d.name)
    if check is not None:
        check(d, args, inferred, target, s.loc, report)


def _results(s: Assign, d: OpDef, inferred: tuple[Type, ...], report: Report) -> None:
    """The declared types of a call's results against what its rule gives."""
    if s.targets and len(s.targets) != len(inferred):
        report.add("type", d.name, f"{d.name}: {len(s.targets)} names for {len(inferred)} results", s.loc)
        return
    for t, found in zip(s.targets, inferred, strict=False):
        if t.type is found or t.type == found:
            continue
        problem = mismatch(_as_declared(t.type, found), t.type, layout=not _layout_is_free(d, found))
        if problem:
            report.add("type", d.name, f"{d.name}: result '{base_name(t.name)}': {problem}", s.loc)


def _layout_is_free(d: OpDef, found: Type) -> bool:
    """Vector results take the layout they are declared in, and a move to Left may be stamped row_major or not."""
    return d.kind == "vector" or (d.name == "tile.move" and isinstance(found, TileType) and found.space is Space.LEFT)


def _as_declared(declared: Type, found: Type) -> Type:
    """An N-D tile that the program declares flattened to rows × last axis, flattened."""
    if not isinstance(declared, TileType) or not isinstance(found, TileType):
        return found
    if len(declared.shape) != 2 or len(found.shape) <= 2 or not found.static:
        return found
    valid = found.view.valid_shape
    flat = None if valid is None else (_product(valid[:-1]), valid[-1])
    return TileType((_product(found.shape[:-1]), found.shape[-1]), found.dtype, found.space, View(flat))


def _product(dims: tuple[Dim, ...]) -> Dim:
    n = 1
    for d in dims:
        if not isinstance(d, int):
            return d
        n *= d
    return n


# -- spaces --------------------------------------------------------------------------------------------------------------------


def _spaces(s: Assign, d: OpDef, args: tuple[Expr, ...], report: Report) -> None:
    """Every tile operand in a space its operation can take it from."""
    for a, e in zip(d.args, args, strict=False):
        if not a.spaces:
            continue
        t = type_of(e)
        if isinstance(t, TileType) and t.space is not None and t.space not in a.spaces:
            wanted = " or ".join(x.value for x in a.spaces)
            report.add(
                "space",
                f"{d.name} {a.name}",
                f"{d.name}: {a.name} {shown(e)} is in {t.space.value}; it must be in {wanted}",
                s.loc,
            )


def _transfer(d: OpDef, args: tuple[Expr, ...], inferred: tuple[Type, ...], target: Target, loc: Loc, report: Report) -> None:
    """A move or extract along a path the core has."""
    src, dst = type_of(args[0]), inferred[0]
    if not isinstance(src, TileType) or not isinstance(dst, TileType) or src.space is None or dst.space is None:
        return
    if src.space not in SOURCES.get(dst.space, ()):
        sources = " or ".join(x.value for x in SOURCES.get(dst.space, ()))
        repair = f"it is filled from {sources}" if sources else "no transfer reaches it"
        report.add(
            "space", d.name, f"{d.name}: {shown(args[0])} in {src.space.value} cannot go to {dst.space.value}; {repair}", loc
        )


def _load(d: OpDef, args: tuple[Expr, ...], inferred: tuple[Type, ...], target: Target, loc: Loc, report: Report) -> None:
    dst = inferred[0]
    if isinstance(dst, TileType) and dst.space is not None and dst.space not in LOADABLE:
        report.add(
            "space", d.name, f"tile.load: nothing is loaded straight into {dst.space.value}; load into Mat and move it on", loc
        )


# -- element types that depend on the target ------------------------------------------------------------


def _bias(d: OpDef, args: tuple[Expr, ...], inferred: tuple[Type, ...], target: Target, loc: Loc, report: Report) -> None:
    """A bias must be of the accumulator's type, or of one that the way into the bias table converts."""
    left, bias = type_of(args[0]), type_of(args[2])
    if not isinstance(left, TileType) or not isinstance(bias, TileType):
        return
    acc = accumulator(left.dtype)
    fits = target.supports_mat_to_bias(bias.dtype, acc) or (bias.space is Space.BIAS and bias.dtype == acc)
    if not fits:
        report.add("type", d.name, f"tile.matmul_bias: bias {shown(args[2])} of {bias.dtype} for an accumulator of {acc}", loc)


def _accumulator(d: OpDef, args: tuple[Expr, ...], inferred: tuple[Type, ...], target: Target, loc: Loc, report: Report) -> None:
    """The cube writes a row-narrowed product at the pitch of its valid rows; only a compact accumulator is read at that pitch
    (specification 1, AccCompactValid)."""
    acc, left = type_of(args[0]), type_of(args[1])
    if not isinstance(acc, TileType) or not isinstance(left, TileType) or len(left.shape) != 2:
        return
    rows = left.valid[0]
    narrowed = rows != left.shape[0] and (isinstance(rows, int) or acc.valid[0] != acc.shape[0])
    if narrowed and acc.view.compact is None:
        wanted = "make it by tile.create(compact=True) and narrow it with tile.set_validshape"
        report.add(
            "type",
            "compact accumulator",
            f"tile.matmul_acc: {shown(args[1])} has {show(left.valid[:1])} valid rows of {left.shape[0]}, but the accumulator "
            f"{shown(args[0])} is not compact; {wanted}",
            loc,
        )


def _store(d: OpDef, args: tuple[Expr, ...], inferred: tuple[Type, ...], target: Target, loc: Loc, report: Report) -> None:
    """What leaves the core: the tile's own element type, or FP32 as BF16/FP16; from Acc only what FIXPIPE writes."""
    tile, tensor = type_of(args[0]), type_of(args[2])
    if not isinstance(tile, TileType) or not isinstance(tensor, TensorType):
        return
    if not narrowing_allowed(tile.dtype, tensor.dtype):
        report.add(
            "type", d.name, f"tile.store: {shown(args[0])} holds {tile.dtype}, the tensor {tensor.dtype}; cast it first", loc
        )
    elif tile.space is Space.ACC and target.acc_to_gm_types and tensor.dtype.name not in target.acc_to_gm_types:
        known = ", ".join(target.acc_to_gm_types)
        report.add("type", d.name, f"tile.store: {target} stores accumulators as {known}, not {tensor.dtype}", loc)


def _assemble(d: OpDef, args: tuple[Expr, ...], inferred: tuple[Type, ...], target: Target, loc: Loc, report: Report) -> None:
    """Accumulators go into Mat or Vec, and into Mat in low precision where the target's FIXPIPE has no other way."""
    dst, src = type_of(args[0]), type_of(args[1])
    if not isinstance(dst, TileType) or not isinstance(src, TileType) or dst.space is None or src.space is None:
        return
    if src.space not in SOURCES.get(dst.space, ()):
        report.add("space", d.name, f"tile.assemble: {shown(args[1])} in {src.space.value} cannot go into {dst.space.value}", loc)
    low = dst.dtype.name in ("bf16", "fp16")
    if src.space is Space.ACC and dst.space is Space.MAT and target.mat_scratch_needs_low_precision and not low:
        report.add(
            "type", d.name, f"tile.assemble: {target} writes accumulators into Mat only as bf16 or fp16, not {dst.dtype}", loc
        )


_CHECKS = {
    "tile.load": _load,
    "tile.move": _transfer,
    "tile.extract": _transfer,
    "tile.matmul_acc": _accumulator,
    "tile.matmul_bias": _bias,
    "tile.store": _store,
    "tile.assemble": _assemble,
}


# -- boxes -----------------------------------------------------------------------------------------------------------------------

_BOXED = frozenset({Space.MAT, Space.LEFT, Space.RIGHT, Space.ACC})


def check_box(v: Var, loc: Loc, report: Report) -> None:
    """A static tile in a boxed space must be a whole number of boxes of its layout."""
    t = v.type
    if not isinstance(t, TileType) or t.space not in _BOXED or len(t.shape) != 2:
        return
    rows, cols = box(t.layout[1], t.dtype, t.space.value)
    if t.space in (
        Space.LEFT,
        Space.RIGHT,
    ):  # cut at the fractal for every type (specification 1, "K 边界剥离")
        rows, cols = min(rows, FRACTAL), min(cols, FRACTAL)
    r, c = t.shape
    if (isinstance(r, int) and r % rows) or (isinstance(c, int) and c % cols):
        wanted = f"its physical shape must be a multiple of {show((rows, cols))}"
        report.add(
            "box", t.space.value, f"'{base_name(v.name)}' is {describe(t)}: {wanted}; pad it and narrow its valid shape", loc
        )
