"""The appender against a list: every row it took is in the store, waits, or was given back."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import (
    ColumnNotFoundError,
    CommitUnknownError,
    IndexColumnError,
    InvalidInputError,
    ReadOnlyStoreError,
    SchemaMismatchError,
    StoreAccessError,
    StoreBusyError,
    SymbolNotFoundError,
    UnsortedIndexError,
)
from tessel.store import Repository
from tests.store.helpers import read


def _new(index: str | None = "t") -> Repository:
    repository = Repository.open("memory://")
    repository.write("s", _frame([0]), index=index)
    return repository


def _frame(times: list[int]) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "x": pa.array(times, pa.int32())})


def _times(repository: Repository) -> list[int]:
    found: list[int] = read(repository.view("s")).column("t").to_pylist()
    return found


def _wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something has come about; a test of the suite never waits for a time."""
    waited = threading.Event()
    while not condition():
        waited.wait(0.002)


# --- rows into commits ----------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    sizes=st.lists(st.integers(0, 7), max_size=12),
    flush_rows=st.integers(1, 12),
    flushes=st.sets(st.integers(0, 11)),
)
def test_rows_become_few_commits(sizes: list[int], flush_rows: int, flushes: set[int]) -> None:
    repository = _new()
    commits = waiting = 0
    expected = [0]
    with repository.appender("s", flush_rows=flush_rows, flush_interval_ms=None) as rows:
        for at, size in enumerate(sizes):
            fresh = list(range(len(expected), len(expected) + size))
            if at % 2:
                rows.append_rows([{"x": n, "t": n} for n in fresh])
            else:
                rows.append(_frame(fresh))
            expected += fresh
            waiting += size
            if waiting >= flush_rows:
                commits, waiting = commits + 1, 0
            assert rows.waiting_rows == waiting
            assert _times(repository) == expected[: len(expected) - waiting]
            if at in flushes:
                assert rows.flush() == (repository.newest if waiting else None)
                commits, waiting = commits + bool(waiting), 0
    assert _times(repository) == expected
    assert repository.newest == 1 + commits + bool(waiting)


def test_rows_wait_no_longer_than_they_may() -> None:
    repository = _new()
    with repository.appender("s", flush_interval_ms=1) as rows:
        for number in range(1, 4):
            rows.append(_frame([number]))
            _wait_for(lambda: rows.waiting_rows == 0)
            assert _times(repository) == list(range(number + 1))
    assert repository.newest == 4


def test_many_threads() -> None:
    repository = _new(index=None)
    with repository.appender("s", flush_rows=50, flush_interval_ms=1) as rows:

        def work(first: int) -> None:
            for number in range(100):
                rows.append_rows([{"t": first + number, "x": 0}])

        threads = [threading.Thread(target=work, args=(n * 1000,)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = _times(repository)
    assert sorted(found[1:]) == sorted(n * 1000 + m for n in range(1, 5) for m in range(100))
    for first in range(1, 5):
        own = [time for time in found if time // 1000 == first]
        assert own == sorted(own)
    assert repository.newest < 1 + 400


def test_several_appenders_lose_nothing() -> None:
    repository = _new(index=None)

    def work(first: int) -> None:
        own = Repository.open(repository.uri, create=False)
        with own.appender("s", flush_rows=3, flush_interval_ms=None) as rows:
            for number in range(30):
                rows.append_rows([{"t": first + number, "x": 0}])

    threads = [threading.Thread(target=work, args=(n * 1000,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [0, *(n * 1000 + m for n in range(1, 4) for m in range(30))]
    assert sorted(_times(repository)) == expected


def test_what_was_given_may_be_written_to_afterwards() -> None:
    repository = _new()
    values = np.arange(1, 5)
    frame = pd.DataFrame({"t": values, "x": np.arange(4, dtype=np.int32)}, copy=False)
    with repository.appender("s") as rows:
        rows.append(frame)
        values[:] = 77
        frame["t"] = 99
    assert _times(repository) == [0, 1, 2, 3, 4]


def test_columns_may_grow() -> None:
    repository = _new()
    with repository.appender("s", evolve=["add", "widen"], flush_interval_ms=None) as rows:
        rows.append_rows([{"t": 1, "x": 1}])
        rows.append_rows([{"t": 2, "word": "two"}])
        rows.append(pa.table({"t": [3], "x": pa.array([2**40])}).append_column("word", [["w"]]))
    table = read(repository.view("s"))
    assert table.to_pydict() == {
        "t": [0, 1, 2, 3],
        "x": [0, 1, None, 2**40],
        "word": [None, None, "two", "w"],
    }


# --- failures -------------------------------------------------------------------------------------


def _failing(monkeypatch: pytest.MonkeyPatch, *errors: Exception | None) -> None:
    """Let the next appends of any store fail in turn; None lets one pass."""
    original = Repository.append
    waiting = list(errors)

    def append(self: Repository, *arguments: Any, **named: Any) -> int:
        error = waiting.pop(0) if waiting else None
        if error is not None:
            raise error
        return original(self, *arguments, **named)

    monkeypatch.setattr(Repository, "append", append)


def test_a_failure_surfaces_on_the_next_call_and_its_rows_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository = _new()
    _failing(monkeypatch, StoreAccessError("no"), StoreAccessError("still no"))
    with repository.appender("s", flush_rows=2, flush_interval_ms=None) as rows:
        rows.append(_frame([1, 2]))
        assert (rows.waiting_rows, repository.newest) == (2, 1)
        with pytest.raises(StoreAccessError, match="still no"):
            rows.append(_frame([3]))
        assert rows.waiting_rows == 2
        rows.append(_frame([3]))
        assert (_times(repository), rows.waiting_rows) == ([0, 1, 2], 1)
    assert _times(repository) == [0, 1, 2, 3]


def test_a_failure_in_the_background_surfaces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = _new()
    tried = threading.Event()

    def append(self: Repository, *_: Any, **__: Any) -> int:
        tried.set()
        raise StoreBusyError("busy")

    with monkeypatch.context() as patched:
        patched.setattr(Repository, "append", append)
        rows = repository.appender("s", flush_interval_ms=1)
        rows.append(_frame([1]))
        tried.wait()
        _wait_for(lambda: rows._failure is not None)
        with pytest.raises(StoreBusyError):
            rows.append(_frame([2]))
        with pytest.raises(StoreBusyError):
            rows.flush()
        with pytest.raises(StoreBusyError):
            rows.close()
        assert rows.waiting_rows == 1
    rows.close()
    assert _times(repository) == [0, 1]


def test_rows_are_committed_also_where_the_block_raises() -> None:
    repository = _new()

    def work() -> None:
        with repository.appender("s") as rows:
            rows.append(_frame([1]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert _times(repository) == [0, 1]


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_of_unknown_end_is_looked_up_first(
    monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    repository = _new()
    original, resolve = Repository.append, Repository.resolve
    asked: list[str] = []
    state = {"answers": 0, "failed": False}

    def append(self: Repository, *arguments: Any, **named: Any) -> int:
        if state["failed"]:
            return original(self, *arguments, **named)
        state["failed"] = True
        number = original(self, *arguments, **named) if landed else 0
        commit = self.at(None).entry.commit if number else "0" * 32  # type: ignore[union-attr]
        raise CommitUnknownError("who knows", commit=commit)

    def looked_up(self: Repository, commit: str) -> int | None:
        asked.append(commit)
        if len(asked) == 1:
            raise StoreBusyError("cannot tell yet")
        return resolve(self, commit)

    monkeypatch.setattr(Repository, "append", append)
    monkeypatch.setattr(Repository, "resolve", looked_up)
    with repository.appender("s", flush_rows=100, flush_interval_ms=None) as rows:
        rows.append(_frame([1, 2]))
        with pytest.raises(CommitUnknownError):
            rows.flush()
        with pytest.raises(StoreBusyError, match="cannot tell"):
            rows.append(_frame([3]))
        rows.append(_frame([3]))
    assert _times(repository) == [0, 1, 2, 3]
    assert asked[0] == asked[1]
    assert len(asked) == 2


def test_rows_that_can_never_land_are_given_back() -> None:
    """Somebody else has appended later times: the rows stay here until they are taken back."""
    repository = _new()
    rows = repository.appender("s", flush_rows=100, flush_interval_ms=None)
    rows.append(_frame([1, 2]))
    repository.append("s", _frame([10]))
    for _ in range(2):
        with pytest.raises(UnsortedIndexError):
            rows.flush()
    assert rows.take_back().to_pydict() == _frame([1, 2]).to_pydict()
    assert rows.waiting_rows == 0
    with pytest.raises(UnsortedIndexError):
        rows.append(_frame([9]))
    rows.append(_frame([11]))
    rows.close()
    assert _times(repository) == [0, 10, 11]


def test_an_appender_that_is_forgotten_says_so() -> None:
    repository = _new()

    def forget() -> None:
        rows = repository.appender("s", flush_interval_ms=None)
        rows.append(_frame([1]))
        del rows
        gc.collect()

    with pytest.warns(ResourceWarning, match="1 rows for 's'"):
        forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        closed = repository.appender("s")
        closed.append(_frame([1]))
        closed.close()
        del closed
        gc.collect()
    assert _times(repository) == [0, 1]


def _append_elsewhere(rows: Any, answers: Any) -> None:
    try:
        rows.append(_frame([5]))
    except InvalidInputError as error:
        answers.put(str(error))


def test_it_stays_in_its_process() -> None:
    repository = _new()
    with repository.appender("s", flush_interval_ms=None) as rows:
        with pytest.raises(TypeError, match="stays in its process"):
            pickle.dumps(rows)
        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = context.Process(target=_append_elsewhere, args=(rows, answers))
            child.start()
        assert "stays in the process that made it" in answers.get()
        child.join()
    assert _times(repository) == [0]


# --- misuse ---------------------------------------------------------------------------------------


def test_misuse_is_refused_and_nothing_of_the_call_taken() -> None:
    repository = _new()
    rows = repository.appender("s", flush_interval_ms=None)
    rows.append(_frame([5]))
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: rows.append(_frame([6, 4])), UnsortedIndexError, "goes back"),
        (lambda: rows.append(_frame([4])), UnsortedIndexError, "goes back in row 0: 4 after 5"),
        (lambda: rows.append({"t": [6]}), SchemaMismatchError, "columns of symbol 's'"),
        (lambda: rows.append({"t": [6], "x": ["a"]}), SchemaMismatchError, "columns of symbol"),
        (lambda: rows.append(3), InvalidInputError, "no table"),
        (lambda: rows.append_rows([{"t": 6, "y": 1}]), ColumnNotFoundError, "'y'"),
        (lambda: rows.append_rows([{"t": 6, "x": "a"}]), InvalidInputError, "column 'x'"),
        (lambda: rows.append_rows([{"t": 6, "x": 2**31}]), InvalidInputError, "column 'x'"),
        (lambda: rows.append_rows([{"x": 6}]), IndexColumnError, "missing in row 0"),
        (lambda: rows.append_rows({"x": 6}), InvalidInputError, "list of dictionaries"),  # type: ignore[arg-type]
        (lambda: rows.append_rows([3]), InvalidInputError, "list of dictionaries"),  # type: ignore[list-item]
        (lambda: repository.appender("s", flush_rows=0), InvalidInputError, "flush_rows=0"),
        (
            lambda: repository.appender("s", flush_interval_ms=True),
            InvalidInputError,
            "flush_interval_ms=True",
        ),
        (lambda: repository.appender("S"), SymbolNotFoundError, "'S'"),
    ]
    for act, error, text in cases:
        with pytest.raises(error, match=text):
            act()
        assert rows.waiting_rows == 1
    rows.close()
    rows.close()
    with pytest.raises(InvalidInputError, match="closed"):
        rows.append(_frame([9]))
    assert "closed" in repr(rows)
    assert _times(repository) == [0, 5]
    frozen = Repository.open(repository.uri, read_only=True)
    with pytest.raises(ReadOnlyStoreError):
        frozen.appender("s")
