"""Keys of two tables as values that can be compared: one type for both, exact or refused.

Two key columns go together where one type holds the values of both without loss (see
:func:`tessel.store.promotion.promote`); int64 beside uint64 is compared as whole decimals.
Instants, times and durations are compared as counts of the finer unit; a value that this unit
cannot count equals no value of the other side, so it becomes missing and nothing overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.grouped.grouping import check_key_type
from tessel.clauses.grouped.numbering import dictionary_parts
from tessel.clauses.values import (
    integers,
    is_temporal,
    is_text_or_binary,
    normalised,
    plain_type,
)
from tessel.errors import SchemaMismatchError
from tessel.store.promotion import promote

Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs

_UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WHOLE_NUMBERS = pa.decimal128(20, 0)
"""Holds every integer of 64 bits, signed or not."""
_SAMPLE_ROWS = 4096


def key_type(
    clause: str, names: tuple[str, str], types: tuple[pa.DataType, pa.DataType]
) -> pa.DataType:
    """Return the type in which two key columns are compared.

    Raises UnsupportedTypeError for a column whose values have no equality as a whole;
    SchemaMismatchError where no type holds the values of both, naming the columns and their types.

    Parameters
    ----------
    names, types
        Of the left column and the right one.
    """
    for name, type_ in zip(names, types, strict=True):
        check_key_type(name, type_)
    left, right = (plain_type(type_) for type_ in types)
    if {left, right} == {pa.int64(), pa.uint64()}:
        return _WHOLE_NUMBERS
    try:
        return plain_type(promote(names[0], (left, right), clause=clause))
    except SchemaMismatchError:
        raise SchemaMismatchError(
            f"{clause}: {names[0]!r} of the left is {types[0]} and {names[1]!r} of the right is "
            f"{types[1]}: such keys are not compared",
            hint=f'cast one side first, for instance apply("{names[1]}", '
            f'col("{names[1]}").cast("{types[0]}"))',
            columns=list(names),
            types=[str(type_) for type_ in types],
        ) from None


def as_keys(columns: Sequence[Column], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return key columns in the form in which they are compared.

    Parameters
    ----------
    types
        What :func:`key_type` gave for each.

    Returns
    -------
    list of pyarrow.Array
        Equal keys are equal bits and missing ones null: NaN is null, −0.0 is 0.0. Temporal
        columns come as int64, all others in their key type. Dictionaries, and columns whose
        values repeat, come as dictionaries of such values, each entry once or more.
    """
    return [_as_key(column, type_) for column, type_ in zip(columns, types, strict=True)]


def _as_key(column: Column, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return _encoded_where_it_repeats(_compared(normalised(column), type_))
    if isinstance(column, pa.ChunkedArray) and not column.num_chunks:
        return _compared(normalised(column), type_)
    entries, places = dictionary_parts(column)
    absent = places < 0
    indices = arrow_array(places, mask=absent if absent.any() else None)
    return pa.DictionaryArray.from_arrays(indices, _compared(normalised(entries), type_))


def _encoded_where_it_repeats(array: pa.Array) -> pa.Array:
    """Return long columns of few values as dictionaries: each value is hashed once.

    Numbers are hashed faster than they are encoded. Whether values repeat is told by the first
    rows; where these mislead, time is lost and nothing else.
    """
    if not is_text_or_binary(array.type):
        return array
    first = array.slice(0, _SAMPLE_ROWS)
    if len(array) <= _SAMPLE_ROWS or len(first.unique()) > _SAMPLE_ROWS // 2:
        return array
    return array.dictionary_encode()


def _compared(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if not is_temporal(type_):
        return array if array.type == type_ else array.cast(type_)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int64())
    if pa.types.is_date(type_):
        days = array.cast(pa.date32())  # dates of both widths are counted in days
        return days.view(pa.int32()).cast(pa.int64())
    factor = _UNITS_A_SECOND[type_.unit] // _UNITS_A_SECOND[array.type.unit]
    return _scaled(array, factor)


def _scaled(array: pa.Array, factor: int) -> pa.Array:
    """Return the counts of an array in a unit ``factor`` times finer; null where none is."""
    counts = integers(array).astype(np.int64)
    null = numpy_array(array.is_null()) if array.null_count else None
    if factor > 1:
        most = np.iinfo(np.int64).max // factor
        past = (counts > most) | (counts < -most)
        null = past if null is None else null | past
        counts = np.where(past, 0, counts) * factor
    found = arrow_array(counts, mask=null)
    return found if isinstance(found, pa.Array) else pc.cast(found, pa.int64())
