"""Variances of many groups and their roots as arrays, rounded once wherever that is certain.

``n * Σx² - (Σx)²`` is computed exactly, in limbs. What follows is a few divisions and a root, in
pairs of doubles (:mod:`tessel.clauses.aggregates.kernels.pairs`). Groups of which the rounding is
not certain then are left to integers of any size; they are as good as never there, but for results
that lie exactly in the middle between two doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.limbs import LIMB_BITS, LIMB_MASK, carry
from tessel.clauses.aggregates.kernels.pairs import ERROR, Pair, over, root_of, times, two_sum

__all__ = ["Spreads", "rounded_spreads"]

# Exponent of the lowest bit of any double; sums of squares count from twice that.
_LEAST_EXPONENT = -1074
# Cells of limbs alive at a time.
_BLOCK_CELLS = 1 << 16
# Wider numbers are as good as never there, and would leave the range of doubles.
_MOST_LIMBS = 24
# Divisors are doubles, and exact.
_EXACT = 1 << 53
# Results are far from the ends of the range of doubles.
_MOST_EXPONENT = 900
# Doubles below this have a fraction.
_FRACTIONS = 2.0**51

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Spreads:
    """Results of groups.

    Attributes
    ----------
    values
        float64, shape ``(groups,)``; whole numbers where those were asked for.
    certain
        Bool, shape ``(groups,)``: where ``values`` is the correctly rounded result.
    """

    values: Floats
    certain: BoolArray


def rounded_spreads(
    sums: FloatSums,
    squares: FloatSums,
    counts: Integers,
    *,
    factor: int,
    divisors: Sequence[Integers],
    root: bool,
    whole: bool,
) -> Spreads:
    """Return ``(n * Σx² - (Σx)²) * factor / product of divisors``, or the root of it.

    Parameters
    ----------
    sums, squares
        Exact sums of the values, and of their squares times ``2**1074``; nothing infinite.
    counts
        How many values each group has, int64.
    factor
        At least 1.
    divisors
        int64, each of shape ``(groups,)``, at least 1.
    root
        Whether the square root is asked for.
    whole
        Whether the nearest whole number is, half to even.
    """
    groups = len(counts)
    values, certain = np.zeros(groups), np.zeros(groups, np.bool_)
    if factor >= _EXACT or counts.max(initial=0) >= 1 << 31:
        return Spreads(values, certain)
    for block, lowest, numerators in _numerators(sums, squares, counts):
        pair = times(_pairs(numerators), np.full(numerators.shape[1], float(factor)))
        for each in divisors:
            pair = over(pair, each[block].astype(np.float64))
        exponent = lowest * LIMB_BITS + 2 * _LEAST_EXPONENT
        if root:
            pair, exponent = root_of(pair), exponent // 2
        values[block], certain[block] = _rounded(pair, exponent, whole=whole)
    exact = np.ones(groups, np.bool_)
    for each in divisors:
        exact &= each < _EXACT
    return Spreads(values, certain & exact)


def _numerators(
    sums: FloatSums, squares: FloatSums, counts: Integers
) -> Iterator[tuple[slice, int, Integers]]:
    """Yield runs of groups with the limbs of ``n * Σx² - (Σx)²`` and the place of the lowest.

    Groups whose numbers are too wide are left out.
    """
    step = max(1, _BLOCK_CELLS // _MOST_LIMBS)
    for start in range(0, len(counts), step):
        block = slice(start, min(start + step, len(counts)))
        one, other = sums.dense(block), squares.dense(block)
        if one is None or other is None:
            continue
        (first, totals), (second, held) = one, other
        lowest = min(2 * first, second)
        width = max(2 * (first + len(totals)), second + len(held) + 1) - lowest + 1
        if width > _MOST_LIMBS:
            continue
        limbs = np.zeros((width, totals.shape[1]), np.int64)
        for place, limb in enumerate(held):  # no sum of squares is negative
            _add(limbs, second + place - lowest, (limb * counts[block]).view(np.uint64), 1)
        parts = np.abs(totals).view(np.uint64)
        for place, left in enumerate(parts):
            for more, right in enumerate(parts[place:], place):
                at = 2 * first + place + more - lowest
                _add(limbs, at, left * right, -1 if place == more else -2)
        carry(limbs)
        yield block, lowest, limbs


def _add(limbs: Integers, place: int, numbers: NDArray[np.uint64], times: int) -> None:
    """Add numbers of 64 bits, times a few, at a place."""
    limbs[place] += times * (numbers & np.uint64(LIMB_MASK)).view(np.int64)
    limbs[place + 1] += times * (numbers >> np.uint64(LIMB_BITS)).view(np.int64)


def _pairs(limbs: Integers) -> Pair:
    """Return numbers of limbs, none negative, as pairs of doubles."""
    high, low = np.zeros(limbs.shape[1]), np.zeros(limbs.shape[1])
    for place in range(len(limbs) - 1, -1, -1):
        high, error = two_sum(high, limbs[place] * 2.0 ** (LIMB_BITS * place))
        low += error
    return two_sum(high, low)


def _rounded(pair: Pair, exponent: int, *, whole: bool) -> tuple[Floats, BoolArray]:
    """Round ``pair * 2**exponent``; also return where that is certain."""
    value, rest = pair
    zero = value == 0
    inside = ~zero & (np.abs(np.frexp(value)[1] + exponent) < _MOST_EXPONENT)
    value, rest = (np.ldexp(np.where(inside, part, 0.0), exponent) for part in (value, rest))
    error = value * ERROR
    if not whole:
        down, up = value + (rest - error), value + (rest + error)
        return down, zero | (inside & (down == up))
    nearest = np.rint(value)
    nearest += np.rint((value - nearest) + rest)  # rounding may have hidden the half
    off = np.abs((value - nearest) + rest)
    return nearest, zero | (inside & (value < _FRACTIONS) & (off + error < 0.5))
