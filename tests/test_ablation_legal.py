"""Each rule family can be switched off by name; what is left is still legal and computes the same."""

from __future__ import annotations

import random

import pytest
from generate import program_text
from lift_programs import Case, Chain
from tiling_checks import PLANNERS, TARGETS, checked

from egraph_rules.catalogue import CORE, FAMILIES

SWITCHABLE = [name for name in FAMILIES if name not in CORE]

#: One program a form: K-loops with a tail, grids stored and kept on chip, folded casts, bias, accumulation, Vec, split-K.
CASES = {
    "k_tail": Case.full(64, 64, 272),
    "grid": Case.full(192, 512, 64),
    "scratch": Case.full(256, 256, 64, dtype="fp32", place="scratch"),
    "fold_grid": Case.full(256, 256, 192, place="cast"),
    "fold_whole": Case.full(128, 128, 512, place="cast"),
    "bias": Case.full(96, 768, 64, op="bias"),
    "accumulate": Case.full(32, 64, 1024, op="acc_if"),
    "vec": Case.full(16, 64, 2048, left="Vec"),
    "chain": Chain(272, 144, 128, 2),
    "chain_branch": Chain(272, 144, 384, 2, branch=True),
}


@pytest.mark.parametrize("family", SWITCHABLE)
@pytest.mark.parametrize("base", ["reference", "all"])
def test_without_one_family(family: str, base: str) -> None:
    for i, case in enumerate(CASES.values()):
        checked(case.text(), stable=False, target=TARGETS[i % 2], planner=PLANNERS[i % 3], rules=f"{base},-{family}")


@pytest.mark.parametrize("family", SWITCHABLE)
def test_with_one_family_beside_k_splitting(family: str) -> None:
    for i, case in enumerate(CASES.values()):
        checked(case.text(), stable=False, target=TARGETS[i % 2], rules=f"loads,k_split,{family}")


@pytest.mark.parametrize("seed", range(8))
def test_half_of_the_families_on_generated_programs(seed: int) -> None:
    rng = random.Random(seed)
    some = rng.sample(SWITCHABLE, len(SWITCHABLE) // 2)
    checked(program_text(rng, max_matmuls=5), stable=False, target=TARGETS[seed % 2], rules=",".join(some))
