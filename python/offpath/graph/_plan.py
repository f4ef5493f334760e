"""PyG's arguments as a plan of batches."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from .. import _core
from ..errors import InvalidArgumentError
from .view import GraphView

__all__ = ["Seeds", "fanouts_of", "seeds_of", "set_feature_format", "whole_number"]


@dataclass
class Seeds:
    """The input nodes: a node type with explicit nodes, a split, or (neither) all of its nodes."""

    node_type: int
    nodes: Optional[np.ndarray] = None  # int64
    split: Optional[str] = None
    # PyG's input_id is a place in the list of input nodes, but a node number where they came as a
    # mask; a split is a mask by another name.
    ids_are_nodes: bool = False


def whole_number(value: Any, what: str, least: int, most: int = 2**63 - 1) -> int:
    """`value` as an int; what is none, such as 1.5, is not rounded to one."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{what} is {value!r}: expected a whole number") from None
    if not least <= number <= most:
        bound = f"{least} or more" if number < least else f"{most} or less"
        raise InvalidArgumentError(f"{what} is {number}: expected {bound}")
    return number


def _hop_list(value: Any, what: str) -> list[int]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise InvalidArgumentError(f"{what} is {value!r}: expected a list of fan-outs")
    try:
        hops = [operator.index(hop) for hop in value]
    except TypeError:
        raise InvalidArgumentError(
            f"{what} is {value!r}: expected a list of fan-outs, each a whole number"
        ) from None
    for hop in hops:
        if not -1 <= hop < 2**63:
            raise InvalidArgumentError(
                f"{what} holds {hop}: a fan-out is -1 (all neighbours), 0 or more"
            )
    return hops


def fanouts_of(graph: GraphView, num_neighbors: Any) -> list[list[int]]:
    """[edge type][hop] of PyG's num_neighbors: a list for all edge types, or a dict by edge type."""
    # torch_geometric's own NumNeighbors object holds one of the two.
    if type(num_neighbors).__name__ == "NumNeighbors":
        num_neighbors = num_neighbors.values
    if not isinstance(num_neighbors, dict):
        hops = _hop_list(num_neighbors, "num_neighbors")
        return [list(hops) for _ in graph.edge_types]
    by_type = {tuple(key): value for key, value in num_neighbors.items()}
    unknown = [key for key in by_type if key not in graph.edge_types]
    if unknown:
        raise InvalidArgumentError(
            f"num_neighbors names edge types that are not there: {unknown}; "
            f"the graph has {graph.edge_types}"
        )
    missing = [name for name in graph.edge_types if name not in by_type]
    if missing:
        raise InvalidArgumentError(f"num_neighbors has no entry for the edge types {missing}")
    rows = [_hop_list(by_type[name], f"num_neighbors[{name}]") for name in graph.edge_types]
    if len({len(row) for row in rows}) > 1:
        raise InvalidArgumentError("num_neighbors has a different number of hops by edge type")
    return rows


def _array(value: Any) -> np.ndarray:
    try:
        return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
    except (TypeError, ValueError, NotImplementedError) as error:  # sparse, ragged, without data
        raise InvalidArgumentError(f"input_nodes is no plain array: {error}") from None


def seeds_of(graph: GraphView, input_nodes: Any) -> Seeds:
    """PyG's input_nodes: None, indices, a mask, a split's name, or (node type, one of these)."""
    node_type: Optional[str] = None
    if isinstance(input_nodes, str) and len(graph.nodes) > 1:
        node_type, input_nodes = input_nodes, None
    elif (
        isinstance(input_nodes, (tuple, list))
        and len(input_nodes) == 2
        and isinstance(input_nodes[0], str)
    ):
        node_type, input_nodes = input_nodes
    elif len(graph.nodes) > 1:
        raise InvalidArgumentError(
            "input_nodes of a heterogeneous graph is a node type, or (node type, nodes); "
            f"the graph has {graph.node_types}"
        )
    t = graph.node_type_index(node_type)
    if input_nodes is None:
        return Seeds(t)
    if isinstance(input_nodes, str):
        if not input_nodes:
            raise InvalidArgumentError("input_nodes is '': expected a split's name, or None for all")
        if input_nodes == graph.node_types[t] and input_nodes not in graph.nodes[t].splits:
            return Seeds(t)
        return Seeds(t, split=input_nodes, ids_are_nodes=True)
    nodes = _array(input_nodes)
    if nodes.dtype == np.bool_:
        if nodes.shape != (graph.nodes[t].count,):
            raise InvalidArgumentError(
                f"input_nodes is a mask of shape {nodes.shape}, but there are "
                f"{graph.nodes[t].count} nodes of type {graph.node_types[t]!r}"
            )
        return Seeds(t, np.flatnonzero(nodes).astype(np.int64), ids_are_nodes=True)
    if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
        raise InvalidArgumentError(
            f"input_nodes has shape {nodes.shape} and type {nodes.dtype}: expected a list of node "
            "numbers or a mask"
        )
    if nodes.dtype == np.uint64 and nodes.size and nodes.max() >= 2**63:
        raise InvalidArgumentError(f"input_nodes holds {nodes.max()}, which is no node")
    return Seeds(t, np.ascontiguousarray(nodes, dtype=np.int64))


def set_feature_format(plan: _core.BatchPlan, text: Optional[str], remote: bool, seed: int) -> None:
    """Sets how features travel: "f32", "i8", "i4/32" (a scale for 32 columns), "i4~" (stochastic)."""
    if text is None:
        if remote:
            plan.node_format = True
        return
    parts = re.fullmatch(r"([a-z0-9]+)(~?)(?:/([0-9]{1,8}))?", text) if isinstance(text, str) else None
    if parts is None:
        raise InvalidArgumentError(
            f"feature format {text!r}: expected a type, '~' for stochastic rounding, '/COLUMNS'"
        )
    kind, stochastic, block = parts.groups()
    plan.set_feature_format(kind, bool(stochastic), int(block or 0), seed)
