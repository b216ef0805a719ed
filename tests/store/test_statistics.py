"""Statistics are sound: compared with every value, on any column, in any cut."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store import Repository
from tessel.store.segment.file_writer import WriteOptions, encode_segment
from tessel.store.segment.statistics import (
    BOUND_BYTES,
    ColumnStatistics,
    bounds_type,
    summarise,
)
from tests.store.helpers import load
from tests.strategies.tables import column_types, columns, cut_into_segments, tables


def _key(value: Any, kind: pa.DataType) -> Any:
    """Return something that orders as the values do: integers for times, text by code point."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_temporal(kind):
        narrow = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array([value], kind).view(narrow)[0].as_py()
    return value.as_py()


def _present(column: pa.ChunkedArray) -> list[Any]:
    """Return the order keys of the values that are neither null nor NaN."""
    scalars = [v for v in column if v.is_valid and v.as_py() is not None]
    found = [v for v in scalars if not (isinstance(v.as_py(), float) and math.isnan(v.as_py()))]
    return [_key(v.value if isinstance(v, pa.DictionaryScalar) else v, column.type) for v in found]


def _summarised(column: pa.Array, shift: int = 16) -> ColumnStatistics:
    """Return the statistics of a column that is written with pages of ``2**shift`` rows."""
    options = WriteOptions(page_shifts={"0": shift})
    encoded = encode_segment(pa.table({"0": column}), options)
    return summarise(pa.chunked_array([column]), encoded.columns[0].bounds)


@given(data=st.data())
def test_bounds_and_counts_of_a_column(data: st.DataObject) -> None:
    kind = data.draw(column_types())
    array = data.draw(columns(kind, data.draw(st.integers(1, 20))))
    facts, column = _summarised(array, data.draw(st.integers(0, 5))), pa.chunked_array([array])
    nulls = sum(value is None for value in column.to_pylist())
    nans = sum(isinstance(v, float) and math.isnan(v) for v in column.to_pylist())
    assert facts.nulls == nulls
    assert facts.nans == (nans if bounds_type(kind) is not None else 0)
    if bounds_type(kind) is None:
        assert facts.minimum is None
        assert facts.maximum is None
        return
    present = _present(column)
    if not present:
        assert facts.minimum is None
        assert facts.maximum is None
        assert not facts.minimum_exact
        assert not facts.maximum_exact
        return
    assert facts.minimum is not None
    low = _key(facts.minimum, kind)
    assert low <= min(present)
    assert facts.minimum_exact == (low == min(present))
    if facts.maximum is None:
        assert not facts.maximum_exact
    else:
        high = _key(facts.maximum, kind)
        assert max(present) <= high
        assert facts.maximum_exact == (high == max(present))


@given(text=st.lists(st.text(min_size=1, max_size=100), min_size=1, max_size=5))
def test_bounds_of_text_are_short_and_sound(text: list[str]) -> None:
    facts = _summarised(pa.array(text))
    assert facts.minimum is not None
    assert len(facts.minimum.as_py().encode()) <= BOUND_BYTES
    assert facts.minimum.as_py() <= min(text)
    if facts.maximum is not None:
        assert len(facts.maximum.as_py().encode()) <= BOUND_BYTES
        assert facts.maximum.as_py() >= max(text)


@pytest.mark.parametrize(
    ("value", "maximum"),
    [
        (b"\xff" * 65, None),
        (b"a" * 63 + b"\xff\xff", b"a" * 62 + b"b"),
        (b"a" * 65, b"a" * 63 + b"b"),
        ("\U0010ffff" * 17, None),
        ("é" * 40, "é" * 31 + "ê"),
        ("a" * 63 + "\x7f\x7f", "a" * 62 + "b"),
        ("퟿" * 30, "퟿" * 20 + "\ue000"),
    ],
    ids=["all ff", "last ff", "plain", "last character", "two bytes", "grows", "surrogates"],
)
def test_a_cut_maximum_is_raised(value: str | bytes, maximum: str | bytes | None) -> None:
    facts = _summarised(pa.array([value]))
    assert (None if facts.maximum is None else facts.maximum.as_py()) == maximum
    assert not facts.maximum_exact
    assert not facts.minimum_exact


@pytest.mark.parametrize("shift", [1, 16])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("values", [[-0.0, 1.0], [0.0, -1.0], [0.0, -0.0, math.nan, None]])
def test_the_sign_of_zero_is_that_of_a_value(
    values: list[float], kind: pa.DataType, shift: int
) -> None:
    column = pa.array(values, kind)
    facts = _summarised(column, shift)
    present = {(value, math.copysign(1, value)) for value in _present(pa.chunked_array([column]))}
    for bound in (facts.minimum, facts.maximum):
        assert bound is not None
        assert (bound.as_py(), math.copysign(1, bound.as_py())) in present


@given(data=st.data())
def test_the_view_over_row_slices_is_sound_also_after_a_cut(data: st.DataObject) -> None:
    table = data.draw(tables(index=True, max_rows=20))
    cut = data.draw(cut_into_segments(table, index="t"))
    repository = Repository.open("memory://")
    cut.write(repository, "s")
    view = repository.view("s")
    index = view.index()
    start = data.draw(st.integers(0, table.num_rows))
    stop = data.draw(st.integers(start, table.num_rows))
    index = index.cut_rows(start, stop, clause="c", reason="r")
    mask = np.array([data.draw(st.booleans()) for _ in range(index.slices)], dtype=bool)
    index = index.keep_slices(mask, clause="c", reason="r")

    assert (
        index.statistics.row_counts.tolist()
        == (index.slice_row_end - index.slice_row_start).tolist()
    )
    for name in table.column_names:
        facts = index.statistics.facts(name)
        for number in range(index.slices):
            only = np.arange(index.slices) == number
            rows = load(index.keep_slices(only, clause="c", reason="r"), view.source())
            column = rows.column(name)
            present = _present(column)
            missing = len(column) - len(present)
            if bounds_type(column.type) is None:
                missing = column.null_count
                assert pa.types.is_null(facts.minimum.type)
            assert missing <= facts.missing[number] <= len(column)
            if index.slice_is_whole[number]:
                assert facts.missing[number] == missing
            if facts.minimum[number].is_valid:
                low = _key(facts.minimum[number], column.type)
                assert all(low <= value for value in present)
                assert not facts.minimum_exact[number] or low == min(present)
            if facts.maximum[number].is_valid:
                high = _key(facts.maximum[number], column.type)
                assert all(value <= high for value in present)
                assert not facts.maximum_exact[number] or high == max(present)
            no_bounds = not (facts.minimum[number].is_valid or facts.maximum[number].is_valid)
            if bounds_type(column.type) is not None and no_bounds:
                assert facts.missing[number] >= len(column)
                assert not present


@given(data=st.data())
def test_times_of_row_slices_bound_the_index(data: st.DataObject) -> None:
    table = data.draw(tables(index=True, max_rows=20, max_columns=1))
    repository = Repository.open("memory://")
    cut = data.draw(cut_into_segments(table, index="t"))
    cut.write(repository, "s")
    index = repository.view("s").index()
    values = table.column("t")
    narrow = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    expected = values.cast(narrow).to_pylist()
    assert index.slice_first_time is not None
    assert index.slice_last_time is not None
    for number in range(index.slices):
        start, end = int(index.slice_row_start[number]), int(index.slice_row_end[number])
        first, last = index.slice_first_time[number], index.slice_last_time[number]
        assert first <= expected[start] <= expected[end - 1] <= last
        if not cut.passing:  # what was a slice before an edit tells its times to what is left
            assert (first, last) == (expected[start], expected[end - 1])
    assert (np.diff(index.slice_first_time) >= 0).all()
    assert (np.diff(index.slice_last_time) >= 0).all()
