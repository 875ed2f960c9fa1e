"""Side conditions that several rule families share: what fits where (specification 1, step 2)."""

from __future__ import annotations

from egraph_rules.expr import Comparison, Integer, align_up, literal, predicate
from egraph_rules.language import FRACTAL, P


@predicate
def fits_l0a(m: Integer, k: Integer, depth: Integer) -> Comparison:
    """{depth} buffer(s) of an {m} × {k} panel of A fit L0A, in bytes"""
    return align_up(m, P.box_m) * k * P.bytes_a * depth <= P.l0a


@predicate
def fits_l0b(k: Integer, n: Integer, depth: Integer) -> Comparison:
    """{depth} buffer(s) of a {k} × {n} panel of B fit L0B, in bytes"""
    return align_up(n, P.box_n) * k * P.bytes_b * depth <= P.l0b


@predicate
def fits_l0c(m: Integer, n: Integer, accumulators: Integer) -> Comparison:
    """{accumulators} accumulator(s) of {m} × {n}, boxed, fit L0C, in bytes"""
    rows = align_up(align_up(m, P.box_m), P.row_align)
    return rows * align_up(n, P.box_n) * P.bytes_c * accumulators <= P.l0c


@predicate
def bias_window_fits(n: Integer, scope: Integer, slots: Integer) -> Comparison:
    """a bias window of {n}, in {slots} slot(s) where it is rebuilt inside a grid, fits the bias table, in elements"""
    gridded = (scope + 1) // 2  # WHOLE 0, ROWS and GRID 1
    return n * (literal(1) + P.bias_rebuilt * gridded * (slots - 1)) <= P.bias_cap


@predicate
def within(extent: Integer, most: Integer) -> Comparison:
    """a tile extent of {extent} is no more than the problem's {most}"""
    return extent <= most


@predicate
def smaller(extent: Integer, whole: Integer) -> Comparison:
    """{extent} cuts {whole} into more than one piece"""
    return extent < whole


@predicate
def fractal_aligned(extent: Integer) -> Comparison:
    """{extent} is a multiple of the cube's fractal, 16"""
    return (extent % FRACTAL).equals(0)


@predicate
def fits_mat(rows: Integer, columns: Integer, size: Integer, mat: Integer) -> Comparison:
    """a {rows} × {columns} scratch of {size}-byte elements fits Mat, in bytes"""
    return rows * columns * size <= mat


@predicate
def precise_enough(low: Integer, needed: Integer) -> Comparison:
    """the scratch element type is one FIXPIPE can write on this target (1 = bf16 or fp16; needed {needed}, is {low})"""
    return low >= needed
