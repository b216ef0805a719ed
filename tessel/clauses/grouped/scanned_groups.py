"""Partial tables from rows as they are stored: groups by code, sums by kernel, no value decoded.

Aggregations enter here before their unit is read. Keys are dictionary codes or integers of a narrow
range, so that a group's number is arithmetic; their values are looked up for the result only. What
sums make is the same exact state as that of values, so nobody can tell afterwards which way it was
made. Anything else, None: the unit is read, and its values are grouped.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.clauses.grouped.group_tables import partial_schema
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.grouped.stored_facts import StoredFacts, all_from_facts, ask_facts
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import is_temporal
from tessel.expression import Number
from tessel.expression.schema import TableSchema
from tessel.kernels import Fact, GroupSums, group_sums
from tessel.store import BlockScan, OpenedScan

__all__ = ["key_values", "numbered_groups", "scanned_groups"]

_MOST_GROUPS = 1 << 16
"""More groups are told apart by a hash table faster than by arithmetic."""

_ROWS_A_GROUP = 4
"""Groups that are counted on must be fewer than rows, or clearing sums costs more than adding."""


@dataclass(frozen=True)
class _Key:
    """A key column as numbers from 0 on.

    Attributes
    ----------
    number
        What a program computes.
    size
        One more than the greatest.
    entries
        The values that numbers are places of; None where they are the values, less ``least``.
    """

    number: Number
    size: int
    entries: pa.Array | None
    least: int
    type: pa.DataType

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        if self.entries is not None:
            return self.entries.take(pa.array(numbers))
        integers = numbers + self.least
        if is_temporal(self.type):
            width = np.int32 if self.type.bit_width == 32 else np.int64
            return pa.array(integers.astype(width)).view(self.type)
        return pa.array(integers, self.type)


def scanned_groups(
    rows: BlockScan, keys: Sequence[str], aggregates: Sequence[NamedAggregate]
) -> pa.Table | None:
    """Return the partial table of some rows, groups in order of first appearance; maybe None.

    Parameters
    ----------
    rows
        Not read yet.
    keys, aggregates
        Of the aggregation; without keys, one group of everything.
    """
    schema = rows.schema
    if not all_from_facts(aggregates):
        return None
    inputs = [name for each in aggregates for name in each.inputs]
    opened = rows.open([*keys, *inputs])
    if opened is None:
        return None
    grouped = numbered_groups(opened, keys, schema)
    facts = ask_facts(opened, aggregates, schema)
    if grouped is None or facts is None:
        return None
    held, group, groups = grouped
    found = group_sums(
        opened.spans,
        opened.program.program(),
        select=opened.select,
        group=group,
        groups=groups,
        fields=facts.fields,
        last=facts.needs_last,
    )
    if found is None:
        return None
    return _table(found, held, facts, keys, aggregates, schema)


def numbered_groups(
    opened: OpenedScan, keys: Sequence[str], schema: TableSchema
) -> tuple[list[_Key], int | None, int] | None:
    """Return the keys, the register of group numbers, and how many there can be."""
    if not keys:
        return [], None, 1
    held: list[_Key] = []
    for name in keys:
        key = _key(opened, name, schema.type_of(name))
        if key is None:
            return None
        held.append(key)
    combined, groups = held[0].number, held[0].size
    for key in held[1:]:
        groups *= key.size
        if groups > _MOST_GROUPS:
            break
        combined = opened.program.combined(combined, key.size, key.number)
    if not 0 < groups <= min(_MOST_GROUPS, max(opened.rows // _ROWS_A_GROUP, 1)):
        return None
    return held, combined.register, groups


def _key(opened: OpenedScan, name: str, kind: pa.DataType) -> _Key | None:
    coded = opened.program.codes(name)
    if coded is not None:
        number, entries = coded
        if len(entries) > _MOST_GROUPS:
            return None
        distinct = _distinct_keys(entries)
        return None if distinct is None else _Key(number, len(entries), distinct, 0, kind)
    known = opened.program.number(name)
    if known is None or known.is_float or not (pa.types.is_integer(kind) or is_temporal(kind)):
        return None
    size = known.high - known.low + 1
    if size > _MOST_GROUPS:
        return None
    return _Key(opened.program.shifted(known, -known.low), size, None, known.low, kind)


def _distinct_keys(entries: pa.Array) -> pa.Array | None:
    """Return the entries of a dictionary as keys; None where two would be one, or one none."""
    if pa.types.is_string(entries.type) or pa.types.is_integer(entries.type):
        whole = entries.null_count == 0 and len(pc.unique(entries)) == len(entries)
        return entries if whole else None
    # A dictionary of floats may hold both zeros, or a NaN: its codes are no groups.
    found = group_codes([entries], drop_missing=True)
    return found.keys[0] if len(found) == len(entries) else None


@functools.lru_cache(maxsize=64)
def _schema(
    keys: tuple[str, ...], aggregates: tuple[NamedAggregate, ...], source: TableSchema
) -> pa.Schema:
    """Return the columns of partial tables, which are those of every unit of a query."""
    return partial_schema(keys, aggregates, source)


def _table(
    found: GroupSums,
    held: Sequence[_Key],
    facts: StoredFacts,
    keys: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    schema: TableSchema,
) -> pa.Table | None:
    there = np.flatnonzero(found.counts)
    if not keys and not len(there):
        return None  # nothing of everything: its state is that of no values
    order = there[np.argsort(found.first_row[there], kind="stable")]
    arrays = key_values(held, order)
    last = None if found.last_row is None else found.last_row[order]
    own = [_of_groups(fact, order) for fact in found.facts]
    states = facts.states(own, found.counts[order], found.first_row[order], last)
    if states is None:
        return None
    return pa.Table.from_arrays(
        [*arrays, *states], schema=_schema(tuple(keys), tuple(aggregates), schema)
    )


def key_values(held: Sequence[_Key], groups: NDArray[np.int64]) -> list[pa.Array]:
    """Return the values of each key of some groups, by their numbers."""
    arrays: list[pa.Array] = []
    for key in reversed(held):
        groups, numbers = np.divmod(groups, key.size)
        arrays.insert(0, key.values(numbers))
    return arrays


def _of_groups(fact: Fact, groups: NDArray[np.int64]) -> Fact:
    if isinstance(fact, dict):
        return {place: sums[groups] for place, sums in fact.items()}
    return fact[groups]
