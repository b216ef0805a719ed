"""Groups of some rows with their partial states: what units leave and merges take.

Units make them of values and of stored integers alike: keys are numbers, states are arrays. They
are joined by number, and values of keys and results are made in the end. Who needs a table before
that (a spill file, a task of Spark, a clause of one's own) gets a partial table, and groups can be
made of it again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.cached import cached
from tessel.clauses.grouped.group_states import POSITION, GroupShape, States
from tessel.clauses.grouped.grouping import group_codes, numbered_by_appearance
from tessel.clauses.grouped.numbered_keys import (
    NumberedKey,
    is_sorted,
    key_values,
    numbered_keys,
    order_of_numbers,
    shared_keys,
)
from tessel.kernels.count_values import rank_close
from tessel.kernels.group_rows import rows_by_code
from tessel.lazy import dataclass

Integers = NDArray[np.int64]

_CELLS_A_GROUP = 16
"""Groups are ranked in a table while it has at most this many cells a group."""

_RANGE_BITS = 5
"""Numbers are cut into 32 ranges at a time at most: more, and their rows leave the cache."""


@dataclass(frozen=True, eq=False)
class PartialGroups:
    """Groups in order of first appearance, or in any where the result is ordered by key.

    Attributes
    ----------
    shape
        What is grouped, and how.
    keys
        The keys as numbers; none for one group of everything.
    numbers
        int64: the number of each group by its keys; 0 without keys.
    states
        Their states.
    positions
        int64: where each group appeared first, among all that a merge was given; None where the
        order of the groups says so.
    """

    shape: GroupShape
    keys: Sequence[NumberedKey]
    numbers: Integers
    states: States
    positions: Integers | None = None

    @classmethod
    def of_rows(
        cls,
        shape: GroupShape,
        table: pa.Table,
        codes: Integers,
        groups: int,
        keys: Sequence[pa.Array],
    ) -> PartialGroups:
        """Reduce rows.

        Parameters
        ----------
        shape
            What is grouped, and how.
        table
            Rows in order; only the aggregated columns are read.
        codes
            Group of each row, int64, shape (rows,).
        groups
            Number of groups.
        keys
            One array a key column, one value a group.
        """
        names = dict.fromkeys(name for each in shape.aggregates for name in each.inputs)
        columns = {name: table.column(name) for name in names}
        return cls(shape, *numbered_keys(keys), shape.plan.of_rows(columns, codes, groups))

    @classmethod
    def of_table(cls, shape: GroupShape, table: pa.Table) -> list[PartialGroups]:
        """Return the groups of a partial table, in parts, at least one."""
        batches = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return [cls._of_batch(shape, batch) for batch in batches]

    @classmethod
    def _of_batch(cls, shape: GroupShape, batch: pa.RecordBatch) -> PartialGroups:
        states = shape.plan.of_columns([batch.column(field.name) for field in shape.plan.fields()])
        positions = None
        if POSITION in batch.schema.names:
            positions = numpy_array(batch.column(POSITION))
        if not shape.keys:
            return cls(shape, [], np.zeros(batch.num_rows, np.int64), states, positions)
        found = group_codes([batch.column(name) for name in shape.keys], drop_missing=False)
        if len(found) < batch.num_rows:  # of several units
            states = shape.plan.merge([states], found.codes, len(found))
            positions = None if positions is None else positions[found.first_row]
        return cls(shape, *numbered_keys(found.keys), states, positions)

    @property
    def num_rows(self) -> int:
        """How many groups there are."""
        return len(self.numbers)

    @cached
    def nbytes(self) -> int:
        """Bytes of the numbers and the states."""
        return int(self.numbers.nbytes) + self.shape.plan.nbytes(self.states)

    def take(self, groups: Integers) -> PartialGroups:
        """Return some of the groups."""
        states = self.shape.plan.take(self.states, groups)
        positions = None if self.positions is None else self.positions[groups]
        return replace(self, numbers=self.numbers[groups], states=states, positions=positions)

    def compacted(self) -> PartialGroups:
        """Return the groups with holistic states written together, equal values of a group once."""
        return replace(self, states=self.shape.plan.compacted(self.states))

    def key_values(self) -> list[pa.Array]:
        """Return one array a key column, one value a group."""
        return key_values(self.keys, self.numbers)

    @cached
    def table(self) -> pa.Table:
        """The partial table: keys, and the states of the aggregates; positions where they say."""
        return self._with_positions(self.shape.of_states(self.key_values(), self.states))

    def finished(self, *, sort: bool) -> pa.Table:
        """Return keys, results and positions, by key or in order of first appearance.

        Raises
        ------
        IntegerOverflowError
            Where a result does not fit its type.
        """
        results = pa.table(self.shape.plan.finish(self.states))
        found = self
        if sort and self.keys and not is_sorted(self.keys, self.numbers):
            order = order_of_numbers(self.keys, self.numbers)
            positions = None if self.positions is None else self.positions[order]
            found = replace(self, numbers=self.numbers[order], positions=positions)
            results = results.take(arrow_array(order))
        columns = [*found.key_values(), *results.columns]
        table = pa.table(columns, names=[*self.shape.keys, *results.column_names])
        return found._with_positions(table)

    def _with_positions(self, table: pa.Table) -> pa.Table:
        if self.positions is None:
            return table
        return table.append_column(POSITION, arrow_array(self.positions))


def joined_groups(parts: Sequence[PartialGroups]) -> PartialGroups:
    """Join groups of the same aggregation, those of earlier rows first; one part at least."""
    return joined_by_number(with_shared_keys(parts))


def joined_by_number(parts: Sequence[PartialGroups], *, ascending: bool = False) -> PartialGroups:
    """Join groups with shared keys; one part at least.

    Where they may be in any order, those with ``ascending`` numbers, if these are dense, are in
    the order of keys that are integers.
    """
    (first, *others) = parts
    if not others and (first.keys or first.num_rows == 1):
        return first
    if not first.keys:
        rows = sum(part.num_rows for part in parts)
        codes, appears = np.zeros(rows, np.int64), np.zeros(1, np.int64)
        stacked = appears  # the one group is there also of no rows
    else:
        stacked = np.concatenate([part.numbers for part in parts])
        low, high = (int(stacked.min()), int(stacked.max())) if len(stacked) else (0, 0)
        size = high - low + 1
        if ascending and size <= _CELLS_A_GROUP * len(stacked):
            codes, appears = rank_close(stacked, low, size)
        else:
            codes, appears = numbered_by_appearance(stacked - low, size)
    states = first.shape.plan.merge([part.states for part in parts], codes, len(appears))
    told = [part.positions for part in parts if part.positions is not None]
    positions = np.concatenate(told)[appears] if told else None
    return replace(first, numbers=stacked[appears], states=states, positions=positions)


def with_shared_keys(parts: Sequence[PartialGroups]) -> Sequence[PartialGroups]:
    """Return groups whose numbers are by the same keys."""
    if len(parts) == 1 or not parts[0].keys:
        return parts
    keys, numbers = shared_keys([(part.keys, part.numbers) for part in parts])
    return [replace(part, keys=keys, numbers=own) for part, own in zip(parts, numbers, strict=True)]


def cut_by_number(parts: list[PartialGroups], most_bytes: int) -> Iterator[Sequence[PartialGroups]]:
    """Give groups by ranges of their numbers, ascending, of at most so many bytes.

    A range of one number may have more of them: it is cut no further.

    Parameters
    ----------
    parts
        With shared keys, in the order of their rows, which the groups of a range keep. The list is
        empty afterwards, so that of what was cut nothing is held twice.
    most_bytes
        Bytes of the groups of a range.
    """
    if not any(part.num_rows for part in parts):
        return
    low = min(int(part.numbers.min()) for part in parts if part.num_rows)
    high = max(int(part.numbers.max()) for part in parts if part.num_rows)
    size = sum(part.nbytes for part in parts)
    if low == high or size <= most_bytes:
        yield parts
        return
    # Twice as many ranges as are needed, for some have more groups than others.
    bits = min(_RANGE_BITS, (size // max(1, most_bytes)).bit_length() + 1)
    shift = max(0, (high - low).bit_length() - bits)
    ranges: list[list[PartialGroups]] = [[] for _ in range((high - low >> shift) + 1)]
    parts.reverse()
    while parts:
        part = parts.pop()
        order, starts = rows_by_code((part.numbers - low) >> shift, len(ranges))
        for number, (start, stop) in enumerate(itertools.pairwise(starts.tolist())):
            if start < stop:
                ranges[number].append(part.take(order[start:stop]))
    for own in ranges:
        yield from cut_by_number(own, most_bytes)
