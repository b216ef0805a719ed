"""The values of a key column as numbers: equal exactly where the values are.

Integers count from the least of them, dictionaries by their entries, text and everything else by
first appearance. What is made of several columns is said in
:mod:`tessel.clauses.grouped.grouping`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.values import (
    decimal_integers,
    doubles,
    integers,
    is_temporal,
    is_text_or_binary,
    missing_rows,
    normalised,
    plain,
    plain_type,
    raw_values,
)
from tessel.expression.text_bytes import texts_of
from tessel.kernels.group_rows import group_texts, group_words
from tessel.lazy import dataclass

Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs
Codes = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

WIDEST = 1 << 62
"""Ranges, and combinations of them, stay below this."""


@dataclass(frozen=True)
class Numbers:
    """The values of a column as numbers.

    Attributes
    ----------
    codes
        int64, shape ``(rows,)``; equal exactly where values are; -1 where missing.
    size
        A bound above them, at most :data:`WIDEST`.
    some_missing
        Whether a code may be -1.
    first_row
        int64, shape ``(size,)``: the first row of each code, where codes are by first appearance
        and none is missing; None where that is not known.
    """

    codes: Codes
    size: int
    some_missing: bool
    first_row: Codes | None = None

    @classmethod
    def by_appearance(cls, codes: Codes, first_row: Codes, missing: BoolArray | None) -> Self:
        """Return codes by first appearance, of rows of which some may be missing."""
        if missing is None:
            return cls(codes, len(first_row), False, first_row)
        return cls(np.where(missing, np.int64(-1), codes), len(first_row), True)


def numbered(column: Column) -> Numbers:
    """Return a number for each value of a column."""
    if pa.types.is_dictionary(column.type):
        return _numbered_dictionary(column)
    if is_text_or_binary(plain_type(column.type)):
        return _numbered_texts(column)
    array = normalised(column)
    some_missing = array.null_count > 0
    if pa.types.is_null(array.type):
        return Numbers(np.full(len(array), -1, np.int64), 0, some_missing)
    narrow = decimal_integers(array) if pa.types.is_decimal128(array.type) else None
    if narrow is not None:
        array = arrow_array(narrow.copy(), mask=missing_rows(array))
    if pa.types.is_boolean(array.type):
        codes = _with_missing(array, integers(array).astype(np.int64))
        return Numbers(codes, 2, some_missing)
    if pa.types.is_integer(array.type) or is_temporal(array.type):
        ranged = numbered_range(array)
        if ranged is not None:
            return ranged
        words = raw_values(array, np.int64)  # narrower ones have a range
        return Numbers.by_appearance(*group_words(words), _nulls(array) if some_missing else None)
    if pa.types.is_floating(array.type):
        words = doubles(array).view(np.int64)
        return Numbers.by_appearance(*group_words(words), _nulls(array) if some_missing else None)
    encoded = array.dictionary_encode()
    codes = raw_values(encoded.indices, np.int32).astype(np.int64)
    return Numbers(_with_missing(array, codes), len(encoded.dictionary), some_missing)


def _numbered_texts(column: Column) -> Numbers:
    """Return numbers of text or binary, chunk by chunk."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    arrays = [plain(chunk) for chunk in chunks]
    missing = np.concatenate(list(map(_nulls, arrays))) if column.null_count else None
    return Numbers.by_appearance(*group_texts([texts_of(array) for array in arrays]), missing)


def _numbered_dictionary(column: Column) -> Numbers:
    entries, indices = dictionary_parts(column)
    # The dictionary itself may hold a value twice, a null, or both zeros.
    numbers = numbered(entries)
    if np.array_equal(numbers.codes, np.arange(len(entries))):
        return Numbers(indices, numbers.size, column.null_count > 0)
    # Index -1, of rows that are null themselves, finds the entry put at the end.
    codes = np.append(numbers.codes, np.int64(-1))[indices]
    return Numbers(codes, numbers.size, numbers.some_missing or column.null_count > 0)


def numbered_range(array: pa.Array) -> Numbers | None:
    """Return integers as distances from the least of them; None where those are too wide."""
    numbers = integers(array)
    present = numbers
    if array.null_count:
        present = numbers[numpy_array(array.is_valid())]
    if not len(present):
        return Numbers(np.full(len(array), -1, np.int64), 0, True)
    low, high = int(present.min()), int(present.max())
    size = high - low + 1
    if size >= WIDEST:
        return None
    # Differences wrap around for unsigned values past 2**63, and come out right.
    wide = numbers.view(np.int64) if numbers.dtype.itemsize == 8 else numbers.astype(np.int64)
    least = np.array(low, numbers.dtype).astype(np.int64)
    codes = _with_missing(array, wide - least if low else wide)
    return Numbers(codes, size, array.null_count > 0)


def _nulls(array: pa.Array) -> BoolArray:
    return numpy_array(array.is_null())


def _with_missing(array: pa.Array, codes: Codes) -> Codes:
    return np.where(_nulls(array), np.int64(-1), codes) if array.null_count else codes


def dictionary_parts(column: Column) -> tuple[pa.Array, Codes]:
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
            indices[numpy_array(chunk.indices.is_null())] = -1
        pieces.append(indices)
    entries = [plain(dictionary) for dictionary in dictionaries]
    indices = np.concatenate(pieces) if len(pieces) > 2 else pieces[-1]
    return (pa.concat_arrays(entries) if entries else plain(column)), indices
