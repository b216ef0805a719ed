"""Compacting changes no answer, whatever was done to a symbol before, meanwhile and after."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.errors import (
    CommitConflictError,
    InvalidInputError,
    ReadOnlyStoreError,
    SymbolNotFoundError,
)
from tessel.options import options
from tessel.store import Repository, Transaction
from tessel.store.history.rebase import MATRIX
from tessel.store.operations.reading import Reader
from tests.store.helpers import read

TARGET = 6


def _frame(times: range | list[int], x: int = 0) -> pa.Table:
    listed = list(times)
    return pa.table(
        {
            "t": pa.array(listed, pa.int64()),
            "x": pa.array([x + n for n in range(len(listed))], pa.int32()),
            "word": pa.array(
                [f"{x}:{n % 3}" for n in range(len(listed))], pa.string()
            ).dictionary_encode(),
            "y": pa.array([None if n % 4 == 0 else n / 8 for n in range(len(listed))]),
        }
    )


def _pieces(repository: Repository) -> list[int]:
    """Return the rows of each row slice."""
    index = repository.view("s").index()
    return [int(n) for n in index.slice_row_end - index.slice_row_start]


# --- the result is invisible ----------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 9)),
        st.tuples(st.just("delete"), st.integers(0, 30), st.integers(1, 7)),
        st.tuples(st.just("update"), st.integers(0, 30), st.integers(1, 7)),
        st.tuples(st.just("column"), st.booleans()),
        st.tuples(st.just("drop")),
        st.tuples(st.just("compact"), st.integers(1, 9)),
    ),
    max_size=6,
)


@settings(max_examples=25)
@given(acts=steps, target=st.integers(1, 12), rows=st.integers(1, 5), columns=st.integers(1, 4))
def test_no_answer_changes(
    acts: list[tuple[int, ...]], target: int, rows: int, columns: int
) -> None:
    store = Store.open("memory://")
    with options(segment_rows=rows, segment_columns=columns):
        store.write("s", _frame(range(12)), index="t")
        for number, act in enumerate(acts):
            _act(store, act, number)
        before = store.view("s")
        expected = read(before)
        planned = store.compact("s", target=target, dry_run=True)
        report = store.compact("s", target=target)
        after = store.view("s")
        found = read(after)
        assert found.schema == expected.schema
        assert found.to_pydict() == expected.to_pydict()
        assert (after.schema, after.column_ids, after.metadata) == (
            before.schema,
            before.column_ids,
            before.metadata,
        )
        assert report.segments_after == planned.segments_after
        assert report.rows_rewritten == planned.rows_rewritten
        dropped = ("drop",) in acts  # the segments of a dropped column are there until compacted
        if not dropped:
            assert report.segments_before == len(before.index())
            assert report.segments_after == len(after.index())
        assert report.segments_after <= report.segments_before
        again = store.compact("s", target=target)
        assert again.rows_rewritten == 0
        assert again.version == store.newest == report.version
        if "y" not in after.schema:
            return
        for condition in ("x > 3", "word == '0:1'", "y < 0.5"):
            query = QueryBuilder().filter(condition).tail(9)
            one, two = (store.read("s", query=query, as_of=v.version) for v in (before, after))
            assert one.to_arrow().to_pydict() == two.to_arrow().to_pydict()


def _act(store: Store, act: tuple[int, ...], number: int) -> None:
    view = store.view("s")
    count = view.row_count
    kind, *arguments = act
    if kind == "append":
        last = read(view).column("t").to_pylist()[-1:] or [0]
        frame = _frame(range(last[0], last[0] + arguments[0]), 100 * number)
        store.append("s", _as_is(frame, view.schema.names), evolve="add")
    elif kind == "delete":
        start = min(arguments[0], count)
        store.delete_rows("s", rows=(start, min(start + arguments[1], count)))
    elif kind == "update":
        low, width = arguments
        frame = _as_is(_frame(range(low, low + width), 1000 + number), view.schema.names)
        store.update("s", frame, evolve="add")
    elif kind == "column":
        values = list(range(count)) if arguments[0] else None
        store.add_column("s", f"n{number}", values, data_type=pa.int64())
    elif kind == "drop" and "y" in view.schema:
        store.drop_column("s", "y")
    elif kind == "compact":
        store.compact("s", target=arguments[0])


def _as_is(frame: pa.Table, names: list[str]) -> pa.Table:
    for name in names:
        if name not in frame.column_names:
            frame = frame.append_column(name, pa.array([7] * frame.num_rows, pa.int64()))
    return frame.select(names)


# --- what it does ---------------------------------------------------------------------------------


def _many_small() -> Repository:
    repository = Repository.open("memory://")
    with options(segment_rows=TARGET):
        repository.write("s", _frame(range(2 * TARGET)), index="t")
        for number in range(7):
            repository.append("s", _frame([100 + number], number))
    return repository


def test_small_segments_become_full_ones_and_full_ones_stay() -> None:
    repository = _many_small()
    assert _pieces(repository) == [6, 6, *[1] * 7]
    index = repository.view("s").index()
    full = {index.source(position).key for position in range(2)}
    planned = repository.compact("s", target=TARGET, dry_run=True)
    assert repository.newest == 8
    assert (planned.dry_run, planned.version) == (True, 8)
    assert (planned.segments_before, planned.segments_after) == (9, 4)
    report = repository.compact("s", target=TARGET)
    assert report.version == repository.newest == 9
    assert _pieces(repository) == [6, 6, 6, 1]
    assert (report.rows_rewritten, report.segments_before, report.segments_after) == (7, 9, 4)
    assert report.bytes_after < report.bytes_before
    index = repository.view("s").index()
    assert {index.source(position).key for position in range(2)} == full
    assert repository.log("s")[0].change == "compact"
    assert _pieces(Repository.open(repository.uri, create=False)) == [6, 6, 6, 1]


def test_what_edits_left_of_segments_is_put_together() -> None:
    repository = Repository.open("memory://")
    with options(segment_rows=TARGET):
        repository.write("s", _frame(range(4 * TARGET)), index="t")
        repository.delete_rows("s", where="x % 2 == 1 and x < 12")
        repository.update("s", _frame([20], 5), date_range=(20, 20))
        before = read(repository.view("s"))
        assert max(_pieces(repository)) <= TARGET
        assert len(_pieces(repository)) > 8
        repository.compact("s")
        assert read(repository.view("s")).to_pydict() == before.to_pydict()
        assert _pieces(repository) == [6, 6, 6]
    extents = repository.at(None).snapshot["s"].manifests
    assert (extents[0].first_time, extents[-1].last_time) == (0, 23)


def test_a_segment_of_which_little_is_left_is_written_anew() -> None:
    repository = Repository.open("memory://")
    repository.write("s", _frame(range(1000)), index="t")
    repository.delete_rows("s", rows=(400, 1000))
    kept = repository.compact("s", target=2000)
    assert kept.rows_rewritten == 400
    assert kept.bytes_after < kept.bytes_before
    repository.delete_rows("s", rows=(300, 400))
    assert repository.compact("s", target=2000).rows_rewritten == 0


def test_columns_that_came_later_join_the_others() -> None:
    repository = Repository.open("memory://")
    with options(segment_rows=TARGET):
        repository.write("s", _frame(range(2 * TARGET)), index="t")
        repository.add_column("s", "z", list(range(2 * TARGET)))
        before = read(repository.view("s"))
        report = repository.compact("s")
        assert (report.segments_before, report.segments_after) == (4, 2)
        assert read(repository.view("s")).to_pydict() == before.to_pydict()


def test_it_holds_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is never read whole: what was read before has been written when more is asked for."""
    repository = Repository.open("memory://")
    repository.write("s", _frame([0]), index="t")
    for number in range(60):
        repository.append("s", _frame([number], number))
    put = type(repository.objects).put_if_absent
    original = Reader.slice
    events: list[str] = []
    monkeypatch.setattr(
        type(repository.objects),
        "put_if_absent",
        lambda self, name, data: events.append(name[:3]) or put(self, name, data),  # type: ignore[func-returns-value]
    )
    monkeypatch.setattr(
        Reader,
        "slice",
        lambda self, number: events.append("read") or original(self, number),  # type: ignore[func-returns-value]
    )
    monkeypatch.setattr("tessel.store.segment.writer.SMALL_SEGMENT_BYTES", 0)
    # How far the caller is ahead of several threads depends on which of them runs first.
    monkeypatch.setattr("tessel.store.maintenance.leases._PUTS_IN_FLIGHT", 1)
    repository.compact("s", target=10)
    puts = [at for at, event in enumerate(events) if event == "seg"]
    assert len(puts) == 7
    reads = [sum(event == "read" for event in events[:at]) for at in puts]
    assert all(seen <= 10 * (number + 1) + 20 for number, seen in enumerate(reads)), reads


def test_of_a_symbol_in_one_piece_nothing_is_written() -> None:
    repository = Repository.open("memory://")
    repository.write("s", _frame(range(5)), index="t")
    repository.write("none", _frame([]), index="t")
    for symbol in ("s", "none"):
        report = repository.compact(symbol)
        assert (report.rows_rewritten, report.version, report.dry_run) == (0, 2, False)
        assert repository.compact(symbol, dry_run=True).dry_run
    assert repository.newest == 2


def test_a_read_only_store_can_be_looked_at() -> None:
    repository = _many_small()
    frozen = Repository.open(repository.uri, read_only=True)
    assert frozen.compact("s", target=TARGET, dry_run=True).segments_after == 4
    with pytest.raises(ReadOnlyStoreError):
        frozen.compact("s", target=TARGET)


# --- beside others --------------------------------------------------------------------------------

Act = Callable[[Transaction], None]

BESIDE: dict[str, Act] = {
    "append": lambda tx: tx.append("s", _frame([200, 201], 50)),
    "update": lambda tx: tx.update("s", _frame([2, 3, 3], 60), date_range=(2, 4)),
    "upsert": lambda tx: tx.upsert("s", _frame([2, 300], 70), keys=["t"]),
    "delete rows": lambda tx: tx.delete_rows("s", rows=(1, 4)),
    "rename column": lambda tx: tx.rename_columns("s", {"y": "yy"}),
    "add column": lambda tx: tx.add_column("s", "n", data_type=pa.int8()),
    "drop column": lambda tx: tx.drop_column("s", "y"),
    "widen": lambda tx: tx.widen("s", {"x": "int64"}),
    "metadata": lambda tx: tx.set_metadata("s", {"who": "they"}),
}
"""Changes that are not of the rows that are compacted, those from 12 on."""

AGAINST: dict[str, Act] = {
    "write": lambda tx: tx.write("s", _frame([1, 2]), index="t"),
    "delete": lambda tx: tx.delete("s"),
    "rename": lambda tx: tx.rename_symbol("s", "z"),
    "fill column": lambda tx: tx.add_column("s", "f", 1),
    "update": lambda tx: tx.update("s", _frame([102]), date_range=(102, 102)),
    "delete rows": lambda tx: tx.delete_rows("s", rows=(13, 14)),
    "compact": lambda tx: tx.compact("s", target=TARGET),
}
"""Changes of the rows that are compacted, or of everything."""


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("ours_first", [True, False])
def test_it_lands_beside_others(name: str, ours_first: bool) -> None:
    alone = _many_small()
    with alone.transaction() as tx:
        BESIDE[name](tx)
    expected = read(alone.view("s"))
    repository = _many_small()
    late, early = repository.transaction(), repository.transaction()
    for transaction in (late, early):
        if (transaction is early) == ours_first:
            transaction.compact("s", target=TARGET)
        else:
            BESIDE[name](transaction)
    early.commit()
    late.commit()
    view = repository.view("s")
    assert read(view).to_pydict() == expected.to_pydict()
    assert view.schema == alone.view("s").schema
    assert len(_pieces(repository)) < len(_pieces(alone))
    assert MATRIX["compact", name] in ("lands", "rows")
    assert MATRIX[name, "compact"] == "lands"


@pytest.mark.parametrize("name", AGAINST)
def test_it_does_not_land_after_what_changed_its_rows(name: str) -> None:
    alone = _many_small()
    with alone.transaction() as tx:
        AGAINST[name](tx)
    repository = _many_small()
    late = repository.transaction()
    late.compact("s", target=TARGET)
    with repository.transaction() as tx:
        AGAINST[name](tx)
    with pytest.raises(CommitConflictError, match="version 9 came first"):
        late.commit()
    assert repository.symbols() == alone.symbols()
    for symbol in alone.symbols():
        found, expected = (read(each.view(symbol)) for each in (repository, alone))
        assert found.to_pydict() == expected.to_pydict()
    assert MATRIX["compact", name] in ("conflict", "rows")


def test_a_serializable_reader_is_not_disturbed() -> None:
    repository = _many_small()
    reader = repository.transaction(isolation="serializable")
    reader.read("s")
    reader.write("other", _frame([1]))
    repository.compact("s", target=TARGET)
    assert reader.commit() == 10


def test_in_a_transaction_with_other_changes() -> None:
    repository = _many_small()
    with repository.transaction() as tx:
        tx.append("s", _frame([500]))
        tx.compact("s", target=TARGET)
        tx.delete_rows("s", rows=(0, 1))
    assert read(repository.view("s")).column("t").to_pylist() == [
        *range(1, 12),
        *range(100, 107),
        500,
    ]


def test_misuse_is_refused() -> None:
    repository = _many_small()
    for target in (0, -1, 1.5, True, "6"):
        with pytest.raises(InvalidInputError, match="target="):
            repository.compact("s", target=target)  # type: ignore[arg-type]
    with pytest.raises(SymbolNotFoundError, match="'S'"):
        repository.compact("S")
    assert repository.newest == 8
