"""What is written is read back, whatever the types, the cut into segments, the place."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import ColumnNotFoundError, InvalidInputError, NameNotFoundError, TesselError
from tessel.options import options
from tessel.store import Repository
from tessel.store.encodings.arrow_ipc import decode_table, encode_table
from tessel.store.physical import physical_columns
from tests.store.helpers import assert_same, load, read
from tests.strategies.tables import cut_into_segments, tables


@given(data=st.data(), index=st.booleans())
def test_any_table_in_any_cut_is_read_back(data: st.DataObject, index: bool) -> None:
    table = data.draw(tables(index=index))
    cut = data.draw(cut_into_segments(table, index="t" if index else None))
    repository = Repository.open("memory://")
    version = cut.write(repository, "symbol")

    view = repository.view("symbol")
    assert view.version == view.changed == version == len(cut.parts) + len(cut.passing)
    assert view.row_count == table.num_rows
    assert view.schema.index == cut.index
    assert view.segment_count == len(view.index())
    assert_same(read(view), table)


@given(data=st.data())
def test_any_rows_and_columns_are_read_alone(data: st.DataObject) -> None:
    table = data.draw(tables(index=True, max_rows=20))
    cut = data.draw(cut_into_segments(table, index="t"))
    repository = Repository.open("memory://")
    cut.write(repository, "symbol")
    view = repository.view("symbol")
    names = data.draw(st.lists(st.sampled_from(table.column_names), unique=True))
    start = data.draw(st.integers(0, table.num_rows + 2))
    stop = data.draw(st.integers(0, table.num_rows + 2))

    index = view.index().keep_columns(names, clause="select", reason="asked for")
    index = index.cut_rows(start, stop, clause="row_range", reason="asked for")

    expected = table.select([n for n in table.column_names if n in names])
    expected = expected.slice(start, max(0, min(stop, table.num_rows) - start))
    assert index.row_count == expected.num_rows
    assert_same(load(index, view.source()), expected)


@settings(max_examples=15)
@given(data=st.data())
def test_a_local_directory_reads_as_memory_does(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = data.draw(tables(index=True))
    cut = data.draw(cut_into_segments(table, index="t"))
    path = tmp_path_factory.mktemp("store")
    with options(fsync=False):
        cut.write(Repository.open(path), "symbol")
    reopened = Repository.open(f"file://{path}", read_only=True)
    assert_same(read(reopened.view("symbol")), table)


@given(table=tables())
def test_a_batch_goes_through_bytes(table: pa.Table) -> None:
    data = pa.py_buffer(encode_table(table).to_pybytes())
    assert_same(decode_table(data, where="a test"), table)


def test_large_segments_are_mapped_and_equal(tmp_path) -> None:
    rows = 200_000
    table = pa.table({"t": pa.array(range(rows)), "x": pa.array([i * 0.5 for i in range(rows)])})
    repository = Repository.open(tmp_path / "store")
    with options(segment_rows=64_000):
        repository.write("big", table, index="t")
    view = repository.view("big")
    assert view.index().slices == 4
    assert_same(read(view), table)


def test_the_index_lies_in_the_first_column_slice_only() -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4], "t": [5, 6], "c": [7, 8]})
    repository = Repository.open("memory://")
    with options(segment_columns=2):
        repository.write("s", table, index="t")
    view = repository.view("s")
    index = view.index()
    assert [index.source(i).columns for i in range(len(index))] == [("a", "t"), ("b", "c")]
    assert index.column_start.tolist() == [0, 2]
    assert index.column_end.tolist() == [2, 4]
    assert read(view).column_names == ["a", "b", "t", "c"]


def test_small_batches_do_not_make_small_segments() -> None:
    batches = [pa.record_batch({"x": [i]}) for i in range(25)]
    repository = Repository.open("memory://")
    with options(segment_rows=10):
        repository.write("s", iter(batches))
    index = repository.view("s").index()
    assert (index.row_end - index.row_start).tolist() == [10, 10, 5]


def _encodings_of(repository: Repository, symbol: str) -> dict[str, str]:
    columns = physical_columns(repository.view(symbol), repository.objects).to_pylist()
    return {row["column"]: row["encodings"] for row in columns}


def test_a_column_may_have_an_encoding_of_its_own() -> None:
    repository = Repository.open("memory://")
    table = pa.table({"n": [1, 2, 3, 4], "x": [0.5, 1.5, 2.5, 3.5], "s": ["a", "b", "a", "b"]})
    chosen = {"n": "delta", "x": "flat", "s": "variable"}
    repository.write("x", table, encodings=chosen)
    assert _encodings_of(repository, "x") == {"n": "delta 1", "x": "flat 1", "s": "variable 1"}
    # It is a property of the column: rows that come later, and its next name, have it too.
    repository.append("x", table)
    repository.rename_columns("x", {"n": "m"})
    repository.append("x", table.rename_columns(["m", "x", "s"]))
    reopened = Repository.open(repository.uri)
    assert _encodings_of(reopened, "x") == {"m": "delta 3", "x": "flat 3", "s": "variable 3"}
    assert_same(reopened.view("x").take(range(8, 12)), table.rename_columns(["m", "x", "s"]))
    repository.write("x", table)
    assert _encodings_of(repository, "x")["n"] == "linear 1"


@pytest.mark.parametrize(
    ("encodings", "error", "told"),
    [
        ({"m": "delta"}, ColumnNotFoundError, "n, s"),
        ({"n": "deltas"}, NameNotFoundError, "delta"),
        ({"s": "delta"}, InvalidInputError, "variable"),
    ],
)
def test_an_encoding_that_cannot_be_is_refused(
    encodings: dict[str, str], error: type[TesselError], told: str
) -> None:
    repository = Repository.open("memory://")
    with pytest.raises(error) as raised:
        repository.write("x", pa.table({"n": [1], "s": ["a"]}), encodings=encodings)
    assert told in str(raised.value)
    assert repository.newest == 0
