"""Sorting more rows than may be held: sorted runs, and their merge.

Rows are held until they fill what a query may hold (see :class:`Account`), ordered, and written to
a file as a *run*, in blocks of which many fit at a time. In the end the runs are merged, as many at
a time as have room for a block each; where there are more, the merge of some is a run again. A few
large tables that come in order are runs as they are. What never fills the room is ordered in memory
and written nowhere.

The merge goes in rounds, as that of time-ordered streams does (:mod:`tessel.store.merging`): of
each run one block is held; *bound* is the least last key over these blocks, *limit* the first run
whose block ends with it. What belongs before everything that is still to come are the rows not
after *bound* of the runs up to *limit*, and the rows before it of those behind. These go out,
ordered by a stable sort, and the block of *limit* is used up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, empty_table
from tessel.clauses.ordering import Key, Ordering
from tessel.clauses.spill.account import Account
from tessel.clauses.spill.file import SpillBlock, SpillFile
from tessel.clauses.spill.giving_back import WORTH_GIVING_BACK_BYTES, give_back
from tessel.clauses.spill.workspace import Workspace

__all__ = ["ExternalSort"]

_BLOCKS_IN_RUN = 64
_RUNS_MERGED = 128
"""Runs of which a block each is held at a time."""

_PART_ORDERED = 8
"""What part of the budget rows may take that are ordered at once, for all that it takes.

Ordering them takes their keys and places beside them, and units come and go meanwhile.
"""

_MOST_WITHOUT_RUNS = 2
"""How many times that may be held, and ordered, where all of it is: it is done once."""

_LEAST_BLOCK_BYTES = 8 * 1024
# Arrow's text has offsets of 31 bits, and taking rows puts a column into one array.
_MOST_RUN_BYTES = 1 << 30
_OUTPUT_ROWS = 65_536

Run = list[SpillBlock]


class ExternalSort:
    """Rows that are put in, in any order, and come out sorted; use as a context manager.

    Rows of equal keys come out in the order in which they went in.

    Parameters
    ----------
    ordering
        By what.
    schema
        Of all tables.
    workspace
        The account and the files of the query.
    most
        Bytes that it may hold; by default all that the query may.
    """

    def __init__(
        self,
        ordering: Ordering,
        schema: pa.Schema,
        workspace: Workspace,
        most: int | None = None,
    ) -> None:
        self._ordering = ordering
        self._schema = schema
        self._workspace = workspace
        self._account: Account = workspace.account
        self._most = min(self._account.limit // _PART_ORDERED, _MOST_RUN_BYTES)
        if most is not None:
            self._most = min(self._most, most)
        self._most_at_once = self._most if most is not None else self._most * _MOST_WITHOUT_RUNS
        self._block_bytes = max(_LEAST_BLOCK_BYTES, self._most // _BLOCKS_IN_RUN)
        room = self._most * (_RUNS_MERGED // _BLOCKS_IN_RUN)
        self._fan_in = max(2, room // self._block_bytes)
        self._held: list[pa.Table] = []
        self._size = 0
        self._file: SpillFile | None = None
        self._runs: list[Run] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hold nothing more; may be called twice."""
        self._let_go()
        if self._file is not None:
            self._file.close()

    def add(self, table: pa.Table) -> None:
        """Put rows in."""
        if not table.num_rows:
            return
        most = self._most if self._runs else self._most_at_once
        fits = self._account.fits(table.nbytes) and self._size + table.nbytes <= most
        if self._held and not fits:
            self._write_held()
        self._held.append(table)
        self._size += table.nbytes
        self._account.hold(table.nbytes)

    def sorted(self) -> Iterator[pa.Table]:
        """Give all rows in order, as tables; once."""
        if not self._runs:
            yield from self._in_order(_OUTPUT_ROWS)
            return
        self._write_held()
        while len(self._runs) > self._fan_in:
            self._merge_some()
        assert self._file is not None
        yield from self._merged(self._runs, self._file)

    def _in_order(self, rows: int) -> Iterator[pa.Table]:
        """Give what is held in order, some rows at a time."""
        columns = pa.concat_tables([empty_table(self._schema), *self._held]).columns
        self._held = []
        for at, column in enumerate(columns):
            # One array a column, for rows are taken in parts; one column at a time is held twice.
            columns[at] = column.unify_dictionaries().combine_chunks()
        table = pa.Table.from_arrays(columns, schema=self._schema)
        order = self._ordering.order(table)
        for start in range(0, table.num_rows, rows):
            if order is None:
                yield table.slice(start, rows)
            else:
                yield table.take(arrow_array(order[start : start + rows]))
        self._let_go()

    def _write_held(self) -> None:
        """Write what is held as runs of which each may be ordered at once."""
        waiting, left = list(self._held), self._size
        try:
            while waiting:
                ends = np.cumsum([table.nbytes for table in waiting])
                count = max(1, int(np.searchsorted(ends, self._most, side="right")))
                self._held, self._size = waiting[:count], int(ends[count - 1])
                del waiting[:count]
                left -= self._size
                self._write_run()
        finally:
            self._account.hold(-left)  # of an error: what is not held here any more

    def _write_run(self) -> None:
        if self._file is None:
            self._file = self._workspace.file()
        if self._are_runs():
            self._runs += [self._written(table, self._file) for table in self._held]
            self._let_go()
            return
        count, size = sum(table.num_rows for table in self._held), self._size
        rows = max(1, count * self._block_bytes // max(1, size))
        file = self._file
        self._runs.append([file.write(table) for table in self._in_order(rows)])
        if size >= WORTH_GIVING_BACK_BYTES:
            give_back()  # the run, which was held until the last of it was written

    def _are_runs(self) -> bool:
        """Return whether each table that is held is in order, and large enough to be a run."""
        if len(self._runs) + len(self._held) > self._fan_in:
            return False
        return all(
            table.nbytes >= self._block_bytes and self._ordering.order(table) is None
            for table in self._held
        )

    def _written(self, table: pa.Table, file: SpillFile) -> Run:
        rows = max(1, table.num_rows * self._block_bytes // max(1, table.nbytes))
        return [
            file.write(table.slice(start, rows).combine_chunks())
            for start in range(0, table.num_rows, rows)
        ]

    def _let_go(self) -> None:
        self._account.hold(-self._size)
        self._held, self._size = [], 0

    def _merge_some(self) -> None:
        """Merge runs that stand side by side, all of them once, into a new file."""
        assert self._file is not None
        old, new = self._file, self._workspace.file()
        try:
            runs = [
                self._rewritten(self._runs[at : at + self._fan_in], old, new)
                for at in range(0, len(self._runs), self._fan_in)
            ]
        except BaseException:
            new.close()
            raise
        self._runs, self._file = runs, new
        old.close()

    def _rewritten(self, runs: Sequence[Run], old: SpillFile, new: SpillFile) -> Run:
        written: Run = []
        waiting: list[pa.Table] = []
        size = 0
        for table in self._merged(runs, old):
            # A round may give as much as all blocks together; no block may grow by that.
            rows = max(1, table.num_rows * self._block_bytes // max(1, table.nbytes))
            for start in range(0, table.num_rows, rows):
                part = table.slice(start, rows)
                if waiting and size + part.nbytes > self._block_bytes:
                    written.append(new.write(pa.concat_tables(waiting)))
                    waiting, size = [], 0
                waiting.append(part)
                size += part.nbytes
        if waiting:
            written.append(new.write(pa.concat_tables(waiting)))
        return written

    def _merged(self, runs: Sequence[Run], file: SpillFile) -> Iterator[pa.Table]:
        heads = [_Head(run, file, self._ordering, self._account) for run in runs]
        try:
            while True:
                ends = [(head.last, at) for at, head in enumerate(heads) if head.last is not None]
                if not ends:
                    return
                bound, limit = min(ends)
                parts = [
                    part
                    for at, head in enumerate(heads)
                    if head.last is not None
                    and (part := head.up_to(bound, included=at <= limit)) is not None
                ]
                table = pa.concat_tables(parts)
                order = self._ordering.order(table)
                yield table if order is None else table.take(arrow_array(order))
        finally:
            for head in heads:
                head.close()


class _Head:
    """What is held of one run: a block, and how many of its rows have gone out."""

    def __init__(self, run: Run, file: SpillFile, ordering: Ordering, account: Account) -> None:
        self._blocks = iter(run)
        self._file = file
        self._ordering = ordering
        self._account = account
        self._size = 0
        self._at = 0
        self.last: Key | None = None
        """The last key of the block that is held; None when the run has ended."""
        self._advance()

    def up_to(self, bound: Key, *, included: bool) -> pa.Table | None:
        """Take the rows before a key, or not after it; None where there are none."""
        start = self._at
        self._at = self._keys.up_to(bound, start, included=included)
        if self._at == start:
            return None
        taken = self._table.slice(start, self._at - start)
        if self._at == self._table.num_rows:
            self._advance()
        return taken

    def close(self) -> None:
        """Hold nothing more."""
        self._account.hold(-self._size)
        self._size = 0
        self.last = None

    def _advance(self) -> None:
        self.close()
        block = next(self._blocks, None)
        if block is None:
            return
        self._table = self._file.read(block)
        self._keys = self._ordering.keys(self._table)
        self._at = 0
        self._size = block.nbytes
        self._account.hold(self._size)
        self.last = self._keys[len(self._keys) - 1]
