"""Offpath takes the work that feeds an accelerator off its critical path.

`offpath.graph` samples and streams batches of graphs for training; `offpath.attention` decodes long
contexts with sparse attention; `offpath.codec` quantizes rows.
Submodules are imported when first used. Nothing here needs torch or torch_geometric to be imported:
what returns their types imports them when called.
"""

from __future__ import annotations

import importlib

from .errors import (
    CorruptDataError,
    Error,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    TimeoutError,
    UnavailableError,
    UnsupportedError,
)

__all__ = [
    "CorruptDataError",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "ResourceExhaustedError",
    "TimeoutError",
    "UnavailableError",
    "UnsupportedError",
    "attention",
    "codec",
    "graph",
]

_SUBMODULES = ("attention", "codec", "graph", "link", "report")


def __getattr__(name: str):
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__version__":
        from ._core import version

        return version
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBMODULES, "__version__"])
