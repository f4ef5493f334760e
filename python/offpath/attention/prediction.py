"""Predictors of the next selection, before its scores are there.

A predictor has `observe(query, scores, selected)`, called after each step, and `predict(query)`, which
returns scores of the blocks known so far: the highest are the prediction. `query` is the selector's
feature query of the step. Any object with these two can be measured (`measure_selector`).
"""

from __future__ import annotations

from typing import Iterable, NamedTuple

import numpy as np

from .. import _core

__all__ = ["Ema", "EmaFit", "PreviousSet", "QueryRegression", "fit_ema"]


class PreviousSet:
    """The last step's selection."""

    def __init__(self):
        self._scores = np.empty(0, dtype=np.float32)

    def observe(self, query, scores, selected) -> None:
        self._scores = np.zeros(len(scores), dtype=np.float32)
        self._scores[[block for block in selected if block < len(scores)]] = 1

    def predict(self, query) -> np.ndarray:
        return self._scores


class Ema:
    """An exponential moving average of each block's scores, with a trend (see offpath/attention/predict/ema.h).

    `alpha` in (0, 1] weighs the last score, `beta` in [0, 1] the trend, `gamma` in [0, 1] keeps
    blocks that were not scored (NaN).
    """

    def __init__(self, alpha: float = 0.5, beta: float = 0.0, gamma: float = 0.9):
        self._core = _core.Ema(alpha, beta, gamma)

    def observe(self, query, scores, selected) -> None:
        self._core.observe(np.ascontiguousarray(scores, dtype=np.float32))

    def predict(self, query=None) -> np.ndarray:
        return np.asarray(self._core.predict())


class QueryRegression:
    """The step's query as a combination of the last `steps` queries, applied to their scores.

    Least squares with a little damping; exact where scores are linear in the query and the query lies
    in the span of the last ones.
    """

    def __init__(self, steps: int = 16):
        self._core = _core.QueryRegression(steps)

    def observe(self, query, scores, selected) -> None:
        self._core.observe(query, np.ascontiguousarray(scores, dtype=np.float32))

    def predict(self, query) -> np.ndarray:
        return np.asarray(self._core.predict(query))


class EmaFit(NamedTuple):
    alpha: float
    beta: float
    gamma: float
    coverage: float  # of the history's selections, by the steps before each


def fit_ema(history: Iterable[tuple[np.ndarray, np.ndarray]], predicted: int) -> EmaFit:
    """The parameters of `Ema` that predict a history best, by grid search.

    `history` has (scores, selected blocks) of each step, at least 2; `predicted` is how many blocks may
    be predicted.
    """
    steps = [
        (np.ascontiguousarray(scores, np.float32), np.ascontiguousarray(selected, np.uint32))
        for scores, selected in history
    ]
    return EmaFit(*_core.fit_ema(steps, predicted))
