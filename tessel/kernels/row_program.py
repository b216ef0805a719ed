"""What is computed of rows that lie as structs one behind the other: steps on registers.

As :class:`~tessel.kernels.Program`, but of values that may be missing. Integer and float registers
have a byte a row beside them, which is 1 where there is a value; a truth register holds 0, 1, or 2
where it is unknown, by Kleene's logic. A first part of the steps says which rows are kept, the rest
is computed for those only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowOp", "RowProgram", "RowStatus", "field_load"]


class RowOp:
    """What a step does; its fields are (operation, target, a, b, c, d).

    I, F and T are integer, float and truth registers. Loads read the eight bytes from byte ``a`` of
    the row on, shifted left by ``b`` bits and then right by ``c``; ``d`` is the place of the bit
    that is set where the value is null, counted in bits from the start of the row, or -1.
    """

    SIGNED = 0
    """I[target] = the loaded integer, the right shift keeping its sign."""
    UNSIGNED = 1
    ORDERED = 2
    """I[target] = an unsigned integer of 64 bits less 2**63, so that its order is that of I."""
    DOUBLE = 3
    """F[target] = the bits that were loaded."""
    SINGLE = 4
    TRUTH = 5
    """T[target] = whether byte a is not 0."""
    PRESENT = 6
    """T[target] = whether bit d is not set."""
    TEXT_EQUAL = 7
    """T[target] = whether the text is that of number c; b is the shift of the pair's word, 0."""
    INTEGER = 8
    """I[target] = a."""
    FLOAT = 9
    """F[target] = constants[a]."""
    FIXED_TRUTH = 10
    """T[target] = a."""
    TO_FLOAT = 11
    """F[target] = I[a], rounded to the nearest."""
    ADD = 12
    """I[target] = I[a] + I[b]; rows that may pass 64 bits end the program."""
    SUBTRACT = 13
    MULTIPLY = 14
    FLOAT_ADD = 15
    """F[target] = F[a] + F[b]."""
    FLOAT_SUBTRACT = 16
    FLOAT_MULTIPLY = 17
    FLOAT_DIVIDE = 18
    LESS = 19
    """T[target] = I[a] < I[b]."""
    LESS_EQUAL = 20
    EQUAL = 21
    FLOAT_LESS = 22
    """T[target] = F[a] < F[b]; NaN is missing."""
    FLOAT_LESS_EQUAL = 23
    FLOAT_EQUAL = 24
    RANGE = 25
    """T[target] = b <= I[a] <= c."""
    AND = 26
    """T[target] = T[a] and T[b]."""
    OR = 27
    XOR = 28
    NOT = 29
    INTEGER_MISSING = 30
    """T[target] = whether I[a] is missing."""
    FLOAT_MISSING = 31
    """T[target] = whether F[a] is missing or NaN."""
    TRUTH_MISSING = 32
    TRUE_OR_UNKNOWN = 33
    """T[target] = T[a] where that is true, and unknown elsewhere."""


class RowStatus:
    """How a program ended."""

    DONE = 0
    OVERFLOW = 1
    """Integers may have passed 64 bits: the values say whether they did."""
    OUTSIDE = 2
    """A text points outside its heap."""


@dataclass(frozen=True, eq=False)
class RowProgram:
    """Steps, and what they need.

    Attributes
    ----------
    steps
        int64, shape ``(steps, 6)``; see :class:`RowOp`.
    conditions
        How many of them say which rows are kept.
    truth
        The register that says it; -1 to keep all.
    constants
        float64.
    texts, text_starts
        The bytes of all texts that are compared with, uint8, and where each begins and the last
        ends, int64.
    outputs
        int64, shape ``(outputs, 2)``: 0, 1 or 2 for an integer, float or truth register, and the
        register.
    registers
        How many registers of each kind there are, int64, shape ``(3,)``.
    """

    steps: NDArray[np.int64]
    conditions: int
    truth: int
    constants: NDArray[np.float64]
    texts: NDArray[np.uint8]
    text_starts: NDArray[np.int64]
    outputs: NDArray[np.int64]
    registers: NDArray[np.int64]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What kernels take of it."""
        return (
            self.steps,
            self.conditions,
            self.truth,
            self.constants,
            self.texts,
            self.text_starts,
            self.outputs,
        )


def field_load(offset: int, size: int, row_size: int) -> tuple[int, int, int]:
    """Return the fields a, b and c of a step that loads a field of so many bytes.

    The word ends with the row where it would pass its end, so that the last row is no exception;
    only rows of less than eight bytes need more behind them.
    """
    start = max(0, min(offset, row_size - 8))
    return start, 64 - 8 * (offset - start + size), 64 - 8 * size
