"""Kernels that turn superaccumulators into results: quotients and roots, each rounded once.

They read settled lines (see :class:`~tessel.kernels.exact_sums.ExactSums`) from above, a limb at a
time. Long division by numbers of one limb and the last rounding follow Knuth, *The Art of Computer
Programming* 2, 4.3.1, and IEEE 754 (to nearest, ties to even).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.declare import inner, kernel

__all__ = ["SCRATCH_LIMBS", "round_integers", "round_spreads", "round_sums", "write_words"]

SCRATCH_LIMBS = 256
"""More limbs than ``n * Σx²`` of doubles has, with room for factors and for division."""

_LIMB = 32
_MASK = (1 << _LIMB) - 1
_NOT_FINITE = 2047
_INFINITY = _NOT_FINITE << 52
_SIGN = -1 << 63
_LEAST_EXPONENT = -1074
# Limbs of a quotient before it is rounded, and before its root is taken.
_ROUNDED_LIMBS, _ROOT_LIMBS = 3, 5

# Products of two such are digits.
_SMALL = (1 << 16) - 1

# numba takes the sum of a uint64 and a plain number for a float.
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_BITS, _ALL = np.uint64(_LIMB), np.uint64(_MASK)
_WORD_BITS = np.uint64(64)
_BIT_63 = np.uint64(1 << 63)


@inner
def _digit(limbs: Any, place: Any, start: Any, negative: bool) -> Any:
    """Return a digit of the size of a settled number whose first limb is at ``start``."""
    limb = np.int64(limbs[np.uint64(place)])
    if negative:
        limb = -limb if place == start else ~limb
    return np.uint64(limb & _MASK)


@inner
def _divided(remainder: Any, digit: Any, divisor: Any) -> Any:
    """Divide ``remainder * 2**32 + digit``; return one digit and what remains.

    The divisor is below ``2**63`` and larger than the remainder.
    """
    if divisor <= _ALL:
        number = (remainder << _BITS) | digit
        quotient = number // divisor
        return quotient, number - quotient * divisor
    quotient = _ZERO
    for place in range(_LIMB):
        bit = (digit >> np.uint64(_LIMB - 1 - place)) & _ONE
        remainder = (remainder << _ONE) | bit
        quotient = quotient << _ONE
        if remainder >= divisor:
            remainder -= divisor
            quotient |= _ONE
    return quotient, remainder


@inner
def _bits_of(number: Any) -> Any:
    """Return how many bits a number below ``2**32`` has."""
    return (np.float64(number).view(np.int64) >> 52) - 1022 if number != _ZERO else np.int64(0)


@inner
def _cut(bits: Any, dropped: Any, rest: bool) -> Any:
    """Return ``bits / 2**dropped`` to the nearest integer, half to even.

    Bit 63 is set, ``dropped`` is positive, and there is a little more where there is a rest.
    """
    if dropped > 64:
        return _ZERO
    kept, half, remainder = _ZERO, _BIT_63, bits
    if dropped < 64:
        half = _ONE << np.uint64(dropped - 1)
        kept = bits >> np.uint64(dropped)
        remainder = bits & ((half << _ONE) - _ONE)
    if remainder > half or (remainder == half and (rest or (kept & _ONE) != _ZERO)):
        kept += _ONE
    return kept


@inner
def _double(bits: Any, exponent: Any, rest: bool) -> Any:
    """Return the bits of the double nearest to ``bits * 2**exponent``, of which bit 63 is set."""
    place = exponent - _LEAST_EXPONENT
    dropped = max(11, -place)
    kept = np.int64(_cut(bits, dropped, rest))
    # The leading bit of what is kept, where it is bit 52, counts on in the exponent.
    biased = place + dropped
    if biased >= _NOT_FINITE:
        return np.int64(_INFINITY)
    return min((np.int64(biased) << 52) + kept, np.int64(_INFINITY))


@inner
def _joined(head: Any, middle: Any, low: Any) -> Any:
    """Return the upper 64 bits of three digits, by how much they were shifted, and what is left.

    ``head`` is not zero.
    """
    shift = np.int64(_LIMB) - _bits_of(head)
    up = np.uint64(shift)
    incoming = low << up
    bits = (((head << _BITS) | middle) << up) | (incoming >> _BITS)
    return bits, shift, incoming & _ALL


@kernel(
    "first_limb: i32[groups], ends: i64[ends], limbs: i32[limbs], counts: i64[counts], "
    "divisors: i64[divisors], remainders: mut u64[divisors], results: mut i64[groups]"
)
def round_sums(
    first_limb: Any,
    ends: Any,
    limbs: Any,
    counts: Any,
    divisors: Any,
    remainders: Any,
    results: Any,
) -> None:
    """Write the bits of sums over counts, where there are any, and over all divisors."""
    plain = len(counts) == 0
    for group in range(len(first_limb)):
        start, place = ends[group], ends[group + 1] - 1
        if place < start:
            results[group] = 0
            continue
        negative = limbs[np.uint64(place)] < 0
        count = _ONE if plain else np.uint64(max(counts[group], 1))
        for each in range(len(remainders)):
            remainders[each] = _ZERO
        head, middle, low, remainder = _ZERO, _ZERO, _ZERO, _ZERO
        # Digits of the quotient from above, until three of them are there.
        while head == _ZERO:
            digit = _digit(limbs, place, start, negative) if place >= start else _ZERO
            if count > _ONE:
                digit, remainder = _divided(remainder, digit, count)
            for each in range(len(divisors)):
                digit, remainders[each] = _divided(
                    remainders[each], digit, np.uint64(divisors[each])
                )
            head, middle, low = middle, low, digit
            place -= 1
        rest = remainder != _ZERO or place >= start  # the first limb of a sum is not zero
        for each in range(len(remainders)):
            rest |= remainders[each] != _ZERO
        bits, shift, left = _joined(head, middle, low)
        exponent = _LIMB * (np.int64(first_limb[group]) + place + 2 - start) - shift
        held = _double(bits, exponent, rest or left != _ZERO)
        results[group] = held | _SIGN if negative else held


@kernel(
    "first_limb: i32[groups], ends: i64[ends], limbs: i32[limbs], counts: i64[groups], "
    "results: mut i64[groups]"
)
def round_integers(first_limb: Any, ends: Any, limbs: Any, counts: Any, results: Any) -> None:
    """Write sums of integers over counts to the nearest integer of 64 bits, half to even."""
    for group in range(len(first_limb)):
        start, end = ends[group], ends[group + 1]
        negative = end > start and limbs[np.uint64(end - 1)] < 0
        divisor = np.uint64(max(counts[group], 1))
        quotient, remainder = _ZERO, _ZERO
        for limb in range(np.int64(first_limb[group]) + end - start):
            place = end - 1 - limb
            digit = _digit(limbs, place, start, negative) if place >= start else _ZERO
            digit, remainder = _divided(remainder, digit, divisor)
            quotient = (quotient << _BITS) | digit
        other = divisor - remainder
        if remainder > other or (remainder == other and (quotient & _ONE) != _ZERO):
            quotient += _ONE
        size = np.int64(quotient)  # of -2**63 it wraps to itself, and so does its negation
        results[group] = -size if negative else size


@inner
def _limb_at(limbs: Any, limb: Any, first: Any, start: Any, end: Any, above: Any) -> Any:
    """Return a limb of a settled number, also one below or above those that are kept."""
    if limb < first:
        return np.int64(0)
    place = start + limb - first
    return np.int64(limbs[np.uint64(place)]) & _MASK if place < end else above


@kernel(
    "first_limb: i32[groups], ends: i64[ends], limbs: i32[limbs], exponent: i64, "
    "words: mut i64[groups, width], fits: mut bool[groups]"
)
def write_words(
    first_limb: Any, ends: Any, limbs: Any, exponent: Any, words: Any, fits: Any
) -> None:
    """Write ``sum / 2**exponent``, rounded down, as two's complement words, the lowest first."""
    shift, lowest = exponent & (_LIMB - 1), exponent >> 5
    width = words.shape[1]
    for group in range(len(first_limb)):
        line = np.uint64(group)
        start, end, first = ends[group], ends[group + 1], np.int64(first_limb[group])
        above = np.int64(0)
        if end > start and limbs[np.uint64(end - 1)] < 0:
            above = np.int64(_MASK)
        held, word, fit = _limb_at(limbs, lowest, first, start, end, above), np.int64(0), True
        for place in range(max(2 * width, first + end - start - lowest)):
            following = _limb_at(limbs, lowest + place + 1, first, start, end, above)
            half = ((held >> shift) | (following << (_LIMB - shift))) & _MASK
            held = following
            if place >= 2 * width:
                fit &= half == above
            elif place & 1:
                words[line, np.uint64(place >> 1)] = (half << _LIMB) | word
                fit = half >> (_LIMB - 1) == above & 1
            word = half
        fits[group] = fit


# --- variances ------------------------------------------------------------------------------------


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
        one = _digit(limbs, first, start, negative)
        carry, borrow = _ZERO, np.int64(0)
        at = place + np.uint64(first - start)
        for second in range(start, end):
            product = one * _digit(limbs, second, start, negative) + carry
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
        number[at], remainder = _divided(remainder, number[at], divisor)
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
        bits, shift, left = _joined(number[width - 1], number[width - 2], number[width - 3])
        exponent = _LIMB * (lowest - room + width - 2) - shift
        if not root:
            results[group] = _double(bits, exponent, rest or left != _ZERO)
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
            results[group] = _double(bits, exponent, rest)
            continue
        kept = _cut(bits, -exponent, rest) if exponent < 0 else _BIT_63
        fits[group] = kept < _BIT_63
        results[group] = np.int64(kept)
