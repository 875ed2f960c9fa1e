"""Studies and models that the tests of the harness run: small, quick, and as ill-behaved as their names say."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cost.errors import TilesatError


@dataclass(frozen=True)
class Squares:
    """Squares the numbers of its items; some misbehave. ``log`` is a file that gets a line for every item that is run."""

    numbers: tuple[int, ...]
    log: str = ""
    slow: float = 0.0

    kind = "squares"

    def items(self) -> Sequence[str]:
        return [str(n) for n in self.numbers]

    def run(self, item: str) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.log:
            with open(self.log, "a") as log:
                log.write(f"{item} {os.getpid()}\n")
        time.sleep(self.slow)
        n = int(item)
        if n == 13:
            raise TilesatError("thirteen is refused")
        if n == 14:
            raise ZeroDivisionError("fourteen fails")
        if n == 15:
            os.kill(os.getpid(), signal.SIGKILL)
        if n == 16:
            return {"square": float("nan")}, {}
        if n == 17:
            print("noise on stdout")
        return {"square": n * n, "pair": (n, n)}, {"spent": time.perf_counter()}

    def identity(self) -> dict[str, Any]:
        return {"numbers": list(self.numbers)}


@dataclass(frozen=True)
class Unloadable(Squares):
    """A study that worker processes cannot open."""

    def __setstate__(self, state: Any) -> None:
        raise ValueError("no such thing here")


def broken(candidates: Any, problem: Any, target: Any) -> Any:
    """A model without a price for tiles of more than 64 rows."""
    return np.where(candidates.m > 64, np.nan, 1.0)


def small_tiles(candidates: Any, problem: Any, target: Any) -> Any:
    """A model that likes small tiles."""
    return (candidates.m * candidates.n * candidates.k).astype(float)


def large_tiles(candidates: Any, problem: Any, target: Any) -> Any:
    """A model that likes large tiles: the opposite of :func:`small_tiles`."""
    return 1e9 / (candidates.m * candidates.n * candidates.k)


def half_price(candidates: Any, problem: Any, target: Any) -> Any:
    """The roofline at half the price: the same order."""
    from cost import roofline

    return roofline.price(candidates, problem, target).wall / 2


ROOT = Path(__file__).resolve().parents[1]
