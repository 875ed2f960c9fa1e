"""Phase 1: the body of one InCore, AIC or AIV function, statement by statement (specification 2, phase 1, steps 2 and 3).

The converter keeps an environment from tensor values to the tiles they have become. Values that stay global memory keep their
names; so do scalars. How operands come to their consumers is in :mod:`ir_bridge.convert.emitter`.
"""

from __future__ import annotations

from dataclasses import replace

from ir_bridge.convert.carries import Carry, agreed, narrowed_seed
from ir_bridge.convert.emitter import Emitter
from ir_bridge.convert.errors import refuse
from ir_bridge.convert.flow import yielded
from ir_bridge.convert.registry import Site, conversion_of
from ir_bridge.ir.misspelt import nearest_operation
from ir_bridge.ir.nodes import (
    Assign,
    Block,
    Call,
    Expr,
    For,
    If,
    Return,
    Scope,
    Stmt,
    Var,
    Yield,
    defined,
    vars_in,
    walk,
)
from ir_bridge.ir.ops import OpError, lookup, type_of
from ir_bridge.ir.types import Dim, Space, TensorType, TileType


class BodyConverter(Emitter):
    """Converts one function body; :meth:`convert` returns the statements between the entry loads and the exit stores."""

    # -- statements ----------------------------------------------------------------------------------------------------

    def convert(self) -> list[Stmt]:
        """The converted statements, up to the function's return (which the exit is made of)."""
        body = self.function.body
        return self.block(body[:-1] if body and isinstance(body[-1], Return) else body)

    def block(self, block: Block) -> list[Stmt]:
        """Convert a block on its own; a yield at its end is left to the caller."""
        with self.into([]) as mine:
            for s in block:
                self.statement(s)
        return mine

    def statement(self, s: Stmt) -> None:
        if isinstance(s, Assign):
            self.loc = s.loc
            self._assign(s)
        elif isinstance(s, For):
            self._loop(s)
        elif isinstance(s, If):
            self._branch(s)
        elif isinstance(s, Scope):
            self.out.append(Scope(self.scalar(s.header), tuple(self.block(s.body)), s.name, s.loc))
        elif not isinstance(s, (Yield, Return)):
            self.out.append(s)
        elif isinstance(s, Return):
            raise refuse(self.function.name, "a return inside a block", "return once, at the end of the function", s.loc)

    def _assign(self, s: Assign) -> None:
        value = s.value
        if type(value) is Var:
            self._alias(s, value)
            return
        c = conversion_of(value.op) if isinstance(value, Call) else None
        if c is None or not isinstance(value, Call):
            self._carry_along(s)
            return
        target = s.targets[0] if len(s.targets) == 1 else None
        if target is not None and target in self.promoted:
            return
        args = tuple([self.operand(a, i, s, value, c) for i, a in enumerate(value.args)])
        name = f"{target.name}_tile" if target is not None else value.op
        try:
            result = c.rule(self, Site(value, args, target, name, self.loc))
        except OpError as e:
            raise refuse(self.function.name, str(e), f"give it operands as {value.op} takes them", s.loc) from e
        if target is not None and result is not None:
            self._define(s, target, result)

    def _define(self, s: Assign, target: Var, result: Expr) -> None:
        if type(result) is Var:
            if result is not target:
                self.env[target] = result
        else:
            self.out.append(Assign((target,), result, s.loc))

    def _alias(self, s: Assign, value: Var) -> None:
        if value in self.env and s.targets:
            self.env[s.target] = self.env[value]
            for space in Space:
                if (value, space) in self.copies:
                    self.copies[s.target, space] = self.copies[value, space]
        else:
            self.out.append(s)

    def _carry_along(self, s: Assign) -> None:
        """A statement without conversion is kept: a tile operation takes what has become a tile, nothing else may."""
        value = self.scalar(s.value)
        if isinstance(value, Call) and value.op.startswith("tile.") and lookup(value.op) is not None:
            policy = self.cache.get(value.args[0]) if value.op == "tile.load" and type(value.args[0]) is Var else None
            kwargs = value.kwargs if policy is None or value.kwarg("cache") is not None else (*value.kwargs, ("cache", policy))
            call = Call(value.op, tuple([self.memory(a) for a in value.args]), kwargs, value.attrs)
            self.out.append(s if call == s.value else Assign(s.targets, call, s.loc))
            return
        for a in vars_in(value):
            if a in self.env:
                raise self.refusal(*stray_use(s.value, a))
        self.out.append(s if value is s.value else Assign(s.targets, value, s.loc))

    # -- loops and branches --------------------------------------------------------------------------------------------

    def _state(self, v: Var, e: Expr) -> Expr:
        """``e`` as a state of ``v``, a tile that is carried or comes from a branch: in the space that consumers of ``v`` want."""
        spaces = self.demands.spaces(v)
        space = Space.VEC if Space.VEC in spaces or spaces[0] is Space.ACC else spaces[0]
        return self.tile(e, space, self.demands.box(v, space), tuple(Space) if self.computed(e) else None)

    def _loop(self, s: For) -> None:
        self.loc = s.loc
        tiles = [c in self.flow.tiles for c in s.carried]
        inits = [self._state(c, i) if t else self.memory(i) for c, i, t in zip(s.carried, s.inits, tiles, strict=True)]
        made = self._body(s, inits, tiles)
        retry = self._better_inits(s, inits, made, tiles)
        if retry is not None:
            inits = retry
            made = self._body(s, inits, tiles)
        body, values, carried = made
        results = tuple([Var(r.name, c.type) if t else r for r, c, t in zip(s.results, carried, tiles, strict=True)])
        for c, r, new, t in zip(s.carried, s.results, results, tiles, strict=True):
            if t:
                self.env[r] = new
                del self.env[c]
        if s.results or any(isinstance(x, Yield) for x in s.body[-1:]):
            body.append(Yield(tuple(values), s.body[-1].loc))
        self.out.append(
            replace(
                s,
                start=self.scalar(s.start),
                stop=self.scalar(s.stop),
                step=self.scalar(s.step),
                cond=None if s.cond is None else self.scalar(s.cond),
                body=tuple(body),
                carried=tuple(carried),
                inits=tuple(inits),
                results=results,
            )
        )

    def _body(self, s: For, inits: list[Expr], tiles: list[bool]) -> tuple[list[Stmt], list[Expr], list[Var]]:
        """(statements, yielded values, carried values) of a loop whose carried tiles have the types of ``inits``."""
        carried = [Var(c.name, type_of(i)) if t else c for c, i, t in zip(s.carried, inits, tiles, strict=True)]
        for c, new, t in zip(s.carried, carried, tiles, strict=True):
            if t:
                self.env[c] = new
        body = self.block(s.body)
        with self.into(body):
            handed = zip(yielded(s.body), carried, tiles, strict=True)
            values = [self._handed_on(e, c) if t else self.memory(e) for e, c, t in handed]
        return body, values, carried

    def _handed_on(self, e: Expr, carried: Var) -> Expr:
        """What a loop body yields for a carried tile: in the carried value's space, where it can get there."""
        t = carried.type
        assert isinstance(t, TileType)
        if t.space is None or t.space is Space.ACC or not isinstance(e, Var):
            return self.memory(e)
        if e in self.env and (e, t.space) not in self.copies:
            tile = self.env[e]
            space = getattr(tile.type, "space", None)
            if t.space is Space.VEC:
                return self.to_vec(tile, t.shape)
            return tile if space is t.space else self.move(tile, t.space)
        return self.tile(e, t.space, self.demands.box(e, t.space), (t.space,))

    def _better_inits(
        self, s: For, inits: list[Expr], made: tuple[list[Stmt], list[Expr], list[Var]], tiles: list[bool]
    ) -> list[Expr] | None:
        """Initial values that agree with what the body yields, where the given ones don't: moved out of Acc, or narrowed."""
        better = list(inits)
        local = _defined_in(s)
        for n, (init, value, carried, t) in enumerate(zip(inits, made[1], made[2], tiles, strict=True)):
            if not t or not isinstance(carried.type, TileType) or not isinstance(init, Var):
                continue
            space = getattr(type_of(value), "space", None)
            if carried.type.space is Space.ACC and space is not Space.ACC:
                better[n] = self.to_vec(init, _logical(s.carried[n]))
                continue
            carry = Carry(init, carried, value, self.made, self.phis)
            valid = narrowed_seed(carry, local)
            if valid is not None:
                better[n] = self.narrowed(init, valid)
        return better if any(a is not b for a, b in zip(better, inits, strict=True)) else None

    def _branch(self, s: If) -> None:
        self.loc = s.loc
        cond = self.scalar(s.cond)
        tiles = [r in self.flow.tiles for r in s.results]
        then, then_values = self._arm(s.then, s.results, tiles)
        orelse, else_values = self._arm(s.orelse, s.results, tiles) if s.orelse is not None else (None, [])
        results: list[Var] = []
        for n, (r, t) in enumerate(zip(s.results, tiles, strict=True)):
            if not t:
                results.append(r)
                continue
            assert orelse is not None
            self._meet(then, then_values, orelse, else_values, n, _logical(r))
            new = Var(r.name, agreed(type_of(then_values[n]), type_of(else_values[n])))
            self.phis[new] = (then_values[n], else_values[n])
            self.env[r] = new
            results.append(new)
        if s.results:
            then.append(Yield(tuple(then_values), s.loc))
            if orelse is not None:
                orelse.append(Yield(tuple(else_values), s.loc))
        self.out.append(If(cond, tuple(then), None if orelse is None else tuple(orelse), tuple(results), s.loc))

    def _arm(self, block: Block, results: tuple[Var, ...], tiles: list[bool]) -> tuple[list[Stmt], list[Expr]]:
        """(statements, yielded values) of one side of a branch."""
        arm = self.block(block)
        with self.into(arm):
            values = [self._state(r, e) if t else self.memory(e) for e, r, t in zip(yielded(block), results, tiles, strict=True)]
        return arm, values

    def _meet(self, then: list[Stmt], tv: list[Expr], orelse: list[Stmt], ev: list[Expr], n: int, shape: tuple[Dim, ...]) -> None:
        """Bring the n-th values of two arms into one space: where one of them is in Vec or Mat, the other moves there."""
        a, b = (getattr(type_of(v[n]), "space", None) for v in (tv, ev))
        if a is b and _physical(tv[n]) == _physical(ev[n]):
            return
        space = Space.MAT if Space.MAT in (a, b) else Space.VEC
        for statements, values, at in ((then, tv, a), (orelse, ev, b)):
            value = values[n]
            if isinstance(value, Var) and (at is not space or space is Space.VEC):
                with self.into(statements):
                    values[n] = self.to_vec(value, shape) if space is Space.VEC else self.move(value, space)


def stray_use(e: Expr, v: Var) -> tuple[str, str]:
    """(problem, repair) of an expression that takes a value which has become a tile, and that nobody knows how to convert."""
    op = e.op if isinstance(e, Call) and e.op not in ("call", "getattr") else None
    near = None if op is None else nearest_operation(op)
    hint = "" if near is None else f" (did you mean {near}?)"
    return (
        f"{op or 'an expression'} takes {v.name}, which is computed on chip, and no conversion is registered for it{hint}",
        f"store {v.name} to a pl.Out parameter first, or use an operation that converts",
    )


def _logical(v: Var) -> tuple[Dim, ...]:
    """The shape of a tensor value."""
    assert isinstance(v.type, TensorType)
    return v.type.shape


def _physical(e: Expr) -> tuple[Dim, ...]:
    t = type_of(e)
    return t.shape if isinstance(t, TileType) else ()


def _defined_in(s: For) -> frozenset[Var]:
    """Every value defined inside a loop, its counter and carried values included."""
    found = {v for inner in walk(s.body) for v in defined(inner)}
    for loop in walk((s,)):
        if isinstance(loop, For):
            found.update(loop.carried)
            if loop.counter is not None:
                found.add(loop.counter)
    return frozenset(found)
