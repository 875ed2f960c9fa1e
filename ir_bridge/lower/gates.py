"""What is looked at on one product before any rule: the documented order of checks (tiling_gates.md, "Order of the checks").

A gate either passes, leaves the statement silently, refuses it with a PH-AT code, or (an operand that its author placed where it
cannot fit) refuses the program.
"""

from __future__ import annotations

from typing import NamedTuple

from cost.dtypes import DType
from cost.errors import TilesatError
from cost.hardware import Target
from cost.physical import align_up, box
from egraph_rules.language import FRACTAL
from egraph_rules.problem_facts import LARGEST_EXTENT
from egraph_rules.program import Refusal
from ir_bridge.ir.nodes import Assign, Call, Loc, Var
from ir_bridge.ir.types import Space, TileType

#: Position of the left matrix operand of each product; the right one follows it.
LEFT_OPERAND = {"tile.matmul": 0, "tile.matmul_acc": 1, "tile.matmul_bias": 0}
ARITIES = {"tile.matmul": (2,), "tile.matmul_acc": (3, 4), "tile.matmul_bias": (3,)}


class PlacementError(TilesatError):
    """An operand that its author placed in L0 by hand and that cannot fit there, whatever is reused."""


class Operands(NamedTuple):
    """The operands of one product statement and their types."""

    left: Var
    right: Var
    bias: Var | None
    result: Var
    left_type: TileType
    right_type: TileType
    result_type: TileType

    @property
    def extents(self) -> tuple[int, int, int]:
        """(M, N, K): physical extents in elements."""
        (m, k), n = self.left_type.shape, self.right_type.shape[1]
        assert isinstance(m, int)
        assert isinstance(n, int)
        assert isinstance(k, int)
        return m, n, k


def read_operands(s: Assign, call: Call) -> Operands | None:
    """The operands of a product of static 2-D tiles held in variables, or None: then it is left silently."""
    at = LEFT_OPERAND[call.op]
    if len(call.args) not in ARITIES[call.op] or len(s.targets) != 1:
        return None
    left, right, result = call.args[at], call.args[at + 1], s.targets[0]
    if not isinstance(left, Var) or not isinstance(right, Var):
        return None
    types = (left.type, right.type, result.type)
    if not all(isinstance(t, TileType) and t.static and len(t.shape) == 2 for t in types):
        return None
    bias = call.args[2] if call.op == "tile.matmul_bias" else None
    if bias is not None and not isinstance(bias, Var):
        return None
    return Operands(left, right, bias, result, *types)  # type: ignore[arg-type]


# -- operands placed by hand ---------------------------------------------------------------------------------------------


def check_placed_by_hand(call: Call, ops: Operands, target: Target, loc: Loc) -> None:
    """Raise :class:`PlacementError` for an operand in Left or Right that alone exceeds L0A or L0B."""
    for side, value, t in (("left", ops.left, ops.left_type), ("right", ops.right, ops.right_type)):
        if t.space is Space.LEFT:
            buffer, capacity = "L0A", target.l0a
        elif t.space is Space.RIGHT:
            buffer, capacity = "L0B", target.l0b
        else:
            continue
        needed = t.dtype.footprint(t.elements())
        if needed > capacity:
            space = t.space.value
            raise PlacementError(
                f"{call.op} at {loc}: the {side} operand {shown(value)!r} was placed in {space} ({buffer}) by hand with "
                f"physical shape {list(t.shape)} and element type {t.dtype}; it needs {needed} bytes and {target.name} has "
                f"{capacity}. Operands already in {space} are not cut again. Either keep {shown(value)!r} in Mat and pass it to "
                f"{call.op} as it is, so that a legal L0 tile is chosen, or extract a smaller {space} tile yourself."
            )


def shown(v: Var) -> str:
    """A variable's name as its author wrote it: SSA suffixes stripped."""
    return v.name.split("__")[0] or v.name


# -- refusals with a code --------------------------------------------------------------------------------------------------


def bias_is_row(ops: Operands) -> bool:
    """Is the bias a static [1, N] tile of the accumulator's type in Mat or Bias? Otherwise the product is left silently."""
    if ops.bias is None:
        return True
    t = ops.bias.type
    return isinstance(t, TileType) and t.shape == (1, ops.right_type.shape[1]) and t.space in (Space.MAT, Space.BIAS)


def refusal(ops: Operands, target: Target) -> Refusal | None:
    """The first reason to leave a product with a hint that the operands' types alone decide: 003, 011, 007, in that order."""
    m, n, k = ops.extents
    if min(m, n, k) < 1:
        return Refusal("PH-AT-005", f"an extent of {m} × {n} × {k} is 0, which no tile has; leave the product out")
    if max(m, n, k) >= LARGEST_EXTENT:
        return Refusal("PH-AT-005", f"an extent of {max(m, n, k)} is beyond any tile; load a part of the operand instead")
    for t in (ops.left_type, ops.right_type, ops.result_type):
        if t.dtype.bits < 8:
            return Refusal("PH-AT-003", f"element type {t.dtype} is narrower than a byte, which the cube path does not support")
    if ops.bias is not None:
        found = _bias_refusal(ops, target, m, n, k)
        if found is not None:
            return found
    if k % FRACTAL:
        return Refusal(
            "PH-AT-007",
            f"K = {k} is not a multiple of the cube fractal {FRACTAL}, so no cut of K is fractal-aligned; pad K to "
            f"{align_up(k, FRACTAL)}",
        )
    return None


def _bias_refusal(ops: Operands, target: Target, m: int, n: int, k: int) -> Refusal | None:
    assert ops.bias is not None
    bias = ops.bias.type
    assert isinstance(bias, TileType)
    accumulator = ops.result_type.dtype
    if bias.space is Space.MAT and not target.supports_mat_to_bias(bias.dtype, accumulator):
        return Refusal("PH-AT-011", f"{target.name} cannot move a bias of {bias.dtype} from Mat into a {accumulator} bias table")
    if target.bias // accumulator.bytes < target.min_tile:
        return Refusal(
            "PH-AT-011", f"the bias table of {target.bias} bytes holds fewer than {target.min_tile} {accumulator} elements"
        )
    for name, extent, step in box_steps(ops, m, n, k):
        if extent % step:
            return Refusal(
                "PH-AT-011",
                f"{name} = {extent} is not a multiple of {step}, the box its operands are laid out in; pad {name} to "
                f"{align_up(extent, step)}",
            )
    return None


def box_steps(ops: Operands, m: int, n: int, k: int) -> list[tuple[str, int, int]]:
    """What M, N and K of a biased product must be multiples of: boxes of the operands in Mat and in L0."""
    rows, left_depth = _boxes(ops.left_type.dtype, "row_major")
    right_depth, columns = _boxes(ops.right_type.dtype, "col_major")
    _, mat_columns = _boxes(ops.right_type.dtype, "row_major")
    return [("M", m, rows), ("N", n, max(columns, mat_columns)), ("K", k, max(left_depth, right_depth))]


def _boxes(dtype: DType, slayout: str) -> tuple[int, int]:
    return box(slayout, dtype)
