"""From a key to columns: open the segment, decode what is wanted, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tessel.ecs.piece import SegmentKey
from tessel.errors import ColumnNotFoundError, CorruptSegmentError
from tessel.options import current
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.values import Integers
from tessel.store.objects.base import ObjectStore
from tessel.store.segment.decode import decode_column
from tessel.store.segment.opened import SegmentOpener
from tessel.store.segment.pages import SegmentPages
from tessel.store.segment.sources.base import ReadSource

if TYPE_CHECKING:
    from tessel.store.segment.fetch import Wanted
    from tessel.store.segment.lazy_rows import LazyRows

_FEW_ROWS = 1 << 9
"""So few are found for all columns in one pass sooner than each column is decoded."""


class SegmentReader:
    """Reads segments of one object store; safe to use from several threads.

    Pages are verified when they are first touched in this process, or each time where the option
    ``verify_always`` says so.
    """

    def __init__(self, objects: ObjectStore, source: ReadSource | None = None) -> None:
        self._opener = SegmentOpener(objects, source, always_verify=current().verify_always)

    @property
    def views(self) -> bool:
        """Whether all bytes of segments are there at once, so that nothing is waited for."""
        return self._opener.views

    def read(
        self, key: SegmentKey, column_ids: Sequence[int], row_start: int, row_stop: int
    ) -> pa.Table:
        """Return rows of some columns of a segment.

        Raises CorruptSegmentError when the bytes are damaged, missing, or not what the key
        promises; names the object, and column and page where one is to blame.

        Parameters
        ----------
        key
            Where the segment lies, and its checksum.
        column_ids
            The columns, each an id that the segment holds.
        row_start, row_stop
            Rows ``[row_start, row_stop)``, counted from the first row of the segment.

        Returns
        -------
        pa.Table
            One column per id, named by the id in decimal. Where pages hold Arrow buffers, they are
            chunks of their own; on a local disk these are views of the mapped file.
        """
        segment, nodes = self._open(key, column_ids, row_start, row_stop)
        if not self._opener.views:
            self._opener.fetch(key, segment, nodes, range(row_start, row_stop))
        few: list[pa.Array | None] = [None] * len(nodes)
        if nodes and self._opener.views and 0 < row_stop - row_start <= _FEW_ROWS:
            from tessel.store.segment.gather import SegmentRows, gather_columns

            rows = np.arange(row_start, row_stop)
            few = gather_columns([SegmentRows(segment, nodes, len(rows))], rows, None)
        columns = [
            decode_column(segment, node, row_start, row_stop) if found is None else found
            for node, found in zip(nodes, few, strict=True)
        ]
        return _table(columns, column_ids, row_stop - row_start)

    def lazy_rows(
        self, key: SegmentKey, column_ids: Sequence[int], row_start: int, row_stop: int
    ) -> LazyRows:
        """Return rows as :meth:`read` does, but read no column before it is touched."""
        from tessel.store.segment.lazy_rows import LazyRows

        segment, nodes = self._open(key, column_ids, row_start, row_stop)
        by_id = dict(zip(column_ids, nodes, strict=True))
        return LazyRows(self._opener, key, segment, by_id, row_start, row_stop)

    def fetch(self, wanted: Sequence[Wanted]) -> None:
        """Fetch rows of columns of several segments in one round trip; they are far."""
        from tessel.store.segment.fetch import fetch

        fetch(self._opener.source, wanted)

    def take(self, key: SegmentKey, column_ids: Sequence[int], rows: Integers) -> pa.Table:
        """Return single rows of some columns of a segment.

        Raises InvalidInputError for a row that the segment does not have; CorruptSegmentError as
        :meth:`read`.

        Parameters
        ----------
        rows
            Counted from the first row of the segment, int64; in any order, repeats allowed.
        """
        from tessel.store.segment.decode_take import check_rows, take_column
        from tessel.store.segment.gather import SegmentRows, gather_columns

        segment, nodes = self._open(key, column_ids, 0, 0)
        check_rows(segment, rows)
        self._opener.fetch(key, segment, nodes, rows)
        gathered: list[pa.Array | None] = [None] * len(nodes)
        if self._opener.views and len(rows) and nodes:
            gathered = gather_columns([SegmentRows(segment, nodes, len(rows))], rows, None)
        columns = [
            take_column(segment, node, rows) if found is None else found
            for node, found in zip(nodes, gathered, strict=True)
        ]
        return _table(columns, column_ids, len(rows))

    def gather(
        self,
        keys: Sequence[SegmentKey],
        column_ids: Sequence[int],
        rows: Integers,
        stops: Sequence[int],
        places: Integers | None = None,
    ) -> list[pa.Array | None]:
        """Return single rows of many segments, of the columns for which one pass finds them all.

        Raises InvalidInputError or CorruptSegmentError as :meth:`take`.

        Parameters
        ----------
        keys
            At least one segment, each with the columns.
        column_ids
            As for :meth:`take`.
        rows
            Counted from the first row of their segment; those of the first segment stand first.
        stops
            Where the rows of each segment end; each has one at least.
        places
            The place in the answer of each row; None for their own order.

        Returns
        -------
        list
            One entry a column, of the type that it is stored in; None for a column to which
            :meth:`take` must be asked segment by segment.
        """
        from tessel.store.segment.decode_take import check_rows
        from tessel.store.segment.gather import SegmentRows, gather_columns, row_counts

        if not self._opener.views or not column_ids:
            return [None] * len(column_ids)
        parts = []
        for key, stop in zip(keys, stops, strict=True):
            parts.append(SegmentRows(*self._open(key, column_ids, 0, 0), stop))
        limits = np.repeat([part.segment.row_count for part in parts], row_counts(parts))
        if np.count_nonzero((rows < 0) | (rows >= limits)):
            for part, own in zip(parts, np.split(rows, stops[:-1]), strict=True):
                check_rows(part.segment, own)
        return gather_columns(parts, rows, places)

    def read_joined(
        self,
        keys: Sequence[SegmentKey],
        column_ids: Sequence[int],
        spans: Sequence[tuple[int, int]],
    ) -> pa.Table:
        """Return rows of some columns of many small segments, all of them read in one pass.

        Raises TesselError or ValueError when the segments are not alike, or something is wrong with
        one. They must be asked for one by one, then, and the error is that of :meth:`read`.

        Parameters
        ----------
        keys
            Segments of one schema.
        column_ids
            As for :meth:`read`; at least one.
        spans
            Rows ``[start, stop)`` of each segment.

        Returns
        -------
        pa.Table
            As of :meth:`read`, with the rows of one segment after those of another.
        """
        from tessel.store.segment.decode_take import take_column

        joined = self._opener.join(keys)
        nodes = [joined.file.top(column_id) for column_id in column_ids]
        rows = joined.rows(np.array(spans, np.int64))
        columns = [take_column(joined, node, rows) for node in nodes]
        return _table(columns, column_ids, len(rows))

    def open(self, key: SegmentKey) -> SegmentPages:
        """Return the segment itself: its schema, page tables and pages."""
        return self._opener.open(key)

    def verify(self, key: SegmentKey) -> None:
        """Check all pages of a segment, whether or not that was done before.

        Raises CorruptSegmentError for the first that is damaged.
        """
        segment = self._opener.open(key)
        self._opener.fetch(key, segment, segment.tops, range(segment.row_count))
        segment.verify()

    def _open(
        self, key: SegmentKey, column_ids: Sequence[int], row_start: int, row_stop: int
    ) -> tuple[SegmentPages, tuple[FieldNode, ...]]:
        try:
            segment = self._opener.open(key, column_ids)
            nodes = segment.columns(tuple(column_ids))
        except ColumnNotFoundError as error:
            raise CorruptSegmentError(
                f"{key.object} is damaged: {error.message}",
                object=key.object,
                **{
                    name: error.attributes[name] for name in ("column",) if name in error.attributes
                },
            ) from error
        if not 0 <= row_start <= row_stop <= segment.row_count:
            raise CorruptSegmentError(
                f"{key.object} is damaged: rows {row_start} to {row_stop} were asked for, "
                f"it has {segment.row_count}",
                object=key.object,
            )
        return segment, nodes


def _table(
    columns: Sequence[pa.ChunkedArray | pa.Array], column_ids: Sequence[int], rows: int
) -> pa.Table:
    if not column_ids:
        return pa.table({"": pa.nulls(rows)}).select([])
    return pa.table(list(columns), names=list(map(str, column_ids)))
