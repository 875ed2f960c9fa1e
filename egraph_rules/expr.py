"""Integer expressions of rules, and the small named predicates rules are guarded by.

A side condition is written once and used twice: it renders to egglog for the rule, and it evaluates on numbers to say
*why not* ("2 · 64 · 512 · 2 = 131072 > 65536 bytes of L0A"). So an explanation can never disagree with the rule.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

#: How the sentence of a condition begins that says what is asked for and what there is instead.
DEMAND = "it needs "

Number = Any  # int, or a numpy array where conditions are tried on many candidates at once


_EGGLOG_OPS: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "min": lambda a, b: a + (b - a) * (b < a),  # on numbers and arrays alike
    "max": lambda a, b: a + (b - a) * (b > a),
}
_COMPARE: dict[str, Callable[[Number, Number], Number]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "=": operator.eq,
    "!=": operator.ne,
}


class Integer:
    """An i64 expression: a variable, a literal, or an operation (division rounds down; all values are non-negative)."""

    __slots__ = ()

    def __add__(self, other: Int) -> Operation:
        return Operation("+", self, literal(other))

    def __sub__(self, other: Int) -> Operation:
        return Operation("-", self, literal(other))

    def __mul__(self, other: Int) -> Integer:
        by = literal(other)
        return self if by == Literal(1) else Operation("*", self, by)

    def __rmul__(self, other: Int) -> Integer:
        return literal(other) * self

    def __radd__(self, other: Int) -> Operation:
        return Operation("+", literal(other), self)

    def __floordiv__(self, other: Int) -> Operation:
        return Operation("/", self, literal(other))

    def __mod__(self, other: Int) -> Operation:
        return Operation("%", self, literal(other))

    def __le__(self, other: Int) -> Comparison:
        return Comparison("<=", self, literal(other))

    def __lt__(self, other: Int) -> Comparison:
        return Comparison("<", self, literal(other))

    def __ge__(self, other: Int) -> Comparison:
        return Comparison(">=", self, literal(other))

    def __gt__(self, other: Int) -> Comparison:
        return Comparison(">", self, literal(other))

    def equals(self, other: Int) -> Comparison:
        return Comparison("=", self, literal(other))

    def differs(self, other: Int) -> Comparison:
        return Comparison("!=", self, literal(other))

    def render(self) -> str:
        """The expression in egglog's syntax."""
        raise NotImplementedError

    def value(self, env: Mapping[str, Number]) -> Number:
        """The expression's number where variables have the values of ``env``."""
        raise NotImplementedError

    def variables(self) -> Iterator[str]:
        """Names of the variables in it, in order, with repeats."""
        raise NotImplementedError


Int = Union[Integer, int]


@dataclass(frozen=True, slots=True)
class Variable(Integer):
    name: str

    def render(self) -> str:
        return self.name

    def value(self, env: Mapping[str, Number]) -> Number:
        return env[self.name]

    def variables(self) -> Iterator[str]:
        yield self.name


@dataclass(frozen=True, slots=True)
class Literal(Integer):
    number: int

    def render(self) -> str:
        return str(self.number)

    def value(self, env: Mapping[str, Number]) -> Number:
        return self.number

    def variables(self) -> Iterator[str]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Operation(Integer):
    op: str
    left: Integer
    right: Integer

    def render(self) -> str:
        return f"({self.op} {self.left.render()} {self.right.render()})"

    def value(self, env: Mapping[str, Number]) -> Number:
        return _EGGLOG_OPS[self.op](self.left.value(env), self.right.value(env))

    def variables(self) -> Iterator[str]:
        yield from self.left.variables()
        yield from self.right.variables()


def literal(x: Int) -> Integer:
    return x if isinstance(x, Integer) else Literal(x)


def ceil_div(a: Int, b: Int) -> Integer:
    """⌈a / b⌉"""
    a, b = literal(a), literal(b)
    return (a + (b - 1)) // b


def align_up(a: Int, b: Int) -> Integer:
    """a rounded up to a multiple of b"""
    return ceil_div(a, b) * b


def smaller_of(a: Int, b: Int) -> Integer:
    """min(a, b)"""
    return Operation("min", literal(a), literal(b))


def larger_of(a: Int, b: Int) -> Integer:
    """max(a, b)"""
    return Operation("max", literal(a), literal(b))


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``; with a name and a sentence it is a :class:`Condition`."""

    op: str
    left: Integer
    right: Integer

    def render(self) -> str:
        return f"({self.op} {self.left.render()} {self.right.render()})"

    def holds(self, env: Mapping[str, Number]) -> Number:
        return _COMPARE[self.op](self.left.value(env), self.right.value(env))

    def numbers(self, env: Mapping[str, Number]) -> str:
        """The two sides as numbers, and how they compare: ``131072 > 65536``."""
        left, right = self.left.value(env), self.right.value(env)
        negated = {"<=": ">", "<": "≥", ">=": "<", ">": "≤", "=": "≠", "!=": "="}
        shown = {"<=": "≤", ">=": "≥", "!=": "≠"}
        op = shown.get(self.op, self.op) if _COMPARE[self.op](left, right) else negated[self.op]
        return f"{left} {op} {right}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A named side condition: a comparison with the sentence that says what it demands."""

    name: str
    sentence: str
    arguments: tuple[tuple[str, Integer], ...]
    test: Comparison

    def render(self) -> str:
        return self.test.render()

    def holds(self, env: Mapping[str, Number]) -> Number:
        return self.test.holds(env)

    def explain(self, env: Mapping[str, Number]) -> str:
        """The sentence with its numbers put in, then the two sides compared; a demand (:data:`DEMAND`) says all by itself."""
        values = {name: expression.value(env) for name, expression in self.arguments}
        said = self.sentence.format(**values)
        return said if self.sentence.startswith(DEMAND) else f"{said}: {self.test.numbers(env)}"


def predicate(function: Callable[..., Comparison]) -> Callable[..., Condition]:
    """Make a function of integer expressions, with one sentence as its docstring, a maker of named conditions.

    The sentence may name the arguments in braces: ``"an {m} × {k} panel of A fits L0A"``. Where it would read badly before two
    numbers, it is a demand: ``"it needs K = 0; K is {K}"``.
    """
    parameters = tuple(inspect.signature(function).parameters)
    sentence = " ".join((function.__doc__ or function.__name__).split())

    @functools.wraps(function)
    def make(*values: Int) -> Condition:
        arguments = tuple(zip(parameters, map(literal, values), strict=True))
        return Condition(function.__name__, sentence, arguments, function(*(e for _, e in arguments)))

    return make
