"""Batches are the same for any number of workers, keep their memory while they are used, and no longer."""

import gc
import os
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pytest

import offpath
from conftest import batch_arrays, interrupt
from offpath.graph import Store, import_graph, sample_batches


@pytest.fixture(scope="module")
def rmat(tmp_path_factory):
    return import_graph(
        "rmat", tmp_path_factory.mktemp("rmat") / "s", nodes=20_000, edges=200_000, dim=32, classes=4
    )


def epoch_bytes(source, epochs=1, **options):
    batches = sample_batches(source, [5, 3], "train", batch_size=128, tensors="numpy", **options)
    return [batch_arrays(batch) for _ in range(epochs) for batch in batches]


def test_any_number_of_workers_gives_the_same_bytes(rmat):
    plain = epoch_bytes(rmat, 2, shuffle=True, seed=9)
    assert len(plain) > 20
    for workers, prefetch in [(1, 1), (2, 2), (3, 1), (8, 4)]:
        assert epoch_bytes(rmat, 2, shuffle=True, seed=9, num_workers=workers, prefetch=prefetch) == plain


def test_epochs_and_seeds_differ_and_each_can_be_asked_for_again(rmat):
    batches = sample_batches(rmat, [5], "train", batch_size=128, shuffle=True, tensors="numpy")
    first, second = ([batch_arrays(b) for b in batches] for _ in range(2))
    assert first != second
    assert [batch_arrays(b) for b in batches.epoch(0)] == first
    assert [batch_arrays(b) for b in batches.epoch(1, first=3)] == second[3:]
    other = sample_batches(rmat, [5], "train", batch_size=128, shuffle=True, seed=1, tensors="numpy")
    assert [batch_arrays(b) for b in other] != first


def test_every_input_node_comes_once_an_epoch_shuffled_or_not(rmat):
    train = rmat.split("train")
    for shuffle in (False, True):
        batches = sample_batches(rmat, [1], "train", batch_size=100, shuffle=shuffle, tensors="numpy")
        seeds = np.concatenate([b.nodes()[: b.batch_size] for b in batches])
        assert np.array_equal(seeds, train) != shuffle
        assert np.array_equal(np.sort(seeds), np.sort(train))


@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_of_one_stream_side_by_side(rmat, workers):
    batches = sample_batches(rmat, [3], "train", batch_size=128, num_workers=workers, tensors="numpy")
    alone = [batch_arrays(b) for b in batches.epoch(5)]
    pairs = list(zip(batches.epoch(5), batches.epoch(5)))
    assert [batch_arrays(a) for a, _ in pairs] == [batch_arrays(b) for _, b in pairs] == alone


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_that_is_left_early_does_not_disturb_the_next(rmat, workers):
    batches = sample_batches(rmat, [3], "train", batch_size=128, num_workers=workers, tensors="numpy")
    whole = [batch_arrays(b) for b in batches.epoch(1)]
    for _ in range(5):
        for batch in batches.epoch(0):
            if batch.number == 1:
                break
        assert [batch_arrays(b) for b in batches.epoch(1)] == whole


def test_arrays_outlive_everything_and_are_not_written_over(rmat):
    batches = sample_batches(rmat, [5, 3], "train", batch_size=128, num_workers=2, tensors="numpy")
    kept = [(b.nodes(), b.features(), b.edges()[0]) for b in batches]
    copies = [tuple(a.copy() for a in arrays) for arrays in kept]
    for _ in range(2):
        for _ in batches:
            pass
    del batches
    gc.collect()
    for arrays, originals in zip(kept, copies):
        for array, original in zip(arrays, originals):
            assert np.array_equal(array, original)
    assert np.array_equal(kept[3][1], rmat.features()[kept[3][0]])


def test_memory_is_used_again_once_arrays_die(rmat):
    batches = sample_batches(rmat, [5, 3], "train", batch_size=128, tensors="numpy")
    places = set()
    for batch in batches:
        places.add(batch.features().__array_interface__["data"][0])
        del batch
    assert len(places) <= 3


def test_arrays_are_not_copies(rmat):
    torch = pytest.importorskip("torch")
    batch = next(iter(sample_batches(rmat, [5], "train", batch_size=16)))
    first, again = batch.x, batch.x
    assert first.data_ptr() == again.data_ptr()
    assert batch.n_id.dtype == torch.int64 and batch.row.data_ptr() == batch.row.data_ptr()


def test_short_names_name_the_type_that_is_missing_or_meant(hetero_store, tmp_path):
    batch = next(iter(sample_batches(hetero_store, [2], "paper", tensors="numpy")))
    for name in ("row", "col", "e_id"):
        with pytest.raises(offpath.InvalidArgumentError, match="which edge type.*writes"):
            getattr(batch, name)
    with pytest.raises(offpath.InvalidArgumentError, match="which node type.*venue"):
        batch.n_id
    writer = offpath._core.StoreWriter(str(tmp_path / "s"), False, "nodes alone")
    writer.add_node_type("node", 3)
    writer.commit()
    batch = next(iter(sample_batches(tmp_path / "s", [2], tensors="numpy")))
    assert list(batch.n_id) == [0, 1, 2]
    for name in ("row", "col", "e_id"):
        with pytest.raises(ValueError, match="no edge type"):
            getattr(batch, name)
    with pytest.raises(ValueError, match="no edge type"):
        Store.open(tmp_path / "s").csc()


def test_what_cannot_be_pickled_says_what_to_pickle_instead(store, data):
    batches = sample_batches(store, [2], "train", tensors="numpy")
    with pytest.raises(TypeError, match="pickle the Store.*arguments"):
        pickle.dumps(batches)
    with pytest.raises(TypeError, match="pickle its arrays"):
        pickle.dumps(next(iter(batches)))
    pytest.importorskip("torch_geometric")
    from offpath.graph import NeighborLoader

    for source in (store, data):
        with pytest.raises(TypeError, match="NeighborLoader holds.*pickle the graph.*arguments"):
            pickle.dumps(NeighborLoader(source, [2]))
    graph = pickle.loads(pickle.dumps(batches.graph))
    assert len(sample_batches(graph, [2], "train", tensors="numpy")) == len(batches)
    with pytest.raises(TypeError, match="pickle the Data object"):
        pickle.dumps(NeighborLoader(data, [2]).graph)


def test_an_error_comes_at_its_turn_and_the_stream_goes_on(tmp_path):
    # Features that are not finite cannot travel as i8; a store holds none, so they are put into its
    # file behind its back.
    store = import_graph("rmat", tmp_path / "s", nodes=1000, edges=3000, dim=4)
    file = next(path for path in (tmp_path / "s").rglob("*.npy") if path.stat().st_size >= 1000 * 16)
    table = np.load(file, mmap_mode="r+")
    if table.shape != (1000, 4):
        file = next(p for p in (tmp_path / "s").rglob("*.npy") if np.load(p, mmap_mode="r").shape == (1000, 4))
        table = np.load(file, mmap_mode="r+")
    table[250] = np.nan
    table.flush()
    for workers in (0, 2):
        batches = sample_batches(
            Store.open(tmp_path / "s"), [0], batch_size=100, feature_format="i8", num_workers=workers, tensors="numpy"
        )
        source = batches.graph.open_source(batches.plan, threads=workers, prefetch=2, mode="near")
        source.begin(0)
        numbers = []
        for _ in range(10):
            try:
                numbers.append(source.next().number)
            except offpath.InvalidArgumentError as error:
                assert "node 250" in str(error)
                numbers.append("error")
        assert numbers == [0, 1, "error", 3, 4, 5, 6, 7, 8, 9] and source.next() is None
    assert store.num_nodes() == 1000


CTRL_C = """
import signal, sys
from offpath.graph import import_graph, sample_batches
store = import_graph("rmat", sys.argv[1] + "/s", nodes=200_000, edges=4_000_000, dim=0)
batches = sample_batches(store, [-1, -1, -1], batch_size=20_000, num_workers=int(sys.argv[2]), tensors="numpy")
# A shell's background jobs start with SIGINT ignored, and Python keeps it so.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
try:
    while True:
        for _ in batches:
            pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("workers", [1])
def test_ctrl_c_ends_a_wait_for_a_slow_batch(tmp_path, workers, environment):
    interrupt(CTRL_C, [tmp_path, workers], environment, lambda: time.sleep(0.3))


def test_a_forked_child_makes_batches_of_its_own(rmat):
    batches = sample_batches(rmat, [5], "train", batch_size=128, seed=4, num_workers=2, tensors="numpy")
    first = [batch_arrays(b) for b in batches.epoch(0)]  # leaves a source that waits for the next epoch
    begun = batches.epoch(0)
    next(begun)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            same = [batch_arrays(b) for b in batches.epoch(0)] == first
            try:
                next(begun)
            except offpath.UnsupportedError:
                code = 0 if same else 2
            del batches, begun
            gc.collect()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(begun)) == len(first) - 1


def test_an_error_about_bytes_that_are_not_text_is_still_an_error(tmp_path):
    import_graph("rmat", tmp_path / "s", nodes=10, edges=20, dim=2, classes=2)
    (tmp_path / "s" / "store.json").write_bytes(b'{"format": "\xff\xfe"}')
    with pytest.raises(offpath.CorruptDataError, match="store.json"):
        Store.open(tmp_path / "s")


def test_ten_thousand_batches_leak_nothing(store):
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("torch_geometric")
    from offpath.graph import NeighborLoader

    def memory():
        gc.collect()
        return psutil.Process().memory_info().rss

    loader = NeighborLoader(store, [3, 2], input_nodes="train", batch_size=2, shuffle=True, num_workers=2)
    raw = sample_batches(store, [3, 2], "train", batch_size=2, num_workers=2)

    def run(batches):
        done = 0
        while done < batches:
            for batch in loader:
                batch.x, batch.edge_index
                done += 1
            for batch in raw:
                batch.x, batch.row
                done += 1

    run(1000)
    before = memory()
    run(10_000)
    # A batch that leaked would be 10 KB or more: 100 MB.
    assert memory() - before < 16 << 20


def test_the_end_of_a_source_lets_other_threads_run(rmat):
    # One batch that takes a while: it is being made when its source is let go, which waits for it.
    plan = offpath._core.BatchPlan()
    plan.fanouts = [[300]]
    plan.replace = True
    plan.batch_size = 20_000
    plan.with_features = plan.with_labels = False
    source = offpath._core.LocalSource(rmat._core, plan, threads=1, prefetch=1)
    turns = 0
    over = threading.Event()

    def take_turns():
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0)

    other = threading.Thread(target=take_turns)
    interval = sys.getswitchinterval()
    other.start()
    try:
        source.begin(0)
        time.sleep(0.01)
        # Until the source gives it up, this thread keeps the interpreter.
        sys.setswitchinterval(1000)
        before = turns
        del source
        after = turns
    finally:
        sys.setswitchinterval(interval)
        over.set()
        other.join()
    assert after > before


def test_more_hops_than_work_are_a_value_error_that_names_the_most(rmat):
    with pytest.raises(ValueError, match="65 hops: at most 64"):
        sample_batches(rmat, [1] * 65, "train", tensors="numpy")
