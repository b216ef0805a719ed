"""fill_buckets: puts the time buckets without rows into the answer of a resample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.buckets import Bucketer
from tessel.clauses.computed import stored_names
from tessel.clauses.grouped.group_tables import complete_table
from tessel.clauses.grouped.grouping import group_codes, order_of_keys
from tessel.clauses.index_values import index_integers, with_times_of_index
from tessel.clauses.registry import register
from tessel.clauses.resample import Resample
from tessel.ecs import ColRange, Piece, ProcessingUnit, RowRange
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema

__all__ = ["FillBuckets"]

_MOST_ROWS = 2**31 - 1
"""More rows than this are no answer that somebody wants, and no memory would hold them."""

_ROWS_A_UNIT = 1 << 16

Integers = NDArray[np.int64]


@register
@dataclass(frozen=True)
class FillBuckets(Clause):
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

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out."""
        return ClauseInfo(
            Structure.ALL,
            Structure.ROW_SLICE,
            uses_index=True,
            index=IndexEffect.REPLACE,
            reduced=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns as they are."""
        return input_schema

    def describe(self) -> str:
        """Return one line for people; the rest stands in the line of what made the rows."""
        return f"{self.name}(rule={self.resample.rule!r}, empty={self.resample.empty!r})"

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Take all buckets that have rows, give them with those between."""
        pieces = [piece for unit in units for piece in unit.pieces]
        return self._filled(ProcessingUnit(0, schema, pieces))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Fill the buckets of everything at once."""
        parts = [part.table for part in self._filled(unit)]
        whole = pa.concat_tables(parts) if parts else unit.schema.empty()
        return with_times_of_index(unit.replace(whole))

    def _filled(self, unit: ProcessingUnit) -> Iterator[ProcessingUnit]:
        if unit.num_rows == 0:
            return
        table = unit.table.combine_chunks()
        numbers = self.resample.numbers_of_labels(index_integers(unit), self.source)
        grid = _Grid(numbers, [table.column(key) for key in stored_names(self.resample.by)])
        if grid.total > _MOST_ROWS:
            raise PlanError(
                f"resample by {self.resample.rule!r} with empty={self.resample.empty!r} makes "
                f"about {grid.total:.2e} rows, more than {_MOST_ROWS:,}",
                hint='use a longer rule, a shorter range, or empty="omit"',
                rule=self.resample.rule,
            )
        yield from self._units(unit.schema, table, grid)

    def _units(self, schema: TableSchema, table: pa.Table, grid: _Grid) -> Iterator[ProcessingUnit]:
        bucketer = self.resample.bucketer(self.source)
        fixed = 1 + len(self.resample.by)
        columns = [table.column(at) for at in range(table.num_columns)]
        columns[fixed:] = self._with_none(columns[fixed:])
        repeats = self.resample.empty == "ffill"
        start = 0
        for ordinal, (numbers, rows, known) in enumerate(grid.parts(bucketer)):
            from_before = rows if repeats else np.where(known, rows, len(table))
            arrays = [self.resample.labels(numbers, self.source)]
            arrays += [column.take(pa.array(rows)) for column in columns[1:fixed]]
            arrays += [column.take(pa.array(from_before)) for column in columns[fixed:]]
            made = pa.Table.from_arrays(arrays, schema=schema.arrow)
            stop = start + len(made)
            piece = Piece(made, RowRange(start, stop), ColRange(0, made.num_columns))
            yield with_times_of_index(ProcessingUnit(ordinal, schema, [piece]))
            start = stop

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


class _Grid:
    """The cells (bucket, key) of a filled answer, in that order, some at a time.

    Cells are numbered key after key, so that a cell and the last row before it are found by one
    binary search. Nothing here is as long as the answer.

    Parameters
    ----------
    numbers
        Bucket of each row; no two rows of a key have one bucket.
    keys
        The key columns of the rows; none makes one key of all rows.
    """

    def __init__(self, numbers: Integers, keys: list[pa.ChunkedArray]) -> None:
        codes = _ranks(keys) if keys else np.zeros(len(numbers), np.int64)
        self._row = np.lexsort((numbers, codes))
        numbers, codes = numbers[self._row], codes[self._row]
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        self._first = numbers[starts]
        self._last = numbers[np.append(starts[1:], len(numbers)) - 1]
        self.total = float((self._last.astype(float) - self._first.astype(float) + 1).sum())
        """How many cells there are, roughly where they are more than can be."""
        if self.total > _MOST_ROWS:
            return
        spans = self._last - self._first + 1
        self._start = np.cumsum(spans) - spans
        self._cell = self._start[codes] + numbers - self._first[codes]
        self._by_first = np.argsort(self._first, kind="stable")

    def parts(self, bucketer: Bucketer) -> Iterator[tuple[Integers, Integers, NDArray[np.bool_]]]:
        """Give bucket, last row up to it, and whether that is the row of the cell itself."""
        firsts, ends = self._first[self._by_first], np.sort(self._last)
        opened = np.empty(0, np.int64)
        begun = 0
        at, latest = int(firsts[0]), int(ends[-1])
        while True:
            stop = self._stop(firsts, ends, at, latest)
            more = int(np.searchsorted(firsts, stop, side="right"))
            opened = np.concatenate([opened, self._by_first[begun:more]])
            begun = more
            cells = self._cells(opened, at, stop, bucketer)
            if len(cells[0]):
                yield cells
            if stop == latest:
                return
            opened = opened[self._last[opened] > stop]
            at = stop + 1 if len(opened) else int(firsts[begun])

    def _stop(self, firsts: Integers, ends: Integers, at: int, latest: int) -> int:
        """Return the last bucket up to which about as many cells lie as one part has."""
        open_now = np.searchsorted(firsts, at, side="right") - np.searchsorted(ends, at)
        step = max(1, _ROWS_A_UNIT // max(1, int(open_now)))
        while step > 1:
            stop = min(at + step - 1, latest)
            begun = np.searchsorted(firsts, stop, side="right") - np.searchsorted(ends, at)
            if int(begun) * step <= 2 * _ROWS_A_UNIT:
                return stop
            step //= 2
        return at

    def _cells(
        self, keys: Integers, at: int, stop: int, bucketer: Bucketer
    ) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        low = np.maximum(self._first[keys], at)
        counts = np.minimum(self._last[keys], stop) - low + 1
        key = np.repeat(keys, counts)
        within = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
        number = np.repeat(low, counts) + within
        if len(keys) > 1:
            order = np.lexsort((key, number))
            key, number = key[order], number[order]
        cell = self._start[key] + number - self._first[key]
        place = np.searchsorted(self._cell, cell, side="right") - 1
        known = self._cell[place] == cell
        kept = known | _has_length(bucketer, number)
        return number[kept], self._row[place[kept]], known[kept]


def _has_length(bucketer: Bucketer, numbers: Integers) -> NDArray[np.bool_]:
    """Return which ascending buckets have a length: a date that a zone skips has none."""
    found, place = np.unique(numbers, return_inverse=True)
    return (bucketer.edges(found) < bucketer.edges(found + 1))[place]


def _ranks(keys: list[pa.ChunkedArray]) -> Integers:
    """Return the place of the key of each row among all keys in order."""
    found = group_codes(keys, drop_missing=False)
    order = order_of_keys(found.keys)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[found.codes]
