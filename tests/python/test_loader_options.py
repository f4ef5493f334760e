"""An option is obeyed or refused by name, never ignored; bad input is named."""

import pytest

import offpath
from conftest import random_data
from offpath.graph import NeighborLoader, sample_batches

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")


@pytest.mark.parametrize(
    "options",
    [
        {"weight_attr": "edge_weight"},
        {"time_attr": "time"},
        {"time_attr": "time", "input_time": torch.zeros(3)},
        {"disjoint": True},
        {"subgraph_type": "induced"},
        {"subgraph_type": "bidirectional"},
        {"directed": False},
        {"temporal_strategy": "last"},
        {"transform_sampler_output": lambda out: out},
        {"neighbor_sampler": object()},
        {"sampler": [1, 2]},
        {"batch_sampler": [[1], [2]]},
        {"worker_init_fn": print},
        {"multiprocessing_context": "spawn"},
        {"collate_fn": print},
    ],
    ids=lambda options: "-".join(options),
)
def test_what_is_not_in_yet_is_refused_by_name(store, options):
    with pytest.raises(offpath.UnsupportedError, match=list(options)[-1]):
        NeighborLoader(store, [2], **options)


def test_pyg_s_own_subgraph_type_is_understood(store):
    from torch_geometric.sampler.base import SubgraphType

    NeighborLoader(store, [2], subgraph_type=SubgraphType.directional)
    with pytest.raises(offpath.UnsupportedError, match="induced"):
        NeighborLoader(store, [2], subgraph_type=SubgraphType.induced)


def test_what_says_how_worker_processes_run_is_accepted(store):
    loader = NeighborLoader(
        store, [2], batch_size=100, num_workers=2, persistent_workers=True, prefetch_factor=3,
        filter_per_worker=True, is_sorted=True, pin_memory=False, timeout=30, generator=torch.Generator(),
    )  # fmt: skip
    assert sum(batch.batch_size for batch in loader) == 500


@pytest.mark.parametrize(
    "option, value",
    [
        ("batch_size", 0), ("batch_size", 1.5), ("batch_size", "x"), ("batch_size", 2**70), ("batch_size", None),
        ("num_workers", -1), ("num_workers", 1 << 20), ("num_workers", 0.5), ("num_workers", "2"),
        ("prefetch", 0), ("prefetch", 2.5), ("prefetch", 65537), ("num_workers", 1025), ("seed", "x"), ("seed", 2**64), ("first_epoch", -1),
        ("timeout", 0), ("timeout", float("nan")), ("timeout", "x"),
        ("feature_format", ""), ("feature_format", "i8/-1"), ("feature_format", "i8/999999999999"),
        ("feature_format", "i8~~"), ("feature_format", 8),
    ],
)  # fmt: skip
def test_a_number_that_is_none_or_out_of_range_is_refused_by_name(store, option, value):
    with pytest.raises(offpath.InvalidArgumentError, match=f"{option}|workers|feature format"):
        list(sample_batches(store, [2], **{"num_workers": 1, "prefetch": 2, option: value}))


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "x"], ids=str)
def test_a_timeout_that_is_none_is_refused_by_name(store, timeout):
    with pytest.raises(offpath.InvalidArgumentError, match="^timeout is"):
        NeighborLoader(store, [2], timeout=timeout)


def test_a_timeout_of_more_than_a_float_holds_is_as_good_as_any(store):
    for options in ({}, {"num_workers": 1}):
        assert len(list(NeighborLoader(store, [2], "val", timeout=10**400, **options))) > 0


def test_prefetching_without_workers_is_refused_as_torch_refuses_it(store, data):
    for source in (store, data):
        with pytest.raises(offpath.InvalidArgumentError, match="prefetch_factor is 4, but num_workers is 0"):
            NeighborLoader(source, [2], prefetch_factor=4)


def test_a_batch_asked_for_by_places_is_made_with_the_loader_s_options(store):
    loader = NeighborLoader(store, [3], "train", batch_size=20, seed=5, feature_format="i4")
    first, asked = next(iter(loader)), loader(torch.arange(20))
    assert first.x.equal(asked.x) and first.edge_index.equal(asked.edge_index)
    assert not asked.x.equal(torch.from_numpy(store.features()[asked.n_id].copy()))


@pytest.mark.parametrize("places", [[-1], [10**6], [0.5], [True], [], [[1]]], ids=str)
def test_places_that_are_none_are_refused(store, places):
    with pytest.raises(offpath.InvalidArgumentError, match="places"):
        NeighborLoader(store, [2], "train")(places)


def test_what_is_no_graph_is_told_what_is_one(store, data):
    with pytest.raises(offpath.InvalidArgumentError, match="or a torch_geometric Data or HeteroData; got int"):
        NeighborLoader(5, [2])
    with pytest.raises(offpath.InvalidArgumentError, match="got Data: .*from_pyg.*NeighborLoader"):
        sample_batches(data, [2])


@pytest.mark.parametrize("fanouts", [[1.5], "33", [float("inf")], [2**64], ["3"], [None]], ids=str)
def test_fanouts_are_not_rounded_or_read_from_text(store, fanouts):
    with pytest.raises(offpath.InvalidArgumentError, match="num_neighbors"):
        sample_batches(store, fanouts)


@pytest.mark.parametrize(
    "nodes",
    ["", torch.eye(3).to_sparse(), torch.empty(3, dtype=torch.long, device="meta"), [[1], [1, 2]]],
    ids=["no name", "sparse", "without data", "ragged"],
)
def test_input_nodes_that_are_no_plain_array_are_refused(store, nodes):
    with pytest.raises(offpath.InvalidArgumentError, match="input_nodes"):
        sample_batches(store, [2], nodes)


def test_an_edge_index_of_floats_is_refused():
    data = random_data(10, 20)
    data.edge_index = data.edge_index.float()
    with pytest.raises(offpath.InvalidArgumentError, match="edge_index of the Data is torch.float32"):
        NeighborLoader(data, [2])


def test_unknown_arguments_are_named(store):
    with pytest.raises(offpath.InvalidArgumentError, match="num_neighbours"):
        NeighborLoader(store, [2], num_neighbours=[3])
    with pytest.raises(TypeError, match="batchsize"):
        sample_batches(store, [2], batchsize=3)


@pytest.mark.parametrize("fanouts", [[-2], [3, -7], ["a"], 5, [[1, 2]]])
def test_fan_outs_that_mean_nothing_are_named(store, fanouts):
    with pytest.raises(offpath.InvalidArgumentError, match="fan-out"):
        NeighborLoader(store, fanouts)


@pytest.mark.parametrize("nodes", [[500], [-1], [3, 10**12]])
def test_input_nodes_out_of_range_are_named(store, nodes):
    with pytest.raises(offpath.InvalidArgumentError, match=str(nodes[-1])):
        NeighborLoader(store, [2], input_nodes=nodes)


def test_input_nodes_that_mean_nothing_are_named(store, hetero_store):
    with pytest.raises(offpath.InvalidArgumentError, match="mask"):
        NeighborLoader(store, [2], input_nodes=torch.ones(3, dtype=torch.bool))
    with pytest.raises(offpath.InvalidArgumentError, match="float32"):
        NeighborLoader(store, [2], input_nodes=torch.rand(3))
    with pytest.raises(offpath.NotFoundError, match="dev.*train|train.*dev"):
        NeighborLoader(store, [2], input_nodes="dev")
    with pytest.raises(offpath.InvalidArgumentError, match="node type"):
        NeighborLoader(hetero_store, [2])
    with pytest.raises(offpath.NotFoundError, match="papers"):
        NeighborLoader(hetero_store, [2], input_nodes="papers")


def test_a_dictionary_of_fan_outs_must_fit_the_edge_types(hetero_store):
    whole = {name: [2, 2] for name in hetero_store.edge_types}
    NeighborLoader(hetero_store, whole, input_nodes="paper")
    with pytest.raises(offpath.InvalidArgumentError, match="venue"):
        NeighborLoader(
            hetero_store, {k: v for k, v in whole.items() if k[2] != "venue"}, input_nodes="paper"
        )
    with pytest.raises(offpath.InvalidArgumentError, match="likes"):
        NeighborLoader(hetero_store, {**whole, ("author", "likes", "paper"): [1, 1]}, input_nodes="paper")
    with pytest.raises(offpath.InvalidArgumentError, match="hops"):
        NeighborLoader(hetero_store, {**whole, ("paper", "cites", "paper"): [1]}, input_nodes="paper")


def test_no_input_nodes_are_no_batches(store, data):
    for source in (store, data):
        for nodes in ([], torch.zeros(500, dtype=torch.bool)):
            loader = NeighborLoader(source, [2], input_nodes=nodes, batch_size=4)
            assert len(loader) == 0 and list(loader) == [] and len(loader.dataset) == 0


def test_batch_size_and_workers_are_checked(store):
    with pytest.raises(offpath.InvalidArgumentError, match="batch_size"):
        NeighborLoader(store, [2], batch_size=0)
    with pytest.raises(offpath.InvalidArgumentError, match="num_workers"):
        NeighborLoader(store, [2], num_workers=-1)


def test_drop_last_leaves_the_short_batch_out(store):
    loader = NeighborLoader(store, [2], batch_size=64, drop_last=True)
    assert [batch.batch_size for batch in loader] == [64] * 7 and len(loader) == 7


def test_something_that_is_no_graph_is_named():
    with pytest.raises(offpath.InvalidArgumentError, match="list"):
        NeighborLoader([1, 2, 3], [2])
    with pytest.raises(offpath.InvalidArgumentError, match="http"):
        NeighborLoader("http://localhost:1", [2])
    with pytest.raises(FileNotFoundError, match="no/such"):
        NeighborLoader("no/such/store", [2])


def test_a_data_object_without_edges_or_nodes_is_named():
    from torch_geometric.data import Data

    with pytest.raises(offpath.InvalidArgumentError, match="edge_index"):
        NeighborLoader(Data(x=torch.zeros(3, 1)), [2])


def test_feature_formats_are_obeyed_and_bad_ones_named(store):
    exact = next(iter(sample_batches(store, [2], batch_size=500))).x
    for name, bound in [("f16", 1e-2), ("bf16", 3e-2), ("i8", 3e-2), ("i8~", 6e-2), ("i4", 0.5)]:
        x = next(iter(sample_batches(store, [2], batch_size=500, feature_format=name))).x
        assert 0 < (x - exact).abs().max() < bound
    with pytest.raises(offpath.InvalidArgumentError, match="i9"):
        sample_batches(store, [2], feature_format="i9")
    with pytest.raises(offpath.InvalidArgumentError, match="7"):
        sample_batches(store, [2], feature_format="i8/7")


def test_features_that_are_not_finite_pass_as_they_are_and_are_refused_in_a_format():
    data = random_data(50, 200)
    data.x[17, 3] = float("nan")
    batch = next(iter(NeighborLoader(data, [2], batch_size=50)))
    assert batch.x.isnan().sum() == 1
    with pytest.raises(offpath.InvalidArgumentError, match="finite"):
        NeighborLoader(data, [2], batch_size=10, feature_format="i8")
