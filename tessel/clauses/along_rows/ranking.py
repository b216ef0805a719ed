"""What places in order become as ranks; the same for rows in memory and for a stream of them.

Ranks of more values than may be held: sorted outside of memory, ranked in passes, sorted back.

Rows are brought in order of key and value by an external sort; a second sort brings their ranks
back in the order of rows. What a rank needs of the rows behind it (how many equal values follow,
how many values the key has) is known when those have passed: until then it is put aside where keys
and values begin, and ranks are given from the last row back. Nothing here is as long as the table,
whatever is equal in it.
"""

from __future__ import annotations

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
        """Whether a rank depends on how many equal values follow, or how many the key has."""
        return self.pct or self.method in ("average", "max")

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
        rows, firsts = len(new_value), np.flatnonzero(new_value)
        counts = np.diff(firsts, append=rows)
        # Of each run of equal values: where its key begins, with which run, and how many it has.
        start: Any = 0
        run: Any = 0
        of: Any = len(firsts) if self.method == "dense" else rows
        if new_key is not None:
            begins = new_key[firsts]
            runs, key = np.flatnonzero(begins), np.cumsum(begins) - 1
            start, run = firsts[runs][key], runs[key]
            of = np.diff(runs if self.method == "dense" else firsts[runs], append=of)[key]
        found: NDArray[Any]
        if self.method == "ordinal":
            if new_key is not None:
                start, of = np.repeat(start, counts), np.repeat(of, counts)
            found = np.arange(1, rows + 1) - start
            return found / of if self.pct else found
        if self.method == "dense":
            found = np.arange(1, len(firsts) + 1) - run
        elif self.method == "average":
            found = (2 * firsts + counts + 1) / 2 - start
        else:
            found = firsts + (1 if self.method == "min" else counts) - start
        return np.repeat(found / of if self.pct else found, counts)


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
            with workspace.spill_buffer() as buffer:
                for own, placed in _placed(rows.sorted(), by, ranking, buffer):
                    found = [arrow_array(own), arrow_array(ranking.ranks(placed), kind)]
                    ranked.add(pa.Table.from_arrays(found, schema=back))
        for table in ranked.sorted():
            yield numpy_array(table.column(_ROW)), numpy_array(table.column("rank"))


@dataclass(frozen=True, slots=True)
class _Edge:
    """What lies on one side of some rows in order; places are counted over everything, from 0 on.

    Attributes
    ----------
    key, value
        Where the last key and the last value before the rows begin, or the first ones behind them.
    dense
        How many distinct values that key has up to the rows, or the last key of the rows in all.
    """

    key: int = 0
    value: int = 0
    dense: int = 0


def _placed(
    tables: Iterator[pa.Table], by: tuple[str, ...], ranking: Ranking, buffer: SpillBuffer
) -> Iterator[tuple[Integers, Places]]:
    """Give the rows of tables in order, and their places; parts come in any order."""
    waiting: list[tuple[BufferedTable, int, _Edge]] = []
    last: pa.Table | None = None
    start, before = 0, _Edge()
    for table in tables:
        if not table.num_rows:
            continue
        begins = _beginnings(table, last, by)
        places, after, _ = _places(*begins, start, before, _Edge(), ranking.method)
        rows = table.column(_ROW)
        if ranking.looks_ahead:
            part = pa.table([rows, *map(arrow_array, begins)], names=[_ROW, "key", "value"])
            waiting.append((buffer.put(part), start, before))
        else:
            yield numpy_array(rows), places
        start, before = start + table.num_rows, after
        last = table.slice(table.num_rows - 1).select(by)
        last = pa.Table.from_arrays([c.combine_chunks() for c in last.columns], names=by)
    behind = _Edge(start, start, before.dense)
    for buffered, start, before in reversed(waiting):
        own, new_key, new_value = map(numpy_array, buffer.take(buffered).columns)
        places, _, behind = _places(new_key, new_value, start, before, behind, ranking.method)
        yield own, places


def _places(
    new_key: NDArray[np.bool_],
    new_value: NDArray[np.bool_],
    start: int,
    before: _Edge,
    behind: _Edge,
    method: RankMethod,
) -> tuple[Places, _Edge, _Edge]:
    """Return the places of rows, what lies before the rows behind them, and behind those before."""
    rows = np.arange(start, start + len(new_key))
    key, value = np.cumsum(new_key), np.cumsum(new_value)
    keys = np.concatenate([[before.key], rows[new_key], [behind.key]])
    values = np.concatenate([[before.value], rows[new_value], [behind.value]])
    dense = value - np.append(-before.dense, value[new_key] - 1)[key]
    ends = np.append(before.dense, dense)[np.flatnonzero(new_key)]  # of the keys that end here
    all_dense = np.append(ends, behind.dense)
    key_start = keys[key]
    of = all_dense[key] if method == "dense" else keys[key + 1] - key_start
    own, first, last = rows + 1, values[value] + 1, values[value + 1]
    places = Places(own - key_start, first - key_start, last - key_start, dense, of)
    after = _Edge(int(keys[-2]), int(values[-2]), int(dense[-1]))
    return places, after, _Edge(int(keys[1]), int(values[1]), int(all_dense[0]))


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
