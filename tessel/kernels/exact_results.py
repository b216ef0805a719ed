"""Kernels that turn superaccumulators into results: quotients and roots, each rounded once.

They read normalized accumulators (see :class:`~tessel.kernels.exact_sums.ExactSums`) from above, a
limb at a time. Long division by numbers of one limb and the last rounding follow Knuth, *The Art of
Computer Programming* 2, 4.3.1, and IEEE 754 (to nearest, ties to even).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel

_LIMB = 32
_DECIMAL_STEP = 9
_MASK = (1 << _LIMB) - 1
_NOT_FINITE = 2047
_INFINITY = _NOT_FINITE << 52
_SIGN = -1 << 63
_LEAST_EXPONENT = -1074
# numba takes the sum of a uint64 and a plain number for a float.
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_BITS, _ALL = np.uint64(_LIMB), np.uint64(_MASK)
_BIT_63 = np.uint64(1 << 63)


def decimal_steps(digits: int) -> NDArray[np.int64]:
    """Return factors of ``10**digits`` of one limb each."""
    steps = [10**_DECIMAL_STEP] * (digits // _DECIMAL_STEP)
    rest = digits % _DECIMAL_STEP
    return np.array([*steps, 10**rest] if rest else steps, np.int64)


@inner
def digit_of(limbs: Any, place: Any, start: Any, negative: bool) -> Any:
    """Return a digit of the size of a normalized number whose first limb is at ``start``."""
    limb = np.int64(limbs[np.uint64(place)])
    if negative:
        limb = -limb if place == start else ~limb
    return np.uint64(limb & _MASK)


@inner
def divided(remainder: Any, digit: Any, divisor: Any) -> Any:
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
def cut_off(bits: Any, dropped: Any, rest: bool) -> Any:
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
def nearest_double(bits: Any, exponent: Any, rest: bool) -> Any:
    """Return the bits of the double nearest to ``bits * 2**exponent``, of which bit 63 is set."""
    place = exponent - _LEAST_EXPONENT
    dropped = max(11, -place)
    kept = np.int64(cut_off(bits, dropped, rest))
    # The leading bit of what is kept, where it is bit 52, counts on in the exponent.
    biased = place + dropped
    if biased >= _NOT_FINITE:
        return np.int64(_INFINITY)
    return min((np.int64(biased) << 52) + kept, np.int64(_INFINITY))


@inner
def leading_bits(head: Any, middle: Any, low: Any) -> Any:
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
            digit = digit_of(limbs, place, start, negative) if place >= start else _ZERO
            if count > _ONE:
                digit, remainder = divided(remainder, digit, count)
            for each in range(len(divisors)):
                digit, remainders[each] = divided(
                    remainders[each], digit, np.uint64(divisors[each])
                )
            head, middle, low = middle, low, digit
            place -= 1
        rest = remainder != _ZERO or place >= start  # the first limb of a sum is not zero
        for each in range(len(remainders)):
            rest |= remainders[each] != _ZERO
        bits, shift, left = leading_bits(head, middle, low)
        exponent = _LIMB * (np.int64(first_limb[group]) + place + 2 - start) - shift
        held = nearest_double(bits, exponent, rest or left != _ZERO)
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
            digit = digit_of(limbs, place, start, negative) if place >= start else _ZERO
            digit, remainder = divided(remainder, digit, divisor)
            quotient = (quotient << _BITS) | digit
        other = divisor - remainder
        if remainder > other or (remainder == other and (quotient & _ONE) != _ZERO):
            quotient += _ONE
        size = np.int64(quotient)  # of -2**63 it wraps to itself, and so does its negation
        results[group] = -size if negative else size


@inner
def _limb_at(limbs: Any, limb: Any, first: Any, start: Any, end: Any, above: Any) -> Any:
    """Return a limb of a normalized number, also one below or above those that are kept."""
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
