"""CommitStream: batches that arrive become commits of a symbol, each row exactly once.

With every commit goes the *position* that its source had reached, in the same commit as the rows. A
stream that is opened again, after whatever happened, says where its source must go on: rows and
position are there together or not at all.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa

from tessel.arrays import concat_tables
from tessel.errors import (
    CommitConflictError,
    InvalidInputError,
    SymbolNotFoundError,
    UnicodeTextError,
)
from tessel.lazy import dataclass
from tessel.store.repository import Repository

_ATTACHED = "tessel.stream"


@dataclass(frozen=True)
class _Attempt:
    """A commit that was tried: its mark, how many of the tables that wait it has, and how far."""

    commit: str
    tables: int
    position: Any


class CommitStream:
    """Commits what arrives by rows, bytes or time; use as a context manager, or ``flush`` it.

    Parameters
    ----------
    store, symbol
        Where to; the symbol is made by the first commit.
    index
        The time index of a symbol that is not there yet.
    max_rows, max_bytes
        A commit is made when so much waits.
    max_delay_seconds
        Or when the first row has waited so long: see :meth:`flush_if_due`. None waits for ever.

    Raises
    ------
    InvalidInputError
        For a symbol that no stream wrote.

    Examples
    --------
    >>> stream = CommitStream(store, "trades", index="time")
    >>> tail = FileTail("trades.rows", schema, position=stream.position or 0)
    >>> for rows in tail.follow(stop):
    ...     stream.append(rows.to_batch(), position=tail.position)

    Notes
    -----
    A commit that fails keeps its rows waiting; the next call tries again, after looking whether it
    landed all the same. Of two streams to one symbol the one that was opened last goes on, as soon
    as it has committed; the other is told.
    """

    def __init__(
        self,
        store: Repository,
        symbol: str,
        *,
        index: str | None = None,
        max_rows: int = 100_000,
        max_bytes: int = 64 << 20,
        max_delay_seconds: float | None = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        delay = 1.0 if max_delay_seconds is None else max_delay_seconds
        if max_rows < 1 or max_bytes < 1 or not delay > 0:
            raise InvalidInputError(
                "a stream commits after some rows, bytes or seconds",
                hint="give a positive number of each, or None for no time",
            )
        self._store = store
        self._symbol = symbol
        self._index = index
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._max_delay_seconds = max_delay_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._first_at = 0.0
        self._reached: Any = None
        self._trying: _Attempt | None = None
        found = self._attached(None)
        self._last: str | None = None if found is None else found["commit"]
        self._position: Any = None if found is None else found["position"]

    @property
    def position(self) -> Any:
        """What came with the last row that is committed; None where nothing is."""
        return self._position

    @property
    def waiting_rows(self) -> int:
        """How many rows are in no commit yet."""
        return self._rows

    def append(self, batch: pa.RecordBatch | pa.Table, position: Any) -> int | None:
        """Take rows; commit if enough wait.

        Parameters
        ----------
        batch
            The rows.
        position
            Where the source is after them: plain JSON, such as a number of bytes.

        Returns
        -------
        int or None
            The version, if this made a commit.
        """
        _checked(position)
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        with self._lock:
            if not self._waiting:
                self._first_at = self._clock()
            self._waiting.append(table)
            self._reached = position
            self._rows += table.num_rows
            self._bytes += table.nbytes
            full = self._rows >= self._max_rows or self._bytes >= self._max_bytes
            return self.flush() if full else self.flush_if_due()

    def flush_if_due(self, now: float | None = None) -> int | None:
        """Commit what waits if its time has come; ``now`` is of the stream's clock."""
        with self._lock:
            if not self._waiting or self._max_delay_seconds is None:
                return None
            due = self._first_at + self._max_delay_seconds
            return self.flush() if (self._clock() if now is None else now) >= due else None

    def flush(self) -> int | None:
        """Commit what waits; when it has returned, rows and position are durable.

        Returns
        -------
        int or None
            The version; None where nothing waited.

        Raises
        ------
        CommitConflictError
            Where another stream has written the symbol since this one was opened.
        TesselError
            What keeps the rows from being committed; they wait on.
        """
        with self._lock:
            self._settle()
            if not self._waiting:
                return None
            attempt = _Attempt(secrets.token_hex(8), len(self._waiting), self._reached)
            self._trying = attempt
            self._commit(concat_tables(self._waiting), attempt)
            self._landed(attempt)
            return self._store.at(None).number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is None:
            self.flush()

    # --- inside -----------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Look whether a commit that failed landed all the same."""
        if self._trying is not None:
            found = self._attached(None)
            if found is not None and found["commit"] == self._trying.commit:
                self._landed(self._trying)
            self._trying = None

    def _landed(self, attempt: _Attempt) -> None:
        self._last, self._trying = attempt.commit, None
        self._position = attempt.position
        del self._waiting[: attempt.tables]
        self._rows = sum(table.num_rows for table in self._waiting)
        self._bytes = sum(table.nbytes for table in self._waiting)

    def _commit(self, table: pa.Table, attempt: _Attempt) -> None:
        with self._store.transaction(f"stream to {self._symbol}") as transaction:
            found = self._attached(transaction.base_version)
            if (None if found is None else found["commit"]) != self._last:
                raise CommitConflictError(
                    f"another stream has written {self._symbol!r}",
                    hint="let one stream at a time write a symbol; open it again to go on from "
                    "its position",
                    symbol=self._symbol,
                )
            metadata = {_ATTACHED: {"commit": attempt.commit, "position": attempt.position}}
            if found is None:
                transaction.write(self._symbol, table, index=self._index, metadata=metadata)
            else:
                others = self._store.view(self._symbol, transaction.base_version).metadata
                transaction.append(self._symbol, table)
                transaction.set_metadata(self._symbol, {**others, **metadata})

    def _attached(self, version: int | None) -> dict[str, Any] | None:
        """Return what the last commit of a stream says; None where there is no symbol."""
        try:
            metadata = self._store.view(self._symbol, version).metadata
        except SymbolNotFoundError:
            return None
        found = metadata.get(_ATTACHED)
        if not isinstance(found, dict) or not {"commit", "position"} <= found.keys():
            raise InvalidInputError(
                f"symbol {self._symbol!r} was not written by a stream",
                hint="stream to another symbol, or append to this one",
                symbol=self._symbol,
            )
        return found


def _checked(position: Any) -> None:
    try:
        text = json.dumps(position, ensure_ascii=False)
        same = json.loads(text) == position
    except (TypeError, ValueError):
        same = False
    if same:
        UnicodeTextError.require(text, "the position")
    else:
        raise InvalidInputError(
            f"the position {position!r} is no plain JSON", hint="give a number, text, or a list"
        )
