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

from tessel.kernels.jit import compiled_kernels, frozen
from tessel.kernels.word_numbers import WordNumbers

__all__ = ["group_range", "group_words"]

Integers = NDArray[np.int64]

# Tables hold the numbers of groups in 32 bits.
_MOST_ROWS = 1 << 31


def group_range(numbers: Integers, size: int) -> tuple[Integers, Integers] | None:
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
        The group of each row, int64, and the first row of each group, int64, ascending. None where
        there is no compiled kernel.
    """
    kernels = _kernels(numbers)
    if kernels is None:
        return None
    codes = np.empty(len(numbers), np.int64)
    first_row = np.empty(min(size, len(numbers)), np.int64)
    numbers = frozen(numbers)
    groups = kernels.group_range(numbers, np.full(size, -1, np.int32), codes, first_row)
    return codes, first_row[:groups].copy()


def group_words(words: Integers) -> tuple[Integers, Integers] | None:
    """Return groups of rows by any 64-bit patterns; all else as for :func:`group_range`."""
    if _kernels(words) is None:
        return None
    numbers = WordNumbers(words)
    return group_range(numbers.codes, len(numbers))


def _kernels(numbers: Integers) -> Any:
    return compiled_kernels(len(numbers), "group_rows") if len(numbers) < _MOST_ROWS else None
