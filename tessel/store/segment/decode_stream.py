"""A scan as a stream of batches: tasks of a size of their own, run ahead, with results in order.

Whoever reads more than one piece at a time enters here. A batch is a plain task: it knows its
pages, allocates its own buffers, and is run by whichever thread consumes it, so that decoding and
what comes after it (a filter, the first clause) happen while the page is in that thread's cache.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.cancelling import thread_pool
from tessel.errors import InvalidInputError
from tessel.options import current
from tessel.store.encodings.codes import Role
from tessel.store.encodings.fields import FieldNode
from tessel.store.segment.decode import decode_column, decode_leaf, page_parts
from tessel.store.segment.encoded_column import SegmentColumn
from tessel.store.segment.io_queue import DEFAULT_BUDGET_BYTES
from tessel.store.segment.opened import SegmentOpener
from tessel.store.segment.pages import SegmentPages
from tessel.store.segment.read_ahead import ReadAhead, SegmentRows

__all__ = ["BATCH_ROWS", "BatchTask", "DecodeStream", "SegmentStretch"]

BATCH_ROWS: Final = 65_536
"""The default: a batch is a page of most columns, or a whole number of smaller ones."""

_CACHE_BYTES: Final = 4 * 1024 * 1024
_LEAST_ROWS: Final = 4_096
_USUAL_WIDTH: Final = 16

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class SegmentStretch:
    """Rows ``[start, stop)`` of one segment in a batch."""

    segment: SegmentPages
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, eq=False)
class BatchTask:
    """One batch, not decoded yet; may be run in any thread, once or again.

    Attributes
    ----------
    ordinal
        Its place in the stream.
    row_start
        Its first row, counted in the stream.
    stretches
        Where its rows are: one stretch, or several where it spans segments.
    column_ids
        Its columns.
    """

    ordinal: int
    row_start: int
    stretches: tuple[SegmentStretch, ...]
    column_ids: tuple[int, ...]

    def __len__(self) -> int:
        return sum(map(len, self.stretches))

    def columns(self) -> list[dict[int, SegmentColumn]]:
        """Return the columns as they are stored, by id, for each stretch."""
        return [
            {
                column_id: SegmentColumn(
                    part.segment, part.segment.file.top(column_id), part.start, part.stop
                )
                for column_id in self.column_ids
            }
            for part in self.stretches
        ]

    def run(self) -> pa.RecordBatch:
        """Decode the batch: one array a column, named by its id in decimal.

        A column over several pages or segments is allocated once, and each page decodes into its
        place; a column that lies in one page in Arrow's layout is a view.
        """
        if not self.column_ids:
            return pa.RecordBatch.from_struct_array(arrow_array([{}] * len(self), pa.struct([])))
        arrays = [self._decoded(column_id) for column_id in self.column_ids]
        return pa.RecordBatch.from_arrays(arrays, [str(i) for i in self.column_ids])

    def _decoded(self, column_id: int) -> pa.Array:
        nodes = [part.segment.file.top(column_id) for part in self.stretches]
        if len({str(node.type) for node in nodes}) > 1:
            raise InvalidInputError(
                f"column {column_id} has several types in one batch: "
                + ", ".join(sorted({str(node.type) for node in nodes})),
                hint="read the segments one by one and cast",
            )
        first = nodes[0]
        if first.role != Role.VALUES or first.is_dictionary:
            return _joined(
                [
                    chunk
                    for part, node in zip(self.stretches, nodes, strict=True)
                    for chunk in decode_column(part.segment, node, part.start, part.stop).chunks
                ],
                first.type,
            )
        parts = []
        at = 0
        for part, node in zip(self.stretches, nodes, strict=True):
            found = page_parts(part.segment, node.number, part.start, part.stop)
            parts += [replace(page, at=page.at + at) for page in found]
            at += len(part)
        return decode_leaf(first, parts, at)


def _joined(chunks: list[pa.Array], kind: pa.DataType) -> pa.Array:
    if len(chunks) == 1:
        return chunks[0]
    whole = pa.chunked_array(chunks, type=kind)
    if pa.types.is_dictionary(kind):
        whole = whole.unify_dictionaries()
    return pa.concat_arrays(whole.chunks)


class DecodeStream:
    """Batches of a scan, in order. Iterating decodes them, on threads where there is more than one.

    Parameters
    ----------
    opener
        What opens the segments.
    parts
        What to read: rows of segments, in the order of the result. All have the columns.
    column_ids
        The columns.
    batch_rows
        Rows of each batch, but for the last, whatever the segments. By default 65,536, fewer where
        that many would not fit a cache; then batches end where segments do, so that pages are
        handed on without copies.
    workers
        Threads that decode; those of the options by default.
    budget_bytes
        Bytes read ahead, where bytes are read.

    Raises
    ------
    InvalidInputError
        For batches of no rows, or workers that are none.
    """

    def __init__(
        self,
        opener: SegmentOpener,
        parts: Sequence[SegmentRows],
        column_ids: Sequence[int],
        *,
        batch_rows: int | None = None,
        workers: int | None = None,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
    ) -> None:
        self._workers = current().workers if workers is None else workers
        if (batch_rows is not None and batch_rows < 1) or self._workers < 1:
            raise InvalidInputError(
                f"a stream has batches of 1 row or more and 1 worker or more, "
                f"not {batch_rows} and {self._workers}"
            )
        self._opener = opener
        self._parts = [part for part in parts if len(part)]
        self._columns = tuple(column_ids)
        self._batch_rows = batch_rows
        self._budget = budget_bytes

    def tasks(self) -> Iterator[BatchTask]:
        """Give the batches as tasks, in order; each has its bytes when it is given."""
        with ReadAhead(
            self._opener, self._parts, self._columns, budget_bytes=self._budget
        ) as ahead:
            cuts = self._aligned(ahead) if self._batch_rows is None else self._of_equal_size()
            row = 0
            for ordinal, cut in enumerate(cuts):
                stretches = tuple(
                    SegmentStretch(ahead.rows(part, stop), start, stop) for part, start, stop in cut
                )
                task = BatchTask(ordinal, row, stretches, self._columns)
                row += len(task)
                yield task

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.map(BatchTask.run)

    def map(self, function: Callable[[BatchTask], Result]) -> Iterator[Result]:
        """Run a function on every batch and give the results in order.

        Twice as many batches as workers are under way. The first, in order, that fails ends the
        stream with its error; closing the iterator cancels what has not started.
        """
        tasks = self.tasks()
        try:
            if self._workers == 1:
                yield from map(function, tasks)
                return
            with thread_pool(self._workers, "tessel-decode") as pool:
                yield from self._mapped(pool, tasks, function)
        finally:
            tasks.close()  # type: ignore[attr-defined]

    def _mapped(
        self,
        pool: ThreadPoolExecutor,
        tasks: Iterator[BatchTask],
        function: Callable[[BatchTask], Result],
    ) -> Iterator[Result]:
        under_way: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                run = contextvars.copy_context().run
                under_way.append(pool.submit(run, function, task))
                if len(under_way) >= 2 * self._workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()

    def _aligned(self, ahead: ReadAhead) -> Iterator[list[tuple[int, int, int]]]:
        """Cut each segment at multiples of the batch size, counted from its first row."""
        for ordinal, part in enumerate(self._parts):
            segment = ahead.segment(ordinal)
            rows = _fitting_rows([segment.file.top(column) for column in self._columns])
            start = part.start
            while start < part.stop:
                stop = min((start // rows + 1) * rows, part.stop)
                yield [(ordinal, start, stop)]
                start = stop

    def _of_equal_size(self) -> Iterator[list[tuple[int, int, int]]]:
        assert self._batch_rows is not None
        cut: list[tuple[int, int, int]] = []
        room = self._batch_rows
        for ordinal, part in enumerate(self._parts):
            start = part.start
            while start < part.stop:
                stop = min(start + room, part.stop)
                cut.append((ordinal, start, stop))
                room -= stop - start
                start = stop
                if room == 0:
                    yield cut
                    cut, room = [], self._batch_rows
        if cut:
            yield cut


def _fitting_rows(nodes: Sequence[FieldNode]) -> int:
    """Return a power of two of rows of these columns that fit a cache, up to the default."""
    width = sum(_width(node.type) for node in nodes)
    rows = BATCH_ROWS
    while rows > _LEAST_ROWS and rows * width > _CACHE_BYTES:
        rows //= 2
    return rows


def _width(kind: pa.DataType) -> int:
    """Return the bytes of a value, or a guess for values of any length."""
    if pa.types.is_dictionary(kind):
        kind = kind.index_type
    if pa.types.is_nested(kind):
        return sum((_width(kind.field(at).type) for at in range(kind.num_fields)), _USUAL_WIDTH)
    try:
        bits: int = kind.bit_width
    except ValueError:
        return _USUAL_WIDTH
    return max(1, bits // 8)
