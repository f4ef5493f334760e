"""What Offpath reads of torch_geometric's Data and HeteroData, and how it tells attributes apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidArgumentError, UnsupportedError

__all__ = ["EdgePart", "GraphParts", "NodePart", "is_pyg_data", "parts_of"]

# Homogeneous graphs have one unnamed type in PyG; a store names it.
NODE_TYPE = "node"
EDGE_TYPE = ("node", "to", "node")

# Names that are an edge's by their meaning, for graphs with as many nodes as edges.
_EDGE_NAMES = ("edge_index", "edge_attr", "edge_weight", "edge_label", "weight", "e_id")


@dataclass
class NodePart:
    name: str
    count: int
    attributes: dict[str, Any] = field(default_factory=dict)  # first dimension: nodes


@dataclass
class EdgePart:
    name: tuple[str, str, str]
    edge_index: Any  # tensor int64 [2, edges]
    attributes: dict[str, Any] = field(default_factory=dict)  # first dimension: edges

    @property
    def count(self) -> int:
        return int(self.edge_index.shape[1])


@dataclass
class GraphParts:
    """A Data or HeteroData taken apart. `others`: what belongs to the whole graph."""

    heterogeneous: bool
    nodes: list[NodePart]
    edges: list[EdgePart]
    others: dict[str, Any] = field(default_factory=dict)


def is_pyg_data(data) -> bool:
    """Without importing torch_geometric: whoever has such an object has imported it."""
    return any(
        kind.__module__.startswith("torch_geometric.data") and kind.__name__ in ("Data", "HeteroData")
        for kind in type(data).__mro__
    )


def _edge_index_of(store, where: str):
    edge_index = getattr(store, "edge_index", None)
    if edge_index is None:
        if "adj_t" in store:
            raise UnsupportedError(f"{where} has adj_t but no edge_index: only edge_index is read")
        raise InvalidArgumentError(f"{where} has no edge_index")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InvalidArgumentError(
            f"edge_index of {where} has shape {tuple(edge_index.shape)}, not [2, edges]"
        )
    if "int" not in str(edge_index.dtype):
        raise InvalidArgumentError(f"edge_index of {where} is {edge_index.dtype}: expected integers")
    return edge_index


def _rows(value) -> int:
    """Length of the first dimension of an array, -1 of anything else."""
    shape = getattr(value, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) > 0 else -1


def _sort_attributes(store, nodes: NodePart, edges: EdgePart, others: dict) -> None:
    """Nodes' or edges' by length; by name where there are as many nodes as edges."""
    for key, value in store.items():
        if key in ("edge_index", "adj_t", "num_nodes"):
            continue
        rows = _rows(value)
        fits_nodes, fits_edges = rows == nodes.count, rows == edges.count
        if fits_nodes and fits_edges:
            fits_nodes = not (key in _EDGE_NAMES or "edge" in key)
        if fits_nodes:
            nodes.attributes[key] = value
        elif fits_edges:
            edges.attributes[key] = value
        else:
            others[key] = value


def parts_of(data) -> GraphParts:
    """Takes a Data or HeteroData apart; raises InvalidArgumentError naming what is missing."""
    if hasattr(data, "edge_types"):
        return _hetero_parts(data)
    others: dict[str, Any] = {}
    edge_index = _edge_index_of(data, "the Data")
    if data.num_nodes is None:
        raise InvalidArgumentError("the Data does not say how many nodes it has: set num_nodes")
    nodes = NodePart(NODE_TYPE, int(data.num_nodes))
    edges = EdgePart(EDGE_TYPE, edge_index)
    _sort_attributes(data._store, nodes, edges, others)
    return GraphParts(False, [nodes], [edges], others)


def _take_attributes(store, known: tuple[str, ...], part, others: dict) -> None:
    """A type's attributes but the known ones: its own where they are as long as it is."""
    for key, value in store.items():
        if key in known:
            continue
        if _rows(value) == part.count:
            part.attributes[key] = value
        else:
            others[f"{part.name}.{key}"] = value


def _hetero_parts(data) -> GraphParts:
    parts = GraphParts(True, [], [])
    for name in data.node_types:
        count = data[name].num_nodes
        if count is None:
            raise InvalidArgumentError(f"node type {name!r} does not say how many nodes it has")
        parts.nodes.append(NodePart(name, int(count)))
        _take_attributes(data[name], ("num_nodes",), parts.nodes[-1], parts.others)
    for name in data.edge_types:
        parts.edges.append(EdgePart(tuple(name), _edge_index_of(data[name], f"edge type {name}")))
        _take_attributes(data[name], ("edge_index", "adj_t"), parts.edges[-1], parts.others)
    return parts
