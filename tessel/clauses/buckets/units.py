"""The units of a calendar: days, weeks, months and longer, business days, each counted.

A unit turns dates (int64 days since 1970-01-01) into numbers of units and back, on whole arrays.
Number 0 is always the unit that holds 1970-01-01. Time zones and hours are no matter here.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tessel.clauses.buckets.base import Integers
from tessel.lazy import dataclass

__all__ = ["BusinessDays", "CalendarUnit", "Days", "Months", "Weeks"]

_THURSDAY = 3
"""The weekday of 1970-01-01, where Monday is 0."""


class CalendarUnit(Protocol):
    """A unit of whole dates; each date is in exactly one."""

    def number_of(self, days: Integers) -> Integers:
        """Return the unit that holds each date."""

    def first_day(self, numbers: Integers) -> Integers:
        """Return the first date of each unit."""


@dataclass(frozen=True)
class Days:
    """Dates one by one."""

    def number_of(self, days: Integers) -> Integers:
        """Return the dates as they are."""
        return days

    def first_day(self, numbers: Integers) -> Integers:
        """Return the dates as they are."""
        return numbers


@dataclass(frozen=True)
class Weeks:
    """Seven days from a weekday on (Monday is 0)."""

    weekday: int = 0

    @property
    def _start(self) -> int:
        """The date of the last such weekday up to 1970-01-01."""
        return -((_THURSDAY - self.weekday) % 7)

    def number_of(self, days: Integers) -> Integers:
        """Return the week that holds each date."""
        return (days - self._start) // 7

    def first_day(self, numbers: Integers) -> Integers:
        """Return the first date of each week."""
        return numbers * 7 + self._start


@dataclass(frozen=True)
class Months:
    """One, three (a quarter) or twelve (a year) months; month ``first``, 1 to 12, begins one."""

    months: int = 1
    first: int = 1

    @property
    def _start(self) -> int:
        """The month, counted from January 1970, that begins unit 0."""
        return -(-(self.first - 1) % self.months)

    def number_of(self, days: Integers) -> Integers:
        """Return the unit that holds each date."""
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        return (months - self._start) // self.months

    def first_day(self, numbers: Integers) -> Integers:
        """Return the first date of each unit."""
        months = (numbers * self.months + self._start).astype("datetime64[M]")
        return months.astype("datetime64[D]").astype(np.int64)


@dataclass(frozen=True)
class BusinessDays:
    """Monday to Friday; Saturday and Sunday go with the Friday before."""

    def number_of(self, days: Integers) -> Integers:
        """Return the business day that each date goes with."""
        weeks, weekdays = np.divmod(days + _THURSDAY, 7)
        return weeks * 5 + np.minimum(weekdays, 4) - _THURSDAY

    def first_day(self, numbers: Integers) -> Integers:
        """Return the date of each business day."""
        weeks, weekdays = np.divmod(numbers + _THURSDAY, 5)
        return weeks * 7 + weekdays - _THURSDAY
