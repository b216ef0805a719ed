"""Numbers for the distinct texts of a column, and the number of a text that is asked for.

What :class:`~tessel.kernels.word_numbers.WordNumbers` is for words of 64 bits, this is for text and
bytes of any length: a hash table with linear probing, at most half full, of the hash that
:mod:`tessel.kernels.group_texts` tells. Hashes decide nothing but where a text is looked for; those
of a run of rows are computed before the first of them is, so that a processor waits for the table
once for many rows.

There is no twin of it here: who finds no compiled kernel looks for the hashes that
:mod:`tessel.clauses.grouped.hashing` has, and gets the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.group_texts import Texts
from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["TextNumbers"]

Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]

_WORD_BYTES = 8
_LEAST_SLOTS = 1 << 10
_NONE_ABSENT = np.zeros(0, np.bool_)


class TextNumbers:
    """Distinct texts, numbered from 0 on by first appearance; made by :meth:`of`.

    Attributes
    ----------
    codes
        int64, shape ``(rows,)``: the number of each row's text, −1 where it has none.
    """

    def __init__(self, texts: Texts, absent: Truths | None, kernels: Any) -> None:
        self._kernels = kernels
        words, offsets, base = _words(texts)
        self._held = words
        slots = max(_LEAST_SLOTS, 1 << (2 * len(texts)).bit_length())
        # Pages of memory that nothing is written to are not there.
        self._table = np.zeros((slots, 2), np.int64)
        extents = np.zeros((max(1, len(texts)), 2), np.int64)
        self.codes = np.empty(len(texts), np.int64)
        self._count = int(
            kernels.number_texts(
                words, offsets, base, _missing(absent), self._table, extents, self.codes
            )
        )
        self._extents = extents[: max(1, self._count)]

    @classmethod
    def of(
        cls, texts: Texts, absent: Truths | None = None, rows: int | None = None
    ) -> TextNumbers | None:
        """Return texts with their numbers; None where there is no compiled kernel.

        Parameters
        ----------
        texts
            The rows.
        absent
            Bool, shape ``(rows,)``: rows that have no text; None where all have one.
        rows
            How many rows are waiting, where these are more than those of ``texts``.
        """
        kernels = compiled_kernels(len(texts) if rows is None else rows, "text_numbers")
        return None if kernels is None else cls(texts, absent, kernels)

    def __len__(self) -> int:
        return self._count

    def find(self, texts: Texts, absent: Truths | None = None) -> Integers:
        """Return the number of each text, −1 where it is none of these, or absent."""
        codes = np.empty(len(texts), np.int64)
        words, offsets, base = _words(texts)
        self._kernels.find_texts(
            words, offsets, base, _missing(absent), self._held, self._table, self._extents, codes
        )
        return codes


def _missing(absent: Truths | None) -> Truths:
    return frozen(_NONE_ABSENT if absent is None else absent)


def _words(texts: Texts) -> tuple[NDArray[np.uint64], NDArray[Any], np.int64]:
    """Return the eight bytes from each place on, which overlap, the offsets, and the first of them.

    The bytes are copied, so that eight of them can be read from any place of a text.
    """
    first, last = int(texts.offsets[0]), int(texts.offsets[-1])
    held = np.zeros(last - first + _WORD_BYTES, np.uint8)
    held[: last - first] = texts.data[first:last]
    words: NDArray[np.uint64] = np.ndarray((last - first + 1,), "<u8", held, 0, (1,))
    words.flags.writeable = False
    return words, frozen(texts.offsets), np.int64(first)
