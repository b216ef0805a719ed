"""Correctly rounded sums of doubles by group, the same bits for every order and cut of the rows.

The sum is kept exactly and rounded once, at the end. Two steps:

1. *Splitting.* Doubles are cut into parts whose floating-point sums are exact
   (:mod:`~tessel.clauses.aggregates.kernels.part_sums`).
2. *Limbs.* Part sums are integers times a power of two. They add up in a fixed-point number
   of 32-bit limbs over the whole range of doubles (a superaccumulator, Kulisch), of which
   only the limbs in use are kept.

Infinities are flags beside the sums. The state is canonical: the same multiset of values gives the
same state, however it was cut and merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, different, numpy_array
from tessel.clauses.aggregates.kernels.limbs import (
    LIMB_BITS,
    add_shifted,
    carry,
    divide,
    magnitude,
    to_floats,
)
from tessel.kernels.limb_lines import round_sums, sums_of_doubles, sums_of_parts, sums_of_sums

if TYPE_CHECKING:
    from tessel.clauses.aggregates.kernels.part_sums import PartSums

__all__ = ["FloatSums"]

# Cells of dense limbs alive at a time while states are made or rounded.
_BLOCK_CELLS = 1 << 17
_DIVISOR_LIMIT = 1 << 31
# Limbs side by side are worth it while not most of them are empty.
_SPARSE_LIMBS = 8

BoolArray = NDArray[np.bool_]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class FloatSums:
    """One exact sum of doubles a group.

    Group ``g`` sums to ``sum(limbs[j] * 2**(32 * (first_limb[g] + j - ends[g]) - 1074))`` over its
    own limbs ``j`` in ``[ends[g], ends[g + 1])``. All limbs of a group have one sign, none is
    ``2**32`` or more in size, and neither the first nor the last is zero.

    Attributes
    ----------
    first_limb
        int32, shape ``(groups,)``; 0 where the sum is zero.
    ends
        int64, shape ``(groups + 1,)``.
    limbs
        int64, shape ``(ends[-1],)``.
    positive_infinity, negative_infinity
        Bool, shape ``(groups,)``: whether any value was infinite.
    """

    first_limb: NDArray[np.int32]
    ends: NDArray[np.int64]
    limbs: NDArray[np.int64]
    positive_infinity: BoolArray
    negative_infinity: BoolArray

    @property
    def groups(self) -> int:
        """How many sums there are."""
        return len(self.first_limb)

    @classmethod
    def of_values(cls, values: NDArray[np.float64], codes: Codes, groups: int) -> Self:
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
        from tessel.clauses.aggregates.kernels.part_sums import largest_size, part_sums

        flags = np.zeros((2, groups), np.bool_)
        if np.isinf(largest_size(values)):
            for flag, infinity in zip(flags, (np.inf, -np.inf), strict=True):
                flag[codes[values == infinity]] = True
            finite = np.isfinite(values)
            values, codes = values[finite], codes[finite]
        found = sums_of_doubles(values, codes, groups)
        if found is not None:
            return cls(*found, flags[0], flags[1])
        sums = part_sums(values, codes, groups)
        return cls(*_canonical(sums, groups), flags[0], flags[1])

    @classmethod
    def of_limbs(
        cls,
        limbs: NDArray[np.int64],
        lowest: int,
        positive_infinity: BoolArray,
        negative_infinity: BoolArray,
    ) -> Self:
        """Take sums as dense limbs of any sign.

        Parameters
        ----------
        limbs
            int64, shape ``(width, groups)``; changed. The two highest are there for the carries.
        lowest
            Number of the lowest limb.
        positive_infinity, negative_infinity
            Bool, shape ``(groups,)``.
        """
        carry(limbs)
        negative, limbs = magnitude(limbs)
        first, lengths, kept = _trimmed(np.where(negative, -limbs, limbs), lowest)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(first, ends, kept, positive_infinity, negative_infinity)

    @classmethod
    def stacked(cls, parts: Sequence[FloatSums]) -> Self:
        """Return the sums of several as those of more groups; of one at least."""
        lengths = np.concatenate([np.diff(part.ends) for part in parts])
        return cls(
            np.concatenate([part.first_limb for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.concatenate([part.limbs for part in parts]),
            np.concatenate([part.positive_infinity for part in parts]),
            np.concatenate([part.negative_infinity for part in parts]),
        )

    @classmethod
    def of_parts(cls, parts: PartSums, groups: int) -> Self:
        """Return the sums of whole numbers times powers of two; no value was infinite.

        Parameters
        ----------
        parts
            By bit position above the lowest bit of doubles, int64 sums, shape ``(groups,)``.
        """
        none = np.zeros(groups, np.bool_)
        return cls(*_canonical(parts, groups), none, none)

    @classmethod
    def merged_arrays(cls, states: Sequence[Any], codes: Codes, groups: int) -> FloatSums:
        """Add partial sums, as the columns of :meth:`to_arrays`, into final groups.

        Parameters
        ----------
        states
            In one chunk or many, cut alike.
        codes
            int64: row ``i`` goes to group ``codes[i]``.
        groups
            How many final groups there are.
        """
        chunks = [s.chunks if isinstance(s, pa.ChunkedArray) else [s] for s in states]
        parts = [cls.from_arrays(arrays) for arrays in zip(*chunks, strict=True)]
        if not parts:
            parts = [cls.of_values(np.zeros(0), np.zeros(0, np.int64), 0)]
        if len(parts) == 1:
            return parts[0].merged(codes, groups)
        held = [(part.first_limb, part.ends, part.limbs) for part in parts]
        found = sums_of_sums(held, codes, groups)
        if found is None:
            return cls.stacked(parts).merged(codes, groups)
        positive = np.concatenate([part.positive_infinity for part in parts])
        negative = np.concatenate([part.negative_infinity for part in parts])
        return cls(*found, *_merged_flags(positive, negative, codes, groups))

    def merged(self, codes: Codes, groups: int) -> FloatSums:
        """Add partial sums into final groups; row ``i`` goes to group ``codes[i]``."""
        flags = _merged_flags(self.positive_infinity, self.negative_infinity, codes, groups)
        found = sums_of_sums([(self.first_limb, self.ends, self.limbs)], codes, groups)
        if found is not None:
            return FloatSums(*found, flags[0], flags[1])
        places, owners = self.places()
        targets = codes[owners]
        sums: PartSums = {}
        for place in different(places).tolist():
            here = places == place
            sums[place * LIMB_BITS] = total = np.zeros(groups, np.int64)
            np.add.at(total, targets[here], self.limbs[here])
        return FloatSums(*_canonical(sums, groups), flags[0], flags[1])

    def to_arrays(self) -> list[pa.Array]:
        """Lay the sums out as five columns: int32, list of uint32, and three of bool.

        Limbs are there without their sign, which is that of the sum.
        """
        sizes = arrow_array(np.abs(self.limbs).astype(np.uint32))
        below = np.zeros(self.groups, np.bool_)
        if self.limbs.min(initial=0) < 0:
            some = np.diff(self.ends) > 0
            below[some] = self.limbs[self.ends[:-1][some]] < 0
        return [
            arrow_array(self.first_limb),
            pa.ListArray.from_arrays(arrow_array(self.ends.astype(np.int32)), sizes),
            arrow_array(below),
            arrow_array(self.positive_infinity),
            arrow_array(self.negative_infinity),
        ]

    @classmethod
    def from_arrays(cls, arrays: Sequence[pa.Array]) -> Self:
        """Rebuild sums from the columns of :meth:`to_arrays`."""
        first_limb, lists, below, positive, negative = arrays
        lengths = numpy_array(lists.value_lengths())
        limbs = numpy_array(lists.flatten()).astype(np.int64)
        if below.true_count:
            negated = np.repeat(numpy_array(below), lengths)
            np.negative(limbs, out=limbs, where=negated)
        return cls(
            numpy_array(first_limb),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            limbs,
            numpy_array(positive),
            numpy_array(negative),
        )

    def rounded(self, counts: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return the sums, or the sums over ``counts``, correctly rounded once.

        Parameters
        ----------
        counts
            int64, shape ``(groups,)``: divide by these (0 counts as 1).

        Returns
        -------
        numpy.ndarray
            float64, shape ``(groups,)``. Zero is +0.0; past the range or with an infinite value
            ±inf; NaN where infinities of both signs met.
        """
        divisors = None if counts is None else np.maximum(counts, 1)
        results = None
        if divisors is None or divisors.max(initial=1) < _DIVISOR_LIMIT:
            results = round_sums(self.first_limb, self.ends, self.limbs, divisors)
        if results is None:
            results = np.empty(self.groups, np.float64)
            for groups, lowest, dense in self._blocks():
                own = None if divisors is None else divisors[groups]
                results[groups] = _round_block(dense, lowest, own)
        results[self.positive_infinity] = np.inf
        results[self.negative_infinity] = -np.inf
        results[self.positive_infinity & self.negative_infinity] = np.nan
        return results

    def dense(self, groups: slice) -> tuple[int, NDArray[np.int64]] | None:
        """Return the number of the lowest limb, and limbs of shape ``(width, groups)``.

        None where sums of these groups lie so far apart that most limbs would be empty.
        """
        first = self.first_limb[groups]
        ends = self.ends[groups.start : groups.stop + 1]
        lengths = np.diff(ends)
        some = lengths > 0
        if not some.any():
            return 0, np.zeros((1, len(first)), np.int64)
        lowest = int(first[some].min())
        width = int((first + lengths)[some].max()) - lowest
        if width * len(first) > max(_BLOCK_CELLS, _SPARSE_LIMBS * int(lengths.sum())):
            return None
        limbs = np.zeros((width, len(first)), np.int64)
        owners = np.repeat(np.arange(len(first)), lengths)
        places = np.arange(len(owners)) + (first - lowest - (ends[:-1] - ends[0]))[owners]
        limbs[places, owners] = self.limbs[ends[0] : ends[-1]]
        return lowest, limbs

    def chosen(self, groups: NDArray[np.int64]) -> FloatSums:
        """Return the sums of some groups."""
        lengths = np.diff(self.ends)[groups]
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        return FloatSums(
            self.first_limb[groups],
            ends,
            self.limbs[np.repeat(self.ends[:-1][groups], lengths) + within],
            self.positive_infinity[groups],
            self.negative_infinity[groups],
        )

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return number and group of every limb."""
        lengths = np.diff(self.ends)
        owners = np.repeat(np.arange(self.groups), lengths)
        within = np.arange(len(self.limbs)) - self.ends[:-1][owners]
        return self.first_limb[owners] + within, owners

    def _blocks(self) -> Iterator[tuple[slice, int, NDArray[np.int64]]]:
        """Yield runs of groups with their dense limbs and the number of the lowest limb."""
        places, owners = self.places()
        widest = int(places.max() - places.min()) + 1 if len(places) else 1
        step = max(1, _BLOCK_CELLS // widest)
        for start in range(0, self.groups, step):
            stop = min(start + step, self.groups)
            inside = slice(int(self.ends[start]), int(self.ends[stop]))
            lowest, width = 0, 1
            if inside.stop > inside.start:
                lowest = int(places[inside].min())
                width = int(places[inside].max()) - lowest + 1
            dense = np.zeros((width, stop - start), np.int64)
            dense[places[inside] - lowest, owners[inside] - start] = self.limbs[inside]
            yield slice(start, stop), lowest, dense


def _merged_flags(
    positive: BoolArray, negative: BoolArray, codes: Codes, groups: int
) -> NDArray[np.bool_]:
    flags = np.zeros((2, groups), np.bool_)
    flags[0, codes[positive]] = True
    flags[1, codes[negative]] = True
    return flags


def _canonical(
    sums: PartSums, groups: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return ``first_limb, ends, limbs`` of :class:`FloatSums` for sums of parts."""
    if not sums:
        return np.zeros(groups, np.int32), np.zeros(groups + 1, np.int64), np.zeros(0, np.int64)
    found = sums_of_parts(sums, groups)
    if found is not None:
        return found
    lowest = min(sums) // LIMB_BITS
    # Two limbs above the highest part take its 64 bits, one more the carries.
    width = max(sums) // LIMB_BITS - lowest + 4
    step = max(1, _BLOCK_CELLS // width)
    firsts, lengths, pieces = [], [], []
    for start in range(0, groups, step):
        block = slice(start, min(start + step, groups))
        dense = np.zeros((width, block.stop - start), np.int64)
        for position, numbers in sums.items():
            add_shifted(dense, numbers[block], position - lowest * LIMB_BITS)
        carry(dense)
        negative, dense = magnitude(dense)
        first, length, limbs = _trimmed(np.where(negative, -dense, dense), lowest)
        firsts.append(first)
        lengths.append(length)
        pieces.append(limbs)
    if not firsts:
        return np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int64)
    ends = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    return np.concatenate(firsts), ends, np.concatenate(pieces)


def _trimmed(
    dense: NDArray[np.int64], lowest: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Cut the empty limbs at both ends of every group: first limb, count of limbs, limbs."""
    nonzero = dense != 0
    some = nonzero.any(axis=0)
    low = np.argmax(nonzero, axis=0)
    high = len(dense) - np.argmax(nonzero[::-1], axis=0)
    length = np.where(some, high - low, 0)
    places = np.arange(len(dense))[:, None]
    kept = (places >= low) & (places < high) & some
    first = np.where(some, low + lowest, 0).astype(np.int32)
    return first, length, dense.T[kept.T]


def _round_block(
    dense: NDArray[np.int64], lowest: int, divisors: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    from tessel.clauses.aggregates.kernels.part_sums import LEAST_EXPONENT

    exponent = lowest * LIMB_BITS + LEAST_EXPONENT
    negative = (dense < 0).any(axis=0)
    limbs = np.abs(dense)
    if divisors is None:
        results = to_floats(limbs, exponent, np.zeros(dense.shape[1], np.bool_))
    elif int(divisors.max()) >= _DIVISOR_LIMIT:
        return np.array(
            [
                _quotient(column, exponent, int(n))
                for column, n in zip(dense.T, divisors, strict=True)
            ]
        )
    else:
        # A divisor takes 31 bits away; four limbs below leave 64 that are exact.
        extra = np.zeros((4, dense.shape[1]), np.int64)
        limbs, remainders = divide(np.concatenate([extra, limbs]), divisors)
        results = to_floats(limbs, exponent - 4 * LIMB_BITS, remainders != 0)
    return np.where(negative, -results, results)


def _quotient(limbs: NDArray[np.int64], exponent: int, divisor: int) -> float:
    number = sum(int(limb) << (LIMB_BITS * place) for place, limb in enumerate(limbs))
    # True division of Python integers is correctly rounded; a mean is never past the range.
    if exponent >= 0:
        return (number << exponent) / divisor
    return number / (divisor << -exponent)
