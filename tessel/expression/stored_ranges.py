"""A threshold as integers: which stored integers compare so with a bound.

Decimals are kept as integers to be divided by a power of ten. Which of them lie below a bound is
asked once, of the bound, instead of every row; the integers beside the translated bound are tried
out, so that the answer is that of the divided numbers to the last one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tessel.expression.operators.comparison import (
    Comparison,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
)

__all__ = ["EXACT", "GREATEST", "LEAST", "integer_range", "scaled_range"]

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
"""Of 64 bits with a sign."""

EXACT = 1 << 53
"""Up to here every integer is a double."""


def integer_range(asked: type[Comparison], bound: Any) -> tuple[int, int]:
    """Return which integers compare so with a bound, which may be a float."""
    if math.isinf(bound):
        reach = GREATEST + 1 if bound > 0 else LEAST - 1
        at_or_above, above = reach, reach
    else:
        at_or_above, above = math.ceil(bound), math.floor(bound) + 1
    return _closed(asked, at_or_above, above)


def scaled_range(asked: type[Comparison], bound: Any, exponent: int) -> tuple[int, int]:
    """Return which integers ``k`` compare so with a bound once divided by a power of ten.

    What compares is the double nearest to ``k / 10**exponent``, so the integers beside the
    translated bound are tried out: division rounds, but never past a neighbour.

    Parameters
    ----------
    asked
        Less, LessEqual, Greater, GreaterEqual or Equal.
    bound
        An integer or a float, not NaN.
    exponent
        From 0 to 22.

    Returns
    -------
    tuple of int
        The least and the greatest; the least is above the greatest where there is none.
    """
    if math.isinf(bound):
        return integer_range(asked, bound)
    guess = math.floor(Fraction(bound) * 10**exponent)
    if abs(guess) > EXACT + 4:
        # All stored integers are at most 2**53 in size: they lie on one side.
        return integer_range(asked, math.inf if guess > 0 else -math.inf)
    power = float(10**exponent)
    at_or_above = above = guess - 4
    while at_or_above / power < bound:
        at_or_above += 1
    above = at_or_above
    while above / power <= bound:
        above += 1
    return _closed(asked, at_or_above, above)


def _closed(asked: type[Comparison], at_or_above: int, above: int) -> tuple[int, int]:
    """Return a closed range, from the first integers at or above a bound and above it."""
    if asked is Less:
        low, high = LEAST, at_or_above - 1
    elif asked is LessEqual:
        low, high = LEAST, above - 1
    elif asked is Greater:
        low, high = above, GREATEST
    elif asked is GreaterEqual:
        low, high = at_or_above, GREATEST
    else:
        low, high = at_or_above, above - 1
    if low > GREATEST or high < LEAST or low > high:
        return 1, 0
    return max(low, LEAST), min(high, GREATEST)
