"""Text and binary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import COMPACT, FAST
from tessel.store.encodings.chooser import summarise_values
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.variable import Variable
from tests.store.encodings.helpers import (
    PAGE_SIZES,
    PROFILES,
    forged,
    open_page,
    refused,
    round_trip,
    store,
    survives,
    text,
    text_values,
)

variable = Variable()


@given(text_values(), st.sampled_from(PROFILES))
def test_round_trip(values, profile) -> None:
    encoded = round_trip(variable, values, profile)
    assert encoded is not None
    assert variable.estimate(values, summarise_values(values), profile) == encoded.nbytes


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("rows", PAGE_SIZES)
def test_whole_pages(rows: int, profile) -> None:
    lengths = np.random.default_rng(rows).integers(0, 9, rows)
    values = text([b"abcdefgh"[:length] for length in lengths.tolist()], ValueKind.TEXT)
    assert round_trip(variable, values, profile) is not None


def test_long_values() -> None:
    values = text([bytes([place]) * 5000 for place in range(40)])
    assert round_trip(variable, values, FAST) is not None


def test_values_of_one_length_need_no_offsets() -> None:
    values = text([b"N%05d" % place for place in range(1000)])
    encoded = variable.encode(values, FAST)
    assert encoded is not None
    assert encoded.nbytes == 6000


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_bytes_and_whole_offsets_are_read_in_place(profile) -> None:
    values = text([b"ab", b"", b"cde", b"f" * 50] * 20)
    encoded = variable.encode(values, profile)
    assert encoded is not None
    page = store(values, encoded).page()
    found = variable.decode(page, 3, 70)
    assert np.shares_memory(found.data, page.payload)
    assert np.shares_memory(found.offsets, page.payload) == (profile is FAST)


def _whole_offsets():
    values = text([b"ab", b"", b"cde", b"f"], ValueKind.TEXT)
    encoded = variable.encode(values, FAST)
    assert encoded is not None
    stored = store(values, encoded)
    assert stored.payload[:20].view("<u4").tolist() == [0, 2, 2, 5, 6]
    return stored


@pytest.mark.parametrize(
    ("place", "offset", "words"),
    [(0, 1, "ascend from 0"), (2, 1, "ascend"), (2, 6, "ascend"), (4, 65, "past its bytes"),
     (4, 2**31, "past its bytes"), (4, 2**32 - 1, "past its bytes"), (1, 2**32 - 1, "ascend")],
)  # fmt: skip
def test_offsets_that_go_backwards_or_outside_are_refused(place, offset, words) -> None:
    stored = _whole_offsets()
    payload = stored.payload.copy()
    payload[:20].view("<u4")[place] = offset
    refused(replace(stored, payload=payload), words)


def test_steps_that_lead_outside_are_refused() -> None:
    values = text([b"abc"] * 5)
    encoded = variable.encode(values, FAST)
    assert encoded is not None
    stored = store(values, encoded)
    refused(stored.with_field("step", 13), "past its bytes")
    refused(stored.with_field("step", (1 << 64) - 1), "ascend")
    refused(stored.with_field("base", 1), "ascend from 0")
    refused(stored.with_field("step", 1 << 63), "ascend")


def test_text_that_is_not_utf8_is_refused() -> None:
    stored = _whole_offsets()
    payload = stored.payload.copy()
    payload[64] = 0xFF
    refused(replace(stored, payload=payload), "not UTF-8")
    sound = replace(stored, payload=payload, kind=ValueKind.BINARY)
    assert variable.decode(open_page(sound), 0, 4).length == 4


def test_a_character_cut_between_two_values_is_refused() -> None:
    values = text([b"\xc3", b"\xb1"], ValueKind.TEXT)
    encoded = variable.encode(values, FAST)
    assert encoded is not None
    refused(store(values, encoded), "not UTF-8")


def test_it_is_never_decoded_into_an_array() -> None:
    page = _whole_offsets().page()
    with pytest.raises(TypeError, match="decode\\(\\)"):
        variable.decode_into(page, 0, 4, np.empty(4, np.uint8))


@given(text_values(), st.sampled_from(PROFILES), st.data())
def test_hostile_pages(values, profile, data) -> None:
    encoded = variable.encode(values, profile)
    assert encoded is not None
    survives(forged(store(values, encoded), data.draw))


def test_packed_offsets_are_smaller() -> None:
    values = text([b"abcdefgh"[: place % 9] for place in range(5000)])
    whole, packed = variable.encode(values, FAST), variable.encode(values, COMPACT)
    assert whole is not None
    assert packed is not None
    assert packed.buffers[0].nbytes < whole.buffers[0].nbytes / 7
