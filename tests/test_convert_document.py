"""Specification 2 statement by statement: its Before/After programs, and what it says of spaces, boxing, carries and operations.

Where the document gives both sides, programs are compared by data flow; else the statements in question are looked at.
"""

from __future__ import annotations

import numpy as np
import pytest
from generate_tensors import inputs_for
from tensor_texts import HEAD, assert_same, converted, equal_results, kernel, lines, program, tensor

from ir_bridge.convert import convert
from ir_bridge.ir.interpreter import execute
from ir_bridge.ir.parser import parse

BF, FP = "BF16", "FP32"


def body(parameters: str, text: str, returns: str = "", **options: str) -> str:
    """The converted text of one kernel."""
    return converted(kernel(parameters, text, returns, **options))


# -- "Example" ---------------------------------------------------------------------------------------------------------

BEFORE = (
    HEAD
    + """
    @pl.function(type=pl.FunctionType.InCore)
    def main_incore_0(self, x: pl.Tensor[[64], pl.FP32]) -> pl.Tensor[[64], pl.FP32]:
        y: pl.Tensor[[64], pl.FP32] = pl.add(x, x)
        return y

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[64], pl.FP32]) -> pl.Tensor[[64], pl.FP32]:
        y: pl.Tensor[[64], pl.FP32] = self.main_incore_0(x)
        return y
"""
)
AFTER = (
    HEAD
    + """
    @pl.function(type=pl.FunctionType.InCore)
    def main_incore_0(
        self, x: pl.Tensor[[64], pl.FP32],
        ret0_out: pl.Out[pl.Tensor[[64], pl.FP32]]
    ) -> pl.Tensor[[64], pl.FP32]:
        x_tile: pl.Tile[[64], pl.FP32] = pl.load(x, (0,), (64,))
        y_tile: pl.Tile[[64], pl.FP32] = pl.tile.add(x_tile, x_tile)
        ret0_store: pl.Tensor[[64], pl.FP32] = pl.store(y_tile, (0,), ret0_out)
        return ret0_store

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[64], pl.FP32]) -> pl.Tensor[[64], pl.FP32]:
        ret0_out: pl.Tensor[[64], pl.FP32] = pl.tensor.create((64,), dtype=pl.FP32)
        y: pl.Tensor[[64], pl.FP32] = self.main_incore_0(x, ret0_out)
        return y
"""
)


def test_the_example() -> None:
    """The right side is read and printed first: it leaves the layout of ``tensor.create`` to its default."""
    assert_same(str(convert(parse(BEFORE))), str(parse(AFTER)))
    assert convert(parse(BEFORE)) == parse(AFTER)


# -- "GM identity" -----------------------------------------------------------------------------------------------------


def test_reads_before_a_write_load_and_the_write_stays_in_memory() -> None:
    text = body(
        f"x: pl.InOut[{tensor('16, 32')}], out: pl.Out[{tensor('16, 1')}]",
        """
        r = pl.row_max(x)
        out[0:16, 0:1] = r
        pl.tensor.write(x, [0, 0], pl.const(1.0, pl.FP32))
        return out
        """,
    )
    expected = program(
        kernel(
            f"x: pl.InOut[{tensor('16, 32')}], out: pl.Out[{tensor('16, 1')}]",
            """
            x_tile = pl.load(x, [0, 0], [16, 32])
            tmp = pl.tile.create([16, 128], dtype=pl.FP32)
            r = pl.tile.row_max(x_tile, tmp)
            out_1 = pl.store(r, [0, 0], out)
            pl.tensor.write(x, [0, 0], pl.const(1.0, pl.FP32))
            return out_1
            """,
        )
    )
    assert_same(text, str(parse(expected)))


JIT = """import pypto.language as pl

@pl.jit.incore
def kernel(
    x: pl.InOut[pl.Tensor[[16, 32], pl.FP32]],
    out: pl.Out[pl.Tensor[[16, 1], pl.FP32]],
):
    r = pl.row_max(x)
    out[0:16, 0:1] = r
    pl.tensor.write(x, [0, 0], pl.const(1.0, pl.FP32))
    return out

@pl.jit
def main(x: pl.InOut[pl.Tensor[[16, 32], pl.FP32]], out: pl.Out[pl.Tensor[[16, 1], pl.FP32]]):
    out = kernel(x, out)
    return out
"""


def test_the_document_s_own_spelling_of_that_kernel() -> None:
    """``@pl.jit.incore``, without a program class, as the document writes it."""
    x = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    program_ = parse(JIT)
    assert [f.kind for f in program_.functions] == ["InCore", "Opaque"]
    found = execute(convert(program_), x=x)
    assert np.array_equal(found["out"], x.max(1, keepdims=True))
    assert found["x"][0, 0] == 1


def test_a_read_after_a_write_loads_again() -> None:
    text = body(
        f"x: pl.InOut[{tensor('16, 32')}]",
        """
        a = pl.row_max(x)
        pl.tensor.write(x, [0, 0], 1.0)
        b = pl.row_max(x)
        return pl.add(a, b)
        """,
    )
    order = [line for line in text.splitlines() if "tile.load" in line or "tensor.write" in line]
    assert ["load" in line for line in order] == [True, False, True]


def test_reads_of_a_read_only_parameter_share_one_load() -> None:
    text = body(f"x: {tensor('16, 32')}", "return pl.add(pl.exp(x), pl.neg(x))")
    assert len(lines(text, "tile.load")) == 1


def test_an_opaque_effect_ends_sharing() -> None:
    text = body(f"x: {tensor('16, 32')}", "a = pl.exp(x)\npl.system.syncall()\nreturn pl.add(a, pl.neg(x))")
    assert len(lines(text, "tile.load")) == 2


def test_a_write_to_a_value_made_from_a_parameter_ends_sharing() -> None:
    text = body(
        f"x: {tensor('16, 32')}",
        "s = pl.slice(x, [4, 32], [0, 0])\npl.write(s, [0, 0], 1.0)\na = pl.exp(x)\nreturn pl.add(a, pl.neg(x)), s",
    )
    assert len(lines(text, "[16, 32], [16, 32]")) == 2


# -- "MatmulSlice", "bridge loads" -------------------------------------------------------------------------------------


def test_a_slice_feeding_a_product_loads_into_mat() -> None:
    text = body(
        f"a: {tensor('64, 256', BF)}, b: {tensor('128, 64', BF)}",
        "s = pl.slice(a, [16, 128], [16, 64])\nreturn pl.matmul(s, b, out_dtype=pl.FP32)",
    )
    assert lines(text, "load(a") == ["pl.tile.load(a, [16, 64], [16, 128], [16, 128], target_memory=pl.Mem.Mat)"]


def test_demand_runs_through_set_validshape_to_the_parameter() -> None:
    text = body(
        f"a: {tensor('100, 128', BF)}, b: {tensor('128, 64', BF)}, rows: pl.Scalar[pl.INDEX]",
        "return pl.matmul(pl.set_validshape(a, rows, 128), b, out_dtype=pl.FP32)",
    )
    assert lines(text, "load(a") == ["pl.tile.load(a, [0, 0], [112, 128], [100, 128], target_memory=pl.Mem.Mat)"]
    assert "pl.tile.set_validshape(a_mat, rows, 128)" in text
    assert "Mem.Vec" not in text


def test_demand_runs_through_reshape_and_loops() -> None:
    text = body(
        f"a: {tensor('2, 16, 64', BF)}, b: {tensor('64, 32', BF)}",
        "s = pl.reshape(a, [32, 64])\nreturn pl.matmul(s, b, out_dtype=pl.FP32)",
    )
    assert all("Mem.Mat" in line for line in lines(text, "tile.load"))
    text = body(
        f"a: {tensor('64, 64', BF)}, b: {tensor('64, 32', BF)}, out: pl.Out[{tensor('64, 32')}]",
        """
        cur = pl.slice(a, [16, 64], [0, 0])
        for i in pl.range(4):
            out[i * 16 : i * 16 + 16, :] = pl.matmul(cur, b, out_dtype=pl.FP32)
            cur = pl.slice(a, [16, 64], [i * 16, 0])
        return out
        """,
    )
    assert len(lines(text, "load(a")) == 2
    assert all("Mem.Mat" in line for line in lines(text, "load(a"))


def test_operands_of_products_load_at_the_product() -> None:
    text = body(
        f"a: {tensor('16, 128', BF)}, b: {tensor('128, 64', BF)}, d: {tensor('128, 32', BF)}",
        "return pl.matmul(a, b, out_dtype=pl.FP32), pl.matmul(a, d, out_dtype=pl.FP32)",
    )
    assert len(lines(text, "load(a")) == 2


def test_a_value_wanted_in_two_spaces_loads_into_both() -> None:
    text = body(
        f"x: {tensor('16, 64')}, w: {tensor('64, 32')}",
        "s = pl.slice(x, [16, 64], [0, 0])\nreturn pl.matmul(s, w), pl.add(s, s)",
    )
    assert [line.rsplit("Mem.", 1)[1] for line in lines(text, "load(x")] == ["Vec)", "Mat)"] or [
        line.rsplit("Mem.", 1)[1] for line in lines(text, "load(x")
    ] == ["Mat)", "Vec)"]


# -- "M-axis boxing": the table of what is boxed and what is not -------------------------------------------------------


def test_rows_of_the_left_operand_are_boxed() -> None:
    text = body(f"a: {tensor('100, 256', BF)}, b: {tensor('256, 512', BF)}", "return pl.matmul(a, b, out_dtype=pl.FP32)")
    assert lines(text, "load(a") == ["pl.tile.load(a, [0, 0], [112, 256], [100, 256], target_memory=pl.Mem.Mat)"]
    assert "pl.Tile[[112, 512], pl.FP32, pl.Mem.Acc, pl.TileView(valid_shape=[100, 512]" in text
    assert "Tensor[[100, 512], pl.FP32] = pl.tile.store" in text


@pytest.mark.parametrize(("dtype", "out", "cols"), [(BF, FP, 112), ("INT8", "INT32", 128), (FP, FP, 112)])
def test_columns_of_a_transposed_left_operand_are_boxed(dtype: str, out: str, cols: int) -> None:
    text = body(
        f"a: {tensor('128, 100', dtype)}, b: {tensor('128, 64', dtype)}",
        f"return pl.matmul(a, b, a_trans=True, out_dtype=pl.{out})",
    )
    assert lines(text, "load(a") == [f"pl.tile.load(a, [0, 0], [128, {cols}], [128, 100], target_memory=pl.Mem.Mat)"]
    assert f"pl.Tile[[{cols}, 128], pl.{dtype}, pl.Mem.Mat, pl.TileView(valid_shape=[100, 128]" in text


@pytest.mark.parametrize(("dtype", "out", "n"), [(FP, FP, 64), (BF, FP, 64), ("INT8", "INT32", 64)])
def test_columns_of_the_right_operand_are_boxed(dtype: str, out: str, n: int) -> None:
    """N = 50 becomes 64 in each type: 8-element blocks in Mat are not enough, Right and the accumulator want 16."""
    text = body(f"a: {tensor('16, 64', dtype)}, b: {tensor('64, 50', dtype)}", f"return pl.matmul(a, b, out_dtype=pl.{out})")
    assert lines(text, "load(b") == [f"pl.tile.load(b, [0, 0], [64, {n}], [64, 50], target_memory=pl.Mem.Mat)"]


def test_fp32_columns_of_24_become_32() -> None:
    """The Mat block of fp32 is 8 wide, and 24 is a multiple of it: legal to load, refused one operation later."""
    text = body(f"a: {tensor('16, 64')}, b: {tensor('64, 24')}", "return pl.matmul(a, b)")
    assert lines(text, "load(b") == ["pl.tile.load(b, [0, 0], [64, 32], [64, 24], target_memory=pl.Mem.Mat)"]


def test_rows_of_a_transposed_right_operand_are_boxed() -> None:
    text = body(
        f"a: {tensor('16, 64', BF)}, b: {tensor('50, 64', BF)}", "return pl.matmul(a, b, b_trans=True, out_dtype=pl.FP32)"
    )
    assert lines(text, "load(b") == ["pl.tile.load(b, [0, 0], [64, 64], [50, 64], target_memory=pl.Mem.Mat)"]


def test_k_is_not_boxed() -> None:
    text = body(f"a: {tensor('16, 40', BF)}, b: {tensor('40, 16', BF)}", "return pl.matmul(a, b, out_dtype=pl.FP32)")
    assert "[16, 40], [16, 40]" in text
    assert "[40, 16], [40, 16]" in text


def test_operands_of_higher_rank_are_not_boxed() -> None:
    text = body(f"a: {tensor('2, 100, 64', BF)}, b: {tensor('2, 64, 50', BF)}", "return pl.matmul(a, b, out_dtype=pl.FP32)")
    assert "pl.tile.batch_matmul" in text
    assert "[2, 100, 64], [2, 100, 64]" in text
    assert "[2, 64, 50], [2, 64, 50]" in text


def test_dynamic_sizes_are_not_boxed() -> None:
    text = body(f"a: {tensor('N, 64', BF)}, b: {tensor('64, 16', BF)}", "return pl.matmul(a, b, out_dtype=pl.FP32)")
    assert "pl.tile.load(a, [0, 0], [N, 64], [N, 64]" in text


def test_the_right_operand_of_an_accumulation_is_not_boxed() -> None:
    text = body(
        f"a: {tensor('16, 64', BF)}, b: {tensor('64, 24', BF)}",
        "acc = pl.create_tensor([16, 24], pl.FP32)\nreturn pl.matmul_acc(acc, a, b)",
    )
    assert "[64, 24], [64, 24]" in text


def test_a_product_that_is_accumulated_into_keeps_its_n() -> None:
    """Its accumulator is shared with the accumulation's, whose N is not boxed."""
    text = body(
        f"a: {tensor('16, 64', BF)}, b: {tensor('64, 24', BF)}",
        "c = pl.matmul(a, b, out_dtype=pl.FP32)\nreturn pl.matmul_acc(c, a, b)",
    )
    assert text.count("[64, 24], [64, 24]") == 2


def test_boxing_only_where_every_consumer_asks() -> None:
    """M of one product and N of another on the same axis of a slice agree; M and K do not."""
    text = body(
        f"a: {tensor('64, 128', BF)}, b: {tensor('128, 64', BF)}, c: {tensor('16, 128', BF)}",
        """
        s = pl.slice(a, [40, 128], [0, 0])
        x = pl.matmul(s, b, out_dtype=pl.FP32)
        y = pl.matmul(c, s, b_trans=True, out_dtype=pl.FP32)
        return x, y
        """,
    )
    assert "[48, 128], [40, 128]" in text
    text = body(
        f"a: {tensor('64, 128', BF)}, b: {tensor('128, 64', BF)}, c: {tensor('40, 16', BF)}",
        """
        s = pl.slice(a, [40, 128], [0, 0])
        x = pl.matmul(s, b, out_dtype=pl.FP32)
        y = pl.matmul(s, c, a_trans=True, out_dtype=pl.FP32)
        return x, y
        """,
    )
    assert "[40, 128], [40, 128]" in text


# -- "matmul_acc's accumulator is aligned with its operands" -----------------------------------------------------------


def test_the_seed_of_an_accumulation() -> None:
    text = body(
        f"a: {tensor('100, 128', BF)}, b: {tensor('128, 64', BF)}",
        "acc = pl.create_tensor([100, 64], pl.FP32)\nc = pl.matmul_acc(acc, a, b)\nreturn c",
    )
    expected = program(
        kernel(
            f"a: {tensor('100, 128', BF)}, b: {tensor('128, 64', BF)}, ret0_out: pl.Out[{tensor('100, 64')}]",
            """
            acc_storage = pl.tile.create([112, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc, compact=True)
            acc_tile = pl.tile.set_validshape(acc_storage, 100, 64)
            a_mat = pl.tile.load(a, [0, 0], [112, 128], [100, 128], target_memory=pl.Mem.Mat)
            b_mat = pl.tile.load(b, [0, 0], [128, 64], [128, 64], target_memory=pl.Mem.Mat)
            c_tile = pl.tile.matmul_acc(acc_tile, a_mat, b_mat)
            ret0_store = pl.tile.store(c_tile, [0, 0], ret0_out)
            return ret0_store
            """,
        )
    )
    assert convert(parse(program(kernel(
        f"a: {tensor('100, 128', BF)}, b: {tensor('128, 64', BF)}",
        "acc = pl.create_tensor([100, 64], pl.FP32)\nc = pl.matmul_acc(acc, a, b)\nreturn c",
    )))) == parse(expected)  # fmt: skip
    assert_same(text, str(parse(expected)))


def test_a_transposed_int8_operand_decides_the_accumulator() -> None:
    """Blocks of 32 columns: 100 becomes 128 in the operand and in the accumulator alike."""
    text = body(
        f"a: {tensor('64, 100', 'INT8')}, b: {tensor('64, 64', 'INT8')}",
        "acc = pl.create_tensor([100, 64], pl.INT32)\nreturn pl.matmul_acc(acc, a, b, a_trans=True)",
    )
    assert "pl.tile.create([128, 64], dtype=pl.INT32, target_memory=pl.Mem.Acc, compact=True)" in text
    assert "[64, 128], [64, 100]" in text


def test_all_products_of_one_accumulator_take_the_largest_granularity() -> None:
    text = body(
        f"a: {tensor('100, 64', 'INT8')}, t: {tensor('64, 100', 'INT8')}, b: {tensor('64, 64', 'INT8')}",
        "c = pl.matmul(a, b, out_dtype=pl.INT32)\nreturn pl.matmul_acc(c, t, b, a_trans=True)",
    )
    assert "[128, 64], [100, 64]" in text
    assert "[64, 128], [64, 100]" in text


def test_an_aligned_seed_is_created_in_l0c_plainly() -> None:
    text = body(
        f"a: {tensor('32, 64', BF)}, b: {tensor('64, 64', BF)}",
        """
        acc = pl.create_tensor([32, 64], dtype=pl.FP32)
        for k in pl.range(2):
            acc = pl.matmul_acc(acc, pl.slice(a, [32, 32], [0, k * 32]), pl.slice(b, [32, 64], [k * 32, 0]))
        return acc
        """,
    )
    assert "pl.tile.create([32, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)" in text


# -- "repairing the valid shape of carried values" ---------------------------------------------------------------------

SPLIT_K = """
acc = pl.create_tensor([32, 64], dtype=pl.INT32)
for k0 in pl.pipeline(0, 256, 64, stage=2):
    {inside}xk = pl.slice(x, [32, 64], [0, k0], valid_shape=[v, 64])
    wk = pl.slice(w, [64, 64], [0, k0])
    if k0 == 0:
        acc = pl.matmul(xk, wk, b_trans=True, out_dtype=pl.INT32)
    else:
        acc = pl.matmul_acc(acc, xk, wk, b_trans=True)
return acc
"""


def test_a_narrower_yield_narrows_the_seed() -> None:
    text = body(
        f"x: {tensor('32, 256', 'INT8')}, w: {tensor('64, 256', 'INT8')}, v: pl.Scalar[pl.INDEX]",
        SPLIT_K.format(inside=""),
    )
    assert "pl.tile.create([32, 64], dtype=pl.INT32, target_memory=pl.Mem.Acc, compact=True)" in text
    assert any(line.endswith(", v, 64)") for line in lines(text, "set_validshape"))
    accumulators = [line for line in text.splitlines() if "pl.Mem.Acc" in line and "create" not in line]
    assert all("valid_shape=[v, 64], compact=pl.CompactMode.normal" in line for line in accumulators)


def test_extents_computed_inside_of_the_loop_leave_the_seed() -> None:
    text = body(
        f"x: {tensor('32, 256', 'INT8')}, w: {tensor('64, 256', 'INT8')}, n: pl.Scalar[pl.INDEX]",
        SPLIT_K.format(inside="v = n + k0\n    "),
    )
    assert "compact=True" not in text
    assert "set_validshape" not in text


def test_a_product_derives_its_valid_rectangle() -> None:
    """[32, 128] valid [17, 128] by [128, 32] valid [128, 24]: [32, 32] valid [17, 24], and the store writes that."""
    text = body(
        f"a: {tensor('32, 128', BF)}, b: {tensor('128, 32', BF)}",
        "return pl.matmul(pl.set_validshape(a, 17, 128), pl.set_validshape(b, 128, 24), out_dtype=pl.FP32)",
    )
    assert "pl.Tile[[32, 32], pl.FP32, pl.Mem.Acc, pl.TileView(valid_shape=[17, 24]" in text


def test_a_parameter_s_own_valid_region_narrows_its_loads() -> None:
    parameters = "x: pl.Tensor[[32, 64], pl.BF16, pl.TensorView(valid_shape=[17, 64])], w: " + tensor("64, 32", BF)
    text = body(parameters, "return pl.matmul(x, w, out_dtype=pl.FP32), pl.cast(x, pl.FP32)")
    assert len(lines(text, "[32, 64], [17, 64]")) == 2
    source = parse(program(kernel(parameters, "return pl.matmul(x, w, out_dtype=pl.FP32), pl.cast(x, pl.FP32)")))
    inputs = inputs_for(source, 2)
    assert equal_results(execute(source, **inputs), execute(convert(source), **inputs))


# -- "Transpose" -------------------------------------------------------------------------------------------------------


def test_transpose_takes_no_scratch() -> None:
    text = body(f"x: {tensor('32, 16')}", "return pl.transpose(x, 0, 1)")
    assert lines(text, "tile.transpose") == ["pl.tile.transpose(x_tile, 0, 1)"]


@pytest.mark.parametrize(("axes", "shape"), [("1, 2", [2, 32, 16]), ("-1, -2", [2, 32, 16]), ("0, 1", [16, 2, 32])])
def test_transpose_is_one_operation_at_any_rank(axes: str, shape: list[int]) -> None:
    """Pages are the business of the step that flattens tiles to two dimensions, as the scratch is."""
    source = parse(program(kernel(f"x: {tensor('2, 16, 32')}", f"e = pl.exp(x)\nreturn pl.transpose(e, {axes})")))
    after = convert(source)
    assert lines(str(after), "tile.transpose") == [f"pl.tile.transpose(e_tile, {axes})"]
    assert f"ret0_out: pl.Out[pl.Tensor[{shape}, pl.FP32]]" in str(after)
    inputs = inputs_for(source, 3)
    assert equal_results(execute(source, **inputs), execute(after, **inputs))


def test_transposed_operands_are_views_of_natural_loads() -> None:
    text = body(f"a: {tensor('64, 16', BF)}, b: {tensor('32, 64', BF)}",
                "return pl.matmul(a, b, a_trans=True, b_trans=True, out_dtype=pl.FP32)")  # fmt: skip
    assert lines(text, "transpose_view") == ["pl.tile.transpose_view(a_mat)", "pl.tile.transpose_view(b_mat)"]


@pytest.mark.parametrize("b", ["2, 48, 32", "48, 32"])
def test_pages_of_batched_operands_are_transposed(b: str) -> None:
    source = parse(program(kernel(f"a: {tensor('2, 16, 32')}, b: {tensor(b)}", "return pl.matmul(a, b, b_trans=True)")))
    inputs = inputs_for(source, 4)
    tiles = convert(source)
    assert "pl.tile.batch_matmul" in str(tiles)
    expected = inputs["a"] @ np.swapaxes(inputs["b"], -1, -2)
    assert np.array_equal(execute(tiles, **inputs)["return"], expected)


def test_a_whole_window_may_be_transposed() -> None:
    text = body(
        f"query: {tensor('64, 128', BF)}, key: {tensor('64, 128', BF)}",
        """
        parent = pl.slice(query, [64, 128], [0, 0])
        window = pl.slice(parent, [64, 128], [0, 0])
        return pl.matmul(key, window, b_trans=True, out_dtype=pl.FP32)
        """,
    )
    assert "transpose_view" in text


# -- cmp, col_sum ------------------------------------------------------------------------------------------------------


def test_cmp_selects_between_ones_and_zeros_of_the_left_operands_extent() -> None:
    text = body(
        f"x: {tensor('16, 64')}, y: {tensor('16, 64')}, n: pl.Scalar[pl.INDEX]",
        "v = pl.set_validshape(x, n, 40)\nreturn pl.cmp(v, y, cmp_type=2)",
    )
    assert lines(text, "tile.cmp") == ["pl.tile.cmp(v_tile, y_tile, cmp_type=2)"]
    assert len(lines(text, "tile.full([16, 64], dtype=pl.FP32, value=")) == 2
    assert sum("set_validshape" in line and line.endswith("n, 40)") for line in lines(text, "set_validshape")) == 3
    assert len(lines(text, "tile.sel(")) == 1


@pytest.mark.parametrize(("rows", "scratch"), [(64, 32), (7, 4)])
def test_binary_column_sums_fold_into_half_the_rows(rows: int, scratch: int) -> None:
    text = body(f"x: {tensor(f'{rows}, 64')}", "return pl.col_sum(x, is_binary=True)")
    assert lines(text, "tile.create") == [f"pl.tile.create([{scratch}, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)"]
    assert lines(text, "tile.col_sum(") == ["pl.tile.col_sum(x_tile, tmp_tile)"]


def test_column_sums_are_in_order_by_default() -> None:
    text = body(f"x: {tensor('64, 64')}", "return pl.col_sum(x)")
    assert lines(text, "tile.col_sum(") == ["pl.tile.col_sum(x_tile)"]
    assert "tile.create" not in text


# -- "Scatter Update" --------------------------------------------------------------------------------------------------

STEPS = [
    "load", "load", "load", "ci", "full", "col_expand", "reshape", "muls", "row_expand_add", "full", "scatter", "full", "full",
    "scatter", "cmps", "create", "sel", "store",
]  # fmt: skip


def test_the_sequence_of_a_scatter_update() -> None:
    """The 16 steps of the document, and two it does not count: a reshape (a renamed buffer) and the scratch row of sel."""
    parameters = f"base: {tensor('32, 32')}, index: {tensor('2, 8', 'INT32')}, src: {tensor('16, 32')}"
    text = body(parameters, "return pl.scatter_update(base, -2, index, src)")
    assert [line.split("pl.tile.")[1].split("(")[0] for line in lines(text, "pl.tile.")] == STEPS
    assert "pl.tile.muls(su_idx_flat, pl.const(32, pl.INT32))" in text
    assert "pl.tile.mul(" not in text


def test_two_byte_data_narrows_the_finished_index() -> None:
    parameters = f"base: {tensor('32, 32', BF)}, index: {tensor('2, 8', 'INT32')}, src: {tensor('16, 32', BF)}"
    text = body(parameters, "return pl.scatter_update(base, -2, index, src)")
    ops = [line.split("pl.tile.")[1].split("(")[0] for line in lines(text, "pl.tile.")]
    assert ops == [*STEPS[:9], "cast", *STEPS[9:]]
    assert "target_type=pl.INT16" in lines(text, "tile.cast")[0]


# -- "Flat gather" -----------------------------------------------------------------------------------------------------


def test_a_gather_from_memory_leaves_the_source_there() -> None:
    text = body(f"x: {tensor('16, 64')}, i: {tensor('4, 8', 'INT32')}", "return pl.gather(x, i)")
    assert lines(text, "gather(") == ["pl.tile.mgather(x, i_tile, coalesce='elem')"]
    assert len(lines(text, "tile.load")) == 1


def test_positional_and_keyword_index_mean_the_same() -> None:
    parameters = f"x: {tensor('16, 64')}, i: {tensor('4, 8', 'INT32')}"
    one = converted(kernel(parameters, "return pl.gather(x, i)"))
    assert_same(one, converted(kernel(parameters, "return pl.gather(x, index=i)")))


def test_a_gather_from_a_distributed_window() -> None:
    text = body(f"x: pld.DistributedTensor[[16, 64], pl.FP32], i: {tensor('4, 8', 'INT32')}", "return pl.gather(x, i)")
    assert "pl.tile.mgather(x, i_tile, coalesce='elem')" in text


def test_a_gather_on_chip_reuses_a_packed_source() -> None:
    text = body(f"x: {tensor('16, 64')}, i: {tensor('4, 8', 'INT32')}", "return pl.gather(pl.exp(x), i)")
    assert lines(text, "tile.create") == ["pl.tile.create([4, 8], dtype=pl.INT32, target_memory=pl.Mem.Vec)"]
    assert lines(text, "tile.gather") == ["pl.tile.gather(exp_tile, i_tile, gather_tile_tmp)"]


@pytest.mark.parametrize(("dtype", "copy"), [("FP32", "tile.extract("), ("INT32", "tile.adds("), ("INT16", "tile.adds(")])
def test_a_gather_from_a_window_packs_it_first(dtype: str, copy: str) -> None:
    text = body(
        f"x: {tensor('16, 64', dtype)}, i: {tensor('4, 8', 'INT32')}",
        "e = pl.add(x, x)\nreturn pl.gather(pl.slice(e, [8, 32], [0, 0]), i)",
    )
    assert len(lines(text, copy)) == 1


def test_narrowing_keeps_the_proof_and_control_flow_loses_it() -> None:
    parameters = f"x: {tensor('16, 64')}, i: {tensor('4, 8', 'INT32')}, n: pl.Scalar[pl.INDEX]"
    text = body(parameters, "e = pl.exp(x)\nreturn pl.gather(pl.set_validshape(e, 8, 64), i)")
    assert "tile.extract" not in text
    text = body(parameters, "e = pl.exp(x)\nif n > 1:\n    e = pl.neg(e)\nreturn pl.gather(e, i)")
    assert len(lines(text, "tile.extract")) == 1


def test_gathers_from_a_boxed_product_count_its_logical_rows() -> None:
    parameters = (
        f"a: {tensor('17, 32', BF)}, b: {tensor('32, 17', BF)}, i: {tensor('17, 8', 'INT32')}, j: {tensor('4, 8', 'INT32')}"
    )
    text = "c = pl.matmul(a, b, out_dtype=pl.FP32)\nreturn pl.gather(c, dim=-1, index=i), pl.gather(c, j)"
    source = parse(program(kernel(parameters, text)))
    inputs = inputs_for(source, 6) | {"i": np.arange(136).reshape(17, 8).astype(np.int32) % 17}
    inputs["j"] = np.arange(32).reshape(4, 8).astype(np.int32) * 9
    assert equal_results(execute(source, **inputs), execute(convert(source), **inputs))


def test_a_narrowed_index_narrows_scratch_and_result() -> None:
    text = body(
        f"x: {tensor('16, 64')}, i: {tensor('4, 8', 'INT32')}, n: pl.Scalar[pl.INDEX]",
        "e = pl.exp(x)\nreturn pl.gather(e, pl.set_validshape(i, n, 8))",
    )
    assert sum(line.endswith("n, 8)") for line in lines(text, "set_validshape")) == 3


# -- "Paged gather", "create_l1 and gather_row" ------------------------------------------------------------------------


def test_a_paged_gather_is_a_loop_of_rows() -> None:
    parameters = f"src: {tensor('64, 32', BF)}, idx: {tensor('8', 'INT32')}, table: {tensor('4', 'INT32')}"
    text = body(
        f"{parameters}, q: {tensor('16, 32', BF)}",
        """
        kv = pl.paged_gather(src, idx, table, block_size=16, max_indices=16, size=32)
        return pl.matmul(q, kv, b_trans=True, out_dtype=pl.FP32)
        """,
    )
    expected = program(
        kernel(
            f"{parameters}, q: {tensor('16, 32', BF)}, ret0_out: pl.Out[{tensor('16, 16')}]",
            """
            acc = pl.tile.create([16, 32], dtype=pl.BF16, target_memory=pl.Mem.Mat)
            rows = pl.tensor.dim(idx, 0)
            for i, (a,) in pl.range(rows, init_values=(acc,)):
                row = pl.tensor.read(idx, [i])
                phys = pl.tensor.read(table, [row // 16]) * 16 + row % 16
                b = pl.tile.gather_row(a, src, [i, 0], [phys, 0], [1, 32])
                kv = pl.yield_(b)
            q_mat = pl.tile.load(q, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
            kv_t = pl.tile.transpose_view(kv)
            s = pl.tile.matmul(q_mat, kv_t)
            out = pl.tile.store(s, [0, 0], ret0_out)
            return out
            """,
        )
    )
    assert_same(text, str(parse(expected)))


def test_a_transposed_paged_gather_fills_columns() -> None:
    text = body(
        f"src: {tensor('64, 32', BF)}, idx: {tensor('8', 'INT32')}, table: {tensor('4', 'INT32')}, q: {tensor('16, 32', BF)}",
        """
        kv = pl.paged_gather(src, idx, table, block_size=16, max_indices=16, size=32, is_trans=True)
        return pl.matmul(q, kv, out_dtype=pl.FP32)
        """,
    )
    assert "pl.tile.create([32, 16], dtype=pl.BF16, target_memory=pl.Mem.Mat, transpose=True)" in text
    assert "[0, i], [phys, 0], [1, 32], transpose=True)" in text


def test_rows_gathered_by_the_kernel_with_run_time_extent() -> None:
    text = body(
        f"pool: {tensor('512, 64', BF)}, q: {tensor('16, 64', BF)}, r1: pl.Scalar[pl.INDEX], b0: pl.Scalar[pl.INDEX]",
        """
        kv = pl.create_l1([128, 64], pl.BF16)
        kv = pl.gather_row(kv, pool, [0, 0], [b0, 0], [128, 64], valid_shape=[r1, 64])
        kv = pl.gather_row(kv, pool, [r1, 0], [0, 0], [128, 64], valid_shape=[128 - r1, 64])
        return pl.matmul(q, kv, b_trans=True, out_dtype=pl.FP32)
        """,
    )
    assert lines(text, "gather_row") == [
        "pl.tile.gather_row(kv_tile, pool, [0, 0], [b0, 0], [128, 64], [r1, 64])",
        "pl.tile.gather_row(kv_1_tile, pool, [r1, 0], [0, 0], [128, 64], [128 - r1, 64])",
    ]
    assert lines(text, "tile.create") == ["pl.tile.create([128, 64], dtype=pl.BF16, target_memory=pl.Mem.Mat)"]


def test_the_sixth_position_of_gather_row_is_transpose() -> None:
    text = body(
        f"pool: {tensor('512, 64', BF)}, q: {tensor('16, 64', BF)}",
        """
        kv = pl.create_l1([64, 16], pl.BF16, transpose=True)
        for i in pl.range(16):
            kv = pl.gather_row(kv, pool, [0, i], [i, 0], [1, 64], True)
        return pl.matmul(q, kv, out_dtype=pl.FP32)
        """,
    )
    assert "[1, 64], transpose=True)" in text
    assert "pl.TileView(blayout=pl.TileLayout.row_major, slayout=pl.TileLayout.col_major)" in text


# -- "AIV split boundary" ----------------------------------------------------------------------------------------------


def test_the_boundary_of_a_split_is_one_operation_each_way() -> None:
    text = body(
        f"q: {tensor('16, 64', BF)}, k: {tensor('32, 64', BF)}, v: {tensor('32, 64', BF)}",
        """
        raw = pl.matmul(q, k, b_trans=True, out_dtype=pl.FP32)
        for aiv_id in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            h = pl.aiv_shard(raw)
            s = pl.cast(pl.exp(h), pl.BF16, mode="rint")
            full = pl.aic_gather(s)
        return pl.matmul(full, v, out_dtype=pl.FP32)
        """,
    )
    assert "h_tile: pl.Tile[[8, 32], pl.FP32, pl.Mem.Vec] = pl.tile.aiv_shard(raw_tile, split=1)" in text
    assert "full_tile: pl.Tile[[16, 32], pl.BF16, pl.Mem.Mat] = pl.tile.aic_gather(" in text
    assert "pl.tile.matmul(full_tile, v_mat)" in text
    assert len(lines(text, "tile.load")) == 3


def test_the_split_code_is_passed_on() -> None:
    text = body(
        f"q: {tensor('16, 64', BF)}, k: {tensor('64, 32', BF)}",
        """
        raw = pl.matmul(q, k, out_dtype=pl.FP32)
        for aiv_id in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            h = pl.aiv_shard(raw)
            full = pl.aic_gather(pl.exp(h))
        return pl.exp(full)
        """,
    )
    assert "pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec] = pl.tile.aiv_shard(raw_tile, split=2)" in text


# -- "Cache policy" ----------------------------------------------------------------------------------------------------


def test_declared_policies_go_to_each_load_and_the_attribute_goes() -> None:
    text = body(
        f"x: {tensor('16, 64')}, w: {tensor('64, 32')}, y: {tensor('16, 64')}",
        "s = pl.slice(w, [64, 16], [0, 0])\nreturn pl.add(x, y), pl.matmul(x, s)",
        decorator=', attrs={"cache_policy": [(0, 1), (1, 1)]}',
    )
    assert all("cache=pl.CachePolicy.BYPASS" in line for line in lines(text, "load(x") + lines(text, "load(w"))
    assert "cache=" not in lines(text, "load(y")[0]
    assert "cache_policy" not in text


def test_a_policy_at_the_load_wins() -> None:
    text = body(
        f"x: {tensor('16, 64')}",
        "t = pl.tile.load(x, [0, 0], [16, 64], cache=pl.CachePolicy.DEFAULT)\n"
        "u = pl.tile.load(x, [0, 0], [16, 64])\ny = pl.exp(x)\nreturn y",
        decorator=', attrs={"cache_policy": [(0, 1)]}',
    )
    policies = [line.rsplit("cache=", 1)[1] for line in lines(text, "load(x")]
    assert sorted(policies) == ["pl.CachePolicy.BYPASS)", "pl.CachePolicy.BYPASS)", "pl.CachePolicy.DEFAULT)"]


# -- results and their storage -----------------------------------------------------------------------------------------


def test_one_result_returned_twice_shares_its_storage() -> None:
    text = body(f"x: {tensor('16, 64')}", "y = pl.exp(x)\nz = y\nreturn y, z")
    assert text.count("pl.Out[") == 1
    assert "return ret0_store, ret0_store" in text


def test_a_parameter_written_back_keeps_its_binding() -> None:
    text = body(f"x: {tensor('16, 64')}, out: pl.Out[{tensor('16, 64')}]", "out[0:16, 0:64] = pl.exp(x)\nreturn out")
    assert text.count("pl.Out[") == 1
    assert "pl.tile.store(exp_tile, [0, 0], out)" in text


def test_results_without_annotation_take_the_type_of_the_expression() -> None:
    text = body(f"x: {tensor('16, 64')}", "return pl.cast(x, pl.BF16)")
    assert "ret0_out: pl.Out[pl.Tensor[[16, 64], pl.BF16]]" in text


def test_an_allocation_that_is_staged_stays_local() -> None:
    text = body(
        f"x: {tensor('16, 64')}, y: {tensor('16, 64')}",
        "z = pl.create_tensor([32, 64], dtype=pl.FP32)\nz[0:16, :] = x\nz[16:32, :] = pl.exp(y)\nreturn z",
    )
    assert lines(text, "tile.create") == ["pl.tile.create([32, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)"]
    assert len(lines(text, "tile.assemble")) == 2
    assert len(lines(text, "tile.store")) == 1


@pytest.mark.parametrize("nested", [False, True])
def test_a_loop_that_assembles_a_result_stores_it(nested: bool) -> None:
    inner = "for i in pl.range(4):\n    z[i * 16 : i * 16 + 16, :] = pl.exp(x[i * 16 : i * 16 + 16, :])"
    loop = f"for j in pl.range(2):\n    {inner}".replace("\n    z", "\n        z") if nested else inner
    text = body(f"x: {tensor('64, 64')}", f"z = pl.create_tensor([64, 64], dtype=pl.FP32)\n{loop}\nreturn z")
    assert "tile.create" not in text
    assert len(lines(text, "tile.store")) == 1
    assert "z: pl.Out[pl.Tensor[[64, 64], pl.FP32]]" in text


def test_an_allocation_too_large_for_the_chip_is_promoted() -> None:
    text = body(
        f"x: {tensor('16, 4096')}",
        "z = pl.create_tensor([64, 4096], dtype=pl.FP32)\nz[0:16, :] = x\nreturn z",
    )
    assert "tile.create" not in text
    assert "pl.tile.store(x_tile, [0, 0], z)" in text


def test_communication_contexts_stay_last() -> None:
    text = body(f"x: {tensor('16, 64')}, ctx: pld.CommContext", "return pl.exp(x)")
    signature = next(line for line in text.splitlines() if "def kernel" in line)
    assert signature.index("ret0_out") < signature.index("ctx")


@pytest.mark.parametrize("kind", ["InCore", "AIC", "AIV"])
def test_every_core_kind_converts_and_keeps_its_kind(kind: str) -> None:
    text = body(f"x: {tensor('16, 64')}", "return pl.exp(x)", kind=kind)
    assert f"type=pl.FunctionType.{kind}" in text
    assert "pl.tile.exp" in text
