"""Cast folding: FIXPIPE narrows fp32 to bf16 or fp16 on the way from the accumulator into Mat.

    In(cast(A @ B, bf16, rint), Mat)  =  assemble(create(bf16, Mat), In(A @ B, Acc), (0, 0))                  whole window
                                      =  ⋃ assemble(create(bf16, Mat), A[mi, :] @ B[:, ni], (mi, ni))         grid

FIXPIPE rounds to nearest, ties to even, and nothing else: only `rint` folds, only from fp32, and only where every use of the
cast is a matrix operand (specification 1, "cast-fold").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.conditions import columns_c, fits_l0c, fits_mat, line_c, whole_fractals
from egraph_rules.expr import literal
from egraph_rules.families.mat_scratch import scratch_grid, scratch_product
from egraph_rules.language import Fold, In, P, cast, cast_once, matrix_operand_only, product, scratch_type, target, the_problem
from egraph_rules.rule import Rule, Term, family, rule, union, variables

v, c, left, size, mat = variables("v c left size mat")

#: What FIXPIPE can narrow to, and the rounding it does.
FOLDABLE, ROUNDING = ("bf16", "fp16"), "rint"
#: The products whose casts fold: an accumulation belongs to its caller.
FOLDING = ("matmul", "matmul_bias")


def foldable(dtype: str) -> list[Term]:
    """The only use of v is a cast FIXPIPE can do, and the cast only feeds matmuls."""
    return [
        cast_once(v, c),
        cast(c, v, "fp32", dtype, ROUNDING),
        matrix_operand_only(c),
        scratch_type(dtype, size, 1),
        target(mat=mat),
    ]


@family("cast_fold")
def CAST_FOLD() -> Iterator[Rule]:
    """In(cast(A @ B), Mat) = FIXPIPE's own narrowing on the way to Mat, whole or window by window."""
    for dtype in FOLDABLE:
        for op in FOLDING:
            yield rule(
                f"fold_whole_window_{op}_{dtype}",
                f"In(cast({op}(A, B), {dtype}, rint), Mat) = assemble(create({dtype}), In({op}(A, B), Acc), (0, 0))",
                stage="placements",
                reads=[*foldable(dtype), product(v=v, p=P.p, left=left, op=op), In(left, "Mat"), the_problem()],
                when=[
                    fits_mat(P.M, P.N, size, mat),
                    fits_l0c(line_c(P.M), columns_c(P.N), literal(1)),
                    *whole_fractals(),
                ],
                then=[union(In(c, "Mat"), Fold(c, In(v, "Acc"), dtype))],
            )
        yield rule(
            f"fold_grid_{dtype}",
            f"In(cast(A @ B, {dtype}, rint), Mat) = ⋃ assemble(A[mi, :] @ B[:, ni], (mi, ni)) in {dtype}",
            stage="placements",
            reads=[*foldable(dtype), *scratch_product()],
            when=[fits_mat(P.M, P.N, size, mat), *whole_fractals()],
            then=[union(In(c, "Mat"), scratch_grid(dtype, c))],
        )
