"""The command line: what it prints where, exit codes, files that appear whole or not at all, bad input, what interrupts it."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesat
from tilesat.cli import files, options, outcome, output
from tilesat.cli.app import COMMANDS, application
from tilesat.cli.run import compare

ROOT = Path(__file__).resolve().parents[1]
CHAIN = ROOT / "examples" / "chain.py"
MAIN = "import sys; from tilesat.cli import main; sys.argv[0] = 'tilesat'; main()"


class Ended:
    """How a command ended: its code, stdout, stderr."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        assert self.code in (0, 1), self.err
        return json.loads(self.out)


def tilesat_in_process(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ended:
    """Run a command in this process, as the console script does."""
    words = [str(a) for a in arguments]
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        application(words)(words)
    shown = capsys.readouterr()
    return Ended(ended.value.code if isinstance(ended.value.code, int) else 0, shown.out, shown.err)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *arguments: tilesat_in_process(capsys, *arguments)


def process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def variant(tmp_path: Path, old: str, new: str) -> Path:
    """The chain with one piece of its text replaced."""
    text = CHAIN.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "variant.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


MISSPELT = """import pypto.language as pl

@pl.jit.incore
def kernel(x: pl.Tensor[[16, 16], pl.FP32]):
    y = pl.matmull(x, x)
    return y
"""


def test_operations_that_may_be_misspelt_are_told_on_stderr(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(MISSPELT)
    line = f"note: pl.matmull is not known and is carried along as it stands; did you mean pl.matmul? [kernel, {file}:5:5]"
    for command in (["tile", file], ["tile", file, "--stop-after", "convert"], ["verify", file]):
        found = run(*command)
        assert found.code == 0
        assert line in found.err
        assert "did you mean" not in found.out
    assert "did you mean" not in run("tile", file, "--quiet").err
    (row,) = run("tile", file, "--json").json["unknown_operations"]
    assert row == {"op": "matmull", "nearest": "matmul", "function": "kernel", "where": f"{file}:5:5"}
    assert "did you mean matmul?" in run("run", file).err
    file.write_text(MISSPELT.replace("matmull", "matmul"))
    assert "note:" not in run("tile", file).err


# -- tile -----------------------------------------------------------------------------------------------------------------


def test_tile_prints_the_program_to_stdout_and_decisions_to_stderr(run: Any) -> None:
    ended = run("tile", CHAIN)
    assert ended.code == 0
    assert tilesat.ir.same(tilesat.parse(ended.out), tilesat.tile(tilesat.load(CHAIN)).program)
    head, c, d, last = ended.err.splitlines()
    assert head.split("  ")[0] == "product"
    assert "256 × 256 × 256" in c
    assert "64 × 128 × 256" in c
    assert c.endswith("4,713")
    assert d.startswith("d ")
    assert d.endswith("2,581")
    assert last.startswith("2 products, 7,294 cycles predicted; saturated")


def test_figures_are_in_the_units_of_the_model(run: Any) -> None:
    head, *_, last = run("tile", CHAIN, "--cost-model", "traffic").err.splitlines()
    assert head.endswith("  bytes")
    assert " bytes predicted; " in last
    assert "cycles" not in head + last
    lines = run("choose", 64, 64, 64, "--cost-model", "padded").out.splitlines()
    assert lines[1].startswith(f"{64**3:,} multiply-adds (")


def test_tile_quiet_says_nothing_else(run: Any) -> None:
    assert run("tile", CHAIN, "-q").err == ""


def test_tile_writes_out_and_keeps_stdout_empty(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "tiled.py"
    ended = run("tile", CHAIN, "--out", out)
    assert (ended.code, ended.out) == (0, "")
    assert out.read_text(encoding="utf-8") == str(tilesat.tile(tilesat.load(CHAIN)).program).rstrip("\n") + "\n"


def test_tile_may_replace_its_input(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "chain.py"
    path.write_bytes(CHAIN.read_bytes())
    path.chmod(0o640)
    assert run("tile", path, "-o", path).code == 0
    once = path.read_bytes()
    assert b"pl.tile.extract" in once
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert run("tile", path, "-o", path).code == 0
    assert path.read_bytes() == once
    assert os.listdir(tmp_path) == ["chain.py"]


def test_tile_follows_a_link(run: Any, tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_bytes(CHAIN.read_bytes())
    link.symlink_to(real)
    assert run("tile", link, "-o", link).code == 0
    assert link.is_symlink()
    assert "pl.tile.extract" in real.read_text(encoding="utf-8")


def test_tile_json_is_the_schema_that_the_page_lists(run: Any, tmp_path: Path) -> None:
    data = run("tile", CHAIN, "--json", "-t", "910B", "-o", tmp_path / "o.py").json
    head = ["schema", "file", "target", "planner", "rules", "cost_model", "extractor", "cycles"]
    assert list(data) == [*head, "decisions", "diagnostics", "unknown_operations", "report", "program"]
    assert (data["schema"], data["target"], data["cycles"]) == ("tilesat.tile/1", "ascend910b", 7294)
    fields = "name function op where M N K dtype form placement m n k stationarity double_buffer_c wall_cycles breakdown"
    assert list(data["decisions"][0]) == [*fields.split(), "candidates", "unit"]
    assert list(data["report"]) == ["stop", "iterations", "nodes", "seconds", "rules"]
    assert (tmp_path / "o.py").read_text(encoding="utf-8").strip() == data["program"].strip()


def test_tile_shows_hints(run: Any, tmp_path: Path) -> None:
    text = CHAIN.read_text(encoding="utf-8")
    for old, new in (("a: pl.Tensor[[256, 256]", "a: pl.Tensor[[256, 200]"), ("a, [0, 0], [256, 256]", "a, [0, 0], [256, 200]")):
        text = text.replace(old, new)
    for old, new in (("b: pl.Tensor[[256, 256]", "b: pl.Tensor[[200, 256]"), ("b, [0, 0], [256, 256]", "b, [0, 0], [200, 256]")):
        text = text.replace(old, new)
    path = tmp_path / "odd.py"
    path.write_text(text, encoding="utf-8")
    expected = tilesat.tile(tilesat.load(path)).diagnostics
    assert "PH-AT-007" in [h.code for h in expected]
    ended = run("tile", path)
    assert ended.code == 0
    assert [line for line in ended.err.splitlines() if line.startswith("[perf_hint")] == [str(h) for h in expected]
    hints = run("tile", path, "--json").json["diagnostics"]
    assert hints == [{"code": h.code, "op": h.op, "message": h.message, "where": h.where} for h in expected]


@pytest.mark.parametrize(
    ("words", "keywords"),
    [
        (["--target", "a5", "--planner", "pypto"], {"target": "ascend950", "planner": "pypto"}),
        (["--planner", "pypto", "--pypto-double-buffer-c"], {"planner": "pypto", "pypto_double_buffer_c": True}),
        (["--rules", "all,-cast_fold", "--extractor", "tree"], {"rules": "all,-cast_fold", "extractor": "tree"}),
        (["--cost-model", "traffic"], {"cost_model": "traffic"}),
        (["--force", "c=128,128,64", "--force", "d=64x128x64"], {"force": {"c": (128, 128, 64), "d": (64, 128, 64)}}),
        (["--limit-nodes", "50"], {"limits": tilesat.Limits(nodes=50)}),
        (["--limit-seconds", "0"], {"limits": tilesat.Limits(seconds=0)}),
    ],
)
def test_tile_options_reach_the_api(run: Any, words: list[str], keywords: dict[str, Any]) -> None:
    expected = tilesat.tile(tilesat.load(CHAIN), **keywords)
    assert run("tile", CHAIN, "-q", *words).out.strip() == str(expected.program).strip()


def test_tile_says_which_limit_ended_it(run: Any) -> None:
    assert "node limit" in run("tile", CHAIN, "--limit-nodes", "5").err.splitlines()[-1]
    assert "time limit" in run("tile", CHAIN, "--limit-seconds", "0").err.splitlines()[-1]


def test_stop_after_convert_prints_the_tile_program(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "linear.py"
    path.write_text(
        "import pypto.language as pl\n@pl.program\nclass L:\n    @pl.function(type=pl.FunctionType.InCore)\n"
        "    def f(self, x: pl.Tensor[[64, 512], pl.BF16], w: pl.Tensor[[512, 64], pl.BF16]) -> pl.Tensor[[64, 64], pl.FP32]:\n"
        "        y = pl.matmul(x, w, out_dtype=pl.FP32)\n        return y\n",
        encoding="utf-8",
    )
    shown = run("tile", path, "--stop-after", "convert")
    assert shown.code == 0
    assert shown.out.count("pl.tile.matmul(") == 1
    assert "pl.Mem.Left" not in shown.out
    assert "pl.Mem.Left" in run("tile", path).out


def test_a_program_comes_from_stdin() -> None:
    tiling = process("tile", "-", "-q", stdin=subprocess.PIPE)
    out, err = tiling.communicate(CHAIN.read_text(encoding="utf-8"), timeout=60)
    assert (tiling.returncode, err) == (0, "")
    assert "pl.tile.extract" in out


# -- the other commands ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "tiled.py"
    path.write_text(str(tilesat.tile(tilesat.load(CHAIN)).program), encoding="utf-8")
    return path


def test_verify(run: Any, tiled: Path) -> None:
    found = run("verify", CHAIN)
    assert found.code == 1
    assert found.out.splitlines() == [str(f) for f in tilesat.verify(tilesat.load(CHAIN))]
    assert found.err.strip() == f"{CHAIN}: 4 findings on ascend910b"
    clean = run("verify", tiled)
    assert (clean.code, clean.out) == (0, "")
    data = run("verify", CHAIN, "--json", "-t", "950").json
    assert data["target"] == "ascend950"
    assert list(data["findings"][0]) == ["code", "message", "function", "file", "line", "column"]
    assert data["findings"][0]["line"] == 23


def test_run_tells_what_came_out(run: Any) -> None:
    (row,) = run("run", CHAIN, "--json", "--seed", "4").json["outputs"]
    expected = tilesat.execute(tilesat.load(CHAIN), **tilesat.random_inputs(tilesat.load(CHAIN), seed=4))["out"]
    assert (row["name"], row["shape"], row["dtype"]) == ("out", [256, 128], "float32")
    assert (row["min"], row["max"]) == (expected.min(), expected.max())


def test_run_compares(run: Any, tiled: Path, tmp_path: Path) -> None:
    same = run("run", CHAIN, tiled)
    assert same.code == 0
    assert "equal, bit for bit" in same.out
    other = variant(tmp_path, 'mode="rint"', 'mode="floor"')
    assert run("run", CHAIN, other, "--seed", "1", "--json").json["agree"] is (run("run", CHAIN, other, "--seed", "1").code == 0)
    floats = run("run", CHAIN, other, "--floats", "--tolerance", "0")
    assert floats.code == 1
    assert "DIFFERENT" in floats.out
    assert run("run", CHAIN, other, "--floats", "--tolerance", "0.5").code == 0


def test_run_compares_a_tensor_kernel_with_what_became_of_it(run: Any, tmp_path: Path) -> None:
    """What the kernel returns is an output parameter of the converted and of the tiled program, and returned by them."""
    source, converted, tiled = (tmp_path / n for n in ("kernel.py", "converted.py", "tiled.py"))
    source.write_text(
        "import pypto.language as pl\n\n@pl.jit.incore\n"
        "def kernel(x: pl.Tensor[[64, 64], pl.BF16], o: pl.InOut[pl.Tensor[[64, 64], pl.BF16]]):\n"
        "    o[:, :] = pl.add(x, o)\n"
        "    return pl.matmul(x, x, out_dtype=pl.FP32), o, pl.add(x, x)\n"
    )
    run("tile", source, "--stop-after", "convert", "-o", converted)
    run("tile", source, "-o", tiled)
    for one, two in ((source, converted), (source, tiled), (tiled, source), (tiled, converted)):
        found = run("run", one, two, "--json")
        assert found.code == 0
        assert [(o["shape"], o["agree"]) for o in found.json["outputs"]] == [([64, 64], True)] * 3
    tiled.write_text(tiled.read_text().replace("tile.add(x_tile, x_tile)", "tile.sub(x_tile, x_tile)"))
    found = run("run", source, tiled, "--json")
    assert found.code == 1
    assert [o["agree"] for o in found.json["outputs"]].count(False) == 1


def test_run_saves_and_reads_back(run: Any, tiled: Path, tmp_path: Path) -> None:
    saved = tmp_path / "run.npz"
    first = run("run", CHAIN, "--floats", "--seed", "9", "--save", saved)
    with np.load(saved) as archive:
        assert sorted(archive.files) == ["in_a", "in_b", "in_e", "in_out", "out_out"]
    assert run("run", tiled, "--inputs", saved).out == first.out
    np.savez(tmp_path / "mine.npz", a=np.ones((256, 256)), b=np.ones((256, 256)), e=np.ones((256, 128)))
    (row,) = run("run", CHAIN, "--inputs", tmp_path / "mine.npz", "--json").json["outputs"]
    assert row["min"] == row["max"] == 256.0 * 256


def test_comparing_outputs_by_hand() -> None:
    x = np.array([[1.0, 2.0], [np.nan, 4.0]], dtype=np.float32)
    y = np.array([[1.0, 2.5], [np.nan, 4.0]], dtype=np.float32)
    (c,) = compare({"o": x}, {"o": y}, tolerance=0.1)
    assert (c.agree, c.differ, c.largest) == (False, 1, 0.5)
    assert c.text == "DIFFERENT: 1 of 4 elements differ, most at [0, 1]: 2 against 2.5"
    (c,) = compare({"o": x}, {"o": y}, tolerance=0.125)
    assert c.agree
    assert c.text.startswith("within tolerance")
    assert compare({"o": x}, {"o": x.copy()}, 0.0)[0].agree
    assert not compare({"o": x}, {"o": np.full_like(x, np.nan)}, 1.0)[0].agree
    assert not compare({"o": x}, {"o": x.astype(np.float64)}, 1.0)[0].agree
    assert [c.text for c in compare({"p": x}, {"q": x}, 1.0)] == [
        "only the first program has it",
        "only the second program has it",
    ]


def test_simulate(run: Any, tiled: Path, tmp_path: Path) -> None:
    assert run("simulate", tiled).out.strip() == str(tilesat.simulate(tilesat.load(tiled)))
    trace = tmp_path / "trace.json"
    data = run("simulate", tiled, "--residency", "mat", "--trace", trace, "--json").json
    assert data["cycles"] == tilesat.simulate(tilesat.load(tiled), residency="mat").cycles
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert run("simulate", tiled, "--capacity", "l0c=32768").code == 0


def test_simulate_writes_trace_and_picture_or_neither(
    run: Any, tiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    trace, plot = folder / "trace.json", folder / "timeline.svg"
    trace.write_text("old")
    for other, words in (
        (tmp_path / "missing" / "x.svg", "cannot write"),
        (folder / "x.jpg", "drawn as .svg or .png, not 'x.jpg'"),
        (folder, "'out'"),
    ):
        refused(run("simulate", tiled, "--trace", trace, "--plot", other), words)
    refused(run("simulate", tiled, "--trace", plot, "--plot", plot), "files of their own")
    refused(run("simulate", tiled, "--trace", folder), "Is a directory")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "matplotlib", None)
        refused(run("simulate", tiled, "--trace", trace, "--plot", plot), "tilesat[plots]")
    assert trace.read_text() == "old"
    assert list(folder.iterdir()) == [trace]
    pytest.importorskip("matplotlib")
    ended = run("simulate", tiled, "--trace", trace, "--plot", plot)
    assert ended.err.splitlines() == [f"wrote {trace}", f"wrote {plot}"]
    assert json.loads(trace.read_text())["traceEvents"]
    assert plot.read_text().startswith("<?xml")
    assert sorted(folder.iterdir()) == [plot, trace]


def test_files_may_be_pipes(tiled: Path) -> None:
    p = process("simulate", tiled, "--trace", "/dev/stderr")
    _, err = p.communicate()
    assert p.returncode == 0, err
    assert "traceEvents" in err
    p = process("tile", CHAIN, "--quiet", "--out", "/dev/stdout")
    out, err = p.communicate()
    assert (p.returncode, err) == (0, "")
    assert tilesat.parse(out).functions


def test_explain(run: Any) -> None:
    tiling = tilesat.tile(tilesat.load(CHAIN))
    assert run("explain", CHAIN, "c", "--against", "128,128,128").out.strip() == str(tiling.explain("c", (128, 128, 128))).strip()
    assert run("explain", CHAIN, "d", "--why-not", "mat_scratch_fp32").out.strip() == str(
        tiling.why_not("mat_scratch_fp32", "d")[0]
    )
    assert [s["label"] for s in run("explain", CHAIN, "c", "--json").json["schedules"]] == ["chosen", "runner-up"]
    assert run("explain", CHAIN, "d", "--why-not", "mat_scratch", "--json").json["answers"][0]["fired"] is False


def test_rules_lists_the_catalogue(run: Any) -> None:
    shown = run("rules").out
    for family in tilesat.rules("all").families:
        assert re.search(rf"^{family.name} +{len(family.rules)}  {re.escape(family.statement)}$", shown, re.M)
    assert [f["name"] for f in run("rules", "--rules", "k_split", "--json").json["families"]] == list(
        tilesat.rules("k_split").names
    )


def test_rules_profile_has_a_row_for_every_rule(run: Any) -> None:
    rows = run("rules", "--profile", CHAIN, "--rules", "reference", "--json").json["rules"]
    assert [r["rule"] for r in rows] == [r.name for r in tilesat.rules("reference").rules()]
    matches = {r["rule"]: r["matches"] for r in rows}
    assert matches["k_split"] > 0
    assert matches["mat_scratch_int32"] == 0
    plain = tilesat.tile(tilesat.load(CHAIN)).report
    assert matches == {r.name: r.matches for r in plain.rules}
    found = run("rules", "--profile", CHAIN, "--rules", "reference", "--json").json
    assert found["given"] + sum(r["nodes"] for r in rows) == found["nodes"] == plain.nodes
    assert {r["rule"] for r in rows if r["nodes"]} <= {r["rule"] for r in rows if r["matches"]}
    text = run("rules", "--profile", CHAIN, "--rules", "reference")
    assert len(text.out.splitlines()) == len(rows) + 3
    assert "most time: " in text.err


def test_targets(run: Any) -> None:
    assert re.search(r"^ascend910b +910B, a2a3 +65,536 +65,536 +131,072 ", run("targets").out, re.M)
    assert re.search(r"^roofline.bw_drain +30.0$", run("targets", "950").out, re.M)
    described = run("targets", "950", "--json").json
    assert described["bytes"]["l0c"] == 262144


def test_a_shown_target_is_a_target_again(run: Any, tmp_path: Path) -> None:
    data = run("targets", "950", "--json").json
    path = tmp_path / "copy.json"
    path.write_text(json.dumps({k: v for k, v in data.items() if k != "schema"}), encoding="utf-8")
    assert tilesat.load_target(path) == tilesat.get_target("950")


def test_choose(run: Any) -> None:
    data = run("choose", 512, 512, 512, "-d", "fp32", "-t", "950", "--json").json
    assert (data["m"], data["n"], data["k"], data["wall_cycles"]) == (256, 256, 32, 562214)
    words = ["--operand-stationary", "--double-buffer-c"]
    assert run("choose", 256, 256, 256, *words).out.startswith(
        "tile 64 × 128 × 256, b-stationary, two accumulators\n4,713 cycles"
    )


def test_batch(run: Any) -> None:
    from tilesat.batch import plan_batch

    plan = plan_batch(B=16, M=128, N=256, K=512, dtype="bf16")
    data = run("batch", 16, 128, 256, 512, "--json").json
    assert (data["branch"], data["params"], data["latency"]["total"]) == (plan.branch, plan.params, plan.latency.total)
    assert {n: tuple(r) for n, r in data["refused"].items()} == plan.refused
    shown = run("batch", 16, 128, 256, 512).out
    assert re.search(r"^m_t +128  rows of a block$", shown, re.M)
    for branch in plan.refused:
        assert re.search(rf"^{branch} +\S", shown, re.M)
    assert run("batch", 16, 128, 256, 512, "--program").out.strip() == str(plan.program).strip()
    words = [
        "--batch-b",
        1,
        "--bias",
        "shared",
        "--transpose-a",
        "--reading",
        "operator",
        "--order",
        "operator",
        "--nondeterministic",
    ]
    named = {
        "batch_b": 1,
        "bias": "shared",
        "transpose_a": True,
        "reading": "operator",
        "order": "operator",
        "deterministic": False,
    }
    other = plan_batch(B=4, M=128, N=256, K=512, dtype="fp16", **named)  # type: ignore[arg-type]
    assert run("batch", 4, 128, 256, 512, "-d", "fp16", "--json", *words).json["params"] == other.params


# -- bad input ------------------------------------------------------------------------------------------------------------


def refused(ended: Ended, *pieces: str) -> None:
    """Exit code 2 and one readable block on stderr."""
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("error: ") == 1
    assert "Traceback" not in ended.err
    for piece in pieces:
        assert piece in ended.err


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", ["the text is empty"]),
        ("x = = 3", [":1:5: not Python", "x = = 3"]),
        ("x = 3", ["@pl.program"]),
        ("import pypto.language as pl\nclass P:\n    pass\n", ["@pl.program"]),
        ("\ufeffx", ["there is no program"]),
    ],
)
def test_texts_that_are_no_program(run: Any, tmp_path: Path, text: str, pieces: list[str]) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text, encoding="utf-8")
    refused(run("tile", path, "-o", tmp_path / "out.py"), str(path), *pieces)
    assert not (tmp_path / "out.py").exists()


@pytest.mark.parametrize(
    ("old", "new", "piece"),
    [
        ("pl.BF16", "pl.BF61", "did you mean 'BF16'"),
        ("a: pl.Tensor[[256, 256]", "a: pl.Tensor[[-256, 256]", "negative dimension -256"),
        ("e, [0, 0], [256, 128]", "e, [0, 0], [192, 128]", "disagree on K"),
        ("b: pl.Tensor", "a: pl.Tensor", "two parameters named 'a'"),
        ("[256, 256], pl.BF16", "[" + "1, " * 10**6 + "1], pl.BF16", "expected at most"),
        ('mode="rint"', 'mode="up"', "rint"),
    ],
)
def test_programs_that_are_wrong(run: Any, tmp_path: Path, old: str, new: str, piece: str) -> None:
    path = variant(tmp_path, old, new)
    began = time.process_time()
    refused(run("tile", path, "-o", tmp_path / "out.py"), "variant.py", piece)
    assert time.process_time() - began < 10
    assert os.listdir(tmp_path) == ["variant.py"]


def test_fifty_megabytes_are_refused_at_once(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "big.py"
    path.write_bytes(b"# padding\n" * 5_000_000)
    began = time.process_time()
    refused(run("verify", path), "50000000 bytes")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["nope"], ["No such command 'nope'", "tilesat --help"]),
        (["tile"], ["Missing argument 'FILE'", "Usage: tilesat tile [OPTIONS]", "More: tilesat tile --help"]),
        (["tile", CHAIN, "--nope"], ["No such option: --nope"]),
        (["choose", 64, 64, "x"], ["Invalid value for 'K'"]),
        (["choose", 64, 64, 64, 64], ["unexpected extra argument"]),
        (["choose", -64, 64, 64], ["M = -64 is no extent: give a whole number of at least 1"]),
        (["choose", 64, 64, -64, "--dtype", "bf61"], ["K = -64 is no extent"]),
        (["choose", 64, 64, 64, "--dtype", "bf61"], ["unknown element type 'bf61'. Did you mean 'bf16'? Known: fp4"]),
        (["batch", -4, 64, 64, 64], ["B = -4 is negative"]),
        (["study", "nope"], ["No such command 'nope'", "tilesat study --help"]),
        (["study", "batch", "--suite", "smok"], ["unknown batch suite 'smok'. Did you mean 'smoke'? Known: "]),
    ],
)
def test_words_that_a_command_does_not_take(run: Any, words: list[Any], pieces: list[str]) -> None:
    refused(run(*words), *pieces)


def test_help_is_shown_where_no_command_is_given(run: Any) -> None:
    for words in ((), ("study",)):
        ended = run(*words)
        assert ended.code in (0, 2)
        assert "Usage: tilesat" in ended.out + ended.err
        assert "error" not in ended.out + ended.err
    assert run("choose", "--help").code == 0
    assert run("--version").out.startswith("tilesat ")


def test_descriptions_and_tables_without_end_are_refused_at_once(run: Any, tmp_path: Path) -> None:
    for name in ("zero.json", "zero.toml", "zero.csv"):
        (tmp_path / name).symlink_to("/dev/zero")
    began = time.process_time()
    refused(run("targets", tmp_path / "zero.json"), "longer than 1048576 bytes")
    refused(run("choose", 64, 64, 64, "--target", tmp_path / "zero.toml"), "longer than 1048576 bytes")
    refused(run("study", "ablation", "--corpus", tmp_path / "zero.csv"), "longer than 4194304 bytes")
    assert time.process_time() - began < 10


def test_a_picture_does_not_take_the_place_of_the_program(run: Any, tmp_path: Path) -> None:
    path, link = tmp_path / "chain.py", tmp_path / "link.svg"
    path.write_bytes(CHAIN.read_bytes())
    link.symlink_to(path)
    for words in (["egraph", path, "-o", path], ["simulate", path, "--trace", path], ["simulate", path, "--plot", link]):
        refused(run(*words), "is the program itself, which would be lost")
    assert path.read_bytes() == CHAIN.read_bytes()


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["--target", "910X"], ["unknown target '910X'", "'ascend910b'", "ascend950"]),
        (["--planner", "dsa"], ["unknown planner 'dsa'. Did you mean 'dsa_rp'? Known: pypto, dsa_rp, ptoas"]),
        (["--rules", "refrence"], ["did you mean 'reference'"]),
        (["--cost-model", "rooflin"], ["Did you mean 'roofline'"]),
        (["--extractor", "dags"], ["unknown extractor 'dags'. Did you mean 'dag'? Known: dag, tree"]),
        (["--force", "c=1,2"], ["three whole numbers"]),
        (["--force", "c"], ["NAME=VALUE"]),
        (["--force", "c=16,16,16", "--force", "c=32,32,32"], ["'c' is given twice"]),
        (["--force", "z=16,16,16"], ["force names 'z', which is no product. Products: c, d"]),
        (["--force", "cc=16,16,16"], ["force names 'cc', which is no product. Did you mean 'c'? Products: c, d"]),
        (["--force", "dd=16,16,16", "--force", "z=16,16,16"], ["'dd', 'z', which are no products. Did you mean 'd'? Products"]),
        (["--force", "c=16,16,7"], ["not legal", "7"]),
        (["--limit-seconds", "-1"], ["limit seconds = -1.0", "give 0 or more"]),
        (["--limit-seconds", "nan"], ["limit seconds = nan"]),
        (["--stop-after", "lower"], ["convert"]),
        (["--out", "missing/folder/out.py"], ["cannot write missing/folder/out.py", "No such file or directory"]),
        (["--out", "/"], ["cannot write /"]),
    ],
)
def test_options_that_make_no_sense(run: Any, words: list[str], pieces: list[str]) -> None:
    refused(run("tile", CHAIN, *words), *pieces)


def test_files_that_cannot_be_read(run: Any, tmp_path: Path) -> None:
    refused(run("tile", tmp_path / "none.py"), "none.py", "No such file or directory")
    refused(run("tile", tmp_path), str(tmp_path), "Is a directory")
    binary = tmp_path / "binary.py"
    binary.write_bytes(b"\xff\xfe\x00")
    refused(run("tile", binary), "binary.py:1:1", "not UTF-8")


def test_inputs_that_are_no_archive(run: Any, tmp_path: Path) -> None:
    refused(run("run", CHAIN, "--inputs", tmp_path / "none.npz"), "none.npz", "No such file")
    refused(run("run", CHAIN, "--inputs", CHAIN), "no .npz archive")
    np.save(tmp_path / "one.npy", np.ones(3))
    refused(run("run", CHAIN, "--inputs", tmp_path / "one.npy"), "a single array")
    np.savez(tmp_path / "odd.npz", a=np.ones((2, 2)), b=np.ones((256, 256)), e=np.ones((256, 128)))
    refused(run("run", CHAIN, "--inputs", tmp_path / "odd.npz"), "a has shape [2, 2]")
    np.savez(tmp_path / "pickled.npz", a=np.array([{}], dtype=object))
    refused(run("run", CHAIN, "--inputs", tmp_path / "pickled.npz"), "no .npz archive")
    refused(run("run", CHAIN, "--dim", "T=x"), "'x' for 'T' is no whole number")


def test_other_refusals(run: Any) -> None:
    refused(run("explain", CHAIN, "zz"), "'zz'", "Products: c, d")
    refused(run("explain", CHAIN, "c", "--why-not", "kspli"), "Did you mean 'k_split'")
    refused(run("explain", CHAIN, "c", "--why-not", "k_split", "--against", "1,2,3"), "not both")
    refused(run("simulate", CHAIN, "--residency", "vec"), "gm, mat")
    refused(run("simulate", CHAIN, "--capacity", "l9=5"), "l9")
    refused(run("simulate", CHAIN, "--scalar", "T=5"), "'T' is no scalar parameter or dynamic dimension of kernel. It has: none")
    refused(run("targets", "nowhere.json"), "nowhere.json")
    refused(run("choose", 64, 64, 100), "K = 100 is not a multiple of 16")
    refused(run("choose", 0, 64, 64), "M = 0")
    refused(run("choose", 64, 64, 64, "--dtype", "bf17"), "bf17")
    refused(run("batch", 0, 64, 64, 64), "B = 0")
    refused(run("batch", 1, 64, 64, 64, "--chip", "ascend951"), "unknown chip", "ascend950pr")


def test_usage_errors_end_with_two(run: Any) -> None:
    for words in (["tile"], ["nonsense"], ["tile", CHAIN, "--limit-nodes", "many"], ["tile", CHAIN, "--nonsense"]):
        ended = run(*words)
        assert (ended.code, ended.out) == (2, "")
        assert "Traceback" not in ended.err


# -- the frame around commands ----------------------------------------------------------------------------------------------


def test_outcomes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def told(error: BaseException) -> tuple[int, str]:
        def fail() -> int:
            raise error

        return outcome.outcome(fail), capsys.readouterr().err

    assert outcome.outcome(lambda: 1) == 1
    assert told(tilesat.TilesatError("one\ntwo")) == (2, "error: one\n       two\n")
    assert told(KeyboardInterrupt()) == (130, "error: interrupted\n")
    assert told(OSError(28, "No space left on device", "x.py")) == (2, "error: x.py: No space left on device\n")
    assert told(MemoryError())[0] == 2
    code, text = told(ZeroDivisionError("oops"))
    assert code == 70
    assert "defect of tilesat" in text
    assert "ZeroDivisionError: oops" in text
    monkeypatch.setenv("TILESAT_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        told(ZeroDivisionError("oops"))


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    child = process("rules", "--profile", CHAIN)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    assert child.stderr.read() == ""
    assert child.wait(60) == 141
    child.stderr.close()


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.py"
    source = tmp_path / "fifo.py"
    os.mkfifo(source)
    child = process("tile", source, "-o", out)
    with source.open("w", encoding="utf-8"):  # opens when the child reads: it is at work, and waits
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "error: interrupted\n")
    assert os.listdir(tmp_path) == ["fifo.py"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.py"
    path.write_text("old", encoding="utf-8")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(files.WriteError, match=r"cannot write .*kept\.py: No space left on device"):
        files.write_whole(str(path), "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["kept.py"]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        files.write_whole(str(tmp_path / "new"), b"bytes")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_devices_are_written_to_not_replaced() -> None:
    files.write_whole(os.devnull, "gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_tables_line_up() -> None:
    table = output.plain_table(("name", ">count"), [("a", "1"), ("long", "1,000")])
    assert table == "name  count\na         1\nlong  1,000"


def test_options_by_hand() -> None:
    assert options.three(" 64, 128,256", "--force") == options.three("64x128x256", "--force") == (64, 128, 256)
    assert options.whole_numbers(["T=64", "U = -1"], "--dim", "--dim T=64") == {"T": 64, "U": -1}
    with pytest.raises(outcome.UsageError, match=r"--residency: unknown value 'maat'; did you mean 'mat'\? known: gm, mat"):
        options.one_of("maat", ("gm", "mat"), "--residency")


# -- the page ---------------------------------------------------------------------------------------------------------------


def test_every_command_and_option_is_in_the_page() -> None:
    import typer.main

    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    sections = {s.partition("\n")[0].strip(): s for s in page.split("\n## tilesat ")[1:]}
    commands = typer.main.get_command(application()).commands  # type: ignore[attr-defined]
    assert set(COMMANDS) <= set(commands)
    for name, command in commands.items():
        if hasattr(command, "commands"):
            continue  # a group has a page of its own
        spelled = {o for p in command.params for o in p.opts if o.startswith("-") and o not in ("--help", "-h")}
        missing = [o for o in sorted(spelled) if f"`{o}" not in sections[name]]
        assert not missing, f"docs/cli.md, tilesat {name}: nothing of {', '.join(missing)}"
