"""Random tile programs as PyPTO text: material for property tests.

``program_text(rng)`` draws a program from a ``random.Random``; ``programs()`` is the hypothesis strategy for the same programs.
A program is a sequence of pieces, each of which brings its own parameters and results:

    store          c = a @ b, stored                          chain          (a @ b) cast, times e, stored
    raw_chain      (a @ b) times e without a cast (fp32)      split_k        the author's own K loop, either spelling
    accumulate     matmul_acc into a created accumulator      bias           matmul_bias
    vec_left       the left operand in Vec                    vec_work       elementwise work that has nothing to do with products
    loop, branch   a stored product inside of a loop or of both arms of a branch

Every operand fits Mat (and Vec, where it is loaded there) of both built-in targets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

BYTES = {"BF16": 2, "FP16": 2, "FP32": 4, "INT8": 1, "INT32": 4}
MAT_BYTES = 448 * 1024  # of 512 KiB, so that a bias and a scratch row fit beside the operands
VEC_BYTES = 96 * 1024


class Pick(Protocol):
    """Where choices come from."""

    def one_of(self, options: Sequence[T]) -> T: ...

    def integer(self, least: int, most: int) -> int: ...


class FromRandom:
    """Choices of a ``random.Random``."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def one_of(self, options: Sequence[T]) -> T:
        return self._rng.choice(list(options))

    def integer(self, least: int, most: int) -> int:
        return self._rng.randint(least, most)


class FromHypothesis:
    """Choices that hypothesis shrinks: the first option is the simplest."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def one_of(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(list(options)))  # type: ignore[no-any-return]

    def integer(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))  # type: ignore[no-any-return]


def accumulator(dtype: str) -> str:
    """The element type products of ``dtype`` are summed in."""
    return "INT32" if dtype.startswith(("INT", "UINT")) else "FP32"


def tile(rows: int, cols: int, dtype: str, space: str | None) -> str:
    """A tile annotation."""
    where = f", pl.Mem.{space}" if space else ""
    return f"pl.Tile[[{rows}, {cols}], pl.{dtype}{where}]"


def halved(extent: int, box: int) -> int:
    """About half of an extent, in whole boxes."""
    return max(box, extent // (2 * box) * box)


class Kernel:
    """One InCore function being written."""

    def __init__(self, pick: Pick, largest: int, dtypes: Sequence[str], aligned: bool) -> None:
        self.pick = pick
        self.aligned = aligned
        self.largest = largest
        self.dtypes = list(dtypes)
        self.params: list[str] = []
        self.body: list[str] = []
        self.results: list[tuple[str, str]] = []  # (name, tensor annotation)
        self.matmuls = 0
        self.indent = 0
        self._count = 0

    def name(self, stem: str) -> str:
        """A name that was not used before."""
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        self.body.append("    " * self.indent + text)

    def extent(self, box: int = 16) -> int:
        """An extent of M, N or K: a multiple of the box."""
        return box * self.pick.integer(1, max(1, self.largest // box))

    def odd_extent(self, box: int = 16) -> int:
        """An extent of M or N; where programs need not be aligned, at times no multiple of the box."""
        whole = self.extent(box)
        return whole if self.aligned or whole + 8 > self.largest else whole + self.pick.one_of([0, 0, 0, 1, 8])

    def dtype(self, *only: str) -> str:
        return self.pick.one_of([d for d in self.dtypes if not only or d in only] or list(only))

    def tensor(self, stem: str, rows: int, cols: int, dtype: str) -> str:
        """A parameter that is read."""
        name = self.name(stem)
        self.params.append(f"{name}: pl.Tensor[[{rows}, {cols}], pl.{dtype}]")
        return name

    def output(self, rows: int, cols: int, dtype: str) -> str:
        """A parameter that is written."""
        name = self.name("out")
        self.params.append(f"{name}: pl.Out[pl.Tensor[[{rows}, {cols}], pl.{dtype}]]")
        return name

    def load(self, stem: str, rows: int, cols: int, dtype: str, space: str = "Mat") -> str:
        """A whole parameter, loaded."""
        source = self.tensor(stem, rows, cols, dtype)
        return self.window(stem, source, (0, 0), rows, cols, dtype, space)

    def window(
        self, stem: str, source: str, at: tuple[object, object], rows: int, cols: int, dtype: str, space: str = "Mat"
    ) -> str:
        """A window of a tensor, loaded."""
        name = self.name(f"{stem}_{space.lower()}")
        self.line(
            f"{name}: {tile(rows, cols, dtype, space)} = "
            f"pl.tile.load({source}, [{at[0]}, {at[1]}], [{rows}, {cols}], target_memory=pl.Mem.{space})"
        )
        return name

    def product(self, op: str, rows: int, cols: int, dtype: str, *operands: str) -> str:
        """A product in Acc."""
        name = self.name("c")
        self.matmuls += 1
        self.line(f"{name}: {tile(rows, cols, accumulator(dtype), 'Acc')} = pl.tile.{op}({', '.join(operands)})")
        return name

    def create(self, stem: str, rows: int, cols: int, dtype: str, space: str) -> str:
        name = self.name(stem)
        self.line(
            f"{name}: {tile(rows, cols, dtype, space)} = "
            f"pl.tile.create([{rows}, {cols}], dtype=pl.{dtype}, target_memory=pl.Mem.{space})"
        )
        return name

    def store(self, value: str, rows: int, cols: int, dtype: str, out: str | None = None) -> str:
        """A tile stored whole into an output; the tensor's new state."""
        target = out or self.output(rows, cols, dtype)
        name = self.name("done")
        self.line(f"{name}: pl.Tensor[[{rows}, {cols}], pl.{dtype}] = pl.tile.store({value}, [0, 0], {target})")
        return name

    def result(self, name: str, rows: int, cols: int, dtype: str) -> None:
        self.results.append((name, f"pl.Tensor[[{rows}, {cols}], pl.{dtype}]"))

    def fitting(self, dtype: str, parts: Callable[[int, int, int], int] | None = None) -> tuple[int, int, int]:
        """(M, N, K) whose operands fit Mat together; ``parts`` counts further elements held at the same time."""
        box = max(16, 32 // BYTES[dtype])
        m, n, k = self.odd_extent(box), self.odd_extent(box), self.extent(box)
        held = parts or (lambda m, n, k: 0)
        while (m * k + k * n + held(m, n, k)) * BYTES[dtype] > MAT_BYTES:
            if k > box and k >= max(m, n):
                k = halved(k, box)
            elif m >= n:
                m = halved(m, box)
            else:
                n = halved(n, box)
        return m, n, k

    def text(self, name: str) -> str:
        """The whole program."""
        params = "".join(f"        {p},\n" for p in self.params)
        types = [t for _, t in self.results]
        returns = types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"
        body = "\n".join(f"        {line}" for line in [*self.body, f"return {', '.join(n for n, _ in self.results)}"])
        return (
            "import pypto.language as pl\n\n\n@pl.program\n"
            f"class {name}:\n    @pl.function(type=pl.FunctionType.InCore)\n    def kernel(\n        self,\n{params}"
            f"    ) -> {returns}:\n{body}\n"
        )


# -- pieces ------------------------------------------------------------------------------------------------------------------


def store(k: Kernel) -> None:
    """out = a @ b."""
    dtype = k.dtype()
    m, n, depth = k.fitting(dtype)
    c = k.product("matmul", m, n, dtype, k.load("a", m, depth, dtype), k.load("b", depth, n, dtype))
    k.result(k.store(c, m, n, accumulator(dtype)), m, n, accumulator(dtype))


def chain(k: Kernel) -> None:
    """out = cast(a @ b) @ e, or e @ cast(a @ b)."""
    dtype = k.dtype("BF16", "FP16")
    m, n, depth = k.fitting(dtype, lambda m, n, k: m * n + n * 64)
    mode = k.pick.one_of(["rint", "rint", "rint", "floor", "trunc"])
    a, b = k.load("a", m, depth, dtype), k.load("b", depth, n, dtype)
    left = k.pick.one_of([True, True, False])
    p = 16 * k.pick.integer(1, 4)
    e = k.load("e", n, p, dtype) if left else k.load("e", p, m, dtype)
    c = k.product("matmul", m, n, dtype, a, b)
    low = k.name("low")
    k.line(f'{low}: {tile(m, n, dtype, None)} = pl.tile.cast({c}, target_type=pl.{dtype}, mode="{mode}")')
    rows, cols = (m, p) if left else (p, n)
    d = k.product("matmul", rows, cols, dtype, *((low, e) if left else (e, low)))
    k.result(k.store(d, rows, cols, "FP32"), rows, cols, "FP32")


def raw_chain(k: Kernel) -> None:
    """out = (a @ b) @ e in fp32, no cast between."""
    m, n, depth = k.fitting("FP32", lambda m, n, k: m * n + n * 64)
    p = 16 * k.pick.integer(1, 4)
    a, b, e = k.load("a", m, depth, "FP32"), k.load("b", depth, n, "FP32"), k.load("e", n, p, "FP32")
    d = k.product("matmul", m, p, "FP32", k.product("matmul", m, n, "FP32", a, b), e)
    k.result(k.store(d, m, p, "FP32"), m, p, "FP32")


def split_k(k: Kernel) -> None:
    """The author's K loop over loads, in the branch or the predicated spelling."""
    dtype = k.dtype()
    m, n, depth = k.fitting(dtype)
    acc = accumulator(dtype)
    trips = k.pick.integer(2, 5)
    a, b = k.tensor("a", m, depth * trips, dtype), k.tensor("b", depth * trips, n, dtype)
    seed = k.create("seed", m, n, acc, "Acc")
    ko, held, left = k.name("k"), k.name("held"), k.name("sum")
    t = tile(m, n, acc, "Acc")
    stage = k.pick.one_of([2, 2, 3, 4])
    k.line(f"for {ko}, ({held},) in pl.pipeline(0, {depth * trips}, {depth}, init_values=({seed},), stage={stage}):")
    k.indent += 1
    a_k, b_k = k.window("a", a, (0, ko), m, depth, dtype), k.window("b", b, (ko, 0), depth, n, dtype)
    if k.pick.one_of([True, False]):
        phi = k.name("phi")
        k.line(f"if {ko} == 0:")
        k.indent += 1
        first = k.product("matmul", m, n, dtype, a_k, b_k)
        k.line(f"{phi}: {t} = pl.yield_({first})")
        k.indent -= 1
        k.line("else:")
        k.indent += 1
        more = k.product("matmul_acc", m, n, dtype, held, a_k, b_k)
        k.line(f"{phi}: {t} = pl.yield_({more})")
        k.indent -= 1
    else:
        phi = k.product("matmul_acc", m, n, dtype, held, a_k, b_k, f"{ko} == 0")
    k.line(f"{left}: {t} = pl.yield_({phi})")
    k.indent -= 1
    k.result(k.store(left, m, n, acc), m, n, acc)


def accumulate(k: Kernel) -> None:
    """out = 0 + a @ b + a2 @ b2, in one accumulator."""
    dtype = k.dtype()
    m, n, depth = k.fitting(dtype, lambda m, n, k: m * k + k * n)
    acc = accumulator(dtype)
    c = k.product("matmul", m, n, dtype, k.load("a", m, depth, dtype), k.load("b", depth, n, dtype))
    d = k.product("matmul_acc", m, n, dtype, c, k.load("a", m, depth, dtype), k.load("b", depth, n, dtype))
    k.result(k.store(d, m, n, acc), m, n, acc)


def bias(k: Kernel) -> None:
    """out = a @ b + bias."""
    dtype = k.dtype()
    m, n, depth = k.fitting(dtype)
    n = max(32, n // 32 * 32)
    acc = accumulator(dtype)
    a, b, row = k.load("a", m, depth, dtype), k.load("b", depth, n, dtype), k.load("bias", 1, n, acc)
    c = k.product("matmul_bias", m, n, dtype, a, b, row)
    k.result(k.store(c, m, n, acc), m, n, acc)


def vec_left(k: Kernel) -> None:
    """out = exp(a) @ b with the left operand in Vec."""
    dtype = k.dtype("BF16", "FP16", "FP32")
    m, n, depth = k.fitting(dtype)
    while m * depth * BYTES[dtype] > VEC_BYTES:
        m, depth = (halved(m, 16), depth) if m > depth else (m, halved(depth, 16))
    a = k.load("a", m, depth, dtype, "Vec")
    if k.pick.one_of([False, True]):
        worked = k.name("v")
        k.line(f"{worked}: {tile(m, depth, dtype, 'Vec')} = pl.tile.abs({a})")
        a = worked
    c = k.product("matmul", m, n, dtype, a, k.load("b", depth, n, dtype))
    k.result(k.store(c, m, n, "FP32"), m, n, "FP32")


def vec_work(k: Kernel) -> None:
    """Elementwise work and a reduction in Vec, stored."""
    rows, cols = 16 * k.pick.integer(1, 4), 16 * k.pick.integer(1, 8)
    x, y = k.load("x", rows, cols, "FP32", "Vec"), k.load("y", rows, cols, "FP32", "Vec")
    v = x
    for _ in range(k.pick.integer(1, 4)):
        op = k.pick.one_of(["add", "sub", "mul", "maximum", "neg", "abs", "muls", "adds"])
        operands = {"neg": v, "abs": v, "muls": f"{v}, 2.0", "adds": f"{v}, 1.0"}.get(op, f"{v}, {y}")
        name = k.name("v")
        k.line(f"{name}: {tile(rows, cols, 'FP32', 'Vec')} = pl.tile.{op}({operands})")
        v = name
    k.result(k.store(v, rows, cols, "FP32"), rows, cols, "FP32")


def loop(k: Kernel) -> None:
    """A stored product for each of some row blocks, the output carried."""
    dtype = k.dtype()
    m, n, depth = k.fitting(dtype)
    m = max(16, m // 16 * 16)
    trips = k.pick.integer(2, 3)
    acc = accumulator(dtype)
    kind = k.pick.one_of(["range", "range", "parallel"])
    a = k.tensor("a", m * trips, depth, dtype)
    b = k.load("b", depth, n, dtype)
    out = k.output(m * trips, n, acc)
    t = f"pl.Tensor[[{m * trips}, {n}], pl.{acc}]"
    i, held, after, state = k.name("i"), k.name("held"), k.name("after"), k.name("state")
    k.line(f"for {i}, ({held},) in pl.{kind}(0, {m * trips}, {m}, init_values=({out},)):")
    k.indent += 1
    c = k.product("matmul", m, n, dtype, k.window("a", a, (i, 0), m, depth, dtype), b)
    k.line(f"{state}: {t} = pl.tile.store({c}, [{i}, 0], {held})")
    k.line(f"{after}: {t} = pl.yield_({state})")
    k.indent -= 1
    k.result(after, m * trips, n, acc)


def branch(k: Kernel) -> None:
    """A product stored in one of two ways, by a scalar."""
    dtype = k.dtype()
    m, n, depth = k.fitting(dtype)
    acc = accumulator(dtype)
    flag = k.name("flag")
    k.params.append(f"{flag}: pl.Scalar[pl.INT64]")
    a, b = k.load("a", m, depth, dtype), k.load("b", depth, n, dtype)
    out = k.output(m, n, acc)
    chosen = k.name("chosen")
    t = f"pl.Tensor[[{m}, {n}], pl.{acc}]"
    k.line(f"if {flag} {k.pick.one_of(['==', '>', '<='])} {k.pick.integer(0, 2)}:")
    for arm in range(2):
        if arm:
            k.line("else:")
        k.indent += 1
        done = k.store(k.product("matmul", m, n, dtype, a, b), m, n, acc, out)
        k.line(f"{chosen}: {t} = pl.yield_({done})")
        k.indent -= 1
    k.result(chosen, m, n, acc)


PIECES: dict[str, Callable[[Kernel], None]] = {
    f.__name__: f for f in (store, chain, raw_chain, split_k, accumulate, bias, vec_left, vec_work, loop, branch)
}
#: Products that each piece holds at most.
_MATMULS = {"chain": 2, "raw_chain": 2, "split_k": 2, "accumulate": 2, "branch": 2, "vec_work": 0}


def build(
    pick: Pick,
    *,
    max_matmuls: int = 8,
    max_pieces: int = 5,
    pieces: Sequence[str] | None = None,
    dtypes: Sequence[str] = ("BF16", "FP16", "FP32", "INT8"),
    largest: int = 256,
    aligned: bool = True,
    name: str = "Generated",
) -> str:
    """A program of pieces drawn from ``pieces`` (all by default), of at most ``max_matmuls`` products and extents of ``largest``.

    ``aligned``: every tile fills whole fractal boxes; else M and N are at times a few elements more.
    """
    k = Kernel(pick, largest, dtypes, aligned)
    known = list(pieces or PIECES)
    for _ in range(pick.integer(1, max_pieces)):
        room = [p for p in known if k.matmuls + _MATMULS.get(p, 1) <= max_matmuls]
        if room:
            PIECES[pick.one_of(room)](k)
    return k.text(name)


def program_text(rng: random.Random | int, **options: Any) -> str:
    """A random program; ``rng`` is a generator or a seed, ``options`` those of :func:`build`."""
    return build(FromRandom(rng if isinstance(rng, random.Random) else random.Random(rng)), **options)


@st.composite
def programs(draw: Callable[[st.SearchStrategy[Any]], Any], **options: Any) -> str:
    """Hypothesis strategy for the texts :func:`build` makes."""
    return build(FromHypothesis(draw), **options)


def inputs_for(program: Any, seed: int, integers: bool = True) -> dict[str, Any]:
    """Arrays (and numbers) for the parameters of a program's first function, by name.

    ``integers``: small whole numbers, on which every order of summation gives the same bits; else standard normal values.
    """
    import ml_dtypes
    import numpy as np

    from ir_bridge.ir.types import TensorType

    rng = np.random.default_rng(seed)
    low = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp32": np.float32, "int8": np.int8, "int32": np.int32}
    values: dict[str, Any] = {}
    for p in program.functions[0].params:
        t = p.var.type
        if not isinstance(t, TensorType):
            values[p.var.name] = int(rng.integers(0, 3))
            continue
        whole = integers or not t.dtype.is_float
        data = rng.integers(-3, 4, t.shape) if whole else rng.standard_normal(t.shape)
        values[p.var.name] = data.astype(low[t.dtype.name])
    return values
