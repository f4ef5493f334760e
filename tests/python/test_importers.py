"""import_graph obeys every option of every format, or refuses it by name."""

import numpy as np
import pytest

import offpath
from offpath.graph import Store, import_graph
from test_store import edges_of


def edge_data(store):
    """(source, destination, weight, time) of each edge, sorted; None for a column that is not there."""
    indptr, indices, _ = store.csc()
    destinations = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    columns = [indices, destinations]
    for role in ("weights", "times"):
        files = [name for name in sorted(store_files(store)) if name.endswith(f"-{role}.npy")]
        columns.append(np.load(f"{store.folder}/{files[0]}") if files else [None] * len(indices))
    return sorted(zip(*(np.asarray(column).tolist() for column in columns)))


def store_files(store):
    import os

    return os.listdir(store.folder)


def rmat(folder, **options):
    return import_graph("rmat", folder, **{"nodes": 2000, "edges": 20_000, "dim": 2, **options})


def test_quadrants_of_rmat_decide_how_skewed_degrees_are(tmp_path):
    skewed, even = (
        np.diff(rmat(tmp_path / name, homophily=0.0, **options).csc()[0]).max()
        for name, options in [("skewed", {}), ("even", {"a": 0.25, "b": 0.25, "c": 0.25})]
    )
    assert skewed > 3 * even


def test_shares_of_rmat_decide_the_splits(tmp_path):
    store = rmat(tmp_path / "s", train=0.6, val=0.3)
    sizes = [len(store.split(name)) / 2000 for name in ("train", "val", "test")]
    assert np.allclose(sizes, [0.6, 0.3, 0.1], atol=0.05)
    assert len(rmat(tmp_path / "t", train=1.0, val=0.0).split("train")) == 2000


@pytest.mark.parametrize(
    "options, named",
    [
        ({"a": 0.9, "b": 0.1, "c": 0.1}, "a, b and c"), ({"a": -0.1}, "a, b and c"), ({"b": float("nan")}, "a, b and c"),
        ({"train": 0.9, "val": 0.2}, "train and val"), ({"val": 2}, "train and val"),
        ({"c": "0.2"}, "'c'.*expected a number"), ({"nodes": 1.5}, "'nodes'.*whole number"), ({"seed": -1}, "'seed'"),
        ({"homophily": 1.1}, "homophily"), ({"classes": -1}, "classes"), ({"weights": True}, "weights"),
        ({"threads": 1025}, "1025 threads: at most 1024"), ({"memory_bytes": -1}, "memory_bytes is -1"),
    ],
)  # fmt: skip
def test_an_option_of_rmat_that_is_out_of_range_is_named(tmp_path, options, named):
    with pytest.raises(offpath.InvalidArgumentError, match=named):
        rmat(tmp_path / "s", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_drop_options_of_rmat_drop(tmp_path):
    edges = edges_of(rmat(tmp_path / "s", nodes=20, drop_duplicates=True, drop_self_loops=True))
    assert len(np.unique(edges.T, axis=0)) == edges.shape[1] and (edges[0] != edges[1]).all()


def test_planetoid_has_nothing_to_drop(planetoid, tmp_path):
    cora = planetoid / "ind.cora.graph"
    plain = import_graph(cora, tmp_path / "a")
    dropped = import_graph(cora, tmp_path / "b", drop_duplicates=True, drop_self_loops=True)
    edges = edges_of(plain)
    assert len(np.unique(edges.T, axis=0)) == edges.shape[1] and (edges[0] != edges[1]).all()
    assert np.array_equal(edges, edges_of(dropped))
    with pytest.raises(offpath.InvalidArgumentError, match="both_ways"):
        import_graph(cora, tmp_path / "c", both_ways=True)


def test_the_third_column_of_a_text_is_what_it_is_said_to_be(tmp_path):
    text = tmp_path / "edges.txt"
    text.write_text("7 9 2\n9 7 5\n")
    weighted = import_graph(text, tmp_path / "w", weights=True)
    assert edge_data(weighted) == [(0, 1, 2.0, None), (1, 0, 5.0, None)]
    assert edge_data(import_graph(text, tmp_path / "t", times=True)) == [(0, 1, None, 2), (1, 0, None, 5)]
    assert edge_data(import_graph(text, tmp_path / "i", ignore_columns=True)) == [(0, 1, None, None), (1, 0, None, None)]
    with pytest.raises(offpath.CorruptDataError, match="line 1"):
        import_graph(text, tmp_path / "n")
    with pytest.raises(offpath.InvalidArgumentError, match="weights, times and ignore_columns"):
        import_graph(text, tmp_path / "n", weights=True, times=True)
    with pytest.raises(offpath.InvalidArgumentError, match="'times' is 1: expected True or False"):
        import_graph(text, tmp_path / "n", times=1)


def test_ids_of_a_text_are_numbers_or_names_as_asked(tmp_path):
    text = tmp_path / "edges.txt"
    text.write_text("7 9\n9 x\n")
    with pytest.raises(offpath.Error, match="line 2"):
        import_graph(text, tmp_path / "n")
    named = import_graph(text, tmp_path / "s", string_ids=True)
    assert [named.node_name(node) for node in range(3)] == ["7", "9", "x"]


def test_node_arrays_may_be_named_for_arrays_and_win_over_those_beside_the_edges(tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    np.save(folder / "edge_index.npy", np.array([[0, 1], [1, 2]]))
    np.save(folder / "x.npy", np.zeros((3, 1), np.float32))
    np.save(tmp_path / "features.npy", np.eye(3, dtype=np.float32))
    np.save(tmp_path / "labels.npy", np.array([2, 0, 1]))
    np.save(tmp_path / "held.npy", np.array([False, True, True]))
    store = import_graph(
        folder, tmp_path / "s", features=tmp_path / "features.npy", labels=str(tmp_path / "labels.npy"),
        splits={"held": tmp_path / "held.npy"},
    )  # fmt: skip
    assert np.array_equal(store.features(), np.eye(3))
    assert store.labels().tolist() == [2, 0, 1] and store.split("held").tolist() == [1, 2]
    with pytest.raises(offpath.NotFoundError, match="nothing.npy"):
        import_graph(folder, tmp_path / "t", features=tmp_path / "nothing.npy")
    with pytest.raises(offpath.InvalidArgumentError, match="'splits'.*dict"):
        import_graph(folder, tmp_path / "t", splits=["held"])
    with pytest.raises(offpath.InvalidArgumentError, match="string_ids"):
        import_graph(folder, tmp_path / "t", string_ids=True)
    assert Store.open(tmp_path / "s").num_edges() == 2 and not (tmp_path / "t").exists()
