"""The rows of each group side by side: a stable sort by small numbers, by counting them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["order_of_codes", "rows_by_code"]

Integers = NDArray[np.int64]

_RADIX_LIMIT = 1 << 15


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
    kernels = compiled_kernels(len(codes), "rows_by_code")
    if kernels is None:
        return _rows_by_code_numpy(codes, count)
    starts, codes = np.zeros(count + 1, np.int64), frozen(codes)
    kernels.count_codes(codes, starts)
    rows = np.empty(starts[-1], np.int64)
    kernels.place_rows(codes, starts[:-1].copy(), rows)
    return rows, starts


def order_of_codes(codes: NDArray[Any], count: int) -> Integers:
    """Return the stable order of numbers in ``[0, count)``."""
    if compiled_kernels(len(codes), "rows_by_code") is not None and count <= max(
        _RADIX_LIMIT, 2 * len(codes)
    ):
        return rows_by_code(codes.astype(np.int64, copy=False), count)[0]
    # numpy sorts numbers of 16 bits by radix.
    narrow = codes.astype(np.int16) if count < _RADIX_LIMIT else codes
    return np.argsort(narrow, kind="stable")


def _rows_by_code_numpy(codes: Integers, count: int) -> tuple[Integers, Integers]:
    present = codes >= 0
    starts = np.zeros(count + 1, np.int64)
    if present.all():
        np.cumsum(np.bincount(codes, minlength=count), out=starts[1:])
        return order_of_codes(codes, count), starts
    kept = np.flatnonzero(present)
    codes = codes[kept]
    np.cumsum(np.bincount(codes, minlength=count), out=starts[1:])
    return kept[order_of_codes(codes, count)], starts
