"""The corpus: suites, the stated cut to one core, the user's own folders and tables, and what is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilesat
from cost.dtypes import FP32
from cost.hardware import get_target
from cost.problem import Problem
from tilesat import corpus
from tilesat.corpus import programs

B910 = get_target("910B")
EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", corpus.suites())
def test_every_entry_is_a_program_that_reads_back(name):
    found = corpus.suite(name)
    assert len({e.name for e in found}) == len(found)
    for e in found:
        program = e.program()
        assert not [f for f in tilesat.verify(program, B910) if f.code != "capacity"], e.name
        assert tilesat.parse(str(program)) == program
        assert e.problems(B910)


def test_sizes():
    sizes = {name: len(corpus.suite(name)) for name in corpus.suites()}
    assert sizes["smoke"] <= 20
    assert sizes["standard"] >= 60
    assert sizes["full"] >= sizes["standard"] + 100


@pytest.mark.parametrize("target", ["910B", "950"])
def test_a_shapes_problem_is_what_its_program_lowers_to(target):
    chip = get_target(target)
    for e in corpus.suite("standard", chip):
        if e.problem is not None:
            text_only = corpus.Entry(e.name, e.source, e.text)
            assert text_only.problems(chip) == (e.problem,), e.name


def test_the_same_suite_every_time():
    assert corpus.suite("full").digest == corpus.suite("full").digest
    assert corpus.suite("standard", "910B").digest != corpus.suite("standard", "950").digest  # cut to other cores


def test_cut_by_hand():
    # 910B: 24 cores, half of Mat 262144 bytes.
    # 1 x 2112 x 7168 bf16: rows stay 16; 22 columns of 96 and 24 of 88 -> 96: the smallest block is 16 x 96.
    # K: 262144 / 2 / (16 + 96) = 1170 -> 1152 = 18 * 64.
    assert corpus.cut_to_core(1, 2112, 7168, "bf16", B910) == (16, 96, 1152)
    # 4096 x 7168 x 2048: 24 = 4 x 6 gives 1024 x 1200 (7168 / 6 = 1194.7), 3 x 8 1376 x 896 (1232896), 6 x 4 688 x 1792;
    # 2 x 12 gives 2048 x 608 (1245184), 4 x 6 1228800 is the smallest. Then 256 deep and half of Mat: m + n <= 512:
    # 1200 -> 608, 1024 -> 512, 608 -> 304, 512 -> 256, 304 -> 160; 262144 / 2 / 416 = 315 -> 256.
    assert corpus.cut_to_core(4096, 7168, 2048, "bf16", B910) == (256, 160, 256)
    # all of it fits: nothing is cut but the grid (64 x 128 on 24 cores: 4 x 6 of 16 x 32, K whole)
    assert corpus.cut_to_core(64, 128, 512, "fp32", B910) == (16, 32, 512)
    # int8: columns and K in whole boxes of 32
    assert corpus.cut_to_core(16, 48, 40, "int8", B910) == (16, 32, 64)


def test_cut_tiles_fit_half_of_mat():
    for e in corpus.suite("standard"):
        found = re.fullmatch(r"gemm-(\d+)x(\d+)x(\d+)-(\w+)", e.name)
        if found and e.problem is not None:
            p = e.problem
            assert (p.M + p.N) * p.K * p.a.bytes <= B910.mat // 2


def test_folder_of_programs():
    found = corpus.load(EXAMPLES)
    names = [e.name for e in found]
    assert names == sorted(names)
    assert "chain" in names
    assert next(e for e in found if e.name == "chain").problems(B910)


def test_folder_with_a_file_that_is_no_program(tmp_path):
    (tmp_path / "good.py").write_text(str(programs.plain(64, 64, 64, "bf16")))
    (tmp_path / "bad.py").write_bytes(b"\xff\xfe not text \xff")
    (tmp_path / "worse.py").write_text("x = (")
    bad, good, worse = corpus.load(tmp_path)
    assert good.problems(B910) == (Problem.of(64, 64, 64),)
    with pytest.raises(corpus.CorpusError, match=r"bad\.py cannot be read"):
        bad.program()
    with pytest.raises(tilesat.ParseError, match="worse"):
        worse.program()
    with pytest.raises(corpus.CorpusError, match="holds PyPTO programs"):
        corpus.load(tmp_path.joinpath("empty").mkdir() or tmp_path / "empty")


def test_csv_of_shapes(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(
        "M,N,K,dtype,name,split_k_total\n64,64,128,fp32,,\n1,300,100,,row,\n16,256,128,bf16,,1024\n4096,4096,4096,fp16,,\n"
        "64,0,64,,,\n64,64,64,int4,tiny,\n64,64,64,quux,,\n64,64\n64,64,64,bf16,,100\n64,64,128,fp32,,\n"
    )
    found = {e.name: e for e in corpus.load(path)}
    assert found["tile-64x64x128-fp32"].problem == Problem.of(64, 64, 128, FP32)
    assert (found["row"].problem.M, found["row"].problem.N, found["row"].problem.K) == (16, 304, 112)
    assert "pl.pipeline(0, 1024, 128" in found["tile-16x256x128-bf16-of-1024"].text
    cut = next(e for e in found.values() if e.problem and e.problem.a.name == "fp16").problem
    assert corpus.cut_to_core(4096, 4096, 4096, "fp16", B910) == (cut.M, cut.N, cut.K)
    assert "tile-64x64x128-fp32 (2)" in found
    errors = {e.name: e.error for e in found.values() if e.error}
    assert "N = '0' is no extent" in errors["mine.csv line 6"]
    assert "narrower than a byte" in errors["tiny"]
    assert "unknown element type 'quux'" in errors["mine.csv line 8"]
    assert "has 2 fields, not 6 as the header" in errors["mine.csv line 9"]
    assert "no multiple of K" in errors["mine.csv line 10"]


def test_rows_of_a_csv_that_cannot_be_read_spoil_no_other(tmp_path):
    path = tmp_path / "rough.csv"
    rows = [
        b"\xef\xbb\xbfM, N, K, name",
        b'64,64,64,"a, b"',
        b'64,"64,64,open',
        b"64,\xff\xfe,64,bytes",
        b"64,64," + b"9" * 5000 + b",long",
        b"64,\x00,64,nul",
        b"",
        b'64,64,64,"a "quote" inside"',
        b"64,64,64," + b"x" * 200_000,
        b"64,64,128,last",
    ]
    path.write_bytes(b"\r\n".join(rows) + b"\r\n")
    found = corpus.load(path).entries
    assert [e.name for e in found if e.problem] == ["a, b", "last"]
    errors = [e.error for e in found if e.error]
    for error, number, message in zip(
        errors, (3, 4, 5, 6, 8, 9), ("", "byte 0xff", "99…' is no extent", "", "", ""), strict=True
    ):
        assert error.startswith(f"rough.csv line {number}: ")
        assert message in error
        assert len(error) < 200


def test_a_link_to_nothing_is_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "good.py").write_text(str(programs.plain(64, 64, 64, "bf16")))
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    with pytest.raises(corpus.CorpusError, match=r"gone\.py cannot be read: No such file"):
        next(e for e in corpus.load(tmp_path) if e.name == "gone").program()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M,N\n1,2\n", "has no column K"),
        ("M,N,K,colour\n1,2,3,4\n", "mean nothing: colour"),
        ("M,N,K\n", "no row"),
        ("", "has no column M, N, K"),
    ],
)
def test_csv_refusals(tmp_path, text, message):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(corpus.CorpusError, match=message):
        corpus.load(path)


def test_unknown_suites_and_paths():
    with pytest.raises(corpus.CorpusError, match="Did you mean 'standard'"):
        corpus.suite("standart")
    with pytest.raises(corpus.CorpusError, match="Suites: smoke, standard, full"):
        corpus.load("nonsense")
    with pytest.raises(corpus.CorpusError, match=r"absent\.csv: cannot be read"):
        corpus.load("absent.csv")
    with pytest.raises(corpus.CorpusError, match="entries and problems, not int"):
        corpus.load([3])


def test_problems_and_entries_one_by_one():
    given = corpus.load([Problem.of(64, 64, 64), Problem.of(64, 64, 64, accumulate=True), corpus.suite("smoke").entries[0]])
    assert [len(e.problems(B910)) for e in given] == [1, 1, 1]
    assert given.entries[0].program().functions[0].name == "kernel"
    with pytest.raises(corpus.CorpusError, match="two entries called"):
        corpus.load([Problem.of(64, 64, 64), Problem.of(64, 64, 64)])


@pytest.mark.parametrize(
    "made",
    [programs.chain(64, 64, 64, 32, "bf16"), programs.split_k(32, 32, 32, 128, "fp32"), programs.biased(32, 64, 32, "int8")],
)
def test_programs_compute_what_they_say(made):
    """By numpy, on small whole numbers: every order of summation gives the same bits (the bf16 cast is exact there)."""
    import ml_dtypes
    import numpy as np

    rng = np.random.default_rng(7)
    low = {"bf16": ml_dtypes.bfloat16, "fp32": np.float32, "int8": np.int8, "int32": np.int32}
    arrays = {}
    for p in made.functions[0].params:
        arrays[p.var.name] = rng.integers(-1, 2, p.var.type.shape).astype(low[p.var.type.dtype.name])
    wide = {k: v.astype(np.float64) for k, v in arrays.items()}
    want = wide["a"] @ wide["b"] + wide.get("bias", 0)
    if "e" in wide:
        want = want @ wide["e"]
    got = tilesat.execute(made, **arrays)
    assert np.array_equal(np.asarray(next(iter(got.values()))).astype(np.float64), want)
