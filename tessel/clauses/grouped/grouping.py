"""From key columns to group numbers, and the order of keys.

Grouping works on codes: each key column is numbered by value, several are combined to one number a
row, and numbers are packed again between columns so that no combination leaves 64 bits. Dictionary
columns are never decoded row by row. The clauses that group (aggregation, resample with keys,
distinct) enter here; what equal keys are is said in :mod:`tessel.clauses.values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.positions import first_rows
from tessel.clauses.values import (
    BoolArray,
    integers,
    is_hashable,
    is_temporal,
    normalised,
    plain,
    plain_type,
    raw_values,
)
from tessel.clauses.values import missing_rows as _missing_values
from tessel.errors import InvalidInputError, UnsupportedTypeError

__all__ = ["Groups", "check_key_type", "group_codes", "missing_rows", "order_of_keys"]

Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs
Codes = NDArray[np.int64]

# A range of numbers is looked up in a table while it has at most this many cells a row, or in all.
_CELLS_A_ROW = 2
_CELLS = 1 << 16


@dataclass(frozen=True)
class Groups:
    """Rows, numbered by key in order of first appearance.

    Attributes
    ----------
    codes
        int64, shape ``(kept rows,)``, in ``[0, groups)``.
    first_row
        int64, shape ``(groups,)``, ascending: the row of the input where each group appears first.
    keys
        One array a key column, ``groups`` long, in the column's
        :func:`~tessel.clauses.values.plain_type`; NaN is null, −0.0 is 0.0.
    rows
        int64, shape ``(kept rows,)``, ascending: which rows of the input ``codes`` speaks of. None
        when it is all of them.
    """

    codes: Codes
    first_row: Codes
    keys: list[pa.Array]
    rows: Codes | None

    def __len__(self) -> int:
        return len(self.first_row)


def check_key_type(name: str, data_type: pa.DataType) -> None:
    """Refuse a key column whose values have no equality as a whole.

    Raises
    ------
    UnsupportedTypeError
        For lists, structs, maps, unions, intervals and the like; names the column.
    """
    if not is_hashable(data_type):
        raise UnsupportedTypeError(
            f"column {name!r} of type {data_type} cannot be a key",
            hint="keys are bool, numbers, decimals up to 128 bits, text, binary, dates, times, "
            "timestamps or durations; take a part of the column with apply first",
            column=name,
            type=str(data_type),
        )


def group_codes(columns: Sequence[Column], *, drop_missing: bool) -> Groups:
    """Return a number for each row by the values of one or many key columns.

    Parameters
    ----------
    columns
        At least one column, all of one length, of types that :func:`check_key_type` takes.
    drop_missing
        Whether rows with a missing value in any key fall away; otherwise missing is a value like
        others, equal to itself.

    Returns
    -------
    Groups
        Numbers in order of first appearance, hence the same for any representation of the rows.

    Raises
    ------
    InvalidInputError
        Without columns, or with columns of different lengths.
    """
    _check_shape(columns)
    codes, size = _numbered(columns[0])
    absent = codes < 0 if drop_missing else None
    if not drop_missing:
        codes, size = codes + 1, size + 1
    for column in columns[1:]:
        more, more_size = _numbered(column)
        if absent is None:
            more, more_size = more + 1, more_size + 1
        else:
            absent |= more < 0
        codes, size = _packed(codes, size)
        more, more_size = _packed(more, more_size)
        # Packed sizes are of the order of the number of rows, so the product fits.
        codes = codes * more_size + more
        size *= more_size
    rows = None
    if absent is not None and absent.any():
        rows = np.flatnonzero(~absent)
        codes = codes[rows]
    codes, first_row = _by_appearance(codes, size)
    if rows is not None:
        first_row = rows[first_row]
    keys = [_taken(column, first_row) for column in columns]
    return Groups(codes, first_row, keys, rows)


def missing_rows(columns: Sequence[Column]) -> BoolArray:
    """Return which rows miss a value (null or NaN) in any of the columns.

    Returns
    -------
    numpy.ndarray
        Bool, shape ``(rows,)``.
    """
    _check_shape(columns)
    missing = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        here = _missing_values(plain(column))
        if here is not None:
            missing |= here
    return missing


def order_of_keys(keys: Sequence[Column]) -> Codes:
    """Return the order of rows by key: ascending by the first column, then the next.

    Missing values come last; False before True; text by code point (which is UTF-8 byte order),
    binary by byte. Rows of equal keys keep their order.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``: row numbers, first to last.
    """
    _check_shape(keys)
    sortable = [_sortable(key) for key in keys]
    # Both kernels are stable and put nulls at the end unless told otherwise.
    if len(sortable) == 1:
        found = pc.array_sort_indices(sortable[0])
        return _as_codes(found)
    names = [str(number) for number in range(len(sortable))]
    found = pc.sort_indices(
        pa.table(sortable, names=names),
        sort_keys=[(name, "ascending") for name in names],
    )
    return _as_codes(found)


def _as_codes(indices: pa.Array) -> Codes:
    codes: Codes = indices.to_numpy().astype(np.int64)
    return codes


def _check_shape(columns: Sequence[Column]) -> None:
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise InvalidInputError(
            f"key columns have lengths {sorted(lengths)}" if columns else "no key columns",
            hint="give one key column or more, all of one length",
        )


def _sortable(key: Column) -> pa.Array:
    array = normalised(key)
    if is_temporal(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array


def _dictionary_parts(column: Column) -> tuple[pa.Array, Codes]:
    """Take a dictionary column apart: entries (plain), and the entry of each row, -1 for null.

    Entries of chunks with dictionaries of their own are laid end to end; values may occur twice.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    dictionaries: list[pa.Array] = []
    pieces = [np.zeros(0, np.int64)]
    start = end = 0
    for chunk in chunks:
        if not dictionaries or not chunk.dictionary.equals(dictionaries[-1]):
            dictionaries.append(chunk.dictionary)
            start, end = end, end + len(chunk.dictionary)
        indices = integers(chunk.indices).astype(np.int64) + start
        if chunk.indices.null_count:
            indices[chunk.indices.is_null().to_numpy(zero_copy_only=False)] = -1
        pieces.append(indices)
    entries = [plain(dictionary) for dictionary in dictionaries]
    indices = np.concatenate(pieces) if len(pieces) > 2 else pieces[-1]
    return (pa.concat_arrays(entries) if entries else plain(column)), indices


def _taken(column: Column, rows: Codes) -> pa.Array:
    """Return normalised values of some rows, without making all rows plain."""
    if pa.types.is_dictionary(column.type):
        entries, indices = _dictionary_parts(column)
        wanted = indices[rows]
        return normalised(entries.take(pa.array(wanted, mask=wanted < 0)))
    if plain_type(column.type) != column.type:
        column = plain(column)
    return normalised(column.take(pa.array(rows)))


def _numbered(column: Column) -> tuple[Codes, int]:
    """Return a number for each value of a column, -1 where missing, and a bound above them."""
    if pa.types.is_dictionary(column.type):
        entries, indices = _dictionary_parts(column)
        # The dictionary itself may hold a value twice, a null, or both zeros.
        numbers, size = _numbered(entries)
        if np.array_equal(numbers, np.arange(len(entries))):
            return indices, size
        # Index -1, of rows that are null themselves, finds the entry put at the end.
        return np.append(numbers, np.int64(-1))[indices], size
    array = normalised(column)
    if pa.types.is_null(array.type):
        return np.full(len(array), -1, np.int64), 0
    if pa.types.is_boolean(array.type):
        return _with_missing(array, integers(array).astype(np.int64)), 2
    if pa.types.is_integer(array.type) or is_temporal(array.type):
        ranged = _numbered_range(array)
        if ranged is not None:
            return ranged
    encoded = array.dictionary_encode()
    codes = raw_values(encoded.indices, np.int32).astype(np.int64)
    return _with_missing(array, codes), len(encoded.dictionary)


def _numbered_range(array: pa.Array) -> tuple[Codes, int] | None:
    """Return integers as distances from the least of them, where the range is narrow."""
    numbers = integers(array)
    present = numbers
    if array.null_count:
        present = numbers[array.is_valid().to_numpy(zero_copy_only=False)]
    if not len(present):
        return np.full(len(array), -1, np.int64), 0
    low, high = int(present.min()), int(present.max())
    size = high - low + 1
    if size > max(_CELLS, _CELLS_A_ROW * len(numbers)):
        return None
    # Differences wrap around for unsigned values past 2**63, and come out right.
    wide = numbers.view(np.int64) if numbers.dtype.itemsize == 8 else numbers.astype(np.int64)
    least = np.array(low, numbers.dtype).astype(np.int64)
    return _with_missing(array, wide - least), size


def _with_missing(array: pa.Array, codes: Codes) -> Codes:
    if not array.null_count:
        return codes
    return np.where(array.is_null().to_numpy(zero_copy_only=False), np.int64(-1), codes)


def _packed(codes: Codes, size: int) -> tuple[Codes, int]:
    """Renumber codes where there are many more numbers than rows."""
    if size <= max(_CELLS, _CELLS_A_ROW * len(codes)):
        return codes, size
    encoded = pa.array(codes).dictionary_encode()
    return raw_values(encoded.indices, np.int32).astype(np.int64), len(encoded.dictionary)


def _by_appearance(codes: Codes, size: int) -> tuple[Codes, Codes]:
    """Renumber codes in order of first appearance; also return the first row of each."""
    if size > max(_CELLS, _CELLS_A_ROW * len(codes)):
        # Dictionary encoding numbers by first appearance.
        encoded = pa.array(codes).dictionary_encode()
        numbers = raw_values(encoded.indices, np.int32)
        return numbers.astype(np.int64), first_rows(numbers, len(encoded.dictionary))
    used = np.zeros(size, np.bool_)
    used[codes] = True
    starts = np.zeros(len(codes), np.bool_)
    starts[first_rows(codes, size, used)[used]] = True
    first_row = np.flatnonzero(starts)
    order = codes[first_row]
    number = np.empty(size, np.int64)
    number[order] = np.arange(len(order))
    return number[codes], first_row
