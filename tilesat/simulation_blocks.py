"""Runs a function's statements on the core: loops, branches, and who still needs which tile.

A block is compiled once into a list of functions. A value counts the names that refer to it; a name is given up after its last
use in the block that defines it, and a value without names gives up its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cost.simulator import Value
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    Assign,
    Block,
    Call,
    Const,
    Expr,
    For,
    Function,
    If,
    LoopKind,
    Scope,
    Stmt,
    Var,
    Yield,
    defined,
    expressions_of,
    vars_in,
    walk,
)
from tilesat.simulation_ops import Machine, SimulationError, Statement, Step, Where, giving_up, is_tensor, is_tile, tensor_value
from tilesat.simulation_scalars import Evaluate, compile_scalar, steering

#: A run of more instructions than this is refused: it would take minutes and gigabytes.
MOST_INSTRUCTIONS = 20_000_000


class Runner:
    """One function on one core. ``scalars`` gives values by name to scalar parameters and dynamic dimensions."""

    def __init__(self, machine: Machine, function: Function, dynamic: Sequence[Var], scalars: Mapping[str, int]) -> None:
        self.machine = machine
        self.slots: dict[Var, int] = {}
        self.env: list[Any] = []
        self.steering = steering(function.body)
        self.scalars = scalars
        for v in (*dynamic, *(p.var for p in function.params)):
            self._place(v)
        self.steps = self._block(function.body, Where(), ())

    def run(self) -> None:
        """Issue every instruction of the function."""
        for step in self.steps:
            step()

    def _place(self, v: Var) -> None:
        """A parameter or a dynamic dimension: tensors are there, tiles too, scalars where the caller gave them."""
        i = self.slot(v)
        if is_tensor(v):
            self.env[i] = tensor_value()
        elif is_tile(v):
            self.env[i] = self.machine.maker(v.type, Where(), v.name)()  # type: ignore[arg-type]
            self.env[i].refs = 1
            self.env[i].resident = True
        else:
            self.env[i] = self.scalars.get(v.name, self.scalars.get(base_name(v.name)))

    def slot(self, v: Var) -> int:
        """Where a value stands in ``env``."""
        i = self.slots.get(v)
        if i is None:
            i = self.slots[v] = len(self.env)
            self.env.append(None)
        return i

    def _scalar(self, e: Expr) -> Evaluate:
        return compile_scalar(e, self.slot, self.env)

    # -- blocks ------------------------------------------------------------------------------------------------------------

    def _block(self, block: Block, where: Where, parameters: Sequence[Var], receivers: Sequence[Var] = ()) -> list[Step]:
        """The steps of a block that also owns ``parameters``; its tiles are given up after their last use in it.

        ``receivers`` are the names that the values of its yield go to.
        """
        block = _flat(block)
        steps: list[Step] = []
        for s, dying in zip(block, _last_uses(block, parameters), strict=True):
            early: list[Var] = []
            if isinstance(s, For):
                inside = set(_uses(s.body))
                early = [v for v in dying if v not in inside and v not in s.results]
                dying = [v for v in dying if v not in early]
            late = [self.slot(v) for v in dying]
            if isinstance(s, Yield):
                steps.append(self._hand_on(s.values if receivers else (), receivers, late))
                continue
            step = self._statement(s, where, [self.slot(v) for v in early], late)
            if step is not None:
                steps.append(step)
            if late:
                steps.append(self._give_up(late))
        return steps

    def _give_up(self, slots: list[int]) -> Step:
        """The names at ``slots`` are used no more."""
        return giving_up(self.machine.core, self.env, slots)

    def _hand_on(self, values: Sequence[Expr], names: Sequence[Var], dying: list[int]) -> Step:
        """``names`` refer to ``values`` from now on, all at once; in between, the names at ``dying`` are given up."""
        pairs = [(self.slot(v), self._reader(e, v)) for e, v in zip(values, names, strict=True)]
        env, give_up = self.env, self._give_up(dying)
        if len(pairs) == 1:
            ((only, read),) = pairs

            def run_one() -> None:
                value = read()
                give_up()
                env[only] = value

            return run_one

        def run() -> None:
            read = [(i, r()) for i, r in pairs]
            give_up()
            for i, value in read:
                env[i] = value

        return run

    def _reader(self, e: Expr, name: Var) -> Callable[[], Any]:
        """A function that gives ``e``'s value to one more name."""
        if not is_tile(name) and not is_tensor(name):
            return self._scalar(e) if name in self.steering else lambda: None
        if not isinstance(e, Var):
            raise SimulationError(f"{name.name}: a tile or tensor must be handed on by name")
        i, env = self.slot(e), self.env

        def read() -> Value:
            value: Value = env[i]
            value.refs += 1
            return value

        return read

    def _statement(self, s: Stmt, where: Where, early: list[int], dying: list[int]) -> Step | None:
        """The statement as a step. ``early`` are names that a loop's body does not use, ``dying`` those that nothing uses later:
        what the statement takes out of that list it gives up itself."""
        if isinstance(s, Assign):
            return self._assign(s, where, dying)
        if isinstance(s, For):
            return self._while(s, early) if s.kind is LoopKind.WHILE else self._for(s, where, early)
        if isinstance(s, If):
            return self._if(s, where)
        return None

    def _assign(self, s: Assign, where: Where, dying: list[int]) -> Step | None:
        if isinstance(s.value, Var) and (is_tile(s.value) or is_tensor(s.value)):
            return self._hand_on([s.value], s.targets, [])
        if len(s.targets) == 1 and not is_tile(s.targets[0]) and not is_tensor(s.targets[0]):
            if s.targets[0] in self.steering:
                i, value, env = self.slot(s.targets[0]), self._scalar(s.value), self.env

                def compute() -> None:
                    env[i] = value()

                return compute
            if not isinstance(s.value, Call):
                return None
        if isinstance(s.value, Call):
            return Statement(self.machine, s, where, self.env, self.slot, dying).compile()
        return None

    # -- loops -------------------------------------------------------------------------------------------------------------

    def _for(self, s: For, where: Where, early: list[int]) -> Step:
        bounds = [self._bound(e, s) for e in (s.start, s.stop, s.step)]
        inner = Where()
        if s.kind is LoopKind.PIPELINE:
            double = any(k == "pipeline_double_buffer_c" and isinstance(v, Const) and v.value is True for k, v in s.attrs)
            inner = Where(slots=max(1, s.stage or 1), accumulators=2 if double else 1)
        enter, trip = self._carry(s, inner, early)
        counter = None if s.counter is None else self.slot(s.counter)
        finish = self._hand_on(s.carried, s.results, [self.slot(v) for v in s.carried if is_tile(v)])
        env, core, place = self.env, self.machine.core, str(s.loc)

        def run() -> None:
            start, stop, step = (b() for b in bounds)
            if step == 0:
                raise SimulationError(f"{place}: the loop's step is 0")
            enter()
            for i in range(start, stop, step):
                if counter is not None:
                    env[counter] = i
                for one in trip:
                    one()
                if len(core.lane) > MOST_INSTRUCTIONS:
                    raise SimulationError(f"{place}: more than {MOST_INSTRUCTIONS:,} instructions; simulate a smaller problem")
            finish()

        return run

    def _while(self, s: For, early: list[int]) -> Step:
        enter, trip = self._carry(s, Where(), early)
        cond = self._scalar(s.cond) if s.cond is not None else lambda: None
        finish = self._hand_on(s.carried, s.results, [self.slot(v) for v in s.carried if is_tile(v)])
        place, core = str(s.loc), self.machine.core

        def run() -> None:
            enter()
            trips = 0
            while (going := cond()) is not False:
                if going is None:
                    raise SimulationError(f"{place}: whether the loop goes on is not known; give the scalars it depends on")
                trips += 1
                if max(trips, len(core.lane)) > MOST_INSTRUCTIONS:
                    raise SimulationError(f"{place}: the loop does not end within {MOST_INSTRUCTIONS:,} trips or instructions")
                for one in trip:
                    one()
            finish()

        return run

    def _carry(self, s: For, where: Where, early: list[int]) -> tuple[Step, list[Step]]:
        """(what happens before the first trip, the steps of one trip): carried names are bound anew by each trip's yield."""
        enter = self._hand_on(s.inits, s.carried, early)
        return enter, self._block(s.body, where, s.carried, s.carried)

    def _bound(self, e: Expr, s: For) -> Callable[[], int]:
        value, place = self._scalar(e), str(s.loc)

        def compute() -> int:
            found = value()
            if isinstance(found, bool) or not isinstance(found, int):
                names = ", ".join(repr(base_name(v.name)) for v in vars_in(e)) or "an expression"
                raise SimulationError(f"{place}: a loop bound depends on {names}, which is not known; give it in scalars=")
            return found

        return compute

    # -- branches ----------------------------------------------------------------------------------------------------------

    def _if(self, s: If, where: Where) -> Step:
        cond, place = self._scalar(s.cond), str(s.loc)
        arms = [self._block(arm, where, (), s.results) for arm in (s.then, s.orelse or ())]
        note = self.machine.note

        def run() -> None:
            taken = cond()
            if taken is None:
                note(f"{place}: which way the branch goes is not known; its first arm was run")
                taken = True
            for step in arms[0 if taken else 1]:
                step()

        return run


def _flat(block: Block) -> Block:
    """The block with ``with`` blocks opened: what they define is visible after them."""
    if not any(isinstance(s, Scope) for s in block):
        return block
    return tuple(inner for s in block for inner in (_flat(s.body) if isinstance(s, Scope) else (s,)))


def _uses(block: Block) -> list[Var]:
    """Every use of a value in a block and the blocks inside it."""
    found: list[Var] = []
    for s in walk(block):
        for e in expressions_of(s):
            found.extend(vars_in(e))
    return found


def _last_uses(block: Block, parameters: Sequence[Var]) -> list[list[Var]]:
    """For every statement, the tiles of this block (and of ``parameters``) that no later statement uses, as defined."""
    if not block:
        return []
    owned = dict.fromkeys((v for v in parameters if is_tile(v)), len(block) - 1)
    for number, s in enumerate(block):
        for v in _uses((s,)):
            if v in owned:
                owned[v] = number
        for v in defined(s):
            if is_tile(v):
                owned[v] = number
    # a parameter that is never used lives to the end of the block: its slot is its owner's to give
    last: list[list[Var]] = [[] for _ in block]
    for v, number in owned.items():
        last[number].append(v)
    return last
