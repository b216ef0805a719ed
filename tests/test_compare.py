from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.compare import first_difference

TYPES = {
    pa.int64(): st.integers(-3, 3),
    pa.string(): st.sampled_from(["", "a", "ab"]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    pa.timestamp("ns", "UTC"): st.integers(0, 3),
    pa.dictionary(pa.int8(), pa.float64()): st.sampled_from([0.0, -0.0, 2.5, math.nan]),
    pa.list_(pa.float64()): st.lists(st.sampled_from([0.0, -0.0, math.nan]), max_size=2),
}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], list[Any]]:
    """Two columns of one type, mostly alike."""
    kind = draw(st.sampled_from(list(TYPES)))
    values = draw(st.lists(st.none() | TYPES[kind], max_size=6))
    other = list(values)
    if other and draw(st.booleans()):
        place = draw(st.integers(0, len(other) - 1))
        other[place] = draw(st.none() | TYPES[kind])
    return kind, values, other[: draw(st.integers(0, len(other)))] if draw(st.booleans()) else other


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _first(left: list[Any], right: list[Any]) -> int | None:
    """Say it row by row in plain Python."""
    for row in range(max(len(left), len(right))):
        if row >= min(len(left), len(right)) or not _same(left[row], right[row]):
            return row
    return None


@given(pairs(), st.integers(1, 4))
def test_against_plain_python(
    pair: tuple[pa.DataType, list[Any], list[Any]], chunk_rows: int
) -> None:
    kind, left, right = pair
    tables = [pa.table({"x": pa.array(values, kind)}) for values in (left, right)]
    chunked = pa.Table.from_batches(
        tables[0].to_batches(max_chunksize=chunk_rows), schema=tables[0].schema
    )
    found = first_difference(chunked, tables[1])
    assert (None if found is None else found.row) == _first(left, right)


def test_the_earliest_row_of_any_column_is_found() -> None:
    left = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    right = pa.table({"a": [1, 2, 4], "b": ["x", "Y", "z"]})
    found = first_difference(left, right)
    assert found is not None
    assert (found.row, found.what) == (1, "b")
    assert str(found) == "row 1 (b):\n  {'a': '2', 'b': 'y'}\n  {'a': '2', 'b': 'Y'}"


@pytest.mark.parametrize(
    "right",
    [
        pa.table({"b": pa.array([1], pa.int64())}),
        pa.table({"a": pa.array([1], pa.int32())}),
        pa.table({"a": pa.array([1], pa.int64()), "b": [1]}),
    ],
    ids=["name", "type", "one more"],
)
def test_schemas_must_be_equal(right: pa.Table) -> None:
    found = first_difference(pa.table({"a": pa.array([1], pa.int64())}), right)
    assert found is not None
    assert found.row is None
    assert str(found).startswith("schema:\na: int64\nagainst\n")


def test_metadata_does_not_count() -> None:
    table = pa.table({"a": [1]})
    assert first_difference(table, table.replace_schema_metadata({"k": "v"})) is None
