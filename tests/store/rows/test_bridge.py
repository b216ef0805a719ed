"""RowBatchBridge: batches by rows, bytes, time and watermark."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import InvalidInputError, RowFormatError
from tessel.store.rows import FlushTimer, RowBatchBridge, Rows, RowSchema

SCHEMA = RowSchema.from_arrow(pa.schema([("a", pa.int64()), ("s", pa.string())]))


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rows_of(count: int) -> Rows:
    return Rows.from_batch(SCHEMA, pa.table({"a": range(count), "s": ["x"] * count}, SCHEMA.arrow))


def test_a_batch_is_full_by_rows():
    bridge = RowBatchBridge(SCHEMA, max_rows=3)
    found = [bridge.append(at, "x") for at in range(7)]
    assert [None if batch is None else batch.num_rows for batch in found] == [
        None, None, 3, None, None, 3, None,
    ]  # fmt: skip
    assert len(bridge) == 1
    assert found[5].to_pydict() == {"a": [3, 4, 5], "s": ["x"] * 3}


def test_a_batch_is_full_by_bytes():
    bridge = RowBatchBridge(SCHEMA, max_bytes=100)
    assert bridge.append(1, "x" * 50) is None
    batch = bridge.append(2, "y" * 50)
    assert batch.num_rows == 2
    assert bridge.nbytes == 0


def test_a_batch_is_due_by_time_without_new_rows():
    clock = Clock()
    bridge = RowBatchBridge(SCHEMA, max_delay_seconds=2.0, clock=clock)
    assert bridge.due_at is None
    assert bridge.flush_if_due() is None
    bridge.append(1, "x")
    clock.now += 1.5
    bridge.append(2, "x")
    assert bridge.due_at == 102.0
    assert bridge.flush_if_due() is None
    clock.now += 0.5
    assert bridge.flush_if_due().num_rows == 2
    assert bridge.due_at is None
    bridge.append(3, "x")
    assert bridge.due_at == 104.0
    assert bridge.flush_if_due(now=104.0).num_rows == 1


def test_nothing_to_flush_is_a_batch_of_no_rows():
    batch = RowBatchBridge(SCHEMA).flush()
    assert batch.num_rows == 0
    assert batch.schema == SCHEMA.arrow


def test_a_watermark_flushes_what_is_there():
    bridge = RowBatchBridge(SCHEMA)
    assert bridge.advance(10) is None
    bridge.append(1, "x")
    assert bridge.advance(10) is None
    assert bridge.advance(11).num_rows == 1
    assert bridge.watermark == 11
    with pytest.raises(InvalidInputError, match="goes back from 11 to 5"):
        bridge.advance(5)
    assert bridge.watermark == 11


@given(st.lists(st.integers(0, 20), max_size=8), st.integers(1, 7))
def test_many_rows_at_once_make_batches_of_the_size_asked(counts, max_rows):
    bridge = RowBatchBridge(SCHEMA, max_rows=max_rows)
    batches = []
    for count in counts:
        batches += bridge.extend(rows_of(count).to_bytes())
    assert all(batch.num_rows == max_rows for batch in batches)
    batches.append(bridge.flush())
    table = pa.Table.from_batches(batches, SCHEMA.arrow)
    assert table.column("a").to_pylist() == [at for count in counts for at in range(count)]


def test_a_row_that_is_wrong_leaves_the_bridge_as_it_was():
    bridge = RowBatchBridge(SCHEMA)
    bridge.append(1, "x")
    with pytest.raises(InvalidInputError):
        bridge.append("1", "x")
    with pytest.raises(RowFormatError):
        bridge.extend(rows_of(3).to_bytes()[:-1])
    assert bridge.flush().to_pydict() == {"a": [1], "s": ["x"]}


def test_the_timer_delivers_without_new_rows():
    bridge = RowBatchBridge(SCHEMA, max_delay_seconds=0.01)
    delivered: list[pa.RecordBatch] = []
    came = threading.Event()

    def deliver(batch: pa.RecordBatch) -> None:
        delivered.append(batch)
        came.set()

    with FlushTimer(bridge, deliver):
        bridge.append(1, "x")
        assert came.wait(60)
        bridge.append(2, "y")
    assert sum(batch.num_rows for batch in delivered) == 2


def test_an_error_of_who_takes_the_batches_is_not_lost():
    bridge = RowBatchBridge(SCHEMA, max_delay_seconds=0.01)
    failed = threading.Event()

    def deliver(_: pa.RecordBatch) -> None:
        failed.set()
        raise RuntimeError("full")

    timer = FlushTimer(bridge, deliver)
    timer.__enter__()
    bridge.append(1, "x")
    assert failed.wait(60)
    with pytest.raises(RuntimeError, match="full"):
        timer.__exit__(None, None, None)


def test_rows_from_several_threads_are_all_there_once():
    bridge = RowBatchBridge(SCHEMA, max_rows=10)
    found: list[pa.RecordBatch] = []

    def write(first: int) -> None:
        for at in range(first, first + 500):
            batch = bridge.append(at, str(at))
            if batch is not None:
                found.append(batch)

    threads = [threading.Thread(target=write, args=(at * 500,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.append(bridge.flush())
    table = pa.Table.from_batches(found)
    assert sorted(table.column("a").to_pylist()) == list(range(2000))
    assert table.column("s").to_pylist() == [str(at) for at in table.column("a").to_pylist()]


@pytest.mark.parametrize(
    "options", [{"max_rows": 0}, {"max_bytes": 0}, {"max_delay_seconds": 0.0}], ids=str
)
def test_thresholds_that_are_none_are_refused(options):
    with pytest.raises(InvalidInputError):
        RowBatchBridge(SCHEMA, **options)
    with pytest.raises(InvalidInputError, match="waits for ever"):
        FlushTimer(RowBatchBridge(SCHEMA, max_delay_seconds=None), print)
