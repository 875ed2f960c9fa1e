"""The registry of conversions: spaces are derived from the op table, and a gap between the two is an error when it is built."""

from __future__ import annotations

import pytest

from ir_bridge.convert import driver
from ir_bridge.convert.registry import all_conversions, conversion
from ir_bridge.convert.spaces import LANDING, OperandSpace, RegistryError, operand_space
from ir_bridge.ir.ops import all_ops, lookup
from ir_bridge.ir.types import Space


def test_every_computing_tensor_operation_has_a_conversion() -> None:
    assert driver.FAMILIES
    known = {c.op for c in all_conversions()}
    made_by_tilesat = {"tensor.fold"}  # views of batches, in multi-core programs
    assert {op.name for op in all_ops() if op.name.startswith("tensor.")} - made_by_tilesat == known


def test_spaces_come_from_the_op_table() -> None:
    """Independent of the registry: what each declared operand of a product must land in, from the document's table."""
    product = operand_space(("tile.matmul", "tile.batch_matmul"), 0)
    assert (product.space, product.landing) == (Space.LEFT, Space.MAT)
    assert operand_space(("tile.matmul",), 1).landing is Space.MAT
    assert operand_space(("tile.matmul_bias",), 2).landing is Space.MAT
    assert operand_space(("tile.sel",), 2).landing is Space.VEC
    assert operand_space(("tile.matmul_acc",), 0).landing is None


def test_the_landing_table() -> None:
    spaces = (Space.VEC, Space.MAT, Space.LEFT, Space.RIGHT, Space.BIAS, Space.LEFT_SCALE, Space.RIGHT_SCALE)
    landings = [LANDING[s] for s in spaces]
    assert landings == [Space.VEC, *[Space.MAT] * 6]
    assert Space.ACC not in LANDING


def test_a_space_can_not_be_written() -> None:
    with pytest.raises(RegistryError, match="derived from the op table"):
        OperandSpace(Space.VEC, (Space.VEC,), object())


@pytest.mark.parametrize(
    ("operations", "index", "message"),
    [
        (("tile.nonsense",), 0, "'tile.nonsense', which the op table does not have"),
        (("tile.load",), 0, "tile.load declares no memory space for operand 0"),
        (("tile.matmul", "tile.exp"), 0, "tile.matmul and tile.exp demand different spaces of operand 0"),
        ((), 0, "must name the operations"),
    ],
)
def test_gaps_are_errors_when_the_registry_is_built(operations: tuple[str, ...], index: int, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        operand_space(operations, index)


def test_conversions_of_unknown_or_known_operations() -> None:
    with pytest.raises(RegistryError, match="which the op table does not have"):
        conversion("tensor.nonsense")(lambda b, s: None)
    with pytest.raises(RegistryError, match="two conversions"):
        conversion("tensor.add")(lambda b, s: None)


def test_inputs_name_operands_that_exist() -> None:
    for c in all_conversions():
        op = lookup(c.op)
        assert op is not None
        for i in c.inputs:
            assert i.index < len(op.args)
            assert i.transposed_by is None or i.transposed_by in {a.name for a in op.keywords}
