"""Writes torch_geometric objects as stores."""

from __future__ import annotations

import math
import warnings
from typing import Callable, Optional

import numpy as np

from .. import _core
from ..errors import UnsupportedError
from ._pyg_data import EdgePart, GraphParts, NodePart, parts_of

__all__ = ["write_store", "write_structure"]

_SPLITS = {"train_mask": "train", "val_mask": "val", "test_mask": "test"}
_ROWS_AT_A_TIME = 1 << 16


def _numpy(value) -> np.ndarray:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _ids(value) -> np.ndarray:
    return np.ascontiguousarray(_numpy(value), dtype=np.int64)


def append_rows(append: Callable, type_index: int, value) -> None:
    """Hands a table over as f32 rows, a part at a time so that no whole copy is made."""
    table = _numpy(value)
    if table.ndim == 1:
        table = table[:, None]
    table = table.reshape(table.shape[0], math.prod(table.shape[1:]))
    for first in range(0, max(len(table), 1), _ROWS_AT_A_TIME):
        rows = np.ascontiguousarray(table[first : first + _ROWS_AT_A_TIME], dtype=np.float32)
        append(type_index, rows)


def _write_nodes(writer: _core.StoreWriter, part: NodePart, left_out: list[str]) -> None:
    t = writer.add_node_type(part.name, part.count)
    for key, value in part.attributes.items():
        array = _numpy(value)
        if key == "x" and array.dtype.kind in "fiub":
            append_rows(writer.append_features, t, value)
        elif key == "y" and array.dtype.kind in "iu" and array.size == part.count:
            labels = _ids(array.reshape(-1))
            classes = int(labels.max()) + 1 if labels.size else 0
            writer.set_labels(t, np.maximum(labels, -1), max(classes, 0))
        elif key in _SPLITS and array.dtype == np.bool_ and array.ndim == 1:
            writer.set_split(t, _SPLITS[key], _ids(np.flatnonzero(array)))
        else:
            left_out.append(f"{part.name}.{key}")


def _write_edges(
    writer: _core.StoreWriter, part: EdgePart, types: dict[str, int], left_out: list[str]
) -> None:
    src, relation, dst = part.name
    weight = part.attributes.get("edge_weight")
    if weight is not None and _numpy(weight).ndim != 1:
        raise UnsupportedError(f"edge_weight of {part.name} is not one number an edge")
    e = writer.add_edge_type(types[src], relation, types[dst], has_weights=weight is not None)
    rows, cols = (_ids(part.edge_index[end]) for end in (0, 1))
    weights = None if weight is None else np.ascontiguousarray(_numpy(weight), dtype=np.float32)
    writer.append_edges(e, rows, cols, weights)
    for key, value in part.attributes.items():
        if key == "edge_attr" and _numpy(value).dtype.kind in "fiub":
            append_rows(writer.append_edge_features, e, value)
        elif key != "edge_weight":
            left_out.append(f"{part.name}.{key}")


def write_store(
    data, path: str, replace: bool, description: Optional[str], progress: Optional[Callable]
) -> None:
    parts = parts_of(data)
    writer = _core.StoreWriter(
        path, replace, description or f"torch_geometric {type(data).__name__}", progress
    )
    left_out: list[str] = list(parts.others)
    for node in parts.nodes:
        _write_nodes(writer, node, left_out)
    types = {node.name: t for t, node in enumerate(parts.nodes)}
    for edge in parts.edges:
        _write_edges(writer, edge, types, left_out)
    writer.commit()
    if left_out:
        warnings.warn(
            f"a store has no place for these attributes, which were left out: {', '.join(left_out)}",
            stacklevel=3,
        )


def write_structure(parts: GraphParts, path: str) -> None:
    """Only what sampling reads: node counts, edges, and the features that are f32 tables already."""
    writer = _core.StoreWriter(path, False, "in memory")
    for node in parts.nodes:
        t = writer.add_node_type(node.name, node.count)
        if "x" in node.attributes and is_f32_table(node.attributes["x"]):
            append_rows(writer.append_features, t, node.attributes["x"])
    types = {node.name: t for t, node in enumerate(parts.nodes)}
    for edge in parts.edges:
        src, relation, dst = edge.name
        e = writer.add_edge_type(types[src], relation, types[dst])
        writer.append_edges(e, _ids(edge.edge_index[0]), _ids(edge.edge_index[1]))
    writer.commit()


def is_f32_table(value) -> bool:
    """Whether the store's features can stand in for this attribute, bit for bit."""
    if not hasattr(value, "detach") or value.dim() != 2 or str(value.layout) != "torch.strided":
        return False
    if str(value.dtype) != "torch.float32" or value.device.type != "cpu" or value.requires_grad:
        return False
    return bool(value.isfinite().all())  # a store holds finite values only
