"""Groups that were found of rows as they are stored, while they are still numbers.

Reductions leave them, and merges take them: what is found of segments and of units is joined by
the numbers of keys and added up in arrays. States, values of keys and results are made in the end.
Who needs a table before that asks for one, and gets the partial table that values would have made.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.cached import cached
from tessel.clauses.grouped.group_states import States
from tessel.clauses.grouped.group_tables import GroupShape
from tessel.clauses.grouped.grouping import numbered_by_appearance
from tessel.clauses.grouped.stored_keys import (
    StoredKey,
    key_values,
    order_of_stored,
    shared_keys,
)
from tessel.kernels.rows_by_code import rows_by_code
from tessel.lazy import dataclass

__all__ = [
    "StoredGroups",
    "StoredParts",
    "cut_by_number",
    "joined_by_number",
    "joined_groups",
    "with_shared_keys",
]

Integers = NDArray[np.int64]

_RANGE_BITS = 5
"""Numbers are cut into 32 ranges at a time: more, and their rows leave the cache."""


@dataclass(frozen=True, eq=False)
class StoredGroups:
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
    """

    shape: GroupShape
    keys: Sequence[StoredKey]
    numbers: Integers
    states: States

    @property
    def num_rows(self) -> int:
        """How many groups there are."""
        return len(self.numbers)

    @cached
    def nbytes(self) -> int:
        """Bytes of the numbers and the states."""
        return int(self.numbers.nbytes) + self.shape.plan.nbytes(self.states)

    def take(self, groups: Integers) -> StoredGroups:
        """Return some of the groups."""
        states = self.shape.plan.take(self.states, groups)
        return replace(self, numbers=self.numbers[groups], states=states)

    @cached
    def table(self) -> pa.Table:
        """The partial table: keys, and the states of the aggregates."""
        return self.shape.of_states(key_values(self.keys, self.numbers), self.states)

    def finished(self, *, sort: bool) -> pa.Table:
        """Return keys and results, by key or in order of first appearance.

        Raises
        ------
        IntegerOverflowError
            Where a result does not fit its type.
        """
        results = pa.table(self.shape.plan.finish(self.states))
        numbers = self.numbers
        if sort and self.keys:
            order = order_of_stored(self.keys, numbers)
            numbers, results = numbers[order], results.take(arrow_array(order))
        columns = [*key_values(self.keys, numbers), *results.columns]
        return pa.table(columns, names=[*self.shape.keys, *results.column_names])


@dataclass(frozen=True, eq=False)
class StoredParts:
    """Groups that were found in one or more segments: what a unit is reduced to.

    Attributes
    ----------
    parts
        In the order of their rows, at least one; a group may be in several.
    """

    parts: Sequence[StoredGroups]

    @property
    def num_rows(self) -> int:
        """How many rows the partial table has."""
        return sum(part.num_rows for part in self.parts)

    @cached
    def table(self) -> pa.Table:
        """The partial table of all parts."""
        return pa.concat_tables([part.table for part in self.parts])


def joined_groups(parts: Sequence[StoredGroups]) -> StoredGroups | None:
    """Join groups of the same aggregation, those of earlier rows first; one part at least.

    Returns
    -------
    StoredGroups or None
        None where numbers do not hold it: then tables are merged.
    """
    if not parts[0].keys:
        # Nothing of everything: its state is that of no values.
        parts = [part for part in parts if part.num_rows]
        if not parts:
            return None
    if len(parts) == 1:
        return parts[0]
    shared = with_shared_keys(parts)
    return None if shared is None else joined_by_number(shared)


def joined_by_number(parts: Sequence[StoredGroups]) -> StoredGroups:
    """Join groups with shared keys; one part at least."""
    if len(parts) == 1:
        return parts[0]
    stacked = np.concatenate([part.numbers for part in parts])
    low, high = (int(stacked.min()), int(stacked.max())) if len(stacked) else (0, 0)
    codes, first = numbered_by_appearance(stacked - low, high - low + 1)
    states = parts[0].shape.plan.merge([part.states for part in parts], codes, len(first))
    return replace(parts[0], numbers=stacked[first], states=states)


def with_shared_keys(parts: Sequence[StoredGroups]) -> list[StoredGroups] | None:
    """Return groups whose numbers are by the same keys; None where numbers do not hold them."""
    shared = shared_keys([part.keys for part in parts])
    if shared is None:
        return None
    keys, moves = shared
    return [
        replace(part, keys=keys, numbers=move(part.numbers))
        for part, move in zip(parts, moves, strict=True)
    ]


def cut_by_number(parts: list[StoredGroups], most_bytes: int) -> Iterator[list[StoredGroups]]:
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
    if low == high or sum(part.nbytes for part in parts) <= most_bytes:
        yield parts
        return
    shift = max(0, (high - low).bit_length() - _RANGE_BITS)
    ranges: list[list[StoredGroups]] = [[] for _ in range((high - low >> shift) + 1)]
    parts.reverse()
    while parts:
        part = parts.pop()
        order, starts = rows_by_code((part.numbers - low) >> shift, len(ranges))
        for number, (start, stop) in enumerate(itertools.pairwise(starts.tolist())):
            if start < stop:
                ranges[number].append(part.take(order[start:stop]))
    for own in ranges:
        yield from cut_by_number(own, most_bytes)
