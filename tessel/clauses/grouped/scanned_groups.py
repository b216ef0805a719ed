"""Partial tables from rows as they are stored: groups by code, sums by kernel, no value decoded.

Aggregations enter here before their unit is read. Keys are dictionary codes or integers of a narrow
range, so that a group's number is arithmetic; their values are looked up for the result only. What
sums make is the same exact state as that of values, so nobody can tell afterwards which way it was
made. Anything else, None: the unit is read, and its values are grouped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.clauses.grouped.group_facts import MOST_JOINED, GroupFacts, reduced_slices, same_groups
from tessel.clauses.grouped.group_tables import partial_schema
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.grouped.stored_facts import StoredFacts, all_from_facts, ask_facts
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import is_temporal, plain_type
from tessel.expression import Number
from tessel.expression.schema import TableSchema
from tessel.kernels import Fact, group_sums
from tessel.store import BlockScan, OpenedScan

__all__ = ["NumberedGroups", "each_alone", "key_values", "numbered_groups", "scanned_groups"]

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
    missing
        The number of a missing key; None where rows without a key are dropped, or there are none.
    """

    number: Number
    size: int
    entries: pa.Array | None
    least: int
    type: pa.DataType
    missing: int | None = None

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        mask = None if self.missing is None else numbers == self.missing
        if self.entries is not None:
            return self.entries.take(pa.array(numbers, mask=mask))
        integers = numbers + self.least
        if is_temporal(self.type):
            width = np.int32 if self.type.bit_width == 32 else np.int64
            return pa.array(integers.astype(width), mask=mask).view(self.type)
        if pa.types.is_boolean(self.type):
            return pa.array(integers.astype(np.bool_), mask=mask)
        return pa.array(integers, self.type, mask=mask)


@dataclass(frozen=True)
class NumberedGroups:
    """How rows are numbered by their keys.

    Attributes
    ----------
    keys
        The keys, which :func:`key_values` takes.
    register
        The register of the numbers; None where all rows are one group.
    groups
        How many there can be.
    select
        The truth register of the rows that have a number; None for all.
    """

    keys: Sequence[_Key]
    register: int | None
    groups: int
    select: int | None


def scanned_groups(
    rows: Sequence[BlockScan],
    keys: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    *,
    drop_missing: bool,
) -> pa.Table | None:
    """Return the partial table of some rows, groups in order of first appearance; maybe None.

    Parameters
    ----------
    rows
        Those of one or more segments, in order and not read yet.
    keys, aggregates
        Of the aggregation; without keys, one group of everything.
    drop_missing
        Whether rows with a missing key fall away.
    """
    if not all_from_facts(aggregates):
        return None
    found = reduced_slices(
        rows, lambda each: _reduced(each, keys, aggregates, drop_missing=drop_missing)
    )
    if found is None:
        return None
    if not keys:
        # Nothing of everything: its state is that of no values.
        found = [each for each in found if len(each.groups.counts)]
    if not found or len(found) > MOST_JOINED:
        return None
    facts, arrays, groups = found[0].facts, found[0].keys, found[0].groups
    if len(found) > 1:
        sizes = [len(each.groups.counts) for each in found]
        codes, arrays = same_groups([each.keys for each in found], sizes)
        groups = facts.joined([each.groups for each in found], codes)
    schema = _schema(tuple(keys), tuple(aggregates), rows[0].schema)
    return pa.Table.from_arrays([*arrays, *facts.states(groups)], schema=schema)


@dataclass(frozen=True, eq=False)
class _Reduced:
    """The groups of one segment, in order of first appearance.

    Attributes
    ----------
    facts
        What was asked for.
    keys
        The values of each key, by group.
    groups
        What was found.
    """

    facts: StoredFacts
    keys: list[pa.Array]
    groups: GroupFacts


def _reduced(
    rows: BlockScan,
    keys: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    *,
    drop_missing: bool,
) -> _Reduced | None:
    schema = rows.schema
    inputs = [name for each in aggregates for name in each.inputs]
    opened = rows.open([*keys, *inputs])
    if opened is None:
        return None
    grouped = numbered_groups(opened, keys, schema, drop_missing=drop_missing)
    facts = ask_facts(opened, aggregates, schema)
    if grouped is None or facts is None:
        return None
    found = group_sums(
        opened.spans,
        opened.program.program(),
        select=grouped.select,
        group=grouped.register,
        groups=grouped.groups,
        fields=facts.fields,
        last=facts.needs_last,
    )
    if found is None:
        return None
    there = np.flatnonzero(found.counts)
    order = there[np.argsort(found.first_row[there], kind="stable")]
    last = None if found.last_row is None else found.last_row[order]
    own = [_of_groups(fact, order) for fact in found.facts]
    made = facts.found(own, found.counts[order], found.first_row[order], last)
    return None if made is None else _Reduced(facts, key_values(grouped.keys, order), made)


def each_alone(
    rows: Sequence[BlockScan], reduced: Callable[[BlockScan], pa.Table | None]
) -> pa.Table | None:
    """Return what is left of each segment, one after the other; None where one has to be read.

    For reductions whose groups are not joined before they are merged with those of other units.
    """
    tables = reduced_slices(rows, reduced)
    return pa.concat_tables(tables) if tables else None


def numbered_groups(
    opened: OpenedScan, keys: Sequence[str], schema: TableSchema, *, drop_missing: bool
) -> NumberedGroups | None:
    """Return how rows are numbered by their keys; None where that takes their values."""
    select = opened.select
    if not keys:
        return NumberedGroups([], None, 1, select)
    held: list[_Key] = []
    for name in keys:
        key = _key(opened, name, plain_type(schema.type_of(name)))
        if key is None:
            return None
        if key.number.known is not None:
            if drop_missing:
                select = opened.program.both(select, key.number.known)
                key = _in_range(opened, key)
            else:
                key = _with_missing(opened, key)
        held.append(key)
    combined, groups = held[0].number, held[0].size
    for key in held[1:]:
        groups *= key.size
        if groups > _MOST_GROUPS:
            break
        combined = opened.program.combined(combined, key.size, key.number)
    if not 0 < groups <= min(_MOST_GROUPS, max(opened.rows // _ROWS_A_GROUP, 1)):
        return None
    return NumberedGroups(held, combined.register, groups, select)


def _in_range(opened: OpenedScan, key: _Key) -> _Key:
    """Return a key whose rows without a value have a number too: kernels look it up."""
    number = key.number
    if key.entries is None:  # the places of a dictionary are checked, also under nulls
        register = opened.program.chosen(number.register, number.known, 0)
        number = replace(number, register=register)
    return replace(key, number=replace(number, known=None))


def _with_missing(opened: OpenedScan, key: _Key) -> _Key:
    """Return a key of which missing is a value like others, the last one."""
    register = opened.program.chosen(key.number.register, key.number.known, key.size)
    number = Number(False, register, 0, key.size)
    return _Key(number, key.size + 1, key.entries, key.least, key.type, key.size)


def _key(opened: OpenedScan, name: str, kind: pa.DataType) -> _Key | None:
    coded = opened.program.codes(name)
    if coded is not None:
        number, entries = coded
        if len(entries) > _MOST_GROUPS:
            return None
        distinct = _distinct_keys(entries)
        return None if distinct is None else _Key(number, len(entries), distinct, 0, kind)
    known = opened.program.number(name)
    types = pa.types
    counted = types.is_integer(kind) or types.is_boolean(kind) or is_temporal(kind)
    if known is None or known.is_float or not counted:
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
