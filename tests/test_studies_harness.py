"""The harness: worker processes, results that survive whatever ends a run, folders that are refused, a Dask cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from study_samples import Squares, Unloadable

from tilesat.studies.errors import StudyError
from tilesat.studies.folder import MANIFEST, RESULTS, Folder
from tilesat.studies.harness import run
from tilesat.studies.manifest import manifest
from tilesat.studies.progress import Progress

TESTS = Path(__file__).parent
GOOD = tuple(range(1, 11))


def results(rows):
    return [(r["item"], r.get("result"), r.get("error")) for r in rows]


def lines(folder):
    return [json.loads(x) for x in (Path(folder) / RESULTS).read_text().splitlines()]


# -- executors -----------------------------------------------------------------------------------------------------------


def test_rows_come_in_the_order_of_the_items():
    rows = run(Squares(GOOD), workers=0)
    assert [r["item"] for r in rows] == [str(n) for n in GOOD]
    assert [r["result"] for r in rows] == [{"square": n * n, "pair": [n, n]} for n in GOOD]


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_give_the_same(tmp_path, workers):
    log = tmp_path / "log"
    rows = run(Squares(GOOD, str(log)), workers=workers)
    assert results(rows) == results(run(Squares(GOOD), workers=0))
    pids = {line.split()[1] for line in log.read_text().splitlines()}
    assert len(pids) <= workers
    assert str(os.getpid()) not in pids


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failing_item_is_a_row(workers):
    rows = run(Squares((1, 13, 14, 16, 2)), workers=workers)
    errors = {r["item"]: r.get("error") for r in rows}
    assert errors["13"] == "TilesatError: thirteen is refused"
    assert errors["14"].startswith("ZeroDivisionError: fourteen fails (at study_samples.py:")
    assert "Out of range float" in errors["16"]  # a NaN is no JSON
    assert errors["1"] is errors["2"] is None


def test_a_killed_worker_is_a_row_and_another_takes_over():
    rows = run(Squares((1, 15, 2, 3)), workers=1)
    assert rows[1]["error"] == "the worker process was killed by SIGKILL while it ran this item"
    assert [r["result"]["square"] for r in rows if "result" in r] == [1, 4, 9]


def test_what_an_item_prints_does_no_harm(capfd):
    rows = run(Squares((17, 1)), workers=1)
    assert [r["result"]["square"] for r in rows] == [289, 1]
    assert "noise" in capfd.readouterr().err


def test_studies_that_cannot_be_sent(tmp_path):
    class Local(Squares):
        pass

    with pytest.raises(StudyError, match=r"cannot be sent to worker processes.*workers=0"):
        run(Local(GOOD), workers=1)
    with pytest.raises(StudyError, match="a worker cannot load the study: ValueError: no such thing here"):
        run(Unloadable(GOOD), workers=2)
    with pytest.raises(StudyError, match="no number of processes"):
        run(Squares(GOOD), workers=-1)
    with pytest.raises(StudyError, match="nothing to study"):
        run(Squares(()), workers=0)


def script(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, env=environment)


SCRIPT = """
from study_samples import Squares
from tilesat.studies.harness import run
class Mine(Squares):
    pass
{guard}
    print([r["result"]["square"] for r in run(Mine((1, 2, 3)), workers=1)])
"""


def test_a_study_of_the_scripts_own_classes(tmp_path):
    done = script(tmp_path, SCRIPT.format(guard='if __name__ == "__main__":'))
    assert done.stdout == "[1, 4, 9]\n", done.stderr
    unguarded = script(tmp_path, SCRIPT.format(guard="if True:"))
    assert unguarded.returncode != 0
    assert 'put what starts it in your script under `if __name__ == "__main__":`' in unguarded.stderr


# -- keeping results -----------------------------------------------------------------------------------------------------


def test_a_second_run_repeats_nothing(tmp_path):
    log, out = tmp_path / "log", tmp_path / "out"
    first = run(Squares(GOOD, str(log)), workers=0, out=out)
    again = run(Squares(GOOD, str(log)), workers=0, out=out)
    assert first == again
    assert len(log.read_text().splitlines()) == len(GOOD)
    assert [r["item"] for r in lines(out)] == [str(n) for n in GOOD]


def test_failed_items_run_again_when_asked(tmp_path, monkeypatch):
    run(Squares((1, 13, 2)), workers=0, out=tmp_path)
    log = tmp_path.parent / "log"
    study = Squares((1, 13, 2), str(log))
    assert "error" in run(study, workers=0, out=tmp_path)[1]
    assert not log.exists()
    monkeypatch.setattr(Squares, "run", lambda self, item: ({"square": int(item) ** 2}, {}))
    rows = run(study, workers=0, out=tmp_path, retry=True)
    assert [r["result"]["square"] for r in rows] == [1, 169, 4]
    assert [r["item"] for r in lines(tmp_path)] == ["1", "13", "2", "13"]
    assert run(study, workers=0, out=tmp_path) == rows


def test_kill_9_and_go_on(tmp_path):
    """The parent is killed in the middle; its workers end by themselves; the next run does what is missing and no more."""
    out, log = tmp_path / "out", tmp_path / "log"
    code = (
        "from study_samples import Squares; from tilesat.studies.harness import run; "
        f"run(Squares({GOOD}, {str(log)!r}, 0.15), workers=2, out={str(out)!r})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    kept = out / RESULTS
    deadline = time.monotonic() + 60
    while not (kept.exists() and kept.read_bytes().count(b"\n") >= 3):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    before = kept.read_bytes()
    done = {json.loads(x)["item"] for x in before.splitlines()}
    assert 3 <= len(done) < len(GOOD)
    workers = {int(line.split()[1]) for line in log.read_text().splitlines()}
    while any(alive(pid) for pid in workers):  # they notice that nobody is left
        assert time.monotonic() < deadline
        time.sleep(0.02)
    log.write_text("")
    rows = run(Squares(GOOD, str(log), 0.0), workers=2, out=out)
    assert kept.read_bytes().startswith(before)
    assert {line.split()[0] for line in log.read_text().splitlines()} == {str(n) for n in GOOD} - done
    assert results(rows) == results(run(Squares(GOOD), workers=0))


def alive(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


def test_half_a_line_is_cut_off(tmp_path):
    run(Squares(GOOD), workers=0, out=tmp_path)
    whole = (tmp_path / RESULTS).read_bytes()
    (tmp_path / RESULTS).write_bytes(whole[:-20])
    rows = run(Squares(GOOD), workers=0, out=tmp_path)
    assert results(rows) == results(run(Squares(GOOD), workers=0))
    assert len(lines(tmp_path)) == len(GOOD)


def test_a_line_that_is_no_row_is_named(tmp_path):
    run(Squares(GOOD), workers=0, out=tmp_path)
    data = (tmp_path / RESULTS).read_text().splitlines()
    (tmp_path / RESULTS).write_text("\n".join([*data[:3], "{broken", *data[4:]]) + "\n")
    with pytest.raises(StudyError, match=r"results\.jsonl line 4 is no row"):
        run(Squares(GOOD), workers=0, out=tmp_path)


def test_folders_that_are_refused(tmp_path):
    foreign, file = tmp_path / "foreign", tmp_path / "file"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("")
    with pytest.raises(StudyError, match=r"is no results folder \(it holds thesis\.tex\)"):
        run(Squares(GOOD), workers=0, out=foreign)
    file.write_text("")
    with pytest.raises(StudyError, match="cannot keep results here"):
        run(Squares(GOOD), workers=0, out=file)
    (foreign / "thesis.tex").rename(foreign / MANIFEST)
    with pytest.raises(StudyError, match="is no manifest of a study"):
        run(Squares(GOOD), workers=0, out=foreign)


def test_a_folder_of_another_study_is_refused(tmp_path):
    run(Squares((1, 2)), workers=0, out=tmp_path)
    before = (tmp_path / RESULTS).read_bytes()
    with pytest.raises(StudyError, match=r"holds another study: numbers is \[1, 2\], not \[1, 2, 3\]"):
        run(Squares((1, 2, 3)), workers=0, out=tmp_path)
    assert (tmp_path / RESULTS).read_bytes() == before


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system nobody can write")
def test_a_place_that_cannot_be_written():
    with pytest.raises(StudyError, match=r"/proc/tilesat: cannot keep results here: .*give another folder"):
        run(Squares(GOOD), workers=0, out="/proc/tilesat")


def test_a_folder_in_use_is_refused(tmp_path):
    study = Squares(GOOD)
    with Folder(tmp_path, manifest(study)), pytest.raises(StudyError, match="another run is writing here"):
        run(study, workers=0, out=tmp_path)
    run(study, workers=0, out=tmp_path)


def test_a_full_disk_loses_nothing(tmp_path):
    """A limit on file sizes stands in for the disk: the write that fails leaves whole rows, and more room lets it go on."""
    code = (
        "import resource; from study_samples import Squares; from tilesat.studies.harness import run\n"
        "from tilesat.studies.errors import StudyError\n"
        f"study, out = Squares({GOOD}), {str(tmp_path)!r}\n"
        "run_all = lambda: run(study, workers=0, out=out)\n"
        "from tilesat.studies.folder import Folder; from tilesat.studies.manifest import manifest\n"
        "Folder(out, manifest(study)).__exit__(None, None, None)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))\n"
        "try:\n    run_all()\nexcept StudyError as e:\n    print(e)\n"
    )
    done = script(tmp_path.parent, code)
    assert "results so far are kept. Make room and run the same again to go on" in done.stdout, done.stderr
    assert "File too large" in done.stdout
    kept = lines(tmp_path)
    assert 0 < len(kept) < len(GOOD)
    assert f"the {len(kept)} results so far" in done.stdout
    rows = run(Squares(GOOD), workers=0, out=tmp_path)
    assert results(rows) == results(run(Squares(GOOD), workers=0))
    assert [r["item"] for r in lines(tmp_path)] == [str(n) for n in GOOD]


def test_files_are_published_whole(tmp_path):
    run(Squares(GOOD), workers=0, out=tmp_path, finish=lambda rows: {"table.csv": f"{len(rows)}\n"})
    assert (tmp_path / "table.csv").read_text() == "10\n"
    (tmp_path / "report.html").mkdir()
    with pytest.raises(StudyError, match=r"report\.html: .*all results are kept"):
        run(Squares(GOOD), workers=0, out=tmp_path, finish=lambda rows: {"report.html": "x"})
    assert not list(tmp_path.glob(".*partial"))


def test_what_a_killed_run_had_half_written_is_no_obstacle(tmp_path):
    (tmp_path / ".manifest.json.k3x.partial").write_text('{"schema"')
    run(Squares(GOOD), workers=0, out=tmp_path)
    (tmp_path / ".report.html.a8f.partial").write_text("<html>")
    rows = run(Squares(GOOD), workers=0, out=tmp_path)
    assert results(rows) == results(run(Squares(GOOD), workers=0))
    assert sorted(p.name for p in tmp_path.iterdir()) == [MANIFEST, RESULTS]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex.partial").write_text("")
    with pytest.raises(StudyError, match=r"is no results folder \(it holds thesis\.tex\.partial\)"):
        run(Squares(GOOD), workers=0, out=other)


def test_the_manifest_says_what_it_takes_to_repeat(tmp_path):
    run(Squares(GOOD), workers=0, out=tmp_path)
    found = json.loads((tmp_path / MANIFEST).read_text())
    assert found["study"]["numbers"] == list(GOOD)
    assert {"kind", "tilesat", "egglog"} <= found["study"].keys()
    assert {"began", "python", "system", "packages"} == found["made"].keys()


# -- progress ------------------------------------------------------------------------------------------------------------


def test_progress_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("tilesat.studies.progress.PAUSE", 0.0)
    with Progress("squares", 10, 4, True) as bar:
        bar.advance(False)
        bar.advance(True)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "squares: 4 of 10 items are done already"
    assert said[1].startswith("squares: 5 of 10 items, about 00:00:00 left")
    assert said[2].endswith("1 failed")


def test_progress_on_a_terminal(monkeypatch):
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress("squares", 3, 0, True) as bar:
        for _ in range(3):
            bar.advance(False)
    assert "3/3" in terminal.getvalue()
    assert "left" in terminal.getvalue()


# -- a cluster -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 2, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as running:
        yield running.scheduler_address.removeprefix("tcp://")


def test_a_cluster_gives_the_same(cluster, tmp_path):
    rows = run(Squares((*GOOD, 13, 14)), executor=f"dask://{cluster}", out=tmp_path)
    assert results(rows) == results(run(Squares((*GOOD, 13, 14)), workers=0))
    with pytest.raises(StudyError, match="give dask://HOST:PORT"):
        run(Squares(GOOD), executor="cluster:8786")


def test_a_real_study_on_a_cluster(cluster, tmp_path):
    """E-graphs cannot cross threads; the cluster's workers have two each."""
    from tilesat.studies import compare_cost_models

    given = {"corpus": "smoke", "models": ["roofline", "traffic"], "sample": 40}
    compare_cost_models(**given, out=tmp_path / "here", workers=0)
    compare_cost_models(**given, out=tmp_path / "there", executor=f"dask://{cluster}")
    for name in ("summary.csv", "products.csv", "audit.csv", "differences.csv", "measured.csv", "report.md"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes(), name


def test_no_cluster(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("tilesat.studies.executors.PATIENCE", 0.5)
    with pytest.raises(StudyError, match="no Dask scheduler answers at localhost:1"):
        run(Squares(GOOD), executor="dask://localhost:1")


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(StudyError, match=r"pip install 'tilesat\[cluster\]'"):
        run(Squares(GOOD), executor="dask://localhost:8786")
