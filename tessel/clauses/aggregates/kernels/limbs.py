"""Wide integers, one per group, as 32-bit limbs in columns of int64.

An array of limbs has shape ``(width, groups)``; row ``k`` holds the digits of weight ``2**(32 k)``
of every group, so that each step is one numpy operation over all groups. Limbs may hold more than
32 bits while sums run; :func:`carry` brings them back. Long division and the final rounding follow
Knuth, The Art of Computer Programming 2, 4.3.1 (algorithm D with a one-limb divisor) and IEEE 754
(round to nearest, ties to even).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIMB_BITS", "LIMB_MASK", "add_shifted", "carry", "divide", "magnitude", "to_floats"]

LIMB_BITS = 32
LIMB_MASK = (1 << LIMB_BITS) - 1
# Significant bits of a double, and the exponent of its smallest unit.
_MANTISSA_BITS = 53
_LEAST_EXPONENT = -1074

Limbs = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def carry(limbs: Limbs) -> None:
    """Bring limbs into normal form in place.

    Afterwards every limb but the highest is in ``[0, 2**32)`` and the highest carries the sign
    (two's complement). The highest limb must have room: callers leave it free.

    Parameters
    ----------
    limbs
        int64, shape ``(width, groups)``, lowest limb first.
    """
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> LIMB_BITS
        limbs[place] &= LIMB_MASK


def add_shifted(limbs: Limbs, numbers: NDArray[np.int64], bits: int) -> None:
    """Add ``numbers * 2**bits`` to ``limbs`` in place, leaving carries to :func:`carry`.

    Parameters
    ----------
    limbs
        int64, shape ``(width, groups)``; limbs ``bits // 32`` to ``bits // 32 + 2`` must exist.
    numbers
        int64, shape ``(groups,)``.
    bits
        Not negative.
    """
    place, shift = divmod(bits, LIMB_BITS)
    low = (numbers & LIMB_MASK) << shift
    # A shift of 31 takes the low half to 63 bits: it stays positive.
    high = (numbers >> LIMB_BITS) << shift
    limbs[place] += low & LIMB_MASK
    limbs[place + 1] += (low >> LIMB_BITS) + (high & LIMB_MASK)
    limbs[place + 2] += high >> LIMB_BITS


def magnitude(limbs: Limbs) -> tuple[BoolArray, Limbs]:
    """Split numbers in normal form into sign and magnitude.

    Returns
    -------
    negative : numpy.ndarray
        Bool, shape ``(groups,)``.
    magnitude : numpy.ndarray
        int64, same shape as ``limbs``, every limb in ``[0, 2**32)`` where the number fits.
    """
    negative = limbs[-1] < 0
    unsigned = np.where(negative, -limbs, limbs)
    carry(unsigned)
    return negative, unsigned


def divide(limbs: Limbs, divisors: NDArray[np.int64]) -> tuple[Limbs, NDArray[np.int64]]:
    """Divide magnitudes by one divisor a group.

    Parameters
    ----------
    limbs
        int64, shape ``(width, groups)``, limbs in ``[0, 2**32)``.
    divisors
        int64, shape ``(groups,)``, in ``[1, 2**31)``.

    Returns
    -------
    quotients : numpy.ndarray
        int64, same shape as ``limbs``.
    remainders : numpy.ndarray
        int64, shape ``(groups,)``.
    """
    quotients = np.empty_like(limbs)
    remainders = np.zeros(limbs.shape[1], np.int64)
    for place in range(len(limbs) - 1, -1, -1):
        # A remainder has 31 bits at most, so this stays below 2**63.
        quotients[place], remainders = np.divmod((remainders << LIMB_BITS) | limbs[place], divisors)
    return quotients, remainders


def to_floats(limbs: Limbs, exponent: int, sticky: BoolArray) -> NDArray[np.float64]:
    """Round magnitudes to the nearest double, ties to even, once.

    Parameters
    ----------
    limbs
        int64, shape ``(width, groups)``, limbs in ``[0, 2**32)``; the number is
        ``sum(limbs[k] * 2**(32 k)) * 2**exponent``.
    exponent
        Of the lowest bit.
    sticky
        Bool, shape ``(groups,)``: true where the exact number is a little larger (by less than
        the lowest bit). ``exponent`` must then leave at least 64 significant bits.

    Returns
    -------
    numpy.ndarray
        float64, shape ``(groups,)``; numbers past the range are infinite.
    """
    width, groups = limbs.shape
    everyone = np.arange(groups)
    # Three empty limbs below let the window of three limbs always exist.
    padded = np.concatenate([np.zeros((3, groups), np.int64), limbs]).astype(np.uint64)
    nonzero = padded != 0
    top = width + 2 - np.argmax(nonzero[::-1], axis=0)
    top[~nonzero.any(axis=0)] = 3
    below = np.cumsum(nonzero, axis=0)[top - 3, everyone] > 0
    window = [padded[top - step, everyone] for step in range(3)]
    # Slide the leading bit to bit 63; a limb of the window has 32 bits, so 1 to 32 come in.
    length = np.frexp(window[0].astype(np.float64))[1]
    shift = (LIMB_BITS - length).astype(np.uint64)
    leading = (window[0] << np.uint64(LIMB_BITS)) | window[1]
    incoming = window[2] << shift
    bits = (leading << shift) | (incoming >> np.uint64(LIMB_BITS))
    rest = sticky | below | ((incoming & np.uint64(LIMB_MASK)) != 0)
    lowest = exponent + (top - 3 - 1) * LIMB_BITS - (LIMB_BITS - length)
    return _round(bits, lowest, rest)


def _round(
    bits: NDArray[np.uint64], exponents: NDArray[np.int64], rest: BoolArray
) -> NDArray[np.float64]:
    """Round ``(bits + something below 1 where rest) * 2**exponents``; bit 63 set unless zero."""
    # Below the normal range fewer bits than 53 are kept; past 65 dropped ones all is below half.
    dropped = np.clip(_LEAST_EXPONENT - exponents, 64 - _MANTISSA_BITS, 65)
    cut = np.minimum(dropped, 63).astype(np.uint64)
    one = np.uint64(1)
    half = one << (cut - one)
    remainder = bits & ((one << cut) - one)
    kept = bits >> cut
    up = (remainder > half) | ((remainder == half) & (rest | ((kept & one) == one)))
    # 64 bits dropped: bit 63 is the half itself. 65: always less than half.
    up = np.where(dropped == 64, (bits > half << one) | ((bits == half << one) & rest), up)
    up &= dropped < 65
    kept = np.where(dropped >= 64, np.uint64(0), kept) + up.astype(np.uint64)
    with np.errstate(over="ignore"):
        rounded: NDArray[np.float64] = np.ldexp(kept.astype(np.float64), exponents + dropped)
    return rounded
