"""What places in order become as ranks; the same for rows in memory and for a stream of them.

Ranks of more values than may be held: sorted outside of memory, ranked in passes, sorted back.

Rows are brought in order of key and value by an external sort; ranks are given as they pass; a
second sort brings them back in the order of rows. What a rank needs of the rows behind it (how many
equal values follow, how many values the key has) is known when those have passed: until then tables
wait in a spill buffer. Nothing here is as long as the table, whatever is equal in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables, numpy_array
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.ordering import Ordering
from tessel.clauses.spill.sorting import ExternalSort
from tessel.clauses.spill.spill_buffer import BufferedTable, SpillBuffer
from tessel.clauses.spill.workspace import Workspace
from tessel.clauses.values import missing_rows, plain
from tessel.lazy import dataclass

RankMethod = Literal["average", "min", "max", "dense", "ordinal"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Where values lie among those of their key, in order; each int64, shape ``(rows,)``.

    Attributes
    ----------
    own
        Place of each value, from 1 on.
    first, last
        The first and the last place of the values equal to it.
    dense
        How many distinct values there are up to it.
    of
        What ranks are a part of: the values of the key, or its distinct ones for ``"dense"``.
    """

    own: Integers
    first: Integers
    last: Integers
    dense: Integers
    of: Integers


@dataclass(frozen=True, slots=True)
class Ranking:
    """How values are ranked; see :class:`~tessel.clauses.rank.Rank`."""

    method: RankMethod
    descending: bool = False
    pct: bool = False

    @property
    def looks_ahead(self) -> bool:
        """Whether a rank depends on how many equal values follow."""
        return self.method in ("average", "max")

    def ranks(self, places: Places) -> NDArray[Any]:
        """Return the rank of each value: float64 for averages and parts, else int64."""
        found: NDArray[Any]
        if self.method == "average":
            found = (places.first + places.last) / 2
        else:
            found = {
                "min": places.first,
                "max": places.last,
                "dense": places.dense,
                "ordinal": places.own,
            }[self.method]
        return found / places.of if self.pct else found

    def ranks_in_order(
        self, new_key: NDArray[np.bool_] | None, new_value: NDArray[np.bool_]
    ) -> NDArray[Any]:
        """Return the ranks of values in order, given where keys and values begin.

        Equal values have one rank, which is computed once.

        Parameters
        ----------
        new_key, new_value
            Shape ``(rows,)``; a new key is a new value, and the first row is both. None where there
            is one key.

        Returns
        -------
        numpy.ndarray
            Shape ``(rows,)``, as of :meth:`ranks`.
        """
        rows = len(new_value)
        firsts = np.flatnonzero(new_value)
        if new_key is None:
            return self._ranks_of_one_key(firsts, rows)
        ends = np.append(firsts, rows)[1:]
        begins = new_key[firsts]
        # Runs of equal values, and of each the first run of its key.
        runs, key = np.flatnonzero(begins), np.cumsum(begins) - 1
        start = firsts[runs][key]
        dense = np.arange(len(firsts)) - runs[key] + 1
        total = len(firsts) if self.method == "dense" else rows
        many = np.diff(runs if self.method == "dense" else firsts[runs], append=total)
        places = Places(firsts - start + 1, firsts - start + 1, ends - start, dense, many[key])
        if self.method != "ordinal":
            return np.repeat(self.ranks(places), ends - firsts)
        own: NDArray[Any] = np.arange(1, rows + 1) - np.repeat(start, ends - firsts)
        return own / np.repeat(places.of, ends - firsts) if self.pct else own

    def _ranks_of_one_key(self, firsts: Integers, rows: int) -> NDArray[Any]:
        """Return the ranks of rows in order; no more is made than the method asks for."""
        found: NDArray[Any]
        of = rows
        if self.method == "ordinal":
            found = np.arange(1, rows + 1)
        else:
            counts = np.diff(firsts, append=rows)
            if self.method == "dense":
                found, of = np.arange(1, len(firsts) + 1), len(firsts)
            elif self.method == "average":
                found = (2 * firsts + counts + 1) / 2
            else:
                found = firsts + (1 if self.method == "min" else counts)
            found = np.repeat(found, counts)
        return found / of if self.pct else found


VALUE = "value"
"""The column that is ranked; all others are keys."""
_ROW = "\0row"


def ranked_rows(
    tables: Iterable[pa.Table],
    schema: pa.Schema,
    ranking: Ranking,
    workspace: Workspace,
    share: int,
) -> Generator[tuple[NDArray[np.int64], NDArray[Any]], None, None]:
    """Rank values that come in tables; give rows that have a rank, ascending, and their ranks.

    Parameters
    ----------
    tables
        Keys, and the values as :data:`VALUE`; plain columns.
    share
        Bytes that each of the two sorts may hold.
    """
    keys = [name for name in schema.names if name != VALUE]
    by = (*keys, VALUE)
    ordering = Ordering(by, (*(False for _ in keys), ranking.descending))
    held = schema.append(pa.field(_ROW, pa.int64()))
    kind = pa.float64() if ranking.pct or ranking.method == "average" else pa.int64()
    back = pa.schema([pa.field(_ROW, pa.int64()), pa.field("rank", kind)])
    by_row = Ordering((_ROW,), (False,))
    with ExternalSort(by_row, back, workspace, share) as ranked:
        with ExternalSort(ordering, held, workspace, share) as rows:
            start = 0
            for table in tables:
                places = np.arange(start, start + table.num_rows, dtype=np.int64)
                start += table.num_rows
                table = table.append_column(_ROW, arrow_array(places))
                missing = missing_rows(plain(table.column(VALUE)))
                rows.add(table if missing is None else table.filter(arrow_array(~missing)))
            for part in _ranked(rows.sorted(), by, ranking, workspace):
                found = [arrow_array(part.rows), arrow_array(ranking.ranks(part.places()), kind)]
                ranked.add(pa.Table.from_arrays(found, schema=back))
        for table in ranked.sorted():
            yield numpy_array(table.column(_ROW)), numpy_array(table.column("rank"))


@dataclass(frozen=True, slots=True)
class _Part:
    """Some values in order, and what is known of their places among all values.

    Places are counted over everything, from 0 on; each array has shape ``(rows,)``.
    """

    rows: NDArray[np.int64]
    place: NDArray[np.int64]
    key_start: NDArray[np.int64]
    value_start: NDArray[np.int64]
    dense: NDArray[np.int64]
    new_key: NDArray[np.bool_]
    new_value: NDArray[np.bool_]
    value_last: NDArray[np.int64]
    of: NDArray[np.int64]

    def places(self) -> Places:
        """Return the places within keys."""
        before = self.key_start - 1
        return Places(
            self.place - before,
            self.value_start - before,
            self.value_last - before,
            self.dense,
            self.of,
        )

    def to_table(self) -> pa.Table:
        """Return all of it as a table, to be put aside."""
        return pa.table(
            {f.name: arrow_array(getattr(self, f.name)) for f in dataclasses.fields(self)}
        )

    @classmethod
    def of_table(cls, table: pa.Table) -> _Part:
        """Return what was put aside."""
        return cls(*(numpy_array(table.column(name)) for name in table.column_names))


def _ranked(
    tables: Iterator[pa.Table], by: tuple[str, ...], ranking: Ranking, workspace: Workspace
) -> Iterator[_Part]:
    parts = _begun(tables, by)
    with contextlib.ExitStack() as opened:
        if ranking.looks_ahead:
            buffer = opened.enter_context(workspace.spill_buffer())
            parts = _with_last(parts, "new_value", "place", "value_last", buffer)
        if ranking.pct:
            buffer = opened.enter_context(workspace.spill_buffer())
            counted = "dense" if ranking.method == "dense" else "place"
            parts = _with_last(parts, "new_key", counted, "of", buffer)
            if counted == "place":
                parts = (dataclasses.replace(p, of=p.of - p.key_start + 1) for p in parts)
        yield from parts


def _begun(tables: Iterator[pa.Table], by: tuple[str, ...]) -> Iterator[_Part]:
    """Give tables, in order, as parts, with all that the rows before tell."""
    before: pa.Table | None = None
    place = key_start = value_start = dense = 0
    for table in tables:
        if not table.num_rows:
            continue
        new_key, new_value = _beginnings(table, before, by)
        rows = np.arange(place, place + table.num_rows, dtype=np.int64)
        key_starts = np.maximum.accumulate(np.where(new_key, rows, key_start))
        value_starts = np.maximum.accumulate(np.where(new_value, rows, value_start))
        # Distinct values since the key began, or since the table did where it began before.
        counts = np.cumsum(new_value) + dense
        begun = np.where(new_key, counts - 1, 0)
        denses = counts - np.maximum.accumulate(begun)
        nothing = np.zeros(len(rows), np.int64)
        own = numpy_array(table.column(_ROW))
        yield _Part(
            own, rows, key_starts, value_starts, denses, new_key, new_value, nothing, nothing
        )
        place += len(rows)
        key_start, value_start, dense = int(key_starts[-1]), int(value_starts[-1]), int(denses[-1])
        before = table.slice(table.num_rows - 1).select(by)
        before = pa.Table.from_arrays([c.combine_chunks() for c in before.columns], names=by)


def _beginnings(
    table: pa.Table, before: pa.Table | None, by: tuple[str, ...]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where in a table keys and values begin, given the row before its first."""
    own = table.select(by)
    both = own if before is None else concat_tables([before, own])
    codes = group_codes([both.column(name) for name in by], drop_missing=False).codes
    keys = [both.column(name) for name in by[:-1]]
    key_codes = group_codes(keys, drop_missing=False).codes if keys else np.zeros(len(codes), int)
    new_key, new_value = np.diff(key_codes) != 0, np.diff(codes) != 0
    if before is None:
        new_key, new_value = np.append(True, new_key), np.append(True, new_value)
    return new_key, new_value | new_key


def _with_last(
    parts: Iterator[_Part], begins: str, column: str, into: str, buffer: SpillBuffer
) -> Iterator[_Part]:
    """Put into a column what another has in the last row of each run.

    A run begins where ``begins`` is set. The last run of a part is open: the part waits until the
    run's end has come.
    """
    waiting: list[BufferedTable] = []
    last = 0
    for part in parts:
        starts = np.flatnonzero(getattr(part, begins))
        values = getattr(part, column)
        if len(starts):
            first = int(starts[0])
            closing = int(values[first - 1]) if first else last
            yield from _closed(waiting, buffer, into, closing)
            waiting = []
        runs = np.append(starts[1:], len(values)) - 1
        of_run = np.cumsum(getattr(part, begins)) - 1
        ends = values[runs]
        found = np.full(len(values), _OPEN)
        known = (of_run >= 0) & (of_run < len(runs) - 1)
        found[known] = ends[of_run[known]]
        if len(starts):
            found[: int(starts[0])] = closing
        waiting.append(buffer.put(dataclasses.replace(part, **{into: found}).to_table()))
        last = int(values[-1])
    yield from _closed(waiting, buffer, into, last)


_OPEN = -1


def _closed(
    waiting: list[BufferedTable], buffer: SpillBuffer, into: str, value: int
) -> Iterator[_Part]:
    for buffered in waiting:
        part = _Part.of_table(buffer.take(buffered))
        found = getattr(part, into)
        yield dataclasses.replace(part, **{into: np.where(found == _OPEN, value, found)})
