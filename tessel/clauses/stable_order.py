"""The stable order of many numbers, by sorting plain integers.

Sorting integers in place takes a tenth of the time of a stable sort of row numbers by values. So
where a number and the number of its row fit into 63 bits together, they are packed into one
integer: it is unique, the sort need not be stable, and the row is in its lower bits. Floats with a
few decimal places are such integers, divided by a power of ten. Others are ordered by an unstable
sort, and then rows of equal values, numbered by value, by the same means.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.rows_by_code import order_of_codes

__all__ = ["stable_order"]

Rows = NDArray[np.int64]

_BLOCK_ROWS = 1 << 14
_FEW_ROWS = 1024
"""Fewer rows are not worth a look at their range."""

_NARROW_BYTES = 2
"""Integers as narrow as these numpy sorts in linear time itself."""

_FEW_NUMBERS = 1 << 12
"""So few different numbers are counted in less time."""

_MOST_BITS = 63
_EXACT = 1 << 50
"""Quotients of two such integers by one power of ten are two floats."""

_MOST_PLACES = 6
_SAMPLED_ROWS = 64


def stable_order(values: NDArray[Any]) -> Rows:
    """Return the rows in the order of their values, equal ones as they come.

    Parameters
    ----------
    values
        Bool, integers or floats without NaN, shape ``(rows,)``.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    if len(values) < _FEW_ROWS or values.dtype.itemsize <= _NARROW_BYTES:
        return np.argsort(values, kind="stable").astype(np.int64, copy=False)
    whole = _decimals(values) if values.dtype.kind == "f" else values
    if whole is not None:
        low, high = int(whole.min()), int(whole.max())
        if high - low < _FEW_NUMBERS:
            distances = np.subtract(_as_signed(whole), np.int64(_signed(low)))
            return order_of_codes(distances, high - low + 1).astype(np.int64, copy=False)
        if (high - low).bit_length() + len(whole).bit_length() <= _MOST_BITS:
            return _packed(whole, low, None)
    order = np.argsort(values).astype(np.int64, copy=False)
    ordered = values[order]
    differs = ordered[1:] != ordered[:-1]
    if differs.all():
        return order
    number = np.zeros(len(values), np.int64)
    np.cumsum(differs, out=number[1:])
    # Rows of one value are together; packed with its number they fall into order where they are.
    return _packed(number, 0, order)


def _packed(numbers: NDArray[Any], least: int, rows: Rows | None) -> Rows:
    """Return rows, by default from 0 on, by integers that leave room for them, then by themselves.

    Done a block at a time: what is computed stays in the cache.
    """
    bits = len(numbers).bit_length()
    packed = np.empty(len(numbers), np.int64)
    count = np.arange(min(len(numbers), _BLOCK_ROWS))
    low = np.int64(_signed(least))
    for start in range(0, len(numbers), _BLOCK_ROWS):
        block = packed[start : start + _BLOCK_ROWS]
        # Modulo 2**64 the distance from the least is right whatever the width and the sign.
        np.subtract(_as_signed(numbers[start : start + _BLOCK_ROWS]), low, out=block)
        block <<= bits
        if rows is None:
            block += count[: len(block)]
            block += start
        else:
            block |= rows[start : start + _BLOCK_ROWS]
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def _as_signed(numbers: NDArray[Any]) -> Rows:
    return numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers.astype(np.int64)


def _signed(number: int) -> int:
    """Return the signed integer with the low 64 bits of a number."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _decimals(values: NDArray[Any]) -> Rows | None:
    """Return floats as integers in the same order, where they have a few decimal places."""
    sample = values[:: max(1, len(values) // _SAMPLED_ROWS)]
    for places in range(_MOST_PLACES + 1):
        if _times(sample, places) is not None:
            return _times(values, places)
    return None


def _times(values: NDArray[Any], places: int) -> Rows | None:
    """Return floats times a power of ten, where that loses nothing."""
    power = 10.0**places
    if not max(values.max(), -values.min()) < _EXACT / power:
        return None
    found = np.empty(len(values), np.int64)
    for start in range(0, len(values), _BLOCK_ROWS):
        block = values[start : start + _BLOCK_ROWS].astype(np.float64, copy=False)
        whole = np.rint(block * power)
        if not (whole / power == block).all():
            return None
        found[start : start + _BLOCK_ROWS] = whole
    return found
