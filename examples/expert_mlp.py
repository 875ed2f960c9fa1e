"""One expert of a quantised mixture for 32 tokens: y = q8(relu(x @ gate) * (x @ up)) @ down, all products int8 into int32.

Two kernels multiply and one, on the Vector unit, scales, gates and quantises between them; an Orchestration function runs all
three. tilesat tiles the products and carries everything else along as it is.
"""

import pypto.language as pl


@pl.program
class ExpertMlp:
    @pl.function(type=pl.FunctionType.InCore)
    def gate_and_up(
        self,
        x: pl.Tensor[[32, 1024], pl.INT8],
        w_gate: pl.Tensor[[1024, 256], pl.INT8],
        w_up: pl.Tensor[[1024, 256], pl.INT8],
        gate: pl.Out[pl.Tensor[[32, 256], pl.INT32]],
        up: pl.Out[pl.Tensor[[32, 256], pl.INT32]],
    ) -> tuple[pl.Tensor[[32, 256], pl.INT32], pl.Tensor[[32, 256], pl.INT32]]:
        x_mat = pl.load(x, [0, 0], [32, 1024], target_memory=pl.Mem.Mat)
        gate_mat = pl.load(w_gate, [0, 0], [1024, 256], target_memory=pl.Mem.Mat)
        gate_acc = pl.matmul(x_mat, gate_mat)
        gate = pl.store(gate_acc, [0, 0], gate)
        up_mat = pl.load(w_up, [0, 0], [1024, 256], target_memory=pl.Mem.Mat)
        up_acc = pl.matmul(x_mat, up_mat)
        up = pl.store(up_acc, [0, 0], up)
        return gate, up

    @pl.function(type=pl.FunctionType.InCore)
    def activate(
        self,
        gate: pl.Tensor[[32, 256], pl.INT32],
        up: pl.Tensor[[32, 256], pl.INT32],
        hidden: pl.Out[pl.Tensor[[32, 256], pl.INT8]],
    ) -> pl.Tensor[[32, 256], pl.INT8]:
        gate_f = pl.cast(pl.load(gate, [0, 0], [32, 256]), target_type=pl.FP32, mode="rint")
        up_f = pl.cast(pl.load(up, [0, 0], [32, 256]), target_type=pl.FP32, mode="rint")
        opened = pl.relu(pl.muls(gate_f, 0.0625))
        product = pl.mul(opened, pl.muls(up_f, 0.0625))
        halves = pl.cast(product, target_type=pl.FP16, mode="rint")
        quantised = pl.cast(halves, target_type=pl.INT8, mode="rint")
        hidden = pl.store(quantised, [0, 0], hidden)
        return hidden

    @pl.function(type=pl.FunctionType.InCore)
    def down(
        self,
        hidden: pl.Tensor[[32, 256], pl.INT8],
        w_down: pl.Tensor[[256, 1024], pl.INT8],
        y: pl.Out[pl.Tensor[[32, 1024], pl.INT32]],
    ) -> pl.Tensor[[32, 1024], pl.INT32]:
        hidden_mat = pl.load(hidden, [0, 0], [32, 256], target_memory=pl.Mem.Mat)
        down_mat = pl.load(w_down, [0, 0], [256, 1024], target_memory=pl.Mem.Mat)
        y_acc = pl.matmul(hidden_mat, down_mat)
        y = pl.store(y_acc, [0, 0], y)
        return y

    @pl.function(type=pl.FunctionType.Orchestration)
    def expert(
        self,
        x: pl.Tensor[[32, 1024], pl.INT8],
        w_gate: pl.Tensor[[1024, 256], pl.INT8],
        w_up: pl.Tensor[[1024, 256], pl.INT8],
        w_down: pl.Tensor[[256, 1024], pl.INT8],
        y: pl.Out[pl.Tensor[[32, 1024], pl.INT32]],
    ) -> pl.Tensor[[32, 1024], pl.INT32]:
        gate = pl.create_tensor([32, 256], dtype=pl.INT32)
        up = pl.create_tensor([32, 256], dtype=pl.INT32)
        gate, up = self.gate_and_up(x, w_gate, w_up, gate, up)
        hidden = pl.create_tensor([32, 256], dtype=pl.INT8)
        hidden = self.activate(gate, up, hidden)
        y = self.down(hidden, w_down, y)
        return y
