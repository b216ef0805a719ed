"""Runs of equal values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import COMPACT, FAST
from tessel.store.encodings.chooser import summarise_values
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.linear import RunEnd
from tests.store.encodings.helpers import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    PAGE_SIZES,
    PROFILES,
    SPECIAL_FLOATS,
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

KINDS = (*INTEGER_KINDS, *FLOAT_KINDS, (ValueKind.BOOLEAN, 1))
run_end = RunEnd()


@given(fixed_values(KINDS), st.sampled_from(PROFILES))
def test_round_trip(values, profile) -> None:
    encoded = round_trip(run_end, values, profile)
    assert encoded is not None
    estimate = run_end.estimate(values, summarise_values(values), profile)
    assert estimate is not None
    assert encoded.nbytes <= estimate


@pytest.mark.parametrize("rows", PAGE_SIZES)
def test_whole_pages(rows: int) -> None:
    raw = shapes(np.random.default_rng(rows), rows, 13)["runs"]
    encoded = round_trip(run_end, from_bits(ValueKind.SIGNED, 4, raw), COMPACT)
    assert encoded is not None
    assert encoded.inner_width == (32 if rows > 65_536 else 16)


@pytest.mark.parametrize(("kind", "width"), FLOAT_KINDS)
def test_special_floats_keep_their_bits(kind: ValueKind, width: int) -> None:
    data = np.repeat(SPECIAL_FLOATS[width], np.arange(1, 12))
    encoded = round_trip(run_end, fixed(kind, width, data), FAST)
    assert encoded is not None
    assert encoded.count == len(SPECIAL_FLOATS[width])


def test_ends_that_do_not_ascend_to_the_last_row_are_refused() -> None:
    values = fixed(ValueKind.SIGNED, 8, np.repeat([10, 500, -3, 77], [3, 2, 4, 1]))
    encoded = run_end.encode(values, FAST)
    assert encoded is not None
    stored = store(values, encoded)
    assert stored.payload[:4].tolist() == [2, 4, 8, 9]
    for place, last in ((0, 4), (1, 2), (1, 8), (2, 200), (3, 8), (3, 10), (3, 255)):
        payload = stored.payload.copy()
        payload[place] = last
        refused(replace(stored, payload=payload), "do not ascend to row 9")


@pytest.mark.parametrize(
    ("field", "value"),
    [("count", 0), ("count", 3), ("count", 11), ("count", 2**32 - 1), ("inner_width", 0),
     ("inner_width", 24), ("bit_width", 60), ("inner_width", 64)],
)  # fmt: skip
def test_illegal_numbers_are_refused(field: str, value: int) -> None:
    values = fixed(ValueKind.SIGNED, 8, np.repeat([10, 500, -3, 77], [3, 2, 4, 1]))
    encoded = run_end.encode(values, FAST)
    assert encoded is not None
    refused(store(values, encoded).with_field(field, value), "too short|ascend")


def test_what_a_type_does_not_hold_is_refused() -> None:
    values = fixed(ValueKind.SIGNED, 2, np.repeat(np.array([1, 30_000], np.int16), 4))
    encoded = run_end.encode(values, FAST)
    assert encoded is not None
    refused(store(values, encoded).with_field("base", 10_000), "not in")


@given(fixed_values(KINDS), st.sampled_from(PROFILES), st.data())
def test_hostile_pages(values, profile, data) -> None:
    encoded = run_end.encode(values, profile)
    assert encoded is not None
    survives(forged(store(values, encoded), data.draw))
