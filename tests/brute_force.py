"""An independent chooser by brute force, written from the documents alone: the oracle for the product's tile choices.

It shares no code and no constants table with the product. `brute_force` is plain Python, one loop a decision;
`brute_force_numpy` is the same search vectorised, and what benchmarks compare with. A case is a dictionary as in
`tests/data/l0_tile_choices.jsonl`.

The legality of a candidate (m, n, k, stationarity, dbC), as the golden rows have it
-----------------------------------------------------------------------------------
s, s_c are element bytes of operand and accumulator (s_c = 4). "full-K" means k >= K (k == K but for padding).

 1. Refused at once, without `allow_padding`: K % 16 != 0, or any of M, N, K below 16. (M = 33 is fine.)
    Biased products: N and K must be multiples of their boxes, max(16, 32/s) (int8: 32); refused otherwise [*].
 2. Extents: m in 16, 32, … ; n in align_n, 2·align_n, … ; k in align_k, 2·align_k, … ; align_n = align_k = 16, but
    max(16, 32/s) for biased products [*]. Each at most the extent (M = 33: m <= 32, and 33 itself is no candidate);
    with `allow_padding` at most the extent rounded up to its alignment.
 3. L0C: up(up(m, box_m), row_align) · up(n, box_n) · s_c · dbC <= L0C;  row_align = 32 for int32 on ascend910b, else 16.
 4. L0A: up(m, box_m) · k · s · dA <= L0A and L0B: k · up(n, box_n) · s · dB <= L0B, k not boxed. A streaming operand is
    double-buffered, d = 2; a held one is not, d = 1. Output-stationary: dA = dB = 2, for k < K, for k = K (though the outer
    operand is hoisted) and for the whole problem alike. A-stationary: dA = 1, dB = 2. B-stationary: dA = 2, dB = 1.
 5. A- and B-stationary and dbC = 2 only full-K. A 1 × 1 grid is a legal A- or B-stationary candidate.
 6. dbC = 2: two *full* tiles on the moving (inner) axis: rows outer (A held): N // n >= 2; columns outer: M // m >= 2.
    Output-stationary full-K holds A where A_once + B_once·⌈M/m⌉ <= A_once·⌈N/n⌉ + B_once, in bandwidth-weighted cycles.
 7. Bias: n <= cap, cap = bias table bytes / 4. Rebuilt windows (bias "mat"), full-K, and a real grid (m < M or n < N) [*]:
    A-stationary n <= cap/2; output-stationary holding B cap/2, holding A cap/4; B-stationary cap. The whole problem as one
    tile (1 × 1) has cap: one golden row tells (96 × 128 × 32 int8, 910B).

[*] Not decided by the golden rows: align_k of a biased int8 product (16 or 32: the specification wants every Left and Right
box of a biased product legal, which takes 32; it changes one biased int8 choice in eight), align_n likewise; and whether a
grid along M alone (n = N) already has the slot limits.

How one is chosen
-----------------
 - Walls are compared *rounded to the nearest integer*, between regimes and inside one too (one golden row tells:
   688 × 160 × 144 bf16, 910B). Then, ascending: padded volume, ⌈K/k⌉, load cycles (unrounded), -m·n, -k, (m, n, k).
 - Regimes in order: output dbC=1; output dbC=2; A dbC=1, 2; B dbC=1, 2. A later one needs a strictly smaller rounded wall.
 - If the first is the whole problem in one tile, it stands, unexplored (two golden rows tell).
 - With padding, a K block's MAD is charged at its true width, min(k, K - ko); m and n at the tile's extents.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_NAMES = (
    *("l0a", "l0b", "l0c", "bias", "int32_rows", "bw_a", "bw_b", "bw_drain"),
    *("drain_fixed", "drain_row", "drain_penalty", "mad_head", "fp32_passes"),
)
_VALUES = {
    "ascend910b": (65536, 65536, 131072, 1024, 32, 129.7, 85.4, 118.0, 164.0, 4.45, 2.6, 21, 2),
    "ascend950": (65536, 65536, 262144, 4096, 16, 206.3, 223.8, 30.0, 343.4, 4.59, 0.26, 25, 8),
}
CHIPS: dict[str, dict[str, float]] = {chip: dict(zip(_NAMES, values, strict=True)) for chip, values in _VALUES.items()}
BYTES = {"int8": 1, "fp16": 2, "bf16": 2, "fp32": 4}


def up(x: int, multiple: int) -> int:
    return (x + multiple - 1) // multiple * multiple


def ceil(x: int, y: int) -> int:
    return (x + y - 1) // y


def odd(x: int) -> int:
    while x % 2 == 0:
        x //= 2
    return x


class Case:
    """A golden row's case with its defaults filled in."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.M, self.N, self.K = case["M"], case["N"], case["K"]
        self.chip = CHIPS[case["target"]]
        self.s = BYTES[case["dtype"]]
        self.row_align = int(self.chip["int32_rows"]) if case["dtype"] == "int8" else 16
        self.bias = case.get("bias")
        self.box_m, self.box_n = case.get("box_m", 1), case.get("box_n", 1)
        self.padding = case.get("allow_padding", False)
        self.gamma = 2 if case.get("accumulate", False) else 1
        self.align = max(16, 32 // self.s) if self.bias else 16  # of n and k
        self.passes = self.chip["fp32_passes"] if self.s == 4 else max(1, self.s / 2)
        self.a_once = self.M * self.K * self.s / self.chip["bw_a"]
        self.b_once = self.K * self.N * self.s / self.chip["bw_b"]
        accumulators = [1, 2] if case.get("double_buffer_c", False) else [1]
        held = ["output", "a", "b"] if case.get("operand_stationary", False) else ["output"]
        self.regimes = [(h, d) for h in held for d in accumulators]

    @property
    def refused(self) -> bool:
        if self.padding:
            return False
        misfit = self.K % 16 or min(self.M, self.N, self.K) < 16
        return bool(misfit or (self.bias and (self.N % self.align or self.K % self.align)))

    def extents(self, full: int, align: int) -> range:
        return range(align, (up(full, align) if self.padding else full) + 1, align)

    def holds_a(self, held: str, m: int, n: int) -> bool:
        if held != "output":
            return held == "a"
        return self.a_once + self.b_once * ceil(self.M, m) <= self.a_once * ceil(self.N, n) + self.b_once

    def bias_cap(self, held: str, m: int, n: int, k: int) -> int:
        cap = int(self.chip["bias"]) // 4
        whole = m >= self.M and n >= self.N
        if self.bias != "mat" or k < self.K or whole or held == "b":
            return cap
        return cap // 4 if held == "output" and self.holds_a(held, m, n) else cap // 2

    def legal(self, held: str, dbc: int, m: int, n: int, k: int) -> bool:
        """Everything but the buffers, which the loops of `candidates` check as soon as they can."""
        if (held != "output" or dbc == 2) and k < self.K:
            return False
        if dbc == 2 and (self.N // n if self.holds_a(held, m, n) else self.M // m) < 2:
            return False
        return not self.bias or n <= self.bias_cap(held, m, n, k)

    def candidates(self, held: str, dbc: int) -> list[tuple[int, int, int]]:
        found = []
        depth_a, depth_b = (1 if held == "a" else 2), (1 if held == "b" else 2)
        for m in self.extents(self.M, 16):
            rows = up(up(m, self.box_m), self.row_align)
            for n in self.extents(self.N, self.align):
                if rows * up(n, self.box_n) * 4 * dbc > self.chip["l0c"]:
                    break
                for k in self.extents(self.K, self.align):
                    if up(m, self.box_m) * k * self.s * depth_a > self.chip["l0a"]:
                        break
                    if up(n, self.box_n) * k * self.s * depth_b > self.chip["l0b"]:
                        break
                    if self.legal(held, dbc, m, n, k):
                        found.append((m, n, k))
        return found

    def load(self, held: str, m: int, n: int, k: int) -> float:
        rows, columns = ceil(self.M, m), ceil(self.N, n)
        if k < self.K:
            return self.a_once * columns + self.b_once * rows
        return self.a_once + self.b_once * rows if self.holds_a(held, m, n) else self.a_once * columns + self.b_once

    def mad(self, m: int, n: int, k: int) -> float:
        widths = [min(k, self.K - ko) for ko in range(0, self.K, k)]
        fractals = ceil(m, 16) * ceil(n, self.align)
        per_tile = sum(self.chip["mad_head"] + self.passes * fractals * ceil(w * self.s, 32) for w in widths)
        return ceil(self.M, m) * ceil(self.N, n) * per_tile

    def drain(self, m: int, n: int) -> float:
        row = max(self.chip["drain_row"], 4 * n / self.chip["bw_drain"])
        row += self.chip["drain_penalty"] * (odd(ceil(n, 8)) - 1)
        return ceil(self.M, m) * ceil(self.N, n) * (self.chip["drain_fixed"] + m * row)

    def wall(self, held: str, dbc: int, m: int, n: int, k: int) -> int:
        compute, drain = max(self.load(held, m, n, k), self.mad(m, n, k)), self.drain(m, n)
        bubble = min(compute, drain) / (ceil(self.M, m) * ceil(self.N, n))
        return int((compute + drain if dbc == 1 else max(compute, drain) + bubble) + 0.5)

    def padded(self, m: int, n: int, k: int) -> int:
        return ceil(self.M, m) * m * ceil(self.N, n) * n * ceil(self.K, k) * k

    def traffic(self, held: str, m: int, n: int, k: int) -> int:
        holds_a = k >= self.K and self.holds_a(held, m, n)
        holds_b = k >= self.K and not self.holds_a(held, m, n)
        a = self.M * self.K * self.s * (1 if holds_a else ceil(self.N, n))
        b = self.K * self.N * self.s * (1 if holds_b else ceil(self.M, m))
        return a + b + 4 * self.M * self.N * self.gamma

    def key(self, held: str, dbc: int, m: int, n: int, k: int) -> tuple[float, ...]:
        load = self.load(held, m, n, k)
        return (self.wall(held, dbc, m, n, k), self.padded(m, n, k), ceil(self.K, k), load, -m * n, -k, m, n, k)

    def answer(self, held: str, dbc: int, m: int, n: int, k: int) -> dict[str, Any]:
        return {
            "m": m,
            "n": n,
            "k": k,
            "stationarity": held,
            "double_buffer_c": dbc == 2,
            "os_holds_a": self.holds_a(held, m, n),
            "wall_cycles": self.wall(held, dbc, m, n, k),
            "traffic_bytes": self.traffic(held, m, n, k),
            "padded_volume": self.padded(m, n, k),
        }

    def whole(self, m: int, n: int, k: int) -> bool:
        return m >= self.M and n >= self.N and k >= self.K


def brute_force(case: dict[str, Any]) -> dict[str, Any]:
    """The choice as a golden row's `expect` has it ({"rejected": True} for a refusal), by trying every legal candidate."""
    c = Case(case)
    best: tuple[str, int, int, int, int] | None = None
    for held, dbc in [] if c.refused else c.regimes:
        points = c.candidates(held, dbc)
        if not points:
            if best is None:
                break  # nothing fits even output-stationary with one accumulator
            continue
        m, n, k = min(points, key=lambda p: c.key(held, dbc, *p))
        if best is None or c.wall(held, dbc, m, n, k) < c.wall(*best):
            best = (held, dbc, m, n, k)
        if (held, dbc) == c.regimes[0] and c.whole(m, n, k):
            break
    return {"rejected": True} if best is None else c.answer(*best)


# -- the same search, vectorised ---------------------------------------------------------------------------------------


def _up(x: Any, multiple: int) -> Any:
    return (x + (multiple - 1)) // multiple * multiple


def _ceil(x: Any, y: Any) -> Any:
    return (x + y - 1) // y


#: odd part of every fractal count that can occur
ODD = np.array([0, *(odd(i) for i in range(1, 4097))])


def _grid_of_mn(c: Case, dbc: int) -> tuple[Any, Any]:
    """Only the (m, n) that fit L0C: for each m, the n up to what its rows leave."""
    ms = np.array(c.extents(c.M, 16), dtype=np.int64)
    n_limit = (int(c.chip["l0c"]) // (4 * dbc)) // _up(_up(ms, c.box_m), c.row_align) // c.box_n * c.box_n
    ns = np.array(c.extents(c.N, c.align), dtype=np.int64)
    counts = np.searchsorted(ns, n_limit, side="right")
    m = np.repeat(ms, counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    return m, ns[np.arange(len(m)) - first]


def _points(c: Case, held: str, dbc: int) -> tuple[Any, Any, Any, Any]:
    """(m, n, k, holds_a) of every legal candidate of one regime."""
    m, n = _grid_of_mn(c, dbc)
    depth_a, depth_b = (1 if held == "a" else 2), (1 if held == "b" else 2)
    k_limit = np.minimum(
        int(c.chip["l0a"]) // (_up(m, c.box_m) * (c.s * depth_a)), int(c.chip["l0b"]) // (_up(n, c.box_n) * (c.s * depth_b))
    )
    ks = np.array(c.extents(c.K, c.align), dtype=np.int64)
    counts = np.searchsorted(ks, k_limit, side="right")
    if held != "output" or dbc == 2:
        fits = counts == len(ks)
        m, n = m[fits], n[fits]
        k = np.full(len(m), ks[-1] if len(ks) else 0)
    else:
        first = np.repeat(np.cumsum(counts) - counts, counts)
        m, n = np.repeat(m, counts), np.repeat(n, counts)
        k = ks[np.arange(len(m)) - first]
    if held == "output":
        holds_a = c.a_once + c.b_once * _ceil(c.M, m) <= c.a_once * _ceil(c.N, n) + c.b_once
    else:
        holds_a = np.full(len(m), held == "a")
    keep = np.ones(len(m), dtype=bool)
    if dbc == 2:
        keep &= np.where(holds_a, c.N // n, c.M // m) >= 2
    if c.bias:
        cap = int(c.chip["bias"]) // 4
        free = (k < c.K) | ((m >= c.M) & (n >= c.N)) | (c.bias != "mat") | (held == "b")
        keep &= n <= np.where(free, cap, np.where(holds_a & (held == "output"), cap // 4, cap // 2))
    return m[keep], n[keep], k[keep], holds_a[keep]


def _best(c: Case, held: str, dbc: int) -> tuple[int, int, int, int] | None:
    """(rounded wall, m, n, k) of the best candidate of one regime."""
    m, n, k, holds_a = _points(c, held, dbc)
    if not len(m):
        return None
    rows, columns, blocks = _ceil(c.M, m), _ceil(c.N, n), _ceil(c.K, k)
    full = k >= c.K
    load = c.a_once * np.where(full & holds_a, 1, columns) + c.b_once * np.where(full & ~holds_a, 1, rows)
    fractals = _ceil(m, 16) * _ceil(n, c.align) * c.passes
    whole, tail = c.K // k, c.K % k
    mad = whole * (c.chip["mad_head"] + fractals * _ceil(k * c.s, 32))
    mad = rows * columns * (mad + np.where(tail > 0, c.chip["mad_head"] + fractals * _ceil(tail * c.s, 32), 0))
    per_row = np.maximum(c.chip["drain_row"], 4 * n / c.chip["bw_drain"]) + c.chip["drain_penalty"] * (ODD[_ceil(n, 8)] - 1)
    drain = rows * columns * (c.chip["drain_fixed"] + m * per_row)
    compute = np.maximum(load, mad)
    overlapped = np.maximum(compute, drain) + np.minimum(compute, drain) / (rows * columns)
    wall = np.floor((compute + drain if dbc == 1 else overlapped) + 0.5)
    tied = np.nonzero(wall == wall.min())[0]
    padded = rows * m * columns * n * blocks * k
    order = np.lexsort((k[tied], n[tied], m[tied], -k[tied], -(m * n)[tied], load[tied], blocks[tied], padded[tied]))
    i = tied[order[0]]
    return int(wall[i]), int(m[i]), int(n[i]), int(k[i])


def brute_force_numpy(case: dict[str, Any]) -> dict[str, Any]:
    """The same answer as `brute_force`, enumerating only the (m, n) that fit L0C, as numpy arrays."""
    c = Case(case)
    best: tuple[int, str, int, int, int, int] | None = None
    for held, dbc in [] if c.refused else c.regimes:
        found = _best(c, held, dbc)
        if found is None and best is None:
            break
        if found is not None and (best is None or found[0] < best[0]):
            best = (found[0], held, dbc, *found[1:])
            if len(c.regimes) > 1 and (held, dbc) == c.regimes[0] and c.whole(*found[1:]):
                break
    return {"rejected": True} if best is None else c.answer(*best[1:])
