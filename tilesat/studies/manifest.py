"""The manifest of a study: everything its results depend on, and where they were made."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from tilesat.studies import fingerprint
from tilesat.studies.work import Study

if TYPE_CHECKING:
    from cost.models import CostModel
    from egraph_rules.catalogue import RuleSet
    from tilesat.studies.referee import Referee

SCHEMA = "tilesat.study/1"


def manifest(study: Study) -> dict[str, Any]:
    """``study`` is what must be the same for rows to belong together; ``made`` is for the record."""
    import tilesat

    packages = {name: _version(name) for name in ("egglog", "numpy", "scipy", "networkx", "ml_dtypes")}
    return {
        "schema": SCHEMA,
        "study": {"kind": study.kind, "tilesat": tilesat.__version__, "egglog": packages["egglog"], **study.identity()},
        "made": {
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": sys.version.split()[0],
            "system": f"{platform.system()} {platform.machine()}",
            "packages": packages,
        },
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # pragma: no cover - a vendored copy
        return "unknown"


def rule_set(found: RuleSet) -> dict[str, Any]:
    """A rule set's definition: its policy, and of every family its rules and a fingerprint of all they say."""
    families = {}
    for f in found.families:
        said = "\n".join(r.render() for r in f.rules)
        families[f.name] = {"rules": [r.name for r in f.rules], "digest": fingerprint.digest(said)}
    return {"policy": found.policy, "families": families}


def model(found: CostModel) -> dict[str, Any]:
    """A cost model's definition: its name, a fingerprint of its source where that can be read, and one of what it holds."""
    function = getattr(found, "function", None)
    thing = found if function is None else function
    return {
        "name": found.name,
        "source": fingerprint.source(type(found).price if function is None else function),
        "state": fingerprint.state(thing),
    }


def referee(found: Referee) -> str | dict[str, Any]:
    """A referee's definition: the simulator's name, or that of the model that is taken as the truth."""
    return found.name if found.model is None else model(found.model)
