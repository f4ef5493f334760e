"""Selectors: which blocks a query attends to."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Optional

import numpy as np

from .. import _core
from .cache import KvCache

__all__ = ["BlockSelector", "Kept", "SelectionIndex", "Selector", "SelectorInfo", "choose_blocks", "selectors"]


class SelectorInfo(NamedTuple):
    name: str
    what: str
    block_tokens: int  # as published


def selectors() -> list[SelectorInfo]:
    """The selectors that come with Offpath."""
    return [SelectorInfo(*entry) for entry in _core.selectors()]


class Kept(NamedTuple):
    """Blocks that are part of every selection, and count inside its budget."""

    sinks: int = 0  # at the start
    window: int = 1  # at the end, the last block included
    priority: int = 0  # those of the highest priority

    def within(self, budget: int) -> "Kept":
        """Lowered, as the decoder does, so that at least half of the budget is chosen by score."""
        return Kept(*_core.kept_within(*self, budget))


class Selector:
    """A selector that comes with Offpath, by name: see `selectors()`."""

    def __init__(self, name: str, *, head_dim: int, block_tokens: int = 16):
        self._core = _core.Selector(name, head_dim, block_tokens)
        self.name: str = self._core.name
        self.block_tokens: int = self._core.block_tokens
        self.dense_layers: int = self._core.dense_layers
        self.dense_below: int = self._core.dense_below
        self.kept = Kept(*self._core.kept)

    def index(self, cache: KvCache, sequence: int) -> "SelectionIndex":
        """Summaries of a sequence's keys, made once as blocks fill."""
        return SelectionIndex(self, cache, sequence)

    def feature_query(self, queries) -> np.ndarray:
        """What the summaries are multiplied with, for the queries [heads, head_dim] of a KV head."""
        return np.asarray(self._core.feature_query(queries))


class SelectionIndex:
    """The summaries of one sequence of a cache, up to date at every call."""

    def __init__(self, selector: Selector, cache: KvCache, sequence: int):
        self._core = _core.SelectionIndex(selector._core, cache._core, sequence)

    def scores(self, layer: int, kv_head: int, queries, scale: float = 1.0) -> np.ndarray:
        """Scores of the whole blocks, for the queries [heads, head_dim] that share the KV head."""
        return np.asarray(self._core.scores(layer, kv_head, queries, scale))

    def priorities(self, layer: int, kv_head: int) -> np.ndarray:
        """Of the whole blocks; empty for a selector that keeps none by priority."""
        return np.asarray(self._core.priorities(layer, kv_head))


class BlockSelector:
    """Base class of a selector of your own: override `summarize` and `score`.

    It sees keys as the cache stores them. Where `feature_query` is not overridden, predictors that
    use the query see the mean of the group's heads and its absolute value.
    """

    name = "own"
    block_tokens = 16
    dense_layers = 0
    dense_below = 0
    kept = Kept()

    def summarize(self, keys: np.ndarray) -> np.ndarray:
        """Features [any] of a whole block's keys [block_tokens, head_dim]; called once a block."""
        raise NotImplementedError

    def score(self, summaries: np.ndarray, queries: np.ndarray, scale: float) -> np.ndarray:
        """Scores [blocks] from summaries [blocks, features] and queries [heads, head_dim]."""
        raise NotImplementedError

    def feature_query(self, queries: np.ndarray) -> np.ndarray:
        queries = np.asarray(queries, dtype=np.float32)
        return np.concatenate([queries.mean(0), np.abs(queries).mean(0)])


def choose_blocks(
    scores,
    budget: int,
    *,
    blocks: Optional[int] = None,
    kept: Kept = Kept(),
    priorities: Optional[Iterable[float]] = None,
) -> np.ndarray:
    """The `budget` best blocks, ascending: those always kept, then the highest scores, lower blocks first.

    `blocks` are those of the sequence, by default as many as scores; what has no score is taken first.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float32)
    if priorities is not None:
        priorities = np.ascontiguousarray(priorities, dtype=np.float32)
    blocks = len(scores) if blocks is None else blocks
    return np.asarray(_core.choose_blocks(scores, blocks, budget, *kept, priorities))
