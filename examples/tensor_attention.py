"""An attention block as its author writes it: softmax(q @ k.T / sqrt(d)) @ v for one head, by blocks of 32 queries.

    tilesat tile examples/tensor_attention.py

Scores leave the cube core for the softmax and come back, rounded to bf16, as the left operand of the second product. The region
under ``pl.at`` runs on a core; conversion makes a function of it.
"""

import pypto.language as pl


@pl.program
class Attention:
    @pl.function
    def main(
        self,
        q: pl.Tensor[[128, 64], pl.BF16],
        k: pl.Tensor[[256, 64], pl.BF16],
        v: pl.Tensor[[256, 64], pl.BF16],
        out: pl.Out[pl.Tensor[[128, 64], pl.FP32]],
    ) -> pl.Tensor[[128, 64], pl.FP32]:
        for block in pl.range(4):
            with pl.at(level=pl.Level.CORE_GROUP):
                queries = q[block * 32 : (block + 1) * 32, :]
                scores = pl.mul(pl.matmul(queries, k, b_trans=True, out_dtype=pl.FP32), 0.125)
                shifted = pl.row_expand_sub(scores, pl.row_max(scores))
                weights = pl.exp(shifted)
                total = pl.row_sum(weights)
                mixed = pl.matmul(pl.cast(weights, pl.BF16, mode="rint"), v, out_dtype=pl.FP32)
                out[block * 32 : (block + 1) * 32, :] = pl.row_expand_div(mixed, total)
        return out
