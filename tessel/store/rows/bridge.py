"""RowBatchBridge: rows in, Arrow record batches out, by rows, bytes and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.store.rows.buffer import RowBuffer
from tessel.store.rows.rows import BytesLike, Rows
from tessel.store.rows.schema import RowSchema


class RowBatchBridge:
    """Gathers rows and gives them as record batches when enough are there, or time has passed.

    Parameters
    ----------
    schema
        Where the fields of a row lie.
    max_rows, max_bytes
        A batch is due when it has so many rows, or bytes of rows and text. No batch has more rows.
    max_delay_seconds
        A batch is due so long after its first row, also when no row comes any more: see
        :meth:`flush_if_due` and :class:`FlushTimer`. None waits for ever.
    clock
        Seconds that never go back.

    Notes
    -----
    Calls from several threads are taken one after another. What a call returns is for its caller to
    hand on: the bridge holds no batch. The memory of the rows is used again.
    """

    def __init__(
        self,
        schema: RowSchema,
        *,
        max_rows: int = 65_536,
        max_bytes: int = 64 << 20,
        max_delay_seconds: float | None = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_rows < 1 or max_bytes < 1:
            raise InvalidInputError(
                f"batches of at most {max_rows} rows and {max_bytes} bytes",
                hint="give at least one of each",
            )
        if max_delay_seconds is not None and not max_delay_seconds > 0:
            raise InvalidInputError(
                f"a delay of {max_delay_seconds} seconds",
                hint="give a time, or None to wait for rows and bytes alone",
            )
        self.schema = schema
        self.max_delay_seconds = max_delay_seconds
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._clock = clock
        self._buffer = RowBuffer(schema)
        self._first_at: float | None = None
        self._watermark: Any = None
        self._lock = threading.RLock()

    def append(self, *values: Any) -> pa.RecordBatch | None:
        """Add a row, a value a field; return the batch if it is full now.

        Raises
        ------
        InvalidInputError
            For a row that the schema does not take, which leaves the bridge as it was.
        """
        with self._lock:
            self._buffer.append(*values)
            if self._first_at is None:
                self._first_at = self._clock()
            return self._flush() if self._is_full() else None

    def extend(self, rows: Rows | BytesLike) -> list[pa.RecordBatch]:
        """Add many rows, or bytes that are whole rows; return the batches that are full.

        Raises
        ------
        RowFormatError, SchemaMismatchError
            For what is not rows of the schema; nothing of it is taken.
        """
        if not isinstance(rows, Rows):
            rows = Rows.from_bytes(self.schema, rows)
        full = []
        with self._lock:
            at = 0
            while at < len(rows):
                part = rows[at : at + self._max_rows - len(self._buffer)]
                self._buffer.extend(part)
                at += len(part)
                if self._first_at is None:
                    self._first_at = self._clock()
                if self._is_full():
                    full.append(self._flush())
        return full

    def flush(self) -> pa.RecordBatch:
        """Return what is there, also where that is nothing: a batch of no rows."""
        with self._lock:
            return self._flush()

    def flush_if_due(self, now: float | None = None) -> pa.RecordBatch | None:
        """Return what is there if its time has come; ``now`` is of the bridge's clock."""
        with self._lock:
            due = self.due_at
            if due is None or (self._clock() if now is None else now) < due:
                return None
            return self._flush()

    def advance(self, watermark: Any) -> pa.RecordBatch | None:
        """Say that no row before ``watermark`` will come any more; return what is there.

        None where nothing is there, or the watermark stands still.

        Raises
        ------
        InvalidInputError
            For a watermark that goes back.
        """
        with self._lock:
            if self._watermark is not None and watermark < self._watermark:
                raise InvalidInputError(
                    f"the watermark goes back from {self._watermark!r} to {watermark!r}"
                )
            moved = self._watermark is None or watermark > self._watermark
            self._watermark = watermark
            return self._flush() if moved and len(self._buffer) else None

    @property
    def watermark(self) -> Any:
        """The last watermark; None before the first."""
        return self._watermark

    @property
    def due_at(self) -> float | None:
        """When the clock makes the batch due; None where nothing waits, or no time is set."""
        if self._first_at is None or self.max_delay_seconds is None:
            return None
        return self._first_at + self.max_delay_seconds

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def nbytes(self) -> int:
        """Bytes that wait."""
        return self._buffer.nbytes

    def _is_full(self) -> bool:
        return len(self._buffer) >= self._max_rows or self._buffer.nbytes >= self._max_bytes

    def _flush(self) -> pa.RecordBatch:
        self._first_at = None
        return self._buffer.take_batch()


class FlushTimer:
    """Hands on batches whose time has come although no row comes; use as a context manager.

    Parameters
    ----------
    bridge
        One with ``max_delay_seconds``.
    deliver
        Called with each batch, on the timer's thread. What it raises stops the timer and is raised
        again on leaving.

    On leaving, what still waits is delivered.
    """

    def __init__(self, bridge: RowBatchBridge, deliver: Callable[[pa.RecordBatch], object]) -> None:
        if bridge.max_delay_seconds is None:
            raise InvalidInputError(
                "a timer for a bridge that waits for ever", hint="give it max_delay_seconds"
            )
        self._bridge = bridge
        self._deliver = deliver
        self._period = bridge.max_delay_seconds / 4
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tessel-row-flush", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        if len(self._bridge):
            self._deliver(self._bridge.flush())

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self._period):
                batch = self._bridge.flush_if_due()
                if batch is not None:
                    self._deliver(batch)
        except BaseException as error:  # handed to whoever leaves the block
            self._error = error
