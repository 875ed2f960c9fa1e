"""The branch families of batch matmul, in the order of the derivation, and the rule sets made of them."""

from __future__ import annotations

import difflib

from cost.errors import TilesatError
from egraph_rules.batch.asw_basic import ASW_BASIC
from egraph_rules.batch.iter_batch import ITER_BATCH
from egraph_rules.batch.merge_batch import MERGE_BATCH
from egraph_rules.batch.special import SPECIAL
from egraph_rules.batch.stream_k import STREAM_K
from egraph_rules.batch.to_matmul import TO_MATMUL
from egraph_rules.rule import Family

FAMILIES: dict[str, Family] = {f.name: f for f in (TO_MATMUL, SPECIAL, MERGE_BATCH, ITER_BATCH, ASW_BASIC, STREAM_K)}


class BatchRulesError(TilesatError):
    """A rule set that names no branch family."""


def branch_rules(spec: str = "all") -> tuple[Family, ...]:
    """Families by specification: ``"all"``, ``"all,-merge_batch"``, ``"iter_batch,asw_basic"``; in the order of the catalogue.

    Raises :class:`BatchRulesError` for an unknown name, with the known ones.
    """
    if not isinstance(spec, str):
        raise BatchRulesError(f'rules = {spec!r}: give a text such as "all" or "all,-merge_batch"')
    chosen: set[str] = set()
    for item in (x.strip() for x in spec.split(",")):
        name = item.lstrip("+-")
        if name == "all":
            chosen |= set(FAMILIES)
        elif name not in FAMILIES:
            near = difflib.get_close_matches(name, FAMILIES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            raise BatchRulesError(f"unknown branch family {name!r}{hint} known: all, {', '.join(FAMILIES)}")
        elif item.startswith("-"):
            chosen.discard(name)
        else:
            chosen.add(name)
    return tuple(f for name, f in FAMILIES.items() if name in chosen)
