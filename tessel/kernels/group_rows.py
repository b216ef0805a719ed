"""Rows numbered by a key, in order of first appearance.

A key is one 64-bit number a row; who has several columns makes one number of them first. Where the
numbers lie in a range that is not much wider than rows are many, a number's group stands in a table
at the place of the number. Otherwise it is looked for in the hash table of
:class:`~tessel.kernels.word_numbers.WordNumbers`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel
from tessel.kernels.word_numbers import WordNumbers

__all__ = ["group_range", "group_words"]

Integers = NDArray[np.int64]

_MOST_IN_32_BITS = 1 << 31
"""Groups whose numbers fit a table of half the size, more of which the cache of a core holds."""


def group_range(numbers: Integers, size: int) -> tuple[Integers, Integers]:
    """Return groups of rows by small numbers.

    Parameters
    ----------
    numbers
        int64, shape ``(rows,)``, in ``[0, size)``.
    size
        Cells of the table.

    Returns
    -------
    codes, first_row : numpy.ndarray
        The group of each row, int64, and the first row of each group, int64, ascending.
    """
    codes = np.empty(len(numbers), np.int64)
    first_row = np.empty(min(size, len(numbers)), np.int64)
    table = np.full(size, -1, np.int32 if len(first_row) <= _MOST_IN_32_BITS else np.int64)
    groups = number_groups(np.ascontiguousarray(numbers), table, codes, first_row)
    return codes, first_row[:groups].copy()


def group_words(words: Integers) -> tuple[Integers, Integers]:
    """Return groups of rows by any 64-bit patterns; all else as for :func:`group_range`."""
    numbers = WordNumbers(words)
    return group_range(numbers.codes, len(numbers))


@kernel(
    "numbers: i64[rows], table: mut T[cells], codes: mut i64[rows], first_row: mut i64[most] "
    "-> i64",
    T="i32 i64",
)
def number_groups(numbers: Any, table: Any, codes: Any, first_row: Any) -> int:
    """Write the group of each row and the first row of each group; return how many there are.

    The table holds the group of each number, and nothing but −1 before.
    """
    groups = 0
    for row in range(len(numbers)):
        cell = np.uint64(numbers[row])
        group = np.int64(table[cell])
        if group < 0:
            group = np.int64(groups)
            table[cell] = groups
            first_row[groups] = row
            groups += 1
        codes[row] = group
    return groups
