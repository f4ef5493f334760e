"""Whole decode steps by a policy."""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from .. import _core

__all__ = ["Decoder"]


class Decoder:
    """The attention of a model's layers over its KV cache.

    For each new token and each layer: `append` its keys and values, then `attend` with its queries.
    Several tokens at once are a prefill, dense and causal; one is a decode step, by `policy`:

    dense    every block
    serial   select, then attend
    reuse    attend to the last step's selection
    prr      attend to `speculated_blocks` predicted blocks while selecting, then to those missed; with
             `extras` "drop" the result equals serial's to rounding, with "keep" it is attention to both

    `predictor` is "ema", "regression" (on this step's query; the better one) or "previous";
    `budget_tokens` a KV head counts sinks and window. `windows` has the tokens that each layer sees,
    0 for all. Results do not depend on `threads`. Calls from several threads take turns.

    `scan` "bounded" finds the same blocks as "flat" without most of the scores, in long contexts; it takes
    quest, mean-std, arkvale and infllm. `budgets` is a table of `offpath attention profile`, by which prr
    speculates where `speculated_blocks` is None; one of another machine or shape is refused unless
    `force_budgets`.
    """

    def __init__(
        self,
        *,
        layers: int,
        query_heads: int,
        kv_heads: int,
        head_dim: int,
        block_tokens: int = 16,
        type: str = "f16",
        memory_bytes: int = 1 << 30,
        scale: Optional[float] = None,
        soft_cap: float = 0.0,
        windows: Optional[Sequence[int]] = None,
        policy: str = "prr",
        extras: str = "drop",
        selector: str = "quest",
        budget_tokens: int = 512,
        scan: str = "flat",
        speculated_blocks: Optional[int] = None,
        budgets: Optional[str] = None,
        force_budgets: bool = False,
        predictor: str = "ema",
        threads: int = 1,
    ):
        self._core = _core.Decoder(
            layers, query_heads, kv_heads, head_dim, block_tokens, type, memory_bytes,
            head_dim**-0.5 if scale is None else scale, soft_cap,
            [0] * layers if windows is None else list(windows),
            policy, extras, selector, budget_tokens, scan, speculated_blocks, budgets, force_budgets,
            predictor, threads,
        )  # fmt: skip

    def create(self) -> int:
        """A sequence without tokens."""
        return self._core.create()

    def fork(self, sequence: int, tokens: int) -> int:
        """A sequence that begins with the first `tokens` tokens of another, whose layers all have them."""
        return self._core.fork(sequence, tokens)

    def truncate(self, sequence: int, tokens: int) -> None:
        """Keeps the first `tokens` tokens."""
        self._core.truncate(sequence, tokens)

    def free(self, sequence: int) -> None:
        self._core.free(sequence)

    def tokens(self, sequence: int, layer: int) -> int:
        return self._core.tokens(sequence, layer)

    def append(self, sequence: int, layer: int, keys, values) -> None:
        """Keys (after the rotary embedding) and values, [tokens, kv_heads, head_dim]."""
        self._core.append(sequence, layer, keys, values)

    def attend(self, sequence: int, layer: int, queries) -> np.ndarray:
        """Attention of the last tokens: queries and result are [tokens, query_heads, head_dim]."""
        return np.asarray(self._core.attend(sequence, layer, queries))

    def fit_predictor(self, sequence: int, layer: int, queries) -> None:
        """Makes a layer's predictor from the prefill's last queries [tokens, query_heads, head_dim], at least 2.

        A grid search gives each KV head its moving average's parameters, and the scores are remembered.
        """
        self._core.fit_predictor(sequence, layer, queries)

    def last_selection(self, sequence: int, layer: int, kv_head: int) -> np.ndarray:
        """The blocks of the last decode step, ascending; empty after a dense one."""
        return np.asarray(self._core.last_selection(sequence, layer, kv_head))

    def counters(self) -> dict[str, int]:
        """Times in nanoseconds and counts, since the start or `reset_counters`."""
        return self._core.counters()

    def reset_counters(self) -> None:
        self._core.reset_counters()
