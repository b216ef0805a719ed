"""Merging the partial states of units into groups, within the byte budget.

The groups of units are buffered as they come, and joined in the end: all of them at once, or, where
they may come out in the order of their numbers, range by range, so that joining takes little
memory. Where they do not fit any more they are joined before that, which is enough while groups, or
the values of holistic states, repeat from unit to unit. Once they do not, they become partial
tables, which are partitioned by a hash of their keys, in memory while the byte budget allows it and
in a spill file from there on. The partitions are merged one after the other in the end; one that
does not fit either is split once more, by the next bits of the hash. Values of one group may not
fit at all: then partial tables are put aside as they are, and their values are sorted outside of
memory (:mod:`~tessel.clauses.grouped.ordered_aggregation`). States that grow with the rows but are
no values, of an aggregate of somebody else, are held of one group at a time whatever they take.

States merge in any tree to the same bits, so no answer depends on what was spilled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables, empty_table
from tessel.clauses.grouped.group_states import POSITION, GroupShape, StateKey
from tessel.clauses.grouped.hashing import BUCKETS, hash_column, level_bucket_of
from tessel.clauses.grouped.numbered_keys import are_in_order
from tessel.clauses.grouped.partial_groups import (
    PartialGroups,
    cut_by_number,
    joined_by_number,
    joined_groups,
    with_shared_keys,
)
from tessel.clauses.spill.workspace import Workspace
from tessel.clauses.values import cut_by_code
from tessel.closing import Closing
from tessel.kernels.word_numbers import SAMPLED_WORDS, expected_words

if TYPE_CHECKING:
    from tessel.clauses.spill.file import SpillBlock, SpillFile
    from tessel.clauses.spill.spill_buffer import BufferedTable, SpillBuffer

_LEVELS = 4
"""How often the hash is split: a bucket of the last split is a millionth of the groups."""

_JOIN_TAKES = 4
"""Groups take about so many times their own bytes while they are joined and finished."""

_VALUES_TAKE = 2
"""Holistic states of one group take so many times that."""

_RANGES_IN_LIMIT = 8
"""Joining a range takes at most such a part of the byte limit."""

_SAMPLED_GROUPS = 32
"""Merging of holistic states is tried with one group of so many, to see whether it helps."""

_LEAST_BYTES_A_STATE = 128
"""Above this the values are most of a state: one with a single value has about 40, its key too."""

_WORTH_MERGING = 2
"""Merging is worth doing again while it leaves at most this part of the bytes: the half."""


class GroupMerge(Closing):
    """Groups of units that are put in, and results that come out; use as a context manager.

    Parameters
    ----------
    shape
        What is grouped.
    workspace
        The account and the files of the query.
    sort
        Whether groups come out by key, or else in order of first appearance.
    positions
        Whether groups that were spilled say where they appeared first.
    level
        How often the hash was split already.
    """

    def __init__(
        self,
        shape: GroupShape,
        workspace: Workspace,
        *,
        sort: bool = False,
        positions: bool = False,
        level: int = 0,
    ) -> None:
        self._shape = shape
        self._workspace = workspace
        self._sort = sort
        self._positions = positions
        self._level = level
        self._values: list[StateKey] = []
        if not shape.plan.is_compact:
            from tessel.clauses.aggregates.holistic import Values

            reductions = shape.plan.reductions
            self._values = [key for key, each in reductions.items() if isinstance(each, Values)]
        # States of values alone are finished where they lie, some groups at a time, in memory of at
        # most the bytes of the largest group: as many may be held as the budget allows, once it is
        # seen that merging them leaves about as many.
        self._only_values = bool(self._values)
        self._stays: bool | None = None
        self._by_range = sort and shape.plan.is_compact
        # Ranges take little to be joined, but many parts of few groups are cut into crumbs: they
        # are joined early, as long as that leaves little.
        self._joins_early = True
        self._left: list[SpillBlock] = []
        self._left_file: SpillFile | None = None
        self._buffered: list[PartialGroups] = []
        self._size = self._least_size = 0
        self._appeared = 0
        self._spill_buffer: SpillBuffer | None = None
        self._buckets: list[list[BufferedTable]] = [[] for _ in range(BUCKETS)]

    def close(self) -> None:
        """Let go of all groups, and of their files."""
        self._set_buffered([])
        if self._spill_buffer is not None:
            self._spill_buffer.close()
        if self._left_file is not None:
            self._left_file.close()

    @property
    def spilled(self) -> bool:
        """Whether something was put aside: groups then come out bucket by bucket."""
        return self._spill_buffer is not None or bool(self._left)

    def is_full(self, size: int) -> bool:
        """Return whether groups of so many bytes more would not be held as they come."""
        return bool(self._buffered) and not self._fits(size)

    def add(self, groups: PartialGroups) -> None:
        """Put groups in; they follow those that are in already."""
        size = groups.nbytes
        self._only_values = self._only_values and self._are_only_values(groups)
        self._by_range = self._by_range and bool(groups.keys) and are_in_order(groups.keys)
        if self.is_full(size):
            self._make_room(size)
        self._buffer(groups, size)

    def add_last(self, groups: PartialGroups) -> None:
        """Put the last groups in, of a unit at most, which are not worth putting any aside."""
        self._buffer(groups, groups.nbytes)

    def finished(self) -> Iterator[pa.Table]:
        """Give the groups as tables of keys and results, once; each group in one of them."""
        if self._left:
            from tessel.clauses.grouped.ordered_aggregation import aggregate_states

            self._leave()
            yield from aggregate_states(self._read_left(), self._shape, self._workspace)
            return
        if self._spill_buffer is not None:
            self._spill()
            for parts in self._buckets:
                if parts:
                    yield from self._finished_bucket(parts, self._spill_buffer)
            if any(self._buckets):
                return
        if self._by_range and any(each.num_rows for each in self._buffered):
            for groups in self._ranges():
                yield groups.finished(sort=self._sort)
            return
        if not self._buffered:
            none = empty_table(self._shape.schema)
            if self._positions and self.spilled:  # what was put aside had no groups
                none = none.append_column(POSITION, arrow_array([], pa.int64()))
            self._buffered = PartialGroups.of_table(self._shape, none)
        self._set_buffered([joined_groups(self._buffered)])
        yield self._buffered[0].finished(sort=self._sort)
        self._set_buffered([])

    def ordered(self) -> Iterator[pa.Table]:
        """Give the groups in their order, as tables of keys and results."""
        shape, tables = self._shape, self.finished()
        if not self.spilled or not shape.keys:
            yield from tables
            return
        from tessel.clauses.ordering import Ordering
        from tessel.clauses.spill.sorting import ExternalSort

        by = (POSITION,) if self._positions else shape.keys
        names = [*shape.keys, *(each.output for each in shape.aggregates)]
        first = next(tables)
        with ExternalSort(Ordering(by, (False,) * len(by)), first.schema, self._workspace) as rows:
            for table in itertools.chain([first], tables):
                rows.add(table)
            for table in rows.sorted():
                yield table.select(names)

    # --- in memory --------------------------------------------------------------------------------

    @property
    def _most(self) -> int:
        """Bytes of groups that may be held, for all that joining or finishing them takes."""
        limit = self._workspace.account.held_limit
        if (self._by_range and not self._joins_early) or (self._only_values and self._stays):
            return limit
        most = limit // _JOIN_TAKES
        is_one = self._values and not self._shape.keys
        return most // _VALUES_TAKE if is_one and not self._stays else most

    def _fits(self, size: int) -> bool:
        return self._workspace.account.fits(size) and self._size + size <= self._most

    def _make_room(self, size: int) -> None:
        if self._size < self._least_size:
            return  # there is nowhere to put it, and joining it helps later
        if self._values and self._stays is None:
            self._stays = self._would_stay()
            if self._fits(size):
                return
        if self.spilled:  # joining was of no use, and each bucket is joined in the end
            self._put_aside()
            return
        before = self._size
        if not self._stays:
            self._join()
        helped = self._size * _WORTH_MERGING <= max(before, self._most)
        if self._by_range and self._joins_early and not helped:
            self._joins_early = False
            helped = self._fits(size)
        if not (helped and self._workspace.account.fits(size)):
            self._put_aside()

    def _join(self) -> None:
        """Join what is held, and write values together."""
        if self._by_range:
            joined = list(self._ranges())
        else:
            joined = [joined_groups(self._buffered).compacted()]
        self._set_buffered(joined)

    def _ranges(self) -> Iterator[PartialGroups]:
        """Give all groups, joined range by range, which are held no more."""
        held = list(with_shared_keys(self._buffered))
        self._buffered = []
        if not are_in_order(held[0].keys):  # of many keys, whose numbers together are too wide
            self._by_range = False
            yield joined_by_number(held)
            return
        most = self._workspace.account.held_limit // (_RANGES_IN_LIMIT * _JOIN_TAKES)
        for own in cut_by_number(held, most):
            joined = joined_by_number(own, ascending=True)
            self._count(-sum(each.nbytes for each in own))
            yield joined

    def _are_only_values(self, groups: PartialGroups) -> bool:
        return all(
            held.entries is None and held.runs.times is None
            for key in self._values
            for held, _ in groups.states[key].parts
        )

    def _would_stay(self) -> bool:
        """Return whether merged values would take more than half the bytes of those held.

        A sample of the groups tells, and one of the dictionaries where values have such. Of one
        group it is not tried: its values are put in order in the end. Nor of small groups: there it
        is keys that take the bytes, and those are copied.
        """
        if not self._only_values:
            return self._are_different()
        if not self._shape.keys:
            return True
        if self._size < _LEAST_BYTES_A_STATE * sum(each.num_rows for each in self._buffered):
            return False
        joined = joined_groups(self._buffered)
        some = joined.take(np.arange(0, joined.num_rows, _SAMPLED_GROUPS))
        return some.compacted().nbytes * _WORTH_MERGING > some.nbytes

    def _are_different(self) -> bool:
        """Return whether nearly all values that are held differ, as dictionaries of units do."""
        for key in self._values:
            held = [own for each in self._buffered for own, _ in each.states[key].parts]
            entries = [each.entries for each in held if each.entries is not None]
            rows = sum(map(len, entries))
            if key[1] != "different" or len(entries) < len(held) or rows == 0:
                return False
            step = max(1, rows // SAMPLED_WORDS)
            some = [each.take(arrow_array(np.arange(0, len(each), step))) for each in entries]
            hashes = hash_column(pa.chunked_array(some)).view(np.int64)
            if expected_words(hashes, rows) * _WORTH_MERGING <= rows:
                return False
        return True

    def _buffer(self, groups: PartialGroups, size: int) -> None:
        # A running total: adding the bytes of all that is held each time is quadratic in units.
        self._count(size)
        self._buffered.append(groups)

    def _set_buffered(self, groups: list[PartialGroups]) -> None:
        self._count(sum(each.nbytes for each in groups) - self._size)
        self._buffered = groups

    def _count(self, size: int) -> None:
        self._workspace.account.hold(size)
        self._size += size

    # --- outside of memory ------------------------------------------------------------------------

    def _put_aside(self) -> None:
        if self._can_split:
            self._spill()
        elif self._values:
            self._leave()
        else:
            self._least_size = self._size * _WORTH_MERGING

    @property
    def _can_split(self) -> bool:
        # Without keys there is one group; rows of one key stay together however often one splits.
        if not self._shape.keys or self._level == _LEVELS or self._left:
            return False
        if self._shape.plan.is_compact or self._level == 0 or any(self._buckets):
            return True
        # Nor does splitting help where the states of one group are too large.
        return joined_groups(self._buffered).num_rows > 1

    def _emptied(self) -> Iterator[pa.Table]:
        """Move the buffered groups out, as partial tables of bounded size."""
        most = self._workspace.account.held_limit // _JOIN_TAKES
        parts, self._buffered = self._buffered, []
        parts.reverse()
        while parts:
            part, rows = parts[-1], parts[-1].num_rows
            self._count(-part.nbytes)
            at_once = max(1, rows * most // max(1, part.nbytes))
            if self._positions and part.positions is None:
                part = replace(part, positions=np.arange(self._appeared, self._appeared + rows))
                self._appeared += rows
            parts.pop()
            for start in range(0, rows, at_once):
                own = np.arange(start, min(start + at_once, rows))
                yield (part if at_once >= rows else part.take(own)).table

    def _leave(self) -> None:
        """Put what is held aside as it is."""
        if self._left_file is None:
            self._left_file = self._workspace.file()
        self._left += [self._left_file.write(table) for table in self._emptied()]

    def _read_left(self) -> Iterator[PartialGroups]:
        assert self._left_file is not None  # something was left
        for block in self._left:
            yield from PartialGroups.of_table(self._shape, self._left_file.read(block))

    def _spill(self) -> None:
        if self._spill_buffer is None:
            self._spill_buffer = self._workspace.spill_buffer()
        waiting: list[pa.Table] = []
        size, most = 0, self._workspace.account.held_limit // _JOIN_TAKES
        for table in self._emptied():
            waiting.append(table)
            size += table.nbytes
            if size >= most:  # each is in memory twice until it is in its buckets
                self._put_in_buckets(waiting, self._spill_buffer)
                waiting, size = [], 0
        if waiting:
            self._put_in_buckets(waiting, self._spill_buffer)

    def _put_in_buckets(self, tables: list[pa.Table], buffer: SpillBuffer) -> None:
        table = concat_tables(tables).combine_chunks()
        codes = level_bucket_of([table.column(key) for key in self._shape.keys], self._level)
        for number, part in cut_by_code(table, codes, BUCKETS):
            self._buckets[number].append(buffer.put(part))

    def _finished_bucket(
        self, parts: list[BufferedTable], buffer: SpillBuffer
    ) -> Iterator[pa.Table]:
        with GroupMerge(
            self._shape,
            self._workspace,
            sort=self._sort,
            positions=self._positions,
            level=self._level + 1,
        ) as bucket:
            for part in parts:
                for groups in PartialGroups.of_table(self._shape, buffer.take(part)):
                    bucket.add(groups)
            yield from bucket.finished()
