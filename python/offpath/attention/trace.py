"""Recorded queries and keys of a model's decode steps."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

import numpy as np

from ..errors import CorruptDataError, InvalidArgumentError, NotFoundError

__all__ = ["Trace", "TraceSelection"]

FORMAT = "offpath-attention-trace"
VERSION = 1
MAX_MANIFEST_BYTES = 65536
SELECTION_KEYS = {"selector": str, "budget_tokens": int, "block_tokens": int}
FLOATS = (np.float16, np.float32)
NO_BLOCK = 2**32 - 1


@dataclass(frozen=True)
class TraceSelection:
    """The scores and selections of a selector, recorded at each step of a trace.

    `scores` f32 [steps, layers, kv_heads, blocks], NaN for blocks that were not whole yet;
    `selected` u32 [steps, layers, kv_heads, budget blocks], ascending, NO_BLOCK behind the last.
    """

    selector: str
    budget_tokens: int
    block_tokens: int
    scores: np.ndarray
    selected: np.ndarray

    def chosen(self, step: int, layer: int, kv_head: int) -> np.ndarray:
        """The blocks of one selection, ascending. Raises CorruptDataError where they are not."""
        row = np.asarray(self.selected[step, layer, kv_head])
        blocks = row[row != NO_BLOCK].astype(np.int64)
        if (np.diff(blocks) <= 0).any() or (blocks >= self.scores.shape[-1]).any():
            raise CorruptDataError(
                f"selection of step {step}, layer {layer}, KV head {kv_head}: {blocks.tolist()}, not ascending "
                f"blocks below {self.scores.shape[-1]}"
            )
        return blocks


@dataclass(frozen=True)
class Trace:
    """What attention was given, token by token.

    `keys` and `values` [tokens, layers, kv_heads, head_dim] are of the whole context, `queries`
    [steps, layers, query_heads, head_dim] of its last `steps` tokens; keys and queries after the
    rotary embedding. `values` may be None. f32 or f16. `scale` is of the dot products. `selection`
    is what a selector made of them, where that was recorded.
    """

    keys: np.ndarray
    queries: np.ndarray
    values: Optional[np.ndarray]
    scale: float
    selection: Optional[TraceSelection] = None

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
        if self.selection is not None:
            recorded = self.selection
            blocks = -(-tokens // recorded.block_tokens)
            budget = recorded.budget_tokens // recorded.block_tokens
            for name, array, width in [("scores", recorded.scores, blocks), ("selected", recorded.selected, budget)]:
                if array.shape != (steps, layers, kv_heads, width):
                    raise InvalidArgumentError(
                        f"{name} of shape {array.shape}, not {(steps, layers, kv_heads, width)}: they do not fit"
                    )

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
        manifest: dict[str, object] = {"format": FORMAT, "version": VERSION, "scale": self.scale}
        if self.selection is not None:
            np.save(folder / "scores.npy", self.selection.scores)
            np.save(folder / "selected.npy", self.selection.selected)
            manifest["selection"] = {name: getattr(self.selection, name) for name in SELECTION_KEYS}
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
                selection=_selection(folder, manifest),
            )
        except InvalidArgumentError as error:
            raise CorruptDataError(f"{folder}: {error}") from error


def _manifest(path: Path) -> dict:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_MANIFEST_BYTES + 1)
        if len(text) > MAX_MANIFEST_BYTES:
            raise ValueError(f"more than {MAX_MANIFEST_BYTES} bytes")
        manifest = json.loads(text)
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no trace there; `offpath attention trace` records one") from None
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{path}: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CorruptDataError(f"{path}: not the manifest of a trace")
    if manifest.get("version") != VERSION:
        raise CorruptDataError(f"{path}: version {manifest.get('version')!r}; this Offpath reads {VERSION}")
    scale = manifest.get("scale")
    # A whole number of JSON may be beyond every float.
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not abs(scale) <= sys.float_info.max:
        raise CorruptDataError(f"{path}: scale is {str(scale)[:40]}, not a finite number")
    return manifest


def _selection(folder: Path, manifest: dict) -> Optional[TraceSelection]:
    named = manifest.get("selection")
    if named is None:
        return None
    if not isinstance(named, dict) or any(type(named.get(key)) is not kind for key, kind in SELECTION_KEYS.items()):
        raise CorruptDataError(f"{folder / 'trace.json'}: selection is {named!r}, not with {', '.join(SELECTION_KEYS)}")
    if not 0 < named["block_tokens"] <= named["budget_tokens"]:
        raise CorruptDataError(
            f"{folder / 'trace.json'}: a selection of {named['budget_tokens']} tokens "
            f"in blocks of {named['block_tokens']}"
        )
    return TraceSelection(
        **{key: named[key] for key in SELECTION_KEYS},
        scores=_array(folder / "scores.npy", (np.float32,)),
        selected=_array(folder / "selected.npy", (np.uint32,)),
    )


def _array(path: Path, dtypes: tuple = FLOATS) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise NotFoundError(f"{path}: missing from the trace") from None
    except Exception as error:  # of a damaged header numpy raises anything, its tokenizer's errors included
        raise CorruptDataError(f"{path}: {error}") from None
    if array.dtype not in dtypes:
        raise CorruptDataError(f"{path}: {array.dtype}, not {' or '.join(t.__name__ for t in dtypes)}")
    return array
