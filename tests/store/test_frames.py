"""Tables of every kind that people hold, and the types they become."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tessel.errors import DuplicateColumnError, InvalidInputError, UnsupportedTypeError
from tessel.store import Repository
from tessel.store.frames import read_frame
from tessel.store.segment.types import normalise_schema
from tests.store.helpers import read

TABLE = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})


def _written(data: Any, **arguments: Any) -> tuple[pa.Table, str | None]:
    repository = Repository.open("memory://")
    repository.write("s", data, **arguments)
    view = repository.view("s")
    return read(view), view.schema.index


class _Stream:
    """Something that only has the stream protocol."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


class _Array:
    """Something that only has the array protocol."""

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return TABLE.combine_chunks().to_batches()[0].__arrow_c_array__(requested_schema)


KINDS: dict[str, Any] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(max_chunksize=1),
    "stream": _Stream,
    "array": _Array,
    "polars": lambda: pl.from_arrow(TABLE),
    "pandas": lambda: pd.DataFrame(
        {"a": pd.array([1, 2, None], dtype="Int64"), "b": ["x", None, "z"]}
    ),
    "dictionary": lambda: TABLE.to_pydict(),
    "rows": lambda: TABLE.to_pylist(),
    "generator of rows": lambda: iter(TABLE.to_pylist()),
    "list of batches": lambda: TABLE.to_batches(max_chunksize=1),
    "generator": lambda: (TABLE.slice(i, 1) for i in range(3)),
    "parts in another order": lambda: [TABLE.slice(0, 1), TABLE.slice(1).select(["b", "a"])],
    "parts of several kinds": lambda: [TABLE.slice(0, 2), pl.from_arrow(TABLE.slice(2))],
}


def test_a_structured_array_of_numpy_is_a_table() -> None:
    table, _ = _written(np.array([(1, 2.5), (2, 3.5)], [("a", "i4"), ("b", "f8")]))
    assert table.to_pydict() == {"a": [1, 2], "b": [2.5, 3.5]}
    assert table.schema.types == [pa.int32(), pa.float64()]


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables(kind: str) -> None:
    found, index = _written(KINDS[kind]())
    assert found.equals(TABLE)
    assert index is None


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.decimal64(12, 2), pa.decimal128(12, 2)),
        (pa.large_list(pa.string_view()), pa.list_(pa.string())),
        (pa.list_view(pa.int8()), pa.list_(pa.int8())),
        (pa.list_(pa.large_string(), 2), pa.list_(pa.string(), 2)),
        (pa.struct([("a", pa.large_string())]), pa.struct([("a", pa.string())])),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.dictionary(pa.int32(), pa.string())),
        (pa.dictionary(pa.uint16(), pa.int64()), pa.dictionary(pa.int32(), pa.int64())),
    ],
    ids=str,
)
def test_types_are_normalised(given: pa.DataType, stored: pa.DataType) -> None:
    assert normalise_schema(pa.schema([("x", given)])).field("x").type == stored
    values = {
        pa.float16(): [np.float16(1.5), None],
        pa.decimal32(5, 2): ["1.25", None],
        pa.decimal64(12, 2): ["1.25", None],
    }.get(given)
    if values is not None:
        wanted = pa.array([1.5 if given == pa.float16() else "1.25", None])
        column = pa.array(values, given) if given == pa.float16() else wanted.cast(given)
        expected = wanted.cast(stored)
    else:
        plain = {
            "string": ["a", None],
            "binary": [b"a", None],
            "list<item: string>": [["a", None], None],
            "list<item: int8>": [[1, None], None],
            "fixed_size_list<item: string>[2]": [["a", None], None],
            "struct<a: string>": [{"a": "b"}, None],
            "dictionary<values=string, indices=int32, ordered=0>": ["a", None],
            "dictionary<values=int64, indices=int32, ordered=0>": [1, None],
        }[str(stored)]
        expected = pa.array(plain, stored)
        # Arrow before 24 makes no dictionary of large text of Python values.
        is_dictionary = pa.types.is_dictionary(given)
        values = pa.array(plain, given.value_type) if is_dictionary else pa.array(plain, given)
        column = values.dictionary_encode().cast(given) if is_dictionary else values
    found, _ = _written(pa.table({"x": column}))
    assert found.column("x").type == stored
    assert found.column("x").combine_chunks().equals(expected)


def test_field_metadata_and_nullability_carry_no_meaning() -> None:
    field = pa.field("x", pa.int8(), nullable=False, metadata={"a": "b"})
    found, _ = _written(pa.table([[1]], schema=pa.schema([field], metadata={"c": "d"})))
    assert found.schema.equals(pa.schema([("x", pa.int8())]), check_metadata=True)


def test_dictionaries_of_batches_become_one() -> None:
    batches = [
        pa.record_batch({"x": pa.array(part).dictionary_encode()})
        for part in (["a", "b", "a"], ["c", "a"], [None, "b"])
    ]
    found, _ = _written(batches)
    assert found.column("x").to_pylist() == ["a", "b", "a", "c", "a", None, "b"]
    assert found.column("x").num_chunks == 1


def test_nulls_among_dictionary_values_are_missing() -> None:
    odd = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", None]))
    repository = Repository.open("memory://")
    repository.write("s", {"x": odd})
    facts = repository.view("s").index().statistics.facts("x")
    assert facts.missing.tolist() == [2]
    assert read(repository.view("s")).column("x").to_pylist() == ["a", None, None]


# --- pandas ---------------------------------------------------------------------------------------

DAYS = pd.date_range("2024-01-01", periods=3, name="day")


def test_a_range_index_is_dropped() -> None:
    found, index = _written(pd.DataFrame({"a": [1, 2, 3]}, index=pd.RangeIndex(5, 8, name="n")))
    assert (found.column_names, index) == (["a"], None)


def test_a_named_datetime_index_is_the_time_index() -> None:
    found, index = _written(pd.DataFrame({"a": [1, 2, 3]}, index=DAYS))
    assert (found.column_names, index) == (["day", "a"], "day")
    assert found.column("day").to_pylist()[0].date() == datetime.date(2024, 1, 1)


def test_index_goes_before_the_frame_s_own() -> None:
    assert _written(pd.DataFrame({"a": [1, 2, 3]}, index=DAYS), index="a")[1] == "a"


def test_another_named_index_is_a_column() -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
    found, index = _written(frame)
    assert (found.to_pydict(), index) == ({"key": ["x", "y"], "a": [1, 2]}, None)


OBJECTS = pl.Series([object()], dtype=pl.Object)


@pytest.mark.parametrize(
    ("frame", "error", "text"),
    [
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            InvalidInputError,
            "MultiIndex",
        ),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), DuplicateColumnError, "'a'"),
        (pd.DataFrame({"day": [1, 2, 3]}, index=DAYS), DuplicateColumnError, "'day'"),
        (pd.DataFrame({"a": [1, "x"]}), InvalidInputError, "one type"),
        (pl.Series([1]), InvalidInputError, "Series"),
        (pl.DataFrame({"a": OBJECTS}), UnsupportedTypeError, "'a'"),
        ({"b": OBJECTS}, UnsupportedTypeError, "'b'"),
    ],
    ids=[
        "columns", "twice", "index twice", "mixed", "series", "objects", "column of objects",
    ],
)  # fmt: skip
def test_frames_that_are_refused(frame: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        _written(frame)


ROWS = pa.table({"a": [1, 2, None], "b": ["x", None, "y"]})


@pytest.mark.parametrize("kind", ["lazy", "dataset", "rows", "parquet", "csv", "path"])
def test_what_is_no_table_yet(kind: str, tmp_path: Path) -> None:
    from pyarrow import csv, dataset, parquet

    parquet.write_table(ROWS, tmp_path / "a.parquet")
    csv.write_csv(ROWS, tmp_path / "a.csv")
    given: Any = {
        "lazy": lambda: pl.from_arrow(ROWS).lazy(),  # type: ignore[union-attr]
        "dataset": lambda: dataset.dataset(tmp_path / "a.parquet"),
        "rows": lambda: [{"a": 1, "b": "x"}, {"a": 2}, {"b": "y"}],
        "parquet": lambda: str(tmp_path / "a.parquet"),
        "csv": lambda: tmp_path / "a.csv",
        "path": lambda: tmp_path / "a.parquet",
    }[kind]()
    found = pa.concat_tables(read_frame(given).tables)
    assert found.to_pydict() == ROWS.to_pydict()


def test_rows_of_which_one_is_no_dictionary() -> None:
    with pytest.raises(InvalidInputError, match="row 1 is a int"):
        read_frame([{"a": 1}, 2])


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no file"):
        read_frame(str(tmp_path / "absent.csv"))


# --- zones ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "zone", ["UTC+01:00", "Foo/Bar", "Z", "utc", "GMT+1", "europe/paris", "+0100", "+25:00"]
)
@pytest.mark.parametrize("nested", [lambda kind: kind, pa.list_, lambda k: pa.struct({"f": k})])
def test_zones_that_nothing_can_show_are_refused(zone: str, nested: Any) -> None:
    repository = Repository.open("memory://")
    kind = nested(pa.timestamp("us", zone))
    table = pa.table({"t": pa.nulls(1, kind)})
    with pytest.raises(
        UnsupportedTypeError, match=r"'t' has the time zone .*\n.*Europe/Paris"
    ) as told:
        repository.write("s", table)
    assert told.value.attributes == {"column": "t", "zone": zone}
    repository.write("s", {"a": [1]})
    with pytest.raises(UnsupportedTypeError, match="time zone"):
        repository.add_column("s", "t", data_type=kind)
    assert repository.newest == 1


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Etc/GMT+1", "EST", "+01:00", "-05:30"])
def test_zones_that_arrow_and_python_know_are_stored(zone: str) -> None:
    kind = pa.timestamp("us", zone)
    found, _ = _written(pa.table({"t": pa.array([0], kind)}))
    assert found.schema.field("t").type == kind
    assert str(found["t"].to_pylist()[0].utcoffset())


def test_zones_that_earlier_versions_stored_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessel.store.frames.accepted_schema", normalise_schema)
    table = pa.table({"t": pa.array([0], pa.timestamp("us", "Foo/Bar"))})
    found, _ = _written(table)
    assert found.equals(table)
