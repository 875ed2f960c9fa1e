"""The projections of one decoder layer for 16 tokens: q, k, v and the output projection.

A decode step is all weights: every product has 16 rows and reduces over the whole hidden size, more than Mat can hold. So each is
a split-K chain, which loads its K blocks as it goes. tilesat recognises a chain as the one product it computes and cuts all of it:
windows of the output outside the author's K loop, K panels that fit L0 inside.
"""

import pypto.language as pl


@pl.program
class DecodeLayer:
    @pl.function(type=pl.FunctionType.InCore)
    def projections(
        self,
        x: pl.Tensor[[16, 2048], pl.BF16],
        wq: pl.Tensor[[2048, 512], pl.BF16],
        wk: pl.Tensor[[2048, 128], pl.BF16],
        wv: pl.Tensor[[2048, 128], pl.BF16],
        context: pl.Tensor[[16, 512], pl.BF16],
        wo: pl.Tensor[[512, 256], pl.BF16],
        q: pl.Out[pl.Tensor[[16, 512], pl.FP32]],
        k: pl.Out[pl.Tensor[[16, 128], pl.FP32]],
        v: pl.Out[pl.Tensor[[16, 128], pl.FP32]],
        y: pl.Out[pl.Tensor[[16, 256], pl.FP32]],
    ) -> tuple[
        pl.Tensor[[16, 512], pl.FP32],
        pl.Tensor[[16, 128], pl.FP32],
        pl.Tensor[[16, 128], pl.FP32],
        pl.Tensor[[16, 256], pl.FP32],
    ]:
        # q: one accumulating product a block, the first one overwriting
        q_acc = pl.create_tile([16, 512], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k0, (q_i,) in pl.pipeline(0, 2048, 128, init_values=(q_acc,), stage=2):
            x_q = pl.load(x, [0, k0], [16, 128], target_memory=pl.Mem.Mat)
            w_q = pl.load(wq, [k0, 0], [128, 512], target_memory=pl.Mem.Mat)
            q_next = pl.matmul_acc(q_i, x_q, w_q, k0 == 0)
            q_sum = pl.yield_(q_next)
        q = pl.store(q_sum, [0, 0], q)

        # k: the same with a branch for the first block
        k_acc = pl.create_tile([16, 128], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k1, (k_i,) in pl.pipeline(0, 2048, 256, init_values=(k_acc,), stage=2):
            x_k = pl.load(x, [0, k1], [16, 256], target_memory=pl.Mem.Mat)
            w_k = pl.load(wk, [k1, 0], [256, 128], target_memory=pl.Mem.Mat)
            if k1 == 0:
                k_first = pl.matmul(x_k, w_k)
                k_part = pl.yield_(k_first)
            else:
                k_more = pl.matmul_acc(k_i, x_k, w_k)
                k_part = pl.yield_(k_more)
            k_sum = pl.yield_(k_part)
        k = pl.store(k_sum, [0, 0], k)

        # v: counted in blocks instead of elements
        v_acc = pl.create_tile([16, 128], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for block, (v_i,) in pl.pipeline(0, 4, 1, init_values=(v_acc,), stage=2):
            k2 = block * 512
            x_v = pl.load(x, [0, k2], [16, 512], target_memory=pl.Mem.Mat)
            w_v = pl.load(wv, [k2, 0], [512, 128], target_memory=pl.Mem.Mat)
            v_next = pl.matmul_acc(v_i, x_v, w_v, k2 == 0)
            v_sum = pl.yield_(v_next)
        v = pl.store(v_sum, [0, 0], v)

        # the output projection, of what attention made of the three
        y_acc = pl.create_tile([16, 256], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k3, (y_i,) in pl.pipeline(0, 512, 128, init_values=(y_acc,), stage=2):
            c_o = pl.load(context, [0, k3], [16, 128], target_memory=pl.Mem.Mat)
            w_o = pl.load(wo, [k3, 0], [128, 256], target_memory=pl.Mem.Mat)
            y_next = pl.matmul_acc(y_i, c_o, w_o, k3 == 0)
            y_sum = pl.yield_(y_next)
        y = pl.store(y_sum, [0, 0], y)
        return q, k, v, y
