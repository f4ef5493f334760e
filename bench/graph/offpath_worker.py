"""Our side of the sampling benchmarks: see workers.py for what it reads and prints.

Usage: offpath_worker.py STORE SEEDS_FOLDER {sample,gather} THREADS
"""

import json
import os
import pathlib
import sys
import time

import numpy as np
import torch

from offpath.graph import Store, sample_batches
from offpath.quickstart.graph_job import read_through

FANOUTS, BATCH = [15, 10, 5], 1024


def check(store, seeds, batch, gather) -> None:
    """What is timed is right: every edge is the store's, nodes are distinct, counts are the fan-outs'."""
    csc = store.csc()
    n_id, row, col, e_id = (t.numpy() for t in (batch.n_id, batch.row, batch.col, batch.e_id))
    assert (n_id[: batch.batch_size] == seeds[: batch.batch_size]).all()
    assert len(np.unique(n_id)) == len(n_id)
    ids = csc[2]
    position = e_id if ids is None else np.argsort(ids)[e_id]
    indptr = np.asarray(csc[0])
    assert (np.asarray(csc[1])[position] == n_id[row]).all()
    assert (np.searchsorted(indptr, position, side="right") - 1 == n_id[col]).all()
    assert len(np.unique(e_id)) == len(e_id)
    first = 0
    edge = 0
    for fanout, nodes, edges in zip(FANOUTS, batch.num_sampled_nodes(), batch.num_sampled_edges()):
        frontier = n_id[first : first + nodes]
        wanted = np.minimum(indptr[frontier + 1] - indptr[frontier], fanout)
        assert (np.bincount(col[edge : edge + edges] - first, minlength=nodes) == wanted).all()
        first, edge = first + nodes, edge + edges
    if gather:
        assert (batch.x.numpy() == np.asarray(store.features())[n_id]).all()


def main() -> None:
    path, folder, mode, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(threads)
    gather = mode == "gather"
    # A peer has its graph in memory, and a cold disk is not what is timed.
    read_through(pathlib.Path(path))
    store = Store.open(path)
    streams = {}
    for name in ("seeds", "seeds_nz"):
        seeds = np.load(os.path.join(folder, f"{name}.npy"))
        batches = sample_batches(
            store,
            FANOUTS,
            seeds,
            batch_size=BATCH,
            drop_last=True,
            with_features=gather,
            with_labels=False,
            num_workers=threads if threads > 1 else 0,
        )
        check(store, seeds, next(iter(batches)), gather)

        def endless(batches=batches):
            while True:
                yield from batches

        streams[name] = endless()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        stream, nodes, edges = streams[task["seeds"]], 0, 0
        start = time.perf_counter()
        for _ in range(task["batches"]):
            batch = next(stream)
            tensors = (batch.n_id, batch.row, batch.col, batch.e_id)
            nodes += tensors[0].numel()
            edges += tensors[1].numel()
            if gather:
                assert batch.x.shape[0] == tensors[0].numel()
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "batches": task["batches"], "nodes": nodes, "edges": edges}), flush=True)


if __name__ == "__main__":
    main()
