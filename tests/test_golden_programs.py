"""Every golden program through the whole path: the same data flow, diagnostics and refusals as the documented pass."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tiling_checks import (
    DATA,
    check_legal,
    check_meaning,
    check_numbers,
    check_printed,
    check_signatures,
    check_stable,
    same_program,
)

import tilesat
from ir_bridge.ir.nodes import For, Program, walk
from ir_bridge.ir.parser import parse
from tilesat.result import Tiling
from tilesat.tiling import tile

ROWS = [json.loads(line) for line in (DATA / "tiled_programs.jsonl").read_text().splitlines()]
TILED = [r for r in ROWS if "error" not in r]
REFUSED = [r for r in ROWS if "error" in r]
PREDICATED = [r for r in TILED if r["name"].startswith("splitk-pred-")]
PLAIN = [r for r in TILED if not r["name"].startswith("splitk-pred-")]
#: Largest error, relative to the largest result, of a sum in another order: fp32 sums of bf16 products; a chain rounds to bf16.
TOLERANCE, CHAINED = 1e-5, 2e-2

same = same_program()
_made: dict[tuple[str, str, str], tuple[Program, Tiling]] = {}


def key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["name"], row["target"], row["planner"]


def row_id(row: dict[str, Any]) -> str:
    return f"{row['name']}-{row['planner']}"


def tiled(row: dict[str, Any]) -> tuple[Program, Tiling]:
    """A row's program, parsed and tiled (once per row)."""
    if key(row) not in _made:
        before = parse(row["input"])
        _made[key(row)] = before, tile(before, target=row["target"], planner=row["planner"])
    return _made[key(row)]


def test_there_are_all_of_them() -> None:
    assert len(ROWS) == 261
    assert len(REFUSED) == 12
    assert len(PREDICATED) == 12


@pytest.mark.parametrize("row", PLAIN, ids=row_id)
def test_the_same_data_flow(row: dict[str, Any]) -> None:
    _, result = tiled(row)
    ok, why = same(str(result.program), row["output"])
    assert ok, f"{why}\n{result.program}"


@pytest.mark.parametrize("row", TILED, ids=row_id)
def test_the_same_diagnostics(row: dict[str, Any]) -> None:
    _, result = tiled(row)
    assert sorted({d.code for d in result.diagnostics}) == row["diagnostics"]
    for d in result.diagnostics:
        assert re.fullmatch(r"\[perf_hint PH-AT-0\d\d\] AutoTileMatmulL0: tile\.matmul(_acc|_bias)?: .+ at .+", str(d))
        assert "kernel" in d.where
        assert re.search(r":\d+:\d+$", d.where)
        assert "__" not in str(d)


@pytest.mark.parametrize("row", TILED, ids=row_id)
def test_legal_and_the_same_numbers(row: dict[str, Any]) -> None:
    before, result = tiled(row)
    check_legal(before, result, row["target"])
    check_meaning(before, result.program, seed=1)
    check_numbers(before, result.program, CHAINED if row["name"].startswith("chain-") else TOLERANCE)


@pytest.mark.parametrize("row", TILED, ids=row_id)
def test_signatures_stay_and_the_text_reads_back(row: dict[str, Any]) -> None:
    before, result = tiled(row)
    check_signatures(before, result.program)
    check_printed(result.program)


@pytest.mark.parametrize("row", TILED, ids=row_id)
def test_tiling_twice_is_tiling_once(row: dict[str, Any]) -> None:
    _, result = tiled(row)
    check_stable(result, target=row["target"], planner=row["planner"])


@pytest.mark.parametrize("row", [r for r in TILED if parse(r["output"]) == parse(r["input"])], ids=row_id)
def test_nothing_to_do_gives_back_an_equal_program(row: dict[str, Any]) -> None:
    before, result = tiled(row)
    if not row["name"].startswith("splitk-pred-"):
        assert result.program == before


# -- refusals ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", REFUSED, ids=row_id)
def test_refused_programs_name_operand_space_shape_type_bytes_and_both_repairs(row: dict[str, Any]) -> None:
    with pytest.raises(tilesat.PlacementError) as refusal:
        tile(parse(row["input"]), target=row["target"], planner=row["planner"])
    assert isinstance(refusal.value, tilesat.TilesatError)
    said = str(refusal.value)
    reference = row["error"]
    side, name = re.search(r"(left|right) operand '(\w+)'", reference).groups()  # type: ignore[union-attr]
    space, buffer = re.search(r"in (Left|Right) \((L0A|L0B)\)", reference).groups()  # type: ignore[union-attr]
    shape = re.search(r"physical shape (\[.*?\])", reference).group(1)  # type: ignore[union-attr]
    numbers = re.search(r"requiring (\d+) bytes, but the active backend provides (\d+) bytes", reference).groups()  # type: ignore[union-attr]
    for part in (f"{side} operand {name!r}", f"{space} ({buffer})", shape, "fp16", *numbers, "tile.matmul"):
        assert part in said
    assert "in Mat" in said
    assert f"extract a smaller {space} tile" in said
    assert re.search(r":\d+:\d+", said)


# -- predicated chains, which the reference leaves alone and the specification tiles ---------------------------------------------


def branch_form(text: str) -> str:
    """A predicated split-K chain in the branch spelling."""
    loop = re.search(r"^( +)more: (\S.*?) = pl\.tile\.matmul_acc\(acc_i, a_k, b_k, k0 == 0\)\n", text, re.M)
    assert loop is not None
    pad, type_ = loop.groups()
    arms = [
        "if k0 == 0:",
        f"    first: {type_} = pl.tile.matmul(a_k, b_k)",
        f"    phi: {type_} = pl.yield_(first)",
        "else:",
        f"    more: {type_} = pl.tile.matmul_acc(acc_i, a_k, b_k)",
        f"    phi: {type_} = pl.yield_(more)",
    ]
    return text.replace(loop.group(0), "".join(f"{pad}{line}\n" for line in arms)).replace(
        "pl.yield_(more)\n        out_1", "pl.yield_(phi)\n        out_1"
    )


@pytest.mark.parametrize("row", PREDICATED, ids=row_id)
def test_predicated_chains_become_what_their_branch_twins_become(row: dict[str, Any]) -> None:
    _, result = tiled(row)
    twin_text = branch_form(row["input"])
    listed = {key(r): r for r in ROWS}.get((row["name"].replace("pred", "branch"), row["target"], row["planner"]))
    if listed is not None:
        assert listed["input"] == twin_text
    twin = listed["output"] if listed else str(tile(parse(twin_text), target=row["target"], planner=row["planner"]).program)
    inner = re.findall(r"(\w+) == 0 and (\w+) == 0", str(result.program))
    if not inner:
        ok, why = same(str(result.program), twin)
        assert ok, f"{why}\n{result.program}"
        return
    mine, theirs = ([s for s in walk(p.functions[0].body) if isinstance(s, For)] for p in (result.program, parse(twin)))
    assert [[s.stop, s.step, s.stage] for s in mine] == [[s.stop, s.step, s.stage] for s in theirs[:2]]
    assert [s.step for s in theirs[1:]] == [mine[1].step] * 2  # the branch form has an inner loop in each arm
    assert inner[0][0] == mine[0].counter.name  # type: ignore[union-attr]
    assert inner[0][1] == mine[1].counter.name  # type: ignore[union-attr]
    assert mine[1].inits == mine[0].carried


def test_some_predicated_chain_is_tiled_inside_too() -> None:
    """issue 2232's relative: k0 == 0 and ko == 0 in the one inner loop."""
    row = next(r for r in PREDICATED if r["name"] == "splitk-pred-16x256x128x8-bf16-910b" and r["planner"] == "pypto")
    assert "k0 == 0 and more_ko == 0" in str(tiled(row)[1].program)
