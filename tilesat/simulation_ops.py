"""Which instructions one statement is: the lane by the spaces it moves between, the cycles by the tile's size.

What an operation does is read from the op table (its kind and effects); nothing here lists operations. Each statement is compiled
once into a function that issues its instructions on the core, and is then run as often as its loops say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cost.errors import TilesatError
from cost.hardware import BUFFERS
from cost.physical import accumulator_bytes, allocated_bytes
from cost.simulator import Core, Durations, Lane, Ring, Value
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import Assign, Call, Expr, Var
from ir_bridge.ir.ops import OpDef, lookup
from ir_bridge.ir.types import Space, TensorType, TileType

Step = Callable[[], None]

_BUFFER = {
    Space.MAT: "mat",
    Space.LEFT: "l0a",
    Space.RIGHT: "l0b",
    Space.ACC: "l0c",
    Space.BIAS: "bias",
    Space.VEC: "vec",
    None: "vec",
}
_FED = (Space.LEFT, Space.RIGHT, Space.BIAS)


class SimulationError(TilesatError):
    """A program that can't be simulated; the message names the place and what is missing."""


@dataclass(frozen=True, slots=True)
class Where:
    """The loop a statement stands in: ``slots`` of a tile loaded or extracted there, ``accumulators`` of one made there."""

    slots: int = 1
    accumulators: int = 1


class Machine:
    """The core a program runs on, and what its statements share: labels, notes, the one accumulator slot."""

    def __init__(self, core: Core, durations: Durations, resident: bool) -> None:
        self.core = core
        self.durations = durations
        self.resident = resident
        self.labels: list[str] = []
        self.notes: dict[str, None] = {}
        self.accumulator = Ring(1)

    def label(self, text: str) -> int:
        self.labels.append(text)
        return len(self.labels) - 1

    def note(self, text: str) -> None:
        """Something the result should say; each once."""
        self.notes[text] = None

    # -- sizes -----------------------------------------------------------------------------------------------------------

    def footprint(self, t: TileType, place: str) -> int:
        """Bytes that a tile takes in its buffer, as it is allocated."""
        if not t.static:
            raise SimulationError(f"{place}: the tile's shape is not static, so its size is not known")
        target = self.durations.target
        if t.space is Space.ACC:
            rows, columns = extents(t.shape)
            size = accumulator_bytes(target, rows, columns, t.dtype, box_m=16, box_n=16)
        else:
            size = t.dtype.footprint(t.elements())
        return allocated_bytes(target, _BUFFER.get(t.space, "vec"), size)

    def maker(self, t: TileType, where: Where, place: str) -> Callable[[], Value]:
        """A function that makes the next value of a place in the program: a tile of type ``t``."""
        buffer, size = BUFFERS.index(_BUFFER.get(t.space, "vec")), self.footprint(t, place)
        if t.space is Space.ACC:
            ring = self.accumulator if where.accumulators == 1 else Ring(where.accumulators)
        else:
            ring = Ring(where.slots)
        return lambda: Value(buffer, size, ring)

    # -- moving a tile ---------------------------------------------------------------------------------------------------

    def route(self, src: Space | None, dst: Space | None, moved: TileType) -> list[tuple[Lane, float, float, Space | None]]:
        """The way of a window of type ``moved`` from space to space: (lane, cycles, latency, where it ends) a leg."""
        d, size = self.durations, moved_bytes(moved)
        if src is Space.DDR:
            return [(Lane.MTE2, d.load(size), d.gm_latency, dst)]
        if src is Space.ACC:
            cycles = d.crossing(size) if dst is Space.VEC else d.drain(*extents(moved.valid), moved.dtype)
            return [(Lane.FIXPIPE, cycles, 0.0, dst)]
        if dst is Space.DDR:
            return [(Lane.MTE3, d.store(size), d.gm_latency, dst)]
        if src is Space.VEC or src is None:
            if dst in _FED:
                return [(Lane.MTE3, d.crossing(size), 0.0, Space.MAT), *self.route(Space.MAT, dst, moved)]
            return [(Lane.MTE3, d.crossing(size), 0.0, dst)] if dst is Space.MAT else [(Lane.VEC, d.vector(size), 0.0, dst)]
        if dst is Space.VEC:
            return [(Lane.MTE1, d.crossing(size), 0.0, dst)]
        return [(Lane.MTE1, d.feed(size, _BUFFER.get(dst, "l0b")), 0.0, dst)]


def extents(shape: tuple[Any, ...]) -> tuple[int, int]:
    """(rows, columns) of a shape; leading axes count as rows."""
    rows = 1
    for d in shape[:-1]:
        rows *= d
    return rows, shape[-1]


def moved_bytes(t: TileType) -> int:
    """Bytes of a tile's valid part, or of all of it where that is not a number."""
    shape = t.valid if all(isinstance(d, int) for d in t.valid) else t.shape
    elements = 1
    for d in shape:
        elements *= d  # type: ignore[operator]
    return t.dtype.footprint(elements)


def known(t: TileType) -> TileType:
    """The tile with its valid part, where that is static; else as if all of it were valid."""
    if all(isinstance(d, int) for d in t.valid):
        return t
    return TileType(t.shape, t.dtype, t.space)


# -- statements ------------------------------------------------------------------------------------------------------------


class Statement:
    """Compiles one assignment. ``env`` holds values by slot; results start with one reference, which their block gives up.

    ``dying`` are the slots in ``env`` of what nothing uses later, which their block gives up after the statement; those that the
    statement gives up earlier it takes out of the list.
    """

    def __init__(
        self, machine: Machine, s: Assign, where: Where, env: list[Any], slot: Callable[[Var], int], dying: list[int]
    ) -> None:
        assert isinstance(s.value, Call)
        self.machine, self.s, self.call, self.where = machine, s, s.value, where
        self.env, self.slot, self.dying = env, slot, dying
        name = base_name(s.targets[0].name) if s.targets else ""
        self.place = f"{s.loc}: {name or self.call.op}"
        self.text = f"{name} = {self.call.op}" if name else self.call.op

    def compile(self) -> Step | None:
        """The statement as a function; None when it takes no time and makes no tile."""
        op = lookup(self.call.op)
        if op is None:
            return self._opaque()
        if op.kind == "cube" and not self._is_tile(0):
            raise SimulationError(f"{self.place}: {op.name} works on whole tensors; convert the program to tiles first")
        if self._result() is None and not self._tiles():
            return self._opaque(silent=op.kind in ("scalar", "memory", "view"))
        compile_kind = {
            "view": self._view,
            "transfer": self._transfer,
            "cube": self._product,
            "vector": self._vector,
            "memory": self._memory,
        }.get(op.kind)
        return compile_kind(op) if compile_kind is not None else self._opaque(silent=True)

    # -- operands and results ----------------------------------------------------------------------------------------------

    def _is_tile(self, index: int) -> bool:
        return index < len(self.call.args) and isinstance(_type(self.call.args[index]), TileType)

    def _tiles(self) -> list[tuple[int, TileType]]:
        """(slot, type) of every tile operand."""
        found = []
        for a in self.call.args:
            t = _type(a)
            if isinstance(a, Var) and isinstance(t, TileType):
                found.append((self.slot(a), t))
        return found

    def _operand(self, index: int) -> tuple[int, TileType]:
        a = self.call.args[index]
        t = _type(a)
        if not isinstance(a, Var) or not isinstance(t, TileType):
            raise SimulationError(f"{self.place}: operand {index} of {self.call.op} must be the name of a tile")
        return self.slot(a), t

    def _result(self) -> tuple[int, TileType] | None:
        """(slot, type) of the result, where it is a tile."""
        if len(self.s.targets) != 1 or not isinstance(self.s.targets[0].type, TileType):
            return None
        return self.slot(self.s.targets[0]), self.s.targets[0].type

    def _bind(self, target: int, value: Value) -> None:
        value.refs += 1
        self.env[target] = value

    # -- kinds of operations -----------------------------------------------------------------------------------------------

    def _opaque(self, silent: bool = False) -> Step | None:
        """A call that takes no time here; what it makes is there when its operands are."""
        made = [(self.slot(t), t.type) for t in self.s.targets if isinstance(t.type, (TileType, TensorType))]
        operands = [self.slot(a) for a in self.call.args if isinstance(a, Var) and isinstance(a.type, (TileType, TensorType))]
        if not silent and (made or operands):
            self.machine.note(f"{self.call.op} is not modelled: it was run in no time")
        if not made:
            return None
        makers = [
            (i, self.machine.maker(t, self.where, self.place) if isinstance(t, TileType) else tensor_value) for i, t in made
        ]
        env = self.env

        def run() -> None:
            values = [env[i] for i in operands]
            latest = max(values, key=lambda v: v.ready, default=None)
            for i, make in makers:
                value = make()
                if latest is not None:
                    value.ready, value.ready_by = latest.ready, latest.ready_by
                self._bind(i, value)

        return run

    def _view(self, op: OpDef) -> Step | None:
        result = self._result()
        if result is None:
            return self._opaque(silent=True)
        shown = op.effects.view if op.effects.view is not None else op.effects.in_place
        source, _ = self._operand(shown or 0)
        target = result[0]
        return lambda: self._bind(target, self.env[source])

    def _memory(self, op: OpDef) -> Step | None:
        """Room for a tile: it takes no time, and bytes only once something is written there."""
        result = self._result()
        if result is None or self._tiles():
            return self._opaque()
        target, make = result[0], self.machine.maker(result[1], self.where, self.place)
        return lambda: self._bind(target, make())

    def _transfer(self, op: OpDef) -> Step | None:
        if op.effects.writes:
            return self._store(op.effects.writes[0])
        if op.effects.reads:
            return self._load(op.effects.reads[0])
        if op.effects.in_place is not None:
            return self._assemble(op.effects.in_place)
        result = self._result()
        if result is None:
            return self._opaque()
        source, moved = self._operand(0)
        target, t = result
        return self._travel(source, moved.space, t, target)

    def _travel(self, source: int, src: Space | None, t: TileType, target: int) -> Step:
        """A tile of type ``t`` made from (a window of) the value at ``source``, leg by leg."""
        issue, env, label = self.machine.core.issue, self.env, self.machine.label(self.text)
        legs = [
            (lane, cycles, latency, self.machine.maker(t.at(end), self.where, self.place))
            for lane, cycles, latency, end in self.machine.route(src, t.space, known(t))
        ]
        if len(legs) == 1:
            lane, cycles, latency, make = legs[0]

            def run() -> None:
                made = make()
                issue(lane, cycles, (env[source],), (made,), latency, label)
                made.refs = 1
                env[target] = made

            return run
        release = self.machine.core.release

        def run_all() -> None:
            value = env[source]
            for number, (lane, cycles, latency, make) in enumerate(legs):
                made = make()
                issue(lane, cycles, (value,), (made,), latency, label)
                if number:
                    release(value)
                value = made
            self._bind(target, value)

        return run_all

    def _load(self, index: int) -> Step | None:
        result = self._result()
        tensor = self.call.args[index]
        if result is None or not isinstance(tensor, Var):
            return self._opaque()
        target, t = result
        if self.machine.resident and t.space is Space.MAT:
            size = self.machine.footprint(t, self.place)
            return lambda: self._bind(target, Value(BUFFERS.index("mat"), size, None, True))
        return self._travel(self.slot(tensor), Space.DDR, t, target)

    def _store(self, index: int) -> Step | None:
        source, t = self._operand(0)
        tensor = self.call.args[index]
        if not isinstance(tensor, Var):
            return self._opaque()
        state, env, issue = self.slot(tensor), self.env, self.machine.core.issue
        ((lane, cycles, latency, _),) = self.machine.route(t.space, Space.DDR, known(t))
        label = self.machine.label(self.text)
        after = self.slot(self.s.targets[0]) if self.s.targets else None

        def run() -> None:
            issue(lane, cycles, (env[source],), (env[state],), latency, label)
            if after is not None:
                env[after] = env[state]

        return run

    def _assemble(self, into: int) -> Step | None:
        result = self._result()
        destination, d = self._operand(into)
        (source, t) = next(self._operand(i) for i in range(len(self.call.args)) if i != into and self._is_tile(i))
        if result is None:
            return self._opaque()
        legs = self.machine.route(t.space, d.space, known(t))
        lane, cycles, latency, _ = legs[0]
        issue, env, label, target = self.machine.core.issue, self.env, self.machine.label(self.text), result[0]

        def run() -> None:
            value = env[destination]
            issue(lane, cycles, (env[source],), (value,), latency, label)
            value.refs += 1
            env[target] = value

        return run

    def _product(self, op: OpDef) -> Step | None:
        """A product: operands that are not yet where the cube reads them are fed first, whole, and given up after it.

        What is fed for the last time is through when it is fed, before the product takes its accumulator: where it is an
        accumulator itself, the product may have its slot.
        """
        result = self._result()
        if result is None:
            return self._opaque()
        target, t = result
        in_place = op.effects.in_place
        operands = [i for i in range(len(self.call.args)) if self._is_tile(i)]
        left, right = [self._operand(i)[1] for i in operands if i != in_place][:2]
        (m, k), n = extents(known(left).valid), extents(known(right).valid)[1]
        cycles, label = self.machine.durations.product(m, n, k, left.dtype), self.machine.label(self.text)
        feeds, plain, through = [], [], []
        for i in operands:
            slot, operand = self._operand(i)
            wanted = (op.spaces_of(i) or (operand.space,))[0]
            if i == in_place or operand.space is wanted:
                plain.append(slot)
            else:
                feeds.append(self._feed(slot, operand, wanted))
                through.append(slot)
        through = [slot for slot in dict.fromkeys(through) if slot in self.dying and slot not in plain]
        self.dying[:] = [slot for slot in self.dying if slot not in through]
        acc = self._operand(in_place)[0] if in_place is not None else None
        make = self.machine.maker(t, self.where, self.place)
        core, env = self.machine.core, self.env
        if not feeds:
            return _plain_product(core, env, cycles, label, plain, acc, make, target)

        give_up = giving_up(core, env, through)

        def run() -> None:
            fed = [feed() for feed in feeds]
            give_up()
            value = make() if acc is None else env[acc]
            core.issue(Lane.CUBE, cycles, [env[i] for i in plain] + fed, (value,), 0.0, label)
            for v in fed:
                core.release(v)
            self._bind(target, value)

        return run

    def _feed(self, source: int, operand: TileType, wanted: Space | None) -> Callable[[], Value]:
        """A function that brings a whole operand to where the cube reads it, and returns it there."""
        core, env = self.machine.core, self.env
        label = self.machine.label(f"{self.text} (operand)")
        legs = [
            (lane, cycles, latency, self.machine.maker(operand.at(end), self.where, self.place))
            for lane, cycles, latency, end in self.machine.route(operand.space, wanted, known(operand))
        ]

        def run() -> Value:
            value: Value = env[source]
            for number, (lane, cycles, latency, make) in enumerate(legs):
                made = make()
                core.issue(lane, cycles, (value,), (made,), latency, label)
                if number:
                    core.release(value)
                value = made
            return value

        return run

    def _vector(self, op: OpDef) -> Step | None:
        """A vector operation: operands that stand elsewhere cross over first."""
        operands = self._tiles()
        result = self._result()
        sizes = [moved_bytes(t) for _, t in operands] + ([moved_bytes(result[1])] if result else [])
        if not sizes:
            return None
        cycles, label = self.machine.durations.vector(max(sizes)), self.machine.label(self.text)
        here = [slot for slot, t in operands if t.space in (Space.VEC, None)]
        feeds = [self._feed(slot, t, Space.VEC) for slot, t in operands if t.space not in (Space.VEC, None)]
        core, env = self.machine.core, self.env
        in_place = op.effects.in_place if op.effects.in_place is not None else (op.effects.writes or (None,))[0]
        into = self._operand(in_place)[0] if in_place is not None and self._is_tile(in_place) else None
        make = self.machine.maker(result[1], self.where, self.place) if result and into is None else None

        def run() -> None:
            fed = [feed() for feed in feeds]
            value = make() if make is not None else None if into is None else env[into]
            core.issue(Lane.VEC, cycles, [env[i] for i in here] + fed, () if value is None else (value,), 0.0, label)
            for v in fed:
                core.release(v)
            if value is not None and result is not None:
                self._bind(result[0], value)

        return run


def _plain_product(
    core: Core,
    env: list[Any],
    cycles: float,
    label: int,
    operands: list[int],
    acc: int | None,
    make: Callable[[], Value],
    target: int,
) -> Step:
    """A product of operands that are where the cube reads them, into the accumulator ``acc`` or a new one."""
    issue = core.issue
    cube = int(Lane.CUBE)
    if acc is None:

        def fresh() -> None:
            value = make()
            issue(cube, cycles, [env[i] for i in operands], (value,), 0.0, label)
            value.refs = 1
            env[target] = value

        return fresh

    def accumulate() -> None:
        value = env[acc]
        issue(cube, cycles, [env[i] for i in operands], (value,), 0.0, label)
        value.refs += 1
        env[target] = value

    return accumulate


def giving_up(core: Core, env: list[Any], slots: Sequence[int]) -> Step:
    """A function that takes a name from each value at ``slots`` of ``env``; a value without names is used no more."""
    release = core.release

    def run() -> None:
        for i in slots:
            value = env[i]
            value.refs -= 1
            if not value.refs:
                release(value)

    return run


def _type(e: Expr) -> object:
    return e.type if isinstance(e, Var) else None


def tensor_value() -> Value:
    """A tensor in global memory, there from the start."""
    return Value()


def is_tile(v: Var) -> bool:
    return isinstance(v.type, TileType)


def is_tensor(v: Var) -> bool:
    return isinstance(v.type, TensorType)
