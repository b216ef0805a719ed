"""Finding the rows of one table that have the keys of another's rows.

:class:`KeyTable` is made of the key columns of one side, the *built* one. It numbers their distinct
keys column by column, as :func:`tessel.clauses.grouped.grouping.group_codes` does, and finds for a
row of the other side the number of its key. A column's values are found by their hash
(:mod:`tessel.clauses.grouped.hashing`): the hashes of the distinct values are sorted, and a
directory over their leading bits tells where to look, so that a look-up is one or two comparisons
of numbers. Where two values can have one hash, the values themselves are compared.

Hashes are fixed and can be made to collide on purpose; that costs time and never an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.grouped.hashing import hash_column
from tessel.clauses.values import integers
from tessel.kernels import rows_by_code

__all__ = ["KeyTable"]

Codes = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_CELLS_A_VALUE = 4
_CELLS = 1 << 16


class KeyTable:
    """The distinct keys of the built side, and the rows that have each.

    Parameters
    ----------
    columns
        Its key columns, at least one, as :func:`tessel.clauses.joining.keys.as_keys` gives them.

    Attributes
    ----------
    codes
        The number of each row's key, −1 where a part of it is missing. int64, shape ``(rows,)``.
    rows
        The rows that have a key, those of key 0 first, each key's in their order.
    starts
        Where in ``rows`` those of each key start; one entry more tells the end. int64, shape
        ``(keys + 1,)``.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values: list[_Values] = []
        self._pairs: list[_Values] = []
        codes = self._first(columns[0])
        for column in columns[1:]:
            more = self._first(column)
            pairs = _combined(codes, more, len(self._values[-1]))
            found = _Values.of(pairs)
            self._pairs.append(found)
            codes = found.codes
        self.codes = codes
        keys = len(self._pairs[-1] if self._pairs else self._values[-1])
        self.rows, self.starts = rows_by_code(codes, keys)

    @property
    def most(self) -> int:
        """The largest number of rows that have one key; 0 where no row has a key."""
        counts = np.diff(self.starts)
        return int(counts.max()) if len(counts) else 0

    def find(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the number of the key of each row of the other side, −1 where there is none."""
        codes = self._values[0].find(columns[0])
        for values, pairs, column in zip(self._values[1:], self._pairs, columns[1:], strict=True):
            codes = pairs.find(_combined(codes, values.find(column), len(values)))
        return codes

    def _first(self, column: pa.Array) -> Codes:
        values = _Values.of(column)
        self._values.append(values)
        return values.codes


def _combined(codes: Codes, more: Codes, size: int) -> pa.Array:
    """Return one number for two; null where either is missing.

    Both count distinct values of at most 2³¹ rows, so that the product stays in 64 bits.
    """
    return pa.array(codes * size + more, mask=(codes < 0) | (more < 0))


@dataclass(frozen=True)
class _Values:
    """The distinct values of one column of the built side."""

    distinct: pa.Array
    codes: Codes
    index: _Range | _HashIndex

    @classmethod
    def of(cls, column: pa.Array) -> _Values:
        found = group_codes([column], drop_missing=True)
        codes = found.codes
        if found.rows is not None:
            codes = np.full(len(column), -1, np.int64)
            codes[found.rows] = found.codes
        distinct = found.keys[0]
        return cls(distinct, codes, _Range.of(distinct) or _HashIndex.of(distinct))

    def __len__(self) -> int:
        return len(self.distinct)

    def find(self, column: pa.Array) -> Codes:
        """Return the number of each value, −1 where it is missing or none of these."""
        if not pa.types.is_dictionary(column.type):
            return self.index.find(column)
        # The last entry is what rows that are null themselves find.
        entries = np.append(self.index.find(column.dictionary), np.int64(-1))
        at = integers(column.indices).astype(np.int64)
        if column.indices.null_count:
            at[column.indices.is_null().to_numpy(zero_copy_only=False)] = len(entries) - 1
        codes: Codes = entries[at]
        return codes


@dataclass(frozen=True)
class _Range:
    """Integers that lie close together: a table tells the number of each."""

    low: int
    numbers: Codes

    @classmethod
    def of(cls, distinct: pa.Array) -> _Range | None:
        if not pa.types.is_integer(distinct.type) or not len(distinct):
            return None
        values = integers(distinct)
        low, high = int(values.min()), int(values.max())
        size = high - low + 1
        if size > max(_CELLS, _CELLS_A_VALUE * len(values)):
            return None
        numbers = np.full(size, -1, np.int64)
        numbers[_distances(values, low)] = np.arange(len(values))
        return cls(low, numbers)

    def find(self, column: pa.Array) -> Codes:
        values = integers(column)
        high = self.low + len(self.numbers) - 1
        inside = (values >= self.low) & (values <= high)
        if column.null_count:
            inside &= column.is_valid().to_numpy(zero_copy_only=False)
        if inside.all():
            everything: Codes = self.numbers[_distances(values, self.low)]
            return everything
        codes = np.full(len(values), -1, np.int64)
        codes[inside] = self.numbers[_distances(values[inside], self.low)]
        return codes


def _distances(values: NDArray[Any], low: int) -> Codes:
    # Differences wrap around for unsigned values past 2**63, and come out right.
    wide = values.view(np.int64) if values.dtype.itemsize == 8 else values.astype(np.int64)
    distances: Codes = wide - np.array(low, values.dtype).astype(np.int64)
    return distances


@dataclass(frozen=True)
class _HashIndex:
    """Values of any type by their hashes.

    Attributes
    ----------
    distinct
        The values.
    hashes, order
        Their hashes, ascending, and the number of the value that each is of.
    starts
        For each prefix of ``64 - shift`` bits the first hash that has it, or a larger one.
    longest
        How many values share one hash at most.
    exact
        Whether equal hashes are equal values.
    """

    distinct: pa.Array
    hashes: Hashes
    order: Codes
    starts: Codes
    shift: np.uint64
    longest: int
    exact: bool

    @classmethod
    def of(cls, distinct: pa.Array) -> _HashIndex:
        hashes = hash_column(distinct)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        bits = max(1, len(hashes).bit_length())
        shift = np.uint64(64 - bits)
        counts = np.bincount((hashes >> shift).astype(np.int64), minlength=1 << bits)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        bounds = np.flatnonzero(np.diff(hashes, prepend=~hashes[:1]) != 0)
        runs = np.diff(np.append(bounds, len(hashes)))
        longest = int(runs.max()) if len(runs) else 0
        return cls(distinct, hashes, order, starts, shift, longest, _is_one_to_one(distinct.type))

    def find(self, column: pa.Array) -> Codes:
        codes = np.full(len(column), -1, np.int64)
        if not len(self.hashes) or not len(column):
            return codes
        wanted = hash_column(column)
        at = self._first(wanted)
        rows = np.flatnonzero(at >= 0)
        if column.null_count:
            rows = rows[column.is_valid().to_numpy(zero_copy_only=False)[rows]]
        if self.exact and self.longest <= 1:
            codes[rows] = self.order[at[rows]]
            return codes
        for step in range(self.longest):
            place = at[rows] + step
            same = place < len(self.hashes)
            same[same] = self.hashes[place[same]] == wanted[rows[same]]
            rows, place = rows[same], place[same]
            if not len(rows):
                break
            candidates = self.order[place]
            equal = _equal(column, rows, self.distinct, candidates)
            codes[rows[equal]] = candidates[equal]
            rows = rows[~equal]
        return codes

    def _first(self, wanted: Hashes) -> Codes:
        """Return where each hash stands first among the sorted ones, −1 where it does not."""
        prefix = (wanted >> self.shift).astype(np.int64)
        place, stop = self.starts[prefix], self.starts[prefix + 1]
        found = np.full(len(wanted), -1, np.int64)
        rows = np.flatnonzero(place < stop)
        place, stop, wanted = place[rows], stop[rows], wanted[rows]
        while len(rows):
            hashes = self.hashes[place]
            equal = hashes == wanted
            found[rows[equal]] = place[equal]
            further = (hashes < wanted) & (place + 1 < stop)
            rows, place = rows[further], place[further] + 1
            stop, wanted = stop[further], wanted[further]
        return found


def _is_one_to_one(kind: pa.DataType) -> bool:
    """Return whether no two values of a type have one hash, which is a mixing of 64 bits then."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _equal(left: pa.Array, rows: Codes, right: pa.Array, places: Codes) -> NDArray[np.bool_]:
    found = pc.equal(left.take(pa.array(rows)), right.take(pa.array(places)))
    equal: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return equal
