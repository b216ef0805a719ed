"""Lines of cells in which exact sums add up, until they are settled.

Lines of one length, from the lowest limb of all rows to the highest, are quick to lay out; where
that would take many cells (groups of few rows, numbers far apart), each line has the limbs of its
own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import Kernel
from tessel.kernels.exact_adding import (
    LEAST_EXPONENT,
    LIMB_BITS,
    add_doubles,
    add_limbs,
    add_products,
    bound_lines,
    carry_lines,
    settle_lines,
)
from tessel.kernels.running_rows import find_exponents

__all__ = ["NOWHERE", "Lines", "Settled"]

Integers = NDArray[np.int64]
Settled = tuple[NDArray[np.int32], Integers, NDArray[np.int32]]
"""First limb, ends and limbs, as `ExactSums` has them."""

NOWHERE = 1 << 20
"""More than the number of any limb."""

_MOST_ROWS = 1 << 29
"""Rows that cells take before they must be carried."""

_CELLS, _CELLS_A_ROW = 1 << 16, 8
"""Lines of one length take no more cells than either."""

_EXPONENTS, _FRACTION_BITS = 2047, 52
_ALL = np.zeros(0, np.bool_)


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
            return cls(starts, starts[:-1] - lowest)  # a copy: starts become ends
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
        room, below = 2 * len(held) + 1, len(held) * (LEAST_EXPONENT - 1)

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

    def put(self, place: int, numbers: Integers) -> None:
        """Put a number of 64 bits into a cell of each line, of those that are of one length."""
        self._cells.reshape(len(self._base), -1)[:, place] = numbers

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
        first_limb, limbs = np.empty(len(self._base), np.int32), self._cells.view(np.int32)
        settle_lines(self._base, self._cells, first_limb, self._starts, limbs)
        return first_limb, self._starts, limbs[: self._starts[-1]].copy()
