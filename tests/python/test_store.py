"""A store gives back what a torch_geometric object or a file put in, without copies."""

import copy
import os
import pickle

import numpy as np
import pytest

import offpath
from conftest import random_data
from offpath.graph import Store, import_graph

torch = pytest.importorskip("torch")
Data = pytest.importorskip("torch_geometric.data").Data


def edges_of(store, edge_type=None):
    """(source, destination) of each edge id."""
    indptr, indices, ids = store.csc(edge_type)
    destinations = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    out = np.empty((2, len(indices)), np.int64)
    out[:, np.arange(len(indices)) if ids is None else ids] = indices, destinations
    return out


def test_from_pyg_keeps_features_labels_splits_and_edge_order(data, store):
    assert np.array_equal(store.features(), data.x.numpy())
    assert np.array_equal(store.labels(), data.y.numpy())
    assert store.num_classes() == 5
    for name in ("train", "val", "test"):
        assert np.array_equal(store.split(name), np.flatnonzero(data[f"{name}_mask"].numpy()))
    assert np.array_equal(edges_of(store), data.edge_index.numpy())


def test_from_pyg_keeps_every_type_of_a_heterogeneous_graph(hetero, hetero_store):
    assert hetero_store.metadata() == hetero.metadata()
    assert np.array_equal(hetero_store.features("author"), hetero["author"].x.numpy())
    assert hetero_store.features("venue") is None and hetero_store.num_nodes("venue") == 7
    assert hetero_store.labels("author") is None
    for edge_type in hetero.edge_types:
        assert np.array_equal(edges_of(hetero_store, edge_type), hetero[edge_type].edge_index.numpy())


def test_as_many_nodes_as_edges_do_not_mix_up_attributes(tmp_path):
    data = random_data(50, 50, edge_attr=torch.randn(50, 3), edge_weight=torch.rand(50))
    store = Store.from_pyg(data, tmp_path / "square.store")
    assert np.array_equal(store.features(), data.x.numpy())
    assert np.array_equal(store.edge_features(), data.edge_attr.numpy())
    assert np.array_equal(store.labels(), data.y.numpy())


def test_views_are_read_only_and_outlive_the_store(data, tmp_path):
    features = Store.from_pyg(data, tmp_path / "s").features()
    assert not features.flags.writeable and not features.flags.owndata
    assert np.array_equal(features, data.x.numpy())
    with pytest.raises(ValueError):
        features[0, 0] = 1


def test_what_a_store_has_no_place_for_is_named(tmp_path):
    data = random_data(20, 40, name_of_graph="g", year=torch.arange(20))
    with pytest.warns(UserWarning, match="name_of_graph.*year|year.*name_of_graph"):
        Store.from_pyg(data, tmp_path / "s")


@pytest.mark.parametrize("nodes, edges", [(0, 0), (1, 0), (1, 3), (5, 0)])
def test_the_smallest_graphs(nodes, edges, tmp_path):
    data = Data(x=torch.zeros(nodes, 2), edge_index=torch.zeros(2, edges, dtype=torch.int64))
    store = Store.from_pyg(data, tmp_path / "s")
    assert store.num_nodes() == nodes and store.num_edges() == edges
    assert store.features().shape == (nodes, 2)


def test_unlabelled_nodes_and_columns_of_labels(tmp_path):
    data = random_data(20, 40)
    data.y = data.y.view(-1, 1)
    data.y[:5] = -1
    assert np.array_equal(Store.from_pyg(data, tmp_path / "s").labels(), data.y.view(-1).numpy())


def test_an_old_store_stays_unless_it_is_to_be_replaced(data, tmp_path):
    Store.from_pyg(data, tmp_path / "s")
    with pytest.raises(offpath.Error, match="s"):
        Store.from_pyg(random_data(30, 60), tmp_path / "s")
    assert Store.open(tmp_path / "s").num_nodes() == 500
    assert Store.from_pyg(random_data(30, 60), tmp_path / "s", replace=True).num_nodes() == 30


def test_edges_beyond_the_nodes_are_refused_and_nothing_remains(tmp_path):
    data = Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0, 7], [1, 2]]))
    with pytest.raises(offpath.InvalidArgumentError, match="7"):
        Store.from_pyg(data, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_missing_names_list_what_is_there(store, hetero_store):
    with pytest.raises(LookupError, match="train"):
        store.split("dev")
    with pytest.raises(offpath.NotFoundError, match="paper"):
        hetero_store.features("papers")
    with pytest.raises(offpath.InvalidArgumentError, match="which node type"):
        hetero_store.features()


def test_import_graph_makes_rmat_and_calls_progress(tmp_path):
    seen = []
    store = import_graph(
        "rmat", tmp_path / "r", nodes=1000, edges=5000, dim=4, classes=3, seed=1,
        progress=lambda stage, done, total: seen.append((stage, done, total)),
    )  # fmt: skip
    assert store.num_nodes() == 1000 and store.num_edges() == 5000
    assert store.features().shape == (1000, 4) and store.num_classes() == 3
    assert seen and all(done <= total or total == 0 for _, done, total in seen)


def test_import_graph_reads_arrays_and_refuses_options_without_meaning(tmp_path):
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0, 1, 2], [1, 2, 0]]), x=np.eye(3, dtype=np.float32))
    store = import_graph(tmp_path / "g.npz", tmp_path / "s")
    assert np.array_equal(edges_of(store), [[0, 1, 2], [1, 2, 0]])
    with pytest.raises(offpath.InvalidArgumentError, match="classes"):
        import_graph(tmp_path / "g.npz", tmp_path / "t", classes=3)
    with pytest.raises(offpath.InvalidArgumentError, match="nodes"):
        import_graph("rmat", tmp_path / "t", nodes="many")


def test_an_exception_in_progress_ends_the_import_and_leaves_nothing(tmp_path):
    def stop(stage, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_graph("rmat", tmp_path / "r", nodes=1000, edges=5000, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_pickled_store_is_opened_again_wherever_it_is_unpickled(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = import_graph("rmat", "s", nodes=50, edges=100, dim=2)
    pickled = pickle.dumps(store)
    assert len(pickled) < 1000  # the path, not the graph
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = pickle.loads(pickled)
    assert np.array_equal(again.features(), store.features())
    assert copy.copy(store) is store and copy.deepcopy({"graph": store})["graph"] is store


def test_a_pickled_store_is_not_mistaken_for_one_that_replaced_it(tmp_path):
    pickled = pickle.dumps(import_graph("rmat", tmp_path / "s", nodes=50, edges=100, dim=2))
    import_graph("rmat", tmp_path / "s", nodes=50, edges=100, dim=2, seed=43, replace=True)
    with pytest.raises(offpath.NotFoundError, match="another store"):
        pickle.loads(pickled)
    import_graph("rmat", tmp_path / "s", nodes=50, edges=100, dim=2, replace=True)
    assert pickle.loads(pickled).num_nodes() == 50
    os.rename(tmp_path / "s", tmp_path / "t")
    with pytest.raises(offpath.NotFoundError, match="is not a store"):
        pickle.loads(pickled)
