"""Single rows of symbols of many segments, against pyarrow on the table that was written."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import ColumnNotFoundError, CorruptSegmentError, InvalidInputError
from tessel.expression.schema import TableSchema
from tessel.options import options
from tessel.store import Repository, SymbolView
from tessel.store.objects import MemoryObjects
from tessel.store.segment import gather
from tessel.store.segment.reader import SegmentReader
from tessel.store.view import SingleRows
from tests.store.helpers import assert_same, index_of_manifests
from tests.store.reference.segments import row_indices
from tests.strategies.tables import cut_into_segments, tables

ROWS = 150_000
SEGMENT_ROWS = 70_000
"""Two pages a segment, the last of them short, and three segments."""

PLAIN = ["t", "price", "volume", "tiny", "bits", "single", "moody", "code", "odd", "flat"]
"""Columns of which no page has nulls, exceptions or a codec in the profile ``fast``."""

ORDERS = ["sorted", "unsorted", "repeated", "backwards", "one", "one segment", "none"]


def _table() -> pa.Table:
    random = np.random.default_rng(5)
    at = np.arange(ROWS)
    moody = random.integers(0, 1 << 20, ROWS) / 100
    moody[10_000:40_000] = random.random(30_000)  # with others, exceptions of a scaled page
    moody[70_000:140_000] = -0.0
    texts = np.array([f"SYM{n:04d}" for n in range(500)])
    many = np.array([f"order {n}" for n in range(3_000)])
    names = texts[random.integers(0, 500, ROWS)]
    return pa.table(
        {
            "t": pa.array(np.cumsum(random.integers(1, 1 << 33, ROWS)), pa.timestamp("ns", "UTC")),
            "price": random.integers(5_000, 200_000, ROWS) / 100,
            "volume": random.integers(1, 5_000, ROWS),
            "tiny": random.integers(-100, 100, ROWS).astype("i1"),
            "bits": random.integers(0, (1 << 64) - 1, ROWS, np.uint64, True),
            "single": (random.integers(0, 9_999, ROWS) / 10).astype("f4"),
            "moody": np.where(at < 70_000, np.round(moody, 2), moody),
            "code": names,
            "odd": np.sqrt(2.0 + at * 7919 % 90),
            "flat": random.random(ROWS),
            "orders": many[random.integers(0, 3_000, ROWS)],
            "missing": pa.array(names, mask=random.random(ROWS) < 0.2),
            "holes": pa.array(at, mask=at % 3 == 0),
            "exceptions": np.where(at % 50 == 0, np.nan, at / 4),
            "ids": [f"{n * 7919 % ROWS:06d}" for n in range(ROWS)],
            "flag": random.integers(0, 2, ROWS) == 1,
            "category": pa.array(names).dictionary_encode(),
            "many": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * ROWS)), 2),
        }
    )


@functools.cache
def _written(profile: str) -> tuple[Repository, pa.Table]:
    table = _table()
    repository = Repository.open("memory://")
    with options(segment_rows=SEGMENT_ROWS, segment_columns=7, profile=profile):
        repository.write("s", table, index="t")
    return repository, table


def _rows(order: str, rows: int = ROWS) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    random = np.random.default_rng(rows)
    if order == "none":
        return np.empty(0, np.int64)
    if order == "one":
        return np.array([rows - 1])
    if order == "backwards":
        return np.arange(rows)[::-7].copy()
    if order == "one segment":
        return random.integers(0, SEGMENT_ROWS, 50)
    picked = random.integers(0, rows, 3_000)
    if order == "repeated":
        return np.concatenate([picked[:100]] * 4)
    return np.sort(picked) if order == "sorted" else picked


def _gathered(view: SymbolView, names: Sequence[str]) -> set[str]:
    """Return the columns that one pass over the segments finds."""
    index = view.index().keep_columns(names, clause="test", reason="test")
    found: dict[str, list[bool]] = {name: [] for name in names}
    for at in range(len(index)):
        piece = index.source(at)
        arrays = view.source().gather([piece], np.zeros(1, np.int64), [1], None)
        for name, array in zip(piece.columns, arrays, strict=True):
            found[name].append(array is not None)
    return {name for name, each in found.items() if each and all(each)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("profile", ["fast", "compact"])
def test_rows_are_those_of_the_table(profile: str, order: str) -> None:
    repository, table = _written(profile)
    rows = _rows(order)
    view = repository.view("s")
    expected = table.take(pa.array(rows))
    for _ in range(2):  # pages are verified by now
        found = view.take(rows)
        found.validate(full=True)
        assert_same(found, expected)
    for names in (["price"], ["volume", "t", "ids"], ["category", "flag"]):
        assert_same(
            view.take(rows, names), expected.select(sorted(names, key=table.schema.names.index))
        )


def test_plain_columns_are_gathered_in_one_pass() -> None:
    repository, table = _written("fast")
    view = repository.view("s")
    assert _gathered(view, table.column_names) == {*PLAIN, "orders"}


def test_each_page_may_be_stored_in_another_way() -> None:
    random = np.random.default_rng(1)
    page = 65_536
    values = np.concatenate(
        [
            random.integers(0, 1 << 20, page) / 100,
            np.full(page, -0.0),
            random.random(page),
            np.full(page, np.nan),
            random.integers(0, 1 << 40, page) / 1000,
        ]
    )
    # A not-a-number that is not the usual one.
    values.view("<u8")[3 * page : 4 * page] = 0xFFF0_0000_0000_0123
    wide = np.concatenate([np.arange(page) * 7, random.integers(-(2**62), 2**62, page)] * 2)
    table = pa.table({"a": values[: 4 * page], "b": wide, "c": values[page : 5 * page]})
    table = table.append_column("d", table.column("c").cast(pa.float32()))
    repository = Repository.open("memory://")
    with options(segment_rows=3 * page):
        repository.write("s", table)
    view = repository.view("s")
    assert _gathered(view, table.column_names) == {"a", "b", "c", "d"}
    for order in ORDERS[:5]:
        rows = _rows(order, 4 * page)
        assert_same(view.take(rows), table.take(pa.array(rows)))


@pytest.mark.parametrize("order", ORDERS)
def test_large_dictionaries_are_looked_up_one_by_one(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, table = _written("fast")
    rows = _rows(order)
    names = ["code", "odd", "orders"]
    expected = table.take(pa.array(rows)).select(names)
    for few, a_row in [(0, 0), (1 << 40, 0)]:
        monkeypatch.setattr(gather, "_FEW_VALUES", few)
        monkeypatch.setattr(gather, "_VALUES_A_ROW", a_row)
        assert_same(repository.view("s").take(rows, names), expected)


def test_many_rows_are_gathered_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    repository, table = _written("fast")
    rows = _rows("unsorted")
    monkeypatch.setattr(gather, "_ROWS_AT_ONCE", 7)
    assert_same(repository.view("s").take(rows), table.take(pa.array(rows)))


@given(st.data(), st.booleans(), st.sampled_from(["fast", "compact"]))
def test_any_table(data: st.DataObject, indexed: bool, profile: str) -> None:
    table = data.draw(tables(index=indexed))
    cut = data.draw(cut_into_segments(table, index="t" if indexed else None))
    repository = Repository.open("memory://")
    with options(profile=profile):
        cut.write(repository, "s")
    view = repository.view("s")
    names = st.lists(st.sampled_from(table.column_names), unique=True, min_size=1)
    for _ in range(3):
        rows = data.draw(row_indices(table.num_rows, most=40))
        wanted = data.draw(st.none() | names)
        found = view.take(rows, wanted)
        held = [n for n in table.column_names if wanted is None or n in wanted]
        # Row by row: take() of pyarrow does not know all types.
        parts = [table.slice(row, 1) for row in rows] or [table.slice(0, 0)]
        assert_same(found.unify_dictionaries(), pa.concat_tables(parts).select(held))


def test_columns_that_no_segment_holds_are_missing() -> None:
    repository = Repository.open("memory://")
    table = pa.table({"a": range(100), "b": np.arange(100) / 4})
    with options(segment_rows=30):
        repository.write("s", table)
    view = repository.view("s")
    schema = TableSchema(view.schema.arrow.append(pa.field("new", pa.string())), None)
    ids = {**view.column_ids, "new": 77}
    state = repository.at(None).snapshot.get("s")
    assert state is not None
    manifests = [repository.manifest(entry.reference) for entry in state.manifests]
    index = index_of_manifests(state.id, manifests, schema, ids, rows=100)
    source = type(view.source())(repository.objects, schema, ids)
    rows = np.array([99, 3, 3, 60])
    expected = table.take(pa.array(rows)).append_column("new", pa.nulls(4, pa.string()))
    single = SingleRows(index, source)
    assert_same(single.take(rows, None), expected)
    assert_same(single.take(rows, ["new"]), expected.select(["new"]))
    assert_same(single.take(rows, ["new", "b"]), expected.select(["b", "new"]))


def test_no_columns_are_rows_without_columns() -> None:
    repository, _ = _written("fast")
    found = repository.view("s").take([5, ROWS - 1, 0], [])
    assert (found.num_rows, found.num_columns) == (3, 0)


def test_what_is_not_there_is_refused() -> None:
    repository, _ = _written("fast")
    view = repository.view("s")
    for rows in ([-1], [0, ROWS]):
        with pytest.raises(InvalidInputError, match="no row"):
            view.take(rows)
    for _ in range(2):
        with pytest.raises(ColumnNotFoundError, match="prise"):
            view.take([1], ["prise"])
    reader = SegmentReader(repository.objects)
    piece = view.index().source(0)
    for row in (-1, SEGMENT_ROWS):
        with pytest.raises(InvalidInputError, match=f"row {row} was asked for"):
            reader.gather([piece.key, piece.key], piece.column_ids, np.array([1, row]), [1, 2])


def test_a_view_keeps_its_rows_whatever_is_written() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1, 2]})
    old = repository.view("s")
    assert old.take([1]).to_pydict() == {"a": [2]}
    repository.append("s", {"a": [3]})
    assert repository.view("s").take([2, 0]).to_pydict() == {"a": [3, 1]}
    repository.write("s", {"a": [9, 8]})
    assert repository.view("s").take([1]).to_pydict() == {"a": [8]}
    assert old.take([1]).to_pydict() == {"a": [2]}
    assert repository.view("s", as_of=2).take([2]).to_pydict() == {"a": [3]}


def test_a_damaged_page_is_named_and_others_are_read() -> None:
    repository = Repository.open("memory://")
    values = np.random.default_rng(3).integers(0, 1 << 20, SEGMENT_ROWS)
    repository.write("s", {"a": values, "b": values / 100})
    piece = repository.view("s").index().source(0)
    segment = SegmentReader(repository.objects).open(piece.key)
    node = segment.file.top(piece.column_ids[1]).number
    start = piece.key.offset + int(segment.records(node)["offset"][1])

    damaged = MemoryObjects("memory://one-page-damaged")
    for name in repository.objects.list():
        content = bytearray(repository.objects.get(name).to_pybytes())
        if name == piece.key.object:
            content[start] ^= 1
        damaged.put_if_absent(name, bytes(content))
    view = Repository(damaged, repository.id, read_only=True).view("s")
    assert view.take([7]).column("b").to_pylist() == [values[7] / 100]
    assert view.take([SEGMENT_ROWS - 1], ["a"]).column("a").to_pylist() == [values[-1]]
    for _ in range(2):
        with pytest.raises(CorruptSegmentError, match="checksum") as caught:
            view.take([7, SEGMENT_ROWS - 1])
        assert caught.value.attributes["page"] == 1


def test_pages_are_verified_each_time_where_that_is_wanted() -> None:
    repository, table = _written("fast")
    rows = _rows("sorted")
    with options(verify_always=True):
        view = Repository.open(repository.uri, create=False).view("s")
        assert not _gathered(view, table.column_names)
        assert_same(view.take(rows), table.take(pa.array(rows)))
