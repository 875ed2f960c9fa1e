"""Batch plans on the simulator, and the study of branch rules."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cost.batch.chip import get_chip
from tilesat.batch import plan_batch
from tilesat.batch_simulation import busy_cores, simulate_batch
from tilesat.studies.batch import SUITES, BatchFindings, BatchStudy, batch_suite, study_batch
from tilesat.studies.errors import StudyError

PR = get_chip("ascend950pr")


def plan(**arguments: Any) -> Any:
    return plan_batch(**{"dtype": "bf16", **arguments})


def test_a_core_gets_its_share_of_the_channels() -> None:
    """32 busy cores share 1.6 TB/s: 1.6e12 / 1.65e9 / 32 = 30.3 bytes a cycle; one alone is held by its port, 31."""
    assert simulate_batch(plan(B=32, M=64, N=64, K=64, branch="iter_batch")).load_bytes_per_cycle == pytest.approx(
        30.303, rel=1e-4
    )
    alone = simulate_batch(plan(B=1, M=16, N=16, K=64))
    assert busy_cores(alone.plan.schedule, PR) == 1
    assert (alone.load_bytes_per_cycle, alone.store_bytes_per_cycle) == (31, 31)


def test_what_hits_l2_comes_faster() -> None:
    """M = 2048 on 8 row blocks reads B again 7 times from L2: the mean rate lies between the two channels' rates."""
    run = simulate_batch(plan(B=1, M=8192, N=256, K=512))
    assert 30.3 < run.load_bytes_per_cycle < 100


def test_one_product_by_hand() -> None:
    """B = 1, 16 × 16 × 64 on one core: load A and B (2048 bytes each at 31 a cycle, 500 cycles of latency), feed, multiply, drain
    343.4 + 16·4.59 cycles, nothing to overlap."""
    run = simulate_batch(plan(B=1, M=16, N=16, K=64))
    machine, r = PR.target.machine, PR.target.roofline
    loads = 2 * 2048 / 31 + machine.gm_latency_cycles
    feed = 2048 / r.bw_l0b  # B's feed ends last: A's, earlier, is behind its load
    multiply = r.mad_head + 4  # ⌈64·2/32⌉ fractals
    drain = r.drain_fixed + 16 * r.drain_row
    assert run.cycles == pytest.approx(loads + feed + multiply + drain, rel=0.02)
    assert run.microseconds == pytest.approx(run.cycles / 1650)


@pytest.mark.parametrize(
    "arguments",
    [
        {"B": 256, "M": 32, "N": 32, "K": 1024},
        {"B": 64, "M": 96, "N": 80, "K": 200},
        {"B": 3, "M": 700, "N": 500, "K": 300, "bias": "batched"},
        {"B": 2, "M": 16, "N": 16, "K": 20_000},
        {"B": 200, "M": 20, "N": 40, "K": 1},
        {"B": 400, "M": 200, "N": 400, "K": 0, "bias": "shared"},
        {"B": 8, "M": 512, "N": 1, "K": 1024, "batch_a": 1},
    ],
)
def test_every_branch_can_be_simulated(arguments: dict[str, Any]) -> None:
    run = simulate_batch(plan(**arguments))
    assert run.simulation.overflow == {}
    assert run.simulation.notes == ()
    assert math.isfinite(run.microseconds)
    # within a factor of four of the latency model, which leaves out how pipelines fill
    assert 0.25 < run.microseconds / run.plan.latency.total < 4


def test_barriers_are_counted_between_phases() -> None:
    relaid = simulate_batch(plan(B=8, M=512, N=1, K=1024, batch_a=1))
    assert relaid.plan.params["way"] == "fold_columns"
    assert relaid.barrier_cycles == 2 * PR.sync_cycles
    assert simulate_batch(plan(B=2, M=16, N=16, K=20_000)).barrier_cycles == PR.sync_cycles


def test_suites() -> None:
    sizes = {name: len(batch_suite(name)) for name in SUITES}
    assert sizes["smoke"] < sizes["standard"] < sizes["full"]
    for name in SUITES:
        cases = batch_suite(name)
        assert len({c.name for c in cases}) == len(cases)
        assert batch_suite(name) == cases
    published = {c.name for c in batch_suite("standard")}
    assert {"2x133x204x217211-bf16", "16x4608x4608x5120-bf16", "210x4x123x177-bf16-batch_b=1"} <= published
    with pytest.raises(StudyError, match="Did you mean 'standard'"):
        batch_suite("standart")


def test_the_study_of_branch_rules(tmp_path: Any) -> None:
    found = study_batch("smoke", out=tmp_path / "batch", workers=0)
    assert [r["item"] for r in found.rows] == [c.name for c in batch_suite("smoke")]
    for item, row in found.results:
        assert row["predicted"] == min(x["predicted"] for x in row["branches"].values()), item
        for without in row["without"].values():
            assert without["predicted"] is None or without["predicted"] >= row["predicted"] * (1 - 1e-9)
    text = (tmp_path / "batch" / "batch.md").read_text(encoding="utf-8")
    assert text == found.markdown()
    assert "| asw_basic |" in text
    again = study_batch("smoke", out=tmp_path / "batch", workers=0)
    assert again.rows == found.rows


def test_figures_of_the_study_by_hand() -> None:
    """Two problems: without `x` one is lost and one takes 2 and 8 times as long; the model errs on one of two picks."""
    from egraph_rules.batch.catalogue import FAMILIES

    def row(item: str, predicted: float, without: float | None, simulated: tuple[float, float]) -> dict[str, Any]:
        prices = {
            "iter_batch": {"predicted": predicted, "simulated": simulated[0]},
            "asw_basic": {"predicted": predicted * 2, "simulated": simulated[1]},
        }
        off = {family: {"branch": "asw_basic", "predicted": predicted} for family in FAMILIES}
        off["iter_batch"] = {"branch": None if without is None else "asw_basic", "predicted": without}
        return {"item": item, "result": {"branch": "iter_batch", "predicted": predicted, "branches": prices, "without": off}}

    study = BatchStudy("two", (), PR)
    rows = [row("p", 1.0, 2.0, (1.0, 3.0)), row("q", 1.0, 8.0, (2.0, 1.6)), row("r", 1.0, None, (1.0, 1.0))]
    found = BatchFindings(study, rows)
    (ablated,) = [a for a in found.ablation() if a["family"] == "iter_batch"]
    assert (ablated["lost"], ablated["slower"], ablated["worst"]) == (1, 2, 7.0)
    assert ablated["mean"] == pytest.approx(3.0)  # √(2·8) − 1
    assert [a["simulator"] for a in found.agreement()][:2] == ["iter_batch", "asw_basic"]
    assert [a["regret"] for a in found.agreement()] == pytest.approx([0.0, 0.25, 0.0])
    assert found.ratios() == [1.0, 2.0, 1.0]
