"""Makes stores of graphs in other formats."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Union

from .. import _core
from .store import Store

__all__ = ["import_graph"]


def import_graph(
    source: Union[str, os.PathLike],
    store: Union[str, os.PathLike],
    *,
    replace: bool = False,
    memory_bytes: int = 1 << 30,
    drop_duplicates: bool = False,
    drop_self_loops: bool = False,
    progress: Optional[Callable[[str, int, int], None]] = None,
    **options: Any,
) -> Store:
    """Makes the folder `store` of `source` and opens it; the format is guessed.

    Sources, and the options that mean something to them:

    * "rmat" (a seeded graph with planted classes): nodes, edges, dim, classes, seed, homophily,
      separation, train, val, threads
    * "wordnet", or a folder with its files: dim, homogeneous, seed
    * one of Planetoid's files, or a folder with those of one graph
    * a folder of .npy files, a .npz or a .npy with the edges: both_ways
    * a .npz of scipy.sparse.save_npz: both_ways, weights, features, labels, splits (files)
    * a text of pairs (SNAP), plain or gzip: both_ways, features, labels, splits (files)

    The folder appears once it is whole, and an old one stays until then; `progress` is called with
    (stage, done, total). Other options raise InvalidArgumentError.
    """
    _core.import_graph(
        os.fspath(source),
        os.fspath(store),
        replace,
        memory_bytes,
        drop_duplicates,
        drop_self_loops,
        progress,
        options,
    )
    return Store.open(store)
