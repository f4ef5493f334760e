"""Row quantization of numpy arrays: f32 rows to f16, bf16, i8, i4 or i2 and back.

    encoded = offpath.codec.encode(rows, "i8")
    restored = offpath.codec.decode(encoded, rows.shape[1], "i8")

The integer types keep one f32 scale a row, or one for each `block` columns (a multiple of 16); the
error of an element is at most half a step, scale / 2, with nearest rounding, and below a step with
stochastic rounding. Bytes are those that a memory node sends, on every machine.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from . import _core

__all__ = ["TYPES", "decode", "encode", "encoded_row_bytes"]

TYPES = ("f32", "f16", "bf16", "i8", "i4", "i2")


def encoded_row_bytes(type: str, dim: int, *, block: int = 0) -> int:
    """Bytes of one encoded row of `dim` columns."""
    return _core.encoded_row_bytes(type, dim, block)


def encode(
    rows: np.ndarray,
    type: str,
    *,
    block: int = 0,
    stochastic: bool = False,
    seed: int = 0,
    row_keys: Optional[np.ndarray] = None,
) -> np.ndarray:
    """uint8 [rows, encoded_row_bytes]. Raises InvalidArgumentError naming a row that is not finite.

    `row_keys` (one a row, by default its number) key stochastic rounding, so that a row's bytes do
    not depend on its place.
    """
    keys = None if row_keys is None else np.ascontiguousarray(row_keys, dtype=np.uint64)
    table = np.ascontiguousarray(rows, dtype=np.float32)
    return np.asarray(_core.encode_rows(table, type, stochastic, block, seed, keys))


def decode(encoded: np.ndarray, dim: int, type: str, *, block: int = 0) -> np.ndarray:
    """f32 [rows, dim]."""
    return np.asarray(_core.decode_rows(np.ascontiguousarray(encoded, dtype=np.uint8), dim, type, block))
