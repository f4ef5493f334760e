"""Row codecs from Python: sizes, error bounds, special values."""

import numpy as np
import pytest

import offpath
from offpath import codec

ROWS = np.random.default_rng(0).standard_normal((50, 37)).astype(np.float32)


@pytest.mark.parametrize("type, row_bytes", [("f32", 148), ("f16", 74), ("bf16", 74), ("i8", 41), ("i4", 23), ("i2", 14)])
def test_sizes_and_round_trips(type, row_bytes):
    encoded = codec.encode(ROWS, type)
    assert encoded.dtype == np.uint8 and encoded.shape == (50, row_bytes)
    assert codec.encoded_row_bytes(type, 37) == row_bytes
    restored = codec.decode(encoded, 37, type)
    steps = {"f32": 0, "f16": 2e-3, "bf16": 2e-2, "i8": 0.5 / 127, "i4": 0.5 / 7, "i2": 0.5}[type]
    bound = steps * np.abs(ROWS).max(axis=1, keepdims=True) * 1.0001
    assert (np.abs(restored - ROWS) <= bound).all()


def test_blocks_have_scales_of_their_own():
    rows = np.concatenate([ROWS[:, :16] * 1000, ROWS[:, :16]], axis=1)
    whole, blocks = (
        codec.decode(codec.encode(rows, "i8", block=b), 32, "i8", block=b)[:, 16:] for b in (0, 16)
    )
    assert np.abs(blocks - rows[:, 16:]).max() < np.abs(whole - rows[:, 16:]).max() / 100


def test_stochastic_rounding_is_seeded_and_keyed_by_the_row():
    once, again, other = (codec.encode(ROWS, "i4", stochastic=True, seed=s) for s in (1, 1, 2))
    assert np.array_equal(once, again) and not np.array_equal(once, other)
    order = np.random.default_rng(1).permutation(50)
    assert np.array_equal(codec.encode(ROWS[order], "i4", stochastic=True, seed=1, row_keys=order), once[order])


def test_other_layouts_and_types_are_converted():
    assert np.array_equal(codec.encode(np.asfortranarray(ROWS), "i8"), codec.encode(ROWS, "i8"))
    assert np.array_equal(codec.encode(ROWS.astype(np.float64), "i8"), codec.encode(ROWS, "i8"))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_named_by_the_integer_types(bad):
    rows = ROWS.copy()
    rows[31, 5] = bad
    with pytest.raises(offpath.InvalidArgumentError, match="row 31"):
        codec.encode(rows, "i8")
    assert codec.encode(rows, "f16").shape == (50, 74)


def test_wrong_arguments_are_named():
    with pytest.raises(offpath.InvalidArgumentError, match="i3"):
        codec.encode(ROWS, "i3")
    with pytest.raises(offpath.InvalidArgumentError, match="41"):
        codec.decode(codec.encode(ROWS, "i8"), 36, "i8")
    with pytest.raises(offpath.InvalidArgumentError, match="7"):
        codec.encode(ROWS, "i8", block=7)
    with pytest.raises(offpath.InvalidArgumentError, match="row keys"):
        codec.encode(ROWS, "i8", stochastic=True, row_keys=np.arange(3))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty_tables(shape):
    encoded = codec.encode(np.zeros(shape, np.float32), "i8")
    assert codec.decode(encoded, shape[1], "i8").shape == shape
