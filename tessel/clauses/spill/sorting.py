"""Sorting more rows than may be held: a partition by ranges of the key, and each range in turn.

Rows are held until they fill what may be ordered at once, and what never fills it is ordered in
memory and written nowhere. Past that, held rows are ordered and cut into *ranges* of the key, and
the rows of each range are appended to a file as a frame. In the end the ranges are read back in
order of the key, each is ordered by a stable sort, and given out. Frames of a range lie in order of
arrival, and a frame keeps the order of equal keys, so that the whole is stable (a sample sort:
Frazer and McKellar, Samplesort, J. ACM 17(3), 1970, with splitters taken from all held rows).

A range that has no rows yet is divided by the first rows that fall into it. So the first rows that
are written divide everything; rows that arrive in order fall behind the last bound and divide
what is there anew, each time, and are neither taken apart nor written twice. A key that holds as
much as a range becomes a range of its own, whose frames are given out as they come. A range that
came out too large is sorted like everything else, by an :class:`ExternalSort` of its own. The
others are ordered side by side, by the threads of the query.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables, empty_table, places
from tessel.clauses.ordering import Ordering, Rows
from tessel.clauses.spill.file import SpillBlock, SpillFile
from tessel.clauses.spill.joined_dictionaries import JoinedDictionaries
from tessel.clauses.spill.local_pool import Task
from tessel.clauses.spill.workspace import Account, Workspace
from tessel.clauses.units.reduced import unit_in_buckets
from tessel.clauses.values import with_used_entries
from tessel.closing import Closing
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.expression.text_bytes import rows_at
from tessel.lazy import dataclass

_FIRST_RANGES = 64
"""Ranges that the first held rows are cut into: enough for as many times what may be held."""

_LATER_RANGES = 8
"""Ranges that later held rows are cut into, where none of them falls among those before."""

_PART_ORDERED = 4
"""What part of the budget rows may take that are ordered at once, for all that it takes.

Ordering them takes their keys and places beside them, and units come and go meanwhile.
"""

_RESULT_BUDGETS = 4
"""Budgets that rows may take which are the result: they are held once, and a column twice."""

_LEAST_ORDERED_BYTES = 8 * 1024
# Arrow's text has offsets of 31 bits, and taking rows puts a column into one array.
_MOST_ORDERED_BYTES = 1 << 30
_OUTPUT_ROWS = 65_536


@dataclass(slots=True)
class _Range:
    """Frames of the rows between two bounds of the key.

    Attributes
    ----------
    has_one_key
        Whether the bounds are before and after one key.
    """

    has_one_key: bool = False
    frames: list[SpillBlock] = field(default_factory=list)
    size: int = 0


@dataclass(frozen=True, eq=False)
class KeyRanges:
    """Ranges of the key, for rows that are ordered range by range in several processes.

    Attributes
    ----------
    ordering
        By what rows are ordered: rows of one key of one unit are in one range.
    bounds
        The keys between ranges, in order.
    is_after
        For each whether it is the last key of the range before it; else the first one behind.
    units
        For the number of a range of one key, at which units its parts after the first begin.
    """

    ordering: Ordering
    bounds: pa.Table
    is_after: NDArray[np.bool_]
    units: Mapping[int, Rows]

    @classmethod
    def of_sample(
        cls, ordering: Ordering, keys: pa.Table, weights: Rows, units: Rows, parts: int
    ) -> KeyRanges:
        """Return about so many ranges of as many rows each, from a sample: one row at least.

        ``weights`` says how many rows each of its rows stands for, ``units`` where its unit is.
        """
        order, numbers = ordering.order_and_numbers(keys)
        ends = np.cumsum(weights[order])
        picks = np.searchsorted(ends, np.arange(parts) * ends[-1] // parts, side="right")
        division = list(_division(0, keys.num_rows, picks, numbers, order))
        cuts, is_after, one_key = map(np.array, zip(*division, strict=True))
        divided = {}
        for at in np.flatnonzero(one_key).tolist():
            rows = order[cuts[at - 1] : cuts[at]]
            rows = rows[np.argsort(units[rows], kind="stable")]
            own = np.cumsum(weights[rows])
            begins = np.arange(1, own[-1] * parts // ends[-1]) * ends[-1] // parts
            begun = np.unique(units[rows[np.searchsorted(own, begins, side="right")]])
            divided[at] = begun[begun > units[rows[0]]]
        return cls(ordering, keys.take(arrow_array(order[cuts - is_after])), is_after, divided)

    def __len__(self) -> int:
        return len(self.is_after) + 1 + sum(map(len, self.units.values()))

    def of_rows(self, table: pa.Table, unit: int) -> Rows:
        """Return the range of each row of the unit at a place; int64, shape ``(rows,)``."""
        before = self.bounds.filter(arrow_array(~self.is_after))
        after = self.bounds.filter(arrow_array(self.is_after))
        keys = table.select(self.ordering.by)
        # Of equal keys, what comes first is first: a bound that is before its key, or after it.
        order, _ = self.ordering.order_and_numbers(concat_tables([before, keys, after]))
        rows = order - before.num_rows
        is_bound = (rows < 0) | (rows >= keys.num_rows)
        found = np.empty(keys.num_rows, np.int64)
        found[rows[~is_bound]] = np.cumsum(is_bound)[~is_bound]
        numbers = np.arange(len(self.is_after) + 1)
        for at, begun in self.units.items():
            numbers[at] += np.searchsorted(begun, unit, side="right")
            numbers[at + 1 :] += len(begun)
        return numbers[found]

    def split(self, unit: ProcessingUnit, place: int) -> ProcessingUnit:
        """Return a unit with a piece for each range that has rows of it, which stay in order."""
        table, schema = unit.table, TableSchema(unit.schema.arrow)
        return unit_in_buckets(unit, table, schema, self.of_rows(table, place), len(self))


class ExternalSort(Closing):
    """Rows that are put in, in any order, and come out sorted; use as a context manager.

    Rows of equal keys come out in the order in which they went in.

    Parameters
    ----------
    most
        Bytes that it may hold; by default all that the query may.
    dictionaries
        Those that codes in its rows go into, of a sort whose rows these are; by default its own.
    is_result
        Whether its rows are the result of a query that is collected: the byte budget leaves them
        out, as long as they are no more than :data:`_RESULT_BUDGETS` budgets.
    """

    def __init__(
        self,
        ordering: Ordering,
        schema: pa.Schema,
        workspace: Workspace,
        most: int | None = None,
        dictionaries: JoinedDictionaries | None = None,
        *,
        is_result: bool = False,
    ) -> None:
        self._ordering = ordering
        self._schema = schema
        self._workspace = workspace
        self._account: Account = workspace.account
        limit = self._account.limit // _PART_ORDERED if most is None else most
        self._most = min(limit, _MOST_ORDERED_BYTES)
        budgets = _RESULT_BUDGETS if is_result else 0
        self._uncounted = min(budgets * self._account.limit, _MOST_ORDERED_BYTES)
        self._held: list[pa.Table] = []
        self._size = 0
        self._file: SpillFile | None = None
        self._ranges = [_Range()]
        self._bounds = empty_table(schema).select(ordering.by)
        self._is_after: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._is_part = dictionaries is not None
        self._dictionaries = dictionaries or JoinedDictionaries(schema, self._account)

    def close(self) -> None:
        """Hold nothing more; may be called twice."""
        self._let_go()
        if self._file is not None:
            self._file.close()
        if not self._is_part:
            self._dictionaries.close()

    def add(self, table: pa.Table) -> None:
        """Put rows in; text may be dictionaries of its type."""
        if not table.num_rows:
            return
        if not self._is_part:
            table = self._dictionaries.coded(table)
        size = table.nbytes
        held = self._size + size
        fits = held <= self._uncounted or (self._account.fits(size) and held <= self._most)
        if self._held and not fits:
            self._write_held()
            self._uncounted = 0
        self._hold(table)

    def sorted(self) -> Iterator[pa.Table]:
        """Give all rows in order, as tables; once."""
        if self._file is None:
            yield from _slices(self._in_order(self._held))
            self._let_go()
            return
        self._write_held()
        for is_ordered_at_once, ranges in itertools.groupby(self._ranges, self._may_be_ordered):
            if is_ordered_at_once:
                yield from self._side_by_side(list(ranges))
            else:
                for each in ranges:
                    yield from self._one_by_one(each)

    def _may_be_ordered(self, rows: _Range) -> bool:
        """Return whether a range is to be ordered, and not too large for that."""
        return not rows.has_one_key and rows.size <= max(self._most, _LEAST_ORDERED_BYTES)

    def _side_by_side(self, ranges: list[_Range]) -> Iterator[pa.Table]:
        """Give the rows of ranges, each ordered by a task, which holds them three times."""
        tasks = (Task(partial(self._of_range, each), 3 * each.size) for each in ranges)
        pool = self._workspace.pool
        for found in (task.run() for task in tasks) if pool is None else pool.map(tasks):
            yield from _slices(found)

    def _of_range(self, rows: _Range) -> Iterable[pa.Table]:
        assert self._file is not None
        return self._in_order([self._file.read(frame) for frame in rows.frames])

    def _one_by_one(self, rows: _Range) -> Iterator[pa.Table]:
        """Give the rows of a range, a frame at a time."""
        assert self._file is not None
        frames = map(self._file.read, rows.frames)
        if rows.has_one_key:
            for frame in frames:
                yield from self._dictionaries.restored(frame)
            return
        most, dictionaries = self._most, self._dictionaries
        with ExternalSort(
            self._ordering, self._schema, self._workspace, most, dictionaries
        ) as part:
            for frame in frames:
                part.add(frame)
            yield from part.sorted()

    def _hold(self, table: pa.Table) -> None:
        self._held.append(table)
        self._size += table.nbytes
        if not self._uncounted:
            self._account.hold(table.nbytes)

    def _let_go(self) -> None:
        if not self._uncounted:
            self._account.hold(-self._size)
        self._held, self._size = [], 0

    def _in_order(self, tables: list[pa.Table]) -> Iterable[pa.Table]:
        """Return the rows of tables in order; the list is empty afterwards."""
        table = self._dictionaries.joined(tables)
        keys = table.select(self._ordering.by)
        order = self._ordering.order(self._dictionaries.comparable(keys))
        names, columns = table.column_names, table.columns
        del table, keys
        return self._dictionaries.restored(_taken(names, columns, order))

    def _write_held(self) -> None:
        """Append what is held to the file, a frame for each range that has rows of it."""
        if not self._held:
            return
        if self._file is None:
            self._file = self._workspace.file()
        table = self._dictionaries.joined(self._held)
        pieces = self._cut(table.select(self._ordering.by))
        rows = np.concatenate(pieces)
        names, columns = table.column_names, table.columns
        del table
        table = _taken(names, columns, None if bool((rows[1:] > rows[:-1]).all()) else rows)
        ends = np.cumsum([len(piece) for piece in pieces]).tolist()
        for each, piece, end in zip(self._ranges, pieces, ends, strict=True):
            if len(piece):
                part = with_used_entries(table.slice(end - len(piece), len(piece)))
                each.frames.append(self._file.write(part))
                each.size += part.nbytes
        self._let_go()

    def _cut(self, keys: pa.Table) -> list[Rows]:
        """Return the rows of each range, having divided ranges without rows that get many."""
        before = self._bounds.filter(arrow_array(~self._is_after))
        after = self._bounds.filter(arrow_array(self._is_after))
        # Bounds are put in order with the rows: of equal keys, what came first is first.
        every = self._dictionaries.joined([before, keys, after])
        order, numbers = self._ordering.order_and_numbers(self._dictionaries.comparable(every))
        rows = order - before.num_rows
        ends = np.append(np.flatnonzero((rows < 0) | (rows >= keys.num_rows)), len(rows))
        parts = _LATER_RANGES if any(each.frames for each in self._ranges) else _FIRST_RANGES
        ranges: list[_Range] = []
        pieces: list[Rows] = []
        bounds: list[tuple[int, bool]] = []
        start = 0
        for each, end, is_after in zip(self._ranges, ends, [*self._is_after, False], strict=True):
            wanted = parts * (end - start) // keys.num_rows
            if wanted and not each.frames:
                picks = start + np.arange(wanted) * (end - start) // wanted
                for cut, is_last, one_key in _division(start, end, picks, numbers, order):
                    ranges.append(_Range(one_key))
                    pieces.append(rows[start:cut])
                    bounds.append((cut - 1 if is_last else cut, is_last))
                    start = cut
            ranges.append(each)
            pieces.append(rows[start:end])
            bounds.append((end, is_after))
            start = end + 1
        bounds.pop()
        if len(bounds) > len(self._is_after):
            chosen = every.take(arrow_array(order[[at for at, _ in bounds]]))
            self._bounds = with_used_entries(chosen)
            self._is_after = np.array([is_after for _, is_after in bounds])
            self._ranges = ranges
        return pieces


def _slices(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Give tables of a bounded number of rows."""
    for table in tables:
        for start in range(0, table.num_rows, _OUTPUT_ROWS):
            yield table.slice(start, _OUTPUT_ROWS)


def _taken(names: list[str], columns: list[pa.ChunkedArray], rows: Rows | None) -> pa.Table:
    """Return these rows of some columns as a table; all of them where ``rows`` is None.

    The list is overwritten column by column, so that one column alone is held twice, and one alone
    is in the processor's cache: ten columns of 650,000 rows in 64 ranges take 25 ms, range by range
    50.
    """
    if rows is not None:
        taken = places(rows)
        for at, column in enumerate(columns):
            columns[at] = rows_at(column, taken)
    return pa.Table.from_arrays(columns, names)


def _division(
    start: int, end: int, picks: Rows, numbers: list[NDArray[Any]], order: Rows
) -> Iterator[tuple[int, bool, bool]]:
    """Divide ordered rows into parts between keys.

    Parameters
    ----------
    start, end
        The rows; there are some.
    picks
        Where parts are to begin, ascending; a key that would be in two is a part of its own.
    numbers, order
        The keys as numbers, and the order of these.

    Yields
    ------
    cut : int
        Where a part ends, ascending.
    is_last : bool
        Whether its bound is after its last key; else it is before the first key behind it.
    one_key : bool
        Whether the part is one key.
    """
    picked = [_rows_of_key(numbers, order, at) for at in [*picks.tolist(), end - 1]]
    for at, ((begin, stop), count) in enumerate(Counter(picked).items()):
        if not at or count > 1:
            yield max(start, begin), False, False
        if at or count > 1:
            yield min(end, stop), True, count > 1


def _rows_of_key(numbers: list[NDArray[Any]], order: Rows, at: int) -> tuple[int, int]:
    """Return where in an order the key begins and ends that stands at a place."""

    def is_other(place: int) -> bool:
        return any(each[order[place]] != each[order[at]] for each in numbers)

    begin = bisect.bisect_left(range(at), True, key=lambda place: not is_other(place))
    return begin, bisect.bisect_left(range(len(order)), True, at, key=is_other)
