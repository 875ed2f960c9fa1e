"""Mat scratch: a product that only feeds matmuls is assembled on chip, window by window.

    t = create(M, N, Mat);  for each window (mi, ni):  t = assemble(t, A[mi, :] @ B[:, ni], (mi, ni))

Every use must be a matrix operand, the scratch must fit Mat, and some targets want it in bf16 or fp16 (specification 1,
"MatScratchPlacer"). Which problem's schedules the grid may take is the planner's to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import fits_mat, precise_enough
from egraph_rules.expr import literal
from egraph_rules.language import (
    GRID,
    ROWS,
    WHOLE,
    GridScratch,
    In,
    P,
    Schedule,
    matrix_operand_only,
    product,
    scratch_problem,
    scratch_type,
    target,
    the_problem,
)
from egraph_rules.rule import Rule, family, rule, union, variables

v, left, right, size, low, mat, needs_low = variables("v left right size low mat needs_low")

#: The element types a product is accumulated in, and so a scratch without a cast is made of.
ACCUMULATORS = ("fp32", "int32")
#: The products that can be placed window by window; an accumulation has a whole accumulator to honour.
PLACEABLE = ("matmul", "matmul_bias")


@family("mat_scratch")
def MAT_SCRATCH() -> Iterator[Rule]:
    """In(A @ B, Mat) = ⋃ assemble(A[mi, :] @ B[:, ni], (mi, ni)): keep a chained product on chip."""
    for op in PLACEABLE:
        for dtype in ACCUMULATORS:
            yield rule(
                f"mat_scratch_{op}_{dtype}",
                f"In({op}(A, B), Mat) = ⋃ assemble({op}(A[mi, :], B[:, ni]), (mi, ni)) in {dtype}",
                stage="placements",
                reads=[
                    product(v=v, left=left, right=right, op=op, dtype=dtype),
                    matrix_operand_only(v),
                    scratch_problem(v, P.p),
                    the_problem(),
                    scratch_type(dtype, size, low),
                    target(mat=mat, needs_low_precision=needs_low),
                    In(left, "Mat"),
                    In(right, "Mat"),
                ],
                when=[precise_enough(low, needs_low), fits_mat(P.M, P.N, size, mat)],
                then=[
                    union(
                        In(v, "Mat"),
                        GridScratch(v, Schedule(P.p, scope), In(left, "Mat"), In(right, "Mat"), dtype, literal(-1)),
                    )
                    for scope in (WHOLE, ROWS, GRID)
                ],
            )
