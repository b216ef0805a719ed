"""Kernels that add numbers to superaccumulators: one line of limbs a group.

A line is a fixed-point number in cells of 64 bits, of which each takes 32 bits of a number that is
added; so ``2**29`` rows may be added before cells are carried. Cell ``j`` of group ``g`` weighs
``2**(32 * j)`` and is ``cells[base[g] + j]``, where ``j`` may be negative. Settled lines are two's
complement limbs of 32 bits (see :class:`~tessel.kernels.exact_sums.ExactSums`).

References
----------
U. Kulisch, *Computer Arithmetic and Validity*, 2013, on long accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import Kernel, inner, kernel
from tessel.kernels.running_rows import find_exponents

__all__ = [
    "LIMB_BITS",
    "NOWHERE",
    "Lines",
    "Settled",
    "add_integers",
    "add_limbs",
    "add_totals",
    "find_limbs",
    "room_for_sums",
    "slide_lines",
]

Integers = NDArray[np.int64]
Settled = tuple[NDArray[np.int32], Integers, NDArray[np.int32]]
"""First limb, ends and limbs, as `ExactSums` has them."""

LIMB_BITS = 32
NOWHERE = 1 << 20
"""More than the number of any limb."""

_LEAST_EXPONENT = -1074
"""Exponent of the lowest bit of any double."""

_MOST_ROWS = 1 << 29
"""Rows that cells take before they must be carried."""

# Lines of one length, from the lowest limb of all rows to the highest, are quick to lay out; where
# that would take more cells than this, each line has the limbs of its own rows.
_CELLS, _CELLS_A_ROW = 1 << 16, 8
_ALL = np.zeros(0, np.bool_)

_MASK = (1 << LIMB_BITS) - 1
_LOW_BITS = LIMB_BITS - 1
_FRACTION_BITS = 52
_FRACTION = (1 << _FRACTION_BITS) - 1
_HIDDEN = 1 << _FRACTION_BITS
_EXPONENTS = 2047
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class Lines:
    """Lines of cells that rows are added to."""

    def __init__(self, starts: Integers, base: Integers):
        self._starts, self._base = starts, base
        self._cells = np.zeros(starts[-1], np.int64)
        self._rows = 0

    @classmethod
    def of(
        cls,
        codes: Integers,
        groups: int,
        lowest: int,
        above: int,
        limbs_of_rows: Callable[[], tuple[Integers, Integers]] | None = None,
    ) -> Self:
        """Lay out lines for limbs in ``[lowest, above)``, and one more for the carries.

        Parameters
        ----------
        codes, groups
            What goes to which group.
        lowest, above
            All limbs lie between.
        limbs_of_rows
            What tells the same of each row, for lines that are as long as need be.
        """
        width = above - lowest + 1
        if limbs_of_rows is None or groups * width <= max(_CELLS, _CELLS_A_ROW * len(codes)):
            starts = np.arange(0, groups * width + 1, width)
            return cls(starts, starts[:-1] - lowest)
        least, most = np.full((2, groups), NOWHERE)
        np.negative(most, out=most)
        bound_lines(*limbs_of_rows(), codes, least, most)
        ends = np.cumsum(np.where(least < most, most - least + 1, 0))
        starts = np.concatenate([ends[:1] * 0, ends])
        return cls(starts, starts[:-1] - least)

    @classmethod
    def of_integers(cls, codes: Integers, groups: int, *, bits: int) -> Self:
        """Lay out lines for integers of so many bits."""
        above = bits // LIMB_BITS + 1
        return cls.of(
            codes, groups, 0, above,
            lambda: (np.zeros(len(codes), np.int64), np.full(len(codes), above)),
        )  # fmt: skip

    @classmethod
    def of_factors(
        cls, factors: Sequence[NDArray[np.float64]], codes: Integers, groups: int
    ) -> Self | None:
        """Add up products of one factor or two; None where one is infinite."""
        held = [np.ascontiguousarray(each).view(np.int64) for each in factors]
        codes = np.ascontiguousarray(codes)
        least = most = 0
        for bits in held:
            ends = np.empty(2, np.int64)
            find_exponents(bits, _ALL, ends)
            low, high = np.maximum(ends, 1).tolist()
            if high >= _EXPONENTS:
                return None
            least, most = least + min(low, high), most + high
        # A factor lies in two limbs, and in one more as it is shifted.
        room, below = 2 * len(held) + 1, len(held) * (_LEAST_EXPONENT - 1)

        def limbs_of_rows() -> tuple[Integers, Integers]:
            stored = [np.maximum((bits >> _FRACTION_BITS) & _EXPONENTS, 1) for bits in held]
            low = (np.sum(stored, axis=0) + below) // LIMB_BITS
            zero = np.any([bits << 1 == 0 for bits in held], axis=0)
            return np.where(zero, NOWHERE, low), np.where(zero, -NOWHERE, low + room)

        lowest, highest = (least + below) // LIMB_BITS, (most + below) // LIMB_BITS
        lines = cls.of(codes, groups, lowest, highest + room, limbs_of_rows)
        lines.add(add_doubles if len(held) == 1 else add_products, held, codes)
        return lines

    def add(self, kernel: Kernel, columns: Sequence[Any], codes: Integers, *more: Any) -> None:
        """Run a kernel that adds a number a row of each column."""
        codes = np.ascontiguousarray(codes)
        for start in range(0, len(codes), _MOST_ROWS):
            rows = slice(start, start + _MOST_ROWS)
            self._make_room(len(codes[rows]))
            parts = (np.ascontiguousarray(column[rows]) for column in columns)
            kernel(*parts, codes[rows], *more, self._base, self._cells)

    def add_sums(self, sums: Settled, codes: Integers) -> None:
        """Add settled sums."""
        self._make_room(len(codes))
        add_limbs(*sums, codes, self._base, self._cells)

    def _make_room(self, rows: int) -> None:
        if self._rows + rows > _MOST_ROWS:
            carry_lines(self._starts, self._cells)
            self._rows = 0
        self._rows += rows

    def settled(self) -> Settled:
        """Return what `ExactSums` is made of; lines cannot be used afterwards."""
        first_limb, ends, limbs = room_for_sums(len(self._base), len(self._cells))
        settle_lines(self._starts, self._base, self._cells, first_limb, ends, limbs)
        return first_limb, ends, limbs[: ends[-1]]


def room_for_sums(groups: int, limbs: int) -> Settled:
    """Return arrays for settled sums; of limbs, what is not written to takes no memory."""
    return np.empty(groups, np.int32), np.empty(groups + 1, np.int64), np.empty(limbs, np.int32)


@kernel("first_limb: i32[groups], ends: i64[ends], found: mut i64[2]")
def find_limbs(first_limb: Any, ends: Any, found: Any) -> None:
    """Write the lowest limb of all settled numbers, and the one above the highest.

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
def bound_lines(low: Any, high: Any, codes: Any, lowest: Any, highest: Any) -> None:
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
        return mantissa | _HIDDEN, exponent - 1 + _LEAST_EXPONENT
    return mantissa, np.int64(_LEAST_EXPONENT)


@kernel("values: i64[rows], codes: i64[rows], base: i64[groups], cells: mut i64[cells]")
def add_doubles(values: Any, codes: Any, base: Any, cells: Any) -> None:
    """Add finite doubles, given as their bits, to the lines of their groups."""
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
    """Add the products of finite doubles, given as their bits, to the lines of their groups."""
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
    """Add ``numbers * 2**exponent``, signed or the bits of unsigned ones, to their lines."""
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


@inner
def _add_sum(limbs: Any, start: Any, stop: Any, at: Any, sign: Any, cells: Any) -> None:
    """Add a settled number to a line, or take it away; its first limb goes to cell ``at``."""
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
    """Add settled numbers to the lines of their groups."""
    for row in range(len(first_limb)):
        at = base[np.uint64(codes[row])] + first_limb[row]
        _add_sum(limbs, ends[row], ends[row + 1], at, np.int64(1), cells)


@inner
def _carry(cells: Any, start: Any, stop: Any) -> None:
    """Bring all cells of a line but the last, which is there for the carries, to 32 bits."""
    carry = np.int64(0)
    for place in range(np.uint64(start), np.uint64(stop - 1)):
        held = cells[place] + carry
        cells[place] = held & _MASK
        carry = held >> LIMB_BITS
    cells[np.uint64(stop - 1)] += carry


@kernel("starts: i64[ends], cells: mut i64[cells]")
def carry_lines(starts: Any, cells: Any) -> None:
    """Carry lines, of which line ``g`` is ``cells[starts[g]:starts[g + 1]]``, to take more rows."""
    for group in range(len(starts) - 1):
        if starts[group] < starts[group + 1]:
            _carry(cells, starts[group], starts[group + 1])


@inner
def _settle(cells: Any, start: Any, stop: Any, limbs: Any, end: Any) -> Any:
    """Carry a line and write it as the shortest two's complement number behind ``limbs[:end]``.

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
    "starts: i64[ends], base: i64[groups], cells: mut i64[cells], first_limb: mut i32[groups], "
    "ends: mut i64[ends], limbs: mut i32[cells]"
)
def settle_lines(
    starts: Any, base: Any, cells: Any, first_limb: Any, ends: Any, limbs: Any
) -> None:
    """Settle lines, of which line ``g`` is ``cells[starts[g]:starts[g + 1]]``."""
    end = np.int64(0)
    ends[0] = end
    for group in range(len(base)):
        start, before = starts[group], end
        skipped, end = _settle(cells, start, starts[group + 1], limbs, end)
        first_limb[group] = start - base[group] + skipped if end > before else 0
        ends[group + 1] = end


@kernel(
    "row_limb: i32[rows], row_ends: i64[row_ends], row_limbs: i32[row_limbs], order: i64[places], "
    "starts: i64[windows], stops: i64[windows], lowest: i64, cells: mut i64[width], "
    "line: mut i64[width], first_limb: mut i32[windows], ends: mut i64[ends], limbs: mut i32[limbs]"
)
def slide_lines(
    row_limb: Any, row_ends: Any, row_limbs: Any, order: Any, starts: Any, stops: Any, lowest: Any,
    cells: Any, line: Any, first_limb: Any, ends: Any, limbs: Any,
) -> None:  # fmt: skip
    """Settle the sum of each window: numbers enter and leave it.

    ``order`` says which number has which place; ``cells``, all 0, and ``line`` hold a number from
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
            line[place] = cells[place]
        before = end
        skipped, end = _settle(line, np.int64(0), np.int64(len(line)), limbs, end)
        first_limb[window] = lowest + skipped if end > before else 0
        ends[window + 1] = end
