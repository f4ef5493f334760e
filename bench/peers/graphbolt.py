"""GraphBolt's side of the sampling benchmarks: see bench/graph/workers.py for what it reads and prints.

Runs in GraphBolt's own environment (bench/peers/install.sh graphbolt).

Usage: graphbolt.py DATA_FOLDER {sample,gather}
"""

import json
import os
import sys
import time

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl.graphbolt as gb
import numpy as np
import torch

FANOUTS, BATCH = [15, 10, 5], 1024


def main() -> None:
    folder, mode = sys.argv[1], sys.argv[2]
    torch.set_num_threads(1)
    load = lambda name: torch.from_numpy(np.load(os.path.join(folder, f"{name}.npy")))
    graph = gb.fused_csc_sampling_graph(load("indptr"), load("indices"))
    features = None
    if mode == "gather":
        table = gb.TorchBasedFeature(load("feat"))
        features = gb.BasicFeatureStore({("node", None, "x"): table})

    def endless(seeds):
        items = gb.ItemSet(seeds, names="seed_nodes")
        pipe = gb.ItemSampler(items, batch_size=BATCH, shuffle=False, drop_last=True)
        # GraphBolt applies the last fan-out to the seeds.
        pipe = pipe.sample_neighbor(graph, FANOUTS[::-1], replace=False)
        if features is not None:
            pipe = gb.DataLoader(pipe.fetch_feature(features, node_feature_keys=["x"]), num_workers=0)
        while True:
            yield from pipe

    streams = {name: endless(load(name)) for name in ("seeds", "seeds_nz")}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        stream, nodes, edges = streams[task["seeds"]], 0, 0
        start = time.perf_counter()
        for _ in range(task["batches"]):
            batch = next(stream)
            count = batch.input_nodes.numel()
            nodes += count
            edges += sum(layer.sampled_csc.indices.numel() for layer in batch.sampled_subgraphs)
            if features is not None:
                assert batch.node_features["x"].shape == (count, 128)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "batches": task["batches"], "nodes": nodes, "edges": edges}), flush=True)


if __name__ == "__main__":
    main()
