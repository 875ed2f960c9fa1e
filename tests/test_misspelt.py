"""Operations that are not known and named nearly as known ones: they stay as they stand, and whoever uses tilesat is told."""

from __future__ import annotations

import pytest
from parse_texts import GOLDEN, WHOLE
from tensor_texts import kernel, program, tensor

import tilesat
from ir_bridge.ir.misspelt import misspelt, nearest_operation
from ir_bridge.ir.parser import parse

BODY = """
y = pl.matmull(x, x)
z = pl.exp(y)
n = pl.min(3, 4)
w = pl.matmull(x, x)
return pl.zz(z)
"""
TEXT = program(kernel(f"x: {tensor('16, 16')}", BODY))


@pytest.mark.parametrize(
    ("op", "near"),
    [
        ("tile.lod", "tile.load"),
        ("tile.stroe", "tile.store"),
        ("tensor.matmull", "tensor.matmul"),
        ("matmul_ac", "matmul_acc"),
        ("tile.setvalidshape", "tile.set_validshape"),
        ("tile.row_mux", "tile.row_max"),
        ("tile.load", None),
        # there are such operations, which the table does not have
        *((f"tile.{op}", None) for op in ("mscatter", "mov", "exp2", "log2", "matmul_mx", "row_argmax", "prelu")),
        *(
            (f"tile.{op}", None)
            for op in ("row_expand_max", "col_expand_expdif", "addsc", "extract_fp", "gatherb", "max", "matmul_mx_acc")
        ),
        ("create", None),
        ("tile.mrgsort_format1", None),
        ("tile.scatter?", None),
        ("exp", None),
        ("min", None),
        ("system.syncall", None),
    ],
)
def test_nearest_operations(op: str, near: str | None) -> None:
    assert nearest_operation(op) == near


def test_each_is_told_once_with_its_place() -> None:
    (found,) = misspelt(parse(TEXT))
    assert (found.op, found.nearest, found.function, found.loc.line) == ("matmull", "matmul", "kernel", 10)
    assert str(found) == (
        "pl.matmull is not known and is carried along as it stands; did you mean pl.matmul? [kernel, <string>:10:9]"
    )


def test_programs_of_the_reference_hold_none() -> None:
    assert not [found for _, text in GOLDEN for found in misspelt(parse(text))]
    assert not misspelt(parse(WHOLE))


def test_they_stay_as_they_stand_and_are_in_the_result() -> None:
    tiling = tilesat.tile(parse(TEXT))
    assert tiling.program == tiling.source
    assert [u.op for u in tiling.unknown_operations] == ["matmull"]
