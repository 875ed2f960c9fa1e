"""What conversion refuses: each message names the function, the value, the place, and what to write instead."""

from __future__ import annotations

import pytest
from tensor_texts import converted, kernel, tensor

from cost.errors import TilesatError
from ir_bridge.convert import ConvertError
from ir_bridge.ir.parser import ParseError

BF = "BF16"

CASES = {
    "a window of a Mat tile, transposed": (
        f"query: {tensor('512, 128', BF)}, key: {tensor('64, 128', BF)}, out: pl.Out[{tensor('64, 512')}]",
        """
        parent = pl.slice(query, [512, 128], [0, 0])
        for q in pl.range(8):
            window = pl.slice(parent, [64, 128], [q * 64, 0])
            out[0:64, q * 64 : q * 64 + 64] = pl.matmul(key, window, b_trans=True, out_dtype=pl.FP32)
        return out
        """,
        ["b_trans=True on window", "a window of parent in Mat", "<string>:13:47", "load each window on its own", "drop the flag"],
    ),
    "a result whose size the body computes": (
        f"x: {tensor('64, 64')}, n: pl.Scalar[pl.INDEX]",
        """
        m = n * 2
        s: pl.Tensor[[m, 64], pl.FP32] = pl.slice(x, [m, 64], [0, 0])
        y: pl.Tensor[[m, 64], pl.FP32] = pl.add(s, s)
        return y
        """,
        ["the result y names m", "pass m as a scalar parameter", "pl.Out parameter", "<string>:13:9"],
    ),
    "an accumulator in memory": (
        f"acc: {tensor('16, 16')}, a: {tensor('16, 32', BF)}, b: {tensor('32, 16', BF)}",
        "return pl.matmul_acc(acc, a, b)",
        ["adds to acc, which is not in L0C", "nothing loads an accumulator", "pl.create_tensor"],
    ),
    "an accumulator in Vec": (
        f"a: {tensor('16, 32', BF)}, b: {tensor('32, 16', BF)}",
        "z = pl.full([16, 16], dtype=pl.FP32, value=0.0)\nreturn pl.matmul_acc(z, a, b)",
        ["adds to z_tile, which is not in L0C", "pl.add"],
    ),
    "a reduction of run-time size": (
        "x: pl.Tensor[[N, 64], pl.FP32]",
        "return pl.row_sum(x)",
        ["pl.row_sum of a tensor whose size is known only at run time", "valid_shape"],
    ),
    "ranks that do not agree, under a type that was declared": (
        f"x: {tensor('7, 48')}, y: {tensor('7')}",
        f"z: {tensor('7, 48')} = pl.maximum(x, y)\nreturn z",
        ["[7, 48] and [7]; reshape one", "<string>:"],
    ),
    "stretching at rank 3": (
        f"x: {tensor('2, 16, 16')}, y: {tensor('1, 16, 16')}",
        "return pl.add(x, y)",
        ["pl.add stretches an operand of rank 3", "reshape both operands to 2-D"],
    ),
    "scatter of one-byte data": (
        f"x: {tensor('16, 32', 'INT8')}, i: {tensor('1, 8', 'INT32')}, s: {tensor('8, 32', 'INT8')}",
        "return pl.scatter_update(x, -2, i, s)",
        ["scatter_update of int8 elements", "two or four bytes"],
    ),
    "a scatter by 64-bit rows": (
        f"x: {tensor('16, 32')}, i: {tensor('1, 8', 'INT64')}, s: {tensor('8, 32')}",
        "return pl.scatter_update(x, -2, i, s)",
        ["a row index of int64", "pl.INT32"],
    ),
    "a paged gather of a computed pool": (
        f"x: {tensor('64, 32')}, i: {tensor('8', 'INT32')}, t: {tensor('8', 'INT32')}",
        "return pl.paged_gather(pl.exp(x), i, t, block_size=8, max_indices=8, size=32)",
        ["pl.paged_gather whose source is computed on chip", "parameter in global memory"],
    ),
    "a gathered row of a computed value": (
        f"x: {tensor('64, 32')}",
        "kv = pl.create_l1([16, 32], pl.FP32)\nkv = pl.gather_row(kv, pl.exp(x), [0, 0], [0, 0], [1, 32])\nreturn pl.exp(kv)",
        ["pl.gather_row from a value computed on chip"],
    ),
    "an unknown operation on a computed value": (
        f"x: {tensor('16, 64')}",
        "y = pl.exp(x)\npl.comm.push(y)\nreturn y",
        ["comm.push takes y, which is computed on chip", "no conversion is registered", "pl.Out parameter"],
    ),
    "an unknown operation on a list of values": (
        f"x: {tensor('16, 64')}",
        "y = pl.exp(x)\npl.comm.push([x, y])\nreturn y",
        ["comm.push takes y, which is computed on chip", "<string>:11:9"],
    ),
    "a value's attribute": (
        f"x: {tensor('16, 64')}",
        "y = pl.exp(x)\nreturn y.owner",
        ["an expression takes y, which is computed on chip", "<string>:11:9", "pl.Out parameter"],
    ),
    "a scope of a computed value": (
        f"x: {tensor('16, 64')}",
        "y = pl.exp(x)\nwith pl.pinned(y):\n    z = pl.add(y, y)\nreturn z",
        ["pinned takes y, which is computed on chip", "<string>:11:9"],
    ),
    "a value of a misspelt operation, stored": (
        f"x: {tensor('16, 16')}, out: pl.Out[{tensor('16, 16')}]",
        "z = pl.matmull(x, x)\nout[:, :] = z\nreturn out",
        ["assemble takes z, whose type is not known", "matmull at <string>:10:9", "(did you mean matmul?)", "<string>:11:9"],
    ),
    "a value of a misspelt operation, added": (
        f"x: {tensor('16, 16')}",
        "z = pl.matmull(x, x)\ny = pl.exp(x)\nreturn pl.add(y, z)",
        ["add takes z, whose type is not known", "matmull at <string>:10:9", "(did you mean matmul?)", "<string>:12:9"],
    ),
    "a misspelt operation on a computed value": (
        f"x: {tensor('16, 16')}",
        "y = pl.exp(x)\nreturn pl.matmull(y, x)",
        ["matmull takes y, which is computed on chip", "did you mean matmul?"],
    ),
    "memory that nobody returns": (
        f"x: {tensor('16, 64')}",
        "z = pl.create_tensor([16, 64], dtype=pl.FP32)\npl.comm.push(z)\ny = pl.exp(x)\nreturn y",
        ["z must be global memory", "is not returned", "pl.Out or pl.InOut parameter"],
    ),
    "a write into a product": (
        f"a: {tensor('16, 32', BF)}, b: {tensor('32, 16', BF)}",
        "c = pl.matmul(a, b, out_dtype=pl.FP32)\npl.write(c, [0, 0], 1.0)\nreturn c",
        ["pl.write into c, a product in L0C", "pl.add(c, 0.0)"],
    ),
    "a split of a boxed product": (
        f"a: {tensor('100, 32', BF)}, b: {tensor('32, 16', BF)}",
        "c = pl.matmul(a, b, out_dtype=pl.FP32)\n"
        "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    h = pl.exp(pl.aiv_shard(c))\n"
        "    w = pl.aic_gather(h)\nreturn w",
        ["no whole number of fractals, [100, 16]", "multiples of 16"],
    ),
    "an atomic assemble on chip": (
        f"x: {tensor('16, 64')}",
        "z = pl.full([16, 64], dtype=pl.FP32, value=0.0)\n"
        "y = pl.assemble(z, x, [0, 0], atomic=pl.AtomicType.Add)\nreturn y",
        ["an atomic assemble into a value on chip"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused_with_place_and_repair(case: str) -> None:
    parameters, text, words = CASES[case]
    with pytest.raises(ConvertError) as refusal:
        converted(kernel(parameters, text))
    message = str(refusal.value)
    assert message.startswith("kernel: ")
    assert "<string>:" in message
    for word in words:
        assert word in message
    assert isinstance(refusal.value, TilesatError)


PARSED = {
    "a split of a rank-3 value": (
        f"x: {tensor('2, 16, 16')}",
        "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    h = pl.aiv_shard(pl.exp(x))\nreturn h",
        ["is not 2-D", "pl.reshape"],
    ),
    "a split of a distributed tensor": (
        "x: pld.DistributedTensor[[16, 16], pl.FP32]",
        "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    h = pl.aiv_shard(x)\nreturn h",
        ["distributed tensor can't be split", "local tensor"],
    ),
    "a tensor operand of the tile form": (
        f"x: {tensor('16, 16')}",
        "h = pl.tile.aiv_shard(x, split=1)\nreturn x",
        ["tile.aiv_shard: the operand must be a tile"],
    ),
    "an odd split": (
        f"x: {tensor('15, 16')}",
        "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    h = pl.aiv_shard(pl.exp(x))\nreturn h",
        ["15 elements do not split in two"],
    ),
    "valid_shape with transpose": (
        f"x: {tensor('64, 32')}, n: pl.Scalar[pl.INDEX]",
        "kv = pl.create_l1([32, 16], pl.FP32, transpose=True)\n"
        "kv = pl.gather_row(kv, x, [0, 0], [0, 0], [1, 32], transpose=True, valid_shape=[n, 32])\nreturn x",
        ["valid_shape and transpose=True exclude each other"],
    ),
    "valid_shape beyond shapes": (
        f"x: {tensor('64, 32')}",
        "kv = pl.create_l1([16, 32], pl.FP32)\nkv = pl.gather_row(kv, x, [0, 0], [0, 0], [4, 32], valid_shape=[5, 32])\nreturn x",
        ["valid_shape [5, 32] does not lie in shapes [4, 32]"],
    ),
    "run-time shapes of gathered rows": (
        f"x: {tensor('64, 32')}, n: pl.Scalar[pl.INDEX]",
        "kv = pl.create_l1([16, 32], pl.FP32)\nkv = pl.gather_row(kv, x, [0, 0], [0, 0], [n, 32])\nreturn x",
        ["shapes must be numbers", "valid_shape"],
    ),
    "a scatter along columns": (
        f"x: {tensor('16, 32')}, i: {tensor('1, 8', 'INT32')}, s: {tensor('8, 32')}",
        "return pl.scatter_update(x, -1, i, s)",
        ["only whole rows are scattered; dim must be -2"],
    ),
    "element types that differ": (
        f"x: {tensor('16, 32')}, y: {tensor('16, 32', BF)}",
        "return pl.add(x, y)",
        ["fp32 and bf16", "cast one of them"],
    ),
    "K that differs": (f"x: {tensor('16, 32')}, y: {tensor('16, 32')}", "return pl.matmul(x, y)", ["disagree on K"]),
    "an accumulator of the wrong type": (
        f"a: {tensor('16, 32', BF)}, b: {tensor('32, 16', BF)}",
        "acc = pl.create_tensor([16, 16], pl.BF16)\nreturn pl.matmul_acc(acc, a, b)",
        ["summed in fp32", "create it with that element type"],
    ),
}


@pytest.mark.parametrize("case", PARSED)
def test_refused_when_it_is_read(case: str) -> None:
    parameters, text, words = PARSED[case]
    with pytest.raises(ParseError) as refusal:
        converted(kernel(parameters, text))
    for word in words:
        assert word in str(refusal.value)


def test_returning_another_element_type_than_declared() -> None:
    with pytest.raises(ConvertError, match=r"y holds bf16 and is returned as fp32.*pl.cast\(y, pl.FP32\)"):
        converted(kernel(f"x: {tensor('16, 32')}", "y = pl.cast(x, pl.BF16)\nreturn y", tensor("16, 32")))
