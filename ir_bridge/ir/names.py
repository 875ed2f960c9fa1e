"""Names that PyPTO accepts: no ``__`` (reserved in programs it reads), no keyword, unique within a function."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable

#: SSA suffixes of PyPTO's dumps: ``c__ssa_v0``, ``k0__idx_v0``, ``x__phi_rv_v2``.
_SSA_SUFFIX = re.compile(r"__(?:[A-Za-z0-9]+_)*?v\d+(?=_|$)")
_UNDERSCORES = re.compile(r"__+")
_NOT_A_WORD = re.compile(r"\W")

#: Names that mean something else in a printed program.
RESERVED = frozenset({*keyword.kwlist, "pl", "self", "tuple"})


def base_name(name: str) -> str:
    """The name without SSA suffixes and without ``__``: "c__ssa_v0_l0_a" is "c_l0_a", "ret0__out" is "ret0_out"."""
    if "__" not in name:
        return name
    return _UNDERSCORES.sub("_", _SSA_SUFFIX.sub("", name)) or "v"


def identifier(name: str) -> str:
    """The nearest Python identifier to any text; a name that is one comes back as it is."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    if name.isidentifier():
        return name
    name = _NOT_A_WORD.sub("_", name)
    return name if name.isidentifier() else f"v{name}"


class Names:
    """Gives out names, each once: the wanted one, else with ``_1``, ``_2``, … appended."""

    __slots__ = ("_next", "_taken")

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(RESERVED)
        self._taken.update(reserved)
        self._next: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """A name like ``wanted`` that was not given out before."""
        taken = self._taken
        if wanted not in taken and "__" not in wanted and wanted.isidentifier():
            taken.add(wanted)
            return wanted
        name = base_name(identifier(wanted))
        if name not in taken:
            taken.add(name)
            return name
        stem = name.rstrip("_") or "v"
        k = self._next.get(stem, 1)
        while (candidate := f"{stem}_{k}") in taken:
            k += 1
        self._next[stem] = k + 1
        taken.add(candidate)
        return candidate
