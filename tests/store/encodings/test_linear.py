"""Linear integers: sequences, frames of reference, near-regular times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import COMPACT, FAST
from tessel.store.encodings.chooser import summarise_values
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.linear import Linear
from tests.store.encodings.helpers import (
    INTEGER_KINDS,
    PAGE_SIZES,
    PROFILES,
    fixed,
    fixed_values,
    forged,
    from_bits,
    refused,
    round_trip,
    shapes,
    store,
    survives,
)

KINDS = (*INTEGER_KINDS, (ValueKind.BOOLEAN, 1))
linear = Linear()


@given(fixed_values(KINDS), st.sampled_from(PROFILES))
def test_round_trip(values, profile) -> None:
    encoded = round_trip(linear, values, profile)
    assert encoded is not None
    assert linear.estimate(values, summarise_values(values), profile) == encoded.nbytes


@pytest.mark.parametrize("size", PAGE_SIZES)
@pytest.mark.parametrize("shape", ["sequence", "near", "level"])
def test_whole_pages(size: int, shape: str) -> None:
    raw = shapes(np.random.default_rng(size), size, 19)[shape]
    assert round_trip(linear, from_bits(ValueKind.SIGNED, 8, raw), COMPACT) is not None


def test_regular_timestamps_cost_no_bytes() -> None:
    times = 1_600_000_000_000_000_000 + np.arange(65_536) * 60_000_000_000
    encoded = linear.encode(fixed(ValueKind.SIGNED, 8, times), FAST)
    assert encoded is not None
    assert encoded.nbytes == 0


@pytest.mark.parametrize("bits", range(65))
def test_every_residual_width(bits: int) -> None:
    random = np.random.default_rng(bits)
    raw = random.integers(0, (1 << bits) - 1, 200, dtype=np.uint64, endpoint=True)
    if bits:
        raw[:2] = 0, (1 << bits) - 1
    values = from_bits(ValueKind.UNSIGNED, 8, raw[random.permutation(200)])
    encoded = round_trip(linear, values, COMPACT)
    assert encoded is not None
    assert encoded.bit_width == (bits if bits <= 57 else 64)


def test_whole_residuals_from_zero_are_read_in_place() -> None:
    data = np.random.default_rng(0).integers(0, 1 << 32, 1000, dtype=np.uint64).astype("<u4")
    values = fixed(ValueKind.UNSIGNED, 4, data)
    encoded = linear.encode(values, FAST)
    assert encoded is not None
    page = store(values, encoded).page()
    assert np.shares_memory(linear.decode(page, 10, 500).data, page.payload)


@given(fixed_values(KINDS), st.sampled_from(PROFILES), st.data())
def test_hostile_pages(values, profile, data) -> None:
    encoded = linear.encode(values, profile)
    assert encoded is not None
    survives(forged(store(values, encoded), data.draw))


def test_what_a_type_does_not_hold_is_refused() -> None:
    stored = store(*_encoded(ValueKind.SIGNED, 1, np.array([1, 2, 100, 4, -4], np.int8)))
    refused(stored.with_field("base", 100), r"not in \[-128, 127\]")
    stored = store(*_encoded(ValueKind.BOOLEAN, 1, np.array([True, False, False])))
    refused(stored.with_field("base", 1), r"holds 2, which is not in \[0, 1\]")
    stored = store(*_encoded(ValueKind.UNSIGNED, 4, np.arange(10, dtype="<u4") * 1000))
    refused(stored.with_field("step", 1 << 31), "not in")


@pytest.mark.parametrize("width", [58, 63, 65, 255])
def test_illegal_widths_are_refused(width: int) -> None:
    stored = store(*_encoded(ValueKind.SIGNED, 8, np.array([5, 1, 9])))
    refused(stored.with_field("bit_width", width), "too short")


def _encoded(kind, width, data):
    values = fixed(kind, width, data)
    encoded = linear.encode(values, COMPACT)
    assert encoded is not None
    return values, encoded
