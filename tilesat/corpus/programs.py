"""Programs by what they compute, in the sizes asked for: what a kernel author hands to tilesat.

Operands are loaded whole into Mat (or block by block in a split-K chain), products are stored to global memory. Extents are
multiples of the physical box: 16, and 32 where an operand of one byte lies along it.
"""

from __future__ import annotations

from typing import Any

from cost.dtypes import DType, accumulator, dtype
from ir_bridge.ir.builder import FunctionBuilder, ProgramBuilder
from ir_bridge.ir.nodes import Program


def _load(f: FunctionBuilder, tensor: Any, rows: int, columns: int, at: tuple[Any, Any] = (0, 0), name: str = "t") -> Any:
    return f.tile.load(tensor, [at[0], at[1]], [rows, columns], target_memory="Mat", name=name)


def _one_kernel(name: str) -> tuple[ProgramBuilder, FunctionBuilder]:
    b = ProgramBuilder(name)
    return b, b.function("kernel")


def plain(M: int, N: int, K: int, operand: str | DType) -> Program:
    """out = a @ b."""
    b, f = _one_kernel("Plain")
    x, w = f.input("a", [M, K], operand), f.input("b", [K, N], operand)
    out = f.output("out", [M, N], accumulator(dtype(operand)))
    c = f.tile.matmul(_load(f, x, M, K, name="a_mat"), _load(f, w, K, N, name="b_mat"), name="c")
    f.returns(f.tile.store(c, [0, 0], out, name="done"))
    return b.build()


def biased(M: int, N: int, K: int, operand: str | DType) -> Program:
    """out = a @ b + bias, the bias a row."""
    b, f = _one_kernel("Biased")
    total = accumulator(dtype(operand))
    x, w, row = f.input("a", [M, K], operand), f.input("b", [K, N], operand), f.input("bias", [1, N], total)
    out = f.output("out", [M, N], total)
    a_mat, b_mat = _load(f, x, M, K, name="a_mat"), _load(f, w, K, N, name="b_mat")
    c = f.tile.matmul_bias(a_mat, b_mat, _load(f, row, 1, N, name="bias_mat"), name="c")
    f.returns(f.tile.store(c, [0, 0], out, name="done"))
    return b.build()


def chain(M: int, N: int, K: int, N2: int, operand: str | DType) -> Program:
    """out = cast(a @ b) @ e, the cast to the operands' type, rounding to nearest even."""
    b, f = _one_kernel("Chain")
    x, w = f.input("a", [M, K], operand), f.input("b", [K, N], operand)
    e, out = f.input("e", [N, N2], operand), f.output("out", [M, N2], "fp32")
    a_mat, b_mat = _load(f, x, M, K, name="a_mat"), _load(f, w, K, N, name="b_mat")
    e_mat = _load(f, e, N, N2, name="e_mat")
    c = f.tile.matmul(a_mat, b_mat, name="c")
    low = f.tile.cast(c, target_type=str(dtype(operand)), mode="rint", name="low")
    f.returns(f.tile.store(f.tile.matmul(low, e_mat, name="d"), [0, 0], out, name="done"))
    return b.build()


def raw_chain(M: int, N: int, K: int, N2: int, operand: str | DType = "fp32") -> Program:
    """out = (a @ b) @ e with no cast between."""
    b, f = _one_kernel("RawChain")
    x, w, e = f.input("a", [M, K], operand), f.input("b", [K, N], operand), f.input("e", [N, N2], operand)
    out = f.output("out", [M, N2], "fp32")
    a_mat, b_mat = _load(f, x, M, K, name="a_mat"), _load(f, w, K, N, name="b_mat")
    e_mat = _load(f, e, N, N2, name="e_mat")
    d = f.tile.matmul(f.tile.matmul(a_mat, b_mat, name="c"), e_mat, name="d")
    f.returns(f.tile.store(d, [0, 0], out, name="done"))
    return b.build()


def vec_left(M: int, N: int, K: int, operand: str | DType) -> Program:
    """out = |a| @ b, the left operand made in Vec."""
    b, f = _one_kernel("VecLeft")
    x, w = f.input("a", [M, K], operand), f.input("b", [K, N], operand)
    out = f.output("out", [M, N], accumulator(dtype(operand)))
    a_vec = f.tile.load(x, [0, 0], [M, K], target_memory="Vec", name="a_vec")
    c = f.tile.matmul(f.tile.abs(a_vec, name="size"), _load(f, w, K, N, name="b_mat"), name="c")
    f.returns(f.tile.store(c, [0, 0], out, name="done"))
    return b.build()


def pipeline(M: int, N: int, K: int, n: int, operand: str | DType) -> Program:
    """out = a @ b as its author tiled it: a held in L0, b and the result in blocks of ``n`` columns."""
    b, f = _one_kernel("Pipeline")
    x, w = f.input("a", [M, K], operand), f.input("b", [K, N], operand)
    out = f.output("out", [M, N], accumulator(dtype(operand)))
    held = f.tile.move(_load(f, x, M, K, name="a_mat"), target_memory="Left", name="a_l0")
    b_mat = _load(f, w, K, N, name="b_mat")
    with f.pipeline(0, N, n, carry={"out_i": out}, name="ni") as loop:
        block = f.tile.extract(b_mat, 0, loop.index, [K, n], target_memory="Right", name="b_l0")
        c = f.tile.matmul(held, block, name="c")
        loop.yields(f.tile.store(c, [0, loop.index], loop.carried[0], name="stored"), names=["out_all"])
    f.returns(loop.result)
    return b.build()


def _split_k(f: FunctionBuilder, x: Any, w: Any, out: Any, shape: tuple[int, int, int, int], stem: str) -> Any:
    """The author's K loop of one product: ``shape`` is M, N, the K block, and all of K."""
    M, N, step, total = shape
    seed = f.tile.create([M, N], dtype=accumulator(x.type.dtype), target_memory="Acc", name=f"{stem}_seed")
    with f.pipeline(0, total, step, carry={f"{stem}_i": seed}, name=f"{stem}_k") as loop:
        left = _load(f, x, M, step, (0, loop.index), f"{stem}_x")
        right = _load(f, w, step, N, (loop.index, 0), f"{stem}_w")
        first = f.expr("k == 0", k=loop.index)
        loop.yields(f.tile.matmul_acc(loop.carried[0], left, right, first, name=f"{stem}_next"), names=[f"{stem}_sum"])
    return f.tile.store(loop.result, [0, 0], out, name=f"{stem}_done")


def split_k(M: int, N: int, step: int, K: int, operand: str | DType) -> Program:
    """out = a @ b summed over K in blocks of ``step`` that are loaded as the loop goes."""
    b, f = _one_kernel("SplitK")
    x, w = f.input("a", [M, K], operand), f.input("b", [K, N], operand)
    out = f.output("out", [M, N], accumulator(dtype(operand)))
    f.returns(_split_k(f, x, w, out, (M, N, step, K), "c"))
    return b.build()


def decode_layer(tokens: int, hidden: int, queries: int, keys: int, step: int, operand: str | DType = "bf16") -> Program:
    """The projections of a decoder layer: q, k, v of the hidden state and the output projection, each a split-K chain."""
    b, f = _one_kernel("DecodeLayer")
    total = accumulator(dtype(operand))
    x, context = f.input("x", [tokens, hidden], operand), f.input("context", [tokens, queries], operand)
    done = []
    for stem, source, depth, width in (
        ("q", x, hidden, queries),
        ("k", x, hidden, keys),
        ("v", x, hidden, keys),
        ("y", context, queries, hidden // 4),
    ):
        w, out = f.input(f"w{stem}", [depth, width], operand), f.output(stem, [tokens, width], total)
        done.append(_split_k(f, source, w, out, (tokens, width, min(step, depth), depth), stem))
    f.returns(*done)
    return b.build()


def attention_block(rows: int, context: int, width: int, heads: int, operand: str | DType = "bf16") -> Program:
    """Attention of some heads without its softmax: out = cast(q @ kᵀ) @ v, head after head."""
    b, f = _one_kernel("AttentionBlock")
    q, k_t = f.input("q", [heads * rows, width], operand), f.input("k_t", [heads * width, context], operand)
    v, out = f.input("v", [heads * context, width], operand), f.output("out", [heads * rows, width], "fp32")
    with f.range(heads, carry={"out_i": out}, name="head") as loop:
        at = [f.let(f.expr(f"h * {size}", h=loop.index), name) for name, size in (("r", rows), ("d", width), ("c", context))]
        q_mat = _load(f, q, rows, width, (at[0], 0), "q_mat")
        k_mat = _load(f, k_t, width, context, (at[1], 0), "k_mat")
        v_mat = _load(f, v, context, width, (at[2], 0), "v_mat")
        scores = f.tile.matmul(q_mat, k_mat, name="scores")
        weights = f.tile.cast(scores, target_type=str(dtype(operand)), mode="rint", name="weights")
        mixed = f.tile.matmul(weights, v_mat, name="mixed")
        loop.yields(f.tile.store(mixed, [at[0], 0], loop.carried[0], name="stored"), names=["out_all"])
    f.returns(loop.result)
    return b.build()


def expert_mlp(tokens: int, hidden: int, inner: int, operand: str | DType = "int8") -> Program:
    """The products of one expert: gate and up projection in one kernel, the down projection in another."""
    b = ProgramBuilder("ExpertMlp")
    total = accumulator(dtype(operand))
    f = b.function("gate_and_up")
    x = f.input("x", [tokens, hidden], operand)
    x_mat = _load(f, x, tokens, hidden, name="x_mat")
    done = []
    for stem in ("gate", "up"):
        w, out = f.input(f"w_{stem}", [hidden, inner], operand), f.output(stem, [tokens, inner], total)
        c = f.tile.matmul(x_mat, _load(f, w, hidden, inner, name=f"{stem}_mat"), name=f"{stem}_acc")
        done.append(f.tile.store(c, [0, 0], out, name=f"{stem}_done"))
    f.returns(*done)
    g = b.function("down")
    h, w = g.input("h", [tokens, inner], operand), g.input("w_down", [inner, hidden], operand)
    out = g.output("y", [tokens, hidden], total)
    c = g.tile.matmul(_load(g, h, tokens, inner, name="h_mat"), _load(g, w, inner, hidden, name="down_mat"), name="y_acc")
    g.returns(g.tile.store(c, [0, 0], out, name="done"))
    return b.build()
