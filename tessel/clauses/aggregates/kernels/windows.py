"""Exact sums over windows of rows: differences of running sums that lose nothing.

Each row's number is written in 32-bit limbs (see :mod:`tessel.clauses.aggregates.kernels.limbs`).
Running sums of limbs are exact, so the sum of a window is the difference of two of them, whatever
else lies before it; nothing drifts. Sums come out as :class:`FloatSums` or :class:`IntegerSums`,
to be rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import (
    DECIMAL_WIDTH,
    INTEGER_WIDTH,
    IntegerSums,
)
from tessel.clauses.aggregates.kernels.limbs import LIMB_BITS, LIMB_MASK, carry
from tessel.clauses.aggregates.kernels.sums import DAY_MS, Sums
from tessel.clauses.values import decimal_words, integers, raw_values

__all__ = ["ExactRows"]

_LEAST_EXPONENT = -1074
_MANTISSA_BITS = 53
# Cells of running sums alive at a time.
_BLOCK_CELLS = 1 << 22

BoolArray = NDArray[np.bool_]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class ExactRows:
    """One exact number a row, as limbs.

    Attributes
    ----------
    limbs
        int64, shape ``(width, rows)``, lowest first; of either sign, below 2**33 in size.
    lowest
        Number of the lowest limb, where limb 0 begins at the lowest bit of a double; None for
        integers, whose limbs begin at 1 and are as many as those of :class:`IntegerSums`.
    positive_infinity, negative_infinity
        Bool, shape ``(rows,)``: rows that are infinite, whose limbs are zero.
    """

    limbs: NDArray[np.int64]
    lowest: int | None
    positive_infinity: BoolArray
    negative_infinity: BoolArray

    @classmethod
    def of_values(cls, values: pa.Array) -> ExactRows:
        """Take plain values apart that are not missing: numbers, bool, null or a temporal type."""
        kind = values.type
        if pa.types.is_floating(kind):
            doubles = raw_values(values, kind.to_pandas_dtype()).astype(np.float64, copy=False)
            return cls._of_floats(doubles)
        if pa.types.is_decimal(kind):
            return cls._of_decimals(decimal_words(values))
        numbers = integers(values)
        if pa.types.is_date64(kind):
            numbers = numbers // DAY_MS
        wide = numbers.astype(np.uint64 if numbers.dtype == np.uint64 else np.int64)
        limbs = np.zeros((INTEGER_WIDTH, len(numbers)), np.int64)
        limbs[0] = wide & wide.dtype.type(LIMB_MASK)
        limbs[1] = wide >> wide.dtype.type(LIMB_BITS)
        return cls._of_integers(limbs)

    @classmethod
    def of_sums(cls, sums: Sums) -> ExactRows:
        """Take sums, one a row."""
        if isinstance(sums, IntegerSums):
            return cls._of_integers(sums.limbs)
        places, owners = sums.places()
        lowest = int(places.min()) if len(places) else 0
        width = int(places.max()) - lowest + 1 if len(places) else 1
        limbs = np.zeros((width, sums.groups), np.int64)
        limbs[places - lowest, owners] = sums.limbs
        return cls(limbs, lowest, sums.positive_infinity, sums.negative_infinity)

    @classmethod
    def _of_integers(cls, limbs: NDArray[np.int64]) -> ExactRows:
        finite = np.zeros(limbs.shape[1], np.bool_)
        return cls(limbs, None, finite, finite)

    @classmethod
    def _of_decimals(cls, words: NDArray[np.int64]) -> ExactRows:
        limbs = np.zeros((DECIMAL_WIDTH, len(words)), np.int64)
        low, high = words[:, 0].view(np.uint64), words[:, 1]
        limbs[0] = low & np.uint64(LIMB_MASK)
        limbs[1] = low >> np.uint64(LIMB_BITS)
        limbs[2] = high & LIMB_MASK
        limbs[3] = high >> LIMB_BITS
        return cls._of_integers(limbs)

    @classmethod
    def _of_floats(cls, values: NDArray[np.float64]) -> ExactRows:
        infinite = np.isinf(values)
        finite = np.where(infinite, 0.0, values) if infinite.any() else values
        fractions, exponents = np.frexp(finite)
        mantissas = np.ldexp(fractions, _MANTISSA_BITS).astype(np.int64)
        bits = exponents.astype(np.int64) - (_MANTISSA_BITS + _LEAST_EXPONENT)
        # Of subnormal numbers the lowest bits of the 53 are zeros, below the lowest bit of any.
        below = np.maximum(-bits, 0)
        mantissas, bits = mantissas >> below, np.maximum(bits, 0)
        bits[mantissas == 0] = int(bits.max(where=mantissas != 0, initial=0))
        places, shifts = bits // LIMB_BITS, bits % LIMB_BITS
        lowest = int(places.min()) if len(places) else 0
        width = int(places.max()) - lowest + 3 if len(places) else 1
        low = (mantissas & LIMB_MASK) << shifts
        high = (mantissas >> LIMB_BITS) << shifts
        limbs = np.zeros((width, len(values)), np.int64)
        rows = np.arange(len(values))
        limbs[places - lowest, rows] = low & LIMB_MASK
        limbs[places - lowest + 1, rows] = (low >> LIMB_BITS) + (high & LIMB_MASK)
        limbs[places - lowest + 2, rows] = high >> LIMB_BITS
        positive = infinite & (values > 0)
        return cls(limbs, lowest, positive, infinite & ~positive)

    def followed_by(self, later: ExactRows) -> ExactRows:
        """Return these rows, then those of the same kind."""
        first, second = self.limbs, later.limbs
        lowest = self.lowest
        if self.lowest is not None and later.lowest is not None:
            lowest = min(self.lowest, later.lowest)
            top = max(self.lowest + len(first), later.lowest + len(second))
            first, second = (
                np.pad(limbs, ((start - lowest, top - start - len(limbs)), (0, 0)))
                for limbs, start in ((first, self.lowest), (second, later.lowest))
            )
        return ExactRows(
            np.concatenate([first, second], axis=1),
            lowest,
            np.concatenate([self.positive_infinity, later.positive_infinity]),
            np.concatenate([self.negative_infinity, later.negative_infinity]),
        )

    def taken(self, rows: Places) -> ExactRows:
        """Return some rows in some order."""
        return ExactRows(
            self.limbs[:, rows],
            self.lowest,
            self.positive_infinity[rows],
            self.negative_infinity[rows],
        )

    def window_sums(self, starts: Places, stops: Places) -> Sums:
        """Return the sum of the rows ``[starts[i], stops[i])`` for each ``i``.

        Parameters
        ----------
        starts, stops
            int64, shape ``(windows,)``, ``starts[i] <= stops[i]``. Both had better never go back
            much: of windows far apart all rows between them are added up.
        """
        parts = [
            self._block_sums(slice(first, last), starts[first:last], stops[first:last])
            for first, last in self._blocks(len(starts))
        ]
        if self.lowest is None:
            return IntegerSums(np.concatenate([part.limbs for part in parts], axis=1))
        return FloatSums.stacked([part for part in parts if isinstance(part, FloatSums)])

    def _blocks(self, windows: int) -> Iterator[tuple[int, int]]:
        step = max(1, _BLOCK_CELLS // len(self.limbs))
        for first in range(0, max(windows, 1), step):
            yield first, min(first + step, windows)

    def _block_sums(self, block: slice, starts: Places, stops: Places) -> Sums:
        base = int(starts.min()) if len(starts) else 0
        rows = slice(base, max(base, int(stops.max())) if len(stops) else base)
        starts, stops = starts - base, stops - base

        def differences(numbers: NDArray[Any]) -> NDArray[np.int64]:
            running = np.zeros(rows.stop - rows.start + 1, np.int64)
            np.cumsum(numbers[rows], out=running[1:])
            found: NDArray[np.int64] = running[stops] - running[starts]
            return found

        # Two limbs above the highest take the carries and the sign.
        extra = 0 if self.lowest is None else 2
        limbs = np.zeros((len(self.limbs) + extra, len(starts)), np.int64)
        for place, numbers in enumerate(self.limbs):
            limbs[place] = differences(numbers)
        if self.lowest is None:
            carry(limbs)
            return IntegerSums(limbs)
        infinities = [
            differences(flags) > 0 if flags.any() else np.zeros(len(starts), np.bool_)
            for flags in (self.positive_infinity, self.negative_infinity)
        ]
        return FloatSums.of_limbs(limbs, self.lowest, *infinities)
