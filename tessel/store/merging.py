"""The k-way merge: ordered streams of tables become one stream ordered by time.

The ``merge`` clause and the finalising of staged writes come here. An input is a run: tables, one
after another, whose index never goes back. Of each input that has begun one table is held, so the
memory needed grows with the number of inputs whose times overlap, not with their rows.

The merge goes in rounds. Let *bound* be the least last time over the tables that are held, and
*limit* the first input whose table ends with it. No row that is still to come belongs before those
that go out now: of inputs up to *limit* the rows not after *bound*, of those behind it the rows
before *bound*, since *limit* may have more rows of that time and its rows come first. A round uses
up the table of *limit*, so there are as many rounds as tables. Rows of one round are ordered by a
stable sort, which on a few ordered runs is a merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.errors import SchemaMismatchError, TesselError
from tessel.lazy import dataclass
from tessel.store.frames import describe_differences
from tessel.store.index_column import checked_order, index_integers

OUT_OF_ORDER = "each input of a merge is ordered by time: sort it first"
"""What to do about one that is not."""


@dataclass(frozen=True)
class Run:
    """One input of a merge.

    Attributes
    ----------
    tables
        The rows: tables of one schema, ordered by the index over all of them.
    name
        What errors call it.
    not_before
        A time, in the index's own unit, that no row is before; the input is not begun until the
        merge has come there. None begins it at once.
    """

    tables: Iterable[pa.Table]
    name: str
    not_before: int | None = None


def merge_ordered(runs: Sequence[Run], schema: pa.Schema, index: str) -> Iterator[pa.Table]:
    """Merge ordered inputs into one ordered stream of tables.

    Rows of equal times keep the order of the inputs, and within an input their own.

    Parameters
    ----------
    runs
        The inputs.
    schema
        The columns that all of their tables have, in this order, with these types.
    index
        The column to order by.

    Raises
    ------
    SchemaMismatchError
        For a table with other columns.
    IndexColumnError, UnsortedIndexError
        For an input with a missing time, or one that goes back; names the input.
    """
    heads = [_Head(run, schema, index) for run in runs]
    while True:
        found = _limit(heads)
        if found is None:
            return
        limit, bound = found
        parts = [head.up_to(bound, included=at <= limit) for at, head in enumerate(heads)]
        ordered = _in_order([part for part in parts if part is not None])
        if ordered is not None:
            yield ordered


class _Head:
    """What is held of one input: a table, and how many of its rows have gone out."""

    def __init__(self, run: Run, schema: pa.Schema, index: str) -> None:
        self.waits_until = run.not_before
        self._tables = _checked(run, schema, index)
        self._index = index
        self._table: pa.Table | None = None
        self._at = 0
        self.times: npt.NDArray[np.int64] | None = None
        """Index values of the table that is held; None where the input has ended."""
        if self.waits_until is None:
            self._advance()

    def begin(self) -> None:
        """Read the first table of an input that was left until now."""
        self.waits_until = None
        self._advance()

    def up_to(self, bound: int, *, included: bool) -> tuple[pa.Table, npt.NDArray[np.int64]] | None:
        """Take the rows before ``bound``, or not after it; None where there are none."""
        if self.times is None or self._table is None:
            return None
        stop = int(np.searchsorted(self.times, bound, side="right" if included else "left"))
        start, self._at = self._at, stop
        if stop == start:
            return None
        taken = self._table.slice(start, stop - start), self.times[start:stop]
        if stop == len(self.times):
            self._advance()
        return taken

    def _advance(self) -> None:
        self._table = next((table for table in self._tables if table.num_rows), None)
        self._at = 0
        self.times = (
            None
            if self._table is None
            else index_integers(self._table.column(self._index), self._index)
        )


def _limit(heads: Sequence[_Head]) -> tuple[int, int] | None:
    """Return the first input whose table ends first, and its last time; None at the end."""
    while True:
        ends = [(int(h.times[-1]), at) for at, h in enumerate(heads) if h.times is not None]
        bound, limit = min(ends, default=(0, -1))
        waiting = [h for h in heads if h.waits_until is not None]
        if limit < 0 and waiting:
            first = min(waiting, key=lambda head: head.waits_until or 0)
            due = [first]
        else:
            due = [h for h in waiting if h.waits_until is not None and h.waits_until <= bound]
        if not due:
            return None if limit < 0 else (limit, bound)
        for head in due:
            head.begin()


def _in_order(
    parts: Sequence[tuple[pa.Table, npt.NDArray[np.int64]]],
) -> pa.Table | None:
    if not parts:
        return None
    tables = [table for table, _ in parts]
    joined = tables[0] if len(tables) == 1 else concat_tables(tables)
    if all(one[-1] <= two[0] for (_, one), (_, two) in pairwise(parts)):
        return joined
    times = np.concatenate([own for _, own in parts])
    return joined.take(arrow_array(np.argsort(times, kind="stable")))


def _checked(run: Run, schema: pa.Schema, index: str) -> Iterator[pa.Table]:
    def tables() -> Iterator[pa.Table]:
        for table in run.tables:
            differences = describe_differences(schema, table.schema)
            if differences:
                raise SchemaMismatchError(
                    "an input of a merge has other columns than the merge",
                    detail="\n".join(differences),
                    hint="bring all inputs to one schema first",
                )
            yield table.select(schema.names)

    try:
        yield from checked_order(tables(), index, hint=OUT_OF_ORDER)
    except TesselError as error:
        error.with_context(input=run.name)
        raise
