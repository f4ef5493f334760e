"""Reads result files: one JSON object a line."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Iterable, Union

from ..errors import CorruptDataError, NotFoundError

__all__ = ["group_results", "read_results"]

Result = dict[str, Any]


def read_results(paths: Iterable[Union[str, pathlib.Path]]) -> list[Result]:
    """The objects of all files in order. Raises naming the file and line that is not one."""
    results: list[Result] = []
    for path in map(pathlib.Path, paths):
        try:
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, IsADirectoryError):
            raise NotFoundError(f"{path} is not a file of results") from None
        except UnicodeDecodeError as error:
            raise CorruptDataError(f"{path} is not text: {error}") from None
        # Not splitlines(), which also splits at characters that JSON strings may hold.
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                result = json.loads(line)
            except ValueError as error:
                raise CorruptDataError(f"{path}, line {number}: {error}") from None
            if not isinstance(result, dict):
                raise CorruptDataError(f"{path}, line {number} is not an object")
            results.append(result)
    return results


def group_results(results: list[Result]) -> dict[str, list[Result]]:
    """By kind; benchmark lines, which name their bench instead, are the kind "bench"."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        kind = result.get("kind", "bench" if "bench" in result else "other")
        groups.setdefault(str(kind), []).append(result)
    return groups
