"""Partial tables from rows as they are stored: groups by code, sums by kernel, no value decoded.

Aggregations enter here before their unit is read. Keys are dictionary codes or integers of a narrow
range, so that a group's number is arithmetic; their values are looked up for the result only. What
sums make is the same exact state as that of values, so nobody can tell afterwards which way it was
made. Anything else, None: the unit is read, and its values are grouped.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.clauses.aggregates import Aggregate, FromSums, MergeableAggregate
from tessel.clauses.grouped.group_tables import partial_schema
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.grouped.stored_sums import (
    StoredSum,
    is_summable,
    may_hold_nan,
    stored_sum,
)
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import is_temporal
from tessel.expression import Number
from tessel.expression.schema import TableSchema
from tessel.kernels import GroupSums, group_sums
from tessel.store import BlockScan, OpenedScan

__all__ = ["all_from_sums", "numbered_groups", "scanned_groups"]

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


def all_from_sums(aggregates: Sequence[NamedAggregate]) -> bool:
    """Return whether every aggregate can be made of counts and sums."""
    return all(_is_from_sums(type(each.aggregate)) for each in aggregates)


@functools.cache
def _is_from_sums(kind: type[Aggregate]) -> bool:
    # Whether a class satisfies a protocol takes 40 µs to say.
    return issubclass(kind, MergeableAggregate) and hasattr(kind, "partial_of_sums")


def _from_sums(each: NamedAggregate) -> FromSums:
    return cast(FromSums, each.aggregate)  # the caller has looked


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
    if not all_from_sums(aggregates):
        return None
    summed = dict.fromkeys(
        each.column for each in aggregates if each.column is not None and _from_sums(each).needs_sum
    )
    counted = [each.column for each in aggregates if each.column is not None]
    if not all(is_summable(schema.type_of(name)) for name in summed):
        return None
    opened = rows.open([*keys, *counted])
    if opened is None:
        return None
    if not all(map(opened.program.is_known, counted)):
        return None
    if any(may_hold_nan(opened, name, schema) for name in counted if name not in summed):
        return None
    grouped = numbered_groups(opened, keys, schema)
    asked = {name: stored_sum(opened, name) for name in summed}
    sums = {name: each for name, each in asked.items() if each is not None}
    if grouped is None or len(sums) < len(asked):
        return None
    held, group, groups = grouped
    found = group_sums(
        opened.spans,
        opened.program.program(),
        select=opened.select,
        group=group,
        groups=groups,
        fields=[field for each in sums.values() for field in each.fields],
    )
    if found is None:
        return None
    return _table(found, held, sums, keys, aggregates, schema)


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
    summed: Mapping[str, StoredSum],
    keys: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    schema: TableSchema,
) -> pa.Table:
    there = np.flatnonzero(found.counts)
    if not keys:
        there = np.zeros(1, np.int64)  # one group of everything, also of nothing
    order = there[np.argsort(found.first_row[there], kind="stable")]
    counts = found.counts[order]
    sums: dict[str, Any] = {}
    parts = iter(found.sums)
    for name, total in summed.items():
        own = [{place: held[order] for place, held in next(parts).items()} for _ in total.fields]
        sums[name] = total.sums(own, len(order))
    arrays: list[pa.Array] = []
    rest = order
    for key in reversed(held):
        rest, numbers = np.divmod(rest, key.size)
        arrays.insert(0, key.values(numbers))
    for each in aggregates:
        arrays += _from_sums(each).partial_of_sums(counts, sums.get(each.column or ""))
    return pa.Table.from_arrays(arrays, schema=_schema(tuple(keys), tuple(aggregates), schema))
