"""Pages without values, and pages in which every row is null."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.base import FAST, EncodedPage
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.flat import AllMissing, Nothing
from tessel.store.encodings.values import PhysicalValues, native_dtype
from tests.store.encodings.helpers import (
    FIXED_KINDS,
    VARIABLE,
    Stored,
    fixed,
    forged,
    open_page,
    plain,
    refused,
    store,
    survives,
    text,
)

KINDS = (*FIXED_KINDS, (ValueKind.TEXT, 0), (ValueKind.BINARY, 0))
nothing, all_missing = Nothing(), AllMissing()


def missing(kind: ValueKind, width: int, rows: int) -> Stored:
    values = PhysicalValues(kind, width, rows, np.empty(0, np.uint8))
    encoded = all_missing.encode(values, FAST)
    assert encoded is not None
    assert encoded.nbytes == 0
    return store(values, encoded).with_field("null_count", rows)


@pytest.mark.parametrize("rows", [0, 1, 9, 65_537])
@pytest.mark.parametrize(("kind", "width"), KINDS)
def test_all_missing(kind: ValueKind, width: int, rows: int) -> None:
    page = open_page(missing(kind, width, rows))
    found = all_missing.decode(page, 0, rows)
    assert found.length == rows
    assert not any(any(row) if isinstance(row, bytes) else row for row in plain(found))
    taken = all_missing.take(page, np.zeros(min(rows, 3), np.int64))
    assert taken.length == min(rows, 3)
    if kind not in VARIABLE:
        out = np.ones((rows + 2, *found.data.shape[1:]), native_dtype(kind, width))
        all_missing.decode_into(page, 0, rows, out[1:-1])
        assert not out[1:-1].any()
        assert out[[0, -1]].all()


def test_a_page_with_values_is_not_all_missing() -> None:
    stored = missing(ValueKind.SIGNED, 8, 10).with_field("null_count", 9)
    refused(stored.with_field("encoding", EncodingCode.ALL_MISSING), "contradict")
    sizes = all_missing.slot_bytes(stored.record, ValueKind.SIGNED, 8, np.array([10]))
    assert sizes.tolist() == [[-1, 0, 0, 0]]


def test_it_is_never_estimated() -> None:
    from tessel.store.encodings.chooser import summarise_values

    values = fixed(ValueKind.SIGNED, 8, np.zeros(4, np.int64))
    assert all_missing.estimate(values, summarise_values(values), FAST) is None


def test_nothing_has_rows_and_no_values() -> None:
    values = PhysicalValues(ValueKind.NONE, 0, 12, np.empty(0, np.uint8))
    encoded = nothing.encode(values, FAST)
    assert encoded is not None
    page = open_page(store(values, encoded))
    assert nothing.decode(page, 3, 9).length == 6
    assert nothing.take(page, np.array([1, 1])).length == 2
    assert nothing.encode(text([b"a"]), FAST) is None


def test_nothing_of_a_kind_with_values_is_refused() -> None:
    stored = store(text([b"a"]), EncodedPage(EncodingCode.NOTHING))
    sizes = nothing.slot_bytes(stored.record, ValueKind.BINARY, 0, np.array([1]))
    assert sizes[0, 0] == -1
    refused(stored, "none of the type")


@given(st.sampled_from(KINDS), st.integers(0, 100), st.data())
def test_hostile_pages(kind, rows, data) -> None:
    survives(forged(missing(*kind, rows), data.draw))
