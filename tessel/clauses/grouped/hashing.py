"""The hash that puts rows into buckets: fixed, without a seed, the same on every worker.

Written down to the bit, because workers of different processes and versions must agree. All
arithmetic is on unsigned 64-bit integers, modulo 2⁶⁴.

``mix(x)`` is the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
Generators, OOPSLA 2014) after its increment ``G = 0x9E3779B97F4A7C15``::

    x = x + G
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    mix(x) = x ^ (x >> 31)

``hash(value)`` of one value:

========================= ======================================================================
missing (null, NaN)       ``0x6D697373696E6721``
bool                      ``mix(0)``, ``mix(1)``
integer, date, time,      ``mix(v)`` of the two's complement 64-bit pattern of the number (in the
timestamp, duration       unit of its type), so that the width of an integer does not matter
float                     ``mix(b)`` of the bits of the value as float64, −0.0 as 0.0
decimal128                ``mix(mix(high) + low)`` of the two words of the unscaled value
text, binary              the bytes are cut into words of 8, little-endian, the last one filled up
                          with zeros; ``mix(length + sum(mix(word[i] + (i + 1) * G)))``, i from 0,
                          length in bytes; text as UTF-8
========================= ======================================================================

Dictionaries and view types hash as their values. A row of several keys hashes as
``h = mix(h + hash(key))`` over its keys in order, from ``h = 0``, also with one key. Its bucket is
``((h >> 32) * buckets) >> 32``: the high half, scaled (Lemire: Fast Random Integer Generation in an
Interval, 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import numpy_array
from tessel.clauses.values import (
    decimal_words,
    doubles,
    integers,
    is_text_or_binary,
    missing_rows,
    normalised,
)
from tessel.errors import InvalidInputError
from tessel.expression.text_bytes import texts_of
from tessel.memory import recycled

BUCKETS = 32
"""Buckets of a level: five more bits of the hash each."""
MISSING_HASH = 0x6D697373696E6721
"""Hash of a missing value."""

_BUCKETS_LIMIT = 1 << 31

Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs
Hashes = NDArray[np.uint64]


def bucket_of(columns: Sequence[Column], buckets: int) -> NDArray[np.int64]:
    """Return the bucket of every row.

    Parameters
    ----------
    columns
        At least one key column, all of one length, of types that
        :func:`tessel.clauses.grouped.grouping.check_key_type` takes.
    buckets
        How many buckets: 1 to 2³¹ − 1.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``, in ``[0, buckets)``. Rows of equal keys share a bucket, whatever
        the representation of the columns.

    Raises
    ------
    InvalidInputError
        Without columns, with columns of different lengths, or for a number of buckets out of range.
    """
    if not 1 <= buckets < _BUCKETS_LIMIT:
        raise InvalidInputError(
            f"{buckets} buckets are asked for", hint="ask for 1 to 2**31 - 1", buckets=buckets
        )
    hashes = hash_rows(columns)
    hashes >>= np.uint64(32)
    hashes *= np.uint64(buckets)
    hashes >>= np.uint64(32)
    return hashes.view(np.int64)


def level_bucket_of(columns: Sequence[Column], level: int) -> NDArray[np.int64]:
    """Return the bucket of every row, of :data:`BUCKETS`, at a level: of each by more of the hash.

    Rows of one bucket are in several at the next level.
    """
    return bucket_of(columns, BUCKETS ** (level + 1)) % BUCKETS


def hash_rows(columns: Sequence[Column]) -> Hashes:
    """Return the hash of every row over its keys: uint64, shape ``(rows,)``."""
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise InvalidInputError(
            f"key columns have lengths {sorted(lengths)}" if columns else "no key columns",
            hint="give one key column or more, all of one length",
        )
    hashes: Hashes | None = None
    for column in columns:
        each = hash_column(column)
        hashes = _mix(each if hashes is None else hashes + each)
    assert hashes is not None
    return hashes


def hash_column(column: Column) -> Hashes:
    """Return the hash of every value of one column: uint64, shape ``(rows,)``."""
    if isinstance(column, pa.ChunkedArray):
        parts = [hash_column(chunk) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.uint64), *parts])
    if pa.types.is_dictionary(column.type):
        return _hash_dictionary(column)
    array = normalised(column)
    missing = missing_rows(array)
    hashes = _hash_plain(array)
    return hashes if missing is None else np.where(missing, np.uint64(MISSING_HASH), hashes)


def _hash_dictionary(array: pa.DictionaryArray) -> Hashes:
    # One entry more stands for rows that are null themselves.
    entries = np.append(hash_column(array.dictionary), np.uint64(MISSING_HASH))
    indices: NDArray[Any] = integers(array.indices)
    if array.indices.null_count:
        null = numpy_array(array.indices.is_null())
        indices = np.where(null, len(entries) - 1, indices.astype(np.int64))
    hashes: Hashes = entries[indices]
    return hashes


def _hash_plain(array: pa.Array) -> Hashes:
    """Hash plain values; rows that are null get anything."""
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), MISSING_HASH, np.uint64)
    if pa.types.is_floating(kind):
        return _mix(doubles(array).view(np.uint64))
    if pa.types.is_decimal(kind):
        words = decimal_words(array).view(np.uint64)
        return _mix(_mix(words[:, 1]) + words[:, 0])
    if is_text_or_binary(kind):
        return _hash_bytes(array)
    numbers = integers(array)
    wide = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64, copy=False)
    return _mix(wide.view(np.uint64))


def _mix(numbers: Hashes) -> Hashes:
    from tessel.kernels.word_numbers import mix_words

    mixed = recycled(len(numbers), np.uint64)
    mix_words(np.ascontiguousarray(numbers), mixed)
    return mixed


def _hash_bytes(array: pa.Array) -> Hashes:
    from tessel.kernels.word_numbers import hash_texts

    texts, hashes = texts_of(array), recycled(len(array), np.uint64)
    hash_texts(texts.data, np.ascontiguousarray(texts.offsets), hashes)
    return hashes
