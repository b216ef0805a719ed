"""Scans of ranges, takes and filters of encoded columns against plain lists of the same values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import ColumnNotFoundError, InvalidInputError
from tessel.store.segment.encoded_column import SegmentColumn
from tests.store.reference.segments import (
    PAGE_EDGE_SIZES,
    plain_values,
    row_indices,
    row_masks,
    row_ranges,
    segment_columns,
    segment_sizes,
    segment_tables,
    segment_types,
)
from tests.store.segment.helpers import column_of, opened, with_ids, write_options, written


def _drawn_column(data: st.DataObject, rows: int) -> tuple[SegmentColumn, list[object]]:
    kind = data.draw(segment_types())
    table = with_ids(pa.table([data.draw(segment_columns(kind, rows))], ["c"]))
    options = data.draw(write_options(table, shifts=rows < 1000))
    column = column_of(opened(written(table, options)), "7")
    return column, plain_values(table.column("7"))


def _check_ways_to_read(data: st.DataObject, column: SegmentColumn, expected: list[object]) -> None:
    start, stop = data.draw(row_ranges(len(expected)))
    part = column.slice(start, stop)
    assert len(part) == stop - start
    assert plain_values(part.decode()) == expected[start:stop]
    assert plain_values(part.chunks()) == expected[start:stop]
    assert part.decode().type == column.type

    inside = data.draw(row_indices(stop - start))
    taken = part.take(np.array(inside, np.int64))
    taken.validate(full=True)
    assert plain_values(taken) == [expected[start + row] for row in inside]

    mask = data.draw(row_masks(stop - start))
    kept = part.filter(mask)
    kept.validate(full=True)
    assert plain_values(kept) == [expected[start + row] for row in np.flatnonzero(mask).tolist()]


@given(st.data())
def test_ranges_takes_and_filters(data: st.DataObject) -> None:
    column, expected = _drawn_column(data, data.draw(segment_sizes()))
    for _ in range(3):
        _check_ways_to_read(data, column, expected)


@pytest.mark.parametrize("rows", PAGE_EDGE_SIZES)
@settings(max_examples=12)
@given(data=st.data())
def test_ranges_takes_and_filters_at_the_edges_of_pages(rows: int, data: st.DataObject) -> None:
    column, expected = _drawn_column(data, rows)
    _check_ways_to_read(data, column, expected)


@given(st.data())
def test_reading_a_second_time_gives_the_same(data: st.DataObject) -> None:
    column, expected = _drawn_column(data, data.draw(segment_sizes(largest=80)))
    rows = data.draw(row_indices(len(expected)))
    for _ in range(2):
        assert plain_values(column.take(np.array(rows, np.int64))) == [expected[r] for r in rows]
        assert plain_values(column.decode()) == expected


@given(st.data())
def test_batches_of_any_size_make_up_the_column(data: st.DataObject) -> None:
    column, expected = _drawn_column(data, data.draw(segment_sizes()))
    batch = data.draw(st.integers(1, 100))
    found: list[object] = []
    for start in range(0, len(column), batch):
        found += plain_values(column.slice(start, min(start + batch, len(column))).decode())
    assert found == expected


@given(st.data())
def test_codes_and_dictionary_are_the_values(data: st.DataObject) -> None:
    column, expected = _drawn_column(data, data.draw(segment_sizes()))
    dictionary = column.dictionary()
    if dictionary is None:
        with pytest.raises(InvalidInputError):
            column.codes()
        return
    values = plain_values(dictionary)
    codes = column.codes().to_pylist()
    assert [None if code is None else values[code] for code in codes] == expected


@given(st.data())
def test_columns_are_opened_alone(data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(data.draw(segment_sizes(largest=40)))))
    stored = written(table, data.draw(write_options(table)))
    wanted = data.draw(st.sampled_from(table.column_names))
    segment = opened(stored, columns=[int(wanted)])
    assert plain_values(column_of(segment, wanted).decode()) == plain_values(table.column(wanted))
    # The page tables of the others are read when they are asked for.
    for name in table.column_names:
        assert plain_values(column_of(segment, name).decode()) == plain_values(table.column(name))


def test_rows_and_columns_that_are_not_there_are_refused() -> None:
    segment = opened(written(with_ids(pa.table({"c": [1, 2, 3]}))))
    column = column_of(segment, "7")
    for rows in ([3], [-1], [0, 1, 1 << 40]):
        with pytest.raises(InvalidInputError, match="3"):
            column.take(np.array(rows, np.int64))
    with pytest.raises(InvalidInputError):
        column.slice(2, 4)
    with pytest.raises(InvalidInputError):
        column.filter(np.array([True, False]))
    with pytest.raises(ColumnNotFoundError):
        column_of(segment, "8")
