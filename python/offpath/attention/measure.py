"""Selectors and predictors measured on a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional, Sequence, Union

import numpy as np

from ..errors import InvalidArgumentError
from .cache import KvCache
from .prediction import Ema, PreviousSet, QueryRegression, fit_ema
from .selection import BlockSelector, Selector, choose_blocks
from .trace import Trace

__all__ = ["Coverage", "SelectorReport", "measure_selector"]


@dataclass(frozen=True)
class Coverage:
    """The part of the selections that was predicted, blocks that are always kept left out."""

    mean: float
    heads: np.ndarray  # the mean of each layer's KV heads that were measured

    @property
    def worst_heads(self) -> float:
        """The 5th percentile over heads."""
        return float(np.percentile(self.heads, 5))


@dataclass(frozen=True)
class SelectorReport:
    selector: str
    budget_blocks: int
    predicted_blocks: int
    steps: int
    mass: float  # the mean part of the softmax's weight that the selection holds
    coverage: dict[str, Coverage] = field(default_factory=dict)


# Makes a predictor from the steps before those that are measured: (feature query, scores, selected).
PredictorFactory = Callable[[Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], int], object]


def _fitted_ema(history, predicted: int) -> Ema:
    fit = fit_ema([(scores, selected) for _, scores, selected in history], predicted)
    return Ema(fit.alpha, fit.beta, fit.gamma)


PREDICTORS: Mapping[str, PredictorFactory] = {
    "previous": lambda history, predicted: PreviousSet(),
    "ema": _fitted_ema,
    "regression": lambda history, predicted: QueryRegression(),
}


def measure_selector(
    trace: Trace,
    selector: Union[str, Selector, BlockSelector],
    *,
    budget_blocks: int = 32,
    predicted_blocks: Optional[int] = None,
    predictors: Mapping[str, PredictorFactory] = PREDICTORS,
    fit_steps: int = 64,
    mass_every: int = 16,
    layers: Optional[Sequence[int]] = None,
    type: str = "f16",
) -> SelectorReport:
    """Runs a selector over a trace's steps, and predictors beside it.

    The first `fit_steps` steps are what predictors are made from (the prefill's last queries), the
    others are measured. `predicted_blocks` is 1.5 times the budget if not given. The selection's share
    of the softmax is taken at every `mass_every`-th step. `layers` are all that the selector does not
    leave dense if not given; `type` is what the KV cache stores.
    """
    if isinstance(selector, str):
        selector = Selector(selector, head_dim=trace.head_dim)
    predicted = budget_blocks * 3 // 2 if predicted_blocks is None else predicted_blocks
    if trace.steps <= fit_steps or fit_steps < 2:
        raise InvalidArgumentError(
            f"a trace of {trace.steps} steps, {fit_steps} of them to fit: at least 2 to fit and 1 to measure are needed"
        )
    if layers is None:
        layers = range(selector.dense_layers, trace.layers)
    kept = selector.kept.within(budget_blocks)
    masses: list[float] = []
    coverages: dict[str, list[float]] = {name: [] for name in predictors}
    for layer in layers:
        heads = _select(trace, selector, layer, kept, budget_blocks, fit_steps, mass_every, type, masses)
        for steps in heads:
            for name, factory in predictors.items():
                predictor = factory(steps[:fit_steps], predicted)
                coverages[name].append(_coverage(predictor, steps, fit_steps, kept, predicted, selector.block_tokens, trace))
    return SelectorReport(
        selector=selector.name,
        budget_blocks=budget_blocks,
        predicted_blocks=predicted,
        steps=trace.steps - fit_steps,
        mass=float(np.mean(masses)) if masses else float("nan"),
        coverage={name: Coverage(float(np.mean(v)), np.array(v)) for name, v in coverages.items()},
    )


class _OwnIndex:
    """Summaries of a BlockSelector, made once as blocks fill."""

    def __init__(self, selector: BlockSelector, cache: KvCache, sequence: int):
        self._selector, self._cache, self._sequence = selector, cache, sequence
        self._summaries: list[list[np.ndarray]] = [[] for _ in range(cache.kv_heads)]

    def scores(self, layer: int, kv_head: int, queries: np.ndarray, scale: float) -> np.ndarray:
        size = self._selector.block_tokens
        held = self._summaries[kv_head]
        while (len(held) + 1) * size <= self._cache.tokens(self._sequence, layer):
            keys, _ = self._cache.read(self._sequence, layer, kv_head, len(held) * size, size)
            held.append(np.asarray(self._selector.summarize(keys)))
        scores = self._selector.score(np.stack(held), queries, scale) if held else np.empty(0)
        if np.shape(scores) != (len(held),):
            raise InvalidArgumentError(
                f"selector {self._selector.name}: score() returned shape {np.shape(scores)} for {len(held)} blocks"
            )
        return np.asarray(scores, dtype=np.float32)

    def priorities(self, layer: int, kv_head: int) -> np.ndarray:
        return np.empty(0, dtype=np.float32)


def _select(trace, selector, layer, kept, budget, fit_steps, mass_every, type, masses):
    """The steps of a layer: for each KV head a list of (feature query, scores, selected)."""
    block_bytes = 4 * 2 * selector.block_tokens * trace.head_dim + 2 * 4 * selector.block_tokens + 256
    pages = trace.tokens // selector.block_tokens + 2
    cache = KvCache(
        layers=1,
        kv_heads=trace.kv_heads,
        head_dim=trace.head_dim,
        block_tokens=selector.block_tokens,
        type=type,
        memory_bytes=pages * trace.kv_heads * block_bytes,
    )
    sequence = cache.create()
    index = (
        _OwnIndex(selector, cache, sequence)
        if isinstance(selector, BlockSelector)
        else selector.index(cache, sequence)
    )
    keys = np.asarray(trace.keys[:, layer], dtype=np.float32)
    values = np.zeros_like(keys) if trace.values is None else np.asarray(trace.values[:, layer], dtype=np.float32)
    queries = np.asarray(trace.queries[:, layer], dtype=np.float32)
    first = trace.tokens - trace.steps
    cache.append(sequence, 0, keys[:first], values[:first])
    heads: list[list] = [[] for _ in range(trace.kv_heads)]
    for step in range(trace.steps):
        token = first + step
        cache.append(sequence, 0, keys[token : token + 1], values[token : token + 1])
        blocks = cache.blocks(sequence, 0)
        for head, steps in enumerate(heads):
            query = queries[step, head * trace.group : (head + 1) * trace.group]
            scores = index.scores(0, head, query, trace.scale)
            priorities = index.priorities(0, head) if kept.priority else None
            chosen = choose_blocks(scores, budget, blocks=blocks, kept=kept, priorities=priorities)
            steps.append((selector.feature_query(query), scores, chosen))
        if step >= fit_steps and (step - fit_steps) % mass_every == 0:
            lists = [steps[-1][2] for steps in heads]
            _, part = cache.attend(sequence, 0, queries[step], lists, scale=trace.scale).finish()
            _, whole = cache.attend(sequence, 0, queries[step], scale=trace.scale).finish()
            masses.append(float(np.exp(part - whole).mean()))
    return heads


def _coverage(predictor, steps, fit_steps, kept, predicted, block_tokens, trace) -> float:
    found = []
    for step, (query, scores, selected) in enumerate(steps):
        if step >= fit_steps:
            blocks = -(-(trace.tokens - trace.steps + step + 1) // block_tokens)
            chosen = choose_blocks(predictor.predict(query), predicted, blocks=blocks, kept=kept._replace(priority=0))
            wanted = selected[(selected >= kept.sinks) & (selected < blocks - kept.window)]
            if len(wanted):
                found.append(np.isin(wanted, chosen, assume_unique=True).mean())
        predictor.observe(query, scores, selected)
    return float(np.mean(found)) if found else float("nan")
