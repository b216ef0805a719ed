"""Superaccumulators of groups, to which numbers are added exactly until they are normalized.

Accumulators of one length, from the lowest limb of all rows to the highest, are quick to lay out.
Where that would take many cells (groups of few rows, numbers far apart), each accumulator has the
limbs of its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import Kernel
from tessel.kernels.exact_adding import (
    LEAST_EXPONENT,
    LIMB_BITS,
    add_doubles,
    add_integers,
    add_limbs,
    add_products,
    bound_accumulators,
    carry_accumulators,
    normalize_accumulators,
)
from tessel.kernels.running_rows import find_exponents
from tessel.memory import recycled

Integers = NDArray[np.int64]


class Limbs(NamedTuple):
    """Normalized numbers, one a group.

    Number ``g`` is ``sum(limbs[j] * 2**(32 * (first[g] + j - ends[g])))`` over its own limbs ``j``
    in ``[ends[g], ends[g + 1])``: two's complement, of which the last limb has the sign and the
    others stand for their bits. The first is not 0, and no limb is there for the sign alone where
    that below has it; of zero there is none, and ``first`` is 0.

    Attributes
    ----------
    first, ends, limbs
        int32, shape ``(groups,)``; int64, shape ``(groups + 1,)``; int32, shape ``(ends[-1],)``.
    """

    first: NDArray[np.int32]
    ends: Integers
    limbs: NDArray[np.int32]


NOWHERE = 1 << 20
"""More than the number of any limb."""

_MOST_ROWS = 1 << 29
"""Rows that cells take before they must be carried."""

_CELLS, _CELLS_A_ROW = 1 << 16, 8
"""Accumulators of one length take no more cells than either."""

_EXPONENTS, _FRACTION_BITS = 2047, 52
_ALL = np.zeros(0, np.bool_)


class Accumulators:
    """One superaccumulator a group, as cells of 64 bits."""

    def __init__(self, starts: Integers, base: Integers):
        self._starts, self._base = starts, base
        self._cells = recycled(starts[-1], np.int64, fill=0)
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
        """Lay out accumulators for limbs in ``[lowest, above)``, and one more for the carries.

        Parameters
        ----------
        codes, groups
            The group of each row, and the number of groups.
        lowest, above
            The limbs of all rows lie between.
        limbs_of_rows
            Returns the lowest limb and the end of each row; accumulators are then of that length.
        """
        width = above - lowest + 1
        if limbs_of_rows is None or groups * width <= max(_CELLS, _CELLS_A_ROW * len(codes)):
            starts = np.arange(0, groups * width + 1, width)
            return cls(starts, starts[:-1] - lowest)  # a copy: starts become ends
        least, most = np.full((2, groups), NOWHERE)
        np.negative(most, out=most)
        bound_accumulators(*limbs_of_rows(), codes, least, most)
        ends = np.cumsum(np.where(least < most, most - least + 1, 0))
        starts = np.concatenate([ends[:1] * 0, ends])
        return cls(starts, starts[:-1] - least)

    @classmethod
    def of_integers(cls, codes: Integers, groups: int, *, bits: int) -> Self:
        """Lay out accumulators for integers of so many bits."""
        above = bits // LIMB_BITS + 1
        return cls.of(
            codes, groups, 0, above,
            lambda: (np.zeros(len(codes), np.int64), np.full(len(codes), above)),
        )  # fmt: skip

    @classmethod
    def of_parts(cls, parts: Mapping[int, Integers], groups: int) -> Self:
        """Add up whole numbers times powers of two: a number a group, by exponent."""
        lowest, highest = (edge(parts, default=0) // LIMB_BITS for edge in (min, max))
        codes = np.arange(groups)
        if any(exponent % LIMB_BITS for exponent in parts):
            made = cls.of(codes, groups, lowest, highest + 3)
            for exponent, numbers in parts.items():
                made.add(add_integers, [numbers], codes, exponent, True)
            return made
        made = cls.of(codes[:0], groups, lowest, highest + 1)
        for exponent, numbers in parts.items():
            made._cells[exponent // LIMB_BITS - lowest :: highest - lowest + 2] = numbers
        return made

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
        room, below = 2 * len(held) + 1, len(held) * (LEAST_EXPONENT - 1)

        def limbs_of_rows() -> tuple[Integers, Integers]:
            stored = [np.maximum((bits >> _FRACTION_BITS) & _EXPONENTS, 1) for bits in held]
            low = (np.sum(stored, axis=0) + below) // LIMB_BITS
            zero = np.any([bits << 1 == 0 for bits in held], axis=0)
            return np.where(zero, NOWHERE, low), np.where(zero, -NOWHERE, low + room)

        lowest, highest = (least + below) // LIMB_BITS, (most + below) // LIMB_BITS
        accumulated = cls.of(codes, groups, lowest, highest + room, limbs_of_rows)
        accumulated.add(add_doubles if len(held) == 1 else add_products, held, codes)
        return accumulated

    def add(self, kernel: Kernel, columns: Sequence[Any], codes: Integers, *more: Any) -> None:
        """Run a kernel that adds a number a row of each column."""
        codes = np.ascontiguousarray(codes)
        for start in range(0, len(codes), _MOST_ROWS):
            rows = slice(start, start + _MOST_ROWS)
            self._reserve(len(codes[rows]))
            parts = (np.ascontiguousarray(column[rows]) for column in columns)
            kernel(*parts, codes[rows], *more, self._base, self._cells)

    def add_sums(self, sums: Limbs, codes: Integers) -> None:
        """Add normalized sums."""
        self._reserve(len(codes))
        add_limbs(*sums, codes, self._base, self._cells)

    def _reserve(self, rows: int) -> None:
        if self._rows + rows > _MOST_ROWS:
            carry_accumulators(self._starts, self._cells)
            self._rows = 0
        self._rows += rows

    def normalized(self) -> Limbs:
        """Return the sums; no number can be added afterwards."""
        first_limb, limbs = np.empty(len(self._base), np.int32), self._cells.view(np.int32)
        normalize_accumulators(self._base, self._cells, first_limb, self._starts, limbs)
        return Limbs(first_limb, self._starts, limbs[: self._starts[-1]].copy())
