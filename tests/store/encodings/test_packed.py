"""Packed integers against a reader of single bits, and the arithmetic around them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.arithmetic import (
    fill_linear,
    fit_linear,
    linear_at,
    proven_bounds,
    stored_width,
)
from tessel.store.encodings.base import COMPACT, FAST, Packing
from tessel.store.encodings.codes import PACKED_WIDTHS
from tessel.store.encodings.packed import (
    narrowest_width,
    pack,
    packed_size,
    packed_sizes,
)
from tests.store.encodings.helpers import PAGE_SIZES, SIZES, any_bits

WORD = 1 << 64


def read_bits(stream: bytes, width: int, count: int) -> list[int]:
    """One integer after the other, as the format page says."""
    held = int.from_bytes(stream, "little")
    return [held >> at * width & (1 << width) - 1 for at in range(count)]


def unpack(stream: np.ndarray, width: int, start: int, stop: int) -> np.ndarray:
    """The integers of a stream: a linear form without base and step."""
    out = np.empty(stop - start, np.uint64)
    fill_linear(stream, width, 0, 0, start, stop, out)
    return out


@pytest.mark.parametrize("width", sorted(PACKED_WIDTHS - {0}))
@pytest.mark.parametrize("count", [*SIZES, 130])
def test_any_width_is_the_stream_of_bits_of_the_format(width: int, count: int) -> None:
    random = np.random.default_rng(width * 1000 + count)
    integers = random.integers(0, WORD - 1, count, dtype=np.uint64, endpoint=True)
    integers >>= np.uint64(64 - width)
    stream = pack(integers, width).view(np.uint8)
    assert len(stream) == packed_size(count, width)
    assert read_bits(stream.tobytes(), width, count) == integers.tolist()
    assert unpack(stream, width, 0, count).tolist() == integers.tolist()
    rows = random.integers(0, count, 40)
    assert linear_at(stream, width, 0, 0, rows).tolist() == integers[rows].tolist()
    for start in {0, 1, 7, 8, count // 2, count - 1}:
        for stop in {start, start + 1, count}:
            if start <= stop <= count:
                expected = integers[start:stop].tolist()
                assert unpack(stream, width, start, stop).tolist() == expected


@pytest.mark.parametrize("width", [1, 8, 13, 16, 24, 31, 32, 40, 48, 56, 57, 64])
@pytest.mark.parametrize("dtype", ["<u1", "<u2", "<u4", "<u8"])
def test_unpacking_in_place_keeps_the_lowest_bytes(width: int, dtype: str) -> None:
    integers = np.random.default_rng(width).integers(0, (1 << width) - 1, 99, np.uint64, True)
    stream = pack(integers, width).view(np.uint8)
    for start, stop in [(0, 99), (3, 98), (5, 5), (98, 99), (0, 0)]:
        out = np.full((99, 2), 7, dtype)
        fill_linear(stream, width, 0, 0, start, stop, out[start:stop, 1])
        expected = np.full((99, 2), 7, dtype)
        expected[start:stop, 1] = integers[start:stop].astype(dtype)
        assert (out == expected).all()


def test_how_wide_integers_are_written() -> None:
    words = replace(FAST, packing=Packing.WORDS)
    for bits in range(65):
        widths = [profile.width(bits) for profile in (COMPACT, FAST, words)]
        assert set(widths) <= PACKED_WIDTHS
        least, whole, word = widths
        assert least == (bits if bits <= 57 else 64)
        assert whole == -(-bits // 8) * 8
        assert word == min(width for width in (0, 8, 16, 32, 64) if width >= bits)


@pytest.mark.parametrize("count", PAGE_SIZES)
@pytest.mark.parametrize("width", [1, 13, 24, 25, 26, 40, 48, 56, 57, 64])
def test_whole_pages(width: int, count: int) -> None:
    integers = np.random.default_rng(7).integers(0, 1 << min(width, 63), count, dtype=np.uint64)
    stream = pack(integers, width).view(np.uint8)
    assert (unpack(stream, width, 0, count) == integers).all()


def test_zero_bits_are_no_bytes() -> None:
    assert packed_size(1000, 0) == 0
    assert len(pack(np.zeros(1000, np.uint64), 0)) == 0


def test_sizes_of_many_pages_are_those_of_each() -> None:
    counts = np.array([0, 1, 8, 9, 65_536])
    for width in range(256):
        found = packed_sizes(counts, np.full(5, width, np.uint8)).tolist()
        legal = width in PACKED_WIDTHS
        assert found == [packed_size(count, width) if legal else -1 for count in counts.tolist()]


def test_places_need_no_more_bits_than_their_page() -> None:
    assert [narrowest_width(last) for last in (0, 255, 256, 65_535, 65_536)] == [8, 8, 16, 16, 32]


@given(any_bits(), st.sampled_from([FAST, COMPACT]), st.sampled_from(["<i8", "<u8"]))
def test_a_fit_gives_the_integers_back(raw, profile, dtype) -> None:
    integers = raw.view(dtype)
    fit = fit_linear(integers, profile)
    width = stored_width(len(raw), fit.bits, profile)
    packed = fit.packed(width)
    stream = packed[0].view(np.uint8) if packed else np.empty(0, np.uint8)
    base, step = fit.base % WORD, fit.step % WORD
    out = np.empty(len(raw), np.uint64)
    fill_linear(stream, width, base, step, 0, len(raw), out)
    assert (out == raw).all()
    rows = np.arange(len(raw))[::-1].copy()
    assert (linear_at(stream, width, base, step, rows) == raw[::-1]).all()
    narrow = np.empty(len(raw), "<i2")
    fill_linear(stream, width, base, step, 0, len(raw), narrow)
    assert (narrow == raw.astype("<i2")).all()
    strided = np.zeros((len(raw), 2), np.int64)
    fill_linear(stream, width, base, step, 0, len(raw), strided[:, 0])
    assert (strided[:, 0].view(np.uint64) == raw).all()
    assert not strided[:, 1].any()


@pytest.mark.parametrize("step", [1, -1, 60_000_000_000, -(10**15), (1 << 62) // 1000])
@pytest.mark.parametrize("start", [0, -5, 1 << 61, -(1 << 62)])
def test_a_sequence_has_no_residuals(start: int, step: int) -> None:
    fit = fit_linear(start + np.arange(1000) * step, FAST)
    assert (fit.base % WORD, fit.step, fit.bits) == (start % WORD, step, 0)
    assert fit.residuals is None


def test_near_regular_times_take_the_bits_of_their_jitter() -> None:
    jitter = np.random.default_rng(3).integers(0, 200, 10_000)
    times = 1_700_000_000_000_000_000 + np.arange(10_000) * 1_000_000_000 + jitter
    assert fit_linear(times, COMPACT).bits <= 9


def test_values_that_fit_as_they_are_keep_a_base_of_zero() -> None:
    values = np.random.default_rng(3).integers(1, 200, 1000)
    assert fit_linear(values, FAST).base == 0


@given(any_bits(), st.sampled_from([FAST, COMPACT]))
def test_proven_bounds_hold(raw, profile) -> None:
    integers = raw.view(np.int64)
    fit = fit_linear(integers, profile)
    width = stored_width(len(raw), fit.bits, profile)
    least, most = proven_bounds(fit.base % WORD, fit.step % WORD, width, len(raw))
    if least >= -(1 << 63) and most < 1 << 63:
        assert least <= int(integers.min())
        assert int(integers.max()) <= most


def test_a_few_integers_are_not_packed_to_the_bit() -> None:
    assert stored_width(3, 6, COMPACT) == 8
    assert stored_width(1000, 6, COMPACT) == 6
    assert stored_width(1000, 60, COMPACT) == 64
    assert stored_width(1000, 0, COMPACT) == 0
