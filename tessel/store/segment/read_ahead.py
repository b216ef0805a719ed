"""The bytes of a scan, read ahead of decoding by a bounded number of bytes.

The decode stream enters here. Where the source shows whole objects there is nothing to read.
Elsewhere one thread opens the segments of the scan, a few ahead, and hands their plans to the I/O
queue; the consumer takes what has arrived and puts it where it belongs. Bytes count against the
budget until they are put; a segment holds its own from then on, until the stream is past it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np

from tessel.ecs.components import SegmentKey
from tessel.errors import CancelledError
from tessel.store.encodings.base import Integers
from tessel.store.segment.io_queue import DEFAULT_BUDGET_BYTES, IoQueue
from tessel.store.segment.opened import SegmentOpener, plan_columns, put_bytes
from tessel.store.segment.pages import SegmentPages
from tessel.store.segment.read_plan import ReadPlan, segment_priority
from tessel.store.segment.row_selection import RowRanges

__all__ = ["ReadAhead", "SegmentRows"]

_OPEN_AHEAD: Final = 2


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Rows ``[start, stop)`` of a segment: a part of a scan."""

    key: SegmentKey
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """A segment of the scan, and what is read of it."""

    segment: SegmentPages
    plan: ReadPlan
    priorities: Integers
    submission: int


class ReadAhead:
    """Segments of a scan with their bytes; use as a context manager, from one thread.

    Parameters
    ----------
    opener
        What opens segments.
    parts
        The scan, in order.
    column_ids
        What is decoded of them.
    budget_bytes
        Bytes asked for and not yet put into their segment.
    """

    def __init__(
        self,
        opener: SegmentOpener,
        parts: Sequence[SegmentRows],
        column_ids: Sequence[int],
        *,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
    ) -> None:
        self._opener = opener
        self._parts = parts
        self._columns = list(column_ids)
        self._threads: ThreadPoolExecutor | None = None
        self._segments: dict[int, SegmentPages] = {}
        self._taken = 0
        self._before = 0
        self._at = -1
        if not opener.views:
            self._queue = IoQueue(opener.source, budget_bytes=budget_bytes, expect_more=True)
            self._planned: list[Future[_Planned]] = [Future() for _ in parts]
            self._room = threading.Semaphore(_OPEN_AHEAD)
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="tessel-open")
            self._threads.submit(self._plan_all)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._threads is None:
            return
        self._queue.close()
        for planned in self._planned:
            planned.cancel()
        self._room.release(len(self._parts) + 1)
        self._threads.shutdown(wait=True)

    def segment(self, ordinal: int) -> SegmentPages:
        """Return a segment of the scan, opened; its pages may still be on their way."""
        if self._threads is not None:
            return self._wait(ordinal).segment
        found = self._segments.get(ordinal)
        if found is None:
            found = self._opener.open(self._parts[ordinal].key, self._columns)
            self._segments = {ordinal: found}
        return found

    def rows(self, ordinal: int, stop: int) -> SegmentPages:
        """Return a segment with all that decoding its rows below ``stop`` takes.

        Ordinals never go back, and ``stop`` does not within a segment.
        """
        if self._threads is None:
            return self.segment(ordinal)
        planned = self._wait(ordinal)
        due = segment_priority(ordinal, np.array([stop - 1], np.int64))
        wanted = int(np.searchsorted(planned.priorities, due[0], "right"))
        while self._taken - self._before < wanted:
            with next(self._queue) as delivered:
                owner = self._owner(delivered.submission)
                ranges = np.flatnonzero(owner.plan.request == delivered.request)
                key = self._parts[delivered.submission].key
                put_bytes(key, owner.segment, owner.plan.start[ranges], delivered.buffers)
            self._taken += 1
        return planned.segment

    def _owner(self, submission: int) -> _Planned:
        return self._planned[submission].result()

    def _wait(self, ordinal: int) -> _Planned:
        if ordinal > self._at:
            # All requests of the segments before have been taken: they are delivered in order.
            for passed in range(max(self._at, 0), ordinal):
                self._before += len(self._planned[passed].result().priorities)
                self._planned[passed] = Future()  # lets go of the segment and its bytes
            for _ in range(ordinal - max(self._at, 0)):
                self._room.release()
            self._at = ordinal
        try:
            return self._planned[ordinal].result()
        except FutureCancelled:
            raise CancelledError("the read was cancelled") from None

    def _plan_all(self) -> None:
        for ordinal, part in enumerate(self._parts):
            self._room.acquire()
            future = self._planned[ordinal]
            if not future.set_running_or_notify_cancel():
                return
            try:
                segment = self._opener.open(part.key, self._columns)
                nodes = [segment.file.top(column) for column in self._columns]
                rows = RowRanges.of((part.start, part.stop))
                plan = plan_columns(part.key, segment, nodes, rows, ordinal)
                priorities = plan.request_priorities()
                submission = self._queue.submit(plan)
                future.set_result(_Planned(segment, plan, priorities, submission))
            except BaseException as error:
                future.set_exception(error)
                return
        self._queue.no_more()
