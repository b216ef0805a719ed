"""The steps of a program as they are put together: registers, ranges, constants and tables.

Who compiles expressions for kernels enters here. A step that does what an earlier one does is the
earlier one. What steps mean is said in :class:`tessel.kernels.Op`. A program is compiled once for
all segments whose columns are of equal forms; what differs between them, the power of ten of a page
and the least integer of a column, is bound to it for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tessel.kernels.program import STEP_KINDS, Op, Program
from tessel.lazy import dataclass

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
"""Of 64 bits with a sign."""

EXACT = 1 << 53
"""Up to here every integer is a double."""


Ranges = tuple[int, int] | tuple[tuple[int, tuple[int, int]], ...]
"""The least and the greatest integer of a closed range: of all pages, or by power of ten."""


class BoundColumn(Protocol):
    """What is bound to a program of a column of one segment."""

    @property
    def exponents(self) -> npt.NDArray[np.int64] | None:
        """By page, the power of ten that integers are divided by; None for integers."""

    @property
    def bounds(self) -> tuple[Any, Any] | None:
        """Numbers that no value is below or above."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A constant of a step that each segment has its own of.

    Attributes
    ----------
    column
        The number of a column of integers.
    is_size
        Whether it is how many integers lie within the bounds of the column; else what is to be
        added to bring the least to 0, modulo 2**64.
    """

    column: int
    is_size: bool = False
    more: int = 0

    def of(self, columns: Sequence[BoundColumn]) -> int:
        """Return the constant for the columns of one segment."""
        bounds = columns[self.column].bounds
        assert bounds is not None  # the program was compiled for a column with bounds
        low, high = bounds
        if self.is_size:
            return int(high) - int(low) + 1 + self.more
        return (self.more - int(low) - LEAST) % (1 << 64) + LEAST


@dataclass(frozen=True, eq=False)
class UnboundProgram:
    """A program for the columns of all segments that are of the forms it was compiled for.

    Attributes
    ----------
    ranges
        The ranges that depend on the power of ten of a page: the number of each, that of the
        column, and the ends by power of ten.
    operands
        The constants of steps, by number of the step.
    """

    program: Program
    ranges: Sequence[tuple[int, int, dict[int, tuple[int, int]]]]
    operands: Sequence[tuple[int, Operand]]

    def bind(self, columns: Sequence[BoundColumn], pages: int) -> Program:
        """Return the program for the columns of one segment, which have so many pages."""
        made = self.program
        steps, ranges = made.steps, np.repeat(made.ranges, pages, axis=1)
        for place, column, ends in self.ranges:
            exponents = columns[column].exponents
            assert exponents is not None  # the program was compiled for floats
            ranges[place] = [ends[exponent] for exponent in exponents.tolist()]
        if self.operands:
            steps = steps.copy()
            for place, operand in self.operands:
                steps[place, -1] = operand.of(columns)
        registers = made.integers, made.floats, made.truths
        return Program(steps, ranges, made.constants, made.tables, *registers)


class BlockSteps:
    """A program in the making."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int, int, int, int | Operand]] = []
        self._made: dict[tuple[Any, ...], int] = {}
        self._registers = [0, 0, 0]
        self._ranges: list[tuple[int, Ranges]] = []
        self._constants: list[npt.NDArray[np.float64]] = []
        self._constant_count = 0
        self._tables: list[npt.NDArray[np.uint8]] = []
        self._table_bytes = 0

    def __len__(self) -> int:
        return len(self._steps)

    def step(self, op: int, a: int = 0, b: int = 0, c: int | Operand = 0) -> int:
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

    def range(self, register: int, ends: tuple[int, int]) -> int:
        """Return the truths of whether integers lie in a closed range."""
        return self.step(Op.RANGE, register, 0, self._range_place(-1, ends))

    def column_range(self, column: int, ranges: Ranges) -> int:
        """Return the truths of whether the integers of a column lie in closed ranges."""
        return self.step(Op.COLUMN_RANGE, column, 0, self._range_place(column, ranges))

    def table(self, register: int, truths: npt.NDArray[np.uint8]) -> int:
        """Return the truths that a table has for integers."""
        return self.step(Op.TABLE, register, 0, self._bits_place(truths))

    def span(self, register: int, least: int, truths: npt.NDArray[np.uint8]) -> int:
        """Return the truths that a table has for integers from ``least`` on, false elsewhere."""
        inside = self.range(register, (least, least + len(truths) - 1))
        found = self.step(Op.TABLE, register, 0, _modular(self._bits_place(truths) - least))
        return self.step(Op.AND, inside, found)

    def numbers_of_span(self, register: int, least: int, numbers: npt.NDArray[np.int64]) -> int:
        """Return the numbers that a table has for integers from ``least`` on; of others any."""
        start = _modular(self._constants_place(numbers.view(np.float64)) - least)
        return self.step(Op.LOOKUP, register, 0, start)

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

    def program(self) -> UnboundProgram:
        """Return the program so far."""
        operands = [
            (place, step[-1])
            for place, step in enumerate(self._steps)
            if isinstance(step[-1], Operand)
        ]
        steps = [(*step[:-1], 0) if isinstance(step[-1], Operand) else step for step in self._steps]
        ranges, by_exponent = np.zeros((len(self._ranges), 1, 2), np.int64), []
        for place, (column, ends) in enumerate(self._ranges):
            if isinstance(ends[0], tuple):
                by_exponent.append((place, column, dict(ends)))
            else:
                ranges[place] = ends
        program = Program(
            np.array(steps, np.int64).reshape(-1, 5),
            ranges,
            np.concatenate([np.zeros(0, np.float64), *self._constants]),
            np.concatenate([np.zeros(0, np.uint8), *self._tables]),
            *self._registers,
        )
        return UnboundProgram(program, by_exponent, operands)

    def _bits_place(self, truths: npt.NDArray[np.uint8]) -> int:
        return 8 * self._table_place(np.packbits(truths, bitorder="little"))

    def _table_place(self, table: npt.NDArray[np.uint8]) -> int:
        key = "table", table.tobytes()
        if key not in self._made:
            self._made[key] = self._table_bytes
            self._table_bytes += len(table)
            self._tables.append(table)
        return self._made[key]

    def _constants_place(self, held: npt.NDArray[np.float64]) -> int:
        key = "constants", held.tobytes()
        if key not in self._made:
            self._made[key] = self._constant_count
            self._constant_count += len(held)
            self._constants.append(held)
        return self._made[key]

    def _range_place(self, column: int, ranges: Ranges) -> int:
        if len(ranges) == 1:
            ((_, ranges),) = ranges  # all pages have the same power of ten
        key = "range", column if isinstance(ranges[0], tuple) else -1, ranges
        if key not in self._made:
            self._made[key] = len(self._ranges)
            self._ranges.append((column, ranges))
        return self._made[key]


def _modular(number: int) -> int:
    """Return a number modulo 2**64, like the addition to it: of the least there is no negative."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
