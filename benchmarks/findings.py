"""Make the tables of docs/findings.md again: ``make findings``, or ``python benchmarks/findings.py [RESULTS]``.

Runs both studies on the standard suite for both targets (rows that are in RESULTS already are not run again), and puts their
tables between the marks of the page. What the page says about them is for a person to check.
"""

from __future__ import annotations

import re
import statistics
import sys
from math import expm1, log1p
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilesat.studies.comparison import Comparison
    from tilesat.studies.effects import Ablation

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "findings.md"
TARGETS = ("ascend910b", "ascend950")
USER_MODEL = f"{ROOT / 'examples' / 'user_cost_model.py'}:PipelineFill"
SETS = ("reference", f"all,-mn_grid,{ROOT / 'examples' / 'user_rule.py'}:POWERS_OF_TWO")
#: The table of effects keeps these columns, for width.
KEPT = (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11)
STRONGEST = 12
#: Pairs whose mean interaction is smaller, and that lose fewer programs only together, are not shown.
MEAN, LOST = 0.005, 3


def form(product: list[int], tile: list[object]) -> str:
    """What kind of schedule a tile is for a product."""
    (M, N, K), (m, n, k, held, _, accumulators) = product[:3], tile
    if m >= M and n >= N and k >= K:
        return "the product as it stands, in one block"
    if k < K:
        return "K in panels"
    operands = "both operands in two buffers" if held == "output" else f"{held.upper()} held in one buffer"
    edge = ", with a boundary" if M % m or N % n else ""
    return f"all of K, {operands}, {'two accumulators' if accumulators == 2 else 'one accumulator'}{edge}"


def by_form(found: Comparison, model: str) -> str:
    """Regret of a model's picks, and the referee's cycles over the predicted ones, by what kind of schedule was picked."""
    from tilesat.studies.tables import markdown, number, percent

    groups: dict[str, list[tuple[float, float]]] = {}
    for r in found.results.values():
        f = r["models"].get(model, {})
        if "tile" in f:
            groups.setdefault(form(r["problem"], f["tile"]), []).append((f["regret@1"], f["referee"] / f["predicted"]))
    rows = []
    for name, pairs in sorted(groups.items(), key=lambda g: -len(g[1])):
        mean = expm1(statistics.fmean(log1p(r) for r, _ in pairs))
        rows.append(
            (
                name,
                str(len(pairs)),
                percent(mean),
                percent(max(r for r, _ in pairs)),
                number(statistics.geometric_mean(q for _, q in pairs)),
            )
        )
    return markdown(("what was picked", ">products", ">regret: mean", ">worst", ">simulated / predicted"), rows)


def tables(results: Path) -> dict[str, str]:
    """Every table of the page, by its mark."""
    from cost.models import cost_models
    from tilesat.studies import ablate, compare_cost_models
    from tilesat.studies.ablation_text import never_fired, statement
    from tilesat.studies.comparison_text import measured_table, summary_table
    from tilesat.studies.comparison_text import statement as asked
    from tilesat.studies.tables import markdown

    found: dict[str, str] = {}
    for target in TARGETS:
        models = [*cost_models(), USER_MODEL]
        c = compare_cost_models("standard", models, target, out=results / f"cost-models-{target}", progress=True)
        found[f"models {target}"] = asked(c) + "\n" + markdown(*summary_table(c))
        found[f"forms {target}"] = by_form(c, "roofline")
        found["measured"] = markdown(*measured_table(c.measured))
        a = ablate("standard", target=target, out=results / f"ablation-{target}", progress=True)
        found[f"effects {target}"] = f"{statement(a)}\n\n{effects(a)}\n{never_fired(a)}\n"
        found[f"sets {target}"] = effects(
            ablate("standard", design=SETS, target=target, out=results / f"sets-{target}", progress=True)
        )
    found["interactions"] = strongest(ablate("standard", design="pairs", out=results / "pairs-ascend910b", progress=True))
    return found


def effects(found: Ablation) -> str:
    """The table of effects, as wide as a page."""
    from tilesat.studies.ablation_text import effects_table
    from tilesat.studies.tables import markdown

    columns, rows = effects_table(found)
    return markdown([columns[i] for i in KEPT], [[Path(r[0]).name, *(r[i] for i in KEPT[1:])] for r in rows])


def strongest(pairs: Ablation) -> str:
    """The pairs with the strongest mean interaction, and those that only together leave most programs without a plan."""
    from tilesat.studies.ablation_text import effect_text
    from tilesat.studies.tables import markdown

    by_mean = sorted(pairs.interactions, key=lambda i: -abs(i.mean or 0.0))[:STRONGEST]
    by_lost = sorted(pairs.interactions, key=lambda i: -len(i.lost))[:STRONGEST]
    rows = [
        (i.a, i.b, str(i.programs), effect_text(i.mean), effect_text(i.most), i.most_program or "–", str(len(i.lost)))
        for i in sorted({*by_mean, *by_lost}, key=lambda i: -abs(i.mean or 0.0))
        if len(i.lost) >= LOST or abs(i.mean or 0.0) >= MEAN
    ]
    return markdown(("a", "b", ">programs", ">mean", ">strongest", "where", ">lost by both only"), rows)


def main() -> None:
    made = tables(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "results"))
    page = PAGE.read_text(encoding="utf-8")
    for mark, table in made.items():
        pattern = re.compile(rf"(<!-- table: {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
        assert pattern.search(page), f"{PAGE.name} has no mark for {mark!r}"
        page = pattern.sub(lambda m, t=table: f"{m[1]}\n{t.strip()}\n\n{m[2]}", page)
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
