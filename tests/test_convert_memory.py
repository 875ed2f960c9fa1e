"""Memory consistency of conversion: bulk stores and scalar writes, fill loops, staging, directions (specification 2)."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_texts import assert_same, converted, equal_results, kernel, lines, program, tensor

from ir_bridge.convert import ConvertError, convert
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.parser import parse

OUT = f"output: pl.Out[{tensor('1, 32', 'INT32')}]"
I32 = "INT32"


def check(parameters: str, text: str, **arrays: object) -> str:
    """The converted text; both programs must compute the same."""
    source = parse(program(kernel(parameters, text)))
    tiles = convert(source)
    assert equal_results(execute(source, **arrays), execute(tiles, **arrays))
    return str(tiles)


# -- the document's two programs ----------------------------------------------------------------------------------------


def test_a_bulk_store_and_scalar_writes_to_one_tensor_are_refused() -> None:
    with pytest.raises(ConvertError) as refusal:
        converted(
            kernel(
                OUT,
                """
                output[0:1, 0:16] = pl.full([1, 16], dtype=pl.INT32, value=-1)
                for i in pl.range(4):
                    pl.write(output, [0, i], pl.cast(i, pl.INT32))
                return output
                """,
            )
        )
    message = str(refusal.value)
    assert "kernel: output is written by bulk stores" in message
    assert "<string>:10:9" in message  # the store
    assert "<string>:12:13" in message  # the write
    assert "pl.full" in message
    assert "pl.write" in message


def test_local_updates_stored_once_are_fine() -> None:
    text = check(
        OUT,
        """
        staged = pl.full([1, 32], dtype=pl.INT32, value=-1)
        for i in pl.range(4):
            pl.write(staged, [0, i], pl.cast(i, pl.INT32))
        output[0:1, 0:32] = staged
        return output
        """,
    )
    assert len(lines(text, "tile.write")) == 1
    assert len(lines(text, "tile.store")) == 1


def test_different_tensors_may_take_different_paths() -> None:
    text = check(
        f"{OUT}, other: pl.Out[{tensor('1, 32', I32)}]",
        """
        output[0:1, 0:32] = pl.full([1, 32], dtype=pl.INT32, value=-1)
        for i in pl.range(4):
            pl.write(other, [0, i], pl.cast(i, pl.INT32))
        return output
        """,
        other=np.zeros((1, 32), np.int32),
    )
    assert "pl.tensor.write(other" in text


@pytest.mark.parametrize(
    "text",
    [
        # through a loop's carried value, disjoint as the offsets look
        """
        for i in pl.range(2):
            output[0:1, 16:32] = pl.full([1, 16], dtype=pl.INT32, value=-1)
        pl.write(output, [0, 0], n)
        return output
        """,
        # through a branch
        """
        if n > 1:
            output[0:1, 0:16] = pl.full([1, 16], dtype=pl.INT32, value=-1)
        pl.write(output, [0, 20], n)
        return output
        """,
        # through an alias
        """
        alias = output
        alias[0:1, 0:16] = pl.full([1, 16], dtype=pl.INT32, value=-1)
        pl.write(output, [0, 20], n)
        return output
        """,
    ],
)
def test_aliases_and_carried_values_are_tracked(text: str) -> None:
    with pytest.raises(ConvertError, match="output is written by bulk stores"):
        converted(kernel(f"{OUT}, n: pl.Scalar[pl.INT32]", text))


# -- constant fill loops ------------------------------------------------------------------------------------------------

FILL = "for i in pl.range({n}):\n    pl.write(output, [{row}, {col}], {value})\n"


def fill(n: int = 32, row: str = "0", col: str = "i", value: str = "pl.const(7, pl.INT32)") -> str:
    return FILL.format(n=n, row=row, col=col, value=value)


def promoted(text: str, parameters: str = "") -> bool:
    """Did the fill loop become a bulk store?"""
    given = f"output: pl.Out[{tensor('4, 32', I32)}], s: {tensor('1, 32', I32)}, v: pl.Scalar[pl.INT32]"
    out = converted(kernel(parameters or given, text + "return output"))
    return "pl.tensor.write" not in out


def test_a_constant_fill_becomes_full_and_store() -> None:
    text = converted(kernel(f"output: pl.Out[{tensor('4, 32', I32)}]", fill() + "return output"))
    expected = program(
        kernel(
            f"output: pl.Out[{tensor('4, 32', I32)}]",
            """
            f = pl.tile.full([1, 32], dtype=pl.INT32, value=7)
            pl.tile.store(f, [0, 0], output)
            return output
            """,
        )
    )
    assert_same(text, str(parse(expected)))


@pytest.mark.parametrize(
    ("text", "becomes_bulk"),
    [
        (fill(), True),
        (fill(8), True),  # 32 bytes
        (fill(4), False),  # 16 bytes: no whole line
        (fill(col="i + 8"), True),
        (fill(16, col="i + 4"), False),  # starts inside a line
        (fill(row="v"), True),  # rows are whole lines, whichever it is
        (fill(4, row="i", col="0"), False),  # strided
        (fill(16, col="i * 2"), False),  # strided
        (fill(value="v"), False),  # dynamic
        (fill(value="pl.cast(i, pl.INT32)"), False),
        (fill(n=32).replace("range(32)", "range(2, 32)"), False),  # not from zero
        (fill(n=32).replace("range(32)", "range(0, 32, 2)"), False),  # not by one
        (fill(n=32).replace("range", "parallel"), False),  # not serial
        (fill(n=32) + "    pl.write(output, [1, i], pl.const(8, pl.INT32))\n", True),  # two writes
    ],
)
def test_which_loops_are_fills(text: str, becomes_bulk: bool) -> None:
    assert promoted(text) is becomes_bulk


def test_a_fill_beside_a_bulk_store_goes_the_same_way() -> None:
    text = check(
        f"output: pl.Out[{tensor('4, 32', I32)}], s: {tensor('1, 32', I32)}",
        fill() + "output[1:2, 0:32] = s\nreturn output",
        s=np.arange(32, dtype=np.int32).reshape(1, 32),
    )
    assert "pl.tensor.write" not in text


def test_a_fill_followed_by_dynamic_writes_stays_a_loop() -> None:
    assert not promoted(fill() + "pl.write(output, [0, 3], v)\n")


def test_promotion_is_all_or_nothing_in_a_function() -> None:
    """A second tensor's fill stays a loop as well when the first one's would mix the paths."""
    text = converted(
        kernel(
            f"output: pl.Out[{tensor('4, 32', I32)}], b: pl.Out[{tensor('4, 32', I32)}], v: pl.Scalar[pl.INT32]",
            fill() + "pl.write(output, [0, 3], v)\n" + fill().replace("output", "b") + "return output",
        )
    )
    assert "tile.full" not in text


# -- a full tensor, then updates --------------------------------------------------------------------------------------

FULL = "output[0:1, 0:32] = pl.full([1, 32], dtype=pl.INT32, value=-1)\n"
UPDATE = "for i in pl.range(4):\n    pl.write(output, [0, i], pl.cast(i, pl.INT32))\n"


def test_updates_of_a_filled_parameter_are_staged_on_chip() -> None:
    text = check(OUT, FULL + UPDATE + "return output")
    assert "pl.tensor.write" not in text
    statements = [line for line in text.splitlines() if "tile." in line]
    assert "tile.store" in statements[-1]  # at the exit


@pytest.mark.parametrize(
    "text",
    [
        FULL.replace("0:32", "0:16").replace("[1, 32]", "[1, 16]") + UPDATE,  # not the whole tensor
        FULL + UPDATE + "output[0:1, 0:32] = pl.full([1, 32], dtype=pl.INT32, value=3)\n",  # another bulk store
        "f = pl.full([1, 32], dtype=pl.INT32, value=-1)\noutput[0:1, 0:32] = f\n" + UPDATE + "g = pl.add(f, 1)\n",  # not private
        FULL + UPDATE + "g = pl.exp(pl.cast(output, pl.FP32))\n",  # read again
    ],
)
def test_what_can_not_be_staged_is_refused(text: str) -> None:
    with pytest.raises(ConvertError, match="written by bulk stores"):
        converted(kernel(OUT, text + "return output"))


# -- directions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("pl.tensor.write(x, [0, 0], 1.0)\nreturn n", "Out"),
        ("v = pl.tensor.read(x, [0, 0])\npl.tensor.write(x, [0, 0], v)\nreturn n", "InOut"),
        ("y = pl.exp(x)\npl.tensor.write(x, [0, 0], 1.0)\nreturn y", "InOut"),
        ("x[0:8, 0:64] = pl.full([8, 64], dtype=pl.FP32, value=1.0)\nreturn x", "Out"),
        ("o = pl.assemble(x, pl.full([8, 64], dtype=pl.FP32, value=1.0), [0, 0], atomic=pl.AtomicType.Add)\nreturn o", "InOut"),
        ("d = pl.tensor.dim(x, 0)\npl.tensor.write(x, [0, 0], 1.0)\nreturn d", "Out"),
        ("y = pl.exp(x)\nreturn y", None),
    ],
)
def test_directions_follow_what_a_function_does(text: str, direction: str | None) -> None:
    signature = lines(converted(kernel(f"x: {tensor('16, 64')}, n: pl.Scalar[pl.INDEX]", text)), "def kernel")[0]
    before, _ = signature.split("n: pl.Scalar")
    assert ("pl.InOut[" in before) is (direction == "InOut")
    assert ("pl.Out[" in before) is (direction == "Out")


def test_declared_directions_stay() -> None:
    text = converted(kernel(f"x: pl.InOut[{tensor('16, 64')}]", "pl.tensor.write(x, [0, 0], 1.0)\nreturn x"))
    assert "x: pl.InOut[" in text
