"""Exact sums of products by group, and the rounded quotients and roots that follow from them.

Variances and weighted means are quotients of sums of products. Each product of two doubles is taken
apart into a rounded product and its error (Veltkamp's splitting and Dekker's product: Dekker, A
floating-point technique for extending the available precision, 1971), scaled so that neither can
leave the range of doubles. Both are added exactly, so the sum of products is exact as well. Wide
integers and decimals are sums of a few doubles first. At the end stands one division or one root of
Python integers, which is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import different
from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.limbs import LIMB_BITS, LIMB_MASK
from tessel.clauses.aggregates.kernels.sums import DAY_MS
from tessel.clauses.values import decimal_words, integers, raw_values

__all__ = [
    "ExactNumbers",
    "added_sums",
    "number_parts",
    "rounded_integer",
    "rounded_integer_root",
    "rounded_quotient",
    "rounded_root",
    "sums_of_numbers",
    "sums_of_products",
]

Codes = NDArray[np.int64]
Parts = list[NDArray[np.float64]]

# Integers up to this size are doubles.
_EXACT = 1 << 53
# Exponent of the lowest bit of any double, and of any product of two.
_LEAST_EXPONENT = -1074
# Products are brought near 1 in steps of this many binary digits: whole limbs, so that a sum moves
# back by renaming its limbs.
_STEP_BITS = 512
# What is left over when the lowest bit of products, 2 * 1074 below 1, becomes that of doubles.
_EXTRA_BITS = -_LEAST_EXPONENT % LIMB_BITS
# Doubles between this and its inverse have products that are safe as they are.
_MODERATE = 2.0**400
# Rows a block: what is split at a time stays in the cache.
_BLOCK_ROWS = 1 << 14
# Splits a double into halves of 26 bits.
_SPLITTER = 2.0**27 + 1
# Bits of a root before it is rounded to a double: two more than twice the 53 of a double.
_ROOT_BITS = 109


# --- sums -----------------------------------------------------------------------------------------


def number_parts(values: pa.Array) -> Parts:
    """Write numbers as sums of doubles, without rounding.

    Parameters
    ----------
    values
        Plain, nothing missing, ``rows`` long: numbers, bool, null or a temporal type. Decimals give
        their unscaled integers, dates their days, other temporal types their units.

    Returns
    -------
    list of numpy.ndarray
        One float64 array or more, shape ``(rows,)``; value ``i`` is the sum of their ``i``-ths.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        return [raw_values(values, kind.to_pandas_dtype()).astype(np.float64, copy=False)]
    if pa.types.is_decimal(kind):
        words = decimal_words(values)
        low, high = words[:, 0].view(np.uint64), words[:, 1]
        limbs = [
            low & np.uint64(LIMB_MASK),
            low >> np.uint64(LIMB_BITS),
            high & LIMB_MASK,
            high >> LIMB_BITS,
        ]
        return _weighted(limbs)
    numbers = integers(values)
    if pa.types.is_date64(kind):
        numbers = numbers // DAY_MS
    if numbers.dtype.itemsize < 8 or not len(numbers):
        return [numbers.astype(np.float64)]
    if max(abs(int(numbers.min())), abs(int(numbers.max()))) <= _EXACT:
        return [numbers.astype(np.float64)]
    mask = numbers.dtype.type(LIMB_MASK)
    return _weighted([numbers & mask, numbers >> numbers.dtype.type(LIMB_BITS)])


def _weighted(limbs: Sequence[NDArray[Any]]) -> Parts:
    parts = [np.ldexp(limb.astype(np.float64), LIMB_BITS * k) for k, limb in enumerate(limbs)]
    return [part for part in parts if part.any()] or parts[:1]


def sums_of_numbers(parts: Parts, codes: Codes, groups: int) -> FloatSums:
    """Add numbers, in the form of :func:`number_parts`, by group."""
    return added_sums([FloatSums.of_values(part, codes, groups) for part in parts], groups)


def sums_of_products(left: Parts, right: Parts, codes: Codes, groups: int) -> FloatSums:
    """Add products by group, exactly.

    Parameters
    ----------
    left, right
        Finite numbers in the form of :func:`number_parts`.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.
    groups
        How many groups there are; those without rows sum to zero.

    Returns
    -------
    FloatSums
        The sums times ``2**1074``: the lowest bit of a product becomes that of a double.
    """
    found: list[FloatSums] = []
    for one in left:
        for other in right:
            found += _sums_of_products(one, other, codes, groups)
    return added_sums(found, groups)


def _sums_of_products(
    left: NDArray[np.float64], right: NDArray[np.float64], codes: Codes, groups: int
) -> list[FloatSums]:
    if _is_moderate(left) and (right is left or _is_moderate(right)):
        return _sums_near_one(left, right * 2.0**_EXTRA_BITS, codes, groups, 0)
    left, left_exponents = np.frexp(left)
    right, right_exponents = np.frexp(right)
    exponents = left_exponents + right_exponents
    steps = np.rint(exponents / _STEP_BITS).astype(np.int32)
    # The second factor takes the exponents of both, less those of its step.
    right = np.ldexp(right, exponents - steps * _STEP_BITS + _EXTRA_BITS)
    found: list[FloatSums] = []
    for step in different(steps).tolist():
        here = steps == step
        found += _sums_near_one(left[here], right[here], codes[here], groups, step)
    return found


def _is_moderate(values: NDArray[np.float64]) -> bool:
    """Say whether no product of such values, nor its error, can leave the range of doubles."""
    magnitudes = np.abs(values)
    largest = magnitudes.max(initial=0.0)
    least = magnitudes.min(where=magnitudes > 0, initial=1.0)
    return bool(least >= 1 / _MODERATE and largest <= _MODERATE)


def _sums_near_one(
    left: NDArray[np.float64], right: NDArray[np.float64], codes: Codes, groups: int, step: int
) -> list[FloatSums]:
    """Add products that are safe from overflow and underflow; sums are moved by their step."""
    products, errors = np.empty_like(left), np.empty_like(left)
    for start in range(0, len(left), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        np.multiply(left[block], right[block], out=products[block])
        _errors_of_products(left[block], right[block], products[block], errors[block])
    limbs = (step * _STEP_BITS - _LEAST_EXPONENT - _EXTRA_BITS) // LIMB_BITS
    return [
        _moved(FloatSums.of_values(part, codes, groups), limbs)
        for part in (products, errors)
        if part.any()
    ]


def _errors_of_products(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    products: NDArray[np.float64],
    errors: NDArray[np.float64],
) -> None:
    """Set ``errors`` to what rounding took from each product."""
    left_high, left_low = _halves(left)
    right_high, right_low = _halves(right)
    np.multiply(left_high, right_high, out=errors)
    errors -= products
    errors += left_high * right_low
    errors += left_low * right_high
    errors += left_low * right_low


def _halves(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    high = values * _SPLITTER
    high -= high - values
    return high, values - high


def _moved(sums: FloatSums, limbs: int) -> FloatSums:
    """Multiply sums by a power of ``2**32``; of zero the first limb stays 0."""
    first = np.where(np.diff(sums.ends) > 0, sums.first_limb + limbs, 0).astype(np.int32)
    return FloatSums(first, sums.ends, sums.limbs, sums.positive_infinity, sums.negative_infinity)


def added_sums(found: list[FloatSums], groups: int) -> FloatSums:
    """Add sums of the same groups."""
    if not found:
        return FloatSums.of_values(np.zeros(0), np.zeros(0, np.int64), groups)
    if len(found) == 1:
        return found[0]
    return FloatSums.stacked(found).merged(np.tile(np.arange(groups), len(found)), groups)


# --- what follows from them -----------------------------------------------------------------------


@dataclass(frozen=True)
class ExactNumbers:
    """Sums as Python integers: number ``g`` is ``integers[g] * 2**exponents[g]``.

    Exponents are multiples of 32 above that of the lowest bit of doubles, 1074 below 1.
    """

    integers: list[int]
    exponents: list[int]

    @classmethod
    def of(cls, sums: FloatSums) -> ExactNumbers:
        """Read exact sums; infinities are left out."""
        ends = sums.ends.tolist()
        words = np.abs(sums.limbs).astype("<u4").tobytes()
        signs = np.ones(sums.groups, np.int64)
        some = np.flatnonzero(np.diff(sums.ends))
        signs[some] = np.sign(sums.limbs[sums.ends[some]])
        integers = [
            sign * int.from_bytes(words[4 * start : 4 * stop], "little")
            for sign, start, stop in zip(signs.tolist(), ends[:-1], ends[1:], strict=True)
        ]
        exponents = sums.first_limb.astype(np.int64) * LIMB_BITS + _LEAST_EXPONENT
        return cls(integers, exponents.tolist())


def rounded_quotient(numerator: int, denominator: int, exponent: int = 0) -> float:
    """Return ``numerator / denominator * 2**exponent``, rounded once; ±inf past the range."""
    if exponent >= 0:
        numerator <<= exponent
    else:
        denominator <<= -exponent
    try:
        # True division of Python integers is correctly rounded.
        return numerator / denominator
    except OverflowError:
        return math.inf if (numerator < 0) == (denominator < 0) else -math.inf


def rounded_root(numerator: int, denominator: int, exponent: int = 0) -> float:
    """Return the square root of ``numerator / denominator * 2**exponent``, rounded once.

    An integer root of more bits than a double has, its last bit set where something is left over
    ("round to odd"), and then one rounding: Boldo and Melquiond, Emulation of FMA and correctly
    rounded sums, IEEE Transactions on Computers 57, 2008; as Python's ``statistics`` has it.
    """
    if not numerator:
        return 0.0
    if exponent % 2:
        numerator, exponent = numerator * 2, exponent - 1
    shift = (numerator.bit_length() - denominator.bit_length() - _ROOT_BITS) // 2
    if shift >= 0:
        denominator <<= 2 * shift
    else:
        numerator <<= -2 * shift
    root = math.isqrt(numerator // denominator)
    root |= root * root * denominator != numerator
    return rounded_quotient(root, 1, shift + exponent // 2)


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


def rounded_integer_root(numerator: int, denominator: int, exponent: int = 0) -> int:
    """Return the root of ``numerator / denominator * 2**exponent`` to the nearest integer."""
    if exponent >= 0:
        numerator <<= exponent
    else:
        denominator <<= -exponent
    twice = math.isqrt(4 * numerator // denominator)
    whole, odd = divmod(twice, 2)
    if odd and twice * twice * denominator == 4 * numerator:  # exactly half
        return whole + (whole & 1)
    return whole + odd
