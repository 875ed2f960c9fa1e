"""One decode step of paged attention as its author writes it: 16 query heads over 128 cached tokens, 64 at a time.

    tilesat tile examples/tensor_paged_decode.py

Keys and values live in pages of 16 rows anywhere in a pool; ``table`` says which page holds which part of the context. Each block
gathers its rows from global memory straight into L1, as the operand of a product, and the softmax runs online: maximum, sum and
weighted values are carried from block to block.
"""

import pypto.language as pl


@pl.program
class PagedDecode:
    @pl.function(type=pl.FunctionType.InCore)
    def step(
        self,
        q: pl.Tensor[[16, 64], pl.BF16],
        keys: pl.Tensor[[512, 64], pl.BF16],
        values: pl.Tensor[[512, 64], pl.BF16],
        table: pl.Tensor[[8], pl.INT32],
    ) -> pl.Tensor[[16, 64], pl.FP32]:
        top = pl.full([16, 1], dtype=pl.FP32, value=-1e30)
        total = pl.full([16, 1], dtype=pl.FP32, value=0.0)
        mixed = pl.full([16, 64], dtype=pl.FP32, value=0.0)
        for block in pl.range(2):
            k = pl.create_l1([64, 64], pl.BF16)
            v = pl.create_l1([64, 64], pl.BF16)
            for page in pl.range(4):
                row = pl.read(table, [block * 4 + page]) * 16
                k = pl.gather_row(k, keys, [page * 16, 0], [row, 0], [16, 64])
                v = pl.gather_row(v, values, [page * 16, 0], [row, 0], [16, 64])
            scores = pl.mul(pl.matmul(q, k, b_trans=True, out_dtype=pl.FP32), 0.125)
            higher = pl.maximum(top, pl.row_max(scores))
            weights = pl.exp(pl.row_expand_sub(scores, higher))
            kept = pl.exp(pl.sub(top, higher))
            total = pl.add(pl.mul(total, kept), pl.row_sum(weights))
            more = pl.matmul(pl.cast(weights, pl.BF16, mode="rint"), v, out_dtype=pl.FP32)
            mixed = pl.add(pl.row_expand_mul(mixed, kept), more)
            top = higher
        return pl.row_expand_div(mixed, total)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        q: pl.Tensor[[16, 64], pl.BF16],
        keys: pl.Tensor[[512, 64], pl.BF16],
        values: pl.Tensor[[512, 64], pl.BF16],
        table: pl.Tensor[[8], pl.INT32],
    ) -> pl.Tensor[[16, 64], pl.FP32]:
        return self.step(q, keys, values, table)
