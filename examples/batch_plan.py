"""How one attention layer's batched products are spread over a chip, and what each costs: python examples/batch_plan.py

q @ kᵀ and p @ v of a decode step (one row a head) and of a prefill (512 rows a head), for 8 sequences of 16 heads.
"""

from __future__ import annotations

import numpy as np

import tilesat

HEADS = 8 * 16
PRODUCTS = {
    "decode, q @ kᵀ": {"B": HEADS, "M": 1, "N": 2048, "K": 128, "transpose_b": True},
    "decode, p @ v": {"B": HEADS, "M": 1, "N": 128, "K": 2048},
    "prefill, q @ kᵀ": {"B": HEADS, "M": 512, "N": 512, "K": 128, "transpose_b": True},
    "prefill, p @ v": {"B": HEADS, "M": 512, "N": 128, "K": 512},
    "router, x @ w": {"B": 8, "M": 512, "N": 64, "K": 1024, "batch_b": 1},
}


def main() -> None:
    for name, arguments in PRODUCTS.items():
        plan = tilesat.plan_batch(dtype="bf16", **arguments)
        others = ", ".join(f"{b} {x.total:.1f}" for b, x in plan.alternatives.items() if b != plan.branch)
        tile = " × ".join(str(plan.params[d]) for d in "mnk")
        print(f"{name:16} {plan.branch:12} {plan.latency.total:8.1f} µs, {plan.latency.bound} bound, L0 tile {tile} ({others})")
    check()


def check() -> None:
    """The decode step's p @ v, run by the reference interpreter against numpy, with small whole numbers."""
    plan = tilesat.plan_batch(B=16, M=1, N=128, K=256, dtype="fp32")
    rng = np.random.default_rng(0)
    p, v = rng.integers(-4, 5, (16, 1, 256)), rng.integers(-4, 5, (16, 256, 128))
    equal = np.array_equal(tilesat.execute(plan.program, a=p, b=v)["c"], p @ v)
    print(f"16 heads on {plan.params['cores']} cores by {plan.branch}: {'equal to numpy, bit for bit' if equal else 'WRONG'}")


if __name__ == "__main__":
    main()
