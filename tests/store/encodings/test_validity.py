"""Bitmaps against lists of bools."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import FAST
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.flat import Flat
from tessel.store.encodings.values import (
    bits_at,
    bits_of,
    count_ones,
)
from tests.store.encodings.helpers import fixed, open_page, refused, store, with_validity

BITS = st.lists(st.booleans(), max_size=70).map(lambda held: np.array(held, np.bool_))


def two_places(draw, length: int) -> tuple[int, int]:
    start = draw(st.integers(0, length))
    return start, draw(st.integers(start, length))


@given(BITS, st.data())
def test_bits_come_back(present, data) -> None:
    bitmap = np.packbits(present, bitorder="little")
    start, stop = two_places(data.draw, len(present))
    assert bits_of(bitmap, start, stop).tolist() == present[start:stop].tolist()
    assert count_ones(bitmap, stop) == int(present[:stop].sum())


@given(BITS.filter(len), st.lists(st.integers(0, 69), max_size=9))
def test_single_bits(present, rows) -> None:
    wanted = np.array([row % len(present) for row in rows], np.int64)
    bitmap = np.packbits(present, bitorder="little")
    assert bits_at(bitmap, wanted).tolist() == present[wanted].tolist()


def _page(present):
    values = fixed(ValueKind.SIGNED, 8, np.arange(len(present)))
    encoded = Flat().encode(values, FAST)
    assert encoded is not None
    return with_validity(store(values, encoded), present)


@pytest.mark.parametrize("rows", [2, 8, 9, 63, 64, 65, 65_537])
def test_a_page_with_nulls(rows: int) -> None:
    present = np.random.default_rng(rows).random(rows) < 0.5
    present[:2] = True, False
    page = open_page(_page(present))
    bitmap = page.validity()
    assert bitmap is not None
    assert (bits_of(bitmap, 0, rows) == present).all()
    assert Flat().decode(page, 0, rows).data.tolist() == list(range(rows))


def test_another_number_of_nulls_is_refused() -> None:
    stored = _page(np.array([True, False, True, False, True]))
    refused(stored.with_field("null_count", 1), "2 rows are null, where the record says 1")
    payload = stored.payload.copy()
    payload[0] ^= 4
    refused(replace(stored, payload=payload), "3 rows are null")


def test_a_bitmap_that_is_cut_or_absent_is_refused() -> None:
    stored = _page(np.array([True, False, True, False, True]))
    refused(stored.with_field("starts", 0, 0), "too few bytes")
    refused(stored.with_field("flags", 0), "not said which")
