"""The comparison of cost models: its figures found again by other means, ill-behaved models, names, reports."""

from __future__ import annotations

import copy
import csv
import io
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import brute_force
import numpy as np
import pytest
from scipy import stats
from study_samples import broken, half_price, large_tiles, small_tiles

import tilesat
from cost import roofline
from cost.hardware import get_target
from cost.models import cost_model, cost_models, wall_only
from cost.problem import STATIONARITY, Candidates, Problem
from cost.simulator.schedule import simulated_cycles
from extraction.policy import price
from tilesat import corpus
from tilesat.choose import saturate
from tilesat.studies import StudyError, compare_cost_models
from tilesat.studies.cost_models import CostModelStudy
from tilesat.studies.problems import distinct, name_of

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
B910 = get_target("910B")
SMALL = (Problem.of(64, 128, 64), Problem.of(48, 64, 160))


@pytest.fixture(scope="module")
def small():
    """Every candidate of two small products, by all models."""
    return compare_cost_models(SMALL, target=B910, sample=0, workers=0)


def every_candidate(problem):
    """All legal candidates by brute force, both loop orders where the product has them (rule set "all")."""
    case = {"target": "ascend910b", "dtype": "bf16", "M": problem.M, "N": problem.N, "K": problem.K}
    case |= {"operand_stationary": True, "double_buffer_c": True}
    return case


# -- figures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", SMALL, ids=name_of)
def test_figures_of_one_product_by_other_means(small, problem):
    snapshot, _ = saturate(problem, B910, tilesat.rules("all"))
    candidates = snapshot.schedules[0].candidates
    cycles = simulated_cycles(candidates, problem, B910).tolist()
    walls = roofline.price(candidates, problem, B910).wall.tolist()
    found = small.results[name_of(problem)]
    assert found["candidates"] == found["asked"] == found["sample"] == len(cycles)
    mine = found["models"]["roofline"]
    assert mine["tau"] == pytest.approx(stats.kendalltau(walls, cycles).statistic)
    assert mine["spearman"] == pytest.approx(stats.spearmanr(walls, cycles).statistic)
    assert mine["mape"] == pytest.approx(statistics.fmean(abs(w / c - 1) for w, c in zip(walls, cycles, strict=True)))
    scores = []
    for i, j in itertools.combinations(range(len(cycles)), 2):
        if max(cycles[i], cycles[j]) > 1.04 * min(cycles[i], cycles[j]):
            scores.append(0.5 if walls[i] == walls[j] else float((walls[i] < walls[j]) == (cycles[i] < cycles[j])))
    assert mine["pairwise"] == pytest.approx(statistics.fmean(scores))
    # the pick is among the best rounded walls, and its regret is against the best of all
    m, n, k, held, _, accumulators = mine["tile"]
    rows = [
        i
        for i in range(len(cycles))
        if (candidates.m[i], candidates.n[i], candidates.k[i], candidates.dbc[i]) == (m, n, k, accumulators)
        and STATIONARITY[candidates.stationarity[i]] == held
    ]
    assert mine["referee"] in [cycles[i] for i in rows]
    assert math.floor(mine["predicted"] + 0.5) == math.floor(min(walls) + 0.5)
    assert mine["regret@1"] == pytest.approx(mine["referee"] / min(cycles) - 1)
    assert found["best"]["cycles"] == min(cycles)


def test_a_referee_agrees_with_itself(small):
    found = compare_cost_models(SMALL, ["traffic", half_price, "roofline"], B910, referee="roofline", workers=0)
    for name in ("half_price", "roofline"):
        for metric, perfect in (("regret@1", 0), ("recall@1", 1), ("tau", 1), ("spearman", 1), ("pairwise", 1)):
            assert found.of(name, metric).worst == pytest.approx(perfect, abs=2e-3), (name, metric)
    assert found.of("half_price", "mape").median == pytest.approx(0.5)
    assert found.of("traffic", "mape").products == 0  # bytes are no cycles
    assert found.of("traffic", "tau").worst < 1


def test_summary_and_audit_by_hand(small):
    regrets = [small.results[name_of(p)]["models"]["traffic"]["regret@1"] for p in SMALL]
    of = small.of("traffic", "regret@1")
    assert (of.products, of.worst) == (2, max(regrets))
    assert of.median == pytest.approx(sum(regrets) / 2)
    assert of.mean == pytest.approx(math.sqrt((1 + regrets[0]) * (1 + regrets[1])) - 1)
    taus = [small.results[name_of(p)]["models"]["traffic"]["tau"] for p in SMALL]
    assert small.of("traffic", "tau").mean == pytest.approx(sum(taus) / 2)
    assert small.of("traffic", "tau").worst == min(taus)
    for row in small.audit:
        picks = [(small.results[name_of(p)]["models"][row["a"]], small.results[name_of(p)]["models"][row["b"]]) for p in SMALL]
        differ = [(a["referee"], b["referee"]) for a, b in picks if a["tile"] != b["tile"]]
        assert row["differ"] == len(differ)
        assert row["a_better"] == sum(a < b for a, b in differ)
        assert row["b_better"] == sum(a > b for a, b in differ)
        if differ:
            assert row["ratio"] == pytest.approx(math.exp(statistics.fmean(math.log(b / a) for a, b in differ)))


def test_the_audit_sees_who_is_right():
    found = compare_cost_models(SMALL, [small_tiles, large_tiles], B910, referee="traffic", workers=0)
    (row,) = found.audit
    assert (row["differ"], row["a_better"], row["b_better"]) == (2, 0, 2)
    assert row["ratio"] < 1


def test_candidates_are_what_brute_force_allows(small):
    """The study's space holds the documented optimum: brute force over all legal points finds no smaller wall."""
    for p in SMALL:
        best = brute_force.brute_force(every_candidate(p))
        assert small.results[name_of(p)]["models"]["roofline"]["predicted"] <= best["wall_cycles"] + 0.5


def test_sampling_keeps_every_models_first_ten():
    problem = Problem.of(128, 128, 128)
    found = compare_cost_models([problem], ["roofline", "random"], B910, sample=60, workers=0)
    whole = compare_cost_models([problem], ["roofline", "random"], B910, sample=0, workers=0)
    (a,), (b,) = found.results.values(), whole.results.values()
    assert a["sample"] == 60 < a["asked"] <= 80 < b["asked"] == b["candidates"]
    for model in ("roofline", "random"):
        assert a["models"][model]["tile"] == b["models"][model]["tile"]
        assert a["models"][model]["referee"] == b["models"][model]["referee"]
        assert abs(a["models"][model]["tau"] - b["models"][model]["tau"]) < 0.2
    fewer = compare_cost_models([problem], ["roofline"], B910, sample=60, workers=0)
    assert next(iter(fewer.results.values()))["models"]["roofline"]["tau"] == a["models"]["roofline"]["tau"]


def test_the_same_product_is_studied_once():
    fp16 = Problem.of(64, 128, 64, tilesat.corpus.suite("smoke").entries[0].problem.a.__class__("fp16", "FP16", 16, "float"))
    items = distinct(corpus.load([SMALL[0], fp16, SMALL[1]]), B910)
    assert [i.name for i in items] == ["64x128x64-bf16", "48x64x160-bf16"]
    assert len(items[0].entries) == 2


# -- models --------------------------------------------------------------------------------------------------------------


def test_a_broken_model_is_named_and_the_rest_runs():
    tall = Problem.of(128, 64, 64)
    found = compare_cost_models([SMALL[0], tall], ["roofline", broken], B910, workers=0)
    assert found.priced == ("roofline", "broken")  # it has a price for every tile of the first product
    assert list(found.figures("broken", "tau")) == []  # ... the same for all, which is no order
    ((product, why),) = found.failures("broken").items()
    assert product == name_of(tall)
    assert re.search(r"'broken' on 128x64x64 bf16: priced candidate \d+: (80|96|112|128)x\d+x\d+, .* at wall = nan", why)
    assert "Models that failed" in str(found)


def test_one_name_is_one_model():
    assert compare_cost_models([SMALL[0]], "roofline", B910, workers=0).models == ("roofline",)


def test_a_model_of_another_target_is_named():
    found = compare_cost_models([SMALL[0]], ["roofline", "roofline-v1"], "950", workers=0)
    assert found.priced == ("roofline",)
    assert "published for ascend910b only" in str(found)


def test_a_model_from_a_file_in_worker_processes():
    place = f"{EXAMPLES / 'user_cost_model.py'}:PipelineFill"
    found = compare_cost_models(SMALL, ["roofline", place], B910, workers=1)
    assert found.models == ("roofline", "pipeline-fill")
    again = compare_cost_models(SMALL, ["roofline", place], B910, workers=0)
    assert str(found) == str(again)


def test_the_example_model_by_hand():
    """One block of 64 x 64 x 64: nothing overlaps, so load + product + drain."""
    from cost.places import load_object

    model = load_object(f"{EXAMPLES / 'user_cost_model.py'}:PipelineFill")()
    wall = model.price(Candidates.of([(64, 64, 64, 0, True, 1)]), Problem.of(64, 64, 64), B910).wall[0]
    load, product, drain = 64 * 64 * 2 * (1 / 129.7 + 1 / 85.4), 21 + 4 * 4 * 4, 164 + 64 * 4.45
    assert wall == pytest.approx(load + product + drain)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"models": ["roofine"]}, tilesat.CostModelError, "Did you mean 'roofline'"),
        ({"models": ["roofline", half_price, half_price]}, StudyError, "two cost models are called 'half_price'"),
        ({"models": []}, StudyError, "no cost model to compare"),
        ({"referee": "simulato"}, StudyError, "Did you mean 'simulator'"),
        ({"rules": "al"}, tilesat.RuleSetError, "did you mean 'all'"),
        ({"corpus": "smok"}, corpus.CorpusError, "Did you mean 'smoke'"),
        ({"target": "911"}, tilesat.TargetError, "unknown target"),
        ({"sample": -1}, StudyError, "sample = -1"),
        ({"models": ["nowhere.py:X"]}, tilesat.CostModelError, "there is no file nowhere.py"),
        ({"models": [f"{EXAMPLES / 'user_cost_model.py'}:PipelineFil"]}, tilesat.CostModelError, "Did you mean 'PipelineFill'"),
        ({"models": ["no.such.module:X"]}, tilesat.CostModelError, "importing no.such.module failed"),
    ],
)
def test_names_that_mean_nothing(given, error, message):
    with pytest.raises(error, match=re.escape(message)):
        compare_cost_models(**{"corpus": SMALL, "target": B910, "workers": 0, **given})


class Scaled:
    """The rows of a tile, times a factor: the same source whatever the factor."""

    name = "scaled"

    def __init__(self, factor):
        self.factor = factor

    def price(self, candidates, problem, target):
        return wall_only(candidates.m * self.factor)


def scaled_function(factor, *, more=0.0):
    def scaled(candidates, problem, target, more=more):
        return candidates.m * factor + more

    return scaled


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Scaled(2.0), Scaled(3.0)),
        (Scaled(np.arange(3.0)), Scaled(np.arange(1.0, 4.0))),
        (Scaled({"a": {1, 2}}), Scaled({"a": {1, 3}})),
        (scaled_function(2.0), scaled_function(3.0)),
        (scaled_function(2.0), scaled_function(2.0, more=1.0)),
        (scaled_function(Scaled(2.0)), scaled_function(Scaled(3.0))),
    ],
)
def test_models_that_hold_other_numbers_are_another_study(one, other):
    def identity(model, referee="simulator"):
        study = CostModelStudy("x", "", (), (model,), B910, referee, "all", 0, 0)
        return study.identity()

    assert identity(one) == identity(copy.deepcopy(one))
    assert identity(one) != identity(other)
    assert identity("roofline", one) == identity("roofline", copy.deepcopy(one))
    assert identity("roofline", one) != identity("roofline", other)


def test_a_folder_with_another_referee_of_the_same_name_is_refused(tmp_path):
    compare_cost_models(SMALL[:1], ["traffic"], B910, referee=Scaled(2.0), workers=0, out=tmp_path)
    compare_cost_models(SMALL[:1], ["traffic"], B910, referee=Scaled(2.0), workers=0, out=tmp_path)
    with pytest.raises(StudyError, match=r"holds another study: referee\.state is "):
        compare_cost_models(SMALL[:1], ["traffic"], B910, referee=Scaled(3.0), workers=0, out=tmp_path)


def test_fingerprints_go_by_content(tmp_path):
    """The same in another process, whatever the seed of its hashes; what is found out later does not count; no endless loops."""
    code = (
        "from functools import cached_property, partial\n"
        "from tilesat.studies.fingerprint import state\n"
        "class Model:\n"
        "    __slots__ = ('one', '__dict__')\n"
        "    def __init__(self): self.one, self.names, self.me = 1, {'x', 'y', 'z', 'w'}, self\n"
        "    @cached_property\n"
        "    def late(self): return 1\n"
        "m = Model(); first = state(m); m.late; assert state(m) == first\n"
        "m.one = 2; assert state(m) != first; m.one = 1\n"
        "assert state(len) is None and state(lambda: 1) is None and state(partial(pow, 2)) != state(partial(pow, 3))\n"
        "print(state(m), state(m.__init__) == state(m))\n"
    )
    (tmp_path / "prints.py").write_text(code)

    def printed(seed):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, tmp_path / "prints.py"], env=env, capture_output=True, text=True, check=False)
        assert not run.stderr
        return run.stdout

    assert printed("1") == printed("2") == printed("3")
    assert printed("1").endswith("True\n")


def test_entries_that_cannot_be_studied_are_rows(tmp_path):
    table = tmp_path / "shapes.csv"
    table.write_text("M,N,K,dtype\n64,64,64,bf16\n64,x,64,bf16\n")
    found = compare_cost_models(table, ["roofline"], B910, workers=0)
    assert list(found.results) == ["64x64x64-bf16"]
    assert "N = 'x' is no extent" in found.errors["entry shapes.csv line 3"]
    none = compare_cost_models([Problem.of(64, 64, 40), SMALL[0]], ["roofline"], B910, workers=0)
    assert none.errors["64x64x40-bf16"].startswith("Rejected: K = 40 is not a multiple of 16")


# -- files ---------------------------------------------------------------------------------------------------------------

SAME = ("summary.csv", "products.csv", "audit.csv", "differences.csv", "measured.csv", "report.md")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    return out, compare_cost_models(SMALL, target=B910, sample=50, out=out, workers=2)


def test_workers_do_not_change_the_tables(kept, tmp_path):
    out, _ = kept
    compare_cost_models(SMALL, target=B910, sample=50, out=tmp_path, workers=0)
    for name in SAME:
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_the_tables_hold_the_figures(kept):
    out, found = kept
    rows = list(csv.DictReader(io.StringIO((out / "summary.csv").read_text())))
    assert {(r["model"], r["metric"]) for r in rows} >= {(m, "tau") for m in cost_models()}
    for r in rows:
        s = found.of(r["model"], r["metric"])
        assert r["median"] == ("" if s.median is None else format(s.median, ".10g"))
    products = list(csv.DictReader(io.StringIO((out / "products.csv").read_text())))
    assert len(products) == len(SMALL) * len(cost_models())
    timings = list(csv.DictReader(io.StringIO((out / "timings.csv").read_text())))
    assert all(float(t["selection"]) > 0 for t in timings)
    study = json.loads((out / "manifest.json").read_text())["study"]
    assert study["target"]["roofline"]["bw_l0a"] == 129.7
    assert study["rules"]["families"]["k_split"]["rules"]
    assert (study["seed"], study["sample"], study["referee"]) == (0, 50, "simulator")


class Page(HTMLParser):
    """What a page holds: tags that are open, attributes that point elsewhere, cells, pictures."""

    VOID = ("meta", "br", "img", "link", "path", "rect", "use")

    def __init__(self):
        super().__init__()
        self.open, self.links, self.cells, self.ids, self.pictures = [], [], [], [], 0
        self.cell = False

    def handle_starttag(self, tag, attrs):
        self.pictures += tag == "svg"
        for key, value in attrs:
            if key in ("src", "href", "xlink:href", "action", "data"):
                self.links.append(value)
            if key == "id":
                self.ids.append(value)
        self.cell = tag in ("td", "th")
        if tag not in self.VOID or ("svg" in self.open and tag not in ("meta",)):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        for key, value in attrs:
            if key in ("src", "href", "xlink:href"):
                self.links.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.cell:
            self.cells.append(data)


def read_page(path):
    page, text = Page(), path.read_text()
    page.feed(text)
    return page, text


def test_the_report_stands_alone(kept):
    out, _ = kept
    page, text = read_page(out / "report.html")
    assert page.open == []
    assert all(link.startswith("#") for link in page.links), "nothing is fetched"
    assert not re.search(r"<script|@import|url\((?!#)|https?:|xlink:", text), "nor is any address named"
    assert page.pictures == 5  # regrets, τ, measured pairs, two timelines
    assert len(page.ids) == len(set(page.ids))
    for model in cost_models():
        assert model in page.cells


def test_the_reports_worst_case_is_the_worst(kept):
    out, found = kept
    worst = found.of("roofline", "regret@1")
    assert worst.worst_product in read_page(out / "report.html")[1]
    assert worst.worst == max(found.figures("roofline", "regret@1").values())


def test_a_report_without_matplotlib_says_so(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = compare_cost_models([SMALL[0]], ["roofline"], B910, workers=0)
    text = found.files()["report.html"]
    assert "pip install" in text
    assert "<svg" not in text


def test_pricing_an_existing_snapshot_is_quick():
    """Another model on a snapshot of 2,000 candidates: under 5 ms."""
    problem = Problem.of(512, 512, 256)
    snapshot, _ = saturate(problem, B910, tilesat.rules("all"))
    schedules = snapshot.schedules[0]
    assert len(schedules) > 1900
    rows = np.arange(len(schedules))
    for name in cost_models():
        model, times = cost_model(name), []
        for _ in range(7):
            began = time.perf_counter()
            price(schedules, problem, model, B910).best_of(rows)
            times.append(time.perf_counter() - began)
        assert min(times) < 0.005, name
