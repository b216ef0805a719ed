"""What there is as far as each row: sums, the best value, how many; each group by itself.

Rows are taken in their own order, whatever their groups: a group is a state that is looked up, so
that no row is moved. Without numba rows are brought together by group, and what lies before each is
added in steps that double (Hillis and Steele, Data Parallel Algorithms, CACM 29(12), 1986).

Sums of doubles are exact and rounded once a row. Where all values are multiples of ``2**low`` and
no sum has more than 105 bits above that, a sum is two integers, ``high * 2**(low + 52) + rest *
2**low`` with ``rest`` below ``2**52``: both are doubles then, and their one addition rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen
from tessel.kernels.rows_by_code import order_of_codes

__all__ = ["exponent_range", "run_best", "run_counts", "run_doubles", "run_integers"]

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]

REST_BITS = 52
"""Bits of the lower of the two integers that a sum of doubles is."""

_HALF_BITS = 26
_NONE = np.zeros(0, np.int64)
_ALL = np.zeros(0, np.bool_)
_LEAST_NORMAL, _MOST_NORMAL = 1, 2046
# What is stored for an exponent is more by this than what ``frexp`` says.
_BIAS = 1022


def exponent_range(values: Doubles, present: Bools | None) -> tuple[int, int] | None:
    """Return exponents, as ``frexp`` has them, that all values but zeros lie between.

    Parameters
    ----------
    values
        float64, shape ``(rows,)``; anything where not present.
    present
        Bool, shape ``(rows,)``; None for all.

    Returns
    -------
    tuple of int or None
        ``(0, 0)`` where there is none but zeros; None where a value is infinite, NaN or subnormal.
    """
    kernels = compiled_kernels(len(values), "running_rows")
    bits = values.view(np.int64)
    if kernels is not None:
        least, greatest = kernels.exponent_range(frozen(bits), _flags(present))
    else:
        held = (bits if present is None else bits[present]) & np.int64((1 << 63) - 1)
        stored = held[held != 0] >> 52
        least, greatest = int(stored.min(initial=2047)), int(stored.max(initial=-1))
    if greatest < 0:
        return 0, 0
    if least < _LEAST_NORMAL or greatest > _MOST_NORMAL:
        return None
    return int(least) - _BIAS, int(greatest) - _BIAS


def run_integers(
    values: Integers, present: Bools | None, codes: Integers | None, totals: Integers
) -> Integers | None:
    """Return the sum of the values of the same group as far as each row.

    Parameters
    ----------
    values
        int64, shape ``(rows,)``; anything where not present.
    present
        Bool, shape ``(rows,)``: rows that have a value; None for all.
    codes
        int64, shape ``(rows,)``: the group of each; None where there is one.
    totals
        int64, shape ``(groups,)``, one at least: what there is before; changed.

    Returns
    -------
    numpy.ndarray or None
        int64, shape ``(rows,)``; None where a sum may leave 64 bits.
    """
    kernels = compiled_kernels(len(values), "running_rows")
    if kernels is not None:
        found = np.empty(len(values), np.int64)
        fits = kernels.run_integers(frozen(values), _flags(present), _codes(codes), totals, found)
        return found if fits else None
    values = values if present is None else np.where(present, values, 0)
    largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    carried = max(int(totals.max()), -int(totals.min()))
    if carried + largest * len(values) >= 1 << 63:
        return None
    return _scanned(values, codes, totals, np.add)


def run_doubles(
    values: Doubles,
    present: Bools | None,
    codes: Integers | None,
    low: int,
    high: Integers,
    rest: Integers,
) -> Doubles:
    """Return the sum of the values of the same group as far as each row, correctly rounded.

    Parameters
    ----------
    values
        float64, shape ``(rows,)``, multiples of ``2**low``; anything where not present.
    present, codes
        As for :func:`run_integers`.
    low
        No sum may have more than 105 bits above that one.
    high, rest
        int64, shape ``(groups,)``, one at least: the sums before; changed.

    Returns
    -------
    numpy.ndarray
        float64, shape ``(rows,)``; zero is +0.0.
    """
    scale, above, below = 2.0 ** -(low + REST_BITS), 2.0 ** (low + REST_BITS), 2.0**low
    kernels = compiled_kernels(len(values), "running_rows")
    found = np.empty(len(values), np.float64)
    if kernels is not None:
        kernels.run_doubles(
            frozen(values), _flags(present), _codes(codes), scale, above, below, high, rest, found
        )
        return found
    scaled = (values if present is None else np.where(present, values, 0.0)) * scale
    whole = np.floor(scaled)
    fraction = ((scaled - whole) * 2.0**REST_BITS).astype(np.int64)
    # In halves the lower integers do not fill 64 bits, however many are added.
    mask = np.int64((1 << _HALF_BITS) - 1)
    parts = (fraction & mask, fraction >> _HALF_BITS, whole.astype(np.int64))
    states = [rest & mask, rest >> _HALF_BITS, high.copy()]
    lowest, lower, upper = (
        _scanned(part, codes, state, np.add) for part, state in zip(parts, states, strict=True)
    )
    lowest, lower, upper = _carried(lowest, lower, upper, mask)
    last = _carried(states[0], states[1], states[2], mask)
    rest[:], high[:] = last[0] | (last[1] << _HALF_BITS), last[2]
    total: Doubles = upper * above + (lowest | (lower << _HALF_BITS)) * below
    return total


def run_best(
    numbers: NDArray[Any],
    present: Bools | None,
    codes: Integers | None,
    best: NDArray[Any],
    known: Bools,
    *,
    greatest: bool,
) -> NDArray[Any]:
    """Return the least or the greatest number of the same group as far as each row.

    Parameters
    ----------
    numbers
        int64 or float64, shape ``(rows,)``; no NaN, and anything where not present.
    present, codes
        As for :func:`run_integers`.
    best, known
        Shape ``(groups,)``, one at least: the best before, and whether there is one; changed.
    greatest
        Whether the greatest is the best.

    Returns
    -------
    numpy.ndarray
        Of the type of ``numbers``, shape ``(rows,)``; any number where there is none so far.
    """
    kernels = compiled_kernels(len(numbers), "running_rows")
    if kernels is not None:
        found = np.empty(len(numbers), numbers.dtype)
        kernels.run_best(
            frozen(numbers), _flags(present), _codes(codes), greatest, best, known, found
        )
        return found
    worst: Any = -np.inf if greatest else np.inf
    if numbers.dtype.kind != "f":
        limits = np.iinfo(numbers.dtype)
        worst = limits.min if greatest else limits.max
    best[~known] = worst
    numbers = numbers if present is None else np.where(present, numbers, numbers.dtype.type(worst))
    if present is None or present.any():
        there = codes if present is None or codes is None else codes[present]
        known[0 if there is None else there] = True
    return _scanned(numbers, codes, best, np.maximum if greatest else np.minimum)


def run_counts(
    rows: int, present: Bools | None, codes: Integers | None, counts: Integers
) -> Integers:
    """Return how many rows of the same group are present as far as each.

    Parameters
    ----------
    rows
        How many rows there are.
    present, codes
        As for :func:`run_integers`.
    counts
        int64, shape ``(groups,)``, one at least: how many there were before; changed.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    if present is None and codes is None:
        first = int(counts[0])
        counts[0] += rows
        return np.arange(first + 1, first + rows + 1)
    kernels = compiled_kernels(rows, "running_rows")
    if kernels is not None:
        found = np.empty(rows, np.int64)
        kernels.run_counts(_flags(present), _codes(codes), counts, found)
        return found
    ones = np.ones(rows, np.int64) if present is None else present.astype(np.int64)
    return _scanned(ones, codes, counts, np.add)


def _carried(
    lowest: Integers, lower: Integers, upper: Integers, mask: np.int64
) -> tuple[Integers, Integers, Integers]:
    """Bring both halves of the lower integers to their size."""
    lower = lower + (lowest >> _HALF_BITS)
    return lowest & mask, lower & mask, upper + (lower >> _HALF_BITS)


def _scanned(
    numbers: NDArray[Any],
    codes: Integers | None,
    states: NDArray[Any],
    merge: np.ufunc,
) -> NDArray[Any]:
    """Return what is merged of the rows of a group as far as each; ``states`` go before, and on."""
    rows = len(numbers)
    if not rows:
        return numbers
    if codes is None:
        found = numbers.copy()
        found[:1] = merge(states[:1], found[:1])
        merged: NDArray[Any] = merge.accumulate(found)
        states[0] = merged[-1]
        return merged
    order = order_of_codes(codes, len(states))
    own = codes[order]
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    place = np.arange(rows) - np.repeat(starts, np.diff(starts, append=rows))
    found = numbers[order]
    found[starts] = merge(states[own[starts]], found[starts])
    step, longest = 1, int(place.max())
    while step <= longest:
        found[step:] = np.where(
            place[step:] >= step, merge(found[:-step], found[step:]), found[step:]
        )
        step *= 2
    ends = np.append(starts[1:], rows) - 1
    states[own[ends]] = found[ends]
    restored = np.empty_like(found)
    restored[order] = found
    return restored


def _flags(present: Bools | None) -> Bools:
    return frozen(_ALL if present is None else present)


def _codes(codes: Integers | None) -> Integers:
    return frozen(_NONE if codes is None else codes)
