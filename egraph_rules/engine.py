"""The engine: runs rules on facts, within limits, and accounts for every rule. The one module that touches egglog.

egglog 13.2 facts it rests on: programs are parsed line by line (spans carry the text, so one long text is quadratic); many
facts come in fastest through ``input`` from a file; ``push``/``pop`` keep compiled rules loaded between programs; there is
no node limit, so it runs iteration by iteration and looks; reports leave out rules that matched nothing, so the zero rows are
filled in from the catalogue. E-graphs cannot cross threads: each thread keeps its own engines. Dropping an e-graph, or a part
of it by ``pop``, waits for a pool of native threads, which a process forked after its parent used egglog does not have: there
every program gets an engine of its own, and none is dropped before the process ends. Spawned processes know no such limit.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib.machinery import PathFinder
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, Protocol

from cost.errors import TilesatError
from egraph_rules import language
from egraph_rules.catalogue import RuleSet
from egraph_rules.report import Limits, Report, StopReason
from egraph_rules.rule import Family, Merge, Sort_, Table, Term


def _native() -> Any:
    """egglog's native module without the package around it, whose import takes ten times as long and of which nothing is used.

    Whoever imports egglog later gets the same module.
    """
    package = importlib.util.find_spec("egglog")
    found = package and PathFinder.find_spec("egglog.bindings", package.submodule_search_locations)
    if found is None or found.loader is None:
        raise TilesatError("tilesat needs egglog 13.2, which is not installed; reinstall tilesat")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


bindings = _native()

#: Rows of facts, by table name. A value is an i64 or a string.
Fact = tuple[Any, ...]
Facts = Mapping[str, Sequence[Fact]]

#: No rule adds more rows a match: sizes are counted only when this many could exceed the limit.
_ROWS_A_MATCH = 12

#: From this many rows on, a file is faster than text.
_FILE_FROM = 6


class Language(Protocol):
    """What an engine declares before any rule: sorts, tables, and the stages it runs in order. A module will do."""

    @property
    def SORTS(self) -> tuple[Sort_, ...]: ...
    @property
    def TABLES(self) -> tuple[Table, ...]: ...
    @property
    def STAGES(self) -> tuple[str, ...]: ...


class Frozen:
    """The rows of a run, read once. ``rows(table)`` gives each row's columns, then its class for a constructor."""

    def __init__(self, egraph: Any) -> None:
        self._egraph = egraph
        self._functions = egraph.freeze().functions
        self._numbers: dict[Any, int] = {}
        self._strings: dict[Any, str] = {}
        self._classes: dict[Any, int] = {}

    def _number(self, value: Any) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = self._egraph.value_to_i64(value)
        return found

    def _string(self, value: Any) -> str:
        found = self._strings.get(value)
        if found is None:
            found = self._strings[value] = self._egraph.value_to_string(value)
        return found

    def _class(self, value: Any) -> int:
        return self._classes.setdefault(value, len(self._classes))

    @property
    def class_count(self) -> int:
        """E-classes seen so far by reading."""
        return len(self._classes)

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        """All rows of a table, in the engine's order. E-classes are numbered in order of first sight."""
        function = self._functions.get(table.name)
        if function is None or not function.rows:
            return []
        readers = [self._reader(kind) for _, kind in table.columns]
        if table.sort is None:
            return [tuple(read(x) for read, x in zip(readers, row.inputs, strict=True)) for row in function.rows]
        readers.append(self._class)
        return [tuple(read(x) for read, x in zip(readers, (*row.inputs, row.output), strict=True)) for row in function.rows]

    def numbers(self, table: Table) -> tuple[list[int], list[int]]:
        """All rows of a constructor with i64 columns, flat, and each row's class: the fast way for thousands of candidates."""
        function = self._functions.get(table.name)
        if function is None:
            return [], []
        rows, read, classes = function.rows, self._egraph.value_to_i64, self._classes
        flat = list(map(read, chain.from_iterable(map(attrgetter("inputs"), rows))))  # no list outlives its row: less to collect
        return flat, [classes.setdefault(row.output, len(classes)) for row in rows]

    def _reader(self, kind: str) -> Any:
        return self._number if kind == "i64" else self._string if kind == "String" else self._class


class _Fork:
    """Was this process forked from one that had used egglog? Then no e-graph may be dropped in it."""

    happened = False
    engines: ClassVar[weakref.WeakSet[Engine]] = weakref.WeakSet()

    @classmethod
    def after(cls) -> None:
        cls.happened = cls.happened or bool(cls.engines)
        for engine in cls.engines:
            engine.keep()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Fork.after)


class Engine:
    """An e-graph that knows one rule set; use :func:`engine_for`, which keeps engines between programs.

    Rules are compiled when a program first needs them: a rule that cannot fire costs nothing. ``by_rule``: the rules of a
    stage are run one after another, so that the rows each of them adds can be counted; slower, and to the same fixpoint.
    """

    #: Holds a program's rows that cannot be dropped (see the module's first lines).
    spent = False

    def __init__(self, families: tuple[Family, ...], axioms: Facts, language: Language = language, by_rule: bool = False) -> None:
        self._egraph = bindings.EGraph()
        _Fork.engines.add(self)
        if _Fork.happened:
            self.keep()
        self._made_of = (families, axioms, language, by_rule)
        self.by_rule = by_rule
        self.families = families
        self.stages = language.STAGES
        self._rules = [(r, frozenset(_heads(r.reads)), frozenset(_heads(r.then))) for f in families for r in f.rules]
        self._loaded: set[str] = set()
        self._axioms = frozenset(name for name, rows in axioms.items() if rows)
        self._seen: set[frozenset[str]] = set()
        self._undeclared = {t.name: t for t in language.TABLES}
        _check_rules(families, self._undeclared)
        for sort in language.SORTS:
            self.run(sort.declare())
        #: What one iteration of a stage runs: its ruleset, or with ``by_rule`` a ruleset for each of its rules, by rule name.
        self.steps: dict[str, list[tuple[str, Any]]] = {s: [] for s in self.stages}
        if not by_rule:
            for stage in self.stages:
                self.steps[stage].append(("", self._step(stage)))
        self.declare(axioms)
        self.add(axioms)
        self.sizes = bindings.PrintSize(bindings.PanicSpan(), None)

    def _step(self, ruleset: str) -> Any:
        """A new ruleset, and the command that runs it once."""
        self.run(f"(ruleset {ruleset})")
        return bindings.RunSchedule(bindings.Run(bindings.PanicSpan(), bindings.RunConfig(ruleset, None)))

    def run(self, line: str) -> list[Any]:
        """Run one line of egglog."""
        try:
            return list(self._egraph.run_program(*self._egraph.parse_program(line)))
        except bindings.EggSmolError as error:
            raise TilesatError(f"the e-graph engine refused {line[:200]!r}: {error}") from error

    def declare(self, names: Iterable[str]) -> None:
        """Declare the tables that are not yet: every table costs at each push and pop."""
        for name in names:
            table = self._undeclared.pop(name, None)
            if table is not None:
                self.run(table.declare())

    def push(self) -> None:
        """Remember the state: rules and axioms."""
        self._egraph.run_program(bindings.Push(1))

    def pop(self) -> None:
        """Go back to the state remembered last; where nothing can be dropped the engine is spent instead."""
        if _Fork.happened:
            self.spent = True
        else:
            self._egraph.run_program(bindings.Pop(bindings.PanicSpan(), 1))

    def fresh(self) -> Engine:
        """This engine, or one like it where it is spent."""
        return Engine(*self._made_of) if self.spent else self

    def keep(self) -> None:
        """Never drop the e-graph, not even when the process ends."""
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._egraph))

    def command(self, command: Any) -> Any:
        """Run one prepared command and return its one output."""
        (output,) = self._egraph.run_program(command)
        return output

    def add(self, facts: Facts) -> None:
        """Assert facts, table by table."""
        for name, rows in facts.items():
            if len(rows) >= _FILE_FROM:
                self._add_from_file(name, rows)
            else:
                for row in rows:
                    self.run(f"({name} {' '.join(map(_written, row))})")

    def _add_from_file(self, name: str, rows: Sequence[Fact]) -> None:
        handle, path = tempfile.mkstemp(prefix="tilesat-", suffix=".facts", dir=_memory_folder())
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.writelines("\t".join(map(str, row)) + "\n" for row in rows)
            self.run(f'(input {name} "{path}")')
        finally:
            os.unlink(path)

    def load(self, facts: Facts) -> None:
        """Compile the rules these facts can make fire: those whose every table is filled by a fact or by such a rule."""
        given = self._axioms | {name for name, rows in facts.items() if rows}
        if given in self._seen:
            return
        filled, grew = set(given), True
        while grew:
            grew = False
            for _, reads, makes in self._rules:
                if reads <= filled and not makes <= filled:
                    filled |= makes
                    grew = True
        self.declare(facts)
        for rule, reads, makes in self._rules:
            if reads <= filled and rule.name not in self._loaded:
                self.declare((*sorted(reads), *sorted(makes)))
                if self.by_rule:
                    ruleset = f"{rule.stage}_{len(self._loaded)}"
                    self.steps[rule.stage].append((rule.name, self._step(ruleset)))
                    self.run(rule.render(ruleset))
                else:
                    self.run(rule.render())
                self._loaded.add(rule.name)
        self._seen.add(given)

    def freeze(self) -> Frozen:
        """Read the e-graph's rows."""
        return Frozen(self._egraph)


def _check_rules(families: Iterable[Family], tables: Mapping[str, Table]) -> None:
    """Refuse what would never fire without a word: a rule of another's name, a fact that no table holds."""
    owners: dict[str, str] = {}
    for f in families:
        for r in f.rules:
            who = f"rule {r.name!r} of family {f.name!r}"
            if r.name in owners:
                raise TilesatError(f"{who} has the name of a rule of {owners[r.name]!r}; rename it")
            owners[r.name] = f.name
            for head in _heads((*r.reads, *r.then)):
                if head not in tables:
                    raise TilesatError(f"{who} speaks of {head!r}, which the language does not have")


def _heads(terms: Iterable[Term | Merge]) -> Iterable[str]:
    """Names of every table mentioned in patterns or actions."""
    for t in terms:
        if isinstance(t, Merge):
            yield from _heads((t.left, t.right))
        else:
            yield t.head
            yield from _heads(a for a in t.arguments if isinstance(a, Term))


class Session:
    """One program's stay in an engine, as a context manager: facts in, runs, frozen rows out; forgotten at the end."""

    def __init__(self, engine: Engine, facts: Facts) -> None:
        self._engine = engine
        self._facts = facts
        rows = tuple((f.name, r.name, r.statement) for f in engine.families for r in f.rules)
        self.report = Report(families=rows, added={} if engine.by_rule else None)

    def __enter__(self) -> Session:
        self._engine = self._engine.fresh()
        self._engine.load(self._facts)
        self._engine.push()
        try:
            self._engine.add(self._facts)
        except BaseException:  # nobody leaves a session that was not entered, and kept engines serve others afterwards
            self._engine.pop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.pop()

    def add(self, facts: Facts) -> None:
        """Assert more facts of the tables the session began with."""
        self._engine.add(facts)

    def run(self, limits: Limits) -> Report:
        """Run every stage to its fixpoint or to a limit; call again after :meth:`add` to go on."""
        began = time.perf_counter()
        self.report.stop = StopReason.SATURATED
        before, self.report.nodes = self.report.nodes, self._size()
        self.report.given += self.report.nodes - before
        for stage in self._engine.stages:
            stop = self._run_stage(stage, limits, began)
            if stop is not None:
                self.report.stop = stop
                break
        self.report.nodes = self._size()
        self.report.phases["saturate"] = self.report.phases.get("saturate", 0.0) + time.perf_counter() - began
        return self.report

    def _run_stage(self, stage: str, limits: Limits, began: float) -> StopReason | None:
        """Iterate one stage until nothing is new (None) or a limit is met."""
        for _ in range(limits.iterations):
            before = time.perf_counter()
            if before - began > limits.seconds:
                return StopReason.SECONDS
            if self.report.nodes > limits.nodes:
                return StopReason.NODES
            matches, updated = self._iterate(stage)
            if not updated:
                return None
            if self.report.added is None:
                self.report.nodes += matches * _ROWS_A_MATCH
                if self.report.nodes > limits.nodes:
                    self.report.nodes = self._size()
        return StopReason.ITERATIONS

    def _iterate(self, stage: str) -> tuple[int, bool]:
        """One iteration of a stage: (matches, was anything new)."""
        report, clock = self.report, time.perf_counter
        report.iterations += 1
        matches, updated = 0, False
        for rule, step in self._engine.steps[stage]:
            before = clock()
            run = self._engine.command(step).report
            self._account(run, clock() - before)
            matches += sum(run.num_matches_per_rule.values())
            updated = updated or run.updated
            if report.added is not None and run.updated:
                rows = self._size()
                report.added[rule] = report.added.get(rule, 0) + rows - report.nodes
                report.nodes = rows
        return matches, updated

    def _account(self, run: Any, seconds: float) -> None:
        """Add one run of a ruleset to the report.

        egglog clocks rules too coarsely to add up, so the run's wall time is shared out among the rules that matched, by its
        clock and their matches.
        """
        report = self.report
        clock = run.search_and_apply_time_per_rule
        weights = {}
        for name, count in run.num_matches_per_rule.items():
            report.matches[name] = report.matches.get(name, 0) + count
            weights[name] = clock[name].total_seconds() * 1e6 + count if name in clock else count
        total = sum(weights.values())
        for name, weight in weights.items():
            report.seconds[name] = report.seconds.get(name, 0.0) + (seconds * weight / total if total else 0.0)

    def _size(self) -> int:
        return sum(size for _, size in self._engine.command(self._engine.sizes).sizes)

    def freeze(self) -> Frozen:
        """Read the e-graph's rows."""
        return self._engine.freeze()


def _written(x: object) -> str:
    return f'"{x}"' if isinstance(x, str) else str(x)


@functools.cache
def _memory_folder() -> str | None:
    """A folder in memory where there is one: facts are read back at once."""
    return "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None


def engine_for(rule_set: RuleSet, largest_extent: int, by_rule: bool = False) -> Engine:
    """This thread's engine for a rule set, with tile extents up to ``largest_extent`` elements, run ``by_rule`` or by stage."""
    families = rule_set.families
    key = (families, largest_extent, by_rule)
    return kept_engine(key, lambda: Engine(families, language.axioms(largest_extent), by_rule=by_rule))


#: Engines that one thread keeps; the least recently used one goes first.
_KEPT = 16


class _Kept(threading.local):
    """The engines of one thread."""

    def __init__(self) -> None:
        self.engines: dict[Hashable, Engine] = {}


_kept = _Kept()


def kept_engine(key: Hashable, make: Callable[[], Engine]) -> Engine:
    """This thread's engine for ``key``, made when it is first asked for."""
    engines = _kept.engines
    whose = (os.getpid(), key)
    engine = engines.pop(whose, None) or make()
    engines[whose] = engine
    if len(engines) > _KEPT:
        del engines[next(iter(engines))]
    return engine
