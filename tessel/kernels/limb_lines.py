"""Exact sums of many groups, as lines of limbs: one pass over the rows, one over the groups.

A line holds the sum of a group as a number of 32-bit digits in 64-bit integers. What has more bits
than a digit is written over several of them, so that no number of rows below ``2**29`` can fill an
integer; digits are brought to 32 bits once, in the end (a superaccumulator: Kulisch, Computer
Arithmetic and Validity, 2013). Sums are handed out in the form of
:class:`~tessel.clauses.aggregates.kernels.exact_sum.FloatSums`. Functions that add answer None
where lines would be longer than they are worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel

__all__ = ["add_by_group", "round_sums", "sums_of_doubles", "sums_of_parts", "sums_of_sums"]

Integers = NDArray[np.int64]
Sums = tuple[NDArray[np.int32], Integers, Integers]

_MOST_ROWS = 1 << 29
_MOST_LIMBS = 24
# A double lies in three limbs; a sum of many goes one further.
_LIMBS_A_DOUBLE = 3
_LAST_PLACE = 2045
# Lines are cleared and read once each: there must be rows that pay for that.
_CELLS, _CELLS_A_ROW = 1 << 16, 32
_NO_DIVISORS = np.zeros(0, np.int64)

_LIMB = 32
_MASK = (1 << 32) - 1
_FRACTION = (1 << 52) - 1
_HIDDEN = 1 << 52
_NOT_FINITE = 2047
_INFINITY = _NOT_FINITE << 52
_SIGN = -1 << 63
_NOWHERE = 1 << 20


def sums_of_doubles(values: NDArray[np.float64], codes: Integers, groups: int) -> Sums | None:
    """Add doubles by group.

    Parameters
    ----------
    values
        float64, shape ``(rows,)``; no NaN.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.
    groups
        How many groups there are.

    Returns
    -------
    tuple or None
        First limb, ends and limbs of each sum; None also where a value is infinite.
    """
    if len(values) >= _MOST_ROWS:
        return None
    bits = np.ascontiguousarray(values).view(np.int64)
    ends = np.empty(2, np.int64)
    find_places(bits, ends)
    least, greatest = ends.tolist()
    if greatest > _LAST_PLACE:
        return None
    if greatest < 0:
        return _nothing(groups)
    lowest = least // _LIMB
    lines = _lines(len(values), groups, greatest // _LIMB - lowest + _LIMBS_A_DOUBLE)
    if lines is None:
        return None
    add_doubles(bits, np.ascontiguousarray(codes), lowest, lines)
    return _trimmed(lines, lowest)


def sums_of_sums(parts: Sequence[Sums], codes: Integers, groups: int) -> Sums | None:
    """Add sums into fewer groups.

    Parameters
    ----------
    parts
        First limb, ends and limbs of sums.
    codes
        int64: the ``i``-th sum of all parts goes to group ``codes[i]``.
    groups
        How many groups there are.
    """
    if len(codes) >= _MOST_ROWS:
        return None
    lowest, highest = _NOWHERE, -_NOWHERE
    for first_limb, ends, _ in parts:
        lengths = np.diff(ends)
        some = lengths > 0
        lowest = min(lowest, int(first_limb.min(where=some, initial=_NOWHERE)))
        highest = max(highest, int((first_limb + lengths).max(where=some, initial=-_NOWHERE)))
    if lowest > highest:
        return _nothing(groups)
    lines = _lines(len(codes), groups, highest - lowest)
    if lines is None:
        return None
    row = 0
    codes = np.ascontiguousarray(codes)
    for first_limb, ends, limbs in parts:
        own = codes[row : row + len(first_limb)]
        add_limbs(*map(np.ascontiguousarray, (first_limb, ends, limbs)), own, lowest, lines)
        row += len(own)
    return _trimmed(lines, lowest)


def sums_of_parts(parts: Mapping[int, Integers], groups: int) -> Sums | None:
    """Return the sums of whole numbers, one a group, times powers of two.

    Parameters
    ----------
    parts
        By bit position above the lowest bit of doubles, int64, shape ``(groups,)``; one at least.
    groups
        How many groups there are.
    """
    lowest = min(parts) // _LIMB
    lines = _lines(groups, groups, max(parts) // _LIMB - lowest + _LIMBS_A_DOUBLE)
    if lines is None:
        return None
    for position, numbers in parts.items():
        add_shifted(np.ascontiguousarray(numbers), position, lowest, lines)
    return _trimmed(lines, lowest)


def add_by_group(sums: Integers, codes: Integers, numbers: NDArray[Any]) -> None:
    """Add integers to the sums of their groups, in place; no sum passes 64 bits.

    Parameters
    ----------
    sums
        int64, shape ``(groups,)``.
    codes, numbers
        int64 and integers of any type, shape ``(rows,)``.
    """
    numbers = np.ascontiguousarray(numbers, np.int64)
    add_integers(np.ascontiguousarray(codes), numbers, sums)


def round_sums(
    first_limb: NDArray[np.int32], ends: Integers, limbs: Integers, divisors: Integers | None
) -> NDArray[np.float64]:
    """Return sums, or sums over divisors in ``[1, 2**31)``, correctly rounded once."""
    results = np.empty(len(first_limb), np.int64)
    by = _NO_DIVISORS if divisors is None else divisors
    round_limbs(*map(np.ascontiguousarray, (first_limb, ends, limbs, by)), results)
    return results.view(np.float64)


def _lines(rows: int, groups: int, limbs: int) -> Integers | None:
    """Return lines of zeros, with a limb above for the carries."""
    width = limbs + 1
    if width > _MOST_LIMBS or groups * width > max(_CELLS, _CELLS_A_ROW * rows):
        return None
    return np.zeros((groups, width), np.int64)


def _trimmed(lines: Integers, lowest: int) -> Sums:
    first_limb = np.empty(len(lines), np.int32)
    ends = np.empty(len(lines) + 1, np.int64)
    settle_lines(lines, lowest, first_limb, ends)
    limbs = np.empty(ends[-1], np.int64)
    copy_limbs(lines, lowest, first_limb, ends, limbs)
    return first_limb, ends, limbs


def _nothing(groups: int) -> Sums:
    return np.zeros(groups, np.int32), np.zeros(groups + 1, np.int64), np.zeros(0, np.int64)


@kernel("values: i64[rows], ends: mut i64[2]")
def find_places(values: Any, ends: Any) -> None:
    """Write the least and the greatest place of a last bit, counted from that of all doubles.

    Zeros have none. The greatest of values of which one is not finite is above 2045.
    """
    least, greatest = np.int64(_NOWHERE), np.int64(-1)
    for row in range(len(values)):
        bits = values[row]
        exponent = (bits >> 52) & _NOT_FINITE
        place = max(exponent, 1) - 1
        zero = (bits << 1) == 0
        least = min(least, np.int64(_NOWHERE) if zero else place)
        greatest = max(greatest, np.int64(-1) if zero else place)
    ends[0], ends[1] = least, greatest


@kernel("values: i64[rows], codes: i64[rows], lowest: i64, lines: mut i64[groups, width]")
def add_doubles(values: Any, codes: Any, lowest: Any, lines: Any) -> None:
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


@kernel(
    "first_limb: i32[rows], ends: i64[ends], limbs: i64[limbs], codes: i64[rows], lowest: i64, "
    "lines: mut i64[groups, width]"
)
def add_limbs(first_limb: Any, ends: Any, limbs: Any, codes: Any, lowest: Any, lines: Any) -> None:
    """Add sums, given as their limbs, to the lines of their groups."""
    for row in range(len(first_limb)):
        group = np.uint64(codes[row])
        shift = first_limb[row] - lowest - ends[row]
        for place in range(ends[row], ends[row + 1]):
            lines[group, np.uint64(place + shift)] += limbs[np.uint64(place)]


@kernel("codes: i64[rows], numbers: i64[rows], sums: mut i64[groups]")
def add_integers(codes: Any, numbers: Any, sums: Any) -> None:
    """Add integers to the sums of their groups."""
    for row in range(len(codes)):
        sums[np.uint64(codes[row])] += numbers[row]


@kernel("numbers: i64[groups], place: i64, lowest: i64, lines: mut i64[groups, width]")
def add_shifted(numbers: Any, place: Any, lowest: Any, lines: Any) -> None:
    """Add ``numbers * 2**place``, one a group, to the lines."""
    shift = place & (_LIMB - 1)
    limb = np.uint64((place >> 5) - lowest)
    for group in range(len(numbers)):
        number = numbers[group]
        low = (number & _MASK) << shift
        high = (number >> _LIMB) << shift
        lines[group, limb] += low & _MASK
        lines[group, limb + np.uint64(1)] += (low >> _LIMB) + (high & _MASK)
        lines[group, limb + np.uint64(2)] += high >> _LIMB


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


@kernel(
    "lines: mut i64[groups, width], lowest: i64, first_limb: mut i32[groups], ends: mut i64[ends]"
)
def settle_lines(lines: Any, lowest: Any, first_limb: Any, ends: Any) -> None:
    """Settle all lines; write the first limb of each, and where its limbs end among those of all.

    ``ends`` has one place more than there are lines.
    """
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


@kernel(
    "lines: i64[groups, width], lowest: i64, first_limb: i32[groups], ends: i64[ends], "
    "limbs: mut i64[limbs]"
)
def copy_limbs(lines: Any, lowest: Any, first_limb: Any, ends: Any, limbs: Any) -> None:
    """Write the limbs of settled lines side by side."""
    for group in range(len(lines)):
        start = ends[group]
        shift = np.int64(first_limb[group]) - lowest - start
        for place in range(start, ends[group + 1]):
            limbs[np.uint64(place)] = lines[np.uint64(group), np.uint64(place + shift)]


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


@kernel(
    "first_limb: i32[groups], ends: i64[ends], limbs: i64[limbs], divisors: i64[divisors], "
    "results: mut i64[groups]"
)
def round_limbs(first_limb: Any, ends: Any, limbs: Any, divisors: Any, results: Any) -> None:
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
