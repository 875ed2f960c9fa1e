"""Entries made of shapes: per-core tiles as they are, whole-device products cut to what one core is handed.

The cut (:func:`cut_to_core`), stated once and used everywhere:

1. Extents are rounded up to the physical box: 16, or 32 where elements of one byte lie along them (N and K).
2. Cores: of all grids of rows × columns with at most as many blocks as the chip has cores, the one whose blocks are smallest in
   area; of equal ones the squarest block, then the fewest rows.
3. Mat: half of it holds one panel pair (the other half takes the next pair meanwhile). While a pair ``DEPTH`` deep does not fit
   that half, the longer side of the block is halved (rounded up to its box).
4. K: the largest multiple of ``K_STEP`` whose panel pair fits that half (all of K where it fits).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cost.dtypes import DType, dtype
from cost.hardware import Target
from cost.physical import align_up, ceil_div
from cost.problem import Problem
from tilesat.corpus import programs
from tilesat.corpus.entries import Entry

if TYPE_CHECKING:
    from ir_bridge.ir.nodes import Program

SHAPES = Path(__file__).parent.parent / "data" / "corpus_shapes.json"

#: The depth at which a block must fit half of Mat, and the step K is cut in; in elements.
DEPTH, K_STEP = 256, 64


def boxes(operand: DType) -> tuple[int, int, int]:
    """The physical boxes of M, N and K for operands of this type."""
    wide = max(16, 32 // operand.bytes)
    return 16, wide, wide


def cut_to_core(M: int, N: int, K: int, operand: str | DType, target: Target) -> tuple[int, int, int]:
    """The product one core of ``target`` is handed of a whole-device product: (M, N, K); the rule is the module's text."""
    element = dtype(operand)
    box_m, box_n, box_k = boxes(element)
    cores = target.machine.cube_cores

    def block(rows: int, columns: int) -> tuple[int, int]:
        return align_up(ceil_div(M, rows), box_m), align_up(ceil_div(N, columns), box_n)

    grids = ((r, c) for r in range(1, cores + 1) for c in range(1, cores // r + 1))
    m, n = min((block(r, c) for r, c in grids), key=lambda b: (b[0] * b[1], max(b), b[0]))
    half, depth = target.mat // 2 // element.bytes, min(DEPTH, align_up(K, box_k))
    while (m + n) * depth > half and max(m, n) > box_n:
        m, n = (align_up(m // 2, box_m), n) if m > n else (m, align_up(n // 2, box_n))
    k = align_up(K, box_k)
    return m, n, k if (m + n) * k <= half else half // (m + n) // K_STEP * K_STEP


def shape(M: int, N: int, K: int, operand: str | DType, source: str, name: str = "") -> Entry:
    """The product of one shape: loaded, multiplied, stored."""
    element = dtype(operand)
    made = programs.plain(M, N, K, element)
    return Entry(name or f"tile-{M}x{N}x{K}-{element}", source, str(made), Problem.of(M, N, K, element))


def fits_mat(M: int, N: int, K: int, operand: str | DType, target: Target) -> bool:
    """Do both whole operands fit Mat together?"""
    return (M * K + K * N) * dtype(operand).bytes <= target.mat


def _program(name: str, source: str, made: Program) -> Entry:
    return Entry(name, source, str(made))


@cache
def _data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SHAPES.read_text(encoding="utf-8"))
    return found


def per_core_tiles() -> tuple[Entry, ...]:
    """The published per-core tiles: plain products, split-K chains over their whole K, chains with a cast."""
    entries: dict[str, Entry] = {}
    for row in _data()["per_core_tiles"]:
        M, N, K, operand, source = row["M"], row["N"], row["K"], row["dtype"], row["source"]
        stem = f"tile-{M}x{N}x{K}-{operand}"
        if "split_k_total" in row:
            total = row["split_k_total"]
            e = _program(f"{stem}-of-{total}", source, programs.split_k(M, N, K, total, operand))
        elif "chain" in row:
            N2 = row["chain"]["N2"]
            e = _program(f"{stem}-chain-{N2}", source, programs.chain(M, N, K, N2, operand))
        else:
            e = shape(M, N, K, operand, source, stem)
        entries.setdefault(e.name, e)
    return tuple(entries.values())


def whole_device(target: Target) -> tuple[Entry, ...]:
    """The published whole-device products, each cut to one core; products cut to the same tile are one entry."""
    entries: dict[str, Entry] = {}
    for row in _data()["gemm"]:
        m, n, k = cut_to_core(row["M"], row["N"], row["K"], row["dtype"], target)
        source = f"{row['source']} {row['M']}x{row['N']}x{row['K']}, cut to a core of {target.name}"
        e = shape(m, n, k, row["dtype"], source, f"gemm-{m}x{n}x{k}-{row['dtype']}")
        entries.setdefault(e.name, e)
    return tuple(entries.values())
