"""fill_buckets: puts the time buckets without rows into the answer of a resample.

The rows pass twice: first it is noted from which bucket to which each key has rows, and rows are
put aside; then they come back some at a time, and the cells up to the last of their buckets are
filled. Between two such parts nothing is held but the last row of each key that has more to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables, empty_table
from tessel.clauses.base import ClauseInfo, IndexEffect, StreamClause, Structure
from tessel.clauses.buckets.base import Bucketer
from tessel.clauses.computed import stored_names
from tessel.clauses.grouped.group_states import complete_table
from tessel.clauses.grouped.grouping import group_codes, order_of_keys
from tessel.clauses.registry import register
from tessel.clauses.resample import Resample
from tessel.clauses.spill.spill_buffer import BufferedTable, SpillBuffer
from tessel.clauses.spill.workspace import workspace_of
from tessel.clauses.units.reduced import unit_of_table
from tessel.clauses.values import plain
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.index_column import index_integers

_MOST_ROWS = 2**31 - 1
"""More rows than this are no answer that somebody wants, and no memory would hold them."""

_ROWS_A_UNIT = 1 << 16
_LEAST_ROWS_A_PART = 1 << 10
_PARTS_IN_BUDGET = 32
_BYTES_A_VALUE = 8

Integers = NDArray[np.int64]
_Rows = tuple[Integers, Integers]
"""Rows at hand, of each key those of some buckets and the last before them, and their cells."""
_Cells = tuple[Integers, Integers, NDArray[np.bool_]]


@register
@dataclass(frozen=True)
class FillBuckets(StreamClause):
    """Every bucket from the first to the last that has rows, of each key on its own.

    The answer comes in units of some rows, so that filling many buckets holds few of them.

    Attributes
    ----------
    resample
        What made the rows; its ``empty`` says what stands in a bucket without rows.
    source
        Schema of the rows before they were reduced: what an aggregate answers of none depends on
        the type.
    """

    name: ClassVar[str] = "fill_buckets"
    internal: ClassVar[bool] = True
    resample: Resample
    source: TableSchema

    structure = ClauseInfo(Structure.ALL, uses_index=True, index=IndexEffect.REPLACE, reduced=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns as they are."""
        return input_schema

    def describe(self) -> str:
        """Return one line for people; the rest stands in the line of what made the rows."""
        return f"{self.name}(rule={self.resample.rule!r}, empty={self.resample.empty!r})"

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Put the buckets that have rows aside, give them with those between."""
        with workspace_of(units) as workspace, workspace.spill_buffer() as buffer:
            spans = _Spans()
            buffered: list[BufferedTable] = []
            for unit in units:
                table = unit.table
                if table.num_rows:
                    spans.add(self._numbers(table), self._keys(table))
                    buffered.append(buffer.put(table))
            if buffered:
                rows = _rows_a_part(workspace.account.limit, len(schema.names))
                grid = self._checked(spans.grid(rows))
                yield from self._filled(self._parts(buffered, buffer, rows), schema, grid)

    def _numbers(self, table: pa.Table) -> Integers:
        name = table.column_names[0]
        return self.resample.numbers_of_labels(index_integers(table.column(0), name), self.source)

    def _keys(self, table: pa.Table) -> list[pa.ChunkedArray]:
        return [table.column(key) for key in stored_names(self.resample.by)]

    def _checked(self, grid: _Grid) -> _Grid:
        if grid.total > _MOST_ROWS:
            raise PlanError(
                f"resample by {self.resample.rule!r} with empty={self.resample.empty!r} makes "
                f"about {grid.total:.2e} rows, more than {_MOST_ROWS:,}",
                hint='use a longer rule, a shorter range, or empty="omit"',
                rule=self.resample.rule,
            )
        return grid

    def _parts(
        self, buffered: Sequence[BufferedTable], buffer: SpillBuffer, rows: int
    ) -> Iterator[tuple[pa.Table, Integers]]:
        """Give rows and their buckets, some at a time; rows of one bucket together."""
        waiting: list[pa.Table] = []
        for at, each in enumerate(buffered):
            waiting.append(buffer.take(each))
            is_last = at == len(buffered) - 1
            if not is_last and sum(table.num_rows for table in waiting) < rows:
                continue
            table = concat_tables(waiting)
            numbers = self._numbers(table)
            # More rows of the last bucket may follow.
            stop = len(numbers) if is_last else int(np.searchsorted(numbers, numbers[-1]))
            waiting = [table.slice(stop)]
            for start, end in _cuts(numbers[:stop], rows):
                yield table.slice(start, end - start), numbers[start:end]

    def _filled(
        self, parts: Iterable[tuple[pa.Table, Integers]], schema: TableSchema, grid: _Grid
    ) -> Iterator[ProcessingUnit]:
        last = empty_table(schema.arrow), np.empty(0, np.int64), np.empty(0, np.int64)
        ordinal = start = 0
        at, bucketer = grid.begin, self.resample.bucketer(self.source)
        waiting = iter(parts)
        part = next(waiting, None)
        while part is not None:
            following = next(waiting, None)
            latest = grid.end if following is None else int(following[1][0]) - 1
            table = concat_tables([last[0], part[0]]).combine_chunks()
            numbers = np.concatenate([last[1], part[1]])
            codes = np.concatenate([last[2], grid.codes(self._keys(part[0]), len(part[0]))])
            rows = grid.by_cell(numbers, codes)
            for made in self._made(schema, table, grid.parts(rows, at, latest, bucketer)):
                yield unit_of_table(ordinal, start, made, schema.index)
                ordinal, start = ordinal + 1, start + len(made)
            kept = grid.last_rows(rows[0], codes, latest)
            last = table.take(arrow_array(kept)), numbers[kept], codes[kept]
            at, part = latest + 1, following

    def _made(
        self, schema: TableSchema, table: pa.Table, cells: Iterable[_Cells]
    ) -> Iterator[pa.Table]:
        fixed = 1 + len(self.resample.by)
        columns = [table.column(at) for at in range(table.num_columns)]
        columns[fixed:] = self._with_none(columns[fixed:])
        repeats = self.resample.empty == "ffill"
        for numbers, rows, known in cells:
            from_before = rows if repeats else np.where(known, rows, len(table))
            arrays = [self.resample.labels(numbers, self.source)]
            arrays += [column.take(arrow_array(rows)) for column in columns[1:fixed]]
            arrays += [column.take(arrow_array(from_before)) for column in columns[fixed:]]
            yield pa.Table.from_arrays(arrays, schema=schema.arrow)

    def _with_none(self, columns: list[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
        """Append to each output what stands in a bucket without rows."""
        aggregates = self.resample.aggregates
        none = [pa.chunked_array([pa.nulls(1, column.type)]) for column in columns]
        if self.resample.empty == "zero":
            none = complete_table(self.source.empty(), (), aggregates)[0].columns
        return [
            pa.chunked_array([*column.chunks, *more.chunks], column.type)
            for column, more in zip(columns, none, strict=True)
        ]


def _rows_a_part(limit: int, columns: int) -> int:
    """Return how many rows are filled at a time: fewer where the byte budget is small."""
    most = limit // (_PARTS_IN_BUDGET * _BYTES_A_VALUE * columns)
    return min(_ROWS_A_UNIT, max(_LEAST_ROWS_A_PART, most))


def _cuts(numbers: Integers, rows: int) -> Iterator[tuple[int, int]]:
    """Give ranges of some rows that end where a bucket ends."""
    start = 0
    while start < len(numbers):
        end = min(start + rows, len(numbers))
        end = int(np.searchsorted(numbers, numbers[end - 1], side="right"))
        yield start, end
        start = end


class _Spans:
    """The first and the last bucket of each key, of rows that come some at a time."""

    def __init__(self) -> None:
        self._waiting: list[tuple[list[pa.Array], Integers, Integers]] = []
        self._size = self._merged = 0

    def add(self, numbers: Integers, keys: list[pa.ChunkedArray]) -> None:
        """Note some rows, one at least."""
        self._waiting.append(_spans(keys, numbers, numbers))
        self._size += len(self._waiting[-1][1])
        if self._size > 2 * self._merged + _ROWS_A_UNIT:
            self._merge()

    def grid(self, rows: int) -> _Grid:
        """Return the cells of all keys, some rows at a time."""
        self._merge()
        ((keys, first, last),) = self._waiting
        order = order_of_keys(keys) if keys else np.zeros(1, np.int64)
        return _Grid(
            [key.take(arrow_array(order)) for key in keys], first[order], last[order], rows
        )

    def _merge(self) -> None:
        parts = self._waiting
        keys = [
            pa.chunked_array(list(arrays)) for arrays in zip(*(p[0] for p in parts), strict=True)
        ]
        first = np.concatenate([part[1] for part in parts])
        last = np.concatenate([part[2] for part in parts])
        self._waiting = [_spans(keys, first, last)]
        self._size = self._merged = len(self._waiting[0][1])


def _spans(
    keys: Sequence[pa.ChunkedArray], first: Integers, last: Integers
) -> tuple[list[pa.Array], Integers, Integers]:
    """Return each key once, with the least of the first and the greatest of the last buckets."""
    if not keys:
        return [], first.min(keepdims=True), last.max(keepdims=True)
    found = group_codes(keys, drop_missing=False)
    least = np.full(len(found), np.iinfo(np.int64).max)
    greatest = np.full(len(found), np.iinfo(np.int64).min)
    np.minimum.at(least, found.codes, first)
    np.maximum.at(greatest, found.codes, last)
    return list(found.keys), least, greatest


class _Grid:
    """The cells (bucket, key) of a filled answer, in that order, some at a time.

    Cells are numbered key after key, so that a cell and the last row before it are found by one
    binary search. Nothing here is as long as the answer.

    Parameters
    ----------
    keys
        The keys in order, one array a key column; none makes one key of all rows.
    first, last
        The first and the last bucket of each key.
    rows
        About how many cells are given at a time.
    """

    def __init__(self, keys: list[pa.Array], first: Integers, last: Integers, rows: int) -> None:
        self._keys = keys
        self._rows = rows
        self._first, self._last = first, last
        self.begin, self.end = int(first.min()), int(last.max())
        self.total = float((last.astype(float) - first.astype(float) + 1).sum())
        """How many cells there are, roughly where they are more than can be."""
        if self.total > _MOST_ROWS:
            return
        spans = last - first + 1
        self._start = np.cumsum(spans) - spans
        self._by_first = np.argsort(first, kind="stable")
        self._firsts, self._ends = first[self._by_first], np.sort(last)

    def codes(self, keys: Sequence[pa.ChunkedArray], rows: int) -> Integers:
        """Return the place of the key of each row among all keys."""
        if not keys:
            return np.zeros(rows, np.int64)
        both = [
            pa.chunked_array([known, *(plain(chunk) for chunk in key.chunks)])
            for known, key in zip(self._keys, keys, strict=True)
        ]
        # Numbers are by first appearance, and the keys stand in front in their order.
        return group_codes(both, drop_missing=False).codes[len(self._first) :]

    def cell(self, numbers: Integers, codes: Integers) -> Integers:
        """Return the number of the cell of some buckets and keys."""
        found: Integers = self._start[codes] + numbers - self._first[codes]
        return found

    def by_cell(self, numbers: Integers, codes: Integers) -> _Rows:
        """Return rows of some buckets and keys by cell, and the cell of each."""
        rows = np.lexsort((numbers, codes))
        return rows, self.cell(numbers, codes)[rows]

    def last_rows(self, rows: Integers, codes: Integers, latest: int) -> Integers:
        """Return the last of some rows by cell of each key that has rows after a bucket."""
        codes = codes[rows]
        ends = np.flatnonzero(np.append(codes[1:] != codes[:-1], True))
        kept: Integers = rows[ends[self._last[codes[ends]] > latest]]
        return kept

    def parts(self, rows: _Rows, at: int, latest: int, bucketer: Bucketer) -> Iterator[_Cells]:
        """Give the cells of some buckets, both ends included.

        Bucket, last row up to it, and whether that is the row of the cell itself.
        """
        begun = int(np.searchsorted(self._firsts, at))
        opened = self._by_first[:begun]
        opened = opened[self._last[opened] >= at]
        while at <= latest:
            if not len(opened) and begun < len(self._firsts):
                at = max(at, int(self._firsts[begun]))  # no key has cells before
                if at > latest:
                    return
            stop = self._stop(at, latest)
            more = int(np.searchsorted(self._firsts, stop, side="right"))
            opened = np.concatenate([opened, self._by_first[begun:more]])
            begun = more
            cells = self._cells(rows, opened, at, stop, bucketer)
            if len(cells[0]):
                yield cells
            opened = opened[self._last[opened] > stop]
            if not len(opened) and begun == len(self._firsts):
                return
            at = stop + 1

    def _stop(self, at: int, latest: int) -> int:
        """Return the last bucket up to which about as many cells lie as one part has."""
        firsts, ends = self._firsts, self._ends
        open_now = np.searchsorted(firsts, at, side="right") - np.searchsorted(ends, at)
        step = max(1, self._rows // max(1, int(open_now)))
        while step > 1:
            stop = min(at + step - 1, latest)
            begun = np.searchsorted(firsts, stop, side="right") - np.searchsorted(ends, at)
            if int(begun) * step <= 2 * self._rows:
                return stop
            step //= 2
        return at

    def _cells(self, rows: _Rows, keys: Integers, at: int, stop: int, bucketer: Bucketer) -> _Cells:
        low = np.maximum(self._first[keys], at)
        counts = np.minimum(self._last[keys], stop) - low + 1
        key = np.repeat(keys, counts)
        within = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
        number = np.repeat(low, counts) + within
        if len(keys) > 1:
            order = np.lexsort((key, number))
            key, number = key[order], number[order]
        cell = self.cell(number, key)
        row, cells = rows
        place = np.searchsorted(cells, cell, side="right") - 1
        known = cells[place] == cell
        kept = known | _has_length(bucketer, number)
        return number[kept], row[place[kept]], known[kept]


def _has_length(bucketer: Bucketer, numbers: Integers) -> NDArray[np.bool_]:
    """Return which ascending buckets have a length: a date that a zone skips has none."""
    found, place = np.unique(numbers, return_inverse=True)
    return (bucketer.edges(found) < bucketer.edges(found + 1))[place]
