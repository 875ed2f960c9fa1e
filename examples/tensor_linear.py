"""A linear layer as its author writes it: y = relu(x @ w + b), in bf16, spread over four cores by rows.

    tilesat tile examples/tensor_linear.py

The kernel speaks of tensors only. Conversion places the operands (the product's in Mat, the bias in Vec), gives the program its
loads and stores, and tiling cuts the product to what the L0 buffers hold.
"""

import pypto.language as pl


@pl.program
class Linear:
    @pl.function(type=pl.FunctionType.InCore)
    def rows(
        self,
        x: pl.Tensor[[256, 512], pl.BF16],
        w: pl.Tensor[[512, 256], pl.BF16],
        b: pl.Tensor[[1, 256], pl.FP32],
        y: pl.Out[pl.Tensor[[256, 256], pl.BF16]],
        first: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[256, 256], pl.BF16]:
        for n in pl.range(0, 256, 128):
            product = pl.matmul(x[first : first + 64, :], w[:, n : n + 128], out_dtype=pl.FP32)
            active = pl.maximum(pl.add(product, b[:, n : n + 128]), 0.0)
            y[first : first + 64, n : n + 128] = pl.cast(active, pl.BF16, mode="rint")
        return y

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[256, 512], pl.BF16],
        w: pl.Tensor[[512, 256], pl.BF16],
        b: pl.Tensor[[1, 256], pl.FP32],
    ) -> pl.Tensor[[256, 256], pl.BF16]:
        y = pl.create_tensor([256, 256], dtype=pl.BF16)
        for core in pl.parallel(4):
            y = self.rows(x, w, b, y, core * 64)
        return y
