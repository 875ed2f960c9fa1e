"""Programs for tests of the lift, written as text: one product in every kind of placement and narrowing, and split-K chains."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """\
import pypto.language as pl


@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, {params}) -> {returns}:
"""


def program(params: list[str], returns: str, body: list[str]) -> str:
    lines = [line for part in body for line in part.splitlines()]
    return HEAD.format(params=", ".join(params), returns=returns) + "".join(f"        {line}\n" for line in lines)


def accumulator(dtype: str) -> str:
    return "INT32" if dtype.lower() == "int8" else "FP32"


def load(name: str, tensor: str, shape: tuple[int, int], valid: tuple[int, int], space: str = "Mat") -> str:
    return f"{name} = pl.tile.load({tensor}, [0, 0], {list(shape)}, {list(valid)}, target_memory=pl.Mem.{space})"


@dataclass(frozen=True)
class Case:
    """One product ``c`` of physical ``M × K`` by ``K × N`` tiles, of which ``valid`` = (rows, K, columns) hold data.

    ``op``: "matmul", "acc", "acc_if" (with a predicate) or "bias" (its row is read from column 16 on). ``place``: "store",
    "scratch" (read by a second product) or "cast" (the same through a cast to bf16). ``store``: how it is stored, as text.
    """

    M: int
    N: int
    K: int
    valid: tuple[int, int, int]
    dtype: str = "bf16"
    op: str = "matmul"
    place: str = "store"
    left: str = "Mat"
    store: str = "out_1 = pl.tile.store({result}, [0, 0], out)"
    slack: tuple[int, int] = (0, 0)  # rows and columns of the output tensor beyond the product

    @classmethod
    def full(cls, M: int, N: int, K: int, **more: object) -> Case:
        return cls(M, N, K, (M, K, N), **more)  # type: ignore[arg-type]

    def text(self) -> str:
        rows, k, cols = self.valid
        dt, acc = self.dtype.upper(), accumulator(self.dtype)
        params = [f"a: pl.Tensor[[{rows}, {k}], pl.{dt}]", f"b: pl.Tensor[[{k}, {cols}], pl.{dt}]"]
        body = [load("a_mat", "a", (self.M, self.K), (rows, k), self.left), load("b_mat", "b", (self.K, self.N), (k, cols))]
        more_params, product = self._product(dt, acc)
        result, out_cols, reader_params, reader = self._reader(acc)
        out = f"pl.Tensor[[{rows + self.slack[0]}, {out_cols + self.slack[1]}], pl.{acc}]"
        params += [*more_params, *reader_params, "flag: pl.Scalar[pl.BOOL]", "i: pl.Scalar[pl.INDEX]", f"out: pl.Out[{out}]"]
        return program(params, out, [*body, *product, *reader, self.store.format(result=result), "return out_1"])

    def _product(self, dt: str, acc: str) -> tuple[list[str], list[str]]:
        rows, _, cols = self.valid
        if self.op == "matmul":
            return [], ["c = pl.tile.matmul(a_mat, b_mat)"]
        if self.op == "bias":
            bias = f"bias_mat = pl.tile.load(bias, [0, 16], [1, {self.N}], target_memory=pl.Mem.Mat)"
            return [f"bias: pl.Tensor[[1, {self.N + 16}], pl.{acc}]"], [bias, "c = pl.tile.matmul_bias(a_mat, b_mat, bias_mat)"]
        seed = [load("x_mat", "x", (self.M, 16), (rows, 16)), load("y_mat", "y", (16, self.N), (16, cols))]
        cond = ", flag" if self.op == "acc_if" else ""
        product = ["seed = pl.tile.matmul(x_mat, y_mat)", f"c = pl.tile.matmul_acc(seed, a_mat, b_mat{cond})"]
        return [f"x: pl.Tensor[[{rows}, 16], pl.{dt}]", f"y: pl.Tensor[[16, {cols}], pl.{dt}]"], [*seed, *product]

    def _reader(self, acc: str) -> tuple[str, int, list[str], list[str]]:
        """(what is stored, its columns, parameters, statements)."""
        cols = self.valid[2]
        if self.place == "store":
            return "c", cols, [], []
        cast = self.place == "cast"
        body = ["cb = pl.tile.cast(c, target_type=pl.BF16, mode='rint')"] if cast else []
        body += [load("e_mat", "e", (self.N, 32), (cols, 32)), f"d = pl.tile.matmul({'cb' if cast else 'c'}, e_mat)"]
        return "d", 32, [f"e: pl.Tensor[[{cols}, 32], pl.{'BF16' if cast else acc}]"], body


@dataclass(frozen=True)
class Chain:
    """A split-K chain of ``blocks`` blocks of ``K``, in either spelling; its block number is the loop's variable."""

    M: int
    N: int
    K: int
    blocks: int
    dtype: str = "int8"
    branch: bool = False

    def text(self) -> str:
        M, N, K, dt, acc = self.M, self.N, self.K, self.dtype.upper(), accumulator(self.dtype)
        out = f"pl.Tensor[[{M + 16}, {N + 32}], pl.{acc}]"
        params = [f"a: pl.Tensor[[{M}, {K * self.blocks}], pl.{dt}]", f"b: pl.Tensor[[{K * self.blocks}, {N}], pl.{dt}]"]
        reduction = (
            "    if k0 == 0:\n        first = pl.tile.matmul(a_k, b_k)\n        phi = pl.yield_(first)\n"
            "    else:\n        more = pl.tile.matmul_acc(acc_i, a_k, b_k)\n        phi = pl.yield_(more)\n"
            "    acc_r = pl.yield_(phi)"
            if self.branch
            else "    more = pl.tile.matmul_acc(acc_i, a_k, b_k, k0 == 0)\n    acc_r = pl.yield_(more)"
        )
        body = [
            f"acc = pl.tile.create([{M}, {N}], dtype=pl.{acc}, target_memory=pl.Mem.Acc)",
            f"for kb, (acc_i,) in pl.pipeline(0, {self.blocks}, 1, init_values=(acc,), stage=2):",
            f"    k0 = kb * {K}",
            f"    a_k = pl.tile.load(a, [0, k0], [{M}, {K}], target_memory=pl.Mem.Mat)",
            f"    b_k = pl.tile.load(b, [k0, 0], [{K}, {N}], target_memory=pl.Mem.Mat)",
            reduction,
            "out_1 = pl.tile.store(acc_r, [16, 32], out)",
            "return out_1",
        ]
        return program([*params, f"out: pl.Out[{out}]"], out, body)
