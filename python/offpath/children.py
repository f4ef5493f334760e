"""Child processes that end with this one, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from typing import Sequence

__all__ = ["popen"]

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
