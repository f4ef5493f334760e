"""The trainer's side of the main job, a process of its own so that it can sit behind a link.

`python -m offpath.quickstart.trainer ADDRESS` reads one JSON object a line from stdin, a mode to
run, and answers each with one JSON object a line: what was measured. Progress goes to stderr.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from torch.nn import functional

from offpath import _core
from offpath.graph.sage import GraphSage, MessageEdges, SampledHops

HIDDEN = 64
EVALUATED_BATCHES = 2


def tensor(array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(array))


class StoreShape:
    """What the model and the plan need to know of the node's store."""

    def __init__(self, address: str):
        info = _core.fetch_store_info(address)
        nodes, edges = info["node_types"], info["edge_types"]
        names = [node["name"] for node in nodes]
        labelled = [i for i, node in enumerate(nodes) if node["has_labels"]]
        if not labelled:
            raise RuntimeError(f"the store at {address} has no labels to train on")
        self.seed_type = labelled[0]
        self.classes = nodes[self.seed_type]["num_classes"]
        self.feature_dims = [n["feature_dim"] if n["feature_dim"] >= 0 else None for n in nodes]
        self.node_counts = [node["count"] for node in nodes]
        self.ends = [(names.index(e["name"][0]), names.index(e["name"][2])) for e in edges]

    def plan(self, *, fanouts: list[int], split: str, features: str, batch_size: int, seed: int):
        plan = _core.BatchPlan()
        plan.fanouts = [list(fanouts)] * len(self.ends)
        plan.seed_type = self.seed_type
        plan.split = split
        plan.batch_size = batch_size
        plan.shuffle = True
        plan.seed = seed
        plan.with_edge_ids = False
        plan.set_feature_format(features)
        return plan

    def hops_of(self, batch) -> SampledHops:
        types = range(len(self.node_counts))
        return SampledHops(
            features=[
                None if dim is None else tensor(batch.features(t))
                for t, dim in enumerate(self.feature_dims)
            ],
            node_hop_counts=[list(batch.node_hop_counts(t)) for t in types],
            edges=[
                MessageEdges(src, dst, tensor(batch.row(e)), tensor(batch.col(e)), list(batch.edge_hop_counts(e)))
                for e, (src, dst) in enumerate(self.ends)
            ],
            node_ids=[tensor(batch.node_ids(t)) for t in types],
        )


def evaluate(shape: StoreShape, model: GraphSage, address: str, request: dict) -> float:
    """Accuracy over the first batches of the validation split."""
    plan = shape.plan(
        fanouts=request["fanouts"], split="val", features=request["features"],
        batch_size=request["batch_size"], seed=1,
    )  # fmt: skip
    source = _core.RemoteSource(address, plan, mode=request["mode"], prefetch=EVALUATED_BATCHES)
    source.begin(0)
    right = total = 0
    model.eval()
    with torch.no_grad():
        for _ in range(min(EVALUATED_BATCHES, source.num_batches)):
            batch = source.next()
            scores = model(shape.hops_of(batch), shape.seed_type, batch.batch_size)
            labels = tensor(batch.labels(shape.seed_type))[: batch.batch_size]
            right += int((scores.argmax(dim=1) == labels).sum())
            total += len(labels)
    return right / max(total, 1)


def run_mode(shape: StoreShape, address: str, request: dict) -> dict:
    """Runs one mode for at most `batches` batches or `seconds` seconds."""
    plan = shape.plan(
        fanouts=request["fanouts"], split="train", features=request["features"],
        batch_size=request["batch_size"], seed=request["seed"],
    )  # fmt: skip
    torch.manual_seed(request["seed"])
    model = GraphSage(
        shape.feature_dims, shape.node_counts, shape.ends,
        hidden=HIDDEN, classes=shape.classes, layers=len(request["fanouts"]), dropout=0.0,
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    source = _core.RemoteSource(
        address, plan, mode=request["mode"], prefetch=request["prefetch"], batch_timeout=120.0
    )
    source.begin(0)
    parts = dict.fromkeys(("sample", "encode", "transfer", "decode"), 0.0)
    waited = computed = 0.0
    received = done = 0
    began = time.perf_counter()
    while done < request["batches"] and time.perf_counter() - began < request["seconds"]:
        asked = time.perf_counter()
        batch = source.next()
        if batch is None:
            break
        waited += time.perf_counter() - asked
        costs = batch.costs()
        for part in parts:
            parts[part] += costs[f"{part}_ns"] / 1e9
        received += costs["bytes_received"]
        if request["train"]:
            started = time.perf_counter()
            model.train()
            scores = model(shape.hops_of(batch), shape.seed_type, batch.batch_size)
            labels = tensor(batch.labels(shape.seed_type))[: batch.batch_size]
            loss = functional.cross_entropy(scores, labels, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            computed += time.perf_counter() - started
        done += 1
        print(f"  {request['name']}: batch {done}, {received / 1e6 / done:.1f} MB a batch", file=sys.stderr, flush=True)
    elapsed = time.perf_counter() - began
    if done == 0:
        raise RuntimeError(f"{request['name']}: no batch came within {request['seconds']} s")
    result = {
        "name": request["name"], "mode": request["mode"], "features": request["features"],
        "fanouts": request["fanouts"], "batches": done, "bytes_a_batch": received / done,
        "seconds_a_batch": elapsed / done, "wait_s": waited / done, "compute_s": computed / done,
        **{f"{part}_s": seconds / done for part, seconds in parts.items()},
    }  # fmt: skip
    del source
    if request["train"] and request["mode"] == "near":
        result["accuracy"] = evaluate(shape, model, address, request)
    return result


def main() -> int:
    address = sys.argv[1]
    torch.set_num_threads(1)
    shape = StoreShape(address)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = run_mode(shape, address, request)
        except Exception as error:  # told to the job, which names the mode
            answer = {"name": request["name"], "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
