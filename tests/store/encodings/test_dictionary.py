"""Places in the dictionary of a column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import COMPACT, FAST
from tessel.store.encodings.chooser import summarise_values
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.dictionary import Dictionary
from tessel.store.encodings.values import PhysicalValues
from tests.store.encodings.helpers import (
    FIXED_KINDS,
    PAGE_SIZES,
    PROFILES,
    SPECIAL_FLOATS,
    Stored,
    check_all_ways,
    fixed,
    fixed_values,
    forged,
    picked,
    refused,
    row_ranges,
    store,
    survives,
    text,
    text_values,
)

dictionary = Dictionary()
NO_DATA = np.empty(0, np.uint8)


def dtype_for(length: int):
    return np.uint8 if length <= 256 else np.uint16 if length <= 65_536 else np.uint32


def coded(held: PhysicalValues, codes) -> PhysicalValues:
    narrow = np.asarray(codes).astype(dtype_for(held.length))
    return PhysicalValues(held.kind, held.width, len(narrow), NO_DATA, codes=narrow)


def stored_codes(held: PhysicalValues, codes, profile) -> Stored:
    values = coded(held, codes)
    encoded = dictionary.encode(values, profile)
    assert encoded is not None
    estimate = dictionary.estimate(values, summarise_values(values), profile)
    assert estimate is not None
    assert encoded.nbytes <= max(estimate, 1)
    return store(values, encoded, held)


def some_codes(held: PhysicalValues, shape: str, rows: int, seed: int):
    random = np.random.default_rng(seed)
    made = {
        "any": random.integers(0, held.length, rows),
        "runs": np.sort(random.integers(0, held.length, rows)),
        "one": np.full(rows, random.integers(0, held.length)),
        "cycle": np.arange(rows) % held.length,
    }
    return made[shape]


SHAPES = st.sampled_from(["any", "runs", "one", "cycle"])
HELD = st.one_of(fixed_values(FIXED_KINDS), text_values())


@given(HELD, SHAPES, st.integers(1, 200), st.integers(0, 99), st.sampled_from(PROFILES))
def test_round_trip(held, shape, rows, seed, profile) -> None:
    codes = some_codes(held, shape, rows, seed)
    check_all_ways(stored_codes(held, codes, profile), picked(held, codes))


@given(HELD, SHAPES, st.integers(1, 200), st.integers(0, 99), st.sampled_from(PROFILES))
def test_codes_are_the_codes(held, shape, rows, seed, profile) -> None:
    codes = some_codes(held, shape, rows, seed)
    page = stored_codes(held, codes, profile).page()
    for start, stop in row_ranges(rows):
        found = dictionary.codes(page, start, stop)
        assert found.dtype.kind == "u"
        assert found.dtype.itemsize <= 4
        assert found.tolist() == codes[start:stop].tolist()
        decoded = dictionary.decode(page, start, stop)
        assert decoded.codes is not None
        assert decoded.codes.tolist() == codes[start:stop].tolist()
    wanted = np.array([rows - 1, 0, 0, rows // 2])
    assert dictionary.take_codes(page, wanted).tolist() == codes[wanted].tolist()


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("rows", PAGE_SIZES)
@pytest.mark.parametrize("distinct", [1, 256, 257, 65_536, 65_537])
def test_whole_pages_and_sizes_of_codes(distinct: int, rows: int, profile) -> None:
    held = fixed(ValueKind.SIGNED, 8, np.arange(distinct) * 7 - 3)
    codes = np.random.default_rng(distinct).integers(0, distinct, rows)
    codes[:2] = distinct - 1, 0
    check_all_ways(stored_codes(held, codes, profile), picked(held, codes))


def test_text_in_whole_pages() -> None:
    held = text([b"", b"EWR", b"LaGuardia", "JFK ñ".encode()] * 9, ValueKind.TEXT)
    codes = np.random.default_rng(0).integers(0, 36, 65_537)
    check_all_ways(stored_codes(held, codes, FAST), picked(held, codes))


def test_special_floats_keep_their_bits() -> None:
    held = fixed(ValueKind.FLOAT, 8, SPECIAL_FLOATS[8])
    codes = np.arange(100) % 11
    check_all_ways(stored_codes(held, codes, FAST), picked(held, codes))


def test_codes_are_read_in_place() -> None:
    held = text([b"abc", b"d"] * 100)
    page = stored_codes(held, np.random.default_rng(0).integers(0, 200, 999), FAST).page()
    assert np.shares_memory(dictionary.codes(page, 10, 900), page.payload)


def test_sorted_codes_take_a_run_each() -> None:
    held = text([b"a", b"b", b"c"])
    stored = stored_codes(held, np.repeat([0, 1, 2], [4000, 3000, 5000]), COMPACT)
    assert stored.record["inner"][0] == EncodingCode.RUN_END
    assert len(stored.payload) <= 128


def test_values_without_codes_do_not_apply() -> None:
    values = text([b"a", b"b"])
    assert dictionary.encode(values, FAST) is None
    assert dictionary.estimate(values, summarise_values(values), FAST) is None


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("shape", ["any", "runs", "one", "cycle"])
def test_codes_past_the_dictionary_are_refused(shape: str, profile) -> None:
    held = fixed(ValueKind.SIGNED, 4, np.arange(50, dtype="<i4"))
    codes = some_codes(held, shape, 300, 1)
    codes[7:9] = 49
    stored = stored_codes(held, codes, profile)
    smaller = fixed(ValueKind.SIGNED, 4, np.arange(49, dtype="<i4"))
    refused(Stored(stored.record, stored.payload, held.kind, held.width, smaller), "not in")
    refused(Stored(stored.record, stored.payload, held.kind, held.width, None), "not in")


@pytest.mark.parametrize("inner", [0, EncodingCode.FLAT, EncodingCode.DICTIONARY, 77])
def test_illegal_inner_encodings_are_refused(inner: int) -> None:
    stored = stored_codes(text([b"a", b"b"]), np.arange(60) % 2, FAST)
    refused(stored.with_field("inner", inner), "too short")


@given(HELD, SHAPES, st.integers(1, 200), st.sampled_from(PROFILES), st.data())
def test_hostile_pages(held, shape, rows, profile, data) -> None:
    stored = stored_codes(held, some_codes(held, shape, rows, rows), profile)
    survives(forged(stored, data.draw))
