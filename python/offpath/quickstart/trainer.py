"""The trainer's side of the main job, a process of its own so that it can sit behind a link.

`python -m offpath.quickstart.trainer ADDRESS` reads one JSON object a line from stdin, a mode to
run, and answers each with JSON objects, one a line: {"progress": text} on the way, then what was
measured, or {"error": text}.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch.nn import functional

from offpath import _core
from offpath.graph.sage import GraphSage
from offpath.graph.training import labelled_type, sampled_hops
from offpath.graph.view import RemoteGraph

HIDDEN = 64
EVALUATED_BATCHES = 2


def say(answer: dict) -> None:
    print(json.dumps(answer), flush=True)


def make_plan(graph: RemoteGraph, target: int, request: dict, split: str, seed: int) -> _core.BatchPlan:
    plan = _core.BatchPlan()
    plan.fanouts = [list(request["fanouts"])] * len(graph.edge_ends)
    plan.seed_type = target
    plan.split = split
    plan.batch_size = request["batch_size"]
    plan.shuffle = True
    plan.seed = seed
    plan.with_edge_ids = False
    plan.set_feature_format(request["features"])
    return plan


def scores_of(graph: RemoteGraph, target: int, model: GraphSage, batch: _core.Batch):
    """(class scores, labels) of the batch's seeds."""
    scores = model(sampled_hops(graph, batch), target, batch.batch_size)
    return scores, torch.from_dlpack(batch.labels(target))[: batch.batch_size]


def evaluate(graph: RemoteGraph, target: int, model: GraphSage, request: dict) -> float:
    """Accuracy over the first batches of the validation split."""
    plan = make_plan(graph, target, request, "val", seed=1)
    source = _core.RemoteSource(graph.address, plan, mode=request["mode"], prefetch=EVALUATED_BATCHES)
    source.begin(0)
    right = total = 0
    model.eval()
    with torch.no_grad():
        for _ in range(min(EVALUATED_BATCHES, source.num_batches)):
            batch = source.next()
            scores, labels = scores_of(graph, target, model, batch)
            right += int((scores.argmax(dim=1) == labels).sum())
            total += len(labels)
    return right / max(total, 1)


def run_mode(graph: RemoteGraph, target: int, request: dict) -> dict:
    """Runs one mode for at most `batches` batches or `seconds` seconds."""
    plan = make_plan(graph, target, request, "train", request["seed"])
    torch.manual_seed(request["seed"])
    model = GraphSage(
        [node.feature_dim for node in graph.nodes], [node.count for node in graph.nodes], graph.edge_ends,
        hidden=HIDDEN, classes=graph.nodes[target].num_classes, layers=len(request["fanouts"]), dropout=0.0,
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    source = _core.RemoteSource(
        graph.address, plan, mode=request["mode"], prefetch=request["prefetch"], batch_timeout=120.0
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
            scores, labels = scores_of(graph, target, model, batch)
            loss = functional.cross_entropy(scores, labels, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            computed += time.perf_counter() - started
        done += 1
        say({"progress": f"{request['name']}: batch {done}, {received / 1e6 / done:.1f} MB a batch"})
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
        result["accuracy"] = evaluate(graph, target, model, request)
    return result


def main() -> int:
    torch.set_num_threads(1)
    graph = RemoteGraph(sys.argv[1])
    target = labelled_type(graph, None)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = run_mode(graph, target, request)
        except Exception as error:  # told to the job, which names the mode
            answer = {"name": request["name"], "error": f"{type(error).__name__}: {error}"}
        say(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
