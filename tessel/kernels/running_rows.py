"""What there is as far as each row: sums, the best value, how many; each group by itself.

Rows are taken in their own order, whatever their groups: a group is a state that is looked up, so
that no row is moved. What is known of the group of the row before stays in registers: without codes
that is all there is.

Sums of doubles are exact and rounded once a row. Where all values are multiples of ``2**low`` and
no sum has more than 105 bits above that, a sum is two integers, ``high * 2**(low + 52) + rest *
2**low`` with ``rest`` below ``2**52``: both are doubles then, and their one addition rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import reinterpret
from tessel.memory import recycled

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]

REST_BITS = 52
"""Bits of the lower of the two integers that a sum of doubles is."""

_REST = (1 << REST_BITS) - 1
_NONE = np.zeros(0, np.int64)
_ALL = np.zeros(0, np.bool_)
_SIGNLESS = (1 << 63) - 1
_MANTISSA_BITS = 52
_HIGHEST = 0x7FF
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
    ends = np.empty(2, np.int64)
    find_exponents(np.ascontiguousarray(values).view(np.int64), _flags(present), ends)
    least, greatest = ends.tolist()
    if greatest < 0:
        return 0, 0
    if least < _LEAST_NORMAL or greatest > _MOST_NORMAL:
        return None
    return least - _BIAS, greatest - _BIAS


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
    found = recycled(len(values), np.int64)
    values = np.ascontiguousarray(values)
    fits = accumulate_integers(values, _flags(present), _codes(codes), totals, found)
    return found if fits else None


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
    found = recycled(len(values), np.float64)
    values = np.ascontiguousarray(values)
    accumulate_doubles(
        values, _flags(present), _codes(codes), scale, above, below, high, rest, found
    )
    return found


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
    # What any number is better than, so that whether there is one need not be asked of each row.
    worst: Any = -np.inf if greatest else np.inf
    if numbers.dtype.kind != "f":
        limits = np.iinfo(numbers.dtype)
        worst = limits.min if greatest else limits.max
    best[~known] = worst
    found = recycled(len(numbers), numbers.dtype)
    numbers = np.ascontiguousarray(numbers)
    accumulate_best(numbers, _flags(present), _codes(codes), greatest, best, known, found)
    return found


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
    found = recycled(rows, np.int64)
    accumulate_counts(_flags(present), _codes(codes), counts, found)
    return found


def _flags(present: Bools | None) -> Bools:
    return np.ascontiguousarray(_ALL if present is None else present)


def _codes(codes: Integers | None) -> Integers:
    return np.ascontiguousarray(_NONE if codes is None else codes)


@inner
def _find_sizes(bits: Any, present: Any, some: bool) -> Any:
    """Return the least of the sizes of doubles, less one, and the greatest; zeros are no least."""
    least, greatest = np.int64(_SIGNLESS), np.int64(0)
    for row in range(len(bits)):
        held = bits[row] & _SIGNLESS
        if some:
            held &= -np.int64(present[row])  # what is absent becomes a zero
        least = min(least, (held - 1) & _SIGNLESS)
        greatest = max(greatest, held)
    return least, greatest


@kernel("bits: i64[rows], present: bool[flags], ends: mut i64[2]")
def find_exponents(bits: Any, present: Any, ends: Any) -> None:
    """Write the least and the greatest exponent, as stored, of doubles that are not zero.

    ``(2047, -1)`` without any. ``bits`` are theirs as int64.
    """
    # Two loops, as neither has a branch: both become SIMD.
    if len(present) > 0:
        least, greatest = _find_sizes(bits, reinterpret(present, np.uint8), True)
    else:
        least, greatest = _find_sizes(bits, reinterpret(present, np.uint8), False)
    ends[0], ends[1] = _HIGHEST, -1
    if greatest > 0:
        ends[0], ends[1] = (least + 1) >> _MANTISSA_BITS, greatest >> _MANTISSA_BITS


@kernel(
    "values: i64[rows], present: bool[flags], codes: i64[coded], totals: mut i64[groups], "
    "found: mut i64[rows] -> bool"
)
def accumulate_integers(values: Any, present: Any, codes: Any, totals: Any, found: Any) -> bool:
    """Write the sum as far as each row; False where one leaves 64 bits."""
    keyed, some = len(codes) > 0, len(present) > 0
    held, total, left = np.int64(0), totals[0], np.int64(0)
    for row in range(len(values)):
        if keyed and codes[row] != held:
            totals[held] = total
            held = codes[row]
            total = totals[held]
        if not some or present[row]:
            after = total + values[row]
            # The sign is wrong exactly where both have the other one.
            left |= (after ^ total) & (after ^ values[row])
            total = after
        found[row] = total
    totals[held] = total
    return bool(left >= 0)


@inner
def _add_double(value: float, scale: float, width: float, high: Any, rest: Any) -> Any:
    scaled = value * scale
    whole = np.floor(scaled)
    rest += np.int64((scaled - whole) * width)
    return high + np.int64(whole) + (rest >> REST_BITS), rest & _REST


@kernel(
    "values: f64[rows], present: bool[flags], codes: i64[coded], scale: f64, above: f64, "
    "below: f64, high: mut i64[groups], rest: mut i64[groups], found: mut f64[rows]"
)
def accumulate_doubles(
    values: Any,
    present: Any,
    codes: Any,
    scale: float,
    above: float,
    below: float,
    high: Any,
    rest: Any,
    found: Any,
) -> None:
    """Write the sum as far as each row, rounded once."""
    keyed, some = len(codes) > 0, len(present) > 0
    width = np.float64(1 << REST_BITS)
    held, upper, lower = np.int64(0), high[0], rest[0]
    for row in range(len(values)):
        if keyed and codes[row] != held:
            high[held], rest[held] = upper, lower
            held = codes[row]
            upper, lower = high[held], rest[held]
        if not some or present[row]:
            upper, lower = _add_double(values[row], scale, width, upper, lower)
        found[row] = np.float64(upper) * above + np.float64(lower) * below
    high[held], rest[held] = upper, lower


@kernel(
    "numbers: V[rows], present: bool[flags], codes: i64[coded], greatest: bool, "
    "best: mut V[groups], known: mut bool[groups], found: mut V[rows]",
    V="i64 f64",
)
def accumulate_best(
    numbers: Any, present: Any, codes: Any, greatest: bool, best: Any, known: Any, found: Any
) -> None:
    """Write the least or the greatest number as far as each row.

    Where no number is known the best is one that none is worse than.
    """
    keyed, some = len(codes) > 0, len(present) > 0
    held, so_far, seen = np.int64(0), best[0], known[0]
    for row in range(len(numbers)):
        if keyed and codes[row] != held:
            best[held], known[held] = so_far, seen
            held = codes[row]
            so_far, seen = best[held], known[held]
        if not some or present[row]:
            number = numbers[row]
            is_better = number > so_far if greatest else number < so_far
            so_far = number if is_better else so_far
            seen = True
        found[row] = so_far
    best[held], known[held] = so_far, seen


@kernel("present: bool[flags], codes: i64[coded], counts: mut i64[groups], found: mut i64[rows]")
def accumulate_counts(present: Any, codes: Any, counts: Any, found: Any) -> None:
    """Write how many rows are present as far as each."""
    keyed, some = len(codes) > 0, len(present) > 0
    held, count = np.int64(0), counts[0]
    for row in range(len(found)):
        if keyed and codes[row] != held:
            counts[held] = count
            held = codes[row]
            count = counts[held]
        if not some or present[row]:
            count += 1
        found[row] = count
    counts[held] = count
