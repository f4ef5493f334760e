"""The examples run as they are; the PyG script runs over Offpath with its import alone replaced."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import ROOT

pytest.importorskip("torch_geometric")

EXAMPLES = ROOT / "examples"


def run(script, environment, *arguments):
    return subprocess.run(
        [sys.executable, str(script), *arguments], env=environment, capture_output=True, text=True, timeout=200
    )


def test_a_pyg_script_runs_with_the_import_alone_replaced(tmp_path, environment):
    original = (EXAMPLES / "pyg_training.py").read_text()
    line = "from torch_geometric.loader import NeighborLoader"
    assert len(re.findall(f"^{line}$", original, re.M)) == 1 and "offpath" not in original.split('"""')[2]
    script = tmp_path / "training.py"
    script.write_text(original.replace(f"\n{line}\n", "\nfrom offpath.graph import NeighborLoader\n"))
    done = run(script, environment)
    assert done.returncode == 0, done.stderr
    accuracies = [float(value) for value in re.findall(r"Test: ([\d.]+)", done.stdout)]
    assert len(accuracies) == 5 and accuracies[-1] > 0.6, done.stdout
    assert run(script, environment).stdout == done.stdout  # torch.manual_seed governs


def test_plain_batches(store, environment):
    done = run(EXAMPLES / "plain_batches.py", environment, store.folder)
    assert done.returncode == 0 and "batch 0" in done.stdout, done.stderr


def test_remote_training(store, program, environment):
    path = os.pathsep.join([str(pathlib.Path(program).parent), environment.get("PATH", "")])
    done = run(EXAMPLES / "remote_training.py", {**environment, "PATH": path}, store.folder)
    assert done.returncode == 0 and "epoch 3: loss" in done.stdout, done.stderr
