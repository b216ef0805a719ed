"""CommitStream: every row once, whatever fails."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import tessel
from tessel.errors import CommitConflictError, CommitUnknownError, InvalidInputError, StoreError
from tessel.store.rows import CommitStream, Rows, RowSchema

SCHEMA = RowSchema.from_arrow(pa.schema([("time", pa.timestamp("us")), ("number", pa.int64())]))


def batch(numbers: range) -> pa.RecordBatch:
    times = pa.array(numbers, pa.int64()).view(pa.timestamp("us"))
    return pa.record_batch({"time": times, "number": pa.array(numbers, pa.int64())})


def numbers_in(store: tessel.Store) -> list[int]:
    return store.read("s").to_arrow().column("number").to_pylist()


def test_commits_are_made_by_rows_bytes_and_time():
    store = tessel.open("memory://")
    now = 0.0
    stream = CommitStream(
        store, "s", index="time", max_rows=10, max_delay_seconds=2.0, clock=lambda: now
    )
    assert stream.position is None
    assert stream.append(batch(range(6)), 6) is None
    assert stream.append(batch(range(6, 12)), 12) == 1
    assert stream.append(batch(range(12, 13)), 13) is None
    assert (stream.position, stream.waiting_rows) == (12, 1)
    now = 2.5
    assert stream.flush_if_due() == 2
    assert stream.flush() is None
    assert numbers_in(store) == list(range(13))
    assert store.schema("s").index == "time"
    stream = CommitStream(store, "s", max_bytes=1)
    assert stream.position == 13
    assert stream.append(batch(range(13, 14)), 14) == 3


def test_leaving_the_block_commits_and_an_error_does_not():
    store = tessel.open("memory://")
    with CommitStream(store, "s") as stream:
        stream.append(batch(range(3)), 3)
    stream = CommitStream(store, "s").__enter__()
    stream.append(batch(range(3, 6)), 6)
    stream.__exit__(RuntimeError, RuntimeError(), None)
    assert numbers_in(store) == [0, 1, 2]
    assert CommitStream(store, "s").position == 3


@pytest.mark.parametrize("lands", [True, False])
def test_a_commit_of_which_nothing_is_known_is_looked_up(lands, monkeypatch):
    store = tessel.open("memory://")
    stream = CommitStream(store, "s")
    stream.append(batch(range(3)), 3)
    stream.flush()
    stream.append(batch(range(3, 6)), 6)
    commit = stream._commit

    def unknown(table: pa.Table, attempt: object) -> None:
        if lands:
            commit(table, attempt)
        raise CommitUnknownError("the server did not answer")

    monkeypatch.setattr(stream, "_commit", unknown)
    with pytest.raises(CommitUnknownError):
        stream.flush()
    assert stream.waiting_rows == 3
    monkeypatch.undo()
    stream.append(batch(range(6, 7)), 7)
    stream.flush()
    assert numbers_in(store) == list(range(7))
    assert stream.position == 7


def test_a_failed_commit_keeps_its_rows_waiting(monkeypatch):
    store = tessel.open("memory://")
    stream = CommitStream(store, "s")

    def fail(*_: object) -> None:
        raise StoreError("full")

    stream.append(batch(range(3)), 3)
    monkeypatch.setattr(stream, "_commit", fail)
    with pytest.raises(StoreError):
        stream.flush()
    monkeypatch.undo()
    assert stream.flush() == 1
    assert numbers_in(store) == [0, 1, 2]


def test_of_two_streams_the_one_opened_last_goes_on():
    store = tessel.open("memory://")
    first = CommitStream(store, "s")
    first.append(batch(range(3)), 3)
    first.flush()
    second = CommitStream(store, "s")
    second.append(batch(range(3, 5)), 5)
    second.flush()
    first.append(batch(range(3, 9)), 9)
    with pytest.raises(CommitConflictError, match="another stream"):
        first.flush()
    assert numbers_in(store) == list(range(5))


def test_other_metadata_of_the_symbol_stay():
    store = tessel.open("memory://")
    stream = CommitStream(store, "s")
    stream.append(batch(range(1)), 1)
    stream.flush()
    store.set_metadata("s", {**store.view("s").metadata, "owner": "me"})
    stream.append(batch(range(1, 2)), 2)
    stream.flush()
    assert store.view("s").metadata["owner"] == "me"


def test_what_cannot_be_is_refused():
    store = tessel.open("memory://")
    store.write("s", {"a": [1]})
    with pytest.raises(InvalidInputError, match="not written by a stream"):
        CommitStream(store, "s")
    with pytest.raises(InvalidInputError, match="positive number"):
        CommitStream(store, "t", max_rows=0)
    with pytest.raises(InvalidInputError, match="no plain JSON"):
        CommitStream(store, "t").append(batch(range(1)), {1, 2})


PROGRAM = """
import sys
import tessel
from tests.store.rows.test_commit_stream import SCHEMA
from tessel.store.rows import CommitStream, FileTail
store = tessel.open(sys.argv[1])
stream = CommitStream(store, "s", index="time", max_rows=20)
print(stream.position, flush=True)
tail = FileTail(sys.argv[2], SCHEMA, position=stream.position or 0)
with stream:
    for rows in tail.read():
        stream.append(rows.to_batch(), tail.position)
"""


def test_every_row_is_there_once_after_any_kill(tmp_path: Path):
    """A reader of a file is killed again and again, and goes on from its position."""
    path = tmp_path / "rows"
    parts = [batch(range(at, at + 7)) for at in range(0, 1400, 7)]
    tail_of_file = b"".join(Rows.from_batch(SCHEMA, part).to_bytes() for part in parts)
    path.write_bytes(tail_of_file)
    store = tmp_path / "store"
    pick = random.Random(3)
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(store), str(path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pick.random() / 10)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(store), str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert numbers_in(tessel.open(str(store))) == list(range(1400))
