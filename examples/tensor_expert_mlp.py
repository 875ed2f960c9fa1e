"""A quantised expert MLP as its author writes it: int8 tokens and weights, both products in int32, requantised in between.

    tilesat tile examples/tensor_expert_mlp.py

Each expert takes 32 tokens. Its weights are rows of stacked tensors; ``scale`` rows hold what an int8 step of each token, and of
each column of weights, is worth.
"""

import pypto.language as pl


@pl.program
class ExpertMlp:
    @pl.function(type=pl.FunctionType.InCore)
    def expert(
        self,
        x: pl.Tensor[[64, 256], pl.INT8],
        x_scale: pl.Tensor[[64, 1], pl.FP32],
        up: pl.Tensor[[512, 128], pl.INT8],
        up_scale: pl.Tensor[[2, 128], pl.FP32],
        down: pl.Tensor[[256, 256], pl.INT8],
        down_scale: pl.Tensor[[2, 256], pl.FP32],
        y: pl.Out[pl.Tensor[[64, 256], pl.FP32]],
        e: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[64, 256], pl.FP32]:
        tokens = x[e * 32 : (e + 1) * 32, :]
        hidden = pl.cast(pl.matmul(tokens, up[e * 256 : (e + 1) * 256, :], out_dtype=pl.INT32), pl.FP32)
        hidden = pl.row_expand_mul(hidden, x_scale[e * 32 : (e + 1) * 32, :])
        hidden = pl.maximum(pl.col_expand_mul(hidden, up_scale[e : e + 1, :]), 0.0)

        step = pl.maximum(pl.mul(pl.row_max(hidden), 1.0 / 127.0), 1e-6)
        quantised = pl.cast(pl.row_expand_div(hidden, step), pl.INT8, mode="rint")

        out = pl.cast(pl.matmul(quantised, down[e * 128 : (e + 1) * 128, :], out_dtype=pl.INT32), pl.FP32)
        out = pl.col_expand_mul(pl.row_expand_mul(out, step), down_scale[e : e + 1, :])
        y[e * 32 : (e + 1) * 32, :] = out
        return y

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[64, 256], pl.INT8],
        x_scale: pl.Tensor[[64, 1], pl.FP32],
        up: pl.Tensor[[512, 128], pl.INT8],
        up_scale: pl.Tensor[[2, 128], pl.FP32],
        down: pl.Tensor[[256, 256], pl.INT8],
        down_scale: pl.Tensor[[2, 256], pl.FP32],
    ) -> pl.Tensor[[64, 256], pl.FP32]:
        y = pl.create_tensor([64, 256], dtype=pl.FP32)
        for e in pl.range(2):
            y = self.expert(x, x_scale, up, up_scale, down, down_scale, y, e)
        return y
