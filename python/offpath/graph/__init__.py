"""Graphs for training: stores, sampled batches, and loaders, here or behind a memory node."""

from __future__ import annotations

from .batches import Batches, SampledBatch, sample_batches
from .importers import import_graph
from .loader import NeighborLoader
from .store import Store
from .view import open_graph

__all__ = [
    "Batches",
    "NeighborLoader",
    "SampledBatch",
    "Store",
    "import_graph",
    "open_graph",
    "sample_batches",
]
