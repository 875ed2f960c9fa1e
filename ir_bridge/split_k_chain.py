"""The canonical split-K chain: a product written as create, K-loop, store (specification 1; facts/tiling_gates.md).

    acc = create([M, N])
    for k0, (c,) in pipeline(…):            # one carried value
        a = load(A, [r, k0], [M, K]);  b = load(B, [k0, n], [K, N])
        c' = matmul(a, b) if k0 == 0 else matmul_acc(c, a, b)      # or matmul_acc(c, a, b, k0 == 0)
        yield c'
    out' = store(result, [r, c], out)

Its output can be cut into M × N windows around the whole source loop, which slicing the finished accumulator could not do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cost.physical import box
from ir_bridge.analysis import Facts, Site, is_scalar_arithmetic, may_share_memory
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import Assign, Binary, Call, Const, Expr, For, If, ListExpr, LoopKind, Stmt, Var, Yield, walk
from ir_bridge.ir.ops_types import type_of
from ir_bridge.ir.types import Space, TensorType, TileType


@dataclass(frozen=True, slots=True)
class SplitKChain:
    """A recognised chain.

    ``create``, ``loop`` and ``store`` are adjacent statements, the create at ``position`` of ``site``. ``left`` and ``right``
    are the two loads of the loop, of ``M × K`` and ``K × N`` elements (K: of one source block). ``branch`` is the If of the
    peeled spelling, with ``first`` its ``matmul``; both are None in the predicated spelling. ``more`` is the ``matmul_acc``.
    ``cond`` is the first-block test.
    """

    create: Assign
    loop: For
    store: Assign
    left: Assign
    right: Assign
    more: Assign
    cond: Expr
    first: Assign | None
    branch: If | None
    site: Site | None = None
    position: int = -1

    @property
    def M(self) -> int:
        return _shape(self.left)[0]

    @property
    def K(self) -> int:
        return _shape(self.left)[1]

    @property
    def N(self) -> int:
        return _shape(self.right)[1]

    @property
    def box_m(self) -> int:
        """Rows that a window of the left operand is boxed to, as its layout in Mat wants."""
        t = _tile(self.left)
        return box(t.layout[1], t.dtype)[0]

    @property
    def box_n(self) -> int:
        """Columns that a window of the right operand is boxed to."""
        t = _tile(self.right)
        return box(t.layout[1], t.dtype)[1]

    @property
    def products(self) -> tuple[Assign, ...]:
        """The matrix products of the loop, in program order."""
        return (self.more,) if self.first is None else (self.first, self.more)


@dataclass(frozen=True, slots=True)
class ChainRefusal:
    """A chain in everything but its predicate, which does not prove that the first K block overwrites (PH-AT-006)."""

    chain: SplitKChain
    reason: str


def split_k_chains(facts: Facts) -> Iterator[SplitKChain | ChainRefusal]:
    """Every chain of a function, in program order; what is no chain is passed over silently."""
    for site in facts.sites:
        statements = site.statements
        for i in range(1, len(statements) - 1):
            s = statements[i]
            if type(s) is For and s.kind is LoopKind.PIPELINE and len(s.carried) == 1:
                chain = chain_parts(statements[i - 1], s, statements[i + 1], site, i - 1)
                if (
                    chain is not None
                    and _links_used_once(chain, facts)
                    and _covers_panels(chain)
                    and _reads_elsewhere(chain, facts)
                ):
                    reason = not_first_block(chain.cond, s)
                    yield chain if reason is None else ChainRefusal(chain, reason)


def is_window(chain: SplitKChain, facts: Facts) -> bool:
    """Is the chain one window of an output that is cut already? Another K-loop over the same operands is stored right before or
    after it into the same output."""
    store = _call(chain.store)
    before, after = facts.call_of(store.args[2]), facts.only_use(chain.store.targets[0])
    neighbours = [before, after.call if after is not None and after.slot == 2 else None]
    wanted = {_call(chain.left).args[0], _call(chain.right).args[0]}
    return any(c is not None and c.op == "tile.store" and wanted <= _loaded_by(c.args[0], facts) for c in neighbours)


def _loaded_by(value: Expr, facts: Facts) -> set[Expr]:
    """The tensors that the loop which makes ``value`` loads from."""
    made = facts.definitions.get(value) if isinstance(value, Var) else None
    if made is None or not isinstance(made.stmt, For):
        return set()
    return {_call(s).args[0] for s in walk(made.stmt.body) if isinstance(s, Assign) and _is(s, "tile.load")}


def _links_used_once(chain: SplitKChain, facts: Facts) -> bool:
    links = (chain.create.targets[0], chain.loop.carried[0], chain.loop.results[0])
    return all(len(facts.uses_of(v)) == 1 for v in links)


def _reads_elsewhere(chain: SplitKChain, facts: Facts) -> bool:
    """Nothing the loop loads is written by the store, which a later window would then read changed."""
    written = _call(chain.store).args[2]
    sources = [_call(load).args[0] for load in (chain.left, chain.right)]
    return isinstance(written, Var) and not any(isinstance(v, Var) and may_share_memory(v, written, facts) for v in sources)


def _covers_panels(chain: SplitKChain) -> bool:
    """The loads cover whole M × K and K × N panels of the accumulator's M and N, and nothing less of them is valid."""
    acc, left, right = _tile(chain.create), _tile(chain.left), _tile(chain.right)
    if not all(t.static and len(t.shape) == 2 and t.valid == t.shape for t in (acc, left, right)):
        return False
    return left.shape == (acc.shape[0], right.shape[0]) and right.shape[1] == acc.shape[1]


# -- the parts, by structure alone -------------------------------------------------------------------------------------


def chain_parts(create: Stmt, loop: For, store: Stmt, site: Site | None = None, position: int = -1) -> SplitKChain | None:
    """The parts of three adjacent statements shaped like a chain, or None. Uses, extents and the predicate are not looked at."""
    if not (_is(create, "tile.create") and _is(store, "tile.store")) or len(loop.results) != 1:
        return None
    assert isinstance(create, Assign)
    assert isinstance(store, Assign)
    seed, drain = _call(create), _call(store)
    if _space(create) is not Space.ACC or loop.inits != (create.targets[0],):
        return None
    offsets = drain.args[1]
    if drain.args[0] is not loop.results[0] or len(drain.args) != 3:
        return None
    if not isinstance(offsets, ListExpr) or len(offsets.items) != 2 or seed.attrs:
        return None
    return _loop_parts(create, loop, store, site, position)


def _loop_parts(create: Assign, loop: For, store: Assign, site: Site | None, position: int) -> SplitKChain | None:
    """The loop body: two loads, one reduction, scalar arithmetic, and the yield of the reduction."""
    loads: dict[Var, Assign] = {}
    reduction: Stmt | None = None
    for s in loop.body[:-1]:
        if _is(s, "tile.load"):
            assert isinstance(s, Assign)
            loads[s.targets[0]] = s
        elif isinstance(s, If) or _is(s, "tile.matmul_acc"):
            if reduction is not None:
                return None
            reduction = s
        elif not is_scalar_arithmetic(s):
            return None
    if reduction is None or len(loads) != 2:
        return None
    found = _branch(reduction) if isinstance(reduction, If) else _predicated(reduction)
    if found is None:
        return None
    value, first, more, cond = found
    acc, lhs, rhs = _call(more).args[:3]
    left, right = (loads.get(v) if isinstance(v, Var) else None for v in (lhs, rhs))
    if acc is not loop.carried[0] or left is None or right is None or left is right or not _yields(loop.body[-1], value):
        return None
    if not (_panel_load(left) and _panel_load(right)):
        return None
    branch = reduction if isinstance(reduction, If) else None
    return SplitKChain(create, loop, store, left, right, more, cond, first, branch, site, position)


Reduction = tuple[Var, Assign | None, Assign, Expr]


def _branch(s: If) -> Reduction | None:
    """``if cond: matmul(l, r) else: matmul_acc(c, l, r)``, both yielded."""
    if s.orelse is None or len(s.results) != 1 or len(s.then) != 2 or len(s.orelse) != 2:
        return None
    first, more = s.then[0], s.orelse[0]
    if not (_is(first, "tile.matmul") and _is(more, "tile.matmul_acc")):
        return None
    assert isinstance(first, Assign)
    assert isinstance(more, Assign)
    if not (_yields(s.then[1], first.targets[0]) and _yields(s.orelse[1], more.targets[0])):
        return None
    if len(_call(more).args) != 3 or not all(map(_identical, _call(first).args, _call(more).args[1:])):
        return None
    return s.results[0], first, more, s.cond


def _predicated(s: Stmt) -> Reduction | None:
    """``matmul_acc(c, l, r, cond)``."""
    assert isinstance(s, Assign)
    args = _call(s).args
    return (s.targets[0], None, s, args[3]) if len(args) == 4 else None


def _identical(a: Expr, b: Expr) -> bool:
    return a is b


def _panel_load(s: Assign) -> bool:
    """A plain two-dimensional load from global memory to Mat."""
    call = _call(s)
    offsets = call.args[1]
    two = isinstance(offsets, ListExpr) and len(offsets.items) == 2
    plain = len(call.kwargs) == 1 and call.kwargs[0][0] == "target_memory"
    return two and plain and _space(s) is Space.MAT and isinstance(type_of(call.args[0]), TensorType)


def _is(s: Stmt, op: str) -> bool:
    """One value made by a call of ``op``."""
    return isinstance(s, Assign) and len(s.targets) == 1 and isinstance(s.value, Call) and s.value.op == op


def _yields(s: Stmt, value: Var) -> bool:
    return isinstance(s, Yield) and len(s.values) == 1 and s.values[0] is value


def _call(s: Assign) -> Call:
    assert isinstance(s.value, Call)
    return s.value


def _space(s: Assign) -> Space | None:
    """Where a statement's result lies; None where it is declared to be something else than a tile."""
    t = s.targets[0].type
    return t.space if isinstance(t, TileType) else None


def _tile(s: Assign) -> TileType:
    t = s.targets[0].type
    assert isinstance(t, TileType)
    return t


def _shape(s: Assign) -> tuple[int, int]:
    rows, cols = _tile(s).shape
    assert isinstance(rows, int)
    assert isinstance(cols, int)
    return rows, cols


# -- the predicate -----------------------------------------------------------------------------------------------------


def not_first_block(cond: Expr, loop: For) -> str | None:
    """Why ``cond`` does not prove that the loop's first trip overwrites the accumulator; None when it does.

    It proves it as ``x == 0``, where x is the loop's own variable or that variable times a non-zero constant, and the variable
    starts at 0.
    """
    scalars = {s.targets[0]: s.value for s in loop.body if isinstance(s, Assign) and is_scalar_arithmetic(s)}
    cond = _resolved(cond, scalars)
    own = repr(base_name(loop.counter.name)) if loop.counter is not None else "none"
    if not (isinstance(cond, Binary) and cond.op == "=="):
        return f"its predicate is no test of the loop's own variable {own} against 0"
    sides = (_resolved(cond.left, scalars), _resolved(cond.right, scalars))
    zero = [i for i, side in enumerate(sides) if _integer(side) == 0]
    if len(zero) != 1:
        return "its predicate does not compare with 0"
    if not _is_multiple_of(sides[1 - zero[0]], loop.counter):
        return f"its predicate does not test the loop's own variable {own}, or that variable times a non-zero constant"
    if _integer(loop.start) != 0:
        return f"the loop's variable {own} does not start at 0"
    return None


def _resolved(e: Expr, scalars: dict[Var, Expr]) -> Expr:
    while isinstance(e, Var) and e in scalars:
        e = scalars[e]
    return e


def _integer(e: Expr) -> int | None:
    return e.value if isinstance(e, Const) and type(e.value) is int else None


def _is_multiple_of(e: Expr, counter: Var | None) -> bool:
    if isinstance(e, Binary) and e.op == "*":
        for x, factor in ((e.left, e.right), (e.right, e.left)):
            if x is counter and _integer(factor) not in (None, 0):
                return True
    return e is counter and counter is not None
