"""GraphSAGE computes what torch_geometric's layers do, learns, and runs from the command line."""

import json
import math
import subprocess
import sys

import pytest

import offpath
from conftest import random_data
from offpath.graph import Store, import_graph, open_graph, sample_batches

torch = pytest.importorskip("torch")

from offpath.graph.sage import GraphSage, MessageEdges, SampledHops, mean_of_neighbours  # noqa: E402
from offpath.graph.training import Trainer, TrainOptions, labelled_type  # noqa: E402


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return import_graph(
        "rmat", tmp_path_factory.mktemp("planted") / "s", nodes=4000, edges=40_000, dim=16, classes=4,
        separation=2.0, train=0.4, val=0.1,
    )  # fmt: skip


def hops_of(batch):
    row, col = batch.edges()
    return SampledHops(
        [batch.x], [batch.num_sampled_nodes()], [MessageEdges(0, 0, row, col, batch.num_sampled_edges())], [batch.n_id]
    )


def test_the_mean_over_neighbours_is_the_mean():
    x = torch.randn(5, 3, requires_grad=True)
    row, col = torch.tensor([4, 1, 0, 0, 2]), torch.tensor([0, 0, 2, 2, 3])
    mean = mean_of_neighbours(x, row, col, 5)
    expected = torch.stack([(x[4] + x[1]) / 2, torch.zeros(3), x[0], x[2], torch.zeros(3)])
    assert torch.allclose(mean, expected)
    mean.square().sum().backward()
    gradient = x.grad.clone()
    x.grad = None
    expected.square().sum().backward()
    assert torch.allclose(gradient, x.grad)


def test_layers_on_shrinking_parts_give_the_seeds_what_whole_layers_give(store):
    pyg = pytest.importorskip("torch_geometric.nn")
    batch = next(iter(sample_batches(store, [4, 3], "train", batch_size=32)))
    ours = GraphSage([8], [500], [(0, 0)], hidden=6, classes=5, layers=2).eval()
    theirs = [pyg.SAGEConv(8, 6), pyg.SAGEConv(6, 5)]
    for layer, conv in zip(ours.layers, theirs):
        conv.lin_l.weight, conv.lin_l.bias = layer.neighbours[0].weight, layer.own[0].bias
        conv.lin_r.weight = layer.own[0].weight
    row, col = batch.edges()
    edge_index = torch.stack([row, col])
    expected = theirs[1](theirs[0](batch.x, edge_index).relu(), edge_index)[:32]
    assert torch.allclose(ours(hops_of(batch), 0, 32), expected, atol=1e-5)


def test_it_learns_planted_classes(planted):
    options = TrainOptions(fanouts=[10, 5], epochs=4, batch_size=256, hidden=32, dropout=0.1, workers=2)
    result = Trainer(open_graph(planted), options).run()
    assert result.accuracy["test"] > result.majority["test"] + 0.3
    assert result.batches == 4 * -(-len(planted.split("train")) // 256)
    assert result.seconds["sampling"] > 0 and result.seconds["compute"] > 0


def test_a_run_can_be_repeated_with_any_number_of_workers(planted):
    def run(workers, seed=0):
        options = TrainOptions(fanouts=[5, 5], epochs=1, batch_size=256, hidden=8, workers=workers, seed=seed)
        return Trainer(open_graph(planted), options).train_epoch(0)

    assert run(0) == run(2) == run(3)
    assert run(0) != run(0, seed=1)


def test_a_heterogeneous_graph_with_a_type_without_features(hetero_store):
    options = TrainOptions(fanouts=[4, 4], epochs=3, batch_size=64, hidden=16)
    trainer = Trainer(open_graph(hetero_store), options)
    losses = [trainer.train_epoch(epoch) for epoch in range(20)]
    assert losses[-1] < losses[0] and trainer.run().accuracy["train"] > 0.4


def test_graphs_that_cannot_be_trained_on_are_named(tmp_path, hetero_store):
    bare = import_graph("rmat", tmp_path / "s", nodes=100, edges=300, dim=4, classes=0)
    with pytest.raises(offpath.InvalidArgumentError, match="no labels to train on: import it with --node-labels"):
        Trainer(open_graph(bare), TrainOptions())
    with pytest.raises(offpath.InvalidArgumentError, match="author"):
        labelled_type(open_graph(hetero_store), "author")


def test_batches_without_labels_leave_the_weights_whole(tmp_path):
    data = random_data(60, 300, seed=1)
    data.train_mask[:] = True
    data.y[::2] = -1
    Store.from_pyg(data, tmp_path / "s")
    trainer = Trainer(open_graph(tmp_path / "s"), TrainOptions(fanouts=[2], batch_size=1, hidden=4))
    assert math.isfinite(trainer.train_epoch(0))
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())


def test_no_epochs_are_no_loss_and_still_json(planted):
    result = Trainer(open_graph(planted), TrainOptions(fanouts=[2], epochs=0, eval_batches=1)).run()
    assert result.loss is None
    json.dumps(result.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "name, value",
    [
        ("epochs", -1), ("epochs", 1.5), ("hidden", 0), ("dropout", 1.5), ("input_dropout", -0.1), ("max_batches", -1),
        ("learning_rate", float("nan")), ("weight_decay", "x"),
    ],
)  # fmt: skip
def test_options_out_of_range_are_named(name, value):
    with pytest.raises(offpath.InvalidArgumentError, match=f"^{name} is"):
        TrainOptions(**{name: value})


def test_a_split_without_nodes_is_named(tmp_path):
    data = random_data(20, 60)
    data.train_mask[:] = False
    Store.from_pyg(data, tmp_path / "s")
    with pytest.raises(offpath.InvalidArgumentError, match=r"no nodes in a split 'train'.*train \(0\)"):
        Trainer(open_graph(tmp_path / "s"), TrainOptions())


def test_the_command_prints_accuracy_by_split_and_where_time_went(planted):
    command = [sys.executable, "-m", "offpath", "graph", "train", planted.folder, "--epochs", "1", "--fanouts", "5,5"]
    said = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120)
    result = json.loads(said.stdout)
    assert set(result["accuracy"]) == {"train", "val", "test"} == set(result["majority"])
    assert set(result["seconds"]) == {"sampling", "transfer", "dequantize", "wait", "compute"}
    plain = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "accuracy, test" in plain.stdout and "sampling" in plain.stdout


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["nowhere"], 1, "nowhere"), (["x", "--fanouts", "a"], 2, "15,10,5"), (["x", "--lr", "-1"], 2, "--lr"),
        (["x", "--dropout", "nan"], 2, "--dropout"), (["x", "--threads", "-2"], 2, "--threads"),
        (["x", "--epochs", "many"], 2, "--epochs"), (["x", "--batch-size", "0"], 2, "--batch-size"),
    ],
)  # fmt: skip
def test_the_command_says_what_is_wrong(arguments, code, says):
    done = subprocess.run(
        [sys.executable, "-m", "offpath", "graph", "train", *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code and says in done.stderr and "Traceback" not in done.stderr
