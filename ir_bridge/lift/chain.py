"""A canonical split-K chain cut into M × N windows around its own K-loop (specification 1, "K 切分 vs M/N 切分").

Each window gets its own accumulator, runs the whole source reduction with both loads narrowed to it, and is stored before the
next one starts. The source's spelling of the reduction is kept, and its calls are split along K where the plan says so.
"""

from __future__ import annotations

from cost.dtypes import DType
from cost.physical import align_up
from egraph_rules.plan import ChainPlan
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import Assign, Call, Expr, If, Var, Yield
from ir_bridge.ir.ops_registry import as_expr
from ir_bridge.ir.ops_types import valid_or_none
from ir_bridge.ir.tile_types import matmul_type
from ir_bridge.ir.types import Space, TileType, View
from ir_bridge.lift.emit import Emitter, call_of, items, plus, tile, var
from ir_bridge.lift.grid import StorePlacer, windows
from ir_bridge.lift.k_loop import Window, reduce_k
from ir_bridge.lift.product import Product
from ir_bridge.lift.rename import Renames, renamed
from ir_bridge.split_k_chain import SplitKChain


def lift_chain(plan: ChainPlan, chain: SplitKChain, e: Emitter, renames: Renames) -> Var:
    """Emit every window of ``chain``, columns outer, rows inner; the output tensor's state after the last store."""
    store = call_of(chain.store)
    state, placer = var(store.args[2]), StorePlacer(store)
    blocks = list(windows(chain.M, chain.N, plan.tile.m, plan.tile.n))
    for i, w in enumerate(blocks):
        block = _Copy(plan, chain, w, dict(renames)).emit(e)
        into = chain.store.targets[0] if i + 1 == len(blocks) else None
        state = placer.place(e, f"{placer.name}_t{i}", state, block, as_expr(w.mi), as_expr(w.ni), into)
    return state


class _Copy:
    """One copy of the chain's loop, narrowed to one window. ``table`` maps the source's values to the copy's."""

    def __init__(self, plan: ChainPlan, chain: SplitKChain, w: Window, table: dict[Var, Expr]) -> None:
        self.chain, self.w, self.table = chain, w, table
        #: physical rows and columns: the window padded to the operands' boxes
        self.rows, self.cols = align_up(w.rows, plan.box_m), align_up(w.cols, plan.box_n)
        self.inner = plan.inner.get((self.rows, self.cols))

    def emit(self, e: Emitter) -> Var:
        """The accumulator and the loop; the loop's result."""
        chain, loop = self.chain, self.chain.loop
        seed = e.create(base_name(chain.create.targets[0].name), self.accumulator(), Space.ACC)
        carried = self.copy_of(loop.carried[0], seed)
        counter = None if loop.counter is None else self.copy_of(loop.counter)
        body, reduced = e.inner(), carried
        for s in loop.body[:-1]:
            if isinstance(s, If):
                reduced = self.branch(body, s)
            elif s is chain.more:
                reduced = self.product(body, chain.more)
            else:
                assert isinstance(s, Assign)
                self.statement(body, s)
        start, stop, step = (renamed(x, self.table) for x in (loop.start, loop.stop, loop.step))
        result = Var(base_name(loop.results[0].name), seed.type)
        carry = (seed, carried, reduced)
        return e.loop(loop.kind, counter, (start, stop, step), body, carry, result, loop.stage, loop.attrs, loop.options)

    def accumulator(self) -> TileType:
        """The window's accumulator: boxed, its valid region the window."""
        left, right = tile(self.chain.left.targets[0]), tile(self.chain.right.targets[0])
        K = self.chain.K
        return matmul_type(
            _mat((self.rows, K), left.dtype, (self.w.rows, K)), _mat((K, self.cols), right.dtype, (K, self.w.cols))
        )

    def copy_of(self, v: Var, like: Var | None = None) -> Var:
        """A new value for ``v``, of the type of ``like`` (its own by default)."""
        new = Var(base_name(v.name), (like or v).type)
        self.table[v] = new
        return new

    def statement(self, e: Emitter, s: Assign) -> None:
        """A load, narrowed to the window; or scalar arithmetic."""
        value, v, K = renamed(s.value, self.table), s.targets[0], self.chain.K
        if s is not self.chain.left and s is not self.chain.right:
            e.out.append(Assign((self.copy_of(v),), value, s.loc))
            return
        assert isinstance(value, Call)
        tensor, (row, col) = value.args[0], items(value.args[1])
        if s is self.chain.left:
            row, shape, valid = plus(row, as_expr(self.w.mi)), (self.rows, K), (self.w.rows, K)
        else:
            col, shape, valid = plus(col, as_expr(self.w.ni)), (K, self.cols), (K, self.w.cols)
        self.table[v] = e.load(base_name(v.name), tensor, (row, col), shape, valid)

    def branch(self, e: Emitter, s: If) -> Var:
        """The peeled spelling: the first block in one arm, the others in the other."""
        first, more = e.inner(), e.inner()
        assert self.chain.first is not None
        one, other = self.product(first, self.chain.first), self.product(more, self.chain.more)
        phi = Var(base_name(s.results[0].name), one.type)
        arms = ((*first.out, Yield((one,), e.loc)), (*more.out, Yield((other,), e.loc)))
        e.out.append(If(renamed(s.cond, self.table), *arms, (phi,), s.loc))
        return phi

    def product(self, e: Emitter, s: Assign) -> Var:
        """One matrix product of the window, split along K where the plan says so."""
        args = [renamed(a, self.table) for a in call_of(s).args]
        name, acc = base_name(s.targets[0].name), None if s is self.chain.first else var(args.pop(0))
        left, right, cond = var(args[0]), var(args[1]), args[2] if len(args) > 2 else None
        if self.inner is not None:
            p = Product(name, left, right, self.rows, self.cols, self.chain.K, acc, cond)
            return reduce_k(e, p, Window(0, 0, self.rows, self.cols), self.inner.k, name)
        if acc is None:
            return e.matmul(name, left, right)
        return e.accumulate(name, acc, left, right, cond)


def _mat(shape: tuple[int, int], dtype: DType, valid: tuple[int, int]) -> TileType:
    return TileType(shape, dtype, Space.MAT, View(valid_shape=valid_or_none(shape, valid)))
