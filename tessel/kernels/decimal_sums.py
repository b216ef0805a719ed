"""Exact sums of decimals kept as doubles, from sums of the integers that they are stored as.

A decimal of ``e`` places is stored as an integer ``i``; its value is the double ``v`` nearest to
``i / 10**e``. What rounding took away or added, ``v * 10**e - i``, is a tiny multiple of a power of
two, so that two narrow integers a row, which add up without limbs, stand for a double:
``sum(v) * 10**e == sum(i) + sum(residuals) / 2**c``. The quotient is brought back here, by group,
from its low 64 bits, which division by an odd number modulo 2**64 gives, and from a double that is
near enough to say the bits above them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.decimal_bounds import DecimalBounds
from tessel.kernels.fields import SumField
from tessel.lazy import dataclass

__all__ = ["DecimalSum"]

Integers = NDArray[np.int64]

_MOST_PLACES = 11
_MOST_RESIDUAL_BITS = 36
_MOST_UP = 62
_MOST_BITS = 78
"""With 31 more for rows, doubles are near enough to say the bits of sums above 64."""
_MOST_INTEGER_BITS = 42
_HALF = 32
_HALF_MASK = np.uint64((1 << _HALF) - 1)


@dataclass(frozen=True)
class DecimalSum:
    """How doubles that stand for decimals are added up.

    Attributes
    ----------
    places
        Decimal places, 0 to 11; with none, integers are values, and nothing is rounded off.
    up
        Residuals are multiples of ``2**-up``.
    integer_bits, residual_bits
        Integers, and residuals times ``2**up``, are below two to this in size.
    """

    places: int
    up: int
    integer_bits: int
    residual_bits: int

    @classmethod
    def of(cls, bounds: DecimalBounds) -> DecimalSum | None:
        """Return how doubles that stand for decimals are added up; None where words do not."""
        integer_bits = bounds.largest.bit_length()
        if not 0 <= bounds.places <= _MOST_PLACES or integer_bits > _MOST_INTEGER_BITS:
            return None
        if bounds.places == 0 or bounds.error == 0.0:
            return cls(0, 0, integer_bits, 0) if bounds.places == bounds.error == 0 else None
        up = max(0, -(bounds.unit + bounds.places))
        residual_bits = max(math.ceil(math.log2(bounds.error)) + up + 1, 1)
        if up > _MOST_UP or residual_bits > _MOST_RESIDUAL_BITS:
            return None
        if integer_bits + up > _MOST_BITS:
            return None
        return cls(bounds.places, up, integer_bits, residual_bits)

    def fields(self, integers: int, residuals: int | None) -> list[SumField]:
        """Return what is summed: the registers of the integers, and of what is rounded off."""
        found = [SumField.of_integers(integers, (1 << self.integer_bits) - 1)]
        if residuals is not None:
            found.append(SumField.of_integers(residuals, (1 << self.residual_bits) - 1))
        return found

    def sums(self, found: list[Mapping[int, Integers]]) -> dict[int, Integers]:
        """Return the sums of the doubles from those of the fields.

        Parameters
        ----------
        found
            For each field, int64 sums, shape ``(groups,)``, by bit position.

        Returns
        -------
        dict
            The same for the doubles, by exponent.
        """
        if self.places == 0:
            return dict(found[0])
        integers, residuals = found
        with np.errstate(over="ignore"):  # modulo 2**64
            words = (_word(integers) << np.uint64(self.up)) + _word(residuals)
            words *= np.uint64(pow(5**self.places, -1, 1 << 64))
        near = (_near(integers) * 2.0**self.up + _near(residuals)) / 5.0**self.places
        above = np.rint((near - words.astype(np.float64)) / 2.0**64).astype(np.int64)
        lowest = -(self.up + self.places)
        return {
            lowest: (words & _HALF_MASK).view(np.int64),
            lowest + _HALF: (words >> np.uint64(_HALF)).view(np.int64),
            lowest + 2 * _HALF: above,
        }


def _word(parts: Mapping[int, Integers]) -> NDArray[np.uint64]:
    """Return sums modulo 2**64."""
    found: Any = np.uint64(0)
    for place, held in parts.items():
        found = found + (held.view(np.uint64) << np.uint64(place))
    return np.asarray(found, np.uint64)


def _near(parts: Mapping[int, Integers]) -> NDArray[np.float64]:
    """Return sums to within a few units in the last place of the largest part."""
    found: Any = 0.0
    for place, held in parts.items():
        found = found + held.astype(np.float64) * 2.0**place
    return np.asarray(found, np.float64)
