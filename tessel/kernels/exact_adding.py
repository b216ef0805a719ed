"""Kernels that add numbers to superaccumulators, one a group.

An accumulator is a fixed-point number in cells of 64 bits. A number that is added has 32 bits in
each cell, so ``2**29`` rows may be added before cells are carried. Cell ``j`` of group ``g`` weighs
``2**(32 * j)`` and is ``cells[base[g] + j]``, where ``j`` may be negative. Normalized accumulators
are two's complement limbs of 32 bits (see :class:`~tessel.kernels.exact_sums.ExactSums`).

References
----------
U. Kulisch, *Computer Arithmetic and Validity*, 2013, on long accumulators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel

LIMB_BITS = 32
LEAST_EXPONENT = -1074
"""Exponent of the lowest bit of any double."""

_MASK = (1 << LIMB_BITS) - 1
_LOW_BITS = LIMB_BITS - 1
_FRACTION_BITS = 52
_FRACTION = (1 << _FRACTION_BITS) - 1
_HIDDEN = 1 << _FRACTION_BITS
_EXPONENTS = 2047
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@kernel("first_limb: i32[groups], ends: i64[ends], found: mut i64[2]")
def find_limbs(first_limb: Any, ends: Any, found: Any) -> None:
    """Write the lowest limb of all normalized numbers, and the one above the highest.

    Where all are zero, the second is the lower one.
    """
    least, most = np.int64(1) << 40, -(np.int64(1) << 40)
    for group in range(len(first_limb)):
        length = ends[group + 1] - ends[group]
        if length > 0:
            first = np.int64(first_limb[group])
            least = min(least, first)
            most = max(most, first + length)
    found[0], found[1] = least, most


@kernel(
    "low: i64[rows], high: i64[rows], codes: i64[rows], lowest: mut i64[groups], "
    "highest: mut i64[groups]"
)
def bound_accumulators(low: Any, high: Any, codes: Any, lowest: Any, highest: Any) -> None:
    """Lower ``lowest`` and raise ``highest`` of each group to what its rows have."""
    for row in range(len(codes)):
        group = np.uint64(codes[row])
        lowest[group] = min(lowest[group], low[row])
        highest[group] = max(highest[group], high[row])


@inner
def _parts_of(bits: Any) -> Any:
    """Return the mantissa of a finite double, and the exponent of its last bit."""
    exponent = (bits >> _FRACTION_BITS) & _EXPONENTS
    mantissa = bits & _FRACTION
    if exponent > 0:
        return mantissa | _HIDDEN, exponent - 1 + LEAST_EXPONENT
    return mantissa, np.int64(LEAST_EXPONENT)


@kernel("values: i64[rows], codes: i64[rows], base: i64[groups], cells: mut i64[cells]")
def add_doubles(values: Any, codes: Any, base: Any, cells: Any) -> None:
    """Add finite doubles, given as their bits, to the accumulators of their groups."""
    for row in range(len(values)):
        bits = values[row]
        mantissa, exponent = _parts_of(bits)
        if mantissa == 0:
            continue
        shift = exponent & _LOW_BITS
        low = (mantissa & _MASK) << shift
        high = (mantissa >> LIMB_BITS) << shift
        sign = (bits >> 63) | 1
        at = np.uint64(base[np.uint64(codes[row])] + (exponent >> 5))
        cells[at] += sign * (low & _MASK)
        cells[at + _ONE] += sign * ((low >> LIMB_BITS) + (high & _MASK))
        cells[at + _TWO] += sign * (high >> LIMB_BITS)


@kernel(
    "left: i64[rows], right: i64[rows], codes: i64[rows], base: i64[groups], cells: mut i64[cells]"
)
def add_products(left: Any, right: Any, codes: Any, base: Any, cells: Any) -> None:
    """Add the products of finite doubles, given as their bits, to their groups' accumulators."""
    for row in range(len(left)):
        one, one_exponent = _parts_of(left[row])
        other, other_exponent = _parts_of(right[row])
        if one == 0 or other == 0:
            continue
        one_low, one_high = np.uint64(one & _MASK), one >> LIMB_BITS
        other_low, other_high = np.uint64(other & _MASK), other >> LIMB_BITS
        # Of 106 bits; the middle has 54 and takes the upper half of what is below.
        lowest = one_low * other_low
        middle = np.int64(one_low) * other_high + one_high * np.int64(other_low)
        middle += np.int64(lowest >> np.uint64(LIMB_BITS))
        highest = one_high * other_high + (middle >> LIMB_BITS)
        exponent = one_exponent + other_exponent
        shift = exponent & _LOW_BITS
        first = np.int64(lowest & np.uint64(_MASK)) << shift
        second = (middle & _MASK) << shift
        third = (highest & _MASK) << shift
        fourth = (highest >> LIMB_BITS) << shift
        sign = ((left[row] ^ right[row]) >> 63) | 1
        at = np.uint64(base[np.uint64(codes[row])] + (exponent >> 5))
        cells[at] += sign * (first & _MASK)
        cells[at + _ONE] += sign * ((first >> LIMB_BITS) + (second & _MASK))
        cells[at + _TWO] += sign * ((second >> LIMB_BITS) + (third & _MASK))
        cells[at + _THREE] += sign * ((third >> LIMB_BITS) + (fourth & _MASK))
        cells[at + _FOUR] += sign * (fourth >> LIMB_BITS)


@kernel(
    "numbers: i64[rows], codes: i64[rows], exponent: i64, signed: bool, base: i64[groups], "
    "cells: mut i64[cells]"
)
def add_integers(
    numbers: Any, codes: Any, exponent: Any, signed: Any, base: Any, cells: Any
) -> None:
    """Add ``numbers * 2**exponent``, signed or the bits of unsigned ones, to their accumulators."""
    shift = exponent & _LOW_BITS
    limb = exponent >> 5
    upper = np.int64(-1) if signed else np.int64(_MASK)
    for row in range(len(numbers)):
        number = numbers[row]
        low = (number & _MASK) << shift
        high = ((number >> LIMB_BITS) & upper) << shift
        at = np.uint64(base[np.uint64(codes[row])] + limb)
        cells[at] += low & _MASK
        cells[at + _ONE] += (low >> LIMB_BITS) + (high & _MASK)
        cells[at + _TWO] += high >> LIMB_BITS


@kernel("codes: i64[rows], numbers: i64[rows], sums: mut i64[groups]")
def add_totals(codes: Any, numbers: Any, sums: Any) -> None:
    """Add integers to the sums of their groups, which stay below 64 bits."""
    for row in range(len(codes)):
        sums[np.uint64(codes[row])] += numbers[row]


def add_by_group(sums: NDArray[np.int64], codes: NDArray[np.int64], numbers: NDArray[Any]) -> None:
    """Add integers to the sums of their groups, in place; no sum passes 64 bits.

    Parameters
    ----------
    sums
        int64, shape ``(groups,)``.
    codes, numbers
        int64 and integers of any type, shape ``(rows,)``.
    """
    numbers = np.ascontiguousarray(numbers, np.int64)
    add_totals(np.ascontiguousarray(codes), numbers, sums)


@inner
def _add_sum(limbs: Any, start: Any, stop: Any, at: Any, sign: Any, cells: Any) -> None:
    """Add or subtract a normalized number; its first limb goes to cell ``at`` of an accumulator."""
    if start == stop:
        return
    place, last = np.uint64(at), np.uint64(stop - 1)
    for limb in range(np.uint64(start), last):
        cells[place] += sign * (np.int64(limbs[limb]) & _MASK)
        place += _ONE
    cells[place] += sign * np.int64(limbs[last])


@kernel(
    "first_limb: i32[rows], ends: i64[ends], limbs: i32[limbs], codes: i64[rows], "
    "base: i64[groups], cells: mut i64[cells]"
)
def add_limbs(first_limb: Any, ends: Any, limbs: Any, codes: Any, base: Any, cells: Any) -> None:
    """Add normalized numbers to the accumulators of their groups."""
    for row in range(len(first_limb)):
        at = base[np.uint64(codes[row])] + first_limb[row]
        _add_sum(limbs, ends[row], ends[row + 1], at, np.int64(1), cells)


@inner
def _carry(cells: Any, start: Any, stop: Any) -> None:
    """Bring the cells of an accumulator to 32 bits, but the last, which takes the carries."""
    carry = np.int64(0)
    for place in range(np.uint64(start), np.uint64(stop - 1)):
        held = cells[place] + carry
        cells[place] = held & _MASK
        carry = held >> LIMB_BITS
    cells[np.uint64(stop - 1)] += carry


@kernel("starts: i64[ends], cells: mut i64[cells]")
def carry_accumulators(starts: Any, cells: Any) -> None:
    """Carry accumulators to take more rows; that of ``g`` is ``cells[starts[g]:starts[g + 1]]``."""
    for group in range(len(starts) - 1):
        if starts[group] < starts[group + 1]:
            _carry(cells, starts[group], starts[group + 1])


@inner
def _normalize(cells: Any, start: Any, stop: Any, limbs: Any, end: Any) -> Any:
    """Carry an accumulator and write its shortest two's complement form behind ``limbs[:end]``.

    Return how many cells lie below its first limb, and the new end.
    """
    if start == stop:
        return np.int64(0), end
    _carry(cells, start, stop)
    high, top = stop - 1, cells[np.uint64(stop - 1)]
    while high > start:
        below = cells[np.uint64(high - 1)]
        below -= (below >> _LOW_BITS) << LIMB_BITS
        if top != below >> 63:
            break
        high, top = high - 1, below  # the limb above says no more than the sign
    if high == start and top == 0:
        return np.int64(0), end
    low = start
    while low < high and cells[np.uint64(low)] == 0:
        low += 1
    for place in range(np.uint64(low), np.uint64(high)):
        held = cells[place]
        limbs[np.uint64(end)] = held - ((held >> _LOW_BITS) << LIMB_BITS)
        end += 1
    limbs[np.uint64(end)] = top
    return low - start, end + 1


@kernel(
    "base: i64[groups], cells: mut i64[cells], first_limb: mut i32[groups], ends: mut i64[ends], "
    "limbs: mut i32[limbs]"
)
def normalize_accumulators(base: Any, cells: Any, first_limb: Any, ends: Any, limbs: Any) -> None:
    """Normalize accumulators, of which that of group ``g`` is ``cells[ends[g]:ends[g + 1]]``.

    Afterwards ``ends`` says the same of the limbs, which may be where the cells are: they are half
    as wide, and a cell is read before what is written can reach it.
    """
    stop, end = ends[0], np.int64(0)
    for group in range(len(base)):
        start, before = stop, end
        stop = ends[group + 1]
        skipped, end = _normalize(cells, start, stop, limbs, end)
        first_limb[group] = start - base[group] + skipped if end > before else 0
        ends[group + 1] = end


@kernel(
    "row_limb: i32[rows], row_ends: i64[row_ends], row_limbs: i32[row_limbs], order: i64[places], "
    "starts: i64[windows], stops: i64[windows], lowest: i64, cells: mut i64[width], "
    "copy: mut i64[width], first_limb: mut i32[windows], ends: mut i64[ends], limbs: mut i32[limbs]"
)
def slide_window(
    row_limb: Any, row_ends: Any, row_limbs: Any, order: Any, starts: Any, stops: Any, lowest: Any,
    cells: Any, copy: Any, first_limb: Any, ends: Any, limbs: Any,
) -> None:  # fmt: skip
    """Normalize the sum of each window: numbers enter and leave it.

    ``order`` says which number has which place; ``cells``, all 0, and ``copy`` hold a number from
    the limb ``lowest`` on.
    """
    first, last, end = np.int64(0), np.int64(0), np.int64(0)
    ends[0] = end
    for window in range(len(starts)):
        start, stop = starts[window], stops[window]
        if start == stop:
            first_limb[window], ends[window + 1] = 0, end
            continue
        if start < first or stop < last or start >= last:
            first, last = start, start
            for place in range(len(cells)):
                cells[place] = 0
        while last < stop or first < start:
            sign = np.int64(1)
            if last < stop:
                row = np.uint64(order[np.uint64(last)])
                last += 1
            else:
                row, sign = np.uint64(order[np.uint64(first)]), np.int64(-1)
                first += 1
            at = np.int64(row_limb[row]) - lowest
            _add_sum(row_limbs, row_ends[row], row_ends[row + _ONE], at, sign, cells)
        for place in range(len(cells)):
            copy[place] = cells[place]
        before = end
        skipped, end = _normalize(copy, np.int64(0), np.int64(len(copy)), limbs, end)
        first_limb[window] = lowest + skipped if end > before else 0
        ends[window + 1] = end
