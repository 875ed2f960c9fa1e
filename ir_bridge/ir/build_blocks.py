"""The insides of loops and branches of programs made in Python (:mod:`ir_bridge.ir.builder`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from cost.errors import TilesatError
from ir_bridge.ir import ops
from ir_bridge.ir.nodes import Expr, If, Stmt, Var, Yield


class BuildError(TilesatError):
    """A builder used out of order; the message says what is missing."""


class LoopBuilder:
    """The inside of a loop: its counter, what it carries, what it yields."""

    def __init__(self, index: Var | None, carry: Sequence[Expr] | Mapping[str, Expr]) -> None:
        if isinstance(carry, Mapping):
            pairs = list(carry.items())
        else:
            pairs = [(v.name if isinstance(v, Var) else f"carried_{i}", v) for i, v in enumerate(carry)]
        exprs = [(n, ops.as_expr(v)) for n, v in pairs]
        self.index = index
        self.carried = tuple([Var(n, ops.type_of(e)) for n, e in exprs])
        self.results: tuple[Var, ...] = ()
        self.inits = tuple([e for _, e in exprs])
        self._yields: tuple[Expr, ...] | None = None

    def yields(self, *values: object, names: Sequence[str] = ()) -> None:
        """What this trip hands to the next; ``names`` are those of the results after the loop."""
        if len(values) != len(self.carried):
            raise BuildError(f"the loop carries {len(self.carried)} values, {len(values)} are yielded")
        self._yields = tuple([ops.as_expr(v) for v in values])
        named = list(names) or [c.name for c in self.carried]
        self.results = tuple([Var(n, c.type) for n, c in zip(named, self.carried, strict=True)])

    @property
    def result(self) -> Var:
        """The one value the loop leaves."""
        if len(self.results) != 1:
            raise BuildError(f"the loop leaves {len(self.results)} values; ask for .results")
        return self.results[0]

    def finish(self, body: list[Stmt]) -> None:
        """Let the body end with what the loop yields."""
        if self.carried and self._yields is None:
            raise BuildError(f"the loop carries {[c.name for c in self.carried]} but yields nothing; call .yields(...)")
        if self._yields:
            body.append(Yield(self._yields))


class BranchBuilder:
    """The two arms of a branch; with values yielded in both, these are its results."""

    def __init__(self, block: Callable[[], AbstractContextManager[list[Stmt]]]) -> None:
        self._block = block
        self._arms: dict[str, list[Stmt]] = {}
        self._values: dict[str, tuple[Expr, ...]] = {}
        self._arm = ""
        self._names: list[str] = []
        self.results: tuple[Var, ...] = ()

    @contextmanager
    def _in(self, arm: str) -> Iterator[None]:
        self._arm = arm
        with self._block() as body:
            yield
            self._arms[arm] = body
        self._arm = ""

    def then(self) -> AbstractContextManager[None]:
        """``with b.then():`` the statements where the condition holds."""
        return self._in("then")

    def orelse(self) -> AbstractContextManager[None]:
        """``with b.orelse():`` the statements where it does not."""
        return self._in("else")

    def yields(self, *values: object, names: Sequence[str] = ()) -> None:
        """What this arm gives; called once in each arm, with as many values."""
        if not self._arm:
            raise BuildError("yields outside of then() and orelse()")
        self._values[self._arm] = tuple([ops.as_expr(v) for v in values])
        self._names = list(names) or self._names
        if len(self._values) == 2:
            one, two = self._values["then"], self._values["else"]
            if len(one) != len(two):
                raise BuildError(f"the arms yield {len(one)} and {len(two)} values")
            named = self._names or [v.name if isinstance(v, Var) else f"phi_{i}" for i, v in enumerate(one)]
            self.results = tuple([Var(n, ops.type_of(v)) for n, v in zip(named, one, strict=True)])

    @property
    def result(self) -> Var:
        """The one value the branch gives."""
        if len(self.results) != 1:
            raise BuildError(f"the branch gives {len(self.results)} values; ask for .results")
        return self.results[0]

    def finish(self, condition: Expr) -> If:
        """The branch as a statement."""
        if "then" not in self._arms:
            raise BuildError("a branch needs a then() arm")
        if len(self._values) == 1:
            raise BuildError("only one arm yields; both must, or none")
        then, orelse = self._arms["then"], self._arms.get("else")
        if self._values and orelse is not None:
            then.append(Yield(self._values["then"]))
            orelse.append(Yield(self._values["else"]))
        return If(condition, tuple(then), None if orelse is None else tuple(orelse), self.results)
