"""One value for all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import FAST
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.constant import Constant
from tests.store.encodings.helpers import (
    FIXED_KINDS,
    FLOAT_KINDS,
    PAGE_SIZES,
    SPECIAL_FLOATS,
    fixed,
    forged,
    from_bits,
    refused,
    round_trip,
    store,
    survives,
    text,
)

constant = Constant()
WORDS = st.integers(0, (1 << 64) - 1)
ROWS = st.integers(1, 70)


@given(st.sampled_from(FIXED_KINDS), WORDS, ROWS)
def test_round_trip(kind, word, rows) -> None:
    encoded = round_trip(constant, from_bits(*kind, np.full(rows, word, np.uint64)), FAST)
    assert encoded is not None
    assert encoded.nbytes == (kind[1] if kind[0] == ValueKind.FIXED else 0)


@given(st.text(max_size=20), ROWS, st.integers(0, 3))
def test_text(value, rows, skip) -> None:
    held = value.encode()
    encoded = round_trip(constant, text([held] * rows, ValueKind.TEXT, skip), FAST)
    assert encoded is not None
    assert encoded.nbytes == len(held)


@pytest.mark.parametrize("rows", PAGE_SIZES)
def test_whole_pages(rows: int) -> None:
    assert round_trip(constant, text([b"EWR"] * rows), FAST) is not None
    values = from_bits(ValueKind.FLOAT, 8, np.full(rows, 0x7FF0_0000_0000_0001, np.uint64))
    assert round_trip(constant, values, FAST) is not None


@pytest.mark.parametrize(("kind", "width"), FLOAT_KINDS)
def test_special_floats_keep_their_bits(kind: ValueKind, width: int) -> None:
    for value in SPECIAL_FLOATS[width]:
        assert round_trip(constant, fixed(kind, width, np.repeat(value, 9)), FAST) is not None


@pytest.mark.parametrize(("kind", "width"), FIXED_KINDS)
def test_two_values_are_not_one(kind: ValueKind, width: int) -> None:
    raw = np.full(50, 2, np.uint64)
    raw[31] = 1
    assert constant.encode(from_bits(kind, width, raw), FAST) is None


def test_two_texts_are_not_one() -> None:
    assert constant.encode(text([b"ab", b"ac"]), FAST) is None
    assert constant.encode(text([b"ab", b"a", b"bab"]), FAST) is None


def test_zeros_of_two_signs_are_two_values() -> None:
    assert constant.encode(fixed(ValueKind.FLOAT, 8, np.array([0.0, -0.0])), FAST) is None


def test_texts_longer_than_offsets_reach_are_refused() -> None:
    values = text([b"abc"] * 9)
    encoded = constant.encode(values, FAST)
    assert encoded is not None
    refused(store(values, encoded).with_field("count", 1 << 30), "too short")
    refused(store(values, encoded).with_field("count", 65), "too short")
    many = store(values, encoded).with_field("row_count", 0).with_field("count", (1 << 32) - 1)
    sizes = constant.slot_bytes(many.record, ValueKind.TEXT, 0, np.array([0]))
    assert sizes[0, 0] == -1


def test_values_of_no_type_are_refused() -> None:
    broken = store(text([b"\xff\xfe"] * 9, ValueKind.TEXT), _encoded(text([b"\xff\xfe"] * 9)))
    refused(broken, "not UTF-8")
    values = fixed(ValueKind.BOOLEAN, 1, np.array([True, True]))
    refused(store(values, _encoded(values)).with_field("base", 2), "no boolean")


def _encoded(values):
    encoded = constant.encode(values, FAST)
    assert encoded is not None
    return encoded


@given(st.sampled_from(FIXED_KINDS), WORDS, ROWS, st.data())
def test_hostile_pages(kind, word, rows, data) -> None:
    values = from_bits(*kind, np.full(rows, word, np.uint64))
    survives(forged(store(values, _encoded(values)), data.draw))


@given(st.text(max_size=90), ROWS, st.data())
def test_hostile_texts(value, rows, data) -> None:
    values = text([value.encode()] * rows, ValueKind.TEXT)
    survives(forged(store(values, _encoded(values)), data.draw))
