"""Exact sums of many groups, as lines of limbs: one pass over the rows, one over the groups.

A line holds the sum of a group as a number of 32-bit digits in 64-bit integers. What has more bits
than a digit is written over several of them, so that no number of rows below ``2**29`` can fill an
integer; digits are brought to 32 bits once, in the end (a superaccumulator: Kulisch, Computer
Arithmetic and Validity, 2013). Sums are handed out in the form of
:class:`~tessel.clauses.aggregates.kernels.exact_sum.FloatSums`, of which the numpy code of that
module is the twin. Each function answers None where no compiled kernel is there, and where lines
would be longer than they are worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["add_by_group", "round_sums", "sums_of_doubles", "sums_of_parts", "sums_of_sums"]

Integers = NDArray[np.int64]
Sums = tuple[NDArray[np.int32], Integers, Integers]

_LIMB_BITS = 32
_MOST_ROWS = 1 << 29
_MOST_LIMBS = 24
# A double lies in three limbs; a sum of many goes one further.
_LIMBS_A_DOUBLE = 3
_LAST_PLACE = 2045
_NOWHERE = 1 << 20
# Lines are cleared and read once each: there must be rows that pay for that.
_CELLS, _CELLS_A_ROW = 1 << 16, 32


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
    kernels = _kernels(len(values))
    if kernels is None:
        return None
    bits = frozen(values).view(np.int64)
    least, greatest = kernels.double_range(bits)
    if greatest > _LAST_PLACE:
        return None
    if greatest < 0:
        return _nothing(groups)
    lowest = least // _LIMB_BITS
    lines = _lines(len(values), groups, greatest // _LIMB_BITS - lowest + _LIMBS_A_DOUBLE)
    if lines is None:
        return None
    kernels.add_doubles(bits, frozen(codes), lowest, lines)
    return _trimmed(kernels, lines, lowest)


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
    kernels = _kernels(len(codes))
    if kernels is None:
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
    for first_limb, ends, limbs in parts:
        own = codes[row : row + len(first_limb)]
        held = frozen(first_limb), frozen(ends), frozen(limbs)
        kernels.add_limbs(*held, frozen(own), lowest, lines)
        row += len(own)
    return _trimmed(kernels, lines, lowest)


def sums_of_parts(parts: Mapping[int, Integers], groups: int) -> Sums | None:
    """Return the sums of whole numbers, one a group, times powers of two.

    Parameters
    ----------
    parts
        By bit position above the lowest bit of doubles, int64, shape ``(groups,)``; one at least.
    groups
        How many groups there are.
    """
    kernels = _kernels(groups)
    if kernels is None:
        return None
    lowest = min(parts) // _LIMB_BITS
    lines = _lines(groups, groups, max(parts) // _LIMB_BITS - lowest + _LIMBS_A_DOUBLE)
    if lines is None:
        return None
    for position, numbers in parts.items():
        kernels.add_shifted(frozen(numbers), position, lowest, lines)
    return _trimmed(kernels, lines, lowest)


def add_by_group(sums: Integers, codes: Integers, numbers: NDArray[Any]) -> None:
    """Add integers to the sums of their groups, in place; no sum passes 64 bits.

    Parameters
    ----------
    sums
        int64, shape ``(groups,)``.
    codes, numbers
        int64 and integers of any type, shape ``(rows,)``.
    """
    kernels = _kernels(len(codes))
    if kernels is None:
        np.add.at(sums, codes, numbers.astype(np.int64, copy=False))
        return
    kernels.add_integers(frozen(codes), frozen(numbers.astype(np.int64, copy=False)), sums)


def round_sums(
    first_limb: NDArray[np.int32], ends: Integers, limbs: Integers, divisors: Integers | None
) -> NDArray[np.float64] | None:
    """Return sums, or sums over divisors in ``[1, 2**31)``, correctly rounded once."""
    kernels = _kernels(len(first_limb))
    if kernels is None:
        return None
    results = np.empty(len(first_limb), np.int64)
    held = frozen(first_limb), frozen(ends), frozen(limbs)
    by = frozen(np.zeros(0, np.int64) if divisors is None else divisors)
    kernels.round_sums(*held, by, results)
    return results.view(np.float64)


def _kernels(rows: int) -> Any:
    return compiled_kernels(rows, "limb_lines") if rows < _MOST_ROWS else None


def _lines(rows: int, groups: int, limbs: int) -> Integers | None:
    """Return lines of zeros, with a limb above for the carries."""
    width = limbs + 1
    if width > _MOST_LIMBS or groups * width > max(_CELLS, _CELLS_A_ROW * rows):
        return None
    return np.zeros((groups, width), np.int64)


def _trimmed(kernels: Any, lines: Integers, lowest: int) -> Sums:
    first_limb = np.empty(len(lines), np.int32)
    ends = np.empty(len(lines) + 1, np.int64)
    return first_limb, ends, kernels.trim_lines(lines, lowest, first_limb, ends)


def _nothing(groups: int) -> Sums:
    return np.zeros(groups, np.int32), np.zeros(groups + 1, np.int64), np.zeros(0, np.int64)
