"""Random tensor programs as PyPTO text, as kernel authors write them: material for the tests of conversion.

A program is one InCore kernel on tensors and, at times, a wrapper and an orchestration that calls it. The kernel is a sequence
of pieces, each of which adds values to a pool and draws its operands from it: arithmetic with and without broadcast, reductions,
casts, products (transposed, accumulated, in loops), windows, views, gathers and scatters, comparison and selection, staging in
local memory, loops and branches that carry tensors, element reads and writes. Values stay small whole numbers where products
see them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from generate import FromHypothesis, Pick
from hypothesis import strategies as st


@dataclass
class Value:
    """A tensor in scope; ``partial`` when only part of it is valid, ``memory`` when it is a parameter."""

    name: str
    rows: int
    cols: int
    dtype: str = "FP32"
    partial: bool = False
    memory: bool = False


class TensorKernel:
    """One kernel being written."""

    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.params: list[str] = []
        self.names: list[str] = []
        self.body: list[str] = []
        self.pool: list[Value] = []
        self.outs: list[Value] = []
        self.indent = 0
        self._count = 0

    # -- text ----------------------------------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        self.body.append("    " * self.indent + text)

    def tensor(self, rows: int, cols: int, dtype: str = "FP32", direction: str = "", stem: str = "x") -> Value:
        """A new parameter."""
        v = Value(self.fresh(stem), rows, cols, dtype, memory=True)
        t = f"pl.Tensor[[{rows}, {cols}], pl.{dtype}]"
        self.params.append(f"{v.name}: pl.{direction}[{t}]" if direction else f"{v.name}: {t}")
        self.names.append(v.name)
        return v

    def let(self, rows: int, cols: int, text: str, dtype: str = "FP32", partial: bool = False, stem: str = "t") -> Value:
        """A new value, computed by ``text``."""
        v = Value(self.fresh(stem), rows, cols, dtype, partial)
        self.line(f"{v.name} = {text}")
        return v

    # -- operands ------------------------------------------------------------------------------------------------------

    def extent(self) -> int:
        return self.pick.one_of([16, 32, 24, 48, 17, 8])

    def value(self, whole: bool = False) -> Value:
        """A floating value from the pool, or a new parameter."""
        known = [v for v in self.pool if v.dtype == "FP32" and not (whole and v.partial)]
        if known and self.pick.integer(0, 3):
            return self.pick.one_of(known[-6:])
        v = self.tensor(self.extent(), self.extent())
        self.pool.append(v)
        return v

    def small(self, v: Value) -> Value:
        """``v`` clipped to whole numbers of at most 3, so that products are exact."""
        upper = self.let(v.rows, v.cols, f"pl.minimum({v.name}, 3.0)", partial=v.partial)
        lower = self.let(v.rows, v.cols, f"pl.maximum({upper.name}, -3.0)", partial=v.partial)
        return lower

    def operand(self, rows: int, cols: int, dtype: str) -> Value:
        """A matmul operand: a parameter, a window of one, or a computed value of the right shape."""
        how = self.pick.integer(0, 2)
        if how == 0:
            big = self.tensor(rows + 16, cols + 16, dtype, stem="m")
            return self.let(rows, cols, f"pl.slice({big.name}, [{rows}, {cols}], [8, 16])", dtype)
        if how == 1:
            source = self.tensor(rows, cols)
            cast = self.small(source)
            if dtype != "FP32":
                cast = self.let(rows, cols, f"pl.cast({cast.name}, pl.{dtype}, mode='rint')", dtype)
            return cast
        return self.tensor(rows, cols, dtype, stem="m")

    def add(self, v: Value) -> None:
        self.pool.append(v)


Piece = Callable[[TensorKernel], None]


def elementwise(k: TensorKernel) -> None:
    a = k.value()
    op = k.pick.one_of(["add", "sub", "maximum", "minimum"])
    how = k.pick.integer(0, 4)
    if how == 0:
        k.add(k.let(a.rows, a.cols, f"pl.{op}({a.name}, {k.pick.integer(-2, 3)}.0)", partial=a.partial))
        return
    rows, cols = [(a.rows, a.cols), (1, a.cols), (a.rows, 1), (1, 1)][how - 1]
    b = k.tensor(rows, cols)
    pair = (a, b) if rows == a.rows or a.partial or k.pick.integer(0, 1) else (b, a)
    k.add(k.let(a.rows, a.cols, f"pl.{op}({pair[0].name}, {pair[1].name})", partial=a.partial))


def outer(k: TensorKernel) -> None:
    rows, cols = k.extent(), k.extent()
    a, b = k.tensor(rows, 1), k.tensor(1, cols)
    k.add(k.let(rows, cols, f"pl.add({a.name}, {b.name})"))


def unary(k: TensorKernel) -> None:
    a = k.value()
    k.add(k.let(a.rows, a.cols, f"pl.{k.pick.one_of(['neg', 'abs', 'relu'])}({a.name})", partial=a.partial))


def reduction(k: TensorKernel) -> None:
    a = k.value()
    op = k.pick.one_of(["row_max", "row_sum", "row_min", "col_sum", "col_max"])
    if op.startswith("row"):
        r = k.let(a.rows, 1, f"pl.{op}({a.name})", partial=a.partial)
        if not a.partial:
            k.add(k.let(a.rows, a.cols, f"pl.row_expand_{k.pick.one_of(['sub', 'add'])}({a.name}, {r.name})"))
        return
    extra = ", is_binary=True" if op == "col_sum" and k.pick.integer(0, 1) else ""
    r = k.let(1, a.cols, f"pl.{op}({a.name}{extra})", partial=a.partial)
    if not a.partial:
        k.add(k.let(a.rows, a.cols, f"pl.col_expand_sub({a.name}, {r.name})"))


def cast(k: TensorKernel) -> None:
    a = k.value()
    low = k.let(
        a.rows, a.cols, f"pl.cast({a.name}, pl.{k.pick.one_of(['BF16', 'FP16', 'INT32'])}, mode='rint')", "LOW", a.partial
    )
    k.add(k.let(a.rows, a.cols, f"pl.cast({low.name}, pl.FP32)", partial=a.partial))


def matmul(k: TensorKernel) -> None:
    m, kk, n = k.extent(), k.pick.one_of([32, 64]), k.extent()
    dtype = k.pick.one_of(["BF16", "FP16", "FP32", "INT8"])
    at, bt = k.pick.integer(0, 1), k.pick.integer(0, 1)
    a = _left(k, kk, m, dtype) if at else _left(k, m, kk, dtype)
    b = _left(k, n, kk, dtype) if bt else _left(k, kk, n, dtype)
    out = "INT32" if dtype == "INT8" else "FP32"
    flags = (", a_trans=True" if at else "") + (", b_trans=True" if bt else "")
    c = k.let(m, n, f"pl.matmul({a.name}, {b.name}{flags}, out_dtype=pl.{out})", out)
    if k.pick.integer(0, 2) == 0 and n % (32 if dtype == "INT8" else 16) == 0:
        c = k.let(m, n, f"pl.matmul_acc({c.name}, {a.name}, {b.name}{flags})", out)
    k.add(c if out == "FP32" else k.let(m, n, f"pl.cast({c.name}, pl.FP32)"))


def _left(k: TensorKernel, rows: int, cols: int, dtype: str) -> Value:
    return k.tensor(rows, cols, dtype, stem="m") if dtype == "INT8" else k.operand(rows, cols, dtype)


def batched(k: TensorKernel) -> None:
    """A product of rank 3, handed over whole, then looked at as a matrix."""
    m, kk, n = 16, 16, 32
    name_a, name_b = k.fresh("m"), k.fresh("m")
    k.params += [f"{name_a}: pl.Tensor[[2, {m}, {kk}], pl.BF16]", f"{name_b}: pl.Tensor[[2, {kk}, {n}], pl.BF16]"]
    k.names += [name_a, name_b]
    c = k.let(2 * m, n, f"pl.matmul({name_a}, {name_b}, out_dtype=pl.FP32)")
    k.add(k.let(2 * m, n, f"pl.reshape({c.name}, [{2 * m}, {n}])"))


def split_k(k: TensorKernel) -> None:
    """The author's own K loop, either with a first product or on a created accumulator that the first trip overwrites."""
    m, n = k.pick.one_of([16, 32, 17, 24]), k.pick.one_of([16, 48])
    a, b = k.tensor(m, 64, "BF16", stem="m"), k.tensor(64, n, "BF16", stem="m")
    acc, i = k.fresh("acc"), k.fresh("i")
    k.line(f"{acc} = pl.create_tensor([{m}, {n}], dtype=pl.FP32)")
    k.line(f"for {i} in pl.{k.pick.one_of(['range(0, 64, 16)', 'pipeline(0, 64, 32, stage=2)'])}:")
    step = 16 if "range" in k.body[-1] else 32
    narrow = k.pick.integer(0, 1)
    valid = f", valid_shape=[n, {step}]" if narrow else ""
    k.line(f"    {acc}_a = pl.slice({a.name}, [{m}, {step}], [0, {i}]{valid})")
    k.line(f"    {acc}_b = {b.name}[{i} : {i} + {step}, 0:{n}]")
    k.line(f"    if {i} == 0:")
    k.line(f"        {acc} = pl.matmul({acc}_a, {acc}_b, out_dtype=pl.FP32)")
    k.line("    else:")
    k.line(f"        {acc} = pl.matmul_acc({acc}, {acc}_a, {acc}_b)")
    k.add(Value(acc, m, n, "FP32", partial=bool(narrow)))


def window(k: TensorKernel) -> None:
    a = k.value(whole=True)
    rows, cols = max(1, a.rows // 2), a.cols
    r = k.pick.integer(0, a.rows - rows)
    if k.pick.integer(0, 2) == 0:
        k.add(k.let(rows, cols, f"pl.slice({a.name}, [{rows}, {cols}], [{r}, 0], valid_shape=[1, {cols}])", partial=True))
    elif k.pick.integer(0, 1) or a.rows < 3:  # n is up to 3
        k.add(k.let(rows, cols, f"{a.name}[{r}:{r + rows}, 0:{cols}]"))
    else:
        k.add(k.let(a.rows, a.cols, f"pl.set_validshape({a.name}, n, {a.cols})", partial=True))


def reshape(k: TensorKernel) -> None:
    a = k.value(whole=True)
    if k.pick.integer(0, 1):
        k.add(k.let(a.cols, a.rows, f"pl.transpose({a.name}, 0, 1)"))
    elif a.rows % 2 == 0:
        k.add(k.let(a.rows // 2, a.cols * 2, f"pl.reshape({a.name}, [{a.rows // 2}, {a.cols * 2}])"))


def compare(k: TensorKernel) -> None:
    a = k.value()
    kind = k.pick.integer(0, 5)
    if k.pick.integer(0, 1):
        m = k.let(a.rows, a.cols, f"pl.cmp({a.name}, 1.0, cmp_type={kind})", partial=a.partial)
    else:
        b = k.tensor(*k.pick.one_of([(a.rows, a.cols), (1, a.cols), (a.rows, 1)]))
        m = k.let(a.rows, a.cols, f"pl.cmp({a.name}, {b.name}, cmp_type={kind})", partial=a.partial)
    k.add(m)
    if k.pick.integer(0, 1):
        other = k.tensor(a.rows, a.cols)
        k.add(k.let(a.rows, a.cols, f"pl.sel({m.name}, {a.name}, {other.name})", partial=a.partial))


def gather(k: TensorKernel) -> None:
    a = k.value(whole=True)
    how = k.pick.integer(0, 2)
    if how == 0:
        index = k.tensor(4, 8, "INT32", stem="idx")
        k.add(k.let(4, 8, f"pl.gather({a.name}, {index.name})"))
    elif how == 1 and a.cols >= 8:
        index = k.tensor(a.rows, 8, "INT32", stem="idx")
        k.add(k.let(a.rows, 8, f"pl.gather({a.name}, dim=-1, index={index.name})"))
    elif a.rows >= 8:
        index = k.tensor(5, a.cols, "INT32", stem="idx")
        k.add(k.let(5, a.cols, f"pl.gather({a.name}, dim=0, index={index.name})"))


def scatter(k: TensorKernel) -> None:
    a = k.value(whole=True)
    if a.rows < 8:
        return
    index, src = k.tensor(2, 4, "INT32", stem="idx"), k.tensor(8, a.cols)
    k.add(k.let(a.rows, a.cols, f"pl.scatter_update({a.name}, -2, {index.name}, {src.name})"))


def gathered_rows(k: TensorKernel) -> None:
    """Rows of a pool gathered into L1, by page or by the kernel's own loop, as a matmul operand."""
    source = k.tensor(64, 32, "BF16", stem="m")
    q = k.tensor(16, 32, "BF16", stem="m")
    kv = k.fresh("kv")
    if k.pick.integer(0, 1):
        index = k.tensor(1, 16, "INT32", stem="idx")
        table = k.tensor(1, 4, "INT32", stem="table")
        k.line(f"{kv} = pl.paged_gather({source.name}, {index.name}, {table.name}, block_size=8, max_indices=16, size=32)")
    else:
        trans = k.pick.integer(0, 1)
        i = k.fresh("i")
        shape, extra = ("[32, 16]", ", transpose=True") if trans else ("[16, 32]", "")
        at = f"[0, {i}]" if trans else f"[{i}, 0]"
        k.line(f"{kv} = pl.create_l1({shape}, pl.BF16{extra})")
        k.line(f"for {i} in pl.range(16):")
        k.line(f"    {kv} = pl.gather_row({kv}, {source.name}, {at}, [{i} * 3, 0], [1, 32]{extra})")
        if trans:
            k.add(k.let(16, 16, f"pl.matmul({q.name}, {kv}, out_dtype=pl.FP32)"))
            return
    k.add(k.let(16, 16, f"pl.matmul({q.name}, {kv}, b_trans=True, out_dtype=pl.FP32)"))


def staged(k: TensorKernel) -> None:
    """A local value assembled from parts, or filled and then updated element by element."""
    if k.pick.integer(0, 1):
        a = k.value(whole=True)
        z = k.fresh("z")
        k.line(f"{z} = pl.create_tensor([{a.rows * 2}, {a.cols}], dtype=pl.FP32)")
        k.line(f"{z}[0:{a.rows}, 0:{a.cols}] = {a.name}")
        k.line(f"{z}[{a.rows}:{a.rows * 2}, 0:{a.cols}] = pl.neg({a.name})")
        k.add(Value(z, a.rows * 2, a.cols))
        return
    z, i = k.fresh("z"), k.fresh("i")
    known = k.value(whole=True)
    source = known if known.cols >= 4 and k.pick.integer(0, 1) else k.tensor(4, 16)
    k.line(f"{z} = pl.full([4, 16], dtype=pl.FP32, value=-1.0)")
    k.line(f"for {i} in pl.range(4):")
    k.line(f"    pl.write({z}, [{i}, {i}], pl.read({source.name}, [0, {i}]) + 1.0)")
    if k.pick.integer(0, 1):
        k.add(k.let(2, 16, f"{z}[1:3, :]"))
        k.line(f"pl.write({z}, [2, 3], 5.0)")
    k.add(Value(z, 4, 16))


def carried(k: TensorKernel) -> None:
    a, b = k.value(whole=True), None
    b = k.tensor(a.rows, a.cols)
    c, i = k.fresh("c"), k.fresh("i")
    k.line(f"{c} = {a.name}")
    k.line(f"for {i} in pl.range(3):")
    k.line(f"    {c} = pl.minimum(pl.add({c}, {b.name}), 50.0)")
    if k.pick.integer(0, 1):
        k.line(f"    if {i} == 1:")
        k.line(f"        {c} = pl.sub({c}, 1.0)")
    k.add(Value(c, a.rows, a.cols))


def branch(k: TensorKernel) -> None:
    a = k.value(whole=True)
    c = k.fresh("c")
    k.line("if n > 1:")
    k.line(f"    {c} = pl.add({a.name}, 1.0)")
    k.line("else:")
    k.line(f"    {c} = {k.pick.one_of([a.name, f'pl.neg({a.name})'])}")
    k.add(Value(c, a.rows, a.cols))


def output_loop(k: TensorKernel) -> None:
    """A loop that assembles windows into an output parameter, or into an allocation that is returned."""
    a = k.tensor(64, 32)
    i = k.fresh("i")
    if k.pick.integer(0, 1):
        out = k.tensor(64, 32, direction="Out", stem="out")
    else:
        out = Value(k.fresh("z"), 64, 32)
        k.line(f"{out.name} = pl.create_tensor([64, 32], dtype=pl.FP32)")
    k.line(f"for {i} in pl.{k.pick.one_of(['range(4)', 'parallel(4)'])}:")
    k.line(f"    {out.name}_s = {a.name}[{i} * 16 : {i} * 16 + 16, 0:32]")
    k.line(f"    {out.name}[{i} * 16 : {i} * 16 + 16, 0:32] = pl.add({out.name}_s, {out.name}_s)")
    k.outs.append(out)


def memory_writes(k: TensorKernel) -> None:
    """Reads of a parameter before and after an element of it is written."""
    x = k.tensor(16, 16, direction="InOut", stem="g")
    before = k.let(16, 1, f"pl.row_sum({x.name})")
    k.line(f"pl.tensor.write({x.name}, [n, 0], 7.0)")
    after = k.let(16, 1, f"pl.row_sum({x.name})")
    k.add(k.let(16, 1, f"pl.sub({after.name}, {before.name})"))


def fill_loop(k: TensorKernel) -> None:
    out, i = k.tensor(2, 16, direction="Out", stem="out"), k.fresh("i")
    row = k.pick.integer(0, 1)
    k.line(f"for {i} in pl.range(16):")
    k.line(f"    pl.write({out.name}, [{row}, {i}], pl.const(3.0, pl.FP32))")
    if k.pick.integer(0, 1):
        source = k.tensor(1, 16)
        k.line(f"{out.name}[{1 - row}:{2 - row}, 0:16] = {source.name}")
    k.outs.append(out)


def vector_split(k: TensorKernel) -> None:
    """Vector work split between two vector cores, by rows or by columns, between two products."""
    a, b = k.tensor(32, 32, "BF16", stem="m"), k.tensor(32, 64, "BF16", stem="m")
    raw = k.let(32, 64, f"pl.matmul({a.name}, {b.name}, out_dtype=pl.FP32)")
    half, full = k.fresh("h"), k.fresh("f")
    k.line(f"for {half}_lane in pl.split_aiv(2, mode=pl.SplitMode.{k.pick.one_of(['UP_DOWN', 'LEFT_RIGHT'])}):")
    k.line(f"    {half} = pl.aiv_shard({raw.name})")
    k.line(f"    {half}_c = pl.cast(pl.minimum(pl.maximum({half}, -3.0), 3.0), pl.BF16, mode='rint')")
    k.line(f"    {full} = pl.aic_gather({half}_c)")
    e = k.tensor(64, 16, "BF16", stem="m")
    k.add(k.let(32, 16, f"pl.matmul({full}, {e.name}, out_dtype=pl.FP32)"))


PIECES: dict[str, Piece] = {
    f.__name__: f
    for f in (
        elementwise, outer, unary, reduction, cast, matmul, batched, split_k, window, reshape, compare, gather, scatter,
        gathered_rows, staged, carried, branch, output_loop, memory_writes, fill_loop, vector_split,
    )
}  # fmt: skip


def build(pick: Pick, *, pieces: Sequence[str] | None = None, most: int = 6, callers: bool = True) -> str:
    """A program of up to ``most`` pieces; ``callers`` allows a wrapper and an orchestration around the kernel."""
    k = TensorKernel(pick)
    known = list(pieces or PIECES)
    for _ in range(pick.integer(1, most)):
        PIECES[pick.one_of(known)](k)
    candidates = [v for v in k.pool if not v.memory]
    results = candidates[-pick.integer(1, 3) :] + [o for o in k.outs if not o.memory]
    if not results:
        results = [*k.outs] or [k.let(16, 16, "pl.full([16, 16], dtype=pl.FP32, value=0.0)")]
    levels = pick.integer(0, 2) if callers else 0
    return _text(k, results, levels)


def _text(k: TensorKernel, results: list[Value], levels: int) -> str:
    names = ", ".join(v.name for v in results)
    types = [f"pl.Tensor[[{v.rows}, {v.cols}], pl.FP32]" for v in results]
    arrow = types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"
    signature = ", ".join([*k.params, "n: pl.Scalar[pl.INDEX]"])
    passed = ", ".join([*k.names, "n"])
    lines = ["import pypto.language as pl", "", "@pl.program", "class Generated:"]
    lines += ["    @pl.function(type=pl.FunctionType.InCore)", f"    def kernel(self, {signature}) -> {arrow}:"]
    lines += [f"        {s}" for s in k.body] + [f"        return {names}"]
    callee = "kernel"
    got = [f"r{i}" for i in range(len(results))]
    for level in range(levels):
        outermost = level == levels - 1
        kind, name = ("Orchestration", "main") if outermost else ("Group", "wrap")
        lines += [f"    @pl.function(type=pl.FunctionType.{kind})", f"    def {name}(self, {signature}) -> {arrow}:"]
        lines += [f"        {', '.join(got)} = self.{callee}({passed})", f"        return {', '.join(got)}"]
        callee = name
    return "\n".join(lines) + "\n"


@st.composite
def tensor_programs(draw: Callable[[st.SearchStrategy[Any]], Any], **options: Any) -> str:
    """Hypothesis strategy for the texts :func:`build` makes."""
    return build(FromHypothesis(draw), **options)


def inputs_for(program: Any, seed: int) -> dict[str, Any]:
    """Small whole numbers for every parameter of the outermost function; indices lie in 0…7, ``n`` in 1…3."""
    import numpy as np

    from ir_bridge.ir.semantics_values import numpy_dtype
    from ir_bridge.ir.types import TensorType

    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for p in program.functions[-1].params:
        t = p.var.type
        if not isinstance(t, TensorType):
            values[p.var.name] = int(rng.integers(1, 4))
        elif p.direction.value != "Out":
            low, high = (0, 8) if p.var.name.startswith(("idx", "table")) else (-3, 4)
            values[p.var.name] = rng.integers(low, high, t.shape).astype(numpy_dtype(t.dtype))
    return values
