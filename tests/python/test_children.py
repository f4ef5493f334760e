"""Nothing outlives the process that started it; a main job that fails says why in a line."""

import signal
import subprocess
import sys
import time

import pytest

from offpath import children

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


@pytest.fixture
def lines_of(tmp_path):
    """Lines of a child that runs `code`, its stderr in child.log."""
    made = []

    def lines(code):
        log = tmp_path / "child.log"
        with log.open("wb") as errors:
            process = children.popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=errors, bufsize=0)
        made.append(process)
        return children.Lines(process, "the child", log)

    yield lines
    for process in made:
        process.kill()
        children.end(process)


def test_lines_come_whole_and_in_order_however_they_are_written(lines_of):
    lines = lines_of(
        "import os, time; os.write(1, b'one\\ntwo\\nth'); time.sleep(0.1); os.write(1, 'r\u00e9e\\n'.encode())"
    )
    assert [lines.next(30) for _ in range(3)] == ["one", "two", "thr\u00e9e"]


def test_a_silent_child_is_waited_for_no_longer_than_asked_and_its_log_is_named(lines_of):
    lines = lines_of("import sys, time; print('stuck here', file=sys.stderr, flush=True); print('up', flush=True); time.sleep(60)")
    assert lines.next(30) == "up"
    with pytest.raises(TimeoutError, match="the child said nothing for 0.2 s; its log: .*child.log\nstuck here"):
        lines.next(0.2)


def test_a_child_that_ends_says_so_with_its_exit_code_and_the_end_of_its_log(lines_of):
    with pytest.raises(RuntimeError, match="the child ended with exit code 3; its log: .*child.log\nno such graph"):
        lines_of("import sys; print('no such graph', file=sys.stderr); sys.exit(3)").next(30)


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
    assert "memory-node.log" in done.stderr
    done = quickstart(["--rate", "fast"], environment, tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
