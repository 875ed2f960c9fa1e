"""Accumulation: a product added to the caller's accumulator starts its sum there.

    acc + A @ B  =  (…((acc + A[:, :k] @ B[:k, :]) + A[:, k:2k] @ B[k:2k, :]) + …)

The accumulator is threaded through the loop and is valid from the first panel on, so nothing overwrites it; a caller's
`init_cond` asks for overwriting, and holds at the first panel only: `init_cond and ko == 0`. The accumulator is the caller's
and whole, so the output is never cut (specification 1, "tile.matmul_acc").
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.families.k_split import k_loop
from egraph_rules.rule import Rule, family


@family("accumulate")
def ACCUMULATE() -> Iterator[Rule]:
    """acc + A @ B = acc + Σ A[:, ko:ko+k] @ B[ko:ko+k, :]: sum panels into the caller's accumulator."""
    yield k_loop("accumulate_panels", "matmul_acc", "acc + A @ B = acc + Σ A[:, ko:ko+k] @ B[ko:ko+k, :]")
