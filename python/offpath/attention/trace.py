"""Recorded queries and keys of a model's decode steps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

import numpy as np

from ..errors import CorruptDataError, InvalidArgumentError, NotFoundError

__all__ = ["Trace"]

FORMAT = "offpath-attention-trace"
VERSION = 1


@dataclass(frozen=True)
class Trace:
    """What attention was given, token by token.

    `keys` and `values` [tokens, layers, kv_heads, head_dim] are of the whole context, `queries`
    [steps, layers, query_heads, head_dim] of its last `steps` tokens; keys and queries after the
    rotary embedding. `values` may be None. f32 or f16. `scale` is of the dot products.
    """

    keys: np.ndarray
    queries: np.ndarray
    values: Optional[np.ndarray]
    scale: float

    def __post_init__(self):
        if self.keys.ndim != 4 or self.queries.ndim != 4:
            raise InvalidArgumentError("a trace's keys and queries are [tokens, layers, heads, head_dim]")
        tokens, layers, kv_heads, head_dim = self.keys.shape
        if self.values is not None and self.values.shape != self.keys.shape:
            raise InvalidArgumentError(f"values of shape {self.values.shape}, keys of {self.keys.shape}")
        steps, query_layers, query_heads, query_dim = self.queries.shape
        if (query_layers, query_dim) != (layers, head_dim) or kv_heads == 0 or query_heads % kv_heads:
            raise InvalidArgumentError(f"queries of shape {self.queries.shape} do not fit keys of {self.keys.shape}")
        if steps > tokens:
            raise InvalidArgumentError(f"{steps} steps, of a context of {tokens} tokens")

    @property
    def tokens(self) -> int:
        return self.keys.shape[0]

    @property
    def layers(self) -> int:
        return self.keys.shape[1]

    @property
    def kv_heads(self) -> int:
        return self.keys.shape[2]

    @property
    def head_dim(self) -> int:
        return self.keys.shape[3]

    @property
    def steps(self) -> int:
        return self.queries.shape[0]

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.queries.shape[2] // self.kv_heads

    def save(self, folder: Union[str, Path]) -> None:
        """Writes a folder that `load` reads: trace.json and .npy files. It must not exist yet."""
        folder = Path(folder)
        folder.mkdir(parents=True)
        np.save(folder / "keys.npy", self.keys)
        np.save(folder / "queries.npy", self.queries)
        if self.values is not None:
            np.save(folder / "values.npy", self.values)
        manifest = {"format": FORMAT, "version": VERSION, "scale": self.scale}
        (folder / "trace.json").write_text(json.dumps(manifest) + "\n")

    @classmethod
    def load(cls, folder: Union[str, Path]) -> "Trace":
        """Maps a trace; raises NotFoundError or CorruptDataError naming the file."""
        folder = Path(folder)
        manifest = _manifest(folder / "trace.json")
        try:
            return cls(
                keys=_array(folder / "keys.npy"),
                queries=_array(folder / "queries.npy"),
                values=_array(folder / "values.npy") if (folder / "values.npy").exists() else None,
                scale=manifest["scale"],
            )
        except InvalidArgumentError as error:
            raise CorruptDataError(f"{folder}: {error}") from error


def _manifest(path: Path) -> dict:
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no trace there; `offpath attention trace` records one") from None
    except ValueError as error:
        raise CorruptDataError(f"{path}: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CorruptDataError(f"{path}: not the manifest of a trace")
    if manifest.get("version") != VERSION:
        raise CorruptDataError(f"{path}: version {manifest.get('version')!r}; this Offpath reads {VERSION}")
    scale = manifest.get("scale")
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not np.isfinite(scale):
        raise CorruptDataError(f"{path}: scale is {scale!r}, not a finite number")
    return manifest


def _array(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise NotFoundError(f"{path}: missing from the trace") from None
    except (ValueError, EOFError, OSError) as error:
        raise CorruptDataError(f"{path}: {error}") from None
    if array.dtype not in (np.float16, np.float32):
        raise CorruptDataError(f"{path}: {array.dtype}, not float16 or float32")
    return array
