"""A network link of a known rate between two network namespaces of this machine.

Transfers over loopback say little about a network. A :class:`ShapedLink` makes two namespaces joined
by a veth pair and shapes both directions with tbf, so that programs run inside them see an ordinary
network of, say, 1 Gbit/s::

    with ShapedLink("1gbit") as link:
        server = link.left.popen(["offpath", "graph", "serve", store, "--listen", f"{link.left.address}:7000"])
        link.right.run(["offpath", "graph", "train", f"offpath://{link.left.address}:7000"])

Namespaces belong to the machine, not to a process: one that is killed leaves them behind. Their
names carry their owner (pid and start time), and the next ShapedLink removes those whose owner is
gone. Making one needs root and iproute2; :func:`unavailable_reason` says what is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Iterator, Sequence

from offpath import children

__all__ = ["LinkEnd", "ShapedLink", "remove_leftovers", "unavailable_reason"]

_NAME = re.compile(r"^offpath-(\d+)-(\d+)-(\d+)-(left|right)$")
_DEADLINE_SECONDS = 20.0
_links_made = itertools.count()


def _ip(*arguments: str) -> str:
    """Runs ip(8); raises RuntimeError with what it said."""
    done = subprocess.run(
        ["ip", *arguments], capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            # The command's name may hold spaces and parentheses: count fields from its end.
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _namespaces() -> list[str]:
    return [line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()]


def _remove_namespace(name: str) -> None:
    """Ends what runs inside, then removes the namespace; the veth pair goes with it."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        pids = [int(pid) for pid in _ip("netns", "pids", name).split()]
        for pid in pids:
            try:
                os.kill(pid, kind)
            except ProcessLookupError:
                pass
        give_up = time.monotonic() + 2.0
        while pids and time.monotonic() < give_up:
            pids = [pid for pid in pids if _start_time(pid) is not None]
            time.sleep(0.01)
        if not pids:
            break
    _ip("netns", "delete", name)


def remove_leftovers() -> list[str]:
    """Removes the namespaces of owners that are gone; returns their names."""
    removed = []
    for name in _namespaces():
        parts = _NAME.match(name)
        if parts and _start_time(int(parts[1])) != int(parts[2]):
            _remove_namespace(name)
            removed.append(name)
    return removed


_reason: list[str | None] = []


def unavailable_reason() -> str | None:
    """None where links can be made here; else why not, and what to do. Tried once a process."""
    if not _reason:
        _reason.append(_find_reason())
    return _reason[0]


def _find_reason() -> str | None:
    if not shutil.which("ip") or not shutil.which("tc"):
        return "ip and tc are missing: install iproute2"
    if not shutil.which("nsenter"):
        return "nsenter is missing: install util-linux"
    if os.geteuid() != 0:
        return "network namespaces need root: run as root or with sudo"
    try:
        with ShapedLink("1gbit", _check=False):
            return None
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return f"this machine refuses network namespaces with veth and tbf ({error})"


@dataclass(frozen=True)
class LinkEnd:
    """One side of a link: a namespace with one address."""

    namespace: str
    address: str

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` inside this end."""
        # Not `ip netns exec`: that mounts a /sys of its own, in which there are no control groups,
        # so that a lane's quota could not be set.
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--", *map(str, argv)]

    def popen(self, argv: Sequence[str], **options) -> subprocess.Popen:
        """A child inside this end that ends with this process; the pid is the program's own."""
        return children.popen(self.command(argv), **options)

    def run(self, argv: Sequence[str], **options) -> subprocess.CompletedProcess:
        """subprocess.run inside this end."""
        return subprocess.run(self.command(argv), **options)


class ShapedLink:
    """A context manager: two ends, `left` and `right`, joined at `rate` in each direction.

    `rate` is tc's: "1gbit", "100mbit". `burst` bytes may pass at once at full speed: small, so that
    short transfers see the rate too. Leaving the context ends what still runs in the ends.
    """

    def __init__(self, rate: str = "1gbit", *, burst: int = 128 * 1024, _check: bool = True):
        if not re.fullmatch(r"\d+(\.\d+)?[kmg]?bit", rate):
            raise ValueError(f"rate {rate!r}: expected tc's form, such as '1gbit' or '100mbit'")
        self.rate = rate
        self.burst = burst
        self._check = _check
        owner = f"offpath-{os.getpid()}-{_start_time(os.getpid())}-{next(_links_made)}"
        # The addresses exist only inside the two namespaces: every link may use the same.
        self.left = LinkEnd(f"{owner}-left", "10.77.0.1")
        self.right = LinkEnd(f"{owner}-right", "10.77.0.2")

    @property
    def bits_per_second(self) -> float:
        number, unit = re.fullmatch(r"([\d.]+)([kmg]?)bit", self.rate).groups()
        return float(number) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[unit]

    def __enter__(self) -> "ShapedLink":
        if self._check and (reason := unavailable_reason()):
            raise RuntimeError(reason)
        remove_leftovers()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._remove()

    def _make(self) -> None:
        for end in (self.left, self.right):
            _ip("netns", "add", end.namespace)
        _ip("link", "add", "veth0", "netns", self.left.namespace, "type", "veth",
            "peer", "name", "veth0", "netns", self.right.namespace)  # fmt: skip
        for end in (self.left, self.right):
            _ip("-n", end.namespace, "addr", "add", f"{end.address}/30", "dev", "veth0")
            _ip("-n", end.namespace, "link", "set", "lo", "up")
            _ip("-n", end.namespace, "link", "set", "veth0", "up")
        self._shape()

    def _shape(self) -> None:
        # 50 ms of queue: enough for TCP to fill the link, little enough to keep it responsive.
        self._qdisc("add", "tbf", "rate", self.rate, "burst", str(self.burst), "latency", "50ms")

    def _qdisc(self, verb: str, *arguments: str) -> None:
        for end in (self.left, self.right):
            done = end.run(
                ["tc", "qdisc", verb, "dev", "veth0", "root", *arguments],
                capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise RuntimeError(f"tc on {end.namespace}: {done.stderr.strip()}")

    @contextlib.contextmanager
    def unshaped(self) -> Iterator[None]:
        """A context in which the link is as fast as the machine; what runs in its ends goes on."""
        self._qdisc("del")
        try:
            yield
        finally:
            self._shape()

    def _remove(self) -> None:
        present = _namespaces()
        for end in (self.left, self.right):
            if end.namespace in present:
                _remove_namespace(end.namespace)
