"""Graphs and places that the tests share."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def planetoid() -> pathlib.Path:
    """Folder of Planetoid's files, which lie beside the project, not in it."""
    shared = pathlib.Path(os.environ.get("OFFPATH_SHARED", ROOT.parent / "shared"))
    folder = shared / "data" / "planetoid"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing: run scripts/test.sh --shared DIR")
    return folder


@pytest.fixture(scope="session")
def program() -> str:
    """The command `offpath`: beside this Python, or the one that OFFPATH_PROGRAM names."""
    beside = pathlib.Path(sys.executable).with_name("offpath")
    found = os.environ.get("OFFPATH_PROGRAM") or (str(beside) if beside.exists() else shutil.which("offpath"))
    if not found:
        pytest.skip("the command offpath is not installed beside this Python (pip install .)")
    return found


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For child processes: they find the package where this one did."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def random_data(num_nodes=500, num_edges=4000, seed=0, **extra):
    import torch
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(num_nodes, generator=generator)
    return Data(
        x=torch.randn(num_nodes, 8, generator=generator),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=generator),
        y=torch.randint(5, (num_nodes,), generator=generator),
        train_mask=order < 0.4,
        val_mask=(order >= 0.4) & (order < 0.6),
        test_mask=order >= 0.6,
        **extra,
    )


def random_hetero(seed=0):
    import torch
    from torch_geometric.data import HeteroData

    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    counts = {"paper": 300, "author": 200, "venue": 7}
    data["paper"].x = torch.randn(300, 6, generator=generator)
    data["paper"].y = torch.randint(4, (300,), generator=generator)
    data["paper"].train_mask = torch.rand(300, generator=generator) < 0.5
    data["author"].x = torch.randn(200, 3, generator=generator)
    data["venue"].num_nodes = 7
    for src, relation, dst, edges in [
        ("author", "writes", "paper", 900),
        ("paper", "written_by", "author", 900),
        ("paper", "cites", "paper", 1500),
        ("paper", "in", "venue", 300),
    ]:
        data[src, relation, dst].edge_index = torch.stack(
            [
                torch.randint(counts[src], (edges,), generator=generator),
                torch.randint(counts[dst], (edges,), generator=generator),
            ]
        )
    return data


@pytest.fixture(scope="session")
def data():
    pytest.importorskip("torch_geometric")
    return random_data()


@pytest.fixture(scope="session")
def hetero():
    pytest.importorskip("torch_geometric")
    return random_hetero()


@pytest.fixture(scope="session")
def store(data, tmp_path_factory):
    from offpath.graph import Store

    return Store.from_pyg(data, tmp_path_factory.mktemp("stores") / "random.store")


@pytest.fixture(scope="session")
def hetero_store(hetero, tmp_path_factory):
    from offpath.graph import Store

    return Store.from_pyg(hetero, tmp_path_factory.mktemp("stores") / "hetero.store")


def batch_arrays(batch):
    """All arrays of a SampledBatch of one type, as bytes that can be compared."""
    row, col = batch.edges()
    arrays = [batch.nodes(), row, col, batch.edge_ids(), batch.features(), batch.labels()]
    return [np.asarray(a).tobytes() for a in arrays if a is not None]


def interrupt(code, arguments, environment, before=lambda: None):
    """Runs code that prints "ready" and waits; Ctrl-C after `before` must make it print "interrupted"."""
    from offpath import children

    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, bufsize=0, env=environment
    )
    try:
        lines = children.Lines(process, "the waiting child")
        assert lines.next(120) == "ready"
        before()
        process.send_signal(signal.SIGINT)
        # Waits look for signals ten times a second; the deadline is for one that never looks.
        assert lines.next(30) == "interrupted"
        process.wait(timeout=30)
    finally:
        process.kill()
        children.end(process)
