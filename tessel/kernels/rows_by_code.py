"""The rows of each group side by side: a stable sort by small numbers, by counting them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel

__all__ = ["order_of_codes", "rows_by_code"]

Integers = NDArray[np.int64]

_MOST_COUNTED = 1 << 15


def rows_by_code(codes: Integers, count: int) -> tuple[Integers, Integers]:
    """Return the rows that have each of some numbers, those of 0 first.

    Parameters
    ----------
    codes
        int64, shape ``(rows,)``, in ``[-1, count)``; rows of −1 are left out.
    count
        How many numbers there are.

    Returns
    -------
    rows : numpy.ndarray
        int64; those of one number in their order.
    starts : numpy.ndarray
        int64, shape ``(count + 1,)``: where in ``rows`` those of each number start, and the end.
    """
    starts, codes = np.zeros(count + 1, np.int64), np.ascontiguousarray(codes)
    count_codes(codes, starts)
    rows = np.empty(starts[-1], np.int64)
    place_rows(codes, starts[:-1].copy(), rows)
    return rows, starts


def order_of_codes(codes: NDArray[Any], count: int) -> Integers:
    """Return the stable order of numbers in ``[0, count)``."""
    if count <= max(_MOST_COUNTED, 2 * len(codes)):
        return rows_by_code(codes.astype(np.int64, copy=False), count)[0]
    return np.argsort(codes, kind="stable")


@kernel("codes: i64[rows], starts: mut i64[ends]")
def count_codes(codes: Any, starts: Any) -> None:
    """Turn zeros, one more than there are numbers, into where the rows of each number start."""
    for code in codes:
        if code >= 0:
            starts[code + 1] += 1
    for number in range(1, len(starts)):
        starts[number] += starts[number - 1]


@kernel("codes: i64[rows], places: mut i64[numbers], found: mut i64[found]")
def place_rows(codes: Any, places: Any, found: Any) -> None:
    """Write each row to the place of its number, which moves on."""
    for row in range(len(codes)):
        code = codes[row]
        if code >= 0:
            found[places[code]] = row
            places[code] += 1
