"""Mat scratch: a product that only feeds matmuls is assembled on chip, window by window.

    t = create(M, N, Mat);  for each window (mi, ni):  t = assemble(t, A[mi, :] @ B[:, ni], (mi, ni))

Every use must be a matrix operand, the scratch must fit Mat, and some targets want it in bf16 or fp16 (specification 1,
"MatScratchPlacer"). Which problem's schedules the grid may take is the planner's to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import fits_mat, precise_enough, whole_fractals
from egraph_rules.expr import Int, literal
from egraph_rules.language import (
    GridScratch,
    In,
    P,
    Schedule,
    cuttable,
    matrix_operand_only,
    product,
    scratch_problem,
    scratch_type,
    target,
    the_problem,
)
from egraph_rules.rule import Argument, Rule, Term, family, rule, union, variables

v, left, right, scope, size, low, mat, needs_low = variables("v left right scope size low mat needs_low")

#: The element types a product is accumulated in, and so a scratch without a cast is made of.
ACCUMULATORS = ("fp32", "int32")


def scratch_product(dtype: Argument = None) -> list[Term]:
    """A product that may be cut, with both operands in Mat, and the problem its scratch grid takes its schedule from."""
    return [
        product(v=v, left=left, right=right, dtype=dtype),
        cuttable(v, scope),
        scratch_problem(v, P.p),
        the_problem(),
        In(left, "Mat"),
        In(right, "Mat"),
    ]


def scratch_grid(dtype: str, cast: Int) -> Term:
    """The grid, assembled into a scratch of ``dtype``; ``cast`` is the cast folded into it, or -1."""
    return GridScratch(v, Schedule(P.p, scope), In(left, "Mat"), In(right, "Mat"), dtype, cast)


@family("mat_scratch")
def MAT_SCRATCH() -> Iterator[Rule]:
    """In(A @ B, Mat) = ⋃ assemble(A[mi, :] @ B[:, ni], (mi, ni)): keep a chained product on chip."""
    for dtype in ACCUMULATORS:
        yield rule(
            f"mat_scratch_{dtype}",
            f"In(A @ B, Mat) = ⋃ assemble(A[mi, :] @ B[:, ni], (mi, ni)) in {dtype}",
            stage="placements",
            reads=[
                matrix_operand_only(v),
                *scratch_product(dtype),
                scratch_type(dtype, size, low),
                target(mat=mat, needs_low_precision=needs_low),
            ],
            when=[precise_enough(low, needs_low), fits_mat(P.M, P.N, size, mat), *whole_fractals()],
            then=[union(In(v, "Mat"), scratch_grid(dtype, literal(-1)))],
        )
