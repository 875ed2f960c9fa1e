"""Run the placement rules on the values of one program: facts in, a saturated e-graph's rows out."""

from __future__ import annotations

from egraph_rules.engine import Engine, Facts, Frozen, Session, kept_engine
from egraph_rules.placement import language as L
from egraph_rules.placement.families import FAMILIES
from egraph_rules.report import Limits, Report


def saturate(facts: Facts, limits: Limits | None = None) -> tuple[Frozen, Report]:
    """Run every placement family on ``facts`` to its fixpoint, or to a limit that the report names."""
    with Session(kept_engine("placement", _engine), facts) as session:
        report = session.run(limits or Limits())
        return session.freeze(), report


def _engine() -> Engine:
    return Engine(FAMILIES, L.axioms(), L)
