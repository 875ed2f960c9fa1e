"""The simulator without a program: one product under one schedule, as it is emitted, operands in Mat, the result stored.

The instruction stream is the one that the tiled program has (specification 1, "K split", "M/N split"), so the cycles are those of
``tilesat.simulate(program, residency="mat")``: a referee for thousands of candidates that needs no program for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from cost.hardware import BUFFERS, Target
from cost.physical import accumulator_bytes, allocated_bytes
from cost.problem import OUTPUT, Candidates, Problem
from cost.simulator.core import Core, Lane, Ring, Value
from cost.simulator.durations import Durations
from cost.simulator.timeline import Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

LABELS = ["A", "B", "bias", "product", "store"]
_L0A, _L0B, _L0C, _BIAS = (BUFFERS.index(b) for b in ("l0a", "l0b", "l0c", "bias"))


def simulated_cycles(candidates: Candidates, problem: Problem, target: Target) -> NDArray[np.float64]:
    """Simulated cycles of every candidate, one run each."""
    return np.array([run_schedule(candidates, row, problem, target).cycles for row in range(len(candidates))], dtype=np.float64)


def run_schedule(candidates: Candidates, row: int, problem: Problem, target: Target) -> Timeline:
    """The timeline of the candidate at ``row``."""
    c = candidates
    m, n, k = (min(int(x[row]), extent) for x, extent in ((c.m, problem.M), (c.n, problem.N), (c.k, problem.K)))
    run = _Run(problem, target, m, n, k)
    if k < problem.K:
        run.split_k_grid()
    elif m >= problem.M and n >= problem.N:
        run.block(run.panel_a(1), run.panel_b(1), run.window_bias(1), problem.M, problem.N)
    else:
        run.full_k_grid(bool(c.holds_a[row]), bool(c.stationarity[row] == OUTPUT), int(c.dbc[row]))
    return Timeline(run.core, LABELS)


Panel = Callable[[int], Value]
"""Brings one panel into L0 and returns it: so many rows of A, or columns of B, or columns of the bias."""


class _Run:
    """One schedule on its way through the core."""

    def __init__(self, problem: Problem, target: Target, m: int, n: int, k: int) -> None:
        self.p, self.target = problem, target
        self.m, self.n, self.k = m, n, k
        self.core = Core(target)
        d = Durations(target)
        self.feed, self.product, self.drain = (lru_cache(None)(f) for f in (d.feed, d.product, d.drain))
        self.accumulator = Ring(1)

    # -- the pieces --------------------------------------------------------------------------------------------------------

    def panel_a(self, slots: int, depth: int | None = None) -> Panel:
        """Panels of A, ``depth`` (all of K unless given) wide, from one place in the program with ``slots`` slots."""
        return self._panel(_L0A, self.p.a.bytes * (depth or self.p.K), 0, slots)

    def panel_b(self, slots: int, depth: int | None = None) -> Panel:
        """Panels of B, likewise."""
        return self._panel(_L0B, self.p.b.bytes * (depth or self.p.K), 1, slots)

    def window_bias(self, slots: int) -> Panel | None:
        """Windows of the bias where it is rebuilt for every N window; None where there is none, or it is in its table."""
        return self._panel(_BIAS, self.p.c.bytes, 2, slots) if self.p.bias == "mat" else None

    def _panel(self, buffer: int, unit: int, label: int, slots: int) -> Panel:
        core, ring, name = self.core, Ring(slots), BUFFERS[buffer]

        def bring(length: int) -> Value:
            size = unit * length
            made = Value(buffer, allocated_bytes(self.target, name, size), ring)
            core.issue(Lane.MTE1, self.feed(size, name), (), (made,), 0.0, label)
            return made

        return bring

    def new_accumulator(self, rows: int, columns: int, ring: Ring | None = None) -> Value:
        size = accumulator_bytes(self.target, rows, columns, self.p.c, box_m=16, box_n=16)
        return Value(_L0C, allocated_bytes(self.target, "l0c", size), ring or self.accumulator)

    def multiply(self, acc: Value, a: Value, b: Value, rows: int, columns: int, depth: int, bias: Value | None = None) -> None:
        """One product; operands that only it uses are the caller's to give up."""
        reads = (a, b) if bias is None else (a, b, bias)
        self.core.issue(Lane.CUBE, self.product(rows, columns, depth, self.p.a), reads, (acc,), 0.0, 3)

    def store(self, acc: Value, rows: int, columns: int) -> None:
        """Drain an accumulator, after which nothing uses it."""
        self.core.issue(Lane.FIXPIPE, self.drain(rows, columns, self.p.c), (acc,), (), 0.0, 4)
        self.core.release(acc)

    def block(self, a: Panel, b: Panel, bias: Panel | None, rows: int, columns: int) -> None:
        """One output block over all of K, in a straight line."""
        panels = [a(rows), b(columns)] + ([bias(columns)] if bias else [])
        acc = self.new_accumulator(rows, columns)
        self.multiply(acc, panels[0], panels[1], rows, columns, self.p.K, panels[2] if bias else None)
        for v in panels:
            self.core.release(v)
        self.store(acc, rows, columns)

    # -- the forms ---------------------------------------------------------------------------------------------------------

    def split_k_grid(self) -> None:
        """Every output block with its own K loop; N outer, M inner."""
        for column in range(0, self.p.N, self.n):
            for row in range(0, self.p.M, self.m):
                self.k_loop(min(self.m, self.p.M - row), min(self.n, self.p.N - column))

    def k_loop(self, rows: int, columns: int) -> None:
        """K in blocks of k: a pipeline over the full ones, a straight line for the tail; with a bias the head is peeled."""
        acc = self.new_accumulator(rows, columns)
        full, tail = divmod(self.p.K, self.k)
        window = self.window_bias(1)
        bias = window(columns) if window else None
        peeled = full if full <= (2 if self.p.bias else 1) else (1 if self.p.bias else 0)
        for _ in range(peeled):
            self._k_block(acc, rows, columns, self.k, self.panel_a(1, self.k), self.panel_b(1, self.k), bias)
            if bias is not None:
                self.core.release(bias)
                bias = None
        a, b = self.panel_a(2, self.k), self.panel_b(2, self.k)
        for _ in range(full - peeled):
            self._k_block(acc, rows, columns, self.k, a, b)
        if tail:
            self._k_block(acc, rows, columns, tail, self.panel_a(1, tail), self.panel_b(1, tail))
        self.store(acc, rows, columns)

    def _k_block(self, acc: Value, rows: int, columns: int, depth: int, a: Panel, b: Panel, bias: Value | None = None) -> None:
        left, right = a(rows), b(columns)
        self.multiply(acc, left, right, rows, columns, depth, bias)
        self.core.release(left)
        self.core.release(right)

    def full_k_grid(self, rows_outer: bool, pipelined: bool, accumulators: int) -> None:
        """The interior as two loops, the held panel in the outer one; then the bottom strip across all N, then the right strip.

        ``pipelined``: the outer loop is a pipeline too (output-stationary), so the held panel has two slots.
        """
        p, m, n = self.p, self.m, self.n
        inner_rows, inner_columns = p.M // m * m, p.N // n * n
        outer = 2 if pipelined else 1
        if rows_outer:
            held, moving = self.panel_a(outer), self.panel_b(2)
            steps, length, other, width = inner_rows // m, m, inner_columns // n, n
        else:
            held, moving = self.panel_b(outer), self.panel_a(2)
            steps, length, other, width = inner_columns // n, n, inner_rows // m, m
        bias = self.window_bias(2 if rows_outer else outer)
        ring = Ring(2) if accumulators == 2 else self.accumulator
        for _ in range(steps):
            keep = held(length)
            kept_bias = bias(n) if bias and not rows_outer else None
            for _ in range(other):
                move = moving(width)
                window = bias(n) if bias and rows_outer else kept_bias
                acc = self.new_accumulator(m, n, ring)
                a, b = (keep, move) if rows_outer else (move, keep)
                self.multiply(acc, a, b, m, n, p.K, window)
                self.core.release(move)
                if window is not None and rows_outer:
                    self.core.release(window)
                self.store(acc, m, n)
            self.core.release(keep)
            if kept_bias is not None:
                self.core.release(kept_bias)
        if inner_rows < p.M:
            for column in range(0, p.N, n):
                self._strip(p.M - inner_rows, min(n, p.N - column))
        if inner_columns < p.N:
            for _ in range(0, inner_rows, m):
                self._strip(m, p.N - inner_columns)

    def _strip(self, rows: int, columns: int) -> None:
        self.block(self.panel_a(1), self.panel_b(1), self.window_bias(1), rows, columns)
