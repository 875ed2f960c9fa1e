"""The branch families of batch matmul, in the order of the derivation, and the rule sets made of them."""

from __future__ import annotations

import difflib

from cost.errors import TilesatError
from cost.places import is_place
from egraph_rules.batch.asw_basic import ASW_BASIC
from egraph_rules.batch.iter_batch import ITER_BATCH
from egraph_rules.batch.merge_batch import MERGE_BATCH
from egraph_rules.batch.special import SPECIAL
from egraph_rules.batch.stream_k import STREAM_K
from egraph_rules.batch.to_matmul import TO_MATMUL
from egraph_rules.rule import Family, family_at

FAMILIES: dict[str, Family] = {f.name: f for f in (TO_MATMUL, SPECIAL, MERGE_BATCH, ITER_BATCH, ASW_BASIC, STREAM_K)}


class BatchRulesError(TilesatError):
    """A rule set that names no branch family."""


def branch_rules(spec: str = "all") -> tuple[Family, ...]:
    """Families by specification: ``"all"``, ``"all,-merge_batch"``, ``"iter_batch,asw_basic"``; in the order of the catalogue.

    A family of your own, of rules in the language of :mod:`egraph_rules.batch.language`, stands there by its place,
    ``"all,my_rules.py:FAMILY"``; yours come after the catalogue's. Raises :class:`BatchRulesError` for an unknown name, with the
    known ones, and where a place holds no family.
    """
    if not isinstance(spec, str):
        raise BatchRulesError(f'rules = {spec!r}: give a text such as "all" or "all,-merge_batch"')
    chosen: dict[str, Family] = {}
    for item in (x.strip() for x in spec.split(",")):
        name = item.lstrip("+-")
        if is_place(item) and not item.startswith("-"):
            mine = family_at(name, BatchRulesError)
            if FAMILIES.get(mine.name, mine) is not mine:
                what = f"a family of yours is called {mine.name!r}, as a built-in one is"
                raise BatchRulesError(f"{what}; give it a name of its own")
            chosen[mine.name] = mine
        elif name == "all" and not item.startswith("-"):
            chosen |= FAMILIES
        elif name == "all":
            raise BatchRulesError(f"'all' is every family; take families away, by name: {', '.join(FAMILIES)}")
        elif name not in FAMILIES and name not in chosen:
            near = difflib.get_close_matches(name, FAMILIES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            raise BatchRulesError(f"unknown branch family {name!r}{hint} known: all, {', '.join(FAMILIES)}")
        elif item.startswith("-"):
            chosen.pop(name, None)
        else:
            chosen.setdefault(name, FAMILIES.get(name) or chosen[name])
    ours = [f for name, f in FAMILIES.items() if name in chosen]
    return (*ours, *(f for name, f in chosen.items() if name not in FAMILIES))
