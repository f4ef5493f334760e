"""NeighborLoader against what torch_geometric's own yields: golden/record.py recorded it over torch-sparse.

With OFFPATH_TORCH_SPARSE=PYTHON of the environment of `bench/peers/install.sh torch-sparse`, batches of three
further graphs are recorded on the spot and compared too.
"""

import importlib.util
import json
import os
import pathlib
import subprocess

import pytest

from offpath.graph import NeighborLoader

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

FOLDER = pathlib.Path(__file__).parent / "golden"
SPEC = importlib.util.spec_from_file_location("golden_record", FOLDER / "record.py")
record = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(record)


def recordings():
    yield json.loads((FOLDER / "pyg_2_8.json").read_text())
    python = os.environ.get("OFFPATH_TORCH_SPARSE")
    for seed in (2, 3, 4) if python else ():
        run = subprocess.run([python, FOLDER / "record.py", str(seed)], check=True, stdout=subprocess.PIPE)
        yield json.loads(run.stdout)


def cases(kind):
    load = {"graph": record.load_graph, "hetero": record.load_hetero}[kind]
    for recording in recordings():
        data = load(recording[kind])
        for case in recording[f"{kind}_cases"]:
            theirs = case["batches"]
            ours = list(NeighborLoader(data, seed=7, **record.arguments(case["arguments"], data)))
            assert len(ours) == len(theirs)
            for ours_batch, theirs_batch in zip(ours, theirs):
                yield data, case["arguments"], ours_batch, theirs_batch


def plain(store):
    """A batch's attributes as lists, without those that torch-sparse cannot give."""
    values = {key: record.plain(value) for key, value in store.items()}
    for key in ("num_sampled_nodes", "num_sampled_edges"):
        values.pop(key, None)
    return values


def edges_of(batch):
    """The batch's edges by the graph's numbers, in any order."""
    n_id, (row, col) = batch["n_id"], batch["edge_index"]
    attr = batch.get("edge_attr", [None] * len(row))
    return sorted((e, n_id[u], n_id[v], a) for e, u, v, a in zip(batch["e_id"], row, col, attr))


def check_counts(batch, data, fanouts, replace):
    """Each node has as many in-edges in the batch as the fan-out of the hop that found it says."""
    n_id, (row, col) = batch["n_id"], batch["edge_index"]
    degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes).tolist()
    level = {place: 0 for place in range(batch["batch_size"])}
    for hop in range(len(fanouts)):
        for u, v in zip(row, col):
            if level.get(v) == hop:
                level.setdefault(u, hop + 1)
    assert len(level) == len(n_id) == len(set(n_id))
    for place, hop in level.items():
        found = sum(v == place for v in col)
        have = degree[n_id[place]]
        if hop == len(fanouts):
            assert found == 0
        elif fanouts[hop] < 0:
            assert found == have
        elif replace:
            assert found == (fanouts[hop] if have > 0 else 0)
        else:
            assert found == min(have, fanouts[hop])
    assert replace or len(set(batch["e_id"])) == len(batch["e_id"])


def test_batches_have_the_fields_of_pyg_s_and_the_same_seeds():
    for data, arguments, ours, theirs in cases("graph"):
        ours = plain(ours)
        theirs.pop("num_sampled_nodes", None)
        theirs.pop("num_sampled_edges", None)
        assert ours.keys() == theirs.keys()
        for key in ("batch_size", "input_id"):
            assert ours[key] == theirs[key]
        assert ours["n_id"][: ours["batch_size"]] == theirs["n_id"][: theirs["batch_size"]]
        for batch in (ours, theirs):
            for key in ("x", "y", "train_mask"):
                assert torch.equal(torch.tensor(batch[key], dtype=data[key].dtype), data[key][batch["n_id"]])


def test_batches_of_all_neighbours_hold_the_nodes_and_edges_of_pyg_s():
    compared = 0
    for _, arguments, ours, theirs in cases("graph"):
        if set(arguments["num_neighbors"]) == {-1}:
            ours = plain(ours)
            assert sorted(ours["n_id"]) == sorted(theirs["n_id"])
            assert edges_of(ours) == edges_of(theirs)
            compared += 1
    assert compared > 5


def test_fan_outs_mean_what_they_mean_in_pyg():
    for data, arguments, ours, theirs in cases("graph"):
        for batch in (plain(ours), theirs):
            check_counts(batch, data, arguments["num_neighbors"], arguments.get("replace", False))


def test_heterogeneous_batches_have_the_fields_of_pyg_s_and_all_neighbours_are_the_same():
    for data, arguments, ours, theirs in cases("hetero"):
        ours = {"|".join(t) if isinstance(t, tuple) else t: plain(ours[t]) for t in ours.node_types + ours.edge_types}
        assert ours.keys() == theirs.keys()
        for name, mine in ours.items():
            other = theirs[name]
            other.pop("num_sampled_nodes", None)
            other.pop("num_sampled_edges", None)
            assert mine.keys() == other.keys(), name
            for key in ("batch_size", "input_id"):
                assert mine.get(key) == other.get(key)
            if "|" in name:
                src, _, dst = name.split("|")
                sides = [(batch[name], batch[src]["n_id"], batch[dst]["n_id"]) for batch in (ours, theirs)]
                named = [
                    sorted((e, u_id[u], v_id[v]) for e, u, v in zip(edges["e_id"], *edges["edge_index"]))
                    for edges, u_id, v_id in sides
                ]
                index = data[tuple(name.split("|"))].edge_index.tolist()
                for found in named:
                    assert all((index[0][e], index[1][e]) == (u, v) for e, u, v in found)
                if set(arguments["num_neighbors"]) == {-1}:
                    assert named[0] == named[1]
            elif set(arguments["num_neighbors"]) == {-1}:
                assert sorted(mine["n_id"]) == sorted(other["n_id"])
