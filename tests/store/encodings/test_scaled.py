"""Floats as integers divided by a power of ten."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import COMPACT, FAST
from tessel.store.encodings.chooser import summarise_values
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.scaled import Scaled
from tests.store.encodings.helpers import (
    FLOAT_KINDS,
    PAGE_SIZES,
    PROFILES,
    SPECIAL_FLOATS,
    fixed,
    forged,
    refused,
    round_trip,
    shapes,
    store,
    survives,
)

scaled = Scaled()


@st.composite
def decimals(draw):
    """Floats that were decimals, with some that were not."""
    kind, width = draw(st.sampled_from(FLOAT_KINDS))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    rows = draw(st.integers(1, 300))
    digits = draw(st.integers(0, 6 if width == 8 else 3))
    raw = shapes(random, rows, draw(st.integers(0, 20)))[
        draw(st.sampled_from(["sequence", "near", "small", "walk", "runs", "constant"]))
    ]
    integers = raw.view(np.int64) % (1 << 33 if width == 8 else 1 << 20) - 5000
    data = (integers / 10.0**digits).astype(f"<f{width}")
    exceptions = draw(st.sampled_from([0.0, 0.05, 0.4]))
    odd = random.random(rows) < exceptions
    data[odd] = random.choice(SPECIAL_FLOATS[width], int(odd.sum()))
    fractions = random.random(rows) < exceptions / 2
    data[fractions] = random.random(int(fractions.sum()))
    return fixed(kind, width, data)


@given(decimals(), st.sampled_from(PROFILES))
def test_round_trip(values, profile) -> None:
    round_trip(scaled, values, profile)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("digits", range(7))
@pytest.mark.parametrize("rows", PAGE_SIZES)
def test_decimals_are_exact(rows: int, digits: int, profile) -> None:
    integers = np.random.default_rng(rows).integers(-(10**7), 10**7, rows)
    values = fixed(ValueKind.FLOAT, 8, integers / 10.0**digits)
    encoded = scaled.encode(values, profile)
    assert encoded is not None
    assert (encoded.exceptions, encoded.exponent) == (0, digits)
    assert round_trip(scaled, values, profile) is not None


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("bits", [1, 7, 8, 15, 16, 17, 24, 25, 30, 31, 32, 33, 40, 41, 52])
@pytest.mark.parametrize("base", [0, -(1 << 20), 1 << 31, -(1 << 51)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_integers_of_any_width_are_divided_exactly(bits: int, base: int, dtype, profile) -> None:
    random = np.random.default_rng(bits)
    integers = base + random.integers(0, (1 << bits) - 1, 300, np.int64, True)
    integers[:2] = base, base + (1 << bits) - 1
    data = (integers / 100).astype(dtype)
    values = fixed(ValueKind.FLOAT, data.dtype.itemsize, data)
    encoded = round_trip(scaled, values, profile)
    if dtype == np.float64 and abs(base) + (1 << bits) < 1 << 52:
        assert encoded is not None
        assert encoded.exceptions == 0


def test_one_value_in_seven_would_be_wrong_if_multiplied() -> None:
    integers = np.arange(1, 100_001)
    data = integers / 100.0
    assert np.mean(integers * 0.01 != data) > 0.1
    encoded = scaled.encode(fixed(ValueKind.FLOAT, 8, data), FAST)
    assert encoded is not None
    assert encoded.exceptions == 0


def test_single_precision() -> None:
    integers = np.random.default_rng(4).integers(-100_000, 100_000, 5000)
    values = fixed(ValueKind.FLOAT, 4, (integers / 100.0).astype(np.float32))
    encoded = round_trip(scaled, values, COMPACT)
    assert encoded is not None
    assert (encoded.exceptions, encoded.exponent, encoded.bit_width) == (0, 2, 18)


@pytest.mark.parametrize(("kind", "width"), FLOAT_KINDS)
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_specials_are_exceptions(kind: ValueKind, width: int, profile) -> None:
    data = (np.arange(2000) % 90 / 4).astype(f"<f{width}")
    data[::150] = np.resize(SPECIAL_FLOATS[width], 14)
    encoded = round_trip(scaled, fixed(kind, width, data), profile)
    assert encoded is not None
    assert 0 < encoded.exceptions <= 14
    assert encoded.inner_width == 16


@pytest.mark.parametrize("rows", PAGE_SIZES)
def test_whole_pages_with_exceptions(rows: int) -> None:
    data = np.random.default_rng(rows).integers(0, 2000, rows) / 100
    data[[0, 65_533, rows - 1]] = np.nan, -0.0, np.inf
    encoded = round_trip(scaled, fixed(ValueKind.FLOAT, 8, data), FAST)
    assert encoded is not None
    assert encoded.exceptions == 3


def test_true_fractions_and_all_missing_are_left_alone() -> None:
    random = np.random.default_rng(0)
    for data in (random.random(2000), np.full(100, np.nan), random.random(2000) * 1e300):
        values = fixed(ValueKind.FLOAT, 8, data)
        assert scaled.estimate(values, summarise_values(values), FAST) is None
        assert scaled.encode(values, FAST) is None


def test_regular_decimals_take_no_bytes() -> None:
    encoded = scaled.encode(fixed(ValueKind.FLOAT, 8, np.arange(65_536) / 4), FAST)
    assert encoded is not None
    assert (encoded.inner, encoded.nbytes) == (EncodingCode.LINEAR, 0)


def _with_exceptions():
    data = np.arange(40) * 3 % 17 / 4
    data[[3, 20, 30]] = np.nan, np.inf, -0.0
    values = fixed(ValueKind.FLOAT, 8, data)
    encoded = scaled.encode(values, FAST)
    assert encoded is not None
    assert encoded.exceptions == 3
    return store(values, encoded)


@pytest.mark.parametrize(
    ("field", "value"),
    [("exponent", -1), ("exponent", 23), ("exponent", 127), ("exponent", -128),
     ("exceptions", 41), ("exceptions", 2**32 - 1), ("inner_width", 0), ("inner_width", 64),
     ("inner", EncodingCode.FLAT), ("inner", EncodingCode.SCALED), ("inner", 0), ("inner", 255),
     ("bit_width", 60)],
)  # fmt: skip
def test_illegal_numbers_are_refused(field: str, value: int) -> None:
    refused(_with_exceptions().with_field(field, value), "too short")


def test_positions_that_do_not_ascend_are_refused() -> None:
    stored = _with_exceptions()
    start = int(stored.record["starts"][0, 2])
    assert stored.payload[start : start + 3].tolist() == [3, 20, 30]
    for place, position in ((0, 20), (1, 3), (2, 40), (2, 255), (2, 1)):
        payload = stored.payload.copy()
        payload[start + place] = position
        refused(replace(stored, payload=payload), "do not ascend")


def test_integers_that_are_no_doubles_are_refused() -> None:
    refused(_with_exceptions().with_field("base", 1 << 53), "not in")


@given(decimals(), st.sampled_from(PROFILES), st.data())
def test_hostile_pages(values, profile, data) -> None:
    encoded = scaled.encode(values, profile)
    if encoded is not None:
        survives(forged(store(values, encoded), data.draw))
