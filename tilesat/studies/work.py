"""Work items and how one is run: the same in this process, in a worker process and on a cluster.

A study is an object that can be pickled, knows its items by name, and runs one of them. What comes of an item is a *row*, plain
data for a line of JSON: ``item``, ``result`` (the same every time) and ``seconds`` (never the same twice), or ``item`` and
``error``.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import runpy
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from cost.errors import TilesatError
from tilesat.studies.errors import StudyError

Row = dict[str, Any]

#: Set in worker processes: a study begun there would begin again in its own workers, without end.
INSIDE_WORKER = "TILESAT_STUDY_WORKER"


class Study(Protocol):
    """What the harness runs."""

    @property
    def kind(self) -> str: ...

    def items(self) -> Sequence[str]:
        """The names of all work items, each once, in the order of the tables."""
        ...

    def run(self, item: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """(result, seconds) of one item; what it raises becomes the item's error."""
        ...

    def identity(self) -> dict[str, Any]:
        """Everything the results depend on, as plain data."""
        ...


def run_item(study: Study, item: str) -> Row:
    """The row of one item; its failure is a row too."""
    try:
        result, seconds = study.run(item)
        row: Row = json.loads(json.dumps({"item": item, "result": result, "seconds": seconds}, allow_nan=False))
    except TilesatError as e:
        return {"item": item, "error": f"{type(e).__name__}: {e}"}
    except Exception as e:
        place = traceback.extract_tb(e.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return {"item": item, "error": f"{type(e).__name__}: {e} (at {where})"}
    return row


@dataclass(frozen=True, slots=True)
class Payload:
    """A study on its way to a worker: its pickle, where to import from, and the script that defines what the pickle names in
    ``__main__`` (None: nothing)."""

    study: bytes
    path: tuple[str, ...]
    main: str | None = None

    def open(self) -> Study:
        """The study. Raises :class:`StudyError` where something it needs is not here."""
        for folder in self.path:
            if folder not in sys.path:
                sys.path.append(folder)
        try:
            if self.main is not None:
                _define_main(self.main)
            found: Study = pickle.loads(self.study)
        except TilesatError:
            raise
        except Exception as e:
            raise StudyError(f"a worker cannot load the study: {type(e).__name__}: {e}") from e
        return found


def pack(study: Study, by_value: bool = False) -> Payload:
    """The study as a payload; ``by_value``: what ``__main__`` defines goes along whole (needs cloudpickle, as clusters have).

    Raises :class:`StudyError` naming what cannot be sent to another process.
    """
    path = tuple(str(Path(p).resolve()) for p in sys.path if Path(p).exists())
    dumps = importlib.import_module("cloudpickle").dumps if by_value else pickle.dumps
    try:
        data = dumps(study)
    except Exception as e:
        repair = "define it at the top level of a module, or run the study in this process (workers=0)"
        raise StudyError(f"the study cannot be sent to worker processes: {e}; {repair}") from e
    main = None
    if not by_value and b"__main__" in data:
        main = getattr(sys.modules["__main__"], "__file__", None)
        if main is None or not os.path.exists(main):
            repair = "put it in a module, or run the study in this process (workers=0)"
            raise StudyError(f"the study uses what an interactive session defines, which worker processes cannot see; {repair}")
        main = os.path.abspath(main)
    return Payload(data, path, main)


def _define_main(script: str) -> None:
    """Make the script's definitions those of ``__main__``, without running what it guards by its name."""
    module = ModuleType("__main__")
    module.__dict__.update(runpy.run_path(script, run_name="__tilesat_worker__"))
    module.__dict__["__name__"] = "__main__"
    sys.modules["__main__"] = module


@lru_cache(maxsize=2)
def _opened(payload: Payload) -> Study:
    return payload.open()


@lru_cache(maxsize=1)
def _one_thread(process: int) -> ThreadPoolExecutor:
    """This process's one thread for work items: e-graphs can't cross threads, and a cluster's workers have several."""
    return ThreadPoolExecutor(1, "tilesat-study")


def run_remote(payload: Payload, item: str) -> Row:
    """One item on a cluster's worker."""
    os.environ[INSIDE_WORKER] = "1"
    return _one_thread(os.getpid()).submit(lambda: run_item(_opened(payload), item)).result()
