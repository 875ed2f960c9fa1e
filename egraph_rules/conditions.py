"""Side conditions that several rule families share: what fits where (specification 1, step 2)."""

from __future__ import annotations

from egraph_rules.expr import Comparison, Condition, Int, Integer, align_up, literal, predicate, smaller_of
from egraph_rules.language import FRACTAL, P


def line_a(m: Int) -> Integer:
    """Bytes of L0A that one column of a panel of m rows takes, boxed."""
    return align_up(m, P.box_m) * P.bytes_a


def line_b(n: Int) -> Integer:
    """Bytes of L0B that one row of a panel of n columns takes, boxed."""
    return align_up(n, P.box_n) * P.bytes_b


def line_c(m: Int) -> Integer:
    """Bytes of L0C that one column of an accumulator of m rows takes: boxed, then in the target's row alignment."""
    return align_up(align_up(m, P.box_m), P.row_align) * P.bytes_c


def columns_c(n: Int) -> Integer:
    """Columns of L0C that an accumulator of n columns takes, boxed."""
    return align_up(n, P.box_n)


def deepest_a(m: Int) -> Integer:
    """The deepest panel of A with m rows, boxed, that fits L0A once: elements of K."""
    return P.l0a // line_a(m)


def deepest_b(n: Int) -> Integer:
    """The deepest panel of B with n columns, boxed, that fits L0B once: elements of K."""
    return P.l0b // line_b(n)


def deepest_streamed(deep_a: Integer, deep_b: Integer) -> Integer:
    """The deepest k, less than K, of which two panels of both operands fit: a multiple of its step (0: there is none)."""
    both = smaller_of(deep_a, deep_b) // 2 // P.align_k * P.align_k
    return smaller_of(both, P.max_k - P.align_k)


@predicate
def fits_l0a(k: Integer, depth: Integer, deepest: Integer) -> Comparison:
    """{depth} buffer(s) of a {k}-deep panel of A fit L0A, which holds {deepest} steps of K"""
    return k * depth <= deepest


@predicate
def fits_l0b(k: Integer, depth: Integer, deepest: Integer) -> Comparison:
    """{depth} buffer(s) of a {k}-deep panel of B fit L0B, which holds {deepest} steps of K"""
    return k * depth <= deepest


@predicate
def fits_l0c(line: Integer, columns: Integer, accumulators: Integer) -> Comparison:
    """{accumulators} accumulator(s) of {columns} columns, {line} bytes each, fit L0C"""
    return line * columns * accumulators <= P.l0c


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


def whole_fractals() -> list[Condition]:
    """The output is made of whole fractals, so that boundary windows are too (specification 1, "分形边界")."""
    return [fractal_aligned(P.M), fractal_aligned(P.N)]


@predicate
def box_aligned(extent: Integer, step: Integer) -> Comparison:
    """{extent} is a multiple of {step}, the fractal or (beside a bias) the operand's box"""
    return (extent % step).equals(0)


@predicate
def fits_mat(rows: Integer, columns: Integer, size: Integer, mat: Integer) -> Comparison:
    """a {rows} × {columns} scratch of {size}-byte elements fits Mat, in bytes"""
    return rows * columns * size <= mat


@predicate
def precise_enough(low: Integer, needed: Integer) -> Comparison:
    """the scratch element type is one FIXPIPE can write on this target (1 = bf16 or fp16; needed {needed}, is {low})"""
    return low >= needed
