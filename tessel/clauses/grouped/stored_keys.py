"""Keys of rows as they are stored, as numbers: arithmetic on codes and integers, no value decoded.

Reductions of stored rows enter here with what they opened. A key is a dictionary code, or an
integer less the least of its segment; several keys make one number. Their values are looked up for
the result only. Each segment has numbers of its own, which :func:`shared_keys` brings together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.grouped.grouping import group_codes, order_of_keys
from tessel.clauses.grouped.numbering import WIDEST
from tessel.clauses.values import is_temporal, plain_type
from tessel.expression.block_entries import Entries
from tessel.expression.block_steps import Operand
from tessel.expression.encoded import BlockProgram, Number
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.opened_batch import OpenedBatch

__all__ = [
    "NumberedGroups",
    "PlannedGroups",
    "StoredKey",
    "are_in_order",
    "key_values",
    "order_of_stored",
    "planned_groups",
    "shared_keys",
]

Integers = NDArray[np.int64]

_MOST_FEW = 1 << 16
"""More groups are told apart by a hash table faster than by arithmetic."""

_ROWS_A_GROUP = 4
"""Few groups must be fewer than rows, too, or clearing sums costs more than adding."""

_CELLS_A_GROUP = 16
"""Groups are ordered by their places in a table while it has at most this many cells a group."""


@dataclass(frozen=True, eq=False)
class StoredKey:
    """A key column as numbers from 0 on.

    Attributes
    ----------
    size
        One more than the greatest.
    entries
        The values that numbers are places of; None where they are the values, less ``least``.
    missing
        The number of a missing key, the last one; None where rows without a key are dropped, or
        there are none.
    """

    size: int
    entries: pa.Array | None
    least: int
    type: pa.DataType
    missing: int | None = None

    def within(self, bounds: tuple[int, int] | None) -> StoredKey:
        """Return a key of integers, as it was planned, within the bounds of a segment."""
        assert bounds is not None  # it was planned for a column with bounds
        low, high = map(int, bounds)
        size = high - low + 1
        if self.missing is None:
            return StoredKey(size, None, low, self.type)
        return StoredKey(size + 1, None, low, self.type, size)

    def values(self, numbers: Integers) -> pa.Array:
        """Return the values of some numbers."""
        mask = None if self.missing is None else numbers == self.missing
        if self.entries is not None:
            return self.entries.take(arrow_array(numbers, mask=mask))
        integers = numbers + self.least
        if pa.types.is_boolean(self.type):
            return arrow_array(integers.astype(np.bool_), mask=mask)
        if is_temporal(self.type):
            width = np.int32 if self.type.bit_width == 32 else np.int64
            return arrow_array(integers.astype(width), mask=mask).view(self.type)
        return arrow_array(integers, self.type, mask=mask)


@dataclass(frozen=True, eq=False)
class NumberedGroups:
    """How the rows of one segment are numbered by their keys.

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
    are_few
        Whether there may be a line of sums for each.
    """

    keys: Sequence[StoredKey]
    register: int | None
    groups: int
    select: int | None
    are_few: bool = True


@dataclass(frozen=True, eq=False)
class PlannedGroups:
    """How rows are numbered by their keys, in all segments that share a program.

    Attributes
    ----------
    keys
        The keys, and of those that are the integers of a stored column less the least of a segment
        the number of the column: what they are in the segment is not known yet.
    register, select
        As in :class:`NumberedGroups`.
    """

    keys: Sequence[tuple[StoredKey, int | None]]
    register: int | None
    select: int | None

    def bound(self, opened: OpenedBatch[Any]) -> NumberedGroups | None:
        """Return how rows of one segment are numbered; None where there are too many numbers."""
        keys: list[StoredKey] = []
        groups = 1
        for key, place in self.keys:
            keys.append(key if place is None else key.within(opened.columns[place].bounds))
            groups *= keys[-1].size
            if not 0 < groups <= WIDEST:
                return None
        are_few = groups <= min(_MOST_FEW, max(opened.rows // _ROWS_A_GROUP, 1))
        return NumberedGroups(keys, self.register, groups, self.select, are_few)

    def few(self, opened: OpenedBatch[Any]) -> NumberedGroups | None:
        """Return what `bound` does where there may be a line of sums for each; else None."""
        found = self.bound(opened)
        return found if found is not None and found.are_few else None


def planned_groups(
    program: BlockProgram,
    select: int | None,
    keys: Sequence[str],
    schema: TableSchema,
    *,
    drop_missing: bool,
) -> PlannedGroups | None:
    """Return how rows are numbered by their keys; None where that takes their values.

    Parameters
    ----------
    program
        Has all keys.
    select
        The truth register of the rows that count; None for all.
    keys
        The columns.
    schema
        Their types.
    drop_missing
        Whether rows with a missing key fall away.

    Where a key is computed, the plan depends on the very bounds of columns.
    """
    held: list[tuple[StoredKey, int | None]] = []
    combined: int | None = None
    for name in keys:
        found = _key(program, name, plain_type(schema.type_of(name)))
        if found is None:
            return None
        key, register, known, place = found
        size: int | Operand = key.size if place is None else Operand(place, is_size=True)
        if known is not None and drop_missing:
            select = program.both(select, known)
            if key.entries is None:  # the places of a dictionary are checked, also under nulls
                register = program.chosen(register, known, 0)
        elif known is not None:  # missing is a value like others, the last one
            register = program.chosen(register, known, size)
            key = StoredKey(key.size + 1, key.entries, key.least, key.type, key.size)
            size = key.size if place is None else Operand(place, is_size=True, more=1)
        held.append((key, place))
        combined = register if combined is None else program.combined(combined, size, register)
    return PlannedGroups(held, combined, select)


def _key(
    program: BlockProgram, name: str, kind: pa.DataType
) -> tuple[StoredKey, int, int | None, int | None] | None:
    """Return a key, the registers of its numbers and of which are known, and its stored column."""
    coded = program.codes(name)
    if coded is not None:
        return _coded_key(program, *coded, kind)
    number = program.number(name)
    types = pa.types
    counted = types.is_integer(kind) or types.is_boolean(kind) or is_temporal(kind)
    if number is None or number.is_float or not counted:
        return None
    place = program.place(name)
    if place is not None:
        key = StoredKey(0, None, 0, kind)
        return key, program.counted_from_least(name), number.known, place
    size = number.high - number.low + 1
    if size > WIDEST:
        return None
    register = program.shifted(number, -number.low).register
    return StoredKey(size, None, number.low, kind), register, number.known, None


def _coded_key(
    program: BlockProgram, number: Number, entries: Entries, kind: pa.DataType
) -> tuple[StoredKey, int, int | None, None] | None:
    """Return a key of codes; where two of them stand for one key, they become one number."""
    own = entries.values.type
    if (pa.types.is_string(own) or pa.types.is_integer(own)) and entries.are_distinct:
        key = StoredKey(len(entries), entries.values, 0, kind)
        return key, number.register, number.known, None
    # A dictionary of floats may hold both zeros, and a NaN, whose rows have no key.
    found = group_codes([entries.values], drop_missing=True)
    if not len(found):
        return None
    key = StoredKey(len(found), found.keys[0], 0, kind)
    if len(found) < len(entries):
        numbers = np.zeros(len(entries), np.int64)
        numbers[slice(None) if entries.known is None else entries.known] = found.codes
        number = program.looked_up(number, numbers)
    return key, number.register, number.known, None


def key_values(held: Sequence[StoredKey], groups: Integers) -> list[pa.Array]:
    """Return the values of each key of some groups, by their numbers."""
    arrays: list[pa.Array] = []
    for key in reversed(held):
        groups, numbers = np.divmod(groups, key.size)
        arrays.insert(0, key.values(numbers))
    return arrays


_Move = Callable[[Integers], Integers]
"""From the numbers of one segment to those that several share."""


def shared_keys(
    held: Sequence[Sequence[StoredKey]],
) -> tuple[list[StoredKey], list[_Move]] | None:
    """Return keys that several segments share, and what brings the numbers of each to these.

    Parameters
    ----------
    held
        The keys of each segment.

    Returns
    -------
    tuple or None
        None where values would have to be looked up for it.
    """
    columns = [_shared(column) for column in zip(*held, strict=True)]
    found = [column for column in columns if column is not None]
    keys = [key for key, _ in found]
    if len(found) < len(columns) or math.prod(key.size for key in keys) > WIDEST:
        return None
    return keys, [
        functools.partial(_moved, keys, before, [moves[segment] for _, moves in found])
        for segment, before in enumerate(held)
    ]


def _moved(
    keys: Sequence[StoredKey],
    before: Sequence[StoredKey],
    moves: Sequence[_Move],
    numbers: Integers,
) -> Integers:
    """Return numbers of combined keys by other keys, moved key by key."""
    if len(keys) == 1:
        return moves[0](numbers)
    found, factor, left = np.zeros(len(numbers), np.int64), 1, numbers
    for at in reversed(range(len(keys))):
        places = left
        if at:
            left, places = np.divmod(left, before[at].size)
        found += moves[at](places) * factor
        factor *= keys[at].size
    return found


def _shared(held: Sequence[StoredKey]) -> tuple[StoredKey, list[_Move]] | None:
    """Return one key for several of a column, and what brings their numbers to its own."""
    missing = any(key.missing is not None for key in held)
    present = [key.size - (key.missing is not None) for key in held]
    if all(key.entries is None for key in held):
        least = min(key.least for key in held)
        size = max(key.least + own for key, own in zip(held, present, strict=True)) - least
        entries = None
        tables: list[Integers | None] = [None] * len(held)
    else:
        found = _shared_entries(held, present)
        if found is None:
            return None
        entries, tables = found
        size, least = len(entries), 0
    shared = StoredKey(size + missing, entries, least, held[0].type, size if missing else None)

    def mover(key: StoredKey, table: Integers | None) -> _Move:
        by = 0 if entries is not None else key.least - least

        def move(numbers: Integers) -> Integers:
            if key.missing is None:
                return numbers + by if table is None else table[numbers]
            none = numbers == key.missing
            own = numbers + by if table is None else np.append(table, size)[numbers]
            return np.where(none, size, own)

        return move

    return shared, [mover(key, table) for key, table in zip(held, tables, strict=True)]


def _shared_entries(
    held: Sequence[StoredKey], present: Sequence[int]
) -> tuple[pa.Array, list[Integers | None]] | None:
    """Return the values of several keys, each once, and where those of each are among them."""
    if any(key.entries is None and own > _MOST_FEW for key, own in zip(held, present, strict=True)):
        return None
    values = [
        key.values(np.arange(own)) if key.entries is None else key.entries
        for key, own in zip(held, present, strict=True)
    ]
    first = values[0]
    if any(each.type != first.type for each in values):
        return None
    if all(each.equals(first) for each in values[1:]):
        return first, [None] * len(held)
    found = group_codes([pa.concat_arrays(values)], drop_missing=False)
    edges = np.cumsum(present)[:-1]
    return found.keys[0], list(np.split(found.codes, edges))


def are_in_order(keys: Sequence[StoredKey]) -> bool:
    """Return whether numbers are in the order of keys: integers are, missing ones are last."""
    return all(key.entries is None for key in keys)


def order_of_stored(keys: Sequence[StoredKey], groups: Integers) -> Integers:
    """Return the order of groups by key, as `order_of_groups` has it.

    Numbers of integers are in their order, and those of entries are brought to it.
    """
    if are_in_order(keys):
        return _order_of_places(groups)
    factor, left, places = 1, groups, np.zeros(len(groups), np.int64)
    for key in reversed(keys):
        numbers = left
        if key is not keys[0]:
            left, numbers = np.divmod(left, key.size)
        if key.entries is not None:
            ranks = np.empty(key.size, np.int64)
            ranks[order_of_keys([key.entries])] = np.arange(len(key.entries))
            if key.missing is not None:
                ranks[key.missing] = key.missing
            numbers = ranks[numbers]
        places += numbers * factor
        factor *= key.size
    return _order_of_places(places)


def _order_of_places(places: Integers) -> Integers:
    """Return the order of numbers that are all different."""
    low, high = (int(places.min()), int(places.max())) if len(places) else (0, 0)
    if high - low >= max(_MOST_FEW, _CELLS_A_GROUP * len(places)):
        return np.argsort(places)
    order = np.full(high - low + 1, -1, np.int64)
    order[places - low] = np.arange(len(places))
    return order[order >= 0]
