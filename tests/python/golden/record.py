"""Records what torch_geometric's own NeighborLoader yields, for test_golden.py to hold ours against.

Runs in the environment of bench/peers/install.sh torch-sparse:

    build/peers/torch-sparse/bin/python tests/python/golden/record.py [SEED] > tests/python/golden/pyg_2_8.json

The graphs are in the file too, so that both sides have the same numbers: self loops, repeated edges and
nodes without in-edges included.
"""

import json
import sys

import torch
import torch_geometric
import torch_geometric.typing
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader

CASES = [
    {"num_neighbors": [-1, -1], "input_nodes": "mask", "batch_size": 7},
    {"num_neighbors": [-1], "input_nodes": [5, 59, 0, 31], "batch_size": 3},
    {"num_neighbors": [-1, -1, -1], "input_nodes": None, "batch_size": 16},
    {"num_neighbors": [3, 2], "input_nodes": "mask", "batch_size": 7},
    {"num_neighbors": [1, 4, -1], "input_nodes": None, "batch_size": 20, "drop_last": True},
    {"num_neighbors": [4, 2], "input_nodes": "mask", "batch_size": 6, "replace": True},
]
HETERO_CASES = [
    {"num_neighbors": [-1, -1], "input_nodes": "a", "batch_size": 5},
    {"num_neighbors": [-1, -1, -1], "input_nodes": "b", "batch_size": 4},
    {"num_neighbors": [2, 1], "input_nodes": "a", "batch_size": 5},
    {"num_neighbors": [3, 2], "input_nodes": "c", "batch_size": 2, "replace": True},
]
HETERO_NODES = {"a": 20, "b": 30, "c": 4}
HETERO_EDGES = [("a", "to", "b", 70), ("b", "to", "a", 60), ("a", "like", "a", 50), ("a", "in", "c", 25), ("c", "of", "b", 40)]


def make_graph() -> dict:
    # The last ten nodes have no in-edges.
    src, dst = torch.randint(60, (330,)), torch.randint(50, (330,))
    src = torch.cat([src, src[:20], torch.arange(10)])
    dst = torch.cat([dst, dst[:20], torch.arange(10)])
    order = torch.randperm(360)
    return {
        "edge_index": torch.stack([src, dst])[:, order].tolist(),
        "x": torch.randint(-8, 8, (60, 3)).tolist(),
        "y": torch.randint(5, (60,)).tolist(),
        "train_mask": (torch.rand(60) < 0.4).tolist(),
        "edge_attr": torch.randint(-8, 8, (360, 2)).tolist(),
    }


def make_hetero() -> dict:
    return {
        "nodes": {name: torch.randint(-8, 8, (count, 2)).tolist() for name, count in HETERO_NODES.items()},
        "edges": [
            [src, relation, dst, torch.stack(
                [torch.randint(HETERO_NODES[src], (count,)), torch.randint(HETERO_NODES[dst], (count,))]
            ).tolist()]
            for src, relation, dst, count in HETERO_EDGES
        ],
    }  # fmt: skip


def load_graph(graph: dict) -> Data:
    """The Data of a recorded graph: test_golden.py makes it by the same function."""
    return Data(
        x=torch.tensor(graph["x"], dtype=torch.float32),
        edge_index=torch.tensor(graph["edge_index"]),
        edge_attr=torch.tensor(graph["edge_attr"], dtype=torch.float32),
        y=torch.tensor(graph["y"]),
        train_mask=torch.tensor(graph["train_mask"]),
    )


def load_hetero(graph: dict) -> HeteroData:
    data = HeteroData()
    for name, x in graph["nodes"].items():
        data[name].x = torch.tensor(x, dtype=torch.float32)
    for src, relation, dst, edge_index in graph["edges"]:
        data[src, relation, dst].edge_index = torch.tensor(edge_index)
    return data


def arguments(case: dict, data) -> dict:
    """NeighborLoader's arguments of a case, whose input nodes may stand for a mask."""
    case = dict(case)
    if case["input_nodes"] == "mask":
        case["input_nodes"] = data.train_mask
    elif isinstance(case["input_nodes"], list):
        case["input_nodes"] = torch.tensor(case["input_nodes"])
    return case


def plain(value):
    return value.tolist() if isinstance(value, torch.Tensor) else value


def record(batch) -> dict:
    """Every attribute of a batch, by type and name."""
    if isinstance(batch, HeteroData):
        stores = {"|".join(t) if isinstance(t, tuple) else t: batch[t] for t in batch.node_types + batch.edge_types}
        return {name: {key: plain(value) for key, value in store.items()} for name, store in stores.items()}
    return {key: plain(value) for key, value in batch.items()}


def main() -> None:
    typing = torch_geometric.typing
    assert typing.WITH_TORCH_SPARSE and not typing.WITH_PYG_LIB, "bench/peers/install.sh torch-sparse"
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    out = {"torch_geometric": torch_geometric.__version__, "graph": make_graph(), "hetero": make_hetero()}
    for key, load, cases in (("graph", load_graph, CASES), ("hetero", load_hetero, HETERO_CASES)):
        data = load(out[key])
        out[f"{key}_cases"] = [
            {"arguments": case, "batches": [record(batch) for batch in NeighborLoader(data, **arguments(case, data))]}
            for case in cases
        ]
    json.dump(out, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
