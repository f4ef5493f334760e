"""The paged KV cache, and attention to lists of its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

import numpy as np

from .. import _core

__all__ = ["KvCache", "PartialState"]


@dataclass(frozen=True)
class PartialState:
    """The softmax over some of the tokens, for each query head: disjoint ones merge in any order.

    `output` [query_heads, head_dim] is not divided by `sum` yet; `max` and `sum` are [query_heads].
    Of no tokens: 0, -inf and 0.
    """

    output: np.ndarray
    max: np.ndarray
    sum: np.ndarray

    def merge(self, other: "PartialState") -> "PartialState":
        """The state of the union of both sets of tokens."""
        merged = _core.merge_states(self.output, self.max, self.sum, other.output, other.max, other.sum)
        return PartialState(*map(np.asarray, merged))

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """The attention's result [query_heads, head_dim], and the natural log-sum-exp [query_heads]."""
        output, lse = _core.finish_state(self.output, self.max, self.sum)
        return np.asarray(output), np.asarray(lse)


class KvCache:
    """Keys and values of several sequences in pages of `block_tokens` tokens.

    `type` is what they are stored as: f32, f16, bf16 or i8 (a scale for each token and head).
    `head_dim` is a multiple of 4 up to 256, `block_tokens` 16, 32, 64 or 128. Calls from several
    threads take turns.
    """

    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        block_tokens: int = 16,
        type: str = "f16",
        memory_bytes: int = 1 << 30,
    ):
        self.layers, self.kv_heads, self.head_dim = layers, kv_heads, head_dim
        self.block_tokens, self.type = block_tokens, type
        self._core = _core.KvCache(layers, kv_heads, head_dim, block_tokens, type, memory_bytes)

    def create(self) -> int:
        """A sequence without tokens."""
        return self._core.create()

    def fork(self, sequence: int, tokens: int) -> int:
        """A sequence that begins with the first `tokens` tokens of another; whole pages are shared."""
        return self._core.fork(sequence, tokens)

    def free(self, sequence: int) -> None:
        self._core.free(sequence)

    def append(self, sequence: int, layer: int, keys, values) -> None:
        """Appends tokens to a layer; both are [tokens, kv_heads, head_dim], keys after the rotary embedding."""
        self._core.append(sequence, layer, keys, values)

    def tokens(self, sequence: int, layer: int) -> int:
        return self._core.tokens(sequence, layer)

    def blocks(self, sequence: int, layer: int) -> int:
        return -(-self.tokens(sequence, layer) // self.block_tokens)

    def read(self, sequence: int, layer: int, kv_head: int, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values [count, head_dim] of a KV head as they are stored, of tokens `first` and on."""
        keys, values = self._core.read(sequence, layer, kv_head, first, count)
        return np.asarray(keys), np.asarray(values)

    def attend(
        self,
        sequence: int,
        layer: int,
        queries,
        blocks: Optional[Sequence[Sequence[int]]] = None,
        *,
        scale: Optional[float] = None,
        soft_cap: float = 0.0,
        first_token: int = 0,
    ) -> PartialState:
        """Attention of queries [query_heads, head_dim] to a list of blocks for each KV head.

        Neighbouring query heads share a KV head. `blocks` None is all of them. Tokens before
        `first_token` are left out (a sliding window). `scale` is 1 / sqrt(head_dim) if not given.
        Raises InvalidArgumentError naming a block that does not exist or comes twice.
        """
        lists = None if blocks is None else [np.asarray(b, dtype=np.int64).tolist() for b in blocks]
        scale = self.head_dim**-0.5 if scale is None else scale
        state = self._core.attend(sequence, layer, queries, lists, scale, soft_cap, first_token)
        return PartialState(*map(np.asarray, state))
