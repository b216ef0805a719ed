"""Exact sums by group of anything that has a number, the same bits for every order and cut of rows.

A sum is a fixed-point number on one grid of powers of two, as long as it has to be (a
superaccumulator, Kulisch). Doubles, integers, the words of decimals, whole numbers times powers of
two and products of doubles are added without rounding; sums add up, slide along rows, and are
rounded once, as quotients or integers. Overflow is a property of what a sum is rounded to:
partial sums may leave any type and come back. Infinities are flags beside the sums.

Limbs are canonical: the same values have the same, however they were cut and merged. Arrow
columns become numbers in :mod:`tessel.clauses.aggregates.kernels.sums`; loops are in
:mod:`tessel.kernels.exact_adding` and :mod:`tessel.kernels.exact_results`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.cached import cached
from tessel.kernels.accumulators import NOWHERE, Accumulators, Limbs
from tessel.kernels.exact_adding import (
    LIMB_BITS,
    add_by_group,
    add_integers,
    find_limbs,
    slide_window,
)
from tessel.kernels.exact_results import decimal_steps, round_integers, round_sums, write_words
from tessel.kernels.group_rows import rows_of_runs

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]

POSITIVE, NEGATIVE = 1, 2
"""Flags of sums with infinite values; with values of both kinds, both."""

_LARGEST, _ROOM = (1 << 63) - 1, 1 << 62
_EXACT = 1 << 53
"""Whole numbers up to this are doubles, and a quotient of two is rounded once."""


class ExactSums:
    """One exact sum a group, which nothing changes.

    Sums are held in parts, whole numbers times powers of two, as kernels leave them, and become
    limbs where somebody asks for these: integers, and most quotients of them, do without.

    Parameters
    ----------
    groups
        How many sums there are.
    limbs, parts
        The sums, one of both; parts by exponent, without those that are 0 in all groups.
    infinities
        uint8, shape ``(groups,)``: `POSITIVE` and `NEGATIVE`, where a value was; None for nowhere.
    largest
        A bound on the size of each number of the parts.
    """

    def __init__(
        self,
        groups: int,
        limbs: Limbs | None = None,
        infinities: NDArray[np.uint8] | None = None,
        parts: Mapping[int, Integers] | None = None,
        largest: int = 0,
    ) -> None:
        self.groups = groups
        self._parts, self._largest = parts, largest
        self.infinities = np.zeros(groups, np.uint8) if infinities is None else infinities
        if limbs is not None:
            self.limbs = limbs

    @cached
    def limbs(self) -> Limbs:
        """The sums as normalized numbers."""
        return Accumulators.of_parts(self._parts or {}, self.groups).normalized()

    @property
    def lines(self) -> Iterable[NDArray[Any]]:
        """The arrays that are held."""
        if self._parts is not None:
            return self._parts.values()
        return *self.limbs, self.infinities

    @property
    def _whole(self) -> Integers | None:
        """The sums where they are integers of 64 bits, which need no limbs; else None."""
        if self._parts is None or self._parts.keys() - {0}:
            return None
        return self._parts[0] if self._parts else np.zeros(self.groups, np.int64)

    # --- adding -----------------------------------------------------------------------------------

    @classmethod
    def of_doubles(cls, values: Doubles, codes: Integers, groups: int) -> ExactSums:
        """Add doubles by group.

        Parameters
        ----------
        values
            float64, shape ``(rows,)``; no NaN. Infinities are allowed.
        codes, groups
            int64, shape ``(rows,)``, in ``[0, groups)``; groups without rows sum to zero.
        """
        return cls._of_factors([[values]], codes, groups)

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
        return cls._of_factors([left, right], codes, groups)

    @classmethod
    def _of_factors(
        cls, factors: Sequence[Sequence[Doubles]], codes: Integers, groups: int
    ) -> ExactSums:
        made = [
            Accumulators.of_factors(each, codes, groups) for each in itertools.product(*factors)
        ]
        found = [cls(groups, each.normalized()) for each in made if each is not None]
        if len(found) == len(made):
            if len(found) == 1:
                return found[0]
            return cls.total(found, np.tile(np.arange(groups), len(found)), groups)
        finite = np.logical_and.reduce([np.isfinite(parts[0]) for parts in factors])
        with np.errstate(invalid="ignore"):
            products = math.prod(sum(part[~finite] for part in parts) for parts in factors)
        infinities, others = np.zeros(groups, np.uint8), codes[~finite]
        infinities[others[~(products < 0)]] = POSITIVE
        infinities[others[~(products > 0)]] |= np.uint8(NEGATIVE)
        rest = [[part[finite] for part in parts] for parts in factors]
        return cls(groups, cls._of_factors(rest, codes[finite], groups).limbs, infinities)

    @classmethod
    def of_integers(cls, values: NDArray[Any], codes: Integers, groups: int) -> ExactSums:
        """Add integers of any width up to 64 bits, signed or not, by group."""
        largest = _largest(values) * len(values)
        if largest <= _LARGEST:
            totals = np.zeros(groups, np.int64)
            add_by_group(totals, codes, values)
            return cls.of_parts({0: totals}, groups, largest)
        signed = values.dtype.kind != "u"
        wide = np.ascontiguousarray(values, np.int64 if signed else np.uint64).view(np.int64)
        accumulated = Accumulators.of_integers(codes, groups, bits=64)
        accumulated.add(add_integers, [wide], codes, 0, signed)
        return cls(groups, accumulated.normalized())

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
        return cls(groups, accumulated.normalized())

    @classmethod
    def of_parts(
        cls, parts: Mapping[int, Integers], groups: int, largest: int = _LARGEST
    ) -> ExactSums:
        """Return the sums of whole numbers times powers of two.

        Parameters
        ----------
        parts
            By exponent, int64, shape ``(groups,)``; of several, below ``2**62`` in size.
        largest
            A bound on the size of each number; sums are added in parts while 64 bits hold them.
        """
        some = {exponent: numbers for exponent, numbers in parts.items() if numbers.any()}
        return cls(groups, parts=some, largest=largest)

    @classmethod
    def total(cls, parts: Sequence[ExactSums], codes: Integers, groups: int) -> ExactSums:
        """Add the sums of all parts by group: the ``i``-th of them goes to ``codes[i]``."""
        largest = sum(part._largest for part in parts)
        if largest < _ROOM and all(part._parts is not None for part in parts):
            held = [(part._parts or {}, np.zeros(part.groups, np.int64)) for part in parts]
            sums: dict[int, Integers] = {}
            for exponent in {exponent for own, _ in held for exponent in own}:
                numbers = np.concatenate([own.get(exponent, nothing) for own, nothing in held])
                sums[exponent] = np.zeros(groups, np.int64)
                add_by_group(sums[exponent], codes, numbers)
            return cls(groups, parts=sums, largest=largest)
        ranges = [part._limb_range for part in parts if len(part.limbs.limbs)]
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
            start += part.groups
            accumulated.add_sums(part.limbs, own)
            for flag in (POSITIVE, NEGATIVE) if part.infinities.any() else ():
                infinities[own[(part.infinities & flag) != 0]] |= np.uint8(flag)
        return cls(groups, accumulated.normalized(), infinities)

    @classmethod
    def stacked(cls, parts: Sequence[ExactSums]) -> ExactSums:
        """Return the sums of several as those of more groups; of one at least."""
        if len(parts) == 1:
            return parts[0]
        firsts, all_ends, limbs = zip(*(part.limbs for part in parts), strict=True)
        starts = np.cumsum([0, *map(len, limbs)])
        moved = (own[1:] + start for own, start in zip(all_ends, starts, strict=False))
        ends = np.concatenate([starts[:1], *moved])
        held = Limbs(np.concatenate(firsts), ends, np.concatenate(limbs))
        return cls(len(held.first), held, np.concatenate([part.infinities for part in parts]))

    def take(self, groups: Integers) -> ExactSums:
        """Return some of the sums."""
        if self._parts is not None:
            parts = {exponent: numbers[groups] for exponent, numbers in self._parts.items()}
            return ExactSums(len(groups), parts=parts, largest=self._largest)
        first, ends, limbs = self.limbs
        starts, stops = ends[groups], ends[groups + 1]
        ends = np.concatenate([ends[:1] * 0, np.cumsum(stops - starts)])
        held = Limbs(first[groups], ends, limbs[rows_of_runs(starts, stops)])
        return ExactSums(len(groups), held, self.infinities[groups])

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
        lowest, above = self._limb_range if len(self.limbs.limbs) else (0, 0)
        cells, copy = np.zeros((2, above - lowest + 1), np.int64)
        order = np.arange(self.groups) if order is None else np.ascontiguousarray(order)
        starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
        first_limb, ends = np.empty(len(starts), np.int32), np.empty(len(starts) + 1, np.int64)
        # What is not written to takes no memory.
        limbs = np.empty(len(starts) * len(cells), np.int32)
        slide_window(
            *self.limbs, order, starts, stops, lowest, cells, copy, first_limb, ends, limbs
        )
        infinities = np.zeros(len(starts), np.uint8)
        for flag in (POSITIVE, NEGATIVE) if self.infinities.any() else ():
            so_far = np.cumsum([0, *((self.infinities[order] & flag) != 0)])
            infinities[so_far[stops] > so_far[starts]] |= np.uint8(flag)
        return ExactSums(len(starts), Limbs(first_limb, ends, limbs[: ends[-1]]), infinities)

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
        whole, power = self._whole, 10**scale
        most = power * (1 if counts is None else max(1, int(counts.max(initial=1))))
        if whole is not None and most <= _EXACT and _largest(whole) <= _EXACT:
            return np.asarray(whole / (power if counts is None else np.maximum(counts, 1) * power))
        divisors = decimal_steps(scale)
        results = np.empty(self.groups, np.int64)
        given = np.zeros(0, np.int64) if counts is None else np.ascontiguousarray(counts)
        remainders = np.zeros(len(divisors), np.uint64)
        round_sums(*self.limbs, given, divisors, remainders, results)
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
        round_integers(*self.limbs, np.ascontiguousarray(counts), results)
        return results

    def words(self, width: int, exponent: int = 0) -> tuple[Integers, NDArray[np.bool_]]:
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
        write_words(*self.limbs, exponent, words, fits)
        return words, fits

    def integers(self, *, signed: bool) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return sums of integers in 64 bits, and which of them do not fit."""
        whole = self._whole
        if whole is not None and (signed or not (whole < 0).any()):
            return whole.view(np.int64 if signed else np.uint64), np.zeros(self.groups, np.bool_)
        if signed:
            words, fits = self.words(1)
            return words[:, 0], ~fits
        words, _ = self.words(2)
        return words[:, 0].view(np.uint64), words[:, 1] != 0

    def numbers(self) -> tuple[list[int], list[int]]:
        """Return Python integers and exponents: sum ``g`` is ``integers[g] * 2**exponents[g]``."""
        first, ends, limbs = self.limbs
        octets = limbs.astype("<i4").tobytes()
        integers = [
            int.from_bytes(octets[4 * start : 4 * stop], "little", signed=True)
            for start, stop in itertools.pairwise(ends.tolist())
        ]
        return integers, (first.astype(np.int64) * LIMB_BITS).tolist()

    def number(self, group: int) -> int:
        """Return a sum of integers as a Python integer."""
        (integer,), (exponent,) = self.take(np.array([group])).numbers()
        return integer << exponent

    @property
    def bit_range(self) -> tuple[int, int]:
        """Exponents of which all sums are multiples, and below which they all are; ``(0, 0)``."""
        first, ends, limbs = self.limbs
        if not len(limbs):
            return 0, 0
        some = np.diff(ends) > 0
        firsts = limbs[ends[:-1][some]][first[some] == self._limb_range[0]]
        bits = int(np.bitwise_or.reduce(firsts))
        zeros = (bits & -bits).bit_length() - 1
        return self._limb_range[0] * LIMB_BITS + zeros, self._limb_range[1] * LIMB_BITS

    @cached
    def _limb_range(self) -> tuple[int, int]:
        """The lowest limb of all sums and the one above the highest; one at least is not zero."""
        found = np.empty(2, np.int64)
        find_limbs(self.limbs.first, self.limbs.ends, found)
        return int(found[0]), int(found[1])

    def _limbs_of_rows(self) -> tuple[Integers, Integers]:
        """Return the lowest limb of each sum and the one above the highest."""
        lengths = np.diff(self.limbs.ends)
        low = np.where(lengths > 0, self.limbs.first.astype(np.int64), NOWHERE)
        return low, np.where(lengths > 0, low + lengths, -NOWHERE)


def _largest(numbers: NDArray[Any]) -> int:
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
