"""Operations that the op table does not have although it has one of nearly that name.

What the table does not know is carried along as it stands, because real programs hold operations that tilesat need not know. A
misspelt one is carried along as well, and nothing comes of it: this says where that may have happened.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ir_bridge.ir.nodes import AS_WRITTEN, Call, Loc, Program, expressions_of, subexpressions, walk
from ir_bridge.ir.ops import lookup
from ir_bridge.ir.ops_registry import all_ops

#: How alike two names must be, as difflib counts: one letter of five wrong.
_ALIKE = 0.8
#: Operations of PyPTO's instruction set that the table does not have and that differ by a letter from one it has.
_OTHERS = frozenset(
    ("mov", "fabs", "addc", "subc", "addsc", "subsc", "sels", "lrelu", "prelu", "gatherb", "scatterb", "mgather", "mscatter")
)


@dataclass(frozen=True, slots=True)
class UnknownOperation:
    """An operation that is not known, ``op``, and the known one of nearly that name, ``nearest`` (both without "pl."), where it
    is met first: ``function`` and ``loc``."""

    op: str
    nearest: str
    function: str
    loc: Loc

    def __str__(self) -> str:
        head = f"pl.{self.op} is not known and is carried along as it stands"
        return f"{head}; did you mean pl.{self.nearest}? [{self.function}, {self.loc}]"


def misspelt(program: Program) -> tuple[UnknownOperation, ...]:
    """The unknown operations of ``program`` that are named nearly as a known one is, each once, in order."""
    names = _Names()
    found: dict[str, UnknownOperation | None] = {}
    for f in program.functions:
        for s in walk(f.body):
            for e in expressions_of(s):
                for x in subexpressions(e):
                    if isinstance(x, Call) and x.op not in found and not x.op.startswith("self."):
                        near = names.nearest(x.op)
                        found[x.op] = None if near is None else UnknownOperation(x.op, near, f.name, s.loc)
    return tuple([u for u in found.values() if u is not None])


def nearest_operation(op: str) -> str | None:
    """The known operation that an unknown one is named like; None for a known one, and where none is alike."""
    return _Names().nearest(op)


class _Names:
    """The names of known operations, by what stands before them: "tile", "tensor" or nothing."""

    def __init__(self) -> None:
        self._by_prefix: dict[str, set[str]] = {}
        for d in all_ops():
            prefix, _, name = d.name.rpartition(".")
            self._by_prefix.setdefault(prefix, set()).add(name)
            if d.short is not None:
                self._by_prefix.setdefault("", set()).add(d.short)
        self._words = {w for names in self._by_prefix.values() for n in names for w in n.split("_")}

    def nearest(self, op: str) -> str | None:
        if lookup(op) is not None or op.endswith(AS_WRITTEN):
            return None
        prefix, _, name = op.rpartition(".")
        known = self._by_prefix.get(prefix, set())
        if name in known or name in _OTHERS:
            return None  # the short form of an operation on something of unknown type; one that there is elsewhere
        alike = [n for n in difflib.get_close_matches(name, sorted(known), n=5, cutoff=_ALIKE) if self._slip(name, n)]
        return None if not alike else f"{prefix}.{alike[0]}" if prefix else alike[0]

    def _slip(self, name: str, known: str) -> bool:
        """Can ``name`` be a slip of the pen for ``known``? Not where it is another operation of the same kind: where a word or a
        figure more, less or other makes the difference (matmul_mx, row_argmax, exp2; row_expand_max for row_expand_mul)."""
        if name.replace("_", "") == known.replace("_", ""):
            return True
        mine, theirs = name.split("_"), known.split("_")
        other = [(a, b) for a, b in zip(mine, theirs, strict=False) if a != b]
        if len(mine) != len(theirs) or len(other) != 1:
            return False
        ((a, b),) = other
        return abs(len(a) - len(b)) <= 1 and a not in self._words and _figures(a) == _figures(b)


def _figures(word: str) -> str:
    return "".join(filter(str.isdigit, word))
