"""Groups that were found of rows as they are stored, while they are still numbers.

Reductions leave them, and merges take them: what is found of segments and of units is joined by
the numbers of keys and added up in arrays. States, values of keys and results are made in the end.
Who needs a table before that asks for one, and gets the partial table that values would have made.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.cached import cached
from tessel.clauses.grouped.group_facts import MOST_JOINED, GroupFacts
from tessel.clauses.grouped.group_tables import finished_table, partial_schema
from tessel.clauses.grouped.grouping import numbered_by_appearance
from tessel.clauses.grouped.stored_facts import StoredFacts
from tessel.clauses.grouped.stored_keys import (
    StoredKey,
    key_values,
    order_of_stored,
    shared_keys,
)
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.expression.schema import TableSchema

__all__ = ["StoredGroups", "joined_groups"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StoredGroups:
    """Groups in order of first appearance.

    Attributes
    ----------
    key_names, aggregates
        Of the aggregation.
    source
        Schema of the rows before they were reduced.
    facts
        What was asked of kernels.
    keys
        The keys as numbers; none for one group of everything.
    numbers
        int64: the number of each group by its keys; 0 without keys.
    found
        What was found of them.
    segments
        How many segments it was found in.
    """

    key_names: tuple[str, ...]
    aggregates: tuple[NamedAggregate, ...]
    source: TableSchema
    facts: StoredFacts
    keys: Sequence[StoredKey]
    numbers: Integers
    found: GroupFacts
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

    @cached
    def table(self) -> pa.Table:
        """The partial table: keys, and the states of the aggregates."""
        arrays = key_values(self.keys, self.numbers)
        schema = _schema(self.key_names, self.aggregates, self.source)
        return pa.Table.from_arrays([*arrays, *self.facts.states(self.found)], schema=schema)

    def finished(self, *, sort: bool) -> pa.Table:
        """Return keys and results, by key or in order of first appearance.

        Raises
        ------
        IntegerOverflowError
            Where a result does not fit its type.
        """
        schema = _schema((), self.aggregates, self.source)
        states = pa.Table.from_arrays(self.facts.states(self.found), schema=schema)
        results = finished_table(states, (), self.aggregates, self.source)
        numbers = self.numbers
        if sort and self.keys:
            order = order_of_stored(self.keys, numbers)
            numbers, results = numbers[order], results.take(arrow_array(order))
        columns = [*key_values(self.keys, numbers), *results.columns]
        return pa.table(columns, names=[*self.key_names, *results.column_names])


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
    one = parts[0]
    if len(parts) == 1:
        return one
    segments = sum(part.segments for part in parts)
    shared = shared_keys([part.keys for part in parts], [part.numbers for part in parts])
    if shared is None or segments > MOST_JOINED:
        return None
    keys, numbers = shared
    stacked = np.concatenate(numbers)
    codes, first = numbered_by_appearance(stacked, math.prod(key.size for key in keys))
    found = one.facts.joined([part.found for part in parts], codes)
    return StoredGroups(
        one.key_names,
        one.aggregates,
        one.source,
        one.facts,
        keys,
        stacked[first],
        found,
        segments,
    )


@functools.lru_cache(maxsize=64)
def _schema(
    keys: tuple[str, ...], aggregates: tuple[NamedAggregate, ...], source: TableSchema
) -> pa.Schema:
    """Return the columns of partial tables, which are those of every unit of a query."""
    return partial_schema(keys, aggregates, source)
