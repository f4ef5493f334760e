"""A graph to sample from, wherever it is: a mapped store here, or one behind a memory node."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Optional, Union

import numpy as np

from .. import _core
from ..errors import InvalidArgumentError, NotFoundError
from ._pyg_data import is_pyg_data
from .store import EdgeType, Store, _index_of

__all__ = ["GraphView", "LocalGraph", "NodeTypeInfo", "RemoteGraph", "open_graph"]

URL_PREFIX = "offpath://"


@dataclass
class NodeTypeInfo:
    name: str
    count: int
    feature_dim: Optional[int]  # None: no features
    num_classes: int
    has_labels: bool
    splits: dict[str, int] = field(default_factory=dict)  # name, number of nodes


class GraphView:
    """What a loader and a trainer need to know of a graph. Types are in the store's order."""

    def __init__(self, description: str, nodes: list[NodeTypeInfo], edges: list[EdgeType]):
        self.description = description
        self.nodes = nodes
        self.edge_types = edges
        self.node_types = [node.name for node in nodes]
        ends = {name: t for t, name in enumerate(self.node_types)}
        self.edge_ends = [(ends[src], ends[dst]) for src, _, dst in edges]

    @property
    def homogeneous(self) -> bool:
        return len(self.nodes) == 1 and len(self.edge_types) == 1

    def node_type_index(self, name: Optional[str] = None) -> int:
        return _index_of(name, self.node_types, "node type")

    def edge_type_index(self, name: Optional[EdgeType] = None) -> int:
        return _index_of(None if name is None else tuple(name), self.edge_types, "edge type")

    def split(self, node_type: int, name: str) -> np.ndarray:
        """int64 node numbers."""
        raise NotImplementedError

    def open_source(self, plan: _core.BatchPlan, *, threads: int, prefetch: int, mode: str):
        """Something with begin(epoch, first) and next(timeout)."""
        raise NotImplementedError


class LocalGraph(GraphView):
    def __init__(self, store: Store):
        core = store._core
        nodes = []
        for t, name in enumerate(store.node_types):
            features = core.features(t)
            splits = {s: int(np.asarray(core.split(t, s)).size) for s in core.split_names(t)}
            nodes.append(
                NodeTypeInfo(
                    name=name,
                    count=core.num_nodes(t),
                    feature_dim=None if features is None else int(np.asarray(features).shape[1]),
                    num_classes=core.num_classes(t),
                    has_labels=core.labels(t) is not None,
                    splits=splits,
                )
            )
        super().__init__(store.description, nodes, store.edge_types)
        self.store = store

    def split(self, node_type: int, name: str) -> np.ndarray:
        return np.asarray(self.store._core.split(node_type, name))

    def open_source(self, plan: _core.BatchPlan, *, threads: int, prefetch: int, mode: str):
        if mode != "near":
            raise InvalidArgumentError(f"mode {mode!r} is how a memory node is asked: use a URL")
        return _core.LocalSource(self.store._core, plan, threads, prefetch)


class RemoteGraph(GraphView):
    def __init__(self, address: str, timeout: float = 30.0):
        info = _core.fetch_store_info(address, timeout)
        nodes = [
            NodeTypeInfo(
                name=node["name"],
                count=node["count"],
                feature_dim=None if node["feature_dim"] < 0 else node["feature_dim"],
                num_classes=node["num_classes"],
                has_labels=node["has_labels"],
                splits=dict(node["splits"]),
            )
            for node in info["node_types"]
        ]
        super().__init__(info["description"], nodes, [edge["name"] for edge in info["edge_types"]])
        self.address = address
        self.timeout = timeout

    def split(self, node_type: int, name: str) -> np.ndarray:
        if name not in self.nodes[node_type].splits:
            raise NotFoundError(
                f"node type {self.node_types[node_type]!r} has no split {name!r}; "
                f"it has: {', '.join(self.nodes[node_type].splits) or 'none'}"
            )
        return np.asarray(_core.fetch_split(self.address, node_type, name, self.timeout))

    def open_source(self, plan: _core.BatchPlan, *, threads: int, prefetch: int, mode: str):
        # Several requests under way, or each batch would wait for a round trip.
        ahead = max(4, max(threads, 1) * prefetch)
        return _core.RemoteSource(self.address, plan, mode, ahead, self.timeout)


def open_graph(graph: Union[GraphView, Store, str, os.PathLike]) -> GraphView:
    """A Store, a store's folder, or `offpath://host:port`."""
    if isinstance(graph, GraphView):
        return graph
    if isinstance(graph, Store):
        return LocalGraph(graph)
    if isinstance(graph, (str, os.PathLike)):
        text = os.fspath(graph)
        if text.startswith(URL_PREFIX):
            return RemoteGraph(text[len(URL_PREFIX) :].rstrip("/"))
        if "://" in text:
            raise InvalidArgumentError(f"{text!r}: expected a folder or {URL_PREFIX}HOST:PORT")
        return LocalGraph(Store.open(text))
    hint = ": write it with Store.from_pyg(), or use NeighborLoader" if is_pyg_data(graph) else ""
    raise InvalidArgumentError(
        f"expected a Store, a store's folder or {URL_PREFIX}HOST:PORT; got {type(graph).__name__}{hint}"
    )
