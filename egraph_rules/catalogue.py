"""The catalogue of rule families and the rule sets made of them.

A rule set is families by name and a policy: ``documented`` picks tiles as the reference pass does (the baseline first, richer
regimes only for a strictly smaller wall, placement afterwards); ``cheapest`` takes the cheapest legal plan.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from cost.errors import TilesatError
from cost.places import is_place
from egraph_rules.families.accumulate import ACCUMULATE
from egraph_rules.families.bias_window import BIAS_WINDOW
from egraph_rules.families.cast_fold import CAST_FOLD
from egraph_rules.families.direct_store import DIRECT_STORE
from egraph_rules.families.double_buffer import DOUBLE_BUFFER
from egraph_rules.families.drained_pipeline import DRAINED_PIPELINE
from egraph_rules.families.free_hoist import FREE_HOIST
from egraph_rules.families.k_split import K_SPLIT
from egraph_rules.families.loads import LOADS
from egraph_rules.families.mat_scratch import MAT_SCRATCH
from egraph_rules.families.mn_grid import MN_GRID
from egraph_rules.families.planners import PLANNERS
from egraph_rules.families.split_k_chain import SPLIT_K_CHAIN
from egraph_rules.families.stationarity import STATIONARITY
from egraph_rules.families.vec_staging import VEC_STAGING
from egraph_rules.families.vector_cast import VECTOR_CAST
from egraph_rules.families.whole import WHOLE_PRODUCT
from egraph_rules.rule import Family, Rule, family_at


class RuleSetError(TilesatError):
    """A rule set that names what is not in the catalogue."""


#: Families that no rule set can lack: without them nothing can be left as it stands.
CORE = ("whole",)

FAMILIES: dict[str, Family] = {
    f.name: f
    for f in (
        WHOLE_PRODUCT,
        LOADS,
        K_SPLIT,
        MN_GRID,
        STATIONARITY,
        DOUBLE_BUFFER,
        DIRECT_STORE,
        MAT_SCRATCH,
        CAST_FOLD,
        VECTOR_CAST,
        VEC_STAGING,
        ACCUMULATE,
        BIAS_WINDOW,
        SPLIT_K_CHAIN,
        DRAINED_PIPELINE,
        PLANNERS,
        FREE_HOIST,
    )
}

DOCUMENTED, CHEAPEST = "documented", "cheapest"
#: Families that are sound but not part of the documented pass.
BEYOND = ("free_hoist",)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Families by name, in catalogue order, with user families after them, and the policy that picks among the variants."""

    families: tuple[Family, ...]
    policy: str = DOCUMENTED

    @property
    def names(self) -> tuple[str, ...]:
        """The families' names, in the order they are in."""
        return tuple(f.name for f in self.families)

    def rules(self) -> tuple[Rule, ...]:
        """Every rule of every family."""
        return tuple(r for f in self.families for r in f.rules)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __sub__(self, names: str | Iterable[str]) -> RuleSet:
        """The set without these families; a core family cannot be taken away."""
        drop = {names} if isinstance(names, str) else set(names)
        for name in sorted(drop - set(self.names)):
            lookup(name)  # taking away what is not there is no mistake, what there is not is one
        for name in sorted(drop):
            if name in CORE:
                raise RuleSetError(f"rule family {name!r} cannot be taken away: it is how a statement stays as it stands")
        return RuleSet(tuple(f for f in self.families if f.name not in drop), self.policy)

    def __add__(self, more: str | Family | Iterable[str | Family]) -> RuleSet:
        """The set with these families; user-made :class:`Family` objects are welcome."""
        items: list[str | Family] = [more] if isinstance(more, (str, Family)) else list(more)
        added = [lookup(x) if isinstance(x, str) else x for x in items]
        for f in added:
            if FAMILIES.get(f.name, f) is not f:
                raise RuleSetError(f"a family of yours is called {f.name!r}, as a built-in one is; give it a name of its own")
        return RuleSet(_in_order((*self.families, *added)), self.policy)

    def __str__(self) -> str:
        return ", ".join(self.names) + f" ({self.policy})"


def _in_order(families: Iterable[Family]) -> tuple[Family, ...]:
    """Catalogue order first, then user families in the order given; each once."""
    given = {f.name: f for f in families}
    ranked = [f for name, f in FAMILIES.items() if name in given]
    return (*ranked, *(f for name, f in given.items() if name not in FAMILIES))


def lookup(name: str) -> Family:
    """The family called ``name``; :class:`RuleSetError` lists the known ones and the nearest."""
    found = FAMILIES.get(name)
    if found is None:
        near = difflib.get_close_matches(name, [*FAMILIES, *NAMED], 1)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise RuleSetError(f"unknown rule family or set {name!r}{hint} known: {', '.join([*NAMED, *FAMILIES])}")
    return found


def _named(names: Iterable[str], policy: str) -> RuleSet:
    return RuleSet(_in_order(FAMILIES[n] for n in names), policy)


#: Rule sets by name, each with one line that says what it is.
NAMED: dict[str, str] = {
    "reference": "exactly the documented pass, decision for decision",
    "all": "every sound rule, and the cheapest legal plan",
    "none": "no rule beyond the statement as it stands",
}


def rules(spec: str | RuleSet | Family | Iterable[str | Family] = "reference") -> RuleSet:
    """The rule set a specification names.

    ``spec`` is a set's name ("reference", "all", "none"), family names, or a mix in one string: ``"reference,-cast_fold"``,
    ``"k_split,mn_grid,direct_store,loads"``, ``"all,-mat_scratch"``; a family of your own stands there by its place,
    ``"all,my_rules.py:FAMILY"``. Or a sequence of the same and of families; or a :class:`RuleSet`.
    Raises :class:`RuleSetError` for a name that is not known.
    """
    if isinstance(spec, RuleSet):
        return spec
    if isinstance(spec, Family):
        spec = [spec]
    if not isinstance(spec, (str, Iterable)):
        raise RuleSetError(f"a rule set is named by text or a sequence of names and families, not by {type(spec).__name__}")
    items = [x.strip() for x in spec.split(",")] if isinstance(spec, str) else list(spec)
    chosen = _named(CORE, DOCUMENTED)
    for item in items:
        if isinstance(item, Family):
            chosen = chosen + item
        elif not isinstance(item, str):
            raise RuleSetError(f"a rule set is made of names and families; {item!r} is neither")
        elif is_place(item):
            chosen = chosen + family_at(item.removeprefix("+"), RuleSetError)
        elif item.startswith("-"):
            if item[1:].strip() in NAMED:
                raise RuleSetError(f"{item[1:].strip()!r} is a whole set; take families away, by name: {', '.join(FAMILIES)}")
            chosen = chosen - item[1:].strip()
        elif item == "reference":
            chosen = RuleSet(_in_order((*chosen.families, *(f for n, f in FAMILIES.items() if n not in BEYOND))), DOCUMENTED)
        elif item == "all":
            chosen = RuleSet(_in_order((*chosen.families, *FAMILIES.values())), CHEAPEST)
        elif item != "none":
            chosen = chosen + item.removeprefix("+")
    return chosen
