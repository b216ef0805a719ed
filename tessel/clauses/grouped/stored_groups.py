"""Groups that were found of rows as they are stored, while they are still numbers.

Reductions leave them, and merges take them: what is found of segments and of units is joined by
the numbers of keys and added up in arrays. States, values of keys and results are made in the end.
Who needs a table before that asks for one, and gets the partial table that values would have made.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.cached import cached
from tessel.clauses.grouped.group_reductions import MOST_JOINED, GroupReductions
from tessel.clauses.grouped.group_tables import finished_table, partial_schema
from tessel.clauses.grouped.grouping import numbered_by_appearance
from tessel.clauses.grouped.kernel_reductions import KernelReductions
from tessel.clauses.grouped.stored_keys import (
    StoredKey,
    key_values,
    order_of_stored,
    shared_keys,
)
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.expression.schema import TableSchema
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
    key_names, aggregates
        Of the aggregation.
    source
        Schema of the rows before they were reduced.
    reductions
        The reductions that kernels computed.
    keys
        The keys as numbers; none for one group of everything.
    numbers
        int64: the number of each group by its keys; 0 without keys.
    found
        Their results.
    segments
        How many segments the results are of.
    """

    key_names: tuple[str, ...]
    aggregates: tuple[NamedAggregate, ...]
    source: TableSchema
    reductions: KernelReductions
    keys: Sequence[StoredKey]
    numbers: Integers
    found: GroupReductions
    segments: int = 1

    @property
    def num_rows(self) -> int:
        """How many groups there are."""
        return len(self.numbers)

    @cached
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        lines: list[NDArray[Any]] = [self.numbers, self.found.counts]
        for parts in self.found.parts.values():
            lines += parts.values() if isinstance(parts, Mapping) else [parts]
        ends = sum(int(end.nbytes) for end in self.found.ends.values())
        once = {id(line): int(line.nbytes) for line in lines}  # counts are parts of several
        return sum(once.values()) + ends

    def take(self, groups: Integers) -> StoredGroups:
        """Return some of the groups."""
        return replace(self, numbers=self.numbers[groups], found=self.found.take(groups))

    @cached
    def table(self) -> pa.Table:
        """The partial table: keys, and the states of the aggregates."""
        arrays = key_values(self.keys, self.numbers)
        schema = _schema(self.key_names, self.aggregates, self.source)
        return pa.Table.from_arrays([*arrays, *self.reductions.states(self.found)], schema=schema)

    def finished(self, *, sort: bool) -> pa.Table:
        """Return keys and results, by key or in order of first appearance.

        Raises
        ------
        IntegerOverflowError
            Where a result does not fit its type.
        """
        schema = _schema((), self.aggregates, self.source)
        states = pa.Table.from_arrays(self.reductions.states(self.found), schema=schema)
        results = finished_table(states, self.aggregates, self.source)
        numbers = self.numbers
        if sort and self.keys:
            order = order_of_stored(self.keys, numbers)
            numbers, results = numbers[order], results.take(arrow_array(order))
        columns = [*key_values(self.keys, numbers), *results.columns]
        return pa.table(columns, names=[*self.key_names, *results.column_names])


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
    if shared is None or sum(part.segments for part in parts) > MOST_JOINED:
        return None
    return joined_by_number(shared)


def joined_by_number(parts: Sequence[StoredGroups]) -> StoredGroups:
    """Join groups with shared keys, of at most :data:`MOST_JOINED` segments; one part at least."""
    if len(parts) == 1:
        return parts[0]
    stacked = np.concatenate([part.numbers for part in parts])
    low, high = (int(stacked.min()), int(stacked.max())) if len(stacked) else (0, 0)
    codes, first = numbered_by_appearance(stacked - low, high - low + 1)
    found = parts[0].reductions.joined([part.found for part in parts], codes)
    segments = sum(part.segments for part in parts)
    return replace(parts[0], numbers=stacked[first], found=found, segments=segments)


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


@functools.lru_cache(maxsize=64)
def _schema(
    keys: tuple[str, ...], aggregates: tuple[NamedAggregate, ...], source: TableSchema
) -> pa.Schema:
    """Return the columns of partial tables, which are those of every unit of a query."""
    return partial_schema(keys, aggregates, source)
