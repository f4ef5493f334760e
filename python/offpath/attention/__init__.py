"""Sparse attention for long contexts: the parts of Offpath's attention engine, on numpy and torch arrays.

    cache = KvCache(layers=1, kv_heads=3, head_dim=64)
    sequence = cache.create()
    cache.append(sequence, 0, keys, values)              # f32 [tokens, kv_heads, head_dim]
    state = cache.attend(sequence, 0, queries, blocks)   # f32 [query_heads, head_dim]; lists of blocks
    output, lse = state.finish()

`Decoder` runs whole decode steps by a policy (dense, serial, reuse, prr). `Trace` holds recorded
queries and keys of a model, on which `measure_selector` compares selectors and predictors, also those
of your own: see `BlockSelector`.

Arrays are taken by DLPack or the buffer protocol: contiguous f32 on the CPU without a copy, others
converted. What is returned are numpy arrays; `torch.from_dlpack` takes them without a copy.
"""

from .cache import KvCache, PartialState
from .decoder import Decoder
from .measure import SelectorReport, measure_selector
from .prediction import Ema, EmaFit, PreviousSet, QueryRegression, fit_ema
from .selection import (
    BlockSelector,
    Kept,
    SelectionIndex,
    Selector,
    SelectorInfo,
    choose_blocks,
    selectors,
)
from .trace import Trace, TraceSelection

__all__ = [
    "BlockSelector",
    "Decoder",
    "Ema",
    "EmaFit",
    "Kept",
    "KvCache",
    "PartialState",
    "PreviousSet",
    "QueryRegression",
    "SelectionIndex",
    "Selector",
    "SelectorInfo",
    "SelectorReport",
    "Trace",
    "TraceSelection",
    "choose_blocks",
    "fit_ema",
    "measure_selector",
    "selectors",
]
