"""Values as Arrow lays them out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import FAST
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.flat import Flat
from tests.store.encodings.helpers import (
    FIXED_KINDS,
    FLOAT_KINDS,
    PAGE_SIZES,
    SPECIAL_FLOATS,
    fixed,
    fixed_values,
    forged,
    from_bits,
    refused,
    round_trip,
    store,
    survives,
    text,
)

flat = Flat()


@given(fixed_values())
def test_round_trip(values) -> None:
    encoded = round_trip(flat, values, FAST)
    assert encoded is not None
    assert encoded.nbytes == (
        (values.length + 7) // 8 if values.kind == ValueKind.BOOLEAN else values.data.nbytes
    )


@pytest.mark.parametrize("rows", PAGE_SIZES)
@pytest.mark.parametrize(("kind", "width"), FIXED_KINDS)
def test_whole_pages(kind: ValueKind, width: int, rows: int) -> None:
    raw = np.random.default_rng(rows).integers(0, 1 << 63, rows, dtype=np.uint64)
    assert round_trip(flat, from_bits(kind, width, raw), FAST) is not None


@pytest.mark.parametrize(("kind", "width"), FLOAT_KINDS)
def test_special_floats_keep_their_bits(kind: ValueKind, width: int) -> None:
    assert round_trip(flat, fixed(kind, width, SPECIAL_FLOATS[width]), FAST) is not None


def test_values_without_bytes() -> None:
    encoded = flat.encode(fixed(ValueKind.FIXED, 0, np.empty((9, 0), np.uint8)), FAST)
    assert encoded is not None
    page = store(fixed(ValueKind.FIXED, 0, np.empty((9, 0), np.uint8)), encoded).page()
    assert flat.decode(page, 2, 8).data.shape == (6, 0)


@pytest.mark.parametrize(("kind", "width"), [k for k in FIXED_KINDS if k[0] != ValueKind.BOOLEAN])
def test_it_is_read_in_place(kind: ValueKind, width: int) -> None:
    values = from_bits(kind, width, np.arange(100, dtype=np.uint64))
    encoded = flat.encode(values, FAST)
    assert encoded is not None
    page = store(values, encoded).page()
    assert np.shares_memory(flat.decode(page, 10, 60).data, page.payload)


def test_low_words_of_decimals_can_be_filled_in() -> None:
    values = fixed(ValueKind.SIGNED, 8, np.arange(-3, 6))
    encoded = flat.encode(values, FAST)
    assert encoded is not None
    wide = np.zeros((9, 2), np.int64)
    flat.decode_into(store(values, encoded).page(), 0, 9, wide[:, 0])
    assert wide[:, 0].tolist() == list(range(-3, 6))


def test_text_and_mere_codes_are_not_flat() -> None:
    assert ValueKind.TEXT not in flat.kinds
    assert flat.encode(text([b"ab"]), FAST) is None


def test_cut_buffers_are_refused() -> None:
    values = from_bits(ValueKind.SIGNED, 8, np.arange(9, dtype=np.uint64))
    encoded = flat.encode(values, FAST)
    assert encoded is not None
    stored = store(values, encoded)
    refused(stored.with_field("row_count", 17), "too short")
    refused(stored.with_field("starts", 192, 0), "out of order")


@given(fixed_values(), st.data())
def test_hostile_pages(values, data) -> None:
    encoded = flat.encode(values, FAST)
    assert encoded is not None
    survives(forged(store(values, encoded), data.draw))
