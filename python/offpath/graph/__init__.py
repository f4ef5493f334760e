"""Graphs for training: stores, sampled batches, and loaders, here or behind a memory node."""

from __future__ import annotations

from .batches import Batches, SampledBatch, sample_batches
from .loader import NeighborLoader
from .store import Store
from .view import open_graph

__all__ = [
    "Batches",
    "NeighborLoader",
    "SampledBatch",
    "Store",
    "open_graph",
    "sample_batches",
]
