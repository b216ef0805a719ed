"""Reading a symbol inside a transaction: rows by position, and positions by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import concat_tables
from tessel.errors import IndexColumnError
from tessel.expression.schema import TableSchema
from tessel.store.encodings.values import Integers
from tessel.store.index_column import index_integers
from tessel.store.manifest.index import SegmentIndex
from tessel.store.manifest.piece import SegmentSource


class Reader:
    """Reads what an index selects; used by one thread."""

    def __init__(self, index: SegmentIndex, source: SegmentSource) -> None:
        self.index = index
        self._source = source
        self._times: tuple[int, Integers] | None = None

    @property
    def schema(self) -> TableSchema:
        """The columns that can be read."""
        return self.index.schema

    def columns(self, names: Sequence[str]) -> Reader:
        """Return a reader of some columns, in the order of the schema."""
        kept = self.index.keep_columns(names, clause="read", reason="not asked for")
        return Reader(kept, self._source)

    def rows(self, start: int, stop: int) -> pa.Table:
        """Return rows ``[start, stop)``."""
        cut = self.index.cut_rows(start, stop, clause="read", reason="not asked for")
        parts = [table for _, table in Reader(cut, self._source).slices()]
        return concat_tables(parts) if parts else self.schema.empty()

    def slices(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the row slices in order: position of the first row, and the rows."""
        for number in range(self.index.slices):
            yield int(self.index.slice_row_start[number]), self.slice(number)

    def slice(self, number: int) -> pa.Table:
        """Return the rows of one row slice."""
        index = self.index
        low, high = np.searchsorted(index.slice_number, [number, number + 1]).tolist()
        held: dict[str, pa.ChunkedArray] = {}
        for position in range(low, high):
            strip = self._source.load(index.source(position))
            held |= dict(zip(strip.column_names, strip.columns, strict=True))
        return pa.table([held[name] for name in self.schema.names], schema=self.schema.arrow)

    # --- by time ----------------------------------------------------------------------------------

    def times_of(self, number: int) -> Integers:
        """Return the index values of one row slice, as integers in the index's own unit."""
        if self._times is None or self._times[0] != number:
            name = self._index_name()
            column = self.columns([name]).slice(number).column(name)
            self._times = (number, index_integers(column, name))
        return self._times[1]

    def time_at(self, row: int) -> int:
        """Return the index value of a row."""
        number = int(np.searchsorted(self.index.slice_row_end, row, side="right"))
        return int(self.times_of(number)[row - int(self.index.slice_row_start[number])])

    def rows_between(self, low: int | None, high: int | None) -> tuple[int, int]:
        """Return the positions ``[start, stop)`` of the rows with times in ``[low, high]``.

        Only the row slices in which a bound may lie are read.
        """
        start = 0 if low is None else self._first_at_or_after(low)
        stop = self._end if high is None else self._first_at_or_after(high + 1)
        return start, max(start, stop)

    def ends_of(self, times: Integers) -> Integers:
        """Return for each time, sorted, the position after the last row that is not later."""
        unique, place = np.unique(times, return_inverse=True)
        found = [self._first_at_or_after(int(time) + 1) for time in unique]
        ends: Integers = np.array(found, dtype=np.int64)[place]
        return ends

    @property
    def _end(self) -> int:
        return int(self.index.slice_row_end[-1]) if self.index.slices else 0

    def _first_at_or_after(self, time: int) -> int:
        first, last = self.index.slice_first_time, self.index.slice_last_time
        if first is None or last is None:
            raise IndexColumnError.required("a range of times")
        limits = np.iinfo(np.int64)
        if time > limits.max:
            return self._end
        time = max(time, int(limits.min))
        number = int(np.searchsorted(last, time))
        while number < self.index.slices:
            start = int(self.index.slice_row_start[number])
            if first[number] >= time:
                return start
            place = int(np.searchsorted(self.times_of(number), time))
            if place < len(self.times_of(number)):
                return start + place
            # The bound above was not that of a row.
            number += 1
        return self._end

    def _index_name(self) -> str:
        if self.schema.index is None:
            raise IndexColumnError.required("a range of times")
        return self.schema.index
