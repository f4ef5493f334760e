"""NeighborLoader's batches mean what torch_geometric's do, field by field."""

import numpy as np
import pytest

from conftest import random_data
from offpath.graph import NeighborLoader

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.utils import k_hop_subgraph  # noqa: E402


@pytest.fixture(params=["memory", "store", "folder"])
def source(request, data, store):
    return {"memory": data, "store": store, "folder": store.folder}[request.param]


def check_homogeneous(batch, data, fanouts):
    """Every promise of a directional batch without replacement."""
    n_id, e_id, edge_index = batch.n_id, batch.e_id, batch.edge_index
    nodes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
    assert nodes[0] == batch.batch_size and sum(nodes) == n_id.numel() == batch.num_nodes
    assert len(nodes) == len(fanouts) + 1 and len(edges) == len(fanouts)
    assert sum(edges) == e_id.numel() == edge_index.shape[1]
    # e_id names the very edge, by its place in the graph's edge_index.
    assert torch.equal(data.edge_index[:, e_id], n_id[edge_index])
    assert e_id.unique().numel() == e_id.numel()
    assert n_id.unique().numel() == n_id.numel()
    degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
    first_node, first_edge = 0, 0
    for hop, fanout in enumerate(fanouts):
        frontier = n_id[first_node : first_node + nodes[hop]]
        row, col = edge_index[:, first_edge : first_edge + edges[hop]]
        # Edges of a hop end in the nodes that the hop before found, in order, and start in nodes
        # known by the end of the hop.
        assert (col >= first_node).all() and (col < first_node + nodes[hop]).all()
        assert (col.diff() >= 0).all()
        assert (row < first_node + nodes[hop] + nodes[hop + 1]).all()
        wanted = degree[frontier] if fanout < 0 else degree[frontier].clamp(max=fanout)
        assert torch.equal(torch.bincount(col - first_node, minlength=nodes[hop]), wanted)
        first_node += nodes[hop]
        first_edge += edges[hop]
    # New nodes are numbered when first met.
    order, seen = [], set(range(batch.batch_size))
    for place in edge_index[0].tolist():
        if place not in seen:
            seen.add(place)
            order.append(place)
    assert order == list(range(batch.batch_size, n_id.numel()))


@pytest.mark.parametrize("fanouts", [[5, 3], [1], [4, 0, 2], [-1, 2], [3, 3, 3]])
def test_fields_of_a_batch(source, data, fanouts):
    inputs = data.train_mask if source is data else "train"
    loader = NeighborLoader(source, fanouts, input_nodes=inputs, batch_size=64, seed=3)
    train = torch.nonzero(data.train_mask).view(-1)
    seen = 0
    for batch in loader:
        check_homogeneous(batch, data, fanouts)
        seeds = train[seen : seen + batch.batch_size]
        assert torch.equal(batch.n_id[: batch.batch_size], seeds)
        assert torch.equal(batch.input_id, seeds)  # of a mask, as in torch_geometric
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.y, data.y[batch.n_id])
        for mask in ("train_mask", "val_mask", "test_mask"):
            assert torch.equal(batch[mask], data[mask][batch.n_id])
        seen += batch.batch_size
    assert seen == train.numel() and len(loader) == -(-seen // 64)


def test_all_neighbours_are_those_of_k_hop_subgraph(source, data):
    for batch in NeighborLoader(source, [-1, -1], batch_size=50):
        seeds = batch.n_id[: batch.batch_size]
        nodes, _, _, _ = k_hop_subgraph(seeds, 2, data.edge_index, num_nodes=data.num_nodes)
        assert set(batch.n_id.tolist()) == set(nodes.tolist())
        inner, _, _, _ = k_hop_subgraph(seeds, 1, data.edge_index, num_nodes=data.num_nodes)
        ends = torch.isin(data.edge_index[1], inner)
        assert set(batch.e_id.tolist()) == set(torch.nonzero(ends).view(-1).tolist())


def test_with_replacement_every_node_with_neighbours_gets_its_fan_out(data, store):
    degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
    batch = next(iter(NeighborLoader(store, [30], batch_size=500, replace=True)))
    counts = torch.bincount(batch.edge_index[1], minlength=500)
    assert torch.equal(counts, torch.where(degree > 0, 30, 0))
    assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])


def test_input_nodes_as_numbers_have_their_places_as_input_id(source):
    nodes = torch.tensor([7, 3, 499, 0, 12])
    loader = NeighborLoader(source, [2], input_nodes=nodes, batch_size=2, shuffle=True, seed=1)
    places = torch.cat([batch.input_id for batch in loader])
    assert sorted(places.tolist()) == [0, 1, 2, 3, 4]
    for batch in loader:
        assert torch.equal(nodes[batch.input_id], batch.n_id[: batch.batch_size])


def test_input_id_may_be_given(source):
    nodes, names = torch.tensor([7, 3, 9]), torch.tensor([70, 30, 90])
    loader = NeighborLoader(source, [1], input_nodes=nodes, input_id=names, batch_size=3, shuffle=True)
    batch = next(iter(loader))
    assert torch.equal(batch.input_id, batch.n_id[:3] * 10)


@pytest.mark.parametrize("inputs", [None, np.arange(500), list(range(500)), range(500)])
def test_input_nodes_in_every_form(source, inputs):
    batch = next(iter(NeighborLoader(source, [1], input_nodes=inputs, batch_size=10)))
    assert batch.input_id.tolist() == batch.n_id[:10].tolist() == list(range(10))


def test_repeated_seeds_stay_apart_and_edges_lead_to_the_first(data, store):
    batch = next(iter(NeighborLoader(store, [2, 2], input_nodes=torch.tensor([4, 4, 9, 4]), batch_size=4)))
    assert batch.n_id[:4].tolist() == [4, 4, 9, 4] and batch.num_sampled_nodes[0] == 4
    assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
    assert not torch.isin(batch.edge_index[0], torch.tensor([1, 3])).any()


def test_a_loader_can_be_asked_for_chosen_seeds(source, data):
    inputs = data.train_mask if source is data else "train"
    batch = NeighborLoader(source, [3, 2], input_nodes=inputs, batch_size=64)([0, 5, 2])
    train = torch.nonzero(data.train_mask).view(-1)
    assert torch.equal(batch.n_id[:3], train[[0, 5, 2]])
    check_homogeneous(batch, data, [3, 2])


def test_edge_attributes_follow_their_edges():
    data = random_data(60, 60, edge_attr=torch.randn(60, 2), edge_weight=torch.rand(60), note="kept")
    batch = next(iter(NeighborLoader(data, [3, 3], batch_size=20)))
    assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
    assert torch.equal(batch.x, data.x[batch.n_id]) and batch.note == "kept"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int64])
def test_features_of_other_types_are_selected_as_they_are(dtype):
    data = random_data(50, 200)
    data.x = (data.x * 10).to(dtype)
    batch = next(iter(NeighborLoader(data, [3], batch_size=20)))
    assert batch.x.dtype == dtype and torch.equal(batch.x, data.x[batch.n_id])


def test_a_graph_that_was_changed_is_read_again():
    data = random_data(50, 200)
    first = next(iter(NeighborLoader(data, [2], batch_size=5)))
    data.x += 1
    second = next(iter(NeighborLoader(data, [2], batch_size=5)))
    assert torch.equal(second.x[:5], first.x[:5] + 1)


def test_transform_is_applied_to_every_batch(source):
    def mark(batch):
        batch.marked = True
        return batch

    assert all(batch.marked for batch in NeighborLoader(source, [1], batch_size=200, transform=mark))


def hetero_sources(hetero, hetero_store):
    return [hetero, hetero_store]


@pytest.mark.parametrize("which", [0, 1])
def test_fields_of_a_heterogeneous_batch(hetero, hetero_store, which):
    fanouts = {edge_type: [3, 2] for edge_type in hetero.edge_types}
    fanouts["paper", "cites", "paper"] = [1, 0]
    loader = NeighborLoader(
        hetero_sources(hetero, hetero_store)[which], fanouts,
        input_nodes=("paper", hetero["paper"].train_mask), batch_size=32, seed=5,
    )  # fmt: skip
    for batch in loader:
        assert batch.metadata() == hetero.metadata()
        paper = batch["paper"]
        assert torch.equal(paper.n_id[: paper.batch_size], paper.input_id)
        assert paper.num_sampled_nodes[0] == paper.batch_size
        assert "batch_size" not in batch["author"]
        for name in hetero.node_types:
            assert sum(batch[name].num_sampled_nodes) == batch[name].n_id.numel() == batch[name].num_nodes
            if "x" in hetero[name]:
                assert torch.equal(batch[name].x, hetero[name].x[batch[name].n_id])
        assert torch.equal(paper.y, hetero["paper"].y[paper.n_id])
        for name in hetero.edge_types:
            edge, (src, _, dst) = batch[name], name
            ends = torch.stack([batch[src].n_id[edge.edge_index[0]], batch[dst].n_id[edge.edge_index[1]]])
            assert torch.equal(hetero[name].edge_index[:, edge.e_id], ends)
            assert sum(edge.num_sampled_edges) == edge.e_id.numel()
        assert batch["paper", "cites", "paper"].num_sampled_edges[1] == 0


def test_all_neighbours_of_a_heterogeneous_graph(hetero, hetero_store):
    batch = next(iter(NeighborLoader(hetero_store, [-1, -1], input_nodes=("paper", [0, 1, 2]), batch_size=3)))
    known = {name: set() for name in hetero.node_types}
    known["paper"] = frontier = {0, 1, 2}
    frontiers = {"paper": frontier}
    edges = {name: set() for name in hetero.edge_types}
    for _ in range(2):
        found = {name: set() for name in hetero.node_types}
        for name in hetero.edge_types:
            src, dst = hetero[name].edge_index.tolist()
            for e, (u, v) in enumerate(zip(src, dst)):
                if v in frontiers.get(name[2], ()):
                    edges[name].add(e)
                    found[name[0]].add(u)
        frontiers = {name: found[name] - known[name] for name in found}
        known = {name: known[name] | found[name] for name in found}
    for name in hetero.node_types:
        assert set(batch[name].n_id.tolist()) == known[name]
    for name in hetero.edge_types:
        assert set(batch[name].e_id.tolist()) == edges[name]


def test_a_whole_node_type_as_input(hetero, hetero_store):
    for source in (hetero, hetero_store):
        loader = NeighborLoader(source, [2], input_nodes="author", batch_size=200)
        assert next(iter(loader))["author"].n_id[:200].tolist() == list(range(200))


def test_plain_training_code_runs_on_a_batch(store):
    from torch_geometric.nn import SAGEConv

    batch = next(iter(NeighborLoader(store, [4, 4], input_nodes="train", batch_size=32)))
    out = SAGEConv(8, 3)(batch.x, batch.edge_index)
    out[: batch.batch_size].sum().backward()
    assert out.shape == (batch.num_nodes, 3)


def test_data_objects_of_pyg_can_be_copied_moved_and_pickled(store):
    import pickle

    batch = next(iter(NeighborLoader(store, [4], input_nodes="train", batch_size=32)))
    again = pickle.loads(pickle.dumps(batch.clone().to("cpu")))
    assert torch.equal(again.x, batch.x) and torch.equal(again.edge_index, batch.edge_index)


def test_len_of_the_dataset_is_the_number_of_input_nodes(source, data):
    inputs = data.train_mask if source is data else "train"
    assert len(NeighborLoader(source, [1], input_nodes=inputs).dataset) == int(data.train_mask.sum())
