"""The k-way merge against Polars: a stable sort by time of all inputs, one after another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import IndexColumnError, SchemaMismatchError, UnsortedIndexError
from tessel.store.index_column import Run, merge_ordered

SCHEMA = pa.schema([("t", pa.int64()), ("input", pa.int16()), ("row", pa.int32())])

inputs = st.lists(st.lists(st.integers(0, 12), max_size=14).map(sorted), max_size=5)


def _table(at: int, times: Sequence[int]) -> pa.Table:
    return pa.table(
        [pa.array(times), pa.array([at] * len(times)), pa.array(range(len(times)))],
        names=SCHEMA.names,
    ).cast(SCHEMA)


def _pieces(table: pa.Table, cuts: Sequence[int]) -> Iterator[pa.Table]:
    bounds = sorted({0, table.num_rows, *(cut % (table.num_rows + 1) for cut in cuts)})
    for start, stop in itertools.pairwise(bounds):
        yield table.slice(start, stop - start)
    yield table.slice(0, 0)


@settings(max_examples=200)
@given(times=inputs, cuts=st.lists(st.integers(0, 20), max_size=6), late=st.booleans())
def test_it_is_a_stable_sort(times: list[list[int]], cuts: list[int], late: bool) -> None:
    tables = [_table(at, each) for at, each in enumerate(times)]
    runs = [
        Run(_pieces(table, cuts), f"input {at}", each[0] - at % 2 if late and each else None)
        for at, (table, each) in enumerate(zip(tables, times, strict=True))
    ]
    found = pa.concat_tables([SCHEMA.empty_table(), *merge_ordered(runs, SCHEMA, "t")])
    everything = pl.from_arrow(pa.concat_tables([SCHEMA.empty_table(), *tables]))
    assert isinstance(everything, pl.DataFrame)
    assert found.to_pydict() == everything.sort("t", maintain_order=True).to_dict(as_series=False)


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp("ns", "Asia/Tokyo"), pa.date32(), pa.date64(), pa.int8(), pa.uint32()],
    ids=str,
)
def test_any_index_and_any_columns(kind: pa.DataType) -> None:
    day = 86_400_000 if pa.types.is_date64(kind) else 1
    runs, expected = [], []
    for at, word in enumerate(["low", "high"]):
        times = [(2 * n + at) * day for n in range(4)]
        words = pa.array([word, None] * 2).dictionary_encode()
        lists = pa.array([[at], None, [], [None, n]] if (n := at) is not None else [])
        column = pa.array(times, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
        runs.append(pa.table({"x": words, "t": column, "l": lists}))
        expected += zip(column.to_pylist(), words.to_pylist(), lists.to_pylist(), strict=True)
    schema = runs[0].schema
    merged = merge_ordered([Run([run], str(at)) for at, run in enumerate(runs)], schema, "t")
    found = pa.concat_tables(merged)
    assert found.schema == schema
    rows = [tuple(row[name] for name in ("t", "x", "l")) for row in found.to_pylist()]
    assert rows == sorted(expected, key=lambda row: row[0])


def test_one_table_of_each_input_is_held() -> None:
    """Inputs are taken as the merge comes to them, and those that are later not at all."""
    taken: list[tuple[int, int]] = []

    def tables(at: int, start: int) -> Iterator[pa.Table]:
        for number in range(50):
            taken.append((at, number))
            yield _table(at, range(start + number * 10, start + number * 10 + 10))

    runs = [Run(tables(at, at * 500), str(at), at * 500 if at else None) for at in range(3)]
    merged = merge_ordered(runs, SCHEMA, "t")
    for number, table in enumerate(merged):
        assert table.num_rows == 10
        assert len(taken) <= number + 3
    assert taken == [(at, number) for at in range(3) for number in range(50)]


def test_bad_inputs_are_named() -> None:
    def merged(*tables: pa.Table) -> pa.Table:
        runs = [Run([table], f"task {at}") for at, table in enumerate(tables)]
        return pa.concat_tables(merge_ordered(runs, SCHEMA, "t"))

    good = _table(0, [1, 2])
    missing = pa.table({"t": [1, None], "input": [0, 0], "row": [0, 1]}).cast(SCHEMA)
    with pytest.raises(IndexColumnError, match=r"missing in row 1(.|\n)*in input: task 1"):
        merged(good, missing)
    with pytest.raises(UnsortedIndexError, match=r"goes back in row 1(.|\n)*in input: task 0"):
        merged(_table(0, [2, 1]), good)
    with pytest.raises(SchemaMismatchError, match=r"in input: task 1") as caught:
        merged(good, good.drop_columns(["row"]))
    assert "column 'row' is missing" in str(caught.value)
