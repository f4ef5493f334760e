"""The exceptions that Offpath raises.

All derive from :class:`Error`, which has a `code`; each also derives from the builtin that says the
same, so that `except FileNotFoundError` or `except TimeoutError` work as they do elsewhere.
"""

from __future__ import annotations

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
    "error_for",
]

_builtin_timeout = TimeoutError


class Error(RuntimeError):
    """Base of all. `code` is one of the names in ERROR_CODES; str() names the file, field or peer."""

    code = "internal"


class InvalidArgumentError(Error, ValueError):
    """The call asks for something that can never work: fix the call."""

    code = "invalid argument"


class CorruptDataError(Error, ValueError):
    """A file or a frame contradicts itself, its manifest or its checksum."""

    code = "corrupt data"


class NotFoundError(Error, FileNotFoundError, LookupError):
    """The named file, field, node type or plan does not exist."""

    code = "not found"


class UnavailableError(Error, ConnectionError):
    """A peer or a device is gone; trying again later may work."""

    code = "unavailable"


class TimeoutError(Error, _builtin_timeout):
    """A deadline passed; the message names what was waited for."""

    code = "timeout"


class ResourceExhaustedError(Error, OSError):
    """Memory, disk space, descriptors or a stated cap."""

    code = "resource exhausted"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not in this version or not in this build."""

    code = "unsupported"


class InternalError(Error):
    """A promise of this library is broken: a bug."""

    code = "internal"


ERROR_CODES = {
    kind.code: kind
    for kind in (
        InvalidArgumentError,
        CorruptDataError,
        NotFoundError,
        UnavailableError,
        TimeoutError,
        ResourceExhaustedError,
        UnsupportedError,
        InternalError,
    )
}


def error_for(code: str, message: str) -> Error:
    """The exception of a code's name, as the C++ side spells it."""
    return ERROR_CODES.get(code, InternalError)(message)
