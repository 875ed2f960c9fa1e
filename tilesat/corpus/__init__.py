"""The corpus of the studies: named suites, folders of programs, tables of shapes.

:mod:`entries` says what an entry is, :mod:`shapes` makes entries of shapes that people run, :mod:`programs` builds programs,
:mod:`files` reads the user's own; ``suite("standard")`` and ``load(spec)`` are what studies ask for.
"""

from __future__ import annotations

from tilesat.corpus.entries import Corpus, CorpusError, Entry
from tilesat.corpus.files import from_csv, from_folder
from tilesat.corpus.shapes import cut_to_core
from tilesat.corpus.suites import SUITES, load, suite, suites

__all__ = [
    "SUITES",
    "Corpus",
    "CorpusError",
    "Entry",
    "cut_to_core",
    "from_csv",
    "from_folder",
    "load",
    "suite",
    "suites",
]
