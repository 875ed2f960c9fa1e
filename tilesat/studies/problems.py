"""The distinct products of a corpus: what a comparison of cost models runs over."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cost.errors import TilesatError
from cost.hardware import Target
from cost.problem import Problem
from egraph_rules.language import FRACTAL
from tilesat.corpus import Corpus


@dataclass(frozen=True, slots=True)
class Item:
    """One product under a name; ``entries`` are the corpus entries that hold it. ``error``: why there is no product."""

    name: str
    problem: Problem | None
    entries: tuple[str, ...]
    error: str = ""


def name_of(p: Problem) -> str:
    """A product in a word: "256x256x192-bf16", with what is special about it after it."""
    parts = [f"{p.M}x{p.N}x{p.K}-{p.a}"]
    if p.accumulate:
        parts.append("acc")
    if p.bias is not None:
        parts.append(f"bias.{p.bias}")
    if (p.box_m, p.box_n) != (1, 1):
        parts.append(f"box.{p.box_m}.{p.box_n}")
    return "-".join([*parts, *["padded"] * p.allow_padding])


def distinct(corpus: Corpus, target: Target) -> tuple[Item, ...]:
    """Every product once. Products that no model and no rule can tell apart (bf16 and fp16; boxes no larger than a fractal) are
    one; an entry that cannot be read is an item with its error."""
    found: dict[object, list[str]] = {}
    first: dict[object, Problem] = {}
    broken: list[Item] = []
    for entry in corpus:
        try:
            problems = entry.problems(target)
        except TilesatError as e:
            broken.append(Item(f"entry {entry.name}", None, (entry.name,), str(e)))
            continue
        for p in problems:
            plain = replace(p, box_m=1 if FRACTAL % p.box_m == 0 else p.box_m, box_n=1 if FRACTAL % p.box_n == 0 else p.box_n)
            key = (replace(plain, a=plain.c, b=plain.c), p.a.bytes, p.b.bytes)
            first.setdefault(key, plain)
            found.setdefault(key, []).append(entry.name)
    items = [Item(name_of(first[k]), first[k], tuple(dict.fromkeys(names))) for k, names in found.items()]
    return (*items, *broken)
