"""Pairs of doubles: a value and what rounding took from it, good to about a hundred bits together.

Sums and products of doubles are pairs without error, quotients and roots nearly so: these are
"double-doubles" (Dekker, A floating-point technique for extending the available precision, 1971).
Rounding a pair to one double is certain where the true value cannot lie on the other side of the
middle between two doubles (Ziv, Fast evaluation of elementary mathematical functions with correctly
rounded last bit, ACM TOMS 17, 1991); who uses pairs asks that, and leaves the others to integers of
any size. Values are to be far from the ends of the range of doubles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ERROR", "Pair", "over", "product_of", "root_of", "times", "two_sum"]

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

ERROR = 2.0**-97
"""Each step adds an error of some 2**-103 of the value; this is enough for twenty."""

_SPLITTER = 2.0**27 + 1


def two_sum(left: Floats, right: Floats) -> Pair:
    """Return a rounded sum and what rounding took from it (Knuth)."""
    total = left + right
    share = total - left
    return total, (left - (total - share)) + (right - share)


def product_of(left: Floats, right: Floats) -> Pair:
    """Return a rounded product and what rounding took from it (Veltkamp, Dekker)."""
    product = left * right
    (left_high, left_low), (right_high, right_low) = _halves(left), _halves(right)
    error = left_high * right_high - product
    error += left_high * right_low
    error += left_low * right_high
    error += left_low * right_low
    return product, error


def _halves(values: Floats) -> Pair:
    scaled = values * _SPLITTER
    high = scaled - (scaled - values)
    return high, values - high


def times(pair: Pair, factors: Floats) -> Pair:
    """Return the product of pairs with doubles."""
    product, error = product_of(pair[0], factors)
    return two_sum(product, error + pair[1] * factors)


def over(pair: Pair, divisors: Floats) -> Pair:
    """Return the quotient of pairs and doubles."""
    quotient = pair[0] / divisors
    product, error = product_of(quotient, divisors)
    return two_sum(quotient, ((pair[0] - product) - error + pair[1]) / divisors)


def root_of(pair: Pair) -> Pair:
    """Return the square root of pairs that are not negative; of others, anything."""
    root = np.sqrt(np.maximum(pair[0], 0.0))
    square, error = product_of(root, root)
    rest = (pair[0] - square) - error + pair[1]
    # One step of Newton's method; of zero, the root is zero.
    return two_sum(root, rest / np.where(root > 0, 2 * root, 1.0))
