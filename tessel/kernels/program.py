"""What is computed of each block of rows: a list of steps on registers.

A register holds one number for every row of a block: int64, float64, or a truth value. Steps read
registers that earlier steps wrote, and none is written by two. Nothing overflows: whoever makes a
program has proved it from the bounds of the columns. A register knows no missing values: where a
column has some, another register of truths says in which rows there is a value, and what is in the
others means nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.lazy import dataclass
from tessel.memory import recycled

BLOCK_ROWS = 2048
"""Rows whose registers stay in the caches of the core; a multiple of eight."""

RESIDUAL_SHIFT = 8
"""Bits of the scale of a residual, below the decimal places."""


class Op:
    """What a step does; its fields are (operation, target, a, b, c).

    I, F and M are integer, float and truth registers.
    """

    LOAD = 0
    """I[target] = the integers of column a: codes, or what decimals are scaled to."""
    DECIMAL = 1
    """F[target] = I[a] / 10**exponent, by the exponents of column b; its bits where there is none.

    Of singles, which columns b has where its exponents say so, the double of the same value. The
    exceptions of column b, which no integer stands for, are put in.
    """
    FLOAT = 2
    """F[target] = I[a], which is below 2**53."""
    CONSTANT = 3
    """F[target] = constants[a]."""
    INTEGER = 4
    """I[target] = c."""
    ADD = 5
    """F[target] = F[a] + F[b]."""
    SUBTRACT = 6
    MULTIPLY = 7
    INTEGER_ADD = 8
    """I[target] = I[a] + I[b]."""
    INTEGER_SUBTRACT = 9
    INTEGER_MULTIPLY = 10
    RANGE = 11
    """M[target] = whether I[a] lies in the closed range c of the page."""
    LESS = 12
    """M[target] = F[a] < F[b]."""
    LESS_EQUAL = 13
    EQUAL = 14
    """M[target] = F[a] == F[b]."""
    TABLE = 15
    """M[target] = bit c + I[a] of tables, of forged places that lie in no table the last one."""
    AND = 16
    OR = 17
    XOR = 18
    NOT = 19
    """M[target] = not M[a]."""
    COMBINE = 20
    """I[target] = I[a] * c + I[b]."""
    COLUMN_RANGE = 21
    """M[target] = whether the integers of column a lie in the closed range c of the page."""
    RESIDUAL = 22
    """I[target] = (q * 10**exponent - I[a]) * 2**c for the float q that DECIMAL makes of I[a].

    What the division rounds off, as a whole number: who makes the program has chosen ``c`` so that
    it is one below 2**51, exponents from 0 to 11, and integers below 2**53.
    """
    PRODUCT_ERROR = 23
    """F[target] = F[a] * F[b] - F[c], where F[c] is the rounded product: what rounding took.

    Exact where nothing is below 2**-900: who makes the program has seen to it.
    """
    PRESENT = 24
    """M[target] = whether column a has a value in the row: neither null nor, unless b is 1, NaN."""
    NUMBER = 25
    """I[target] = 1 where M[a], else 0."""
    ROW = 26
    """I[target] = the row, counted in the segment."""
    CHOOSE = 27
    """I[target] = I[a] where M[b], else c."""
    CHOOSE_FLOAT = 28
    """F[target] = F[a] where M[b], else constants[c]."""
    CHOOSE_OTHER = 29
    """I[target] = I[a] where M[b], else I[c]."""
    CHOOSE_OTHER_FLOAT = 30
    """F[target] = F[a] where M[b], else F[c]."""
    FLOAT_RESIDUAL = 31
    """I[target] = (F[a] * 10**places - I[b]) * 2**up for ``c == places << RESIDUAL_SHIFT | up``.

    What computed floats are off from the decimals that they stand for, as a whole number below
    2**51; integers are below 2**53.
    """
    LOOKUP = 32
    """I[target] = the bits of constants[c + I[a]]: entries of a dictionary, by code. As TABLE."""
    LOOKUP_FLOAT = 33
    """F[target] = constants[c + I[a]]."""
    MEMBER = 34
    """M[target] = whether I[a] is in the hash table at constants[c], of 2**b slots.

    See :func:`~tessel.kernels.word_numbers.word_slots`.
    """
    DIVIDE = 35
    """F[target] = F[a] / F[b]."""
    INTEGER_LESS = 36
    """M[target] = I[a] < I[b]."""
    INTEGER_LESS_EQUAL = 37
    INTEGER_EQUAL = 38
    TEXT_EQUAL = 39
    """M[target] = whether a text of column a is the ``b`` bytes from ``tables[c]`` on."""
    NUMBER_OF = 40
    """I[target] = the number of I[a] in the hash table of MEMBER, −1 where it is not there."""
    SHIFT = 41
    """I[target] = I[a] / 2**c, rounded to a whole number, a half upwards; c is above 0."""


INTEGER, FLOAT, TRUTH = 0, 1, 2

_FLOAT_STEPS = (
    *(Op.DECIMAL, Op.FLOAT, Op.CONSTANT, Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.PRODUCT_ERROR),
    *(Op.CHOOSE_FLOAT, Op.CHOOSE_OTHER_FLOAT, Op.LOOKUP_FLOAT, Op.DIVIDE),
)
_TRUTH_STEPS = (
    *(Op.RANGE, Op.COLUMN_RANGE, Op.LESS, Op.LESS_EQUAL, Op.EQUAL, Op.TABLE),
    *(Op.AND, Op.OR, Op.XOR, Op.NOT, Op.PRESENT, Op.MEMBER),
    *(Op.INTEGER_LESS, Op.INTEGER_LESS_EQUAL, Op.INTEGER_EQUAL, Op.TEXT_EQUAL),
)

STEP_KINDS = np.full(Op.SHIFT + 1, INTEGER)
"""By operation, the kind of the register that a step writes: INTEGER, FLOAT or TRUTH."""
STEP_KINDS[np.array(_FLOAT_STEPS)] = FLOAT
STEP_KINDS[np.array(_TRUTH_STEPS)] = TRUTH
STEP_KINDS.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Program:
    """Steps, and the numbers that they need.

    Attributes
    ----------
    steps
        int64, shape ``(steps, 5)``; see :class:`Op`.
    ranges
        int64, shape ``(ranges, pages, 2)``: the least and the greatest integer of each range, by
        page. A range with nothing in it has a least above its greatest.
    constants
        float64; where integers are looked up, bits of 64-bit integers.
    tables
        uint8, truth tables and texts, one behind the other.
    integers, floats, truths
        How many registers of each kind there are.
    """

    steps: NDArray[np.int64]
    ranges: NDArray[np.int64]
    constants: NDArray[np.float64]
    tables: NDArray[np.uint8]
    integers: int
    floats: int
    truths: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What kernels take; see :data:`~tessel.kernels.block_loop.PROGRAM`."""
        return self.steps, np.ascontiguousarray(self.ranges), self.constants, self.tables

    @staticmethod
    def selected(select: int | None) -> tuple[int, NDArray[np.int64]]:
        """Allocate scratch for the rows that count, beside their truth register; None for all rows.

        See :data:`~tessel.kernels.block_loop.SELECTED`.
        """
        return -1 if select is None else select, np.empty(BLOCK_ROWS, np.int64)

    def registers(self, spare: int = 1) -> tuple[Any, ...]:
        """Allocate the registers of one block, and so many ``spare`` ones of integers behind them.

        See :data:`~tessel.kernels.block_loop.REGISTERS`. The last integer register is for what is
        between steps.
        """
        return (
            recycled((self.integers + spare) * BLOCK_ROWS, np.int64),
            recycled(self.floats * BLOCK_ROWS, np.float64),
            recycled(self.truths * BLOCK_ROWS, np.uint8),
        )
