"""Tables put aside come back as they were, within what may be held, and leave nothing behind."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.clauses.custom  # noqa: F401  (registers its clauses)
from tessel.clauses import QueryBuilder
from tessel.clauses.spill import Account, SpillBuffer, SpillFile, Workspace, workspace_of
from tessel.ecs import ProcessingUnit
from tessel.errors import ClauseFailedError, SpillError
from tessel.expression.schema import TableSchema
from tessel.options import Options, options
from tessel.pipeline.executor import LocalExecutor
from tests.clauses.helpers import events, stored
from tests.strategies.tables import bits, tables

Q = QueryBuilder()


def _same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.equals(expected.schema, check_metadata=True)
    for name in expected.column_names:
        assert bits(found.column(name)) == bits(expected.column(name))


def _open_files(directory: Path) -> list[str]:
    """Return what this process has open in a directory; files without a name among them."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith(str(directory)):
            found.append(target)
    return found


@settings(max_examples=60)
@given(drawn=st.lists(tables(), max_size=4), limit=st.sampled_from([0, 50, 400, 1 << 20]))
def test_tables_come_back_as_they_were(drawn: list[pa.Table], limit: int) -> None:
    account = Account(2 * limit)
    with SpillBuffer(account) as buffer:
        buffered = [buffer.put(table) for table in drawn]
        assert buffer.held <= limit
        assert account.alive == buffer.held
        for each, table in reversed(list(zip(buffered, drawn, strict=True))):
            _same(buffer.read(each), table)
            _same(buffer.take(each), table)
    assert account.alive == 0


def test_chunks_with_dictionaries_of_their_own_come_back() -> None:
    parts = [["a", "b"], ["c"], [None], ["b", "a"]]
    table = pa.table({"s": pa.chunked_array([pa.array(p).dictionary_encode() for p in parts[:2]])})
    more = pa.table(
        {"s": pa.chunked_array([pa.array(p, pa.string()).dictionary_encode() for p in parts])}
    )
    with SpillFile() as file:
        for each in (table, more, table.slice(1), table.slice(0, 0)):
            assert file.read(file.write(each)).equals(each)


def test_threads_read_side_by_side() -> None:
    wanted = [pa.table({"n": np.arange(number, number + 5000)}) for number in range(8)]
    with SpillFile() as file:
        blocks = [file.write(table) for table in wanted]
        wrong: list[int] = []

        def read() -> None:
            for _ in range(10):
                for number, block in enumerate(blocks):
                    if not file.read(block).equals(wanted[number]):
                        wrong.append(number)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


@settings(max_examples=100)
@given(data=st.data())
def test_damage_is_an_error_and_never_an_answer(data: st.DataObject) -> None:
    table = pa.table({"n": list(range(40)), "s": ["text"] * 40})
    with SpillFile() as file:
        block = file.write(table)
        at = data.draw(st.integers(0, block.length - 1))
        change = data.draw(st.integers(1, 255))
        held: IO[bytes] = file._file  # type: ignore[assignment]
        if data.draw(st.booleans()):
            held.seek(at)
            byte = held.read(1)[0]
            held.seek(at)
            held.write(bytes([byte ^ change]))
        else:
            held.truncate(at)
        with pytest.raises(SpillError, match="40 rows that was put aside came back damaged"):
            file.read(block)


def test_a_place_that_is_not_there_and_a_full_disk_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"n": [1]})
    with SpillFile(str(tmp_path / "none")) as file, pytest.raises(SpillError) as caught:
        file.write(table)
    assert "none" in str(caught.value)
    assert "spill_directory" in str(caught.value.hint)

    class Full:
        def seek(self, at: int) -> int:
            return at

        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with SpillFile() as file, pytest.raises(SpillError, match="No space left"):
        file.write(table)


def test_a_workspace_closes_what_is_open(tmp_path: Path) -> None:
    def failing() -> None:
        with Workspace(Options(live_bytes=0, spill_directory=str(tmp_path))) as workspace:
            buffer, file = workspace.spill_buffer(), workspace.file()
            buffer.put(pa.table({"n": [1]}))
            file.write(pa.table({"n": [1]}))
            assert len(_open_files(tmp_path)) == 2
            assert list(tmp_path.iterdir()) == []  # nobody else can find them
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert _open_files(tmp_path) == []


def test_units_without_a_query_get_a_workspace_of_their_own() -> None:
    schema = TableSchema(pa.schema([("n", pa.int64())]))
    with options(live_bytes=8), workspace_of([ProcessingUnit(0, schema)]) as found:
        assert found.account.limit == 8
    with Workspace(Options()) as workspace, workspace_of(workspace.stream(iter([]))) as found:
        assert found is workspace


# --- barriers -------------------------------------------------------------------------------------

MEDIANS = Q.groupby("k").agg(m=("n", "median"), n=("n", "nunique"))


def _rows(count: int) -> dict[str, Any]:
    return {"k": [n % 97 for n in range(count)], "n": [n * 7919 % 1000 for n in range(count)]}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_barrier_stays_in_the_budget(workers: int) -> None:
    store = stored(_rows(4000), rows=50)
    expected = store.read("x", query=MEDIANS).to_arrow()
    with (
        options(workers=workers, live_bytes=16_000, hash_bucket_bytes=1_000, inline_bytes=0),
        events("memory.alive") as alive,
        events("spill.write") as written,
        events("spill.read") as read,
    ):
        assert store.read("x", query=MEDIANS).to_arrow().equals(expected)
    assert max(event.attributes["bytes"] for event in alive) <= 16_000
    assert alive[-1].attributes["bytes"] == 0
    total = sum(event.attributes["bytes"] for event in written)
    assert total > 3 * 16_000
    assert sum(event.attributes["bytes"] for event in read) == total


def test_nothing_is_written_where_all_fits() -> None:
    store = stored(_rows(100), rows=10)
    with events("spill.write") as written:
        store.read("x", query=MEDIANS)
    assert written == []


def _parts(store: Any, query: QueryBuilder, directory: Path) -> Iterator[pa.Table]:
    plan = store.scan("x").then(*query.clauses).plan()
    return LocalExecutor(
        Options(workers=2, live_bytes=0, inline_bytes=0, spill_directory=str(directory))
    ).run(plan)


def test_nothing_is_left_by_an_error_or_an_iterator_that_is_closed(tmp_path: Path) -> None:
    store = stored(_rows(200), rows=10)
    opened: list[int] = []
    with events("spill.read"):
        parts = _parts(store, MEDIANS, tmp_path)
        next(parts)
        opened.append(len(_open_files(tmp_path)))
        parts.close()  # type: ignore[attr-defined]
    assert opened[0] >= 1
    assert _open_files(tmp_path) == []
    parts = _parts(store, MEDIANS, tmp_path)
    next(parts)
    del parts
    gc.collect()
    assert _open_files(tmp_path) == []
    failing = MEDIANS.fails_above("m", 10)
    with pytest.raises(ClauseFailedError):
        list(_parts(store, failing, tmp_path))
    assert _open_files(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(_rows(200), rows=10)
    write = SpillFile.write
    count = 0

    def interrupted(self: SpillFile, table: pa.Table) -> Any:
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt
        return write(self, table)

    monkeypatch.setattr(SpillFile, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(_parts(store, MEDIANS, tmp_path))
    assert count == 5
    assert _open_files(tmp_path) == []


@pytest.mark.parametrize(("limit_mb", "worth_mb"), [(0, 4), (64, 8), (256, 256)])
def test_free_memory_is_given_back_after_so_much_has_passed(limit_mb: int, worth_mb: int) -> None:
    account = Account(limit_mb << 20)
    passed = [account.passes(1 << 20) for _ in range(600)]
    assert passed == [at % worth_mb == 0 for at in range(1, 601)]
