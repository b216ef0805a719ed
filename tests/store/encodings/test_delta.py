"""Integers as running sums of differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import COMPACT, FAST
from tessel.store.encodings.chooser import summarise_values
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.linear import Delta
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

delta = Delta()


@given(fixed_values(INTEGER_KINDS), st.sampled_from(PROFILES))
def test_round_trip(values, profile) -> None:
    encoded = round_trip(delta, values, profile)
    assert encoded is not None
    assert delta.estimate(values, summarise_values(values), profile) == encoded.nbytes


@pytest.mark.parametrize("rows", [*PAGE_SIZES, 200_000])
def test_whole_pages(rows: int) -> None:
    raw = shapes(np.random.default_rng(rows), rows, 13)["walk"]
    assert round_trip(delta, from_bits(ValueKind.UNSIGNED, 8, raw), COMPACT) is not None


def test_small_steps_take_few_bits_however_far_they_lead() -> None:
    steps = np.random.default_rng(1).integers(-4, 4, 10_000)
    values = fixed(ValueKind.SIGNED, 8, np.cumsum(steps) + 10**15)
    encoded = delta.encode(values, COMPACT)
    assert encoded is not None
    assert encoded.bit_width == 3


def test_wrong_contents_are_refused() -> None:
    values = fixed(ValueKind.SIGNED, 1, np.array([1, 100, -100, 3], np.int8))
    encoded = delta.encode(values, FAST)
    assert encoded is not None
    stored = store(values, encoded)
    refused(stored.with_field("base", 120), r"not in \[-128, 127\]")
    payload = stored.payload.copy()
    payload[0] = 1
    refused(type(stored)(stored.record, payload, values.kind, values.width), "is not 0")


@given(fixed_values(INTEGER_KINDS), st.sampled_from(PROFILES), st.data())
def test_hostile_pages(values, profile, data) -> None:
    encoded = delta.encode(values, profile)
    assert encoded is not None
    survives(forged(store(values, encoded), data.draw))
