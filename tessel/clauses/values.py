"""Arrow columns seen as what they mean: plain values, missing rows, integers behind a type.

Grouping, hashing and the aggregates all need the same few views of a column, whatever its
representation: a dictionary and its values, one chunk or many, a slice, a view type are one and
the same column. The functions here take a column apart without copying where Arrow's own layout
allows it. Anything in :mod:`tessel.clauses` may use them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array, unified
from tessel.expression import types

BoolArray = NDArray[np.bool_]


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of a column once taken out of its representation.

    Dictionaries become the type of their values, view types the plain ones, float16 becomes
    float32, and decimals of 32 and 64 bits become decimal128 of the same precision and scale.
    Every other type is itself.
    """
    kind = types.plain_type(data_type)
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the column as one array of its :func:`plain_type`, without copying where possible."""
    if isinstance(values, pa.ChunkedArray):
        chunks = [plain(chunk) for chunk in values.chunks]
        if len(chunks) == 1:
            return chunks[0]
        return pa.concat_arrays(chunks) if chunks else arrow_array([], plain_type(values.type))
    if pa.types.is_dictionary(values.type):
        from tessel.expression.text_bytes import taken_entries

        # The dictionary is made plain first: Arrow cannot decode into view types.
        return taken_entries(plain(values.dictionary), values.indices)
    wanted = plain_type(values.type)
    return values if values.type == wanted else values.cast(wanted)


def raw_values(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """View the fixed-width values of an array, whatever lies under its nulls.

    Parameters
    ----------
    array
        Of a type whose values are ``dtype``-sized items in one buffer (not bool).

    Returns
    -------
    numpy.ndarray
        Shape ``(len(array),)``; read-only, shares memory with ``array``.
    """
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    itemsize = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * itemsize)


def integers(array: pa.Array) -> NDArray[Any]:
    """Return the integers behind an array of bool, integer, date, time, timestamp or duration.

    Parameters
    ----------
    array
        Plain (see :func:`plain`); rows that are null hold any number.

    Returns
    -------
    numpy.ndarray
        Shape ``(len(array),)``, in the width and signedness of the type; bool gives uint8.
        Units are those of the type (days, ms, ns, …).
    """
    if pa.types.is_boolean(array.type):
        return raw_values(array.cast(pa.uint8()), np.uint8)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    if pa.types.is_integer(array.type):
        return raw_values(array, array.type.to_pandas_dtype())
    return raw_values(array, np.int32 if array.type.bit_width == 32 else np.int64)


def doubles(array: pa.Array) -> NDArray[np.float64]:
    """Return the floats of an array, of any width, as float64; rows that are null hold any."""
    return raw_values(array, array.type.to_pandas_dtype()).astype(np.float64, copy=False)


def of_integers(
    numbers: NDArray[Any], kind: pa.DataType, mask: BoolArray | None = None, places: int = 0
) -> pa.Array:
    """Return the values of a type that :func:`integers` takes, from the integers behind them.

    Rows of the ``mask`` are null. Floats are decimals of so many ``places``.
    """
    if pa.types.is_floating(kind):
        numbers = numbers / float(10**places)
        return arrow_array(numbers.astype(kind.to_pandas_dtype(), copy=False), kind, mask=mask)
    if pa.types.is_boolean(kind):
        return arrow_array(numbers.astype(np.bool_), mask=mask)
    if pa.types.is_integer(kind):
        return arrow_array(numbers.astype(kind.to_pandas_dtype(), copy=False), kind, mask=mask)
    width = np.int32 if kind.bit_width == 32 else np.int64
    return arrow_array(numbers.astype(width, copy=False), mask=mask).view(kind)


def decimal_words(array: pa.Array) -> NDArray[np.int64]:
    """View the unscaled values of a decimal128 array.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(len(array), 2)``: low word (its bits are unsigned), high word (signed).
        Rows that are null hold anything.
    """
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros((len(array), 2), np.int64)
    words = np.frombuffer(buffer, np.int64, count=2 * len(array), offset=16 * array.offset)
    return words.reshape(-1, 2)


def decimal_integers(array: pa.Array) -> NDArray[np.int64] | None:
    """Return the unscaled values of a decimal128 array, int64; None where one needs more bits."""
    words = decimal_words(array)
    low, high = words[:, 0], words[:, 1]
    return low if bool((high == low >> 63).all()) else None


def is_hashable(data_type: pa.DataType) -> bool:
    """Return whether values of a type can be keys: one value a row, compared as a whole.

    Null, bool, integers, floats, decimals up to 128 bits, text, binary, dates, times, timestamps
    and durations can, in any representation. Lists, structs, maps, unions, intervals, run-end
    encoded and extension types cannot.
    """
    return plain_type(data_type).id in _HASHABLE


def _ids(*kinds: pa.DataType) -> frozenset[int]:
    return frozenset(kind.id for kind in kinds)


NUMBERS = _ids(
    *(pa.null(), pa.bool_(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
"""What plain types of numbers are called by Arrow; null and bool count as such."""
TEXTS = _ids(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1))
TIMES = _ids(
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("s")),
    pa.duration("s"),
)
_HASHABLE = NUMBERS | TEXTS | TIMES | _ids(pa.decimal128(1))


def is_text_or_binary(data_type: pa.DataType) -> bool:
    """Return whether a plain type is text or binary, of any offset width or of fixed size."""
    return data_type.id in TEXTS


def is_temporal(data_type: pa.DataType) -> bool:
    """Return whether a plain type is a date, time, timestamp or duration (not an interval)."""
    return data_type.id in TIMES


def missing_rows(array: pa.Array) -> BoolArray | None:
    """Return which rows are null or NaN.

    Returns
    -------
    numpy.ndarray or None
        Bool, shape ``(len(array),)``; None when no row is missing, which is found without
        looking at the rows for every type but floats.
    """
    null: BoolArray | None = None
    if array.null_count:
        null = numpy_array(array.is_null())
    if pa.types.is_floating(array.type) and len(array):
        raw = raw_values(array, array.type.to_pandas_dtype())
        # The maximum is NaN exactly where some value is: one pass, no temporary.
        if np.isnan(raw.max()):
            null = np.isnan(raw) if null is None else null | np.isnan(raw)
    return null if null is not None and null.any() else None


def normalised(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the column so that equal keys are equal bits: plain, NaN null, −0.0 as 0.0."""
    array = plain(values)
    if not pa.types.is_floating(array.type):
        return array
    raw = raw_values(array, array.type.to_pandas_dtype())
    with np.errstate(invalid="ignore"):  # a signalling NaN warns, and is masked
        # Adding zero turns −0.0 into 0.0 and leaves all else alone.
        return arrow_array(raw + raw.dtype.type(0), array.type, mask=missing_rows(array))


def ranks(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return a number for each value of an array, ascending with the values.

    Parameters
    ----------
    array
        Normalised, of a type that has an order, without nulls.

    Returns
    -------
    codes : numpy.ndarray
        int64, shape ``(len(array),)``; ``codes[i] < codes[j]`` exactly where value i is less.
    ordered : pyarrow.Array
        The distinct values, ascending (text by code point); ``ordered[codes]`` is the array.
    """
    codes, order, entries = _ranked(array)
    return codes, entries.take(arrow_array(order))


def rank_codes(array: pa.Array) -> NDArray[np.int64]:
    """Return the numbers of :func:`ranks`, without the values."""
    return _ranked(array)[0]


def _ranked(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Return the rank of each value, which of some entries have these ranks, and the entries."""
    codes: NDArray[np.int64] | None = None
    entries, is_text = array, is_text_or_binary(array.type)
    # A hash table first, but where it would hardly leave less to be ordered.
    if not (is_text and _seldom_repeats(array)):
        codes, entries = different_values(array)
    if is_text:
        from tessel.expression.text_bytes import ordered_texts

        order, repeats = ordered_texts(entries)
    else:
        order = numpy_array(pc.sort_indices(entries)).astype(np.int64)
        repeats = np.zeros(len(order), np.bool_)
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(~repeats) - 1
    return (place if codes is None else place[codes]), order[~repeats], entries


def _seldom_repeats(texts: pa.Array) -> bool:
    """Return whether most texts of an array are different, judging by some of them."""
    from tessel.expression.text_bytes import texts_of
    from tessel.kernels.group_rows import group_texts
    from tessel.kernels.word_numbers import SAMPLED_WORDS, expected_distinct

    step = len(texts) // SAMPLED_WORDS
    if step < 2:
        return False
    sampled = texts.take(arrow_array(np.arange(0, len(texts), step)))
    _, first = group_texts([texts_of(sampled)])
    return 2 * expected_distinct(len(sampled), len(first), len(texts)) > len(texts)


def different_values(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the distinct values of a plain array without nulls, and for each row which it is.

    Of a million different texts Arrow's dictionary takes 101 ms, groups by their hash 19; of 40
    bytes each, 116 and 25.
    """
    from tessel.expression.text_bytes import texts_of
    from tessel.kernels.group_rows import group_texts, group_words

    words = decimal_integers(array) if pa.types.is_decimal128(array.type) else None
    if is_text_or_binary(array.type):
        codes, first = group_texts([texts_of(array)])
    elif words is not None:
        codes, first = group_words(words)
    else:
        encoded = array.dictionary_encode()
        return raw_values(encoded.indices, np.int32).astype(np.int64), encoded.dictionary
    return codes, array if len(first) == len(array) else array.take(arrow_array(first))


def cut_by_code(
    table: pa.Table, codes: NDArray[np.int64], count: int
) -> Iterator[tuple[int, pa.Table]]:
    """Give the rows of each number in ``[0, count)`` that has any, in order, each in memory alone.

    Parameters
    ----------
    codes
        The number of each row, int64.
    """
    from tessel.kernels.group_rows import rows_by_code

    order, starts = rows_by_code(codes, count)
    for code, (start, stop) in enumerate(itertools.pairwise(starts.tolist())):
        if start < stop:
            yield code, table.take(arrow_array(order[start:stop]))


def with_used_entries(table: pa.Table) -> pa.Table:
    """Return a table with dictionaries longer than their columns cut to the entries in use.

    Parts of a table, by hash or by ranges of a key, would otherwise each hold the whole dictionary.
    """
    return _with_dictionaries(table, _trimmed, lambda chunk: len(chunk.dictionary) > len(chunk))


def without_null_entries(table: pa.Table) -> pa.Table:
    """Return a table whose rows of an entry that is null are null themselves.

    So stores give them; Arrow cannot unify dictionaries that have such an entry.
    """
    from tessel.store.segment.types import cast_dictionary

    return _with_dictionaries(
        table,
        lambda chunk: cast_dictionary(chunk, chunk.type),
        lambda chunk: bool(chunk.dictionary.null_count),
    )


def _with_dictionaries(
    table: pa.Table,
    changed: Callable[[pa.DictionaryArray], pa.DictionaryArray],
    asks_for_it: Callable[[pa.DictionaryArray], bool],
) -> pa.Table:
    """Change the dictionary columns of which one chunk asks for it."""
    for position, field in enumerate(table.schema):
        chunks = table.column(position).chunks if pa.types.is_dictionary(field.type) else []
        if any(map(asks_for_it, chunks)):
            column = pa.chunked_array([changed(chunk) for chunk in chunks], field.type)
            table = table.set_column(position, field, unified(column))
    return table


def _trimmed(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    codes = chunk.indices
    used, places = np.unique(numpy_array(codes.drop_null()), return_inverse=True)
    missing = numpy_array(codes.is_null())
    renumbered = np.zeros(len(codes), np.int64)
    renumbered[~missing] = places
    return pa.DictionaryArray.from_arrays(
        arrow_array(renumbered, mask=missing).cast(codes.type),
        chunk.dictionary.take(arrow_array(used.astype(np.int64))),
        ordered=chunk.type.ordered,
    )
