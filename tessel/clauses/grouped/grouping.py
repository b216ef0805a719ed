"""From key columns to group numbers, and the order of keys.

Grouping works on codes: each key column is numbered by value, several are combined to one number a
row, and numbers are packed again where a combination would leave 64 bits; then rows are numbered by
these once. Dictionary columns are never decoded row by row. The clauses that group (aggregation,
resample with keys, distinct) enter here; what equal keys are is said in
:mod:`tessel.clauses.values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.grouped.numbering import (
    WIDEST,
    Numbers,
    dictionary_parts,
    numbered,
)
from tessel.clauses.values import (
    BoolArray,
    is_hashable,
    is_temporal,
    normalised,
    plain,
    plain_type,
)
from tessel.clauses.values import missing_rows as _missing_values
from tessel.errors import InvalidInputError, UnsupportedTypeError
from tessel.kernels.group_rows import group_range, group_words
from tessel.lazy import dataclass

Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs
Codes = NDArray[np.int64]

# Numbers are packed where they would need more cells a row than this, and more than these in all.
_CELLS_A_ROW = 2
_CELLS = 1 << 16

_MANY_ROWS = 1 << 13
"""So many keys are ordered by kernels sooner than by Arrow."""
# A range of numbers is looked up in a table while it has at most this many cells a row, or in all
# those above: a cell costs a nanosecond or less, and a row of a hash table of 10**6 groups 60.
_TABLE_CELLS_A_ROW = 16


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
    first = numbered(columns[0])
    if len(columns) == 1 and first.first_row is not None:
        return Groups(first.codes, first.first_row, [_taken(columns[0], first.first_row)], None)
    codes, size, absent = _combined(first, drop_missing, None)
    for column in columns[1:]:
        more, more_size, absent = _combined(numbered(column), drop_missing, absent)
        if size * more_size >= WIDEST:
            # Packed sizes are of the order of the number of rows, so their product fits.
            codes, size = _packed(codes, size)
            more, more_size = _packed(more, more_size)
        codes = codes * more_size + more
        size *= more_size
    rows = None
    if absent is not None:
        rows = np.flatnonzero(~absent)
        codes = codes[rows]
    codes, first_row = numbered_by_appearance(codes, size)
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
    names = tuple(str(number) for number in range(len(keys)))
    table = pa.table([_sortable(key) for key in keys], names=names)
    if len(table) >= _MANY_ROWS:
        from tessel.clauses.ordering import Ordering

        order = Ordering(names, (False,) * len(names)).order(table)
        return np.arange(len(table)) if order is None else order
    # Stable, and nulls are at the end unless told otherwise.
    found = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    return _as_codes(found)


def numbered_by_appearance(codes: Codes, size: int) -> tuple[Codes, Codes]:
    """Renumber codes in order of first appearance.

    Parameters
    ----------
    codes
        int64, shape ``(rows,)``, in ``[0, size)``.
    size
        At most :data:`~tessel.clauses.grouped.numbering.WIDEST`.

    Returns
    -------
    codes, first_row : numpy.ndarray
        int64: the new number of each row, and the first row of each, ascending.
    """
    few = size <= max(_CELLS, _TABLE_CELLS_A_ROW * len(codes))
    return group_range(codes, size) if few else group_words(codes)


def _as_codes(indices: pa.Array) -> Codes:
    codes: Codes = numpy_array(indices).astype(np.int64)
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


def _taken(column: Column, rows: Codes) -> pa.Array:
    """Return normalised values of some rows, without making all rows plain."""
    if pa.types.is_dictionary(column.type):
        entries, indices = dictionary_parts(column)
        wanted = indices[rows]
        return normalised(entries.take(arrow_array(wanted, mask=wanted < 0)))
    if plain_type(column.type) != column.type:
        column = plain(column)
    return normalised(column.take(arrow_array(rows)))


def _combined(
    numbers: Numbers, drop_missing: bool, absent: BoolArray | None
) -> tuple[Codes, int, BoolArray | None]:
    """Return codes that are not negative, their bound, and the rows that fall away so far."""
    codes, size = numbers.codes, numbers.size
    if not numbers.some_missing:
        return codes, size, absent
    if not drop_missing:
        return codes + 1, size + 1, absent
    missing = codes < 0
    if missing.any():
        codes = np.where(missing, 0, codes)
        absent = missing if absent is None else absent | missing
    return codes, max(size, 1), absent


def _packed(codes: Codes, size: int) -> tuple[Codes, int]:
    """Renumber codes where there are many more numbers than rows."""
    if size <= max(_CELLS, _CELLS_A_ROW * len(codes)):
        return codes, size
    codes, first_row = numbered_by_appearance(codes, size)
    return codes, len(first_row)
