"""Compiled twins of exact sums by group; see :mod:`tessel.kernels.limb_lines`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import inner, kernel

__all__ = [
    "add_doubles",
    "add_integers",
    "add_limbs",
    "add_shifted",
    "double_range",
    "round_sums",
    "trim_lines",
]

_LIMB = 32
_MASK = (1 << 32) - 1
_FRACTION = (1 << 52) - 1
_HIDDEN = 1 << 52
_NOT_FINITE = 2047
_INFINITY = _NOT_FINITE << 52
_SIGN = -1 << 63
_NEVER = 1 << 20


@kernel
def double_range(values: Any) -> Any:
    """Return the least and the greatest place of a last bit, counted from that of all doubles.

    Zeros have none. The greatest of values of which one is not finite is above 2045.
    """
    least, greatest = _NEVER, -1
    for row in range(len(values)):
        bits = values[row]
        exponent = (bits >> 52) & _NOT_FINITE
        place = max(exponent, 1) - 1
        zero = (bits << 1) == 0
        least = min(least, _NEVER if zero else place)
        greatest = max(greatest, -1 if zero else place)
    return least, greatest


@kernel
def add_doubles(values: Any, codes: Any, lowest: int, lines: Any) -> None:
    """Add doubles, given as their bits, to the lines of their groups; finite ones."""
    for row in range(len(values)):
        bits = values[row]
        exponent = (bits >> 52) & _NOT_FINITE
        mantissa = bits & _FRACTION
        place = 0
        if exponent > 0:
            mantissa |= _HIDDEN
            place = exponent - 1
        elif mantissa == 0:
            continue
        shift = place & (_LIMB - 1)
        low = (mantissa & _MASK) << shift
        high = (mantissa >> _LIMB) << shift
        sign = (bits >> 63) | 1
        limb = np.uint64((place >> 5) - lowest)
        group = np.uint64(codes[row])
        lines[group, limb] += sign * (low & _MASK)
        lines[group, limb + np.uint64(1)] += sign * ((low >> _LIMB) + (high & _MASK))
        lines[group, limb + np.uint64(2)] += sign * (high >> _LIMB)


@kernel
def add_limbs(first_limb: Any, ends: Any, limbs: Any, codes: Any, lowest: int, lines: Any) -> None:
    """Add sums, given as their limbs, to the lines of their groups."""
    for row in range(len(first_limb)):
        group = np.uint64(codes[row])
        shift = first_limb[row] - lowest - ends[row]
        for place in range(ends[row], ends[row + 1]):
            lines[group, np.uint64(place + shift)] += limbs[np.uint64(place)]


@kernel
def add_integers(codes: Any, numbers: Any, sums: Any) -> None:
    """Add integers to the sums of their groups."""
    for row in range(len(codes)):
        sums[np.uint64(codes[row])] += numbers[row]


@kernel
def add_shifted(numbers: Any, place: int, lowest: int, lines: Any) -> None:
    """Add ``numbers * 2**place``, one a group, to the lines."""
    shift = place & (_LIMB - 1)
    limb = (place >> 5) - lowest
    for group in range(len(numbers)):
        number = numbers[group]
        low = (number & _MASK) << shift
        high = (number >> _LIMB) << shift
        lines[group, limb] += low & _MASK
        lines[group, limb + 1] += (low >> _LIMB) + (high & _MASK)
        lines[group, limb + 2] += high >> _LIMB


@inner
def _settle(lines: Any, group: Any) -> None:
    """Carry, and give all limbs of a line the sign of its number, below 2**32 in size."""
    last = lines.shape[1] - 1
    carry = np.int64(0)
    for place in range(last):
        held = lines[group, place] + carry
        lines[group, place] = held & _MASK
        carry = held >> _LIMB
    carry += lines[group, last]
    lines[group, last] = carry
    if carry < 0:
        carry = np.int64(0)
        for place in range(last):
            held = carry - lines[group, place]
            lines[group, place] = -(held & _MASK)
            carry = held >> _LIMB
        lines[group, last] -= carry


@kernel
def trim_lines(lines: Any, lowest: int, first_limb: Any, ends: Any) -> Any:
    """Settle all lines; write first limbs and ends, and return the limbs between."""
    end = np.int64(0)
    ends[0] = end
    for group in range(len(lines)):
        line = np.uint64(group)
        _settle(lines, line)
        low, high = 0, lines.shape[1]
        while high > 0 and lines[line, np.uint64(high - 1)] == 0:
            high -= 1
        while low < high and lines[line, np.uint64(low)] == 0:
            low += 1
        first_limb[line] = low + lowest if low < high else 0
        end += high - low
        ends[group + 1] = end
    limbs = np.empty(end, np.int64)
    for group in range(len(lines)):
        start = ends[group]
        shift = np.int64(first_limb[group]) - lowest - start
        for place in range(start, ends[group + 1]):
            limbs[np.uint64(place)] = lines[np.uint64(group), np.uint64(place + shift)]
    return limbs


@inner
def _rounded(head: Any, middle: Any, low: Any, rest: bool, place: Any) -> Any:
    """Return the bits of a rounded double.

    It is ``head * 2**64 + middle * 2**32 + low``, and a little more where there is a rest, times
    ``2**(place - 1074)``; head is not zero.
    """
    length = (np.float64(head).view(np.int64) >> 52) - 1022
    shift = np.uint64(_LIMB - length)
    incoming = np.uint64(low) << shift
    bits = ((np.uint64(head) << np.uint64(_LIMB)) | np.uint64(middle)) << shift
    bits |= incoming >> np.uint64(_LIMB)
    rest = rest or (incoming & np.uint64(_MASK)) != 0
    # Now the number is bits * 2**(place - 1074), and bit 63 is set.
    place += length
    dropped = max(11, -place)
    if dropped > 64:
        return np.int64(0)
    kept, half, remainder = np.uint64(0), np.uint64(1 << 63), bits
    if dropped < 64:
        half = np.uint64(1) << np.uint64(dropped - 1)
        kept = bits >> np.uint64(dropped)
        remainder = bits & ((np.uint64(1) << np.uint64(dropped)) - np.uint64(1))
    if remainder > half or (remainder == half and (rest or (kept & np.uint64(1)) != 0)):
        kept += np.uint64(1)
    # The leading bit of what is kept, where it is bit 52, counts on in the exponent.
    exponent = place + dropped
    if exponent >= _NOT_FINITE:
        return np.int64(_INFINITY)
    return min((np.int64(exponent) << np.int64(52)) + np.int64(kept), np.int64(_INFINITY))


@kernel
def round_sums(first_limb: Any, ends: Any, limbs: Any, divisors: Any, results: Any) -> None:
    """Write the bits of sums, over divisors below 2**31 where there are any, rounded once."""
    zero = np.uint64(0)
    for group in range(len(first_limb)):
        start, place = ends[group], ends[group + 1] - 1
        if place < start:
            results[group] = 0
            continue
        negative = limbs[place] < 0
        divisor = np.uint64(1)
        if len(divisors) > 0:
            divisor = np.uint64(divisors[group])
        head, middle, low, remainder = zero, zero, zero, zero
        # Digits of the quotient from above, until three of them are there.
        while head == zero:
            digit = zero
            if place >= start:
                digit = np.uint64(abs(limbs[place]))
            if divisor > np.uint64(1):
                number = (remainder << np.uint64(_LIMB)) | digit
                digit = number // divisor
                remainder = number - digit * divisor
            head, middle, low = middle, low, digit
            place -= 1
        rest = remainder != zero or place >= start  # the first limb of a sum is not zero
        last = _LIMB * (first_limb[group] + place + 1 - start)
        held = _rounded(head, middle, low, rest, last)
        results[group] = held | _SIGN if negative else held
