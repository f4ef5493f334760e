"""Sampled batches as torch_geometric's Data and HeteroData, with the fields of its NeighborLoader."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

from .. import _core
from ._memory_graph import MemoryGraph
from .view import GraphView, LocalGraph

__all__ = ["MemoryFields", "StoreFields"]

_tensor = torch.from_dlpack


def _describe(out, core: _core.Batch, input_id: torch.Tensor) -> None:
    """The fields of a batch, or of the seeds' type in a heterogeneous one."""
    out.input_id = input_id
    out.seed_time = None
    out.batch_size = core.batch_size


class StoreFields:
    """Batches of a store: x, y, and the splits as masks where they can be read here."""

    reads_features = True
    reads_labels = True

    def __init__(self, graph: GraphView):
        self._graph = graph
        self._masks: list[dict[str, torch.Tensor]] = []
        for t, node in enumerate(graph.nodes):
            masks = {}
            if isinstance(graph, LocalGraph):
                for split in node.splits:
                    mask = torch.zeros(node.count, dtype=torch.bool)
                    mask[torch.from_numpy(np.array(graph.split(t, split)))] = True
                    masks[f"{split}_mask"] = mask
            self._masks.append(masks)

    def __call__(self, core: _core.Batch, input_id: torch.Tensor, seed_type: int):
        if self._graph.homogeneous:
            out = Data()
            self._fill_nodes(out, core, 0)
            self._fill_edges(out, core, 0)
            _describe(out, core, input_id)
            return out
        out = HeteroData()
        for t, name in enumerate(self._graph.node_types):
            self._fill_nodes(out[name], core, t)
        for e, name in enumerate(self._graph.edge_types):
            self._fill_edges(out[name], core, e)
        _describe(out[self._graph.node_types[seed_type]], core, input_id)
        return out

    def _fill_nodes(self, out, core: _core.Batch, t: int) -> None:
        n_id = _tensor(core.node_ids(t))
        features, labels = core.features(t), core.labels(t)
        if features is not None:
            out.x = _tensor(features)
        if labels is not None:
            out.y = _tensor(labels)
        for name, mask in self._masks[t].items():
            out[name] = mask.index_select(0, n_id)
        out.n_id = n_id
        out.num_nodes = n_id.numel()
        out.batch = None
        out.num_sampled_nodes = core.node_hop_counts(t)

    def _fill_edges(self, out, core: _core.Batch, e: int) -> None:
        out.edge_index = _tensor(core.edge_index(e))
        out.e_id = _tensor(core.edge_ids(e))
        out.num_sampled_edges = core.edge_hop_counts(e)


class MemoryFields:
    """Batches of a Data or HeteroData: copies of it that hold the sampled nodes' and edges' part.

    f32 tables named `x` are gathered with the sampling; other attributes are selected here.
    """

    reads_labels = False

    def __init__(self, graph: MemoryGraph, data: Any):
        self._parts = graph.parts
        self._data = data
        self._gathered = graph.gathers_x
        self.reads_features = any(self._gathered)

    def __call__(self, core: _core.Batch, input_id: torch.Tensor, seed_type: int):
        out = copy.copy(self._data)
        if not self._parts.heterogeneous:
            self._fill_nodes(out, core, 0)
            self._fill_edges(out, core, 0)
            _describe(out, core, input_id)
            return out
        for t, node in enumerate(self._parts.nodes):
            self._fill_nodes(out[node.name], core, t)
        for e, edge in enumerate(self._parts.edges):
            self._fill_edges(out[edge.name], core, e)
        _describe(out[self._parts.nodes[seed_type].name], core, input_id)
        return out

    def _fill_nodes(self, out, core: _core.Batch, t: int) -> None:
        n_id = _tensor(core.node_ids(t))
        for key, value in self._parts.nodes[t].attributes.items():
            if key == "x" and self._gathered[t]:
                out.x = _tensor(core.features(t))
            else:
                out[key] = _select(value, n_id)
        if "num_nodes" in out:
            out.num_nodes = n_id.numel()
        out.n_id = n_id
        out.batch = None
        out.num_sampled_nodes = core.node_hop_counts(t)

    def _fill_edges(self, out, core: _core.Batch, e: int) -> None:
        e_id = _tensor(core.edge_ids(e))
        edge_index = _tensor(core.edge_index(e))
        out.edge_index = edge_index.to(self._parts.edges[e].edge_index.device)
        for key, value in self._parts.edges[e].attributes.items():
            out[key] = _select(value, e_id)
        out.e_id = e_id
        out.num_sampled_edges = core.edge_hop_counts(e)


def _select(value: Any, index: torch.Tensor) -> Any:
    """Rows of an attribute; TensorFrames and the like index themselves."""
    if isinstance(value, torch.Tensor):
        return value.index_select(0, index.to(value.device))
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.take(index.numpy(), axis=0))
    return value[index]
