"""Exact sums of integers by group, wider than any 64-bit result, and what follows from them.

A sum is three limbs (96 bits: 2**31 rows of 64-bit integers) or six (decimals), see
:mod:`tessel.clauses.aggregates.kernels.limbs`. Overflow is therefore a property of the final sum
alone: partial sums may leave 64 bits and come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.kernels.limbs import (
    LIMB_BITS,
    LIMB_MASK,
    carry,
    divide,
    magnitude,
    to_floats,
)
from tessel.kernels.limb_lines import add_by_group

__all__ = ["DECIMAL_WIDTH", "INTEGER_WIDTH", "IntegerSums", "added_column"]

INTEGER_WIDTH = 3
DECIMAL_WIDTH = 6

# np.bincount adds in float64: sums of integers are exact below this.
_EXACT = 1 << 53
# Rows whose 32-bit limbs add up to less than _EXACT.
_CHUNK_ROWS = 1 << 20
# Divisors below this go through limb division; no group of a unit is larger.
_DIVISOR_LIMIT = 1 << 31
_DECIMAL_STEP = 9

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class IntegerSums:
    """One exact sum a group.

    Attributes
    ----------
    limbs
        int64, shape ``(width, groups)``, in normal form: the same sum is always the same limbs.
    """

    limbs: NDArray[np.int64]

    @property
    def groups(self) -> int:
        """How many sums there are."""
        return int(self.limbs.shape[1])

    @classmethod
    def of_integers(cls, values: NDArray[Any], codes: NDArray[np.int64], groups: int) -> Self:
        """Add integers of any width up to 64 bits, signed or not, by group.

        Parameters
        ----------
        values
            Integer array, shape ``(rows,)``, no missing ones.
        codes
            int64, shape ``(rows,)``, in ``[0, groups)``.
        groups
            How many groups there are; those without rows sum to zero.
        """
        limbs = np.zeros((INTEGER_WIDTH, groups), np.int64)
        if len(values):
            largest = max(abs(int(values.min())), abs(int(values.max())))
            if largest * len(values) <= _EXACT:
                sums = np.zeros(groups, np.int64)
                add_by_group(sums, codes, values)
                limbs[0] = sums & LIMB_MASK
                limbs[1] = sums >> LIMB_BITS
            else:
                wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
                _add_limbs(
                    limbs, [wide & wide.dtype.type(LIMB_MASK), wide >> LIMB_BITS], codes, groups
                )
        carry(limbs)
        return cls(limbs)

    @classmethod
    def of_parts(
        cls, parts: Mapping[int, NDArray[np.int64]], groups: int, width: int = INTEGER_WIDTH
    ) -> Self:
        """Return the sums of 64-bit integers of which parts have been added.

        Parameters
        ----------
        parts
            By bit position (0, 32 or 64), int64 sums, shape ``(groups,)``, below 2**62 in size.
        groups, width
            How many sums there are, and of how many limbs of 32 bits each.
        """
        limbs = np.zeros((width, groups), np.int64)
        for position, numbers in parts.items():
            limbs[position // LIMB_BITS] += numbers
        carry(limbs)
        return cls(limbs)

    @classmethod
    def of_decimals(cls, words: NDArray[np.int64], codes: NDArray[np.int64], groups: int) -> Self:
        """Add 128-bit integers by group.

        Parameters
        ----------
        words
            int64, shape ``(rows, 2)``: low word (its bits unsigned) and high word (signed).
        codes, groups
            As for :meth:`of_integers`.
        """
        limbs = np.zeros((DECIMAL_WIDTH, groups), np.int64)
        low, high = words[:, 0].view(np.uint64), words[:, 1]
        mask = np.uint64(LIMB_MASK)
        parts = [low & mask, low >> np.uint64(LIMB_BITS), high & LIMB_MASK, high >> LIMB_BITS]
        _add_limbs(limbs, parts, codes, groups)
        carry(limbs)
        return cls(limbs)

    @classmethod
    def merged(cls, states: Sequence[Any], codes: NDArray[np.int64], groups: int) -> Self:
        """Add partial sums into final groups; row ``i`` goes to group ``codes[i]``.

        Parameters
        ----------
        states
            The columns of :meth:`to_arrays`, in one chunk or many.
        """
        kinds = [state.type for state in states]
        limbs = np.zeros((_width(kinds), groups), np.int64)
        for place, state in enumerate(states):
            start = 0
            for chunk in state.chunks if isinstance(state, pa.ChunkedArray) else [state]:
                own = codes[start : start + len(chunk)]
                for more, numbers in enumerate(
                    _limbs(numpy_array(chunk), last=place + 1 == len(states))
                ):
                    _add_numbers(limbs[2 * place + more], numbers, own)
                start += len(chunk)
        carry(limbs)
        return cls(limbs)

    def to_arrays(self) -> list[pa.Array]:
        """Lay the sums out as words of two limbs, int64, the lowest first.

        A limb that is left at the top is one int32: no sum of 2**31 rows is wider.
        """
        low, high = self.limbs[0::2], self.limbs[1::2]
        words = [
            arrow_array(one | (other << LIMB_BITS)) for one, other in zip(low, high, strict=False)
        ]
        top = [arrow_array(limb.astype(np.int32)) for limb in low[len(high) :]]
        return [*words, *top]

    @classmethod
    def from_arrays(cls, arrays: Sequence[pa.Array]) -> Self:
        """Rebuild sums from the columns of :meth:`to_arrays`."""
        limbs: list[NDArray[np.int64]] = []
        for place, array in enumerate(arrays, 1):
            limbs += _limbs(numpy_array(array), last=place == len(arrays))
        return cls(np.stack(limbs))

    def to_integers(self, *, signed: bool) -> tuple[NDArray[Any], BoolArray]:
        """Return the sums as 64-bit integers, and which of them do not fit.

        Returns
        -------
        sums : numpy.ndarray
            int64 or uint64, shape ``(groups,)``; meaningless where ``overflow``.
        overflow : numpy.ndarray
            Bool, shape ``(groups,)``.
        """
        low, high = self.limbs[0], self.limbs[1]
        rest = self.limbs[2:]
        sums = (high << LIMB_BITS) | low
        # What lies above 64 bits must be the sign of a signed result, or nothing.
        fill = np.where(sums < 0, -1, 0) if signed else np.zeros(self.groups, np.int64)
        lower = fill & LIMB_MASK
        overflow = rest[-1] != fill
        for column in rest[:-1]:
            overflow |= column != lower
        return (sums if signed else sums.view(np.uint64)), overflow

    def to_words(self) -> NDArray[np.int64]:
        """Return six-limb sums as two's complement words.

        Returns
        -------
        numpy.ndarray
            int64, shape ``(groups, 3)``, lowest word first.
        """
        words = np.empty((self.groups, 3), np.int64)
        for place in range(3):
            words[:, place] = (self.limbs[2 * place + 1] << LIMB_BITS) | self.limbs[2 * place]
        return words

    def number(self, group: int) -> int:
        """Return one sum as a Python integer."""
        return sum(int(limb) << (LIMB_BITS * k) for k, limb in enumerate(self.limbs[:, group]))

    def mean_floats(self, counts: NDArray[np.int64], scale: int = 0) -> NDArray[np.float64]:
        """Return ``sum / (count * 10**scale)``, correctly rounded once.

        Parameters
        ----------
        counts
            int64, shape ``(groups,)``. Groups of none give 0.0; callers make them missing.
        scale
            Decimal digits behind the point; may be negative.

        Returns
        -------
        numpy.ndarray
            float64, shape ``(groups,)``.
        """
        if scale < 0 or (self.groups and int(counts.max()) >= _DIVISOR_LIMIT):
            return self._mean_floats_one_by_one(counts, scale)
        negative, limbs = magnitude(self.limbs)
        # Division by 10**38 and 2**31 takes 158 bits away; 64 must remain.
        extra = 4 if scale == 0 else 7
        limbs = np.concatenate([np.zeros((extra, self.groups), np.int64), limbs])
        limbs, remainders = divide(limbs, np.maximum(counts, 1))
        sticky = remainders != 0
        while scale > 0:
            step = min(scale, _DECIMAL_STEP)
            limbs, remainders = divide(limbs, np.full(self.groups, 10**step))
            sticky |= remainders != 0
            scale -= step
        means = to_floats(limbs, -extra * LIMB_BITS, sticky)
        return np.where(negative, -means, means)

    def _mean_floats_one_by_one(self, counts: NDArray[np.int64], scale: int) -> NDArray[np.float64]:
        above, below = 10 ** max(0, -scale), 10 ** max(0, scale)
        # True division of Python integers is correctly rounded.
        means = [
            self.number(group) * above / (max(1, int(count)) * below)
            for group, count in enumerate(counts)
        ]
        return np.array(means, np.float64)

    def mean_integers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nearest integer to ``sum / count``, half to even.

        Parameters
        ----------
        counts
            int64, shape ``(groups,)``. Groups of none give 0.

        Returns
        -------
        numpy.ndarray
            int64, shape ``(groups,)``. The mean of 64-bit integers always fits.
        """
        counts = np.maximum(counts, 1)
        if self.groups and int(counts.max()) >= _DIVISOR_LIMIT:
            return np.array(
                [_nearest(self.number(group), int(n)) for group, n in enumerate(counts)], np.int64
            )
        negative, limbs = magnitude(self.limbs)
        limbs, remainders = divide(limbs, counts)
        quotients = ((limbs[1] << LIMB_BITS) | limbs[0]).view(np.uint64)
        twice = 2 * remainders
        up = (twice > counts) | ((twice == counts) & ((limbs[0] & 1) == 1))
        means: NDArray[np.int64] = (quotients + up.astype(np.uint64)).view(np.int64)
        # Of -2**63 the magnitude wraps to itself, and so does its negation.
        return np.where(negative, -means, means)


def _width(kinds: Sequence[pa.DataType]) -> int:
    return sum(2 if kind == pa.int64() else 1 for kind in kinds)


def _limbs(words: NDArray[Any], *, last: bool) -> list[NDArray[np.int64]]:
    """Take words apart; the last has the sign."""
    if words.dtype == np.int32:
        return [words.astype(np.int64)]
    high = words >> LIMB_BITS
    return [words & LIMB_MASK, high if last else high & LIMB_MASK]


def _add_numbers(
    sums: NDArray[np.int64], numbers: NDArray[np.int64], codes: NDArray[np.int64]
) -> None:
    if numbers.any():  # upper limbs mostly are zero
        add_by_group(sums, codes, numbers)


def added_column(column: Any, codes: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Add a column of int64 without nulls by group; no sum passes 64 bits.

    Parameters
    ----------
    column
        Array or chunked array, ``rows`` long.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(groups,)``.
    """
    sums = np.zeros(groups, np.int64)
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        _add_numbers(sums, numpy_array(chunk), codes[start : start + len(chunk)])
        start += len(chunk)
    return sums


def _nearest(numerator: int, denominator: int) -> int:
    quotient, remainder = divmod(numerator, denominator)
    return quotient + (2 * remainder + (quotient & 1) > denominator)


def _add_limbs(
    limbs: NDArray[np.int64], parts: Sequence[NDArray[Any]], codes: NDArray[np.int64], groups: int
) -> None:
    """Add the limbs of every row into ``limbs`` in place, in chunks that stay exact."""
    for start in range(0, len(codes), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        for place, part in enumerate(parts):
            limbs[place] += np.bincount(codes[rows], part[rows], groups).astype(np.int64)
        carry(limbs)
