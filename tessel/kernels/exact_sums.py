"""Exact sums by group of anything that has a number, the same bits for every order and cut of rows.

A sum is a fixed-point number on one grid of powers of two, as long as it has to be (a
superaccumulator, Kulisch). Doubles, integers, the words of decimals, whole numbers times powers of
two and products of doubles are added without rounding; sums add up, slide along rows, and are
rounded once, as quotients or integers. Overflow is a property of what a sum is rounded to:
partial sums may leave any type and come back. Infinities are flags beside the sums.

The state is canonical: the same multiset of values has the same state, however it was cut and
merged. What Arrow columns are summed as is in :mod:`tessel.clauses.aggregates.kernels.sums`; loops
are in :mod:`tessel.kernels.exact_adding` and :mod:`tessel.kernels.exact_results`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.cached import cached
from tessel.kernels.accumulators import NOWHERE, Accumulators
from tessel.kernels.exact_adding import (
    LIMB_BITS,
    add_integers,
    add_totals,
    find_limbs,
    slide_window,
)
from tessel.kernels.exact_results import round_integers, round_sums, write_words
from tessel.kernels.group_rows import rows_of_runs
from tessel.lazy import dataclass

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]

POSITIVE, NEGATIVE = 1, 2
"""Flags of sums with infinite values; with values of both kinds, both."""

_LARGEST = (1 << 63) - 1
_DECIMAL_STEP = 9
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class ExactSums:
    """One exact sum a group.

    Group ``g`` sums to ``sum(limbs[j] * 2**(32 * (first_limb[g] + j - ends[g])))`` over its own
    limbs ``j`` in ``[ends[g], ends[g + 1])``: two's complement, of which the last limb has the sign
    and the others stand for their bits. The first is not 0, and no limb is there for the sign alone
    where that below has it.

    Attributes
    ----------
    first_limb
        int32, shape ``(groups,)``; 0 where the sum is zero.
    ends
        int64, shape ``(groups + 1,)``.
    limbs
        int32, shape ``(ends[-1],)``.
    infinities
        uint8, shape ``(groups,)``: `POSITIVE` and `NEGATIVE`, where any value was infinite; the
        sum is that of the others.
    """

    first_limb: NDArray[np.int32]
    ends: Integers
    limbs: NDArray[np.int32]
    infinities: NDArray[np.uint8]

    @property
    def groups(self) -> int:
        """How many sums there are."""
        return len(self.first_limb)

    # --- adding -----------------------------------------------------------------------------------

    @classmethod
    def _of(
        cls, accumulated: Accumulators, infinities: NDArray[np.uint8] | None = None
    ) -> ExactSums:
        first_limb, ends, limbs = accumulated.normalized()
        if infinities is None:
            infinities = np.zeros(len(first_limb), np.uint8)
        return cls(first_limb, ends, limbs, infinities)

    @classmethod
    def of_doubles(cls, values: Doubles, codes: Integers, groups: int) -> ExactSums:
        """Add doubles by group.

        Parameters
        ----------
        values
            float64, shape ``(rows,)``; no NaN. Infinities are allowed.
        codes
            int64, shape ``(rows,)``, in ``[0, groups)``.
        groups
            How many groups there are; those without rows sum to zero.
        """
        accumulated = Accumulators.of_factors([values], codes, groups)
        if accumulated is not None:
            return cls._of(accumulated)
        finite = np.isfinite(values)
        infinities = np.zeros(groups, np.uint8)
        infinities[codes[values == np.inf]] = POSITIVE
        infinities[codes[values == -np.inf]] |= np.uint8(NEGATIVE)
        found = cls.of_doubles(values[finite], codes[finite], groups)
        return replace(found, infinities=infinities)

    @classmethod
    def of_products(
        cls, left: Sequence[Doubles], right: Sequence[Doubles], codes: Integers, groups: int
    ) -> ExactSums:
        """Add products by group.

        An infinite factor makes an infinite product; with a zero, that of both signs.

        Parameters
        ----------
        left, right
            Factors as sums of one double or more: float64, each of shape ``(rows,)``; no NaN, and
            only a sum of one is infinite.
        codes, groups
            As for `of_doubles`.
        """
        pairs = [
            Accumulators.of_factors(pair, codes, groups) for pair in itertools.product(left, right)
        ]
        found = [cls._of(accumulated) for accumulated in pairs if accumulated is not None]
        if len(found) == len(pairs):
            if len(found) == 1:
                return found[0]
            return cls.total(found, np.tile(np.arange(groups), len(found)), groups)
        finite = np.isfinite(left[0]) & np.isfinite(right[0])
        some, others = codes[finite], codes[~finite]
        one, other = (sum(part[~finite] for part in parts) for parts in (left, right))
        with np.errstate(invalid="ignore"):
            products = one * other
        infinities = np.zeros(groups, np.uint8)
        infinities[others[~(products < 0)]] = POSITIVE
        infinities[others[~(products > 0)]] |= np.uint8(NEGATIVE)
        left, right = ([part[finite] for part in parts] for parts in (left, right))
        return replace(cls.of_products(left, right, some, groups), infinities=infinities)

    @classmethod
    def of_integers(cls, values: NDArray[Any], codes: Integers, groups: int) -> ExactSums:
        """Add integers of any width up to 64 bits, signed or not, by group."""
        largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
        if largest * len(values) <= _LARGEST:
            totals = np.zeros(groups, np.int64)
            add_by_group(totals, codes, values)
            return cls.of_parts({0: totals}, groups)
        signed = values.dtype.kind != "u"
        wide = np.ascontiguousarray(values, np.int64 if signed else np.uint64).view(np.int64)
        accumulated = Accumulators.of_integers(codes, groups, bits=64)
        accumulated.add(add_integers, [wide], codes, 0, signed)
        return cls._of(accumulated)

    @classmethod
    def of_decimals(cls, words: Integers, codes: Integers, groups: int) -> ExactSums:
        """Add integers of 128 bits by group.

        Parameters
        ----------
        words
            int64, shape ``(rows, 2)``: low word (its bits unsigned) and high word (signed).
        codes, groups
            As for `of_doubles`.
        """
        low, high = words.T
        if np.array_equal(high, low >> 63):
            return cls.of_integers(low, codes, groups)
        accumulated = Accumulators.of_integers(codes, groups, bits=128)
        for place, word in enumerate((low, high)):
            accumulated.add(add_integers, [word], codes, 64 * place, place > 0)
        return cls._of(accumulated)

    @classmethod
    def of_parts(cls, parts: Mapping[int, Integers], groups: int) -> ExactSums:
        """Return the sums of whole numbers times powers of two.

        Parameters
        ----------
        parts
            By exponent, int64 below ``2**62`` in size, shape ``(groups,)``; a single one may be
            any.
        """
        parts = {exponent: numbers for exponent, numbers in parts.items() if numbers.any()}
        lowest, highest = (edge(parts, default=0) // LIMB_BITS for edge in (min, max))
        if all(exponent % LIMB_BITS == 0 for exponent in parts):
            accumulated = Accumulators.of(_NONE, groups, lowest, highest + 1)
            for exponent, numbers in parts.items():
                accumulated.put(exponent // LIMB_BITS - lowest, numbers)
            return cls._of(accumulated)
        codes = np.arange(groups)
        accumulated = Accumulators.of(codes, groups, lowest, highest + 3)
        for exponent, numbers in parts.items():
            accumulated.add(add_integers, [numbers], codes, exponent, True)
        return cls._of(accumulated)

    @classmethod
    def total(cls, parts: Sequence[ExactSums], codes: Integers, groups: int) -> ExactSums:
        """Add the sums of all parts by group: the ``i``-th of them goes to ``codes[i]``."""
        ranges = [part._limb_range for part in parts if len(part.limbs)]
        lowest = min((first for first, _ in ranges), default=0)
        above = max((last for _, last in ranges), default=0)
        codes = np.ascontiguousarray(codes)
        accumulated = Accumulators.of(
            codes, groups, lowest, above, lambda: cls.stacked(parts)._limbs_of_rows()
        )
        infinities = np.zeros(groups, np.uint8)
        start = 0
        for part in parts:
            own = codes[start : start + part.groups]
            accumulated.add_sums((part.first_limb, part.ends, part.limbs), own)
            for flag in (POSITIVE, NEGATIVE) if part.infinities.any() else ():
                infinities[own[(part.infinities & flag) != 0]] |= np.uint8(flag)
            start += part.groups
        return cls._of(accumulated, infinities)

    @classmethod
    def stacked(cls, parts: Sequence[ExactSums]) -> ExactSums:
        """Return the sums of several as those of more groups; of one at least."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part.limbs) for part in parts)])
        ends = [part.ends[1:] + start for part, start in zip(parts, starts, strict=False)]
        return cls(
            np.concatenate([part.first_limb for part in parts]),
            np.concatenate([starts[:1], *ends]),
            np.concatenate([part.limbs for part in parts]),
            np.concatenate([part.infinities for part in parts]),
        )

    def take(self, groups: Integers) -> ExactSums:
        """Return some of the sums."""
        starts, stops = self.ends[groups], self.ends[groups + 1]
        ends = np.concatenate([self.ends[:1] * 0, np.cumsum(stops - starts)])
        limbs = self.limbs[rows_of_runs(starts, stops)]
        return ExactSums(self.first_limb[groups], ends, limbs, self.infinities[groups])

    def windows(
        self, starts: Integers, stops: Integers, order: Integers | None = None
    ) -> ExactSums:
        """Return the sum of the sums ``[starts[i], stops[i])`` for each ``i``.

        Parameters
        ----------
        starts, stops
            int64, shape ``(windows,)``, ``starts[i] <= stops[i]``. Neither had better go back
            often: a window that does begins anew.
        order
            int64: which sum has which place; None where each has its own.
        """
        lowest, above = self._limb_range if len(self.limbs) else (0, 0)
        cells, copy = np.zeros((2, above - lowest + 1), np.int64)
        order = np.arange(self.groups) if order is None else np.ascontiguousarray(order)
        starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
        first_limb, ends = np.empty(len(starts), np.int32), np.empty(len(starts) + 1, np.int64)
        # What is not written to takes no memory.
        limbs = np.empty(len(starts) * len(cells), np.int32)
        slide_window(
            self.first_limb, self.ends, self.limbs, order, starts, stops, lowest, cells, copy,
            first_limb, ends, limbs,
        )  # fmt: skip
        infinities = np.zeros(len(starts), np.uint8)
        for flag in (POSITIVE, NEGATIVE) if self.infinities.any() else ():
            so_far = np.cumsum([0, *((self.infinities[order] & flag) != 0)])
            infinities[so_far[stops] > so_far[starts]] |= np.uint8(flag)
        return ExactSums(first_limb, ends, limbs[: ends[-1]], infinities)

    # --- results ----------------------------------------------------------------------------------

    def rounded(self, counts: Integers | None = None, *, scale: int = 0) -> Doubles:
        """Return the sums, or the sums over ``counts * 10**scale``, correctly rounded once.

        Parameters
        ----------
        counts
            int64, shape ``(groups,)``: divide by these (0 counts as 1).
        scale
            Decimal digits behind the point; may be negative.

        Returns
        -------
        numpy.ndarray
            float64, shape ``(groups,)``. Zero is +0.0; past the range or with an infinite value
            ±inf; NaN where infinities of both signs met.
        """
        if scale < 0:
            above, divisors = 10**-scale, np.maximum(1 if counts is None else counts, 1)
            each = np.broadcast_to(divisors, self.groups).tolist()
            # True division of Python integers is correctly rounded.
            return np.array([self.number(group) * above / n for group, n in enumerate(each)])
        divisors = decimal_steps(scale)
        results = np.empty(self.groups, np.int64)
        round_sums(
            self.first_limb, self.ends, self.limbs,
            _NONE if counts is None else np.ascontiguousarray(counts),
            divisors, np.zeros(len(divisors), np.uint64), results,
        )  # fmt: skip
        found = results.view(np.float64)
        if self.infinities.any():
            for flags, value in ((1, np.inf), (2, -np.inf), (3, np.nan)):
                found[self.infinities == flags] = value
        return found

    def rounded_integers(self, counts: Integers) -> Integers:
        """Return sums of integers over counts to the nearest integer, half to even.

        Parameters
        ----------
        counts
            int64, shape ``(groups,)``; 0 counts as 1. The mean of 64-bit integers always fits.
        """
        results = np.empty(self.groups, np.int64)
        counts = np.ascontiguousarray(counts)
        round_integers(self.first_limb, self.ends, self.limbs, counts, results)
        return results

    def words(self, width: int, exponent: int = 0) -> tuple[Integers, Bools]:
        """Return ``sum / 2**exponent``, rounded down, as two's complement words.

        Returns
        -------
        words : numpy.ndarray
            int64, shape ``(groups, width)``, lowest word first.
        fits : numpy.ndarray
            Bool, shape ``(groups,)``: whether so many words hold the number.
        """
        words = np.empty((self.groups, width), np.int64)
        fits = np.empty(self.groups, np.bool_)
        write_words(self.first_limb, self.ends, self.limbs, exponent, words, fits)
        return words, fits

    def integers(self, *, signed: bool) -> tuple[NDArray[Any], Bools]:
        """Return sums of integers in 64 bits, and which of them do not fit."""
        if signed:
            words, fits = self.words(1)
            return words[:, 0], ~fits
        words, _ = self.words(2)
        return words[:, 0].view(np.uint64), words[:, 1] != 0

    def numbers(self) -> tuple[list[int], list[int]]:
        """Return Python integers and exponents: sum ``g`` is ``integers[g] * 2**exponents[g]``."""
        ends, limbs = self.ends.tolist(), self.limbs.astype("<i4").tobytes()
        integers = [
            int.from_bytes(limbs[4 * start : 4 * stop], "little", signed=True)
            for start, stop in itertools.pairwise(ends)
        ]
        return integers, (self.first_limb.astype(np.int64) * LIMB_BITS).tolist()

    def number(self, group: int) -> int:
        """Return a sum of integers as a Python integer."""
        limbs = self.limbs[self.ends[group] : self.ends[group + 1]].astype("<i4").tobytes()
        found = int.from_bytes(limbs, "little", signed=True)
        return found << (LIMB_BITS * int(self.first_limb[group]))

    @property
    def bit_range(self) -> tuple[int, int]:
        """Exponents of which all sums are multiples, and below which they all are; ``(0, 0)``."""
        if not len(self.limbs):
            return 0, 0
        some = np.diff(self.ends) > 0
        firsts = self.limbs[self.ends[:-1][some]][self.first_limb[some] == self._limb_range[0]]
        bits = int(np.bitwise_or.reduce(firsts))
        zeros = (bits & -bits).bit_length() - 1
        return self._limb_range[0] * LIMB_BITS + zeros, self._limb_range[1] * LIMB_BITS

    @cached
    def _limb_range(self) -> tuple[int, int]:
        """The lowest limb of all sums and the one above the highest; one at least is not zero."""
        found = np.empty(2, np.int64)
        find_limbs(self.first_limb, self.ends, found)
        return int(found[0]), int(found[1])

    def _limbs_of_rows(self) -> tuple[Integers, Integers]:
        """Return the lowest limb of each sum and the one above the highest."""
        lengths = np.diff(self.ends)
        low = np.where(lengths > 0, self.first_limb.astype(np.int64), NOWHERE)
        return low, np.where(lengths > 0, low + lengths, -NOWHERE)


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
    add_totals(np.ascontiguousarray(codes), numbers, sums)


def decimal_steps(digits: int) -> Integers:
    """Return factors of ``10**digits`` of one limb each."""
    steps = [10**_DECIMAL_STEP] * (digits // _DECIMAL_STEP)
    rest = digits % _DECIMAL_STEP
    return np.array([*steps, 10**rest] if rest else steps, np.int64)
