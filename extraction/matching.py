"""Match one rule's body against the rows of a saturated e-graph, in Python: the engine says *whether*, this says *why not*.

It reads the rule itself (its patterns, its named conditions), so an answer can never disagree with what the engine did. It is
for explanations: a handful of rules on one product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egraph_rules.expr import Condition, Literal, Variable
from egraph_rules.rule import Rule, Table, Term

Binding = dict[str, Any]
#: All rows of a table, by its name.
Rows = Callable[[str], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Answer:
    """How far a rule got.

    ``matches`` are the bindings that passed everything. When there are none, ``pattern`` is the first fact no binding found, or
    ``condition`` the first side condition no binding passed, with ``nearest`` the binding that came closest; ``tried`` counts
    bindings that reached it.
    """

    rule: Rule
    matches: list[Binding]
    pattern: Term | None = None
    condition: Condition | None = None
    nearest: Binding | None = None
    tried: int = 0

    @property
    def fired(self) -> bool:
        return bool(self.matches)

    def reason(self, tables: Mapping[str, Table]) -> str:
        """Why it did not fire, in a sentence."""
        if self.pattern is not None:
            about = tables[self.pattern.head].about
            return f"it needs {_shown(self.pattern)} ({about}), which the program does not have here"
        assert self.condition is not None
        assert self.nearest is not None
        most = f"; none of {self.tried} candidates passes, this one comes nearest" if self.tried > 1 else ""
        return f"it demands that {self.condition.explain(self.nearest)}{most}"


def _shown(pattern: Term) -> str:
    words = ("…" if a is None else a.name if isinstance(a, Variable) else str(a) for a in pattern.arguments)
    return f"{pattern.head}({', '.join(words)})"


def match(rule: Rule, rows: Rows, given: Binding) -> Answer:
    """All bindings of the rule's variables that extend ``given``, or where they ran out."""
    bindings = [dict(given)]
    for pattern in sorted(rule.reads, key=lambda p: not _binds(p, given)):
        found = [b for known in bindings for row in rows(pattern.head) if (b := _bind(pattern, row, known)) is not None]
        if not found:
            return Answer(rule, [], pattern=pattern, tried=len(bindings))
        bindings = found
    for condition in rule.when:
        passing = [b for b in bindings if condition.holds(b)]
        if not passing:
            nearest = min(bindings, key=lambda b: _gap(condition, b))
            return Answer(rule, [], condition=condition, nearest=nearest, tried=len(bindings))
        bindings = passing
    return Answer(rule, bindings)


def _binds(pattern: Term, given: Binding) -> bool:
    """Does the pattern mention a variable that is known already? Those first: they keep joins small."""
    return any(isinstance(a, Variable) and a.name in given for a in pattern.arguments)


def _bind(pattern: Term, row: tuple[Any, ...], known: Binding) -> Binding | None:
    new: Binding | None = None
    for argument, x in zip(pattern.arguments, row, strict=False):
        if argument is None:
            continue
        if isinstance(argument, Variable):
            have = (known if new is None else new).get(argument.name, _UNBOUND)
            if have is _UNBOUND:
                new = dict(known) if new is None else new
                new[argument.name] = x
            elif have != x:
                return None
        elif (argument.number if isinstance(argument, Literal) else argument) != x:
            return None
    return known if new is None else new


_UNBOUND = object()


def _gap(condition: Condition, b: Binding) -> float:
    """How far a binding is from passing a condition."""
    return abs(float(condition.test.left.value(b)) - float(condition.test.right.value(b)))
