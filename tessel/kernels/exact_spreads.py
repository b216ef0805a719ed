"""Variances of exact sums and their roots, rounded once: ``n * Σx² - (Σx)²`` in limbs of 32 bits.

Nothing cancels that should not, as nothing is rounded before the end. Roots are those of 128 bits:
the root of a double, one step of Newton's method, and a correction by what is left over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.exact_results import cut_off, digit_of, divided, leading_bits, nearest_double
from tessel.kernels.exact_sums import ExactSums

Integers = NDArray[np.int64]

_LIMB = 32
_MASK = (1 << _LIMB) - 1
# More limbs than the numerator of doubles has, with room for division.
_SCRATCH_LIMBS = 256
# Limbs of a quotient before it is rounded, and before its root is taken.
_ROUNDED_LIMBS, _ROOT_LIMBS = 3, 5
# Products of two such are digits.
_SMALL = (1 << 16) - 1

# numba takes the sum of a uint64 and a plain number for a float.
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_BITS, _ALL = np.uint64(_LIMB), np.uint64(_MASK)
_WORD_BITS = np.uint64(64)
_BIT_63 = np.uint64(1 << 63)


def exact_spreads(
    sums: ExactSums,
    squares: ExactSums,
    counts: Integers,
    *,
    ddof: int,
    of_mean: bool,
    root: bool,
    whole: bool,
    factors: Integers,
    divisors: Integers,
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return ``(n * Σx² - (Σx)²) / (n * (n - ddof))``, rounded once.

    Parameters
    ----------
    sums, squares
        The sums of values, and of their squares.
    counts
        How many values each group has; 0 comes out of those with no more than ``ddof``.
    ddof
        Not negative.
    of_mean
        Whether that is divided by n once more.
    root
        Whether the square root is asked for.
    whole
        Whether the nearest integer to the root is, half to even, instead of the double.
    factors, divisors
        int64, each in ``[1, 2**32)``: what the variance is multiplied with and divided by.

    Returns
    -------
    results : numpy.ndarray
        float64 or int64, shape ``(groups,)``.
    fits : numpy.ndarray
        Bool, shape ``(groups,)``; False where an integer is past 63 bits.
    """
    results, fits = np.empty(sums.groups, np.int64), np.empty(sums.groups, np.bool_)
    scratch = np.empty(_SCRATCH_LIMBS + len(factors) + len(divisors), np.uint64)
    round_spreads(
        *sums.limbs, *squares.limbs, np.ascontiguousarray(counts), ddof, of_mean, root, whole,
        factors, divisors, scratch, results, fits,
    )  # fmt: skip
    return (results if whole else results.view(np.float64)), fits


@inner
def _scaled(number: Any, place: Any, width: Any, factor: Any) -> Any:
    """Multiply a number from a place on by a factor below ``2**32``; return its new width."""
    carry = _ZERO
    for limb in range(place, width):
        held = number[limb] * factor + carry
        number[limb], carry = held & _ALL, held >> _BITS
    if carry != _ZERO:
        number[width] = carry
        width += 1
    return width


@inner
def _add_scaled(limbs: Any, start: Any, end: Any, factor: Any, number: Any, place: Any) -> None:
    """Add a sum that is not negative, times a factor below ``2**32``, to a number at a place."""
    carry = _ZERO
    for limb in range(start, end):
        held = np.uint64(np.int64(limbs[limb]) & _MASK) * factor + number[place] + carry
        number[place], carry = held & _ALL, held >> _BITS
        place += _ONE
    while carry != _ZERO:
        held = number[place] + carry
        number[place], carry = held & _ALL, held >> _BITS
        place += _ONE


@inner
def _take_square(limbs: Any, start: Any, end: Any, number: Any, place: Any, width: Any) -> None:
    """Take the square of a sum from a number that is no smaller."""
    negative = limbs[np.uint64(end - 1)] < 0
    for first in range(start, end):
        one = digit_of(limbs, first, start, negative)
        carry, borrow = _ZERO, np.int64(0)
        at = place + np.uint64(first - start)
        for second in range(start, end):
            product = one * digit_of(limbs, second, start, negative) + carry
            carry = product >> _BITS
            left = np.int64(number[at]) - np.int64(product & _ALL) + borrow
            number[at], borrow = np.uint64(left & _MASK), left >> _LIMB
            at += _ONE
        borrow -= np.int64(carry)
        while borrow != 0 and at < width:
            left = np.int64(number[at]) + borrow
            number[at], borrow = np.uint64(left & _MASK), left >> _LIMB
            at += _ONE


@inner
def _over(number: Any, width: Any, divisor: Any) -> Any:
    """Divide a number; return whether something remains."""
    remainder = _ZERO
    for limb in range(width):
        at = width - 1 - limb
        number[at], remainder = divided(remainder, number[at], divisor)
    return remainder != _ZERO


@inner
def _square(root: Any) -> Any:
    """Return the upper and the lower word of a square."""
    high, low = root >> _BITS, root & _ALL
    middle = high * low
    below = low * low
    lower = below + (middle << np.uint64(33))
    upper = high * high + (middle >> np.uint64(31))
    return (upper + _ONE if lower < below else upper), lower


@inner
def _root(high: Any, low: Any) -> Any:
    """Return the root of a number of 128 bits, rounded down, and whether it is not exact.

    One of the two highest bits is set.
    """
    near = np.sqrt(np.float64(high)) * 2.0**32
    root = ~_ZERO if near >= 2.0**64 else np.uint64(near)
    # One step of Newton's method takes it from 52 right bits to 64, but for the last.
    upper, lower = _square(root)
    left = np.float64(np.int64(high - upper - (_ONE if low < lower else _ZERO))) * 2.0**64
    step = np.floor((left + np.float64(low - lower)) / (2.0 * near))
    if step < 0:
        root -= np.uint64(-step)
    elif step > 0:
        more = np.uint64(step)
        root = ~_ZERO if more > ~root else root + more
    upper, lower = _square(root)
    while upper > high or (upper == high and lower > low):
        root -= _ONE
        upper, lower = _square(root)
    while root != ~_ZERO:
        upper_more, lower_more = _square(root + _ONE)
        if upper_more > high or (upper_more == high and lower_more > low):
            break
        root += _ONE
        upper, lower = upper_more, lower_more
    return root, upper != high or lower != low


@kernel(
    "first_limb: i32[groups], ends: i64[ends], limbs: i32[limbs], first_square: i32[groups], "
    "square_ends: i64[ends], squares: i32[squares], counts: i64[groups], ddof: i64, "
    "of_mean: bool, root: bool, whole: bool, factors: i64[factors], divisors: i64[divisors], "
    "number: mut u64[width], results: mut i64[groups], fits: mut bool[groups]"
)
def round_spreads(
    first_limb: Any, ends: Any, limbs: Any, first_square: Any, square_ends: Any, squares: Any,
    counts: Any, ddof: Any, of_mean: Any, root: Any, whole: Any, factors: Any, divisors: Any,
    number: Any, results: Any, fits: Any,
) -> None:  # fmt: skip
    """Write ``(n * Σx² - (Σx)²) / (n * (n - ddof))``, times factors and over divisors.

    Over ``n`` once more where the variance is that of a mean; the root, where it is asked for; the
    nearest integer below ``2**63`` of that, or else the bits of a double. ``fits`` says whether
    there is such an integer. Groups of no more than ``ddof`` values get 0.
    """
    for group in range(len(first_limb)):
        results[group], fits[group] = 0, True
        count = counts[group]
        start, end = square_ends[group], square_ends[group + 1]
        if count <= ddof or start == end:
            continue
        # Digits of the quotient that are below those of the number: room for the division.
        taken = _ROOT_LIMBS if root else _ROUNDED_LIMBS
        room = taken + (6 if count > _MASK else 3) + len(divisors)
        lowest = np.int64(first_square[group])
        width = lowest + end - start + 2
        sum_start, sum_end = ends[group], ends[group + 1]
        sum_first = np.int64(first_limb[group])
        if sum_end > sum_start:
            lowest = min(lowest, 2 * sum_first)
            width = max(width, 2 * (sum_first + sum_end - sum_start))
        width += room - lowest
        for limb in range(width + 1):
            number[limb] = _ZERO
        place = np.uint64(room + np.int64(first_square[group]) - lowest)
        _add_scaled(squares, start, end, np.uint64(count & _MASK), number, place)
        if count > _MASK:
            _add_scaled(squares, start, end, np.uint64(count >> _LIMB), number, place + _ONE)
        if sum_end > sum_start:
            place = np.uint64(room + 2 * sum_first - lowest)
            _take_square(limbs, sum_start, sum_end, number, place, np.uint64(width))
        while width > room and number[width - 1] == _ZERO:
            width -= 1
        if width == room:
            continue
        for each in range(len(factors)):
            width = _scaled(number, room, width, np.uint64(factors[each]))
        if count <= _SMALL:
            rest = _over(number, width, np.uint64(count * (count - ddof)))
        else:
            rest = _over(number, width, np.uint64(count))
            rest |= _over(number, width, np.uint64(count - ddof))
        if of_mean:
            rest |= _over(number, width, np.uint64(count))
        for each in range(len(divisors)):
            rest |= _over(number, width, np.uint64(divisors[each]))
        while number[width - 1] == _ZERO:
            width -= 1
        for limb in range(width - taken):
            rest |= number[limb] != _ZERO
        bits, shift, left = leading_bits(number[width - 1], number[width - 2], number[width - 3])
        exponent = _LIMB * (lowest - room + width - 2) - shift
        if not root:
            results[group] = nearest_double(bits, exponent, rest or left != _ZERO)
            continue
        # Two words, times an even power of two.
        below, back = (number[width - 4] << _BITS) | number[width - 5], np.uint64(_LIMB - shift)
        following = (left << _BITS) | (below >> back)
        rest |= (below << (_WORD_BITS - back)) != _ZERO
        if shift & 1:
            rest |= (following & _ONE) != _ZERO
            following = (bits << np.uint64(63)) | (following >> _ONE)
            bits, exponent = bits >> _ONE, exponent + 1
        bits, inexact = _root(bits, following)
        exponent, rest = (exponent - 64) >> 1, rest or inexact
        if not whole:
            results[group] = nearest_double(bits, exponent, rest)
            continue
        kept = cut_off(bits, -exponent, rest) if exponent < 0 else _BIT_63
        fits[group] = kept < _BIT_63
        results[group] = np.int64(kept)
