"""Placements that conversion leaves open: a value wanted in Mat and in Vec by different consumers.

A window of global memory can be loaded into both spaces, or loaded into Vec and moved on to Mat; a product that is cast can cross
to Vec, be cast there and be moved back, or be cast by FIXPIPE on its way into Mat beside the vector cast. Conversion states such
values as questions, and a chooser answers them: by the document, or by equality saturation and a cost model (the caller of
conversion brings that; this room knows no e-graph).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cost.dtypes import accumulator
from cost.hardware import Target
from ir_bridge.convert.demands import Demands
from ir_bridge.convert.flow import Flow
from ir_bridge.ir.nodes import Assign, Call, Const, Expr, Function, Var, walk
from ir_bridge.ir.ops_registry import dtype_of
from ir_bridge.ir.ops_tensor import elements
from ir_bridge.ir.types import Space, TensorType

#: Answers: the step that brings the value into Mat.
LOAD, MOVE, FIXPIPE_CAST = "Load", "Move", "FixpipeCast"


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A value that has several ways into the spaces it is wanted in.

    ``cast`` is (source type, type, mode) for a cast product, None for a window of global memory. ``boxed``: a consumer asks for
    a larger physical size in Mat than vector work has. Sizes are those of the value; ``bytes_in`` those of what is cast.
    """

    value: Var
    cast: tuple[str, str, str] | None
    boxed: bool
    rows: int
    columns: int
    bytes: int
    bytes_in: int


#: Answers the questions of one function: the step into Mat by value. A value without an answer goes as the document has it.
Chooser = Callable[[Sequence[Question], Target], Mapping[Var, str]]


def as_documented(questions: Sequence[Question], target: Target) -> Mapping[Var, str]:
    """A load of its own for each space; a cast stays on the vector unit."""
    return {}


def questions_of(f: Function, flow: Flow, demands: Demands) -> list[Question]:
    """The values of a function whose placement is open, in program order."""
    products: set[Expr] = set()
    found: list[Question] = []
    for s in walk(f.body):
        if not isinstance(s, Assign) or len(s.targets) != 1 or not isinstance(s.value, Call):
            continue
        v, call = s.targets[0], s.value
        if call.op == "tensor.matmul":
            products.add(v)
        if set(demands.spaces(v)) != {Space.VEC, Space.MAT}:
            continue
        if call.op == "tensor.slice" and flow.roots_of(call.args[0]):
            found.extend(_question(v, None, demands, v))
        elif call.op == "tensor.cast" and call.args[0] in products:
            found.extend(_question(v, call, demands, call.args[0]))
    return found


def _question(v: Var, cast: Call | None, demands: Demands, source: Expr) -> list[Question]:
    t = v.type
    if not isinstance(t, TensorType) or len(t.shape) != 2 or not isinstance(source, Var):
        return []
    rows, columns = t.shape
    count = elements(t.shape)
    if count is None or not isinstance(rows, int) or not isinstance(columns, int):
        return []
    box = demands.box(v, Space.MAT)
    larger = box is not None and t.shape[box.axis] % box.align != 0  # type: ignore[operator]
    kind = None
    before = t.dtype
    if cast is not None:
        assert isinstance(source.type, TensorType)
        before = source.type.dtype
        if before != accumulator(before) or rows % 16 or columns % 16:
            return []  # the product is rounded on the vector unit already, or is boxed itself
        mode = cast.kwarg("mode")
        target = dtype_of(cast.op, "target_type", cast.kwarg("target_type"))
        kind = (before.name, target.name, str(mode.value) if isinstance(mode, Const) else "")
    return [Question(v, kind, larger, rows, columns, t.dtype.footprint(count), before.footprint(count))]
