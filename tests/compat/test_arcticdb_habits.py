"""Habits of ArcticDB that no row of the idioms has, each compared with pandas or what was given."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tessel as ts
import tessel.compat.arcticdb as adb
from tessel.compat.arcticdb import exceptions
from tessel.errors import InvalidInputError

TIMES = pd.date_range("2024-01-01", periods=6, freq="h")


@pytest.fixture
def library() -> adb.Library:
    return adb.Arctic("mem://").create_library("habits")


def _frame(low: int, high: int) -> pd.DataFrame:
    return pd.DataFrame({"a": np.arange(low, high)}, TIMES[: high - low])


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_rows_put_one_after_the_other_are_resampled_as_in_pandas(
    library: adb.Library, join: str
) -> None:
    parts = [_frame(0, 4), _frame(10, 16)]
    for name, part in zip("xy", parts, strict=True):
        library.write(name, part)
    lazy = adb.concat(library.read_batch(["x", "y"], lazy=True), join)
    found = lazy.resample("2h").agg({"a": "sum"}).collect().data
    wanted = pd.concat(parts).sort_index(kind="stable").resample("2h").agg({"a": "sum"})
    pd.testing.assert_frame_equal(found, wanted, check_freq=False)


def test_series_without_a_name_are_put_one_after_the_other(library: adb.Library) -> None:
    for first, second in ((None, None), ("", "b"), (None, "b")):
        library.write("x", pd.Series([1.0, 2.0], name=first))
        library.write("y", pd.Series([3.0], name=second))
        found = adb.concat(library.read_batch(["x", "y"], lazy=True)).collect().data
        pd.testing.assert_series_equal(found, pd.Series([1.0, 2.0, 3.0]))


def test_a_part_of_the_rows_has_start_and_step_of_their_index(library: adb.Library) -> None:
    library.write("x", pd.DataFrame({"a": range(4)}, pd.RangeIndex(5, 13, 2)))
    found = library.read("x", row_range=(1, 3)).data
    pd.testing.assert_frame_equal(found, pd.DataFrame({"a": [1, 2]}, pd.RangeIndex(5, 9, 2)))
    assert library.head("x", 2, columns=[]).data.index.equals(pd.RangeIndex(5, 9, 2))


def test_an_update_takes_the_rows_in_its_range(library: adb.Library) -> None:
    library.write("x", _frame(0, 6))
    library.update("x", _frame(10, 16), date_range=(TIMES[2], TIMES[3]))
    assert list(library.read("x").data["a"]) == [0, 1, 12, 13, 4, 5]
    assert library.update("x", _frame(0, 0), metadata={"n": 1}).metadata == {"n": 1}
    assert library.read("x").metadata == {"n": 1}


def test_times_that_go_back_are_refused_or_written_without_a_time_index(
    library: adb.Library,
) -> None:
    back = _frame(0, 3)[::-1]
    with pytest.raises(exceptions.UnsortedDataException, match="sort_index"):
        library.write("x", back)
    library.write("x", back, validate_index=False)
    pd.testing.assert_frame_equal(library.read("x").data, back, check_freq=False)
    assert library.get_description("x").sorted == "UNKNOWN"


def test_staged_rows_are_sorted_by_columns(library: adb.Library) -> None:
    mixed = pd.DataFrame({"b": [1, 0, 2], "c": list("xyz")}, TIMES[[1, 1, 0]].rename("t"))
    library.stage("x", mixed, sort_columns=["t", "b"])
    library.finalize_staged_data("x")
    assert list(library.read("x").data["c"]) == ["z", "y", "x"]
    library.stage("y", mixed, sort_on_index=True, sort_columns=["b"])
    library.finalize_staged_data("y")
    assert list(library.read("y").data["c"]) == ["z", "y", "x"]


@pytest.mark.parametrize(
    "given",
    [
        pd.Timestamp("2024-01-01 00:00:00.000000001"),
        {"at": pd.Timestamp("2024-01-01", tz="Asia/Tokyo"), "list": [datetime(2024, 1, 2), 3]},
        {"arcticdb.timestamp": "not one"},
    ],
)
def test_times_are_kept_as_metadata(library: adb.Library, given: object) -> None:
    library.write("x", _frame(0, 1), metadata=given)
    assert library.read_metadata("x").metadata == given


def test_a_snapshot_that_is_not_there_is_never_a_time(library: adb.Library) -> None:
    library.write("x", _frame(0, 1))
    with pytest.raises(exceptions.NoSuchVersionException, match="no tag '2100-01-01'"):
        library.read("x", as_of="2100-01-01")


@pytest.mark.parametrize("name", ["end of day", "It's ©", "2024", "a\\b", "plain"])
def test_snapshots_have_names_that_tags_have_not(library: adb.Library, name: str) -> None:
    library.write("x", _frame(0, 1))
    library.snapshot(name)
    library.write("x", _frame(0, 2))
    library.write("y", _frame(0, 2))
    assert len(library.read("x", as_of=name).data) == 1
    assert list(library.list_snapshots()) == [name]
    assert library.list_symbols(snapshot_name=name) == ["x"]
    assert [list(v.snapshots) for v in library.list_versions("x").values()] == [[], [name]]
    library.delete_snapshot(name)
    assert not library.list_snapshots()


def test_errors_of_a_batch_have_codes_and_the_version_asked_for(library: adb.Library) -> None:
    library.write("x", _frame(0, 2))
    found = library.read_batch(
        [
            adb.ReadRequest("nope"),
            adb.ReadRequest("x", as_of=99),
            adb.ReadRequest("x", as_of="gone"),
            adb.ReadRequest("x", as_of=datetime(1990, 1, 1)),
            adb.ReadRequest("x", columns=["b"]),
        ]
    )
    missing = (adb.ErrorCode.E_NO_SUCH_VERSION, adb.ErrorCategory.MISSING_DATA)
    kinds = adb.VersionRequestType
    assert [(e.error_code, e.error_category) for e in found[:4]] == [missing] * 4
    assert [(e.version_request_type, e.version_request_data) for e in found[:4]] == [
        (kinds.LATEST, None),
        (kinds.SPECIFIC, 99),
        (kinds.SNAPSHOT, "gone"),
        (kinds.TIMESTAMP, int(datetime(1990, 1, 1).timestamp() * 1e9)),
    ]
    assert found[4].error_category is adb.ErrorCategory.SCHEMA
    refused = library.write_batch([adb.WritePayload("z", 1)])[0]
    assert isinstance(refused, adb.DataError)
    assert refused.version_request_type is None
    assert refused.error_category is adb.ErrorCategory.USER_INPUT


def test_what_has_no_name_or_time_is_described_without(library: adb.Library) -> None:
    library.write("x", _frame(0, 2))
    library.write("y", pd.DataFrame({"a": [1]}))
    assert [each.name for each in library.get_description("x").index] == [None]
    assert np.isnat(library.get_description("y").date_range).all()


def test_a_column_whose_name_is_empty_is_renamed(library: adb.Library) -> None:
    library.store.write("x", pd.Series([1, 2], name=""))
    found = library.store.scan("x").rename({"": "n"}).collect()
    assert found["n"].to_pylist() == [1, 2]
    with pytest.raises(exceptions.UserInputException, match="no column name"):
        library.store.scan("x").rename({"": ""})


def test_rows_behind_none_bring_their_columns_and_index(library: adb.Library) -> None:
    library.write("x", pd.DataFrame({"a": pd.Series([], dtype="int64"), "b": []}))
    first = pd.DataFrame({"a": [1.5], "b": ["text"]}, TIMES[:1])
    second = pd.DataFrame({"a": [2.5, 3.5], "b": ["u", "v"]}, TIMES[1:3])
    library.append("x", first)
    library.append("x", second)
    found = library.read("x").data
    pd.testing.assert_frame_equal(found, pd.concat([first, second]), check_freq=False)


@pytest.mark.parametrize("place", ["mem://", "folder"])
def test_libraries_of_a_place(tmp_path: Path, place: str) -> None:
    if place == "folder":
        place = str(tmp_path / "place")
    arctic = adb.Arctic(place)
    assert (arctic.get_uri(), arctic.list_libraries()) == (place, [])
    assert "Arctic(" in repr(arctic)
    arctic.get_library("desk/a", create_if_missing=True).write("x", _frame(0, 2))
    arctic.create_library("b")
    assert arctic.list_libraries() == ["b", "desk/a"]
    assert ("b" in arctic, "c" in arctic) == (True, False)
    assert len(arctic.get_library("desk/a", create_if_missing=True).read("x").data) == 2
    with pytest.raises(exceptions.LibraryNotFound):
        arctic["c"]
    with pytest.raises(ValueError, match="library 'b' exists already"):
        arctic.create_library("b")
    with pytest.raises(ts.TesselError, match="no name of a library"):
        arctic.create_library("../c")
    arctic.delete_library("c")
    arctic.delete_library("desk/a")
    assert arctic.list_libraries() == ["b"]


def test_libraries_in_a_cloud_are_neither_listed_nor_deleted() -> None:
    arctic = adb.Arctic("s3://bucket/place")
    with pytest.raises(ts.TesselError, match="are not listed"):
        arctic.list_libraries()


@pytest.mark.parametrize("index", [pd.RangeIndex(10), pd.RangeIndex(5, 25, 2)])
@pytest.mark.parametrize("n", [3, -3])
def test_an_index_alone_tells_the_places_of_its_rows(
    library: adb.Library, index: pd.RangeIndex, n: int
) -> None:
    library.write("x", pd.DataFrame({"a": range(10)}, index))
    assert library.tail("x", n, columns=[]).data.index.equals(index[-n:])
    assert library.head("x", n, columns=[]).data.index.equals(index[:n])


@pytest.mark.parametrize("place", [None, 5, b"x", "", "lmdb://"])
def test_what_names_no_place_is_refused(place: object) -> None:
    with pytest.raises(InvalidInputError, match="names no place of libraries"):
        adb.Arctic(place)


def test_a_place_is_a_path_too(tmp_path: Path) -> None:
    adb.Arctic(tmp_path).create_library("a")
    assert adb.Arctic(f"lmdb://{tmp_path}").list_libraries() == ["a"]


@pytest.mark.parametrize("index_column", [True, "a"])
def test_frames_of_pandas_have_no_index_column(library: adb.Library, index_column: object) -> None:
    said = "of Arrow or Polars" if index_column is True else "'a' is neither True nor False"
    for write in (library.write, library.append):
        with pytest.raises(InvalidInputError, match=said):
            write("x", _frame(0, 2), index_column=index_column)
    table = pa.table({"t": TIMES, "a": range(6)})
    library.write("x", table, index_column=True)
    assert library.store.view("x").schema.index == "t"
    with pytest.raises(InvalidInputError, match="no table"):
        library.update("x", None)
