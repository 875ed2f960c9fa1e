"""`choose_tile`: the L0 tile of one product, through the same rules, snapshot and policy as whole programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cost.errors import Rejected, TilesatError

if TYPE_CHECKING:
    from cost.dtypes import DType
    from cost.hardware import Target
    from cost.problem import Problem
    from egraph_rules.catalogue import RuleSet
    from egraph_rules.report import Limits, Report
    from extraction.policy import Priced
    from extraction.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Tile:
    """The chosen schedule of a product.

    ``m``, ``n``, ``k`` in elements; ``stationarity`` "output", "a" or "b"; ``os_holds_a``: does the outer loop hold A's panel
    (meaningful for output-stationary with k = K); ``wall_cycles`` rounded to the nearest; ``traffic_bytes`` with true extents;
    ``padded_volume`` in multiply-accumulates, every tile charged as a full one.
    ``unit`` is what the cost model counts in ``wall_cycles`` and ``breakdown``.
    """

    m: int
    n: int
    k: int
    stationarity: str
    double_buffer_c: bool
    os_holds_a: bool
    wall_cycles: int
    traffic_bytes: int
    padded_volume: int
    breakdown: dict[str, float]
    unit: str = "cycles"


def choose_tile(
    *,
    M: int,
    N: int,
    K: int,
    dtype: str | DType,
    target: str | os.PathLike[str] | Target,
    operand_stationary: bool = False,
    double_buffer_c: bool = False,
    accumulate: bool = False,
    box_m: int = 1,
    box_n: int = 1,
    bias: str | None = None,
    allow_padding: bool = False,
    rules: str | RuleSet = "reference",
    cost_model: object = "roofline",
) -> Tile:
    """The L0 tile of C[M, N] = A[M, K] @ B[K, N] on one core (specification 1, "ChooseL0Tile").

    ``dtype`` is the operands' element type (the accumulator is fp32, or int32 for integers). ``operand_stationary`` opens A- and
    B-stationary schedules, ``double_buffer_c`` two accumulators. ``accumulate``: the accumulator is read too. ``box_m`` and
    ``box_n`` are the physical boxes of a window. ``bias`` is None, "mat" (rebuilt per window) or "bias" (in the bias table).
    ``allow_padding`` lets tiles go up to each extent rounded up to 16, and any K. ``target``, ``rules`` and ``cost_model`` are
    those of :func:`tilesat.tile`; a rule set that takes the cheapest plan takes the cheapest tile.

    Raises :class:`Rejected` where no tile is legal, :class:`TilesatError` for arguments that make no problem.
    """
    priced, row = _choose(
        _problem(M, N, K, dtype, accumulate, bias, box_m, box_n, allow_padding),
        target,
        operand_stationary,
        double_buffer_c,
        rules,
        cost_model,
    )
    return describe(priced, row)


def _problem(
    M: int, N: int, K: int, dtype: Any, accumulate: bool, bias: str | None, box_m: int, box_n: int, allow_padding: bool
) -> Problem:
    from cost.dtypes import dtype as element_type
    from cost.problem import Problem
    from egraph_rules.problem_facts import LARGEST_EXTENT

    for name, value in (("M", M), ("N", N), ("K", K), ("box_m", box_m), ("box_n", box_n)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise TilesatError(f"{name} = {value!r} is no extent: give a whole number of at least 1")
        if value >= LARGEST_EXTENT:
            raise TilesatError(f"{name} = {value} is beyond any tensor: give less than {LARGEST_EXTENT}")
    if bias not in (None, "mat", "bias"):
        raise TilesatError(f'bias = {bias!r}: give None, "mat" or "bias"')
    operand = element_type(dtype)
    if operand.bits < 8:
        raise Rejected(f"{operand} operands are narrower than a byte, which the cube path does not support")
    return Problem.of(M, N, K, operand, accumulate=accumulate, bias=bias, box_m=box_m, box_n=box_n, allow_padding=allow_padding)


def _choose(
    problem: Problem, target: Any, operand_stationary: bool, double_buffer_c: bool, rules: Any, cost_model: object
) -> tuple[Priced, int]:
    from cost.hardware import get_target
    from cost.models import cost_model as find_model
    from egraph_rules.catalogue import DOCUMENTED
    from egraph_rules.catalogue import rules as find_rules
    from extraction.policy import cheapest, documented, price

    chip, model, rule_set = get_target(target), find_model(cost_model), find_rules(rules)
    taken, _ = saturate(problem, chip, rule_set, operand_stationary=operand_stationary, double_buffer_c=double_buffer_c)
    schedules = taken.schedules.get(0)
    if schedules is None:
        raise Rejected(why_rejected(problem))
    priced = price(schedules, problem, model, chip)
    row = (documented if rule_set.policy == DOCUMENTED else cheapest)(priced)
    assert row is not None
    return priced, row


def saturate(
    problem: Problem,
    target: Target,
    rule_set: RuleSet,
    *,
    operand_stationary: bool = True,
    double_buffer_c: bool = True,
    limits: Limits | None = None,
) -> tuple[Snapshot, Report]:
    """Saturate one product's problem by itself; its legal candidates are ``snapshot.schedules[0]`` (missing: none is legal).

    One saturation serves any number of cost models: :func:`extraction.policy.price` prices the snapshot again.
    """
    from egraph_rules.engine import Session, engine_for
    from egraph_rules.problem_facts import largest_extent, state_problem
    from egraph_rules.program import ProgramFacts
    from egraph_rules.report import Limits
    from extraction.snapshot import snapshot

    facts = ProgramFacts()
    state_problem(facts, problem, target, operand_stationary=operand_stationary, double_buffer_c=double_buffer_c)
    with Session(engine_for(rule_set, largest_extent(target, facts.problems)), facts.facts) as session:
        report = session.run(limits or Limits())
        taken = snapshot(session.freeze(), facts, target, rule_set.names)
        report.classes = taken.class_count
    return taken, report


def why_rejected(problem: Problem) -> str:
    """The chooser's reason for a problem without a legal tile, with the numbers that bind."""
    p = problem
    if not p.allow_padding and p.K % 16:
        return f"K = {p.K} is not a multiple of 16, and no panel narrower than a fractal is legal; pad K to a multiple of 16"
    if p.bias is not None and not p.allow_padding and p.N % p.align_n:
        return f"N = {p.N} is not a multiple of {p.align_n}, the box of a biased product's columns; pad N"
    small = [f"{name} = {x}" for name, x in (("M", p.M), ("N", p.N), ("K", p.K)) if x < 16]
    if small and not p.allow_padding:
        return f"{', '.join(small)}: below the smallest tile, 16; pad to 16"
    return f"no tile of {p.M} × {p.N} × {p.K} in {p.a} fits L0A, L0B, L0C and the bias table together"


def describe(priced: Priced, row: int) -> Tile:
    """One candidate with its figures."""
    import numpy as np

    from cost.volume import padded_volume, traffic_bytes

    choice = priced.choice(row)
    one = priced.schedules.candidates.take(np.array([row]))
    return Tile(
        choice.m,
        choice.n,
        choice.k,
        choice.stationarity,
        choice.double_buffer_c,
        choice.holds_a,
        int(priced.prices.wall_rounded[row]),
        int(traffic_bytes(one, priced.problem)[0]),
        int(padded_volume(one, priced.problem)[0]),
        priced.prices.terms(row),
        priced.prices.unit,
    )
