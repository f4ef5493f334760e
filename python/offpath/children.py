"""Child processes that end with this one, however it ends."""

from __future__ import annotations

import ctypes
import os
import pathlib
import select
import signal
import subprocess
import time
from typing import Optional, Sequence

__all__ = ["Lines", "end", "popen"]

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def popen(argv: Sequence[str], **options) -> subprocess.Popen:
    """subprocess.Popen of a child that the kernel kills when this process is gone.

    A `finally` does not run in a process that is killed. Call it on a thread that lives as long as
    the child may: the kernel counts the thread that made it as the parent.
    """
    parent = os.getpid()

    def end_with_parent() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before the kernel knew
            os._exit(1)

    return subprocess.Popen(list(map(str, argv)), preexec_fn=end_with_parent, **options)


def end(process: subprocess.Popen, seconds: float = 15.0) -> None:
    """Waits for a child that was asked to end, then kills it; closes its pipes."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


class Lines:
    """The lines that a child prints, none of them waited for without a deadline.

    `process` has its stdout as a pipe of bytes that nobody else reads; `what` names it in messages,
    and `log` is the file that its stderr goes to.
    """

    def __init__(self, process: subprocess.Popen, what: str, log: Optional[pathlib.Path] = None):
        self._process = process
        self._what = what
        self._log = log
        self._read = b""

    def next(self, seconds: float) -> str:
        """The next line. Raises TimeoutError or, where the child has ended, RuntimeError, with the
        end of its log."""
        give_up = time.monotonic() + seconds
        pipe = self._process.stdout.fileno()
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        while b"\n" not in self._read:
            left = give_up - time.monotonic()
            if left <= 0 or not ready.poll(left * 1000):
                raise TimeoutError(f"{self._what} said nothing for {seconds:g} s{self._log_end()}")
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                raise RuntimeError(f"{self._what} ended{self._exit_code()}{self._log_end()}")
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def _exit_code(self) -> str:
        try:
            return f" with exit code {self._process.wait(timeout=10)}"
        except subprocess.TimeoutExpired:  # it closed its stdout and goes on
            return ""

    def _log_end(self) -> str:
        if self._log is None:
            return ""
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            lines = []
        last = "\n".join(line for line in lines[-20:] if line.strip())
        return f"; its log: {self._log}" + (f"\n{last}" if last else " (empty)")
