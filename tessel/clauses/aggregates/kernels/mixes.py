"""Values between two others: means of two, and mixes of a share of one and the rest of the other.

Medians and quantiles of many groups end here. What is not certain to be rounded right, and what has
a type of its own, is left to those who do it group by group.

Mixes of doubles are computed as pairs, a value and what rounding took from it ("double-doubles":
Dekker, A floating-point technique for extending the available precision, 1971). Rounding a pair to
one double is certain where the true value cannot lie on the other side of the middle between two
doubles (Ziv, Fast evaluation of elementary mathematical functions with correctly rounded last bit,
ACM TOMS 17, 1991).

Results that have too many digits for kernels are quotients of Python integers, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.values import doubles, integers, is_temporal, of_integers
from tessel.kernels import error_free

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Pair = tuple[Floats, Floats]

# The sources of these kernels run on arrays as they run on numbers.
two_sum: Callable[[Any, Any], Pair] = error_free.two_sum
two_product: Callable[[Any, Any], Pair] = error_free.two_product

# Whole numbers up to this are doubles.
_EXACT = 1 << 53
# Sums of two stay in 64 bits.
_ROOM = 1 << 62
_LEAST, _GREATEST = 2.0**-800, 2.0**800
# Each step on pairs adds an error of some 2**-103 of the value; this is enough for twenty.
_ERROR = 2.0**-97


def means_of_two(low: pa.Array, high: pa.Array) -> pa.Array | None:
    """Return the mean of each two values, as the aggregate ``mean`` has it; None for other types.

    Parameters
    ----------
    low, high
        Plain, nothing missing, of one type.
    """
    if pa.types.is_floating(low.type):
        return _float_means(doubles(low), doubles(high))
    pair = _whole(low, high)
    if pair is None:
        return None
    total = pair[0] + pair[1]
    if is_temporal(low.type):
        half = total >> 1
        return of_integers(half + (total & 1 & half), low.type)  # halfway to the even one
    return arrow_array(total / 2) if _within(total, _EXACT) else None


def mixes(
    low: pa.Array, high: pa.Array, shares: Integers, parts: Integers
) -> tuple[pa.Array, BoolArray] | None:
    """Return ``low + (high - low) * shares / parts``, rounded once, and where that is certain.

    None for types that are mixed otherwise.

    Parameters
    ----------
    low, high
        Plain, nothing missing, of one type.
    shares, parts
        int64, ``0 <= shares <= parts``, ``1 <= parts``.
    """
    if is_temporal(low.type):
        return _whole_mixes(low, high, shares, parts)
    if pa.types.is_floating(low.type):
        values = doubles(low), doubles(high)
    else:
        pair = _whole(low, high)
        if pair is None or not (_within(pair[0], _EXACT) and _within(pair[1], _EXACT)):
            return None
        values = pair[0].astype(np.float64), pair[1].astype(np.float64)
    if not _within(parts, _EXACT):
        return None
    results, certain = _float_mixes(*values, shares.astype(np.float64), parts.astype(np.float64))
    return arrow_array(results), certain


def _float_means(low: Floats, high: Floats) -> pa.Array:
    with np.errstate(over="ignore", invalid="ignore"):
        total = low + high
        # Halving is exact, but of the smallest, whose sum is.
        means = total / 2
        past = np.isinf(total) & np.isfinite(low) & np.isfinite(high)
    means[past] = low[past] / 2 + high[past] / 2
    means[total == 0] = 0.0
    return arrow_array(means, mask=np.isnan(means))


def _float_mixes(
    low: Floats, high: Floats, shares: Floats, parts: Floats
) -> tuple[Floats, BoolArray]:
    usual = np.ones(len(low), np.bool_)
    for values in (low, high):
        sizes = np.abs(values)
        usual &= ((sizes > _LEAST) & (sizes < _GREATEST)) | (sizes == 0)
    low, high = np.where(usual, low, 0.0), np.where(usual, high, 0.0)
    (first, first_rest), (second, second_rest) = (
        two_product(low, parts - shares),
        two_product(high, shares),
    )
    total, rest = two_sum(first, second)
    value, rest = _over(two_sum(total, rest + (first_rest + second_rest)), parts)
    # The two may cancel: the error goes by their sizes.
    error = (np.abs(first) + np.abs(second)) / parts * _ERROR
    down, up = value + (rest - error), value + (rest + error)
    certain: BoolArray = usual & (down == up)
    return down, certain


def _whole_mixes(
    low: pa.Array, high: pa.Array, shares: Integers, parts: Integers
) -> tuple[pa.Array, BoolArray] | None:
    pair = _whole(low, high)
    if pair is None:
        return None
    least, most = pair
    apart = most - least
    largest = int(shares.max(initial=0)) * int(np.abs(apart).max(initial=0))
    if largest >= _ROOM or not _within(parts, _ROOM):
        return None
    steps, left = np.divmod(apart * shares, parts)
    units = least + steps
    units += (2 * left > parts) | ((2 * left == parts) & (units & 1 == 1))
    return of_integers(units, low.type), np.ones(len(units), np.bool_)


def _whole(low: pa.Array, high: pa.Array) -> tuple[Integers, Integers] | None:
    """Return integers, or those behind a type, that leave room for sums; else None."""
    kind = low.type
    if pa.types.is_date64(kind) or not (pa.types.is_integer(kind) or is_temporal(kind)):
        return None
    held = [integers(values) for values in (low, high)]
    if any(numbers.dtype == np.uint64 for numbers in held):
        return None
    least, most = (numbers.astype(np.int64) for numbers in held)
    return (least, most) if _within(least, _ROOM >> 1) and _within(most, _ROOM >> 1) else None


def _within(numbers: Integers, bound: int) -> bool:
    return -bound <= int(numbers.min(initial=0)) and int(numbers.max(initial=0)) <= bound


def _over(pair: Pair, divisors: Floats) -> Pair:
    """Return the quotient of pairs and doubles."""
    quotient = pair[0] / divisors
    product, error = two_product(quotient, divisors)
    return two_sum(quotient, ((pair[0] - product) - error + pair[1]) / divisors)


def rounded_quotient(numerator: int, denominator: int, exponent: int = 0) -> float:
    """Return ``numerator / denominator * 2**exponent``, rounded once; ±inf past the range.

    A numerator of zero gives 0.0, whatever the sign of the denominator.
    """
    if not numerator:
        return 0.0
    if exponent >= 0:
        numerator <<= exponent
    else:
        denominator <<= -exponent
    try:
        # True division of Python integers is correctly rounded.
        return numerator / denominator
    except OverflowError:
        return math.inf if (numerator < 0) == (denominator < 0) else -math.inf


def rounded_integer(numerator: int, denominator: int, exponent: int = 0) -> int:
    """Return ``numerator / denominator * 2**exponent`` to the nearest integer, half to even."""
    if exponent >= 0:
        numerator <<= exponent
    else:
        denominator <<= -exponent
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, remainder = divmod(numerator, denominator)
    return quotient + (2 * remainder + (quotient & 1) > denominator)


def rounded_integer_root(numerator: int, denominator: int) -> int:
    """Return the root of ``numerator / denominator`` to the nearest integer."""
    twice = math.isqrt(4 * numerator // denominator)
    whole, odd = divmod(twice, 2)
    if odd and twice * twice * denominator == 4 * numerator:  # exactly half
        return whole + (whole & 1)
    return whole + odd
