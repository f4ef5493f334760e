"""Batches from a memory node are those of the local store, in every mode and through failures."""

import json
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import offpath
from conftest import batch_arrays, interrupt
from offpath.graph import open_graph, sample_batches


class Node:
    """A memory node in a process of its own."""

    def __init__(self, program, store, *options, port=0):
        self.command = [program, "graph", "serve", store.folder, "--json", "--quiet", *options]
        self.port = port
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.command, "--listen", f"127.0.0.1:{self.port}"], stdout=subprocess.PIPE, text=True
        )
        said = self.process.stdout.readline()
        assert said, "the node said nothing"
        self.url = "offpath://" + json.loads(said)["address"]
        self.port = int(self.url.rpartition(":")[2])

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=20)
        return self.process.returncode


@pytest.fixture
def node(program, store):
    node = Node(program, store)
    yield node
    node.kill()


def epoch(source, **options):
    batches = sample_batches(
        source, [5, 3], "train", batch_size=16, shuffle=True, seed=4, tensors="numpy", **options
    )
    return [batch_arrays(batch) for batch in batches]


@pytest.mark.parametrize("mode", ["near", "rpc", "pull"])
@pytest.mark.parametrize("format", ["f32", "i8"])
def test_batches_are_the_same_bytes_as_the_local_store_s(node, store, mode, format):
    assert epoch(node.url, mode=mode, feature_format=format) == epoch(store, feature_format=format)


def test_the_node_says_what_it_holds(node, store):
    here, there = open_graph(store), open_graph(node.url)
    assert there.nodes == here.nodes and there.edge_types == here.edge_types
    assert np.array_equal(there.split(0, "val"), store.split("val"))
    with pytest.raises(offpath.NotFoundError, match="dev"):
        there.split(0, "dev")


def test_the_node_s_format_is_used_where_none_is_asked_for(program, store):
    node = Node(program, store, "--features", "i8")
    try:
        assert epoch(node.url) == epoch(store, feature_format="i8")
    finally:
        node.kill()


def test_neighbor_loader_works_over_a_url(node, store):
    pytest.importorskip("torch_geometric")
    from offpath.graph import NeighborLoader

    here, there = (
        NeighborLoader(s, [4, 2], input_nodes="train", batch_size=32, shuffle=True, seed=1) for s in (store, node.url)
    )
    for a, b in zip(here, there):
        for field in ("x", "y", "n_id", "e_id", "edge_index", "input_id"):
            assert a[field].equal(b[field])
        assert a.num_sampled_nodes == b.num_sampled_nodes


def test_a_killed_node_that_comes_back_costs_no_batch(program, store):
    node = Node(program, store)
    expected = epoch(store)
    try:
        got = []
        batches = sample_batches(
            node.url, [5, 3], "train", batch_size=16, shuffle=True, seed=4, tensors="numpy", prefetch=1
        )
        for i, batch in enumerate(batches):
            got.append(batch_arrays(batch))
            if i in (1, 5):
                node.kill()
                node.start()
        assert got == expected
    finally:
        node.kill()


def test_an_address_where_nobody_listens_is_named():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(offpath.Error, match=str(port)) as caught:
            offpath._core.fetch_store_info(f"127.0.0.1:{port}", 1.0)
    assert isinstance(caught.value, (offpath.UnavailableError, offpath.TimeoutError))


def test_plans_that_do_not_fit_are_refused_by_the_node(node):
    with pytest.raises(offpath.NotFoundError, match="dev"):
        sample_batches(node.url, [2], "dev", tensors="numpy")
    with pytest.raises(offpath.InvalidArgumentError, match="500"):
        sample_batches(node.url, [2], [500], tensors="numpy")
    with pytest.raises(offpath.InvalidArgumentError, match="push"):
        sample_batches(node.url, [2], mode="push", tensors="numpy")


def test_more_hops_than_work_are_a_value_error_that_names_the_most(node):
    for mode in ("near", "rpc", "pull"):
        with pytest.raises(ValueError, match="65 hops: at most 64"):
            sample_batches(node.url, [1] * 65, "train", mode=mode, tensors="numpy")


WAIT = """
import signal, sys
# A shell's background jobs start with SIGINT ignored, and Python keeps it so.
signal.signal(signal.SIGINT, signal.default_int_handler)
from offpath.graph import sample_batches
batches = sample_batches(sys.argv[1], [5, 3], "train", batch_size=4, prefetch=1, tensors="numpy")
iterator = iter(batches)
next(iterator)
print("ready", flush=True)
try:
    while True:
        for _ in batches:
            pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_wait_for_a_silent_node(node, environment):
    def silence():
        node.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)

    try:
        interrupt(WAIT, [node.url], environment, silence)
    finally:
        node.process.send_signal(signal.SIGCONT)


def test_what_ended_the_stream_is_said_at_once_a_silence_too(node):
    plan = sample_batches(node.url, [5, 3], "train", batch_size=16).plan
    address = node.url.removeprefix("offpath://")
    silence, timeout = 0.3, 60
    source = offpath._core.RemoteSource(address, plan, "near", 4, 30.0, silence, silence)
    node.process.send_signal(signal.SIGSTOP)
    source.begin(0)
    begin = time.monotonic()
    with pytest.raises(offpath.TimeoutError):
        source.next(timeout)
    assert time.monotonic() - begin < timeout / 2, "it waited for its own time to pass as well"
