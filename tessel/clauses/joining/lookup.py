"""Finding the rows of one table that have the keys of another's rows.

:class:`KeyTable` is made of the key columns of one side, the *built* one. It numbers their distinct
keys column by column, as :func:`tessel.clauses.grouped.grouping.group_codes` does, and finds for a
row of the other side the number of its key. Kernels find numbers, which are words of 64 bits
(:class:`tessel.kernels.WordNumbers`), and texts (:class:`tessel.kernels.TextNumbers`). Decimals are
found by their two words, one after the other, as several keys are. Of dictionaries only the entries
are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.cached import cached
from tessel.clauses.values import decimal_words, integers, is_text_or_binary, raw_values
from tessel.expression.text_bytes import texts_of
from tessel.kernels.group_rows import Texts, rows_by_code
from tessel.kernels.text_numbers import TextNumbers
from tessel.kernels.word_numbers import WordNumbers

Codes = NDArray[np.int64]
Truths = NDArray[np.bool_]


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
        Keys are numbered by their first rows.
    is_unique
        Whether each row has a key, and no other row has it; the number of a key is that of its row.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values = [_numbered(column) for column in columns]
        self._pairs: list[WordNumbers] = []
        found: _Values | WordNumbers = self._values[0]
        for values in self._values[1:]:
            found = WordNumbers(*_combined(found.codes, values.codes, len(values)))
            self._pairs.append(found)
        self.codes: Codes = found.codes
        self.is_unique = len(found) == len(found.codes)
        self._count = len(found)

    @property
    def rows(self) -> Codes:
        """The rows that have a key, those of key 0 first, each key's in their order."""
        return self._by_code[0]

    @property
    def starts(self) -> Codes:
        """Where in ``rows`` those of each key start; one entry more tells the end.

        Every key has a row. int64, shape ``(keys + 1,)``.
        """
        return self._by_code[1]

    @cached
    def _by_code(self) -> tuple[Codes, Codes]:
        if self.is_unique:  # numbers go by first appearance: each row's is its own
            return self.codes, np.arange(self._count + 1)
        return rows_by_code(self.codes, self._count)

    @property
    def most(self) -> int:
        """The largest number of rows that have one key; 0 where no row has a key."""
        if self.is_unique:
            return min(self._count, 1)
        counts = np.diff(self.starts)
        return int(counts.max()) if len(counts) else 0

    def find(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the number of the key of each row of the other side, −1 where there is none."""
        codes = _found(self._values[0], columns[0])
        for values, pairs, column in zip(self._values[1:], self._pairs, columns[1:], strict=True):
            codes = pairs.find(*_combined(codes, _found(values, column), len(values)))
        return codes


def _combined(codes: Codes, more: Codes, size: int) -> tuple[Codes, Truths]:
    """Return one word for two numbers, and which rows have none as either is missing.

    Both count distinct values of at most 2³¹ rows, so that the product stays in 64 bits.
    """
    return codes * size + more, (codes < 0) | (more < 0)


class _Values(Protocol):
    """The distinct values of one column of the built side, numbered by the first row of each."""

    @property
    def codes(self) -> Codes:
        """The number of each row's value, −1 where it is missing."""

    def __len__(self) -> int: ...

    def find(self, column: pa.Array) -> Codes:
        """Return the number of each value, −1 where it is missing or none of these.

        The column is no dictionary.
        """


def _numbered(column: pa.Array) -> _Values:
    if pa.types.is_dictionary(column.type):
        return _Entries(column)
    if _has_words(column.type):
        return _Words(column)
    if is_text_or_binary(column.type):
        return _Texts(column)
    return _Decimals(column)


def _texts(column: pa.Array) -> tuple[Texts, Truths | None]:
    """Return texts as bytes, and which rows have none where some do not."""
    absent = numpy_array(column.is_null()) if column.null_count else None
    return texts_of(column), absent


def _has_words(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )


def _entry_of_rows(column: pa.DictionaryArray) -> Codes:
    """Return the entry of each row; of one that is null itself the place after the last entry."""
    at = integers(column.indices).astype(np.int64)
    if column.indices.null_count:
        at[numpy_array(column.indices.is_null())] = len(column.dictionary)
    return at


def _found(values: _Values, column: pa.Array) -> Codes:
    """Return the number of each value of a column of the other side."""
    if not pa.types.is_dictionary(column.type):
        return values.find(column)
    codes: Codes = np.append(values.find(column.dictionary), -1)[_entry_of_rows(column)]
    return codes


class _Entries:
    """Values of a dictionary: those of its entries that rows have, by the first row of each."""

    def __init__(self, column: pa.DictionaryArray) -> None:
        at = _entry_of_rows(column)
        first = np.full(len(column.dictionary) + 1, -1, np.int64)
        first[at[::-1]] = np.arange(len(at))[::-1]  # of several rows the last that is written stays
        used = np.flatnonzero(first[:-1] >= 0)
        used = used[np.argsort(first[used])]
        self._values = _numbered(column.dictionary.take(arrow_array(used)))
        codes = np.full(len(first), -1, np.int64)
        codes[used] = self._values.codes
        self.codes: Codes = codes[at]

    def __len__(self) -> int:
        return len(self._values)

    def find(self, column: pa.Array) -> Codes:
        return self._values.find(column)


class _Words:
    """Numbers, which are words of 64 bits, or can be."""

    def __init__(self, column: pa.Array) -> None:
        self._numbers = WordNumbers(*_words(column))
        self.codes = self._numbers.codes

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, column: pa.Array) -> Codes:
        return self._numbers.find(*_words(column))


def _words(column: pa.Array) -> tuple[Codes, Truths | None]:
    """Return numbers as words, and which rows have none where some do not."""
    absent = numpy_array(column.is_null()) if column.null_count else None
    if pa.types.is_floating(column.type):
        doubles = raw_values(column, column.type.to_pandas_dtype()).astype(np.float64, copy=False)
        return doubles.view(np.int64), absent
    numbers = integers(column)
    if numbers.dtype == np.uint64:
        return numbers.view(np.int64), absent
    return numbers.astype(np.int64, copy=False), absent


class _Texts:
    """Texts, which a kernel finds."""

    def __init__(self, column: pa.Array) -> None:
        self._numbers = TextNumbers(*_texts(column))
        self.codes = self._numbers.codes

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, column: pa.Array) -> Codes:
        return self._numbers.find(*_texts(column))


class _Decimals:
    """Decimals, which are pairs of words."""

    def __init__(self, column: pa.Array) -> None:
        low, high, absent = _halves(column)
        self._low, self._high = WordNumbers(low, absent), WordNumbers(high, absent)
        self._pairs = WordNumbers(*_combined(self._low.codes, self._high.codes, len(self._high)))
        self.codes = self._pairs.codes

    def __len__(self) -> int:
        return len(self._pairs)

    def find(self, column: pa.Array) -> Codes:
        low, high, absent = _halves(column)
        codes = self._low.find(low, absent), self._high.find(high, absent)
        return self._pairs.find(*_combined(*codes, len(self._high)))


def _halves(column: pa.Array) -> tuple[Codes, Codes, Truths | None]:
    """Return the low and the high words of decimals, and which rows have none where some do not."""
    absent = numpy_array(column.is_null()) if column.null_count else None
    words = decimal_words(column)
    return words[:, 0], words[:, 1], absent
