"""PyG's side of the sampling benchmarks: see bench/graph/workers.py for what it reads and prints.

Runs in the environment of bench/peers/install.sh torch-sparse: NeighborSampler for `sample`, NeighborLoader
for `gather`, over torch-sparse.

Usage: pyg_sampler.py DATA_FOLDER {sample,gather}
"""

import json
import os
import sys
import time

import numpy as np
import torch
import torch_geometric.typing
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

FANOUTS, BATCH = [15, 10, 5], 1024


def main() -> None:
    folder, mode = sys.argv[1], sys.argv[2]
    assert torch_geometric.typing.WITH_TORCH_SPARSE and not torch_geometric.typing.WITH_PYG_LIB
    torch.set_num_threads(1)
    load = lambda name: torch.from_numpy(np.load(os.path.join(folder, f"{name}.npy")))
    indptr = load("indptr")
    nodes = indptr.numel() - 1
    destinations = torch.repeat_interleave(torch.arange(nodes), indptr.diff())
    data = Data(edge_index=torch.stack([load("indices"), destinations]), num_nodes=nodes)
    options = dict(num_neighbors=FANOUTS, replace=False, is_sorted=True)
    if mode == "gather":
        data.x = load("feat")

    def endless(seeds):
        if mode == "gather":
            loader = NeighborLoader(data, input_nodes=seeds, batch_size=BATCH, drop_last=True, **options)
            while True:
                for batch in loader:
                    assert batch.x.shape == (batch.num_nodes, 128)
                    yield batch.num_nodes, batch.edge_index.shape[1]
        sampler = NeighborSampler(data, **options)
        while True:
            for ids in seeds.split(BATCH):
                if ids.numel() == BATCH:
                    out = sampler.sample_from_nodes(NodeSamplerInput(None, ids))
                    yield out.node.numel(), out.row.numel()

    streams = {name: endless(load(name)) for name in ("seeds", "seeds_nz")}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        start = time.perf_counter()
        counts = [next(streams[task["seeds"]]) for _ in range(task["batches"])]
        seconds = time.perf_counter() - start
        total = {"nodes": sum(n for n, _ in counts), "edges": sum(e for _, e in counts)}
        print(json.dumps({"seconds": seconds, "batches": task["batches"], **total}), flush=True)


if __name__ == "__main__":
    main()
