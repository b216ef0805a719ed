"""Merging the partial states of more groups than fit into the byte budget.

Partial tables are buffered as they come. Where they do not fit any more they are merged with each
other first, which is enough while groups, or the values of holistic states, repeat from unit to
unit. Once they do not, they are partitioned by a hash of their keys, in memory while the byte
budget allows it and in a spill file from there on. The partitions are merged one after the other
in the end; one that does not fit either is split once more, by the next bits of the hash. Holistic
states (:attr:`~tessel.clauses.aggregates.MergeableAggregate.compact`) may not fit though they are
of one group; they are then finished in another way, which the caller gives.

States merge in any tree to the same bits, so no answer depends on what was spilled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, empty_table
from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.grouped.group_tables import GroupShape
from tessel.clauses.grouped.grouping import Groups, group_codes
from tessel.clauses.grouped.hashing import bucket_of
from tessel.clauses.spill.workspace import Workspace
from tessel.closing import Closing

if TYPE_CHECKING:
    from tessel.clauses.spill.file import SpillBlock, SpillFile
    from tessel.clauses.spill.spool import Parked, Spool

__all__ = ["Beyond", "GroupMerge"]

_BUCKETS = 32
_LEVELS = 4
"""How often the hash is split: a bucket of the last split is a millionth of the groups."""

_MERGE_TAKES = 4
"""Partial tables take about so many times their own bytes while they are merged."""

_VALUES_TAKE = 2
"""Holistic states of one group take so many times that."""

_SAMPLED_GROUPS = 32
"""Merging of holistic states is tried with one group of so many, to see whether it helps."""

_LEAST_BYTES_A_STATE = 128
"""Above this the values are most of a state: one with a single value has about 40, its key too."""

_WORTH_MERGING = 2
"""Merging is worth doing again while it leaves at most this part of the bytes: the half."""


Beyond = Callable[[Iterator[pa.Table], GroupShape, Workspace], Iterator[pa.Table]]


class GroupMerge(Closing):
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
        # States of values alone are finished where they lie, some groups at a time, in memory of at
        # most the bytes of the largest group: as many may be held as the budget allows, once it is
        # seen that merging them leaves about as many.
        self._only_values = self._beyond is not None
        self._stays: bool | None = None
        self._left: list[SpillBlock] = []
        self._left_file: SpillFile | None = None
        self._buffered: list[pa.Table] = []
        self._size = 0
        self._spool: Spool | None = None
        self._buckets: list[list[Parked]] = [[] for _ in range(_BUCKETS)]

    def close(self) -> None:
        """Let go of all partials, and of their files."""
        self._set_buffered([])
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
        return bool(self._buffered) and not self._fits(size)

    def add(self, table: pa.Table) -> None:
        """Put partials in; they follow those that are in already."""
        size = table.nbytes
        self._only_values = self._only_values and self._holds_only_values(table)
        if self._only_values and self._stays is None and self._buffered and not self._fits(size):
            self._stays = self._would_stay()
        if self._left and self._buffered and not self._fits(size):
            self._leave()  # merging was of no use
        elif self._spool is not None and self._buffered and not self._fits(size):
            self._spill()  # merging was of no use, and each bucket is merged in the end
        elif self._buffered and not self._fits(size):
            before = self._size
            if not self._stays:
                self._set_buffered([self._shape.merged(self._stacked(self._buffered))])
            helped = self._size * _WORTH_MERGING <= before
            helped |= not self._stays and self._size <= self._most
            if not (helped and self._workspace.account.fits(size)):
                if self._can_split:
                    self._spill()
                elif self._beyond is not None:
                    self._leave()
        self._buffer(table, size)

    def add_last(self, table: pa.Table) -> None:
        """Put the last partials in, of a unit at most, which are not worth putting any aside."""
        self._buffer(table, table.nbytes)

    def finished(self) -> Iterator[pa.Table]:
        """Give the groups as tables of keys and results, once; each group in one of them."""
        if self._left:
            self._leave()
            assert self._beyond is not None
            yield from self._beyond(self._read_left(), self._shape, self._workspace)
            return
        if self._spool is None:
            yield self._shape.finished(self._stacked(self._buffered))
            self._set_buffered([])
            return
        self._spill()
        if not any(self._buckets):  # the partials that were put aside had no rows
            yield self._shape.finished(self._stacked([]))
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
        """Bytes of partials that may be held, for all that merging or finishing them takes."""
        limit = self._workspace.account.held_limit
        if self._only_values and self._stays:
            return limit
        most = limit // _MERGE_TAKES
        holds_values = self._beyond is not None and not self._shape.keys
        return most // _VALUES_TAKE if holds_values else most

    def _holds_only_values(self, table: pa.Table) -> bool:
        from tessel.clauses.aggregates.holistic import Values, are_only_values

        shape = self._shape
        return all(
            isinstance(reduction, Values) and are_only_values(shape.plan.columns(table, key))
            for key, reduction in shape.plan.reductions.items()
            if not reduction.compact
        )

    def _would_stay(self) -> bool:
        """Return whether merged partials would take more than half the bytes of those held.

        A sample of the groups tells. Of one group it is not tried: its values are put in order in
        the end. Nor of small groups: there it is keys that take the bytes, and those are copied.
        """
        if not self._shape.keys:
            return True
        if self._size < _LEAST_BYTES_A_STATE * sum(table.num_rows for table in self._buffered):
            return False
        table = pa.concat_tables(self._buffered)
        some = table.filter(arrow_array(self._groups(table).codes % _SAMPLED_GROUPS == 0))
        return bool(self._shape.merged(some).nbytes * _WORTH_MERGING > some.nbytes)

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
        return len(self._groups(pa.concat_tables(self._buffered))) > 1

    def _stacked(self, tables: list[pa.Table]) -> pa.Table:
        return pa.concat_tables([empty_table(self._schema), *tables])

    def _groups(self, table: pa.Table) -> Groups:
        return group_codes([table.column(key) for key in self._shape.keys], drop_missing=False)

    def _leave(self) -> None:
        """Put what is held aside as it is."""
        if self._left_file is None:
            self._left_file = self._workspace.file()
        self._left += [self._left_file.write(table) for table in self._buffered]
        self._set_buffered([])

    def _read_left(self) -> Iterator[pa.Table]:
        assert self._left_file is not None  # something was left
        for block in self._left:
            yield self._left_file.read(block)

    def _spill(self) -> None:
        if self._spool is None:
            self._spool = self._workspace.spool()
        waiting, most = self._buffered, self._workspace.account.held_limit // _MERGE_TAKES
        while waiting:
            # Each is in memory twice until it is in its buckets, so not all are at a time.
            sizes = np.cumsum([table.nbytes for table in waiting])
            count = max(1, int(np.searchsorted(sizes, most, side="right")))
            table = pa.concat_tables(waiting[:count]).combine_chunks()
            waiting = waiting[count:]
            self._set_buffered(waiting)  # the bytes of the table go to its parts
            self._put_in_buckets(table)

    def _put_in_buckets(self, table: pa.Table) -> None:
        from tessel.kernels.rows_by_code import order_of_codes

        assert self._spool is not None
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

    def _buffer(self, table: pa.Table, size: int) -> None:
        # A running total: adding the bytes of all buffered tables each time is quadratic in units.
        self._workspace.account.hold(size)
        self._buffered.append(table)
        self._size += size

    def _set_buffered(self, tables: list[pa.Table]) -> None:
        size = sum(table.nbytes for table in tables)
        self._workspace.account.hold(size - self._size)
        self._buffered, self._size = tables, size
