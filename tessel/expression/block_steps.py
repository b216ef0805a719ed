"""The steps of a program as they are put together: registers, ranges, constants and tables.

Who compiles expressions for kernels enters here. A step that does what an earlier one does is the
earlier one. What steps mean is said in :class:`tessel.kernels.Op`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessel.kernels.program import STEP_KINDS, Op, Program

__all__ = ["EXACT", "GREATEST", "LEAST", "BlockSteps"]

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
"""Of 64 bits with a sign."""

EXACT = 1 << 53
"""Up to here every integer is a double."""


class BlockSteps:
    """A program in the making.

    Parameters
    ----------
    pages
        How many pages each column has.
    """

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._steps: list[tuple[int, int, int, int, int]] = []
        self._made: dict[tuple[Any, ...], int] = {}
        self._registers = [0, 0, 0]
        self._ranges: list[npt.NDArray[np.int64]] = []
        self._constants: list[npt.NDArray[np.float64]] = []
        self._constant_count = 0
        self._tables: list[npt.NDArray[np.uint8]] = []
        self._table_bytes = 0

    def __len__(self) -> int:
        return len(self._steps)

    def step(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Add a step, or find the one that does the same; return its register."""
        key = op, a, b, c
        if key not in self._made:
            kind = int(STEP_KINDS[op])
            register = self._registers[kind]
            self._registers[kind] += 1
            self._steps.append((op, register, a, b, c))
            self._made[key] = register
        return self._made[key]

    def constant_place(self, value: float) -> int:
        """Return the number of a constant."""
        return self._constants_place(np.array([value], np.float64))

    def constant(self, value: float) -> int:
        """Return a register of floats that are all the same."""
        return self.step(Op.CONSTANT, self.constant_place(value))

    def lookup(self, register: int, numbers: npt.NDArray[Any]) -> int:
        """Return the numbers, int64 or float64, that integers are places of."""
        place = self._constants_place(numbers.view(np.float64))
        is_float = numbers.dtype == np.float64
        return self.step(Op.LOOKUP_FLOAT if is_float else Op.LOOKUP, register, 0, place)

    def range(self, register: int, ranges: Any) -> int:
        """Return the truths of whether integers lie in closed ranges: one, or one a page."""
        return self.step(Op.RANGE, register, 0, self._range_place(ranges))

    def column_range(self, column: int, ranges: Any) -> int:
        """Return the truths of whether the integers of a column lie in closed ranges."""
        return self.step(Op.COLUMN_RANGE, column, 0, self._range_place(ranges))

    def table(self, register: int, truths: npt.NDArray[np.uint8]) -> int:
        """Return the truths that a table has for integers."""
        return self.step(Op.TABLE, register, 0, self._table_place(truths))

    def span(self, register: int, least: int, truths: npt.NDArray[np.uint8]) -> int:
        """Return the truths that a table has for integers from ``least`` on, false elsewhere."""
        # Modulo 2**64, like the addition: of the least integer there is no negative.
        start = (self._table_place(truths) - least + (1 << 63)) % (1 << 64) - (1 << 63)
        found = self.step(Op.TABLE, register, 0, start)
        inside = self.range(register, (least, least + len(truths) - 1))
        return self.step(Op.AND, found, inside)

    def member(self, register: int, slots: npt.NDArray[np.int64], bits: int) -> int:
        """Return the truths of whether integers are in a hash set of ``2**bits`` slots."""
        place = self._constants_place(slots.reshape(-1).view(np.float64))
        return self.step(Op.MEMBER, register, bits, place)

    def number_of(self, register: int, slots: npt.NDArray[np.int64], bits: int) -> int:
        """Return the numbers of integers in a hash table of ``2**bits`` slots; −1 for others."""
        place = self._constants_place(slots.reshape(-1).view(np.float64))
        return self.step(Op.NUMBER_OF, register, bits, place)

    def text_equal(self, column: int, text: bytes) -> int:
        """Return the truths of whether the texts of a column are one text."""
        place = self._table_place(np.frombuffer(text, np.uint8))
        return self.step(Op.TEXT_EQUAL, column, len(text), place)

    def always(self, truth: bool) -> int:
        """Return the truths that are all the same."""
        return self.range(self.step(Op.INTEGER, c=int(truth)), (1, 1))

    def joined(self, op: int, truths: list[int]) -> int:
        """Return what a connective makes of one truth or more."""
        found = truths[0]
        for truth in truths[1:]:
            found = self.step(op, found, truth)
        return found

    def program(self) -> Program:
        """Return the program so far."""
        integers, floats, truths = self._registers
        ranges = np.zeros((len(self._ranges), self._pages, 2), np.int64)
        for place, held in enumerate(self._ranges):
            ranges[place] = held
        return Program(
            np.array(self._steps, np.int64).reshape(-1, 5),
            ranges,
            np.concatenate([np.zeros(0, np.float64), *self._constants]),
            np.concatenate([np.zeros(0, np.uint8), *self._tables]),
            integers,
            floats,
            truths,
        )

    def _table_place(self, truths: npt.NDArray[np.uint8]) -> int:
        key = "table", truths.tobytes()
        if key not in self._made:
            self._made[key] = self._table_bytes
            self._table_bytes += len(truths)
            self._tables.append(truths)
        return self._made[key]

    def _constants_place(self, held: npt.NDArray[np.float64]) -> int:
        key = "constants", held.tobytes()
        if key not in self._made:
            self._made[key] = self._constant_count
            self._constant_count += len(held)
            self._constants.append(held)
        return self._made[key]

    def _range_place(self, ranges: Any) -> int:
        held = np.broadcast_to(np.array(ranges, np.int64), (self._pages, 2))
        key = "range", held.tobytes()
        if key not in self._made:
            self._made[key] = len(self._ranges)
            self._ranges.append(held)
        return self._made[key]
