"""Data and HeteroData objects as graphs to sample from: a temporary store behind the loader."""

from __future__ import annotations

import shutil
import tempfile
import weakref

from ._pyg_data import GraphParts, parts_of
from ._pyg_import import write_structure
from .store import Store
from .view import LocalGraph

__all__ = ["MemoryGraph", "memory_graph"]


class MemoryGraph(LocalGraph):
    """A LocalGraph made of a PyG object, with the parts that the store does not hold."""

    def __init__(self, parts: GraphParts):
        folder = tempfile.mkdtemp(prefix="offpath-")
        try:
            write_structure(parts, f"{folder}/store")
            super().__init__(Store.open(f"{folder}/store"))
        finally:
            # The maps stay; the names go at once, so that nothing is left behind however this
            # process ends.
            shutil.rmtree(folder, ignore_errors=True)
        self.parts = parts
        # By node type: the store holds what is named x.
        self.gathers_x = [node.feature_dim is not None for node in self.nodes]


    def __reduce__(self):
        raise TypeError("what was made of a Data object has no folder: pickle the Data object")


def _address(value) -> int:
    try:
        return value.data_ptr()
    except (AttributeError, RuntimeError):  # no tensor, or a sparse one
        return id(value)


def _fingerprint(parts: GraphParts) -> tuple:
    """Changes when the object's edges or features are replaced or written to."""
    watched = [edge.edge_index for edge in parts.edges]
    watched += [node.attributes["x"] for node in parts.nodes if "x" in node.attributes]
    tensors = tuple((tuple(v.shape), _address(v), getattr(v, "_version", 0)) for v in watched)
    return tensors + tuple((node.name, node.count) for node in parts.nodes)


# The loaders of one script (train, validation, test) share what was made of their one graph.
_made: dict[int, tuple[weakref.ref, tuple, weakref.ref]] = {}


def memory_graph(data) -> MemoryGraph:
    parts = parts_of(data)
    fingerprint = _fingerprint(parts)
    key = id(data)
    if key in _made:
        owner, seen, graph = _made[key]
        made = graph()
        if owner() is data and seen == fingerprint and made is not None:
            made.parts = parts
            return made
    made = MemoryGraph(parts)
    forget = weakref.ref(data, lambda _: _made.pop(key, None))
    _made[key] = (forget, fingerprint, weakref.ref(made))
    return made
