"""A shaped link carries its rate, is left clean, and cleans up after the dead."""

import os
import signal
import subprocess
import sys
import time

import pytest

from offpath import children, link

pytestmark = pytest.mark.skipif(
    link.unavailable_reason() is not None, reason=str(link.unavailable_reason())
)

SEND = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], 7001), timeout=10)
block, left = bytes(1 << 20), int(sys.argv[2])
while left > 0:
    s.sendall(block)
    left -= len(block)
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""

RECEIVE = """
import socket, sys, time
listener = socket.create_server(("", 7001))
print("ready", flush=True)
peer, _ = listener.accept()
peer.settimeout(20)
total, begin = 0, time.perf_counter()
while chunk := peer.recv(1 << 20):
    total += len(chunk)
print(total * 8 / (time.perf_counter() - begin), flush=True)
"""


def namespaces():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout


def measured_rate(shaped, megabytes):
    receiver = shaped.left.popen([sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout.readline() == "ready\n"
        shaped.right.run(
            [sys.executable, "-c", SEND, shaped.left.address, str(megabytes << 20)],
            check=True,
            timeout=30,
        )
        return float(receiver.communicate(timeout=10)[0])
    finally:
        receiver.kill()
        children.end(receiver)


def test_a_link_of_1_gbit_carries_about_1_gbit():
    with link.ShapedLink("1gbit") as shaped:
        # The best of three: a busy machine can only slow a transfer down.
        best = max(measured_rate(shaped, 64) for _ in range(3))
    assert shaped.bits_per_second == 1e9
    assert 0.85e9 < best < 1.03e9


def test_a_slower_link_carries_less():
    with link.ShapedLink("100mbit") as shaped:
        assert 0.08e9 < measured_rate(shaped, 8) < 0.115e9


def test_a_link_is_fast_while_it_is_unshaped_and_slow_again_after():
    with link.ShapedLink("100mbit") as shaped:
        with shaped.unshaped():
            assert measured_rate(shaped, 64) > 0.2e9
        assert measured_rate(shaped, 8) < 0.115e9


def test_nothing_remains_after_the_context_even_what_ran_inside():
    with link.ShapedLink() as shaped:
        sleeper = shaped.left.popen(["sleep", "60"])
        assert shaped.left.namespace in namespaces()
    assert sleeper.wait(timeout=5) == -signal.SIGTERM
    assert shaped.left.namespace not in namespaces()
    assert shaped.right.namespace not in namespaces()


def test_leftovers_of_a_killed_owner_are_removed_and_those_of_the_living_kept():
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import time; from offpath.link import ShapedLink\n"
            "with ShapedLink() as s: print(s.left.namespace, flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    name = owner.stdout.readline().strip()
    assert name in namespaces()
    link.remove_leftovers()
    assert name in namespaces()
    owner.kill()
    children.end(owner)
    deadline = time.monotonic() + 5
    while name in namespaces() and time.monotonic() < deadline:
        link.remove_leftovers()
    assert name not in namespaces()


def test_a_rate_that_tc_would_not_read_is_refused():
    with pytest.raises(ValueError, match="fast"):
        link.ShapedLink("fast")
