"""Nothing outlives the process that started it; a main job that fails says why in a line."""

import signal
import subprocess
import sys
import time

import pytest

PARENT = """
import sys, time
from offpath import children
print(children.popen(["sleep", "60"]).pid, flush=True)
time.sleep(60)
"""


def runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_with_its_parent(environment, number):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment
    )
    child = int(parent.stdout.readline())
    assert runs(child)
    parent.send_signal(number)
    parent.communicate(timeout=20)
    deadline = time.monotonic() + 20
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs(child)


def quickstart(arguments, environment, folder):
    return subprocess.run(
        [sys.executable, "-m", "offpath.quickstart", *arguments], env=environment, cwd=folder,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_quickstart_names_what_it_cannot_make_or_serve(program, environment, tmp_path):
    (tmp_path / "file").write_text("")
    done = quickstart(["--data", "file"], environment, tmp_path)
    assert done.returncode == 1
    assert "file" in done.stderr and "Traceback" not in done.stderr
    for name in ("wordnet.store", "rmat-1m.store"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "store.json").write_text("{")
    done = quickstart([], environment, tmp_path)
    assert done.returncode == 1
    assert "store.json is not JSON" in done.stderr and "Traceback" not in done.stderr
    done = quickstart(["--rate", "fast"], environment, tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
