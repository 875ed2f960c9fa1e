"""The rule sets of an ablation: which families are taken out of, or put into, which set."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cost.errors import suggestion
from egraph_rules.catalogue import CORE, FAMILIES, RuleSet
from egraph_rules.catalogue import rules as find_rules
from egraph_rules.rule import Family
from tilesat.studies.errors import StudyError

DESIGNS = ("one-out", "one-in", "pairs")


@dataclass(frozen=True)
class Variant:
    """One rule set of an ablation. ``changed`` are the families by which it differs from the first one (none: it is the first).

    ``families`` hold catalogue families by name, so that a worker process uses its own; a user's family goes along whole.
    """

    name: str
    families: tuple[str | Family, ...]
    policy: str
    changed: tuple[str, ...] = ()

    def rule_set(self) -> RuleSet:
        """The rule set."""
        return RuleSet(tuple(FAMILIES[f] if isinstance(f, str) else f for f in self.families), self.policy)


def variant(name: str, rules: RuleSet, changed: Iterable[str] = ()) -> Variant:
    """A rule set under a name."""
    families = tuple(f.name if FAMILIES.get(f.name) is f else f for f in rules.families)
    return Variant(name, families, rules.policy, tuple(changed))


def variants(base: Any, design: str | Sequence[Any]) -> tuple[Variant, ...]:
    """The rule sets of a design, the one that effects are measured against first.

    ``one-out``: the base, and the base without each of its families. ``one-in``: no family but what no set can lack, and that
    with each family of the base. ``pairs``: one-out, and the base without each pair of families. Or a sequence of rule sets,
    compared with the base. Raises RuleSetError or :class:`StudyError`.
    """
    full = find_rules(base)
    label = base.strip() if isinstance(base, str) else "base"
    optional = [f for f in full.families if f.name not in CORE]
    if not isinstance(design, str):
        given = [(s, find_rules(s)) for s in design]
        named = (variant(s if isinstance(s, str) else f"set {i}", r) for i, (s, r) in enumerate(given, 1))
        return _distinct((variant(label, full), *named), full)
    if design == "one-in":
        least = RuleSet(tuple(f for f in full.families if f.name in CORE), full.policy)
        return (variant("none", least), *(variant(f"+{f.name}", least + f, [f.name]) for f in optional))
    if design not in DESIGNS:
        known = ", ".join(DESIGNS)
        raise StudyError(f"unknown design {design!r}.{suggestion(design, DESIGNS)} Known: {known}, or a list of rule sets")
    sizes = (1,) if design == "one-out" else (1, 2)
    out = [group for size in sizes for group in itertools.combinations(optional, size)]
    return (variant(label, full), *(_without(full, label, [f.name for f in group]) for group in out))


def _without(full: RuleSet, label: str, names: list[str]) -> Variant:
    kept = RuleSet(tuple(f for f in full.families if f.name not in names), full.policy)
    return variant(",".join([label, *(f"-{n}" for n in names)]), kept, names)


def _distinct(found: Sequence[Variant], base: RuleSet) -> tuple[Variant, ...]:
    """Each name once, with the families by which it differs from the base."""
    seen: dict[str, Variant] = {}
    for v in found:
        names = {f.name for f in v.rule_set().families} ^ {f.name for f in base.families}
        seen.setdefault(v.name, Variant(v.name, v.families, v.policy, tuple(sorted(names))))
    return tuple(seen.values())
