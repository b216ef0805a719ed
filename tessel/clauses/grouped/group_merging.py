"""Merging the partials of more groups than may be held.

Partial tables are held as they come. Where they do not fit any more they are merged with each other
first, which is enough while groups repeat from unit to unit. Where they do not, they are put aside
by hash buckets of their keys, in memory while there is room and in a file from there on, and the
buckets are merged one after the other in the end; a bucket that does not fit either is split once
more, by the next bits of the hash. States that hold values
(:attr:`~tessel.clauses.aggregates.MergeableAggregate.compact`) may not fit though they are of one
group; what is left then is finished in another way, which is given.

States merge in any tree to the same bits, so no answer depends on what was put aside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, empty_table
from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.grouped.group_tables import finished_table, merged_states
from tessel.clauses.grouped.hashing import bucket_of
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.spill.workspace import Workspace
from tessel.expression.schema import TableSchema

if TYPE_CHECKING:
    from tessel.clauses.spill.file import SpillBlock, SpillFile
    from tessel.clauses.spill.spool import Parked, Spool

__all__ = ["Beyond", "GroupMerge", "GroupShape"]

_BUCKETS = 32
_LEVELS = 4
"""How often the hash is split: a bucket of the last split is a millionth of the groups."""

_MERGE_TAKES = 4
"""How many times their own bytes partials take while they are merged, about."""

_VALUES_TAKE = 2
"""And how many times that where they hold the values of one group."""

_KEPT_PART = 2
"""Merging partials is worth doing again while it leaves no more than half of them."""


@dataclass(frozen=True)
class GroupShape:
    """What is grouped, and how.

    Attributes
    ----------
    keys, aggregates
        As in an aggregation.
    source
        Schema of the rows before they were reduced.
    """

    keys: tuple[str, ...]
    aggregates: tuple[NamedAggregate, ...]
    source: TableSchema


Beyond = Callable[[Iterator[pa.Table], GroupShape, Workspace], Iterator[pa.Table]]


class GroupMerge:
    """Partial tables that are put in, and groups that come out; use as a context manager.

    Parameters
    ----------
    shape
        What is grouped.
    schema
        Of the partial tables. A column :data:`POSITION` is handed on: that of the first row of each
        group.
    workspace
        The account and the files of the query.
    level
        How often the hash was split already.
    beyond
        What finishes partial tables of which the states of one group do not fit.
    """

    def __init__(
        self,
        shape: GroupShape,
        schema: pa.Schema,
        workspace: Workspace,
        level: int = 0,
        beyond: Beyond | None = None,
    ) -> None:
        self._shape = shape
        self._schema = schema
        self._workspace = workspace
        self._level = level
        self._beyond = beyond
        if all(has_compact_state(each.aggregate) for each in shape.aggregates):
            self._beyond = None
        self._left: list[SpillBlock] = []
        self._left_file: SpillFile | None = None
        self._held: list[pa.Table] = []
        self._size = 0
        self._spool: Spool | None = None
        self._buckets: list[list[Parked]] = [[] for _ in range(_BUCKETS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hold([])
        if self._spool is not None:
            self._spool.close()
        if self._left_file is not None:
            self._left_file.close()

    @property
    def spilled(self) -> bool:
        """Whether something was put aside: groups then come out bucket by bucket."""
        return self._spool is not None or bool(self._left)

    def is_full(self, size: int) -> bool:
        """Return whether partials of so many bytes more would not be held as they come."""
        return bool(self._held) and not self._fits(size)

    def add(self, table: pa.Table) -> None:
        """Put partials in; they follow those that are in already."""
        size = table.nbytes
        if self._left and self._held and not self._fits(size):
            self._leave()  # merging was of no use
        elif self._held and not self._fits(size):
            before = self._size
            self._hold([self._merged_states()])
            helped = self._size * _KEPT_PART <= before or self._size <= self._most
            if not (helped and self._workspace.account.fits(size)):
                if self._can_split:
                    self._put_aside()
                elif self._beyond is not None:
                    self._leave()
        self._hold_more(table, size)

    def add_last(self, table: pa.Table) -> None:
        """Put the last partials in, of a unit at most, which are not worth putting any aside."""
        self._hold_more(table, table.nbytes)

    def finished(self) -> Iterator[pa.Table]:
        """Give the groups as tables of keys and results, once; each group in one of them."""
        if self._left:
            self._leave()
            assert self._beyond is not None
            yield from self._beyond(self._read_left(), self._shape, self._workspace)
            return
        if self._spool is None:
            states = self._merged_states()
            self._hold([])
            yield finished_table(
                states, self._shape.keys, self._shape.aggregates, self._shape.source
            )
            return
        self._hold([self._merged_states()])
        self._put_aside()
        for parts in self._buckets:
            if not parts:
                continue
            level = self._level + 1
            with GroupMerge(
                self._shape, self._schema, self._workspace, level, self._beyond
            ) as bucket:
                for part in parts:
                    bucket.add(self._spool.take(part))
                yield from bucket.finished()

    @property
    def _most(self) -> int:
        """Bytes of partials that may be merged at a time, for all that it takes."""
        most = self._workspace.account.held_limit // _MERGE_TAKES
        holds_values = self._beyond is not None and not self._shape.keys
        return most // _VALUES_TAKE if holds_values else most

    def _fits(self, size: int) -> bool:
        return self._workspace.account.fits(size) and self._size + size <= self._most

    @property
    def _can_split(self) -> bool:
        # Without keys there is one group; rows of one key stay together however often one splits.
        if not self._shape.keys or self._level == _LEVELS or self._left:
            return False
        if self._beyond is None or self._level == 0 or any(self._buckets):
            return True
        # Nor does splitting help where the states of one group are too large.
        return bool(self._held[0].num_rows > 1)

    def _merged_states(self) -> pa.Table:
        table = pa.concat_tables([empty_table(self._schema), *self._held])
        return merged_states(table, self._shape.keys, self._shape.aggregates, self._shape.source)

    def _leave(self) -> None:
        """Put what is held aside as it is."""
        if self._left_file is None:
            self._left_file = self._workspace.file()
        self._left += [self._left_file.write(table) for table in self._held]
        self._hold([])

    def _read_left(self) -> Iterator[pa.Table]:
        assert self._left_file is not None  # something was left
        for block in self._left:
            yield self._left_file.read(block)

    def _put_aside(self) -> None:
        from tessel.kernels.rows_by_code import order_of_codes

        if self._spool is None:
            self._spool = self._workspace.spool()
        (table,) = self._held
        self._hold([])  # what it held is for its parts
        buckets = self._bucket_of([table.column(key) for key in self._shape.keys])
        order = order_of_codes(buckets, _BUCKETS)
        bounds = np.searchsorted(buckets[order], np.arange(_BUCKETS + 1)).tolist()
        for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
            if start < stop:
                part = table.take(arrow_array(order[start:stop]))
                self._buckets[number].append(self._spool.put(part))

    def _bucket_of(self, keys: Sequence[pa.ChunkedArray]) -> np.ndarray:
        """Return the bucket of each row: each level looks at five more bits of the hash."""
        return bucket_of(keys, _BUCKETS ** (self._level + 1)) % _BUCKETS

    def _hold_more(self, table: pa.Table, size: int) -> None:
        # A running total: asking all that is held for its bytes again is quadratic in units.
        self._workspace.account.hold(size)
        self._held.append(table)
        self._size += size

    def _hold(self, tables: list[pa.Table]) -> None:
        size = sum(table.nbytes for table in tables)
        self._workspace.account.hold(size - self._size)
        self._held, self._size = tables, size
