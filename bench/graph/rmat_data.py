"""The R-MAT graph that sampling benchmarks share with their peers, in .npy files and as a store.

2^20 nodes and 16 * 2^20 edges by destination (a = .57, b = c = .19), duplicates removed, node
numbers permuted, in-neighbours sorted; two lists of 200,000 seeds: `seeds`, any nodes, and `seeds_nz`,
nodes that have an in-neighbour (47% have none); 128 Gaussian features a node. All seeded: the files
are the same on every machine.
"""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np

SCALE, EDGE_FACTOR, DIM = 20, 16, 128


def _edges(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, indices)"""
    nodes, edges = 1 << SCALE, EDGE_FACTOR << SCALE
    drawn = int(edges * 1.05)  # more than enough once duplicates are gone
    src = np.zeros(drawn, np.int64)
    dst = np.zeros(drawn, np.int64)
    for _ in range(SCALE):
        r = rng.random(drawn, dtype=np.float32)
        src = src * 2 + (r >= 0.76)
        dst = dst * 2 + (((r >= 0.57) & (r < 0.76)) | (r >= 0.95))
    permutation = rng.permutation(nodes)
    keys = np.unique(permutation[dst] * nodes + permutation[src])
    if len(keys) > edges:
        keys = np.delete(keys, rng.choice(len(keys), len(keys) - edges, replace=False))
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(keys >> SCALE, minlength=nodes), out=indptr[1:])
    return indptr, keys & (nodes - 1)


def make_arrays(folder: str) -> None:
    """Writes the .npy files, unless they are there."""
    if os.path.exists(os.path.join(folder, "feat.npy")):
        return
    print(f"making the R-MAT graph in {folder} (about a minute)", file=sys.stderr)
    os.makedirs(folder, exist_ok=True)
    rng = np.random.Generator(np.random.PCG64(42))
    indptr, indices = _edges(rng)
    nodes = len(indptr) - 1
    has_neighbour = np.flatnonzero(np.diff(indptr))
    arrays = {
        "indptr": indptr,
        "indices": indices,
        "seeds": rng.permutation(nodes)[:200_000].astype(np.int64),
        "seeds_nz": rng.permutation(has_neighbour)[:200_000],
        # Last: its presence says that all are whole.
        "feat": np.random.default_rng(7).standard_normal((nodes, DIM), dtype=np.float32),
    }
    for name, array in arrays.items():
        np.save(os.path.join(folder, f"{name}.tmp.npy"), array)
        os.replace(os.path.join(folder, f"{name}.tmp.npy"), os.path.join(folder, f"{name}.npy"))


def make_store(folder: str) -> str:
    """The same graph as a store beside the arrays; its path."""
    from offpath import _core

    path = os.path.join(folder, "store")
    if os.path.exists(os.path.join(path, "store.json")):
        return path
    shutil.rmtree(path, ignore_errors=True)
    print(f"making the store {path}", file=sys.stderr)
    indptr, indices, feat = (np.load(os.path.join(folder, f"{n}.npy")) for n in ("indptr", "indices", "feat"))
    writer = _core.StoreWriter(path, description="the R-MAT graph of bench/graph/rmat_data.py")
    node = writer.add_node_type("node", len(indptr) - 1)
    writer.append_features(node, feat)
    edge = writer.add_edge_type(node, "to", node)
    writer.append_edges(edge, indices, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)))
    writer.commit()
    return path
