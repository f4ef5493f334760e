"""Makes stores of graphs in other formats."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Union

from .. import _core
from ._plan import whole_number
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

    For every source:

    * `replace`: exchange a store that is there; without it that is an InvalidArgumentError
    * `memory_bytes`: to sort edges in (default 1 GiB); what is above goes to disk beside the store
    * `drop_duplicates`: keep the first of parallel edges (default: keep all)
    * `drop_self_loops`: drop edges from a node to itself (default: keep them)
    * `progress`: called with (stage, done, total); an exception in it ends the import

    `options` are those of the source's format. Paths may be str or os.PathLike.

    "rmat", a seeded graph with planted classes:

    * `nodes` (default 2**20), `edges` (2**24), `dim` features a node (128; 0: none), `classes` (16;
      0: no labels and no splits), `seed` (42)
    * `a`, `b`, `c` (0.57, 0.19, 0.19): probabilities of the adjacency matrix's quadrants for each
      bit of an edge: b sets the destination's bit, c the source's, d = 1 - a - b - c both. Their sum
      is at most 1; equal ones make degrees even, a large `a` skews them.
    * `homophily` (0.8): share of the edges within a class; `separation` (2.5): distance of the
      classes' features from 0, in standard deviations of the noise
    * `train`, `val` (0.10, 0.05): shares of the nodes in these splits, with a sum of at most 1; the
      rest is "test"
    * `threads` (0: one a core; at most 1024): the store is the same for any number

    "wordnet", or a folder with its files: `dim` (default 128; 0: none), `homogeneous` (False: one
    edge type a relation), `seed` of the splits (42).

    One of Planetoid's files, or a folder with those of one graph: no options. Such graphs have
    neither duplicates nor self loops, whatever the drop options say.

    A folder of .npy files, or a .npz or .npy with the edges; a .npz of scipy.sparse.save_npz; a text
    of pairs (SNAP), plain or gzip:

    * `both_ways` (False): add each edge the other way too
    * `features`, `labels`: a .npy with a row or a class a node; `splits`: {name: a .npy of node
      numbers, or of booleans}. They win over arrays of the same role in a folder or .npz.
    * `weights` (False; not for arrays, whose edge_weight is always read): keep the matrix's values,
      or a text's third column, as edge weights
    * for a text, `times` (False): its third column are int64 times; `ignore_columns` (False): leave
      out columns behind the second; at most one of these and `weights`. `string_ids` (False): ids
      are names though the first are numbers.

    Raises InvalidArgumentError naming an option that is out of its range, contradicts another or
    means nothing for the format; NotFoundError or CorruptDataError naming the file. The folder
    appears once it is whole, and an old one stays until then.
    """
    _core.import_graph(
        os.fspath(source),
        os.fspath(store),
        replace,
        whole_number(memory_bytes, "memory_bytes", 0, 2**64 - 1),
        drop_duplicates,
        drop_self_loops,
        progress,
        {name: _plain(value) for name, value in options.items()},
    )
    return Store.open(store)


def _plain(value: Any) -> Any:
    """Paths as text, also those in a dict; anything else as it is."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict):
        return {key: _plain(path) for key, path in value.items()}
    return value
