"""Why a product is left as it stands, in the documented order of checks, with numbers a kernel author can act on."""

from __future__ import annotations

from cost.physical import align_up
from cost.problem import Problem
from egraph_rules.language import FRACTAL, problem
from egraph_rules.program import NO_VALUE, ProductSite, Refusal
from extraction.snapshot import Snapshot

#: The families whose rules make tiles that are less than the whole product.
MAKERS_OF_TILES = ("k_split", "mn_grid", "stationarity")


def nothing_legal(snap: Snapshot, site: ProductSite, stopped: str | None) -> Refusal:
    """No candidate at all: the chooser refuses (005), or a limit ended the run first (008)."""
    if stopped is not None:
        return Refusal("PH-AT-008", f"the {stopped} ended the run before a tile was found; raise the limit to have it tiled")
    p = snap.program.problems[site.problem]
    if p.bias == "bias" and p.N * p.c.bytes <= snap.target.bias:
        return Refusal("PH-AT-006", f"its bias lies in the bias table and cannot be cut, but no tile keeps N = {p.N} whole")
    if p.bias == "bias":
        table = f"{snap.target.bias} bytes"
        return Refusal("PH-AT-005", f"the bias of N = {p.N} exceeds the bias table of {table}; load it to Mat, where it is cut")
    return Refusal("PH-AT-005", f"no tile of {p.M} × {p.N} × {p.K} in {p.a} fits L0; {_why_nothing_fits(snap, site.problem, p)}")


def _why_nothing_fits(snap: Snapshot, index: int, p: Problem) -> str:
    """The first thing that keeps every tile of a problem away: its extents, the rule set, the pipelines around it, the target."""
    small = [f"{name} = {x}" for name, x in (("M", p.M), ("N", p.N), ("K", p.K)) if x < FRACTAL and not p.allow_padding]
    if small:
        return f"{_and(small)} must be padded to {FRACTAL}"
    odd = [f"{name} = {x}" for name, x in (("N", p.N), ("K", p.K)) if x % p.align_n and not p.allow_padding]
    if odd and p.bias is not None:
        return f"beside a bias in {p.a}, {_and(odd)} must be padded to a multiple of {p.align_n}"
    absent = [name for name in MAKERS_OF_TILES if name not in snap.families]
    if absent:
        return f"the rule set is without {_and(absent)}, which would make others"
    stated = _stated(snap, index)
    if p.bias is not None and stated["bias_cap"] < p.align_n:
        return f"of each copy of its bias that the pipelines around it keep, the bias table holds {stated['bias_cap']} columns"
    if stated["panels"] > 1:
        return f"the pipeline around it keeps {stated['panels']} copies of each panel; give it fewer stages"
    return f"L0A, L0B and L0C of {snap.target.name} hold {snap.target.l0a}, {snap.target.l0b} and {snap.target.l0c} bytes"


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _stated(snap: Snapshot, index: int) -> dict[str, int]:
    """What is stated of a problem, by column."""
    names = [name for name, _ in problem.columns]
    rows = (dict(zip(names, row, strict=True)) for row in snap.program.facts[problem.name])
    return next(row for row in rows if row["p"] == index)


def no_room(snap: Snapshot) -> Refusal:
    """What its tiling would keep in Mat does not fit beside the rest (006)."""
    why = f"what its tiling keeps in Mat does not fit there beside the other tiles alive, {snap.target.mat} bytes in all"
    return Refusal("PH-AT-006", f"{why}; load or store some of them nearer to where they are used")


def no_placement(snap: Snapshot, site: ProductSite, left_in_mat: bool, chain_refusal: str | None) -> list[Refusal]:
    """Why a tile that cuts the output has nowhere to go."""
    p = snap.program.problems[site.problem]
    what = f"the {p.M} × {p.N} output must be cut"
    if site.op == "matmul_acc" and chain_refusal is not None:
        return [Refusal("PH-AT-006", f"{what}, but its split-K chain is not recognised: {chain_refusal}")]
    if site.op == "matmul_acc":
        return [Refusal("PH-AT-006", f"{what}, but the caller owns its accumulator; write it as a split-K chain to have it cut")]
    if not left_in_mat:
        return [Refusal("PH-AT-006", f"{what}, but its left operand lies in Vec; load it to Mat")]
    if p.M % FRACTAL or p.N % FRACTAL:
        fix = f"pad it to {align_up(p.M, FRACTAL)} × {align_up(p.N, FRACTAL)} and narrow its valid shape"
        return [Refusal("PH-AT-006", f"{what}, but a boundary window would be no whole fractal of {FRACTAL}; {fix}")]
    if site.bias == "Mat" and "bias_rebuildable" not in snap.facts_of(site.v):
        return [Refusal("PH-AT-011", f"{what}, but its bias cannot be loaded window by window: {site.bias_refusal}")]
    scratch = _no_scratch(snap, site, what)
    if scratch is not None and scratch.code == "PH-AT-006":
        return [scratch]
    store = _no_store(snap, site, what)
    return [store] if scratch is None else [scratch, store]


def _no_scratch(snap: Snapshot, site: ProductSite, what: str) -> Refusal | None:
    """Why a product that only feeds matmuls has no scratch: the target's element types (009) before Mat's capacity (006)."""
    p, target = snap.program.problems[site.problem], snap.target
    feeds = "matrix_operand_only" in snap.facts_of(site.v)
    folds = site.cast != NO_VALUE and site.fold_refusal is None and "matrix_operand_only" in snap.facts_of(site.cast)
    if not feeds and not folds:
        return None
    if feeds and target.mat_scratch_needs_low_precision:
        need = "cast it with mode='rint' before the matmul that reads it"
        return Refusal("PH-AT-009", f"{what} and kept in Mat, which on {target.name} takes bf16 or fp16, not {p.c}; {need}")
    size = p.c.bytes if feeds else 2
    if p.M * p.N * size > target.mat:
        needed = f"{p.M}·{p.N}·{size} = {p.M * p.N * size} bytes"
        return Refusal("PH-AT-006", f"{what} and kept on chip, but {needed} exceed Mat's {target.mat}")
    return None


def _no_store(snap: Snapshot, site: ProductSite, what: str) -> Refusal:
    """Why the windows cannot be stored directly."""
    facts = snap.facts_of(site.v)
    if site.store_refusal is not None:
        return Refusal("PH-AT-006", f"{what} where it is stored, but {site.store_refusal}; store it first")
    if "stored_once" not in facts:
        return Refusal("PH-AT-006", f"{what}, but its one use is not a plain 2-D store, out = store(…), in its statement list")
    if site.bias is not None and "store_follows" not in facts:
        return Refusal("PH-AT-011", f"{what}, but its store is not the first statement after it that is not a load")
    if site.bias == "Bias":
        return Refusal("PH-AT-006", f"{what} along N, but its bias lies in the bias table and cannot be cut; load it to Mat")
    return Refusal("PH-AT-006", f"{what}, but no rule of the rule set places its windows")
