"""The store: a graph in a folder, mapped and shared by all processes."""

from __future__ import annotations

import os
from typing import Callable, Optional, Tuple, Union

import numpy as np

from .. import _core
from ..errors import InvalidArgumentError, NotFoundError

__all__ = ["EdgeType", "Store"]

EdgeType = Tuple[str, str, str]


class Store:
    """An opened store; make one with :meth:`open`. Immutable, and safe to share between threads.

    Arrays are read-only numpy views of the mapped files: nothing is read before it is touched, and
    nothing is copied. Where a store has one node type or one edge type, its name may be left out.

    Pickling keeps the folder's absolute path: a store is opened again where it is unpickled, and must
    be the same one. A copy is the store itself.
    """

    def __init__(self, core: _core.Store):
        self._core = core
        self._path = os.path.abspath(core.folder)  # now: the working directory may change
        self._node_types = list(core.node_types)
        self._edge_types: list[EdgeType] = [tuple(name) for name in core.edge_types]

    @classmethod
    def open(cls, path: Union[str, os.PathLike]) -> "Store":
        """Opens in O(1) of the graph's size. Raises NotFoundError or CorruptDataError naming the file."""
        return cls(_core.Store.open(os.fspath(path)))

    @staticmethod
    def from_pyg(
        data,
        path: Union[str, os.PathLike],
        *,
        replace: bool = False,
        description: Optional[str] = None,
        progress: Optional[Callable[[str, int, int], None]] = None,
    ) -> "Store":
        """Writes a torch_geometric Data or HeteroData as a store, and opens it.

        Kept: `x` as f32 features, `y` as labels, `train_mask`, `val_mask` and `test_mask` as splits,
        `edge_attr` as f32 edge features, `edge_weight`. An edge's id is its place in `edge_index`,
        so that a batch's `e_id` means what it does in PyG. Attributes that a store has no place for
        are named in a warning.
        """
        from ._pyg_import import write_store

        write_store(data, os.fspath(path), replace, description, progress)
        return Store.open(path)

    @property
    def folder(self) -> str:
        return self._core.folder

    @property
    def description(self) -> str:
        """What the importer said of the source."""
        return self._core.description

    @property
    def homogeneous(self) -> bool:
        """One node type and one edge type."""
        return self._core.homogeneous

    @property
    def node_types(self) -> list[str]:
        return list(self._node_types)

    @property
    def edge_types(self) -> list[EdgeType]:
        """(source type, relation, destination type)"""
        return list(self._edge_types)

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Node types and edge types, as torch_geometric's to_hetero takes them."""
        return self.node_types, self.edge_types

    def node_type_index(self, name: Optional[str] = None) -> int:
        return _index_of(name, self._node_types, "node type")

    def edge_type_index(self, name: Optional[EdgeType] = None) -> int:
        return _index_of(None if name is None else tuple(name), self._edge_types, "edge type")

    def num_nodes(self, node_type: Optional[str] = None) -> int:
        return self._core.num_nodes(self.node_type_index(node_type))

    def num_edges(self, edge_type: Optional[EdgeType] = None) -> int:
        return self._core.num_edges(self.edge_type_index(edge_type))

    def num_classes(self, node_type: Optional[str] = None) -> int:
        """0 where the type has no labels."""
        return self._core.num_classes(self.node_type_index(node_type))

    def features(self, node_type: Optional[str] = None) -> Optional[np.ndarray]:
        """f32 [nodes, dim], or None where the type has none."""
        return _view(self._core.features(self.node_type_index(node_type)))

    def edge_features(self, edge_type: Optional[EdgeType] = None) -> Optional[np.ndarray]:
        """f32 [edges, dim] by edge id, or None."""
        return _view(self._core.edge_features(self.edge_type_index(edge_type)))

    def labels(self, node_type: Optional[str] = None) -> Optional[np.ndarray]:
        """int64 [nodes], -1 where unlabelled; None where the type has none."""
        return _view(self._core.labels(self.node_type_index(node_type)))

    def split_names(self, node_type: Optional[str] = None) -> list[str]:
        return self._core.split_names(self.node_type_index(node_type))

    def split(self, name: str, node_type: Optional[str] = None) -> np.ndarray:
        """int64 node numbers of "train", "val" or "test"."""
        return _view(self._core.split(self.node_type_index(node_type), name))

    def original_ids(self, node_type: Optional[str] = None) -> Optional[np.ndarray]:
        """int64 [nodes] ids in the imported source; None where they are the same."""
        return _view(self._core.original_ids(self.node_type_index(node_type)))

    def node_name(self, node: int, node_type: Optional[str] = None) -> str:
        """The source's name of a node; empty where it had none."""
        return self._core.node_name(self.node_type_index(node_type), node)

    def csc(
        self, edge_type: Optional[EdgeType] = None
    ) -> tuple[np.ndarray, np.ndarray, Optional[np.ndarray]]:
        """(indptr, indices, edge ids): the in-edges of node v are positions indptr[v] to indptr[v + 1].

        Edge ids are None where an edge's id is its position.
        """
        indptr, indices, edge_ids = self._core.csc(self.edge_type_index(edge_type))
        return _view(indptr), _view(indices), _view(edge_ids)

    def __reduce__(self):
        return _reopen, (self._path, self._core.fingerprint)

    def __copy__(self) -> "Store":
        return self

    def __deepcopy__(self, memo) -> "Store":
        return self

    def __repr__(self) -> str:
        nodes = ", ".join(f"{name}: {self.num_nodes(name):,}" for name in self._node_types)
        edges = ", ".join(f"{'/'.join(e)}: {self.num_edges(e):,}" for e in self._edge_types[:4])
        more = f", and {len(self._edge_types) - 4} more" if len(self._edge_types) > 4 else ""
        return f"Store({self.folder!r}, nodes {{{nodes}}}, edges {{{edges}{more}}})"


def _reopen(path: str, fingerprint: int) -> Store:
    store = Store.open(path)
    if store._core.fingerprint != fingerprint:
        raise NotFoundError(f"{path} holds another store than the one that was pickled")
    return store


def _index_of(name, names: list, kind: str) -> int:
    if name is None:
        if len(names) == 1:
            return 0
        if not names:
            raise InvalidArgumentError(f"the graph has no {kind}")
        raise InvalidArgumentError(f"which {kind}? The graph has {names}")
    try:
        return names.index(name)
    except ValueError:
        raise NotFoundError(f"there is no {kind} {name!r}; the graph has {names}") from None


def _view(array) -> Optional[np.ndarray]:
    return None if array is None else np.asarray(array)
