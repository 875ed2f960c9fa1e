"""How well a model's prices agree with a referee's, within one problem. Prices of different problems are never pooled.

``predicted`` and ``actual`` are arrays of one entry a candidate; ``order`` lists candidates in a model's order, its pick first.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Rows = NDArray[np.intp]

#: Pairs whose referee's figures are closer than this share are left out of pairwise accuracy: a device's noise.
NOISE = 0.04


def regret(order: Rows, actual: Array, k: int = 1) -> float:
    """How much worse the best of the model's first ``k`` is than the best there is: 0.1 is 10 %."""
    return float(actual[order[:k]].min() / actual.min() - 1)


def recall(order: Rows, actual: Array, k: int) -> float:
    """Which share of the model's first ``k`` is among the referee's best ``k`` (or as good as the last of them)."""
    k = min(k, len(actual))
    last = np.partition(actual, k - 1)[k - 1]
    return float((actual[order[:k]] <= last).mean())


def kendall(predicted: Array, actual: Array) -> float | None:
    """Kendall's τ-b; None where one side is all ties."""
    return _number(stats.kendalltau, predicted, actual)


def spearman(predicted: Array, actual: Array) -> float | None:
    """Spearman's rank correlation; None where one side is all ties."""
    return _number(stats.spearmanr, predicted, actual)


def _number(statistic: object, predicted: Array, actual: Array) -> float | None:
    if len(actual) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant input: the answer is nan, which becomes None
        found = float(statistic(predicted, actual).statistic)  # type: ignore[operator]
    return found if np.isfinite(found) else None


def pairwise_accuracy(predicted: Array, actual: Array, within: float = NOISE) -> float | None:
    """The share of pairs that the model orders as the referee does, leaving out pairs closer than ``within``.

    A tie of the model counts half. None where no pair is left.
    """
    right = total = 0.0
    for i in range(len(actual) - 1):
        a, b, p, q = actual[i], actual[i + 1 :], predicted[i], predicted[i + 1 :]
        counts = np.maximum(a, b) > np.minimum(a, b) * (1 + within)
        total += float(counts.sum())
        agree = np.sign(p - q) * np.sign(a - b)
        right += float(((agree + 1) / 2)[counts].sum())
    return right / total if total else None


def mape(predicted: Array, actual: Array) -> float:
    """The mean of |predicted − actual| / actual."""
    return float(np.abs(predicted / actual - 1).mean())


def log_error(predicted: Iterable[float], measured: Iterable[float]) -> float:
    """The mean of |ln(predicted / measured)| over ratios: 0.1 means off by about 10 %, either way."""
    p, m = np.array(list(predicted), dtype=np.float64), np.array(list(measured), dtype=np.float64)
    return float(np.abs(np.log(p / m)).mean())


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean of positive numbers; None of none."""
    found = np.array(list(values), dtype=np.float64)
    return float(np.exp(np.log(found).mean())) if len(found) else None
