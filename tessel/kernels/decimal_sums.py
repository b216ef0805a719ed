"""Doubles that stand for decimals: which integers are meant, and how far off they can be.

Columns of decimals enter here with their bounds, and products and sums of them follow. A double
``q`` means the decimal ``i / 10**places``; rounding left ``q * 10**places - i``, which is small and
a multiple of a power of two, so that integers and what was left can be added up in words.

Exact sums of decimals kept as doubles, from sums of the integers that they are stored as.

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

from tessel.kernels.fields import SumField
from tessel.lazy import dataclass

_FRACTION_BITS = 53
_SLACK = 1 + 2.0**-40
"""Bounds of errors are computed in doubles themselves."""


@dataclass(frozen=True, slots=True)
class DecimalBounds:
    """What is known of doubles that stand for decimals.

    Attributes
    ----------
    places
        Decimal places.
    low, high
        No integer is below or above.
    unit
        Every double is a multiple of ``2**unit``.
    error
        No double times ``10**places`` is further from its integer.
    """

    places: int
    low: int
    high: int
    unit: int
    error: float

    @classmethod
    def of_integers(cls, low: int, high: int) -> DecimalBounds:
        """Return the bounds of integers, each a double."""
        return cls(0, low, high, 0, 0.0)

    @classmethod
    def of_decimals(cls, places: int, low: float, high: float) -> DecimalBounds | None:
        """Return the bounds of doubles that are nearest to decimals; None of endless ones.

        Parameters
        ----------
        places
            Decimal places of all of them, not below 0.
        low, high
            The least and the greatest double.
        """
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        power = 10**places
        least, most = low * power, high * power
        ends = (
            math.floor(min(least * _SLACK, least / _SLACK)),
            math.ceil(max(most * _SLACK, most / _SLACK)),
        )
        if places == 0:
            return cls.of_integers(*ends)
        error = power * _half_of_last_bit(max(abs(low), abs(high)))
        return cls(places, *ends, _least_unit(_least(low, high, places)), error)

    @property
    def largest(self) -> int:
        """What no integer exceeds in size."""
        return max(abs(self.low), abs(self.high))

    def times(self, other: DecimalBounds) -> DecimalBounds:
        """Return the bounds of rounded products."""
        places = self.places + other.places
        ends = [one * two for one in (self.low, self.high) for two in (other.low, other.high)]
        low, high = min(ends), max(ends)
        error = self.largest * other.error + other.largest * self.error + self.error * other.error
        error += self._rounding(places, low, high, error)
        # The double next to the least product that is not zero.
        least = max(1, _least_size(low, high)) - error
        unit = self.unit + other.unit
        if least > 0:
            unit = max(unit, _least_unit(least / 10**places / _SLACK))
        return DecimalBounds(places, low, high, unit, error * _SLACK)

    def plus(self, other: DecimalBounds) -> DecimalBounds | None:
        """Return the bounds of rounded sums; None where the decimals have other places."""
        if self.places != other.places:
            return None
        low, high = self.low + other.low, self.high + other.high
        error = self.error + other.error
        error += self._rounding(self.places, low, high, error)
        return DecimalBounds(self.places, low, high, min(self.unit, other.unit), error * _SLACK)

    def minus(self, other: DecimalBounds) -> DecimalBounds | None:
        """Return the bounds of rounded differences; None where the decimals have other places."""
        negated = DecimalBounds(other.places, -other.high, -other.low, other.unit, other.error)
        return self.plus(negated)

    def _rounding(self, places: int, low: int, high: int, error: float) -> float:
        """Return how far one more rounding brings results, in units of the last place."""
        power = float(10**places)
        return power * _half_of_last_bit((max(abs(low), abs(high)) + error) / power * _SLACK)


def _least(low: float, high: float, places: int) -> float:
    """Return what no double that is not zero is below in size."""
    if low > 0:
        return low
    return -high if high < 0 else 10.0**-places / _SLACK


def _least_size(low: int, high: int) -> int:
    return low if low > 0 else -high if high < 0 else 1


def _least_unit(least: float) -> int:
    """Return the place of the last bit of a double; no larger one has a lower one."""
    return math.frexp(least)[1] - _FRACTION_BITS


def _half_of_last_bit(largest: float) -> float:
    return math.ldexp(1.0, math.frexp(largest)[1] - _FRACTION_BITS - 1)


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
