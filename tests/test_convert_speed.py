"""A program of 1,000 statements converts in under a second, and time grows linearly with length."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_path = Path(__file__).parent.parent / "benchmarks" / "bench_convert.py"
_spec = importlib.util.spec_from_file_location("bench_convert", _path)
assert _spec is not None
assert _spec.loader is not None
bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench)


def test_a_thousand_statements_in_under_a_second() -> None:
    assert bench.best_of(bench.program_text(1000)) < 1.0


def test_time_is_linear_in_length() -> None:
    small, large = (bench.best_of(bench.program_text(n)) for n in (500, 2000))
    assert large < 4 * small * 2.5
