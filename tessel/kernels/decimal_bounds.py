"""Doubles that stand for decimals: which integers are meant, and how far off they can be.

Columns of decimals enter here with their bounds, and products and sums of them follow. A double
``q`` means the decimal ``i / 10**places``; rounding left ``q * 10**places - i``, which is small and
a multiple of a power of two, so that integers and what was left can be added up in words.
"""

from __future__ import annotations

import math

from tessel.lazy import dataclass

__all__ = ["DecimalBounds"]

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
