"""Keys of groups as numbers: those of segments, units and spilled parts are joined by these.

A key column is numbered by its distance from the least value, or by its place in an array of
entries; several columns make one number, or, where the product of their sizes would leave 62 bits,
one column of structs. Values are looked up where a table is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.grouped.grouping import group_codes, order_of_keys
from tessel.clauses.grouped.numbering import WIDEST, numbered_range
from tessel.clauses.values import integers, is_temporal, of_integers, raw_values
from tessel.lazy import dataclass

Integers = NDArray[np.int64]

_MOST_FEW = 1 << 16
"""The values of an integer key with more numbers are not listed to share them with entries."""

_CELLS_A_GROUP = 16
"""Groups are ordered by their places in a table while it has at most this many cells a group."""

_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class NumberedKey:
    """A key column as numbers from 0 on, or several columns as structs.

    Attributes
    ----------
    size
        One more than the greatest.
    entries
        The values that numbers are places of; None where they are the values, less ``least``.
    missing
        The number of a missing key, the last one; None where rows without a key are dropped, or
        there are none. A missing field of a struct is a value like others.
    places
        Decimal places of floats that numbers are the values of, as integers.
    """

    size: int
    entries: pa.Array | None
    least: int
    type: pa.DataType
    missing: int | None = None
    places: int = 0

    def within(self, bounds: tuple[int, int] | None) -> NumberedKey:
        """Return a key of integers, as it was planned, within the bounds of a segment."""
        assert bounds is not None  # it was planned for a column with bounds
        low, high = map(int, bounds)
        size = high - low + 1
        if self.missing is None:
            return NumberedKey(size, None, low, self.type)
        return NumberedKey(size + 1, None, low, self.type, size)

    def values(self, numbers: Integers) -> pa.Array:
        """Return the values of some numbers."""
        mask = None if self.missing is None else numbers == self.missing
        if self.entries is not None:
            return self.entries.take(arrow_array(numbers, mask=mask))
        return of_integers(numbers + self.least, self.type, mask, self.places)


_Numbered = tuple[Sequence[NumberedKey], Integers]
"""Keys, and the number of each group by these."""


def numbered_keys(columns: Sequence[pa.Array]) -> _Numbered:
    """Give groups numbers by the values of their keys; return numbered keys, and the numbers.

    Parameters
    ----------
    columns
        One array a key column, plain and normalized, one value a group; none for one group. No two
        groups have the same values.
    """
    if not columns:
        return [], np.zeros(1, np.int64)
    found = [_numbered(column, are_distinct=len(columns) == 1) for column in columns]
    if math.prod(key.size for key, _ in found) > WIDEST:
        return [_of_structs(columns)], np.arange(len(columns[0]))
    (_, combined), *others = found
    for key, numbers in others:
        combined = combined * key.size + numbers
    return [key for key, _ in found], combined


def _numbered(column: pa.Array, *, are_distinct: bool) -> tuple[NumberedKey, Integers]:
    kind, some_missing = column.type, column.null_count > 0
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or is_temporal(kind):
        low = _least(column)
        found = None if low is None else numbered_range(column)
        if found is not None and low is not None:
            return _with_missing(found.codes, found.size, None, low, kind, some_missing)
    if are_distinct and not some_missing:
        return NumberedKey(len(column), column, 0, kind), np.arange(len(column))
    if pa.types.is_null(kind):
        return _with_missing(np.full(len(column), -1, np.int64), 0, column[:0], 0, kind, True)
    encoded = column.dictionary_encode()
    codes = raw_values(encoded.indices, np.int32).astype(np.int64)
    if some_missing:
        codes[numpy_array(column.is_null())] = -1
    return _with_missing(codes, len(encoded.dictionary), encoded.dictionary, 0, kind, some_missing)


def _least(column: pa.Array) -> int | None:
    """Return the least of some integers, 0 of none; None where they are no int64."""
    present = integers(column.drop_null() if column.null_count else column)
    if not len(present):
        return 0
    return None if int(present.max()) > _LARGEST else int(present.min())


def _with_missing(
    codes: Integers,
    size: int,
    entries: pa.Array | None,
    least: int,
    kind: pa.DataType,
    some_missing: bool,
) -> tuple[NumberedKey, Integers]:
    """Return a key whose last number is that of a missing one, if there is any."""
    if not some_missing:
        return NumberedKey(size, entries, least, kind), codes
    key = NumberedKey(size + 1, entries, least, kind, size)
    return key, np.where(codes < 0, size, codes)


def _of_structs(columns: Sequence[pa.Array]) -> NumberedKey:
    entries = pa.StructArray.from_arrays(columns, [str(at) for at in range(len(columns))])
    return NumberedKey(len(entries), entries, 0, entries.type)


def _columns(entries: pa.Array) -> list[pa.Array]:
    return entries.flatten() if pa.types.is_struct(entries.type) else [entries]


def key_values(keys: Sequence[NumberedKey], groups: Integers) -> list[pa.Array]:
    """Return the values of each key column of some groups, by their numbers."""
    arrays: list[pa.Array] = []
    for key in reversed(keys):
        groups, numbers = np.divmod(groups, key.size)
        arrays[:0] = _columns(key.values(numbers))
    return arrays


def shared_keys(held: Sequence[_Numbered]) -> tuple[Sequence[NumberedKey], list[Integers]]:
    """Return keys that several parts share, and the numbers of the groups of each by these."""
    first, _ = held[0]
    if len({len(keys) for keys, _ in held}) > 1:
        return _together(held)
    columns = [_shared(column) for column in zip(*(keys for keys, _ in held), strict=True)]
    found = [column for column in columns if column is not None]
    keys = [key for key, _ in found]
    if len(found) < len(first) or math.prod(key.size for key in keys) > WIDEST:
        return _together(held)
    return keys, [
        _moved(keys, before, [moves[part] for _, moves in found], numbers)
        for part, (before, numbers) in enumerate(held)
    ]


def _together(held: Sequence[_Numbered]) -> tuple[Sequence[NumberedKey], list[Integers]]:
    """Return keys that are numbered anew, by the values of all groups."""
    parts = [key_values(keys, numbers) for keys, numbers in held]
    columns = [pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True)]
    found = group_codes(columns, drop_missing=False)
    keys, numbers = numbered_keys(found.keys)
    edges = np.cumsum([len(numbers) for _, numbers in held])[:-1]
    return keys, np.split(numbers[found.codes], edges)


_Move = Callable[[Integers], Integers]
"""From the numbers of one part to those that several share."""


def _moved(
    keys: Sequence[NumberedKey],
    before: Sequence[NumberedKey],
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


def _shared(held: Sequence[NumberedKey]) -> tuple[NumberedKey, list[_Move]] | None:
    """Return one key for several of a column, and what brings their numbers to its own.

    None for structs, and where the values of all numbers would have to be listed.
    """
    missing = any(key.missing is not None for key in held)
    present = [key.size - (key.missing is not None) for key in held]
    places, *others = {key.places for key in held}
    if not others and all(key.entries is None for key in held):
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
    none = size if missing else None
    shared = NumberedKey(size + missing, entries, least, held[0].type, none, places)

    def mover(key: NumberedKey, table: Integers | None) -> _Move:
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
    held: Sequence[NumberedKey], present: Sequence[int]
) -> tuple[pa.Array, list[Integers | None]] | None:
    """Return the values of several keys, each once, and where those of each are among them."""
    if pa.types.is_struct(held[0].type) or any(
        key.entries is None and own > _MOST_FEW for key, own in zip(held, present, strict=True)
    ):
        return None
    values = [
        key.values(np.arange(own)) if key.entries is None else key.entries
        for key, own in zip(held, present, strict=True)
    ]
    first = values[0]
    if all(each.equals(first) for each in values[1:]):
        return first, [None] * len(held)
    found = group_codes([pa.concat_arrays(values)], drop_missing=False)
    edges = np.cumsum(present)[:-1]
    return found.keys[0], list(np.split(found.codes, edges))


def are_in_order(keys: Sequence[NumberedKey]) -> bool:
    """Return whether numbers are in the order of keys: integers are, missing ones are last."""
    return all(key.entries is None for key in keys)


def is_sorted(keys: Sequence[NumberedKey], groups: Integers) -> bool:
    """Return whether groups are known to be in the order of their keys."""
    return are_in_order(keys) and bool((groups[1:] > groups[:-1]).all())


def order_of_numbers(keys: Sequence[NumberedKey], groups: Integers) -> Integers:
    """Return the order of groups by key, as `order_of_keys` has it.

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
            ranks[order_of_keys(_columns(key.entries))] = np.arange(len(key.entries))
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
