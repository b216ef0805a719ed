"""The units of a calendar: days, weeks, months and longer, business days, each counted.

A unit turns dates (int64 days since 1970-01-01) into numbers of units and back, on whole arrays.
Number 0 is always the unit that holds 1970-01-01. Time zones and hours are no matter here.

Buckets of a calendar: each begins at the first instant of a local date.

A day of 23 or 25 hours is one bucket, and a month is a month. Where a zone skips midnight, a date
begins at the first instant after the gap; where midnight comes twice, at the first of the two.
"""

from __future__ import annotations

import datetime as dt
import functools
from typing import Literal, Protocol

import numpy as np

from tessel.arrays import different
from tessel.clauses.buckets.base import Closed, Integers, past_the_index
from tessel.errors import PlanError
from tessel.expression.periods import first_instant_ns
from tessel.expression.types import DAY_NANOSECONDS
from tessel.lazy import dataclass

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
    """Some days each, one of which begins at the date ``start``."""

    count: int = 1
    start: int = 0

    @classmethod
    def weeks(cls, weekday: int) -> Days:
        """Return weeks that begin with a weekday (Monday is 0)."""
        return cls(7, -((_THURSDAY - weekday) % 7))

    def number_of(self, days: Integers) -> Integers:
        """Return the unit that holds each date."""
        return (days - self.start) // self.count

    def first_day(self, numbers: Integers) -> Integers:
        """Return the first date of each unit."""
        return numbers * self.count + self.start


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


_MARGIN_DAYS = 3
"""A local date is at most a day from that of UTC, and the hours of an offset are one day more."""
_LIMITS = np.iinfo(np.int64)


@dataclass(frozen=True)
class CalendarBucketer:
    """Buckets of ``count`` units of a calendar.

    Attributes
    ----------
    anchor
        Number of the unit at which bucket 0 begins.
    unit_ns
        Nanoseconds of the unit of the index; one day or a divisor of it.
    zone
        Whose dates; None where the index has no zone, and for UTC.
    offset_days, offset_ns
        By how much each edge is moved on the calendar, and then on the clock by less than a day.
    ends
        Whether the right label of a bucket is its last day instead of the first day after it.
    """

    unit: CalendarUnit
    count: int
    unit_ns: int
    closed: Closed
    zone: dt.tzinfo | None = None
    anchor: int = 0
    offset_days: int = 0
    offset_ns: int = 0
    ends: bool = False

    def numbers(self, values: Integers) -> Integers:
        """Return the bucket of each value."""
        if len(values) == 0:
            return np.empty(0, np.int64)
        days = values // (DAY_NANOSECONDS // self.unit_ns)
        changes = np.concatenate([[True], days[1:] != days[:-1]])
        near = days[changes][:, None] + np.arange(-_MARGIN_DAYS, _MARGIN_DAYS + 1)
        units = self.unit.number_of(near.ravel() - self.offset_days)
        candidates = different((units - self.anchor) // self.count)
        # Edges past 64 bits are below or above every value.
        below, edges = self._held_edges(self._days(candidates))
        side: Closed = "right" if self.closed == "left" else "left"
        return candidates[np.searchsorted(edges, values, side=side) + (below - 1)]

    def edges(self, numbers: Integers) -> Integers:
        """Return the left edge of each bucket."""
        return self._all_edges(self._days(numbers))

    def labels(self, numbers: Integers, side: Literal["left", "right"]) -> Integers:
        """Return the edge of each bucket on one side, or the beginning of its last day."""
        if side == "left":
            return self.edges(numbers)
        return self._all_edges(self._days(numbers + 1) - self.ends)

    def _days(self, numbers: Integers) -> Integers:
        """Return the date at which each bucket begins."""
        return self.unit.first_day(numbers * self.count + self.anchor) + self.offset_days

    def _all_edges(self, days: Integers) -> Integers:
        below, edges = self._held_edges(days)
        if below or len(edges) < len(days):
            raise past_the_index()
        return edges

    def _held_edges(self, days: Integers) -> tuple[int, Integers]:
        """Return how many dates begin below 64 bits, and where those inside begin."""
        if self.zone is None:
            width, shift = DAY_NANOSECONDS // self.unit_ns, self.offset_ns // self.unit_ns
            low = -((int(_LIMITS.min) - shift) // -width)
            high = (int(_LIMITS.max) - shift) // width
            below = int(np.count_nonzero(days < low))
            inside = days[(days >= low) & (days <= high)]
            return below, inside * width + shift  # wraps at most on the way
        found = [
            -(-_day_start(day, self.zone, self.offset_ns) // self.unit_ns) for day in days.tolist()
        ]
        inside_64 = [edge for edge in found if _LIMITS.min <= edge <= _LIMITS.max]
        return sum(edge < _LIMITS.min for edge in found), np.array(inside_64, dtype=np.int64)


@functools.lru_cache(maxsize=65_536)
def _day_start(epoch_day: int, zone: dt.tzinfo, offset_ns: int) -> int:
    """Return when clocks first show a time of a local date, in nanoseconds since 1970 UTC."""
    seconds, fraction = divmod(offset_ns, 1_000_000_000)
    try:
        wall = dt.datetime(1970, 1, 1) + dt.timedelta(days=epoch_day, seconds=seconds)
        return first_instant_ns(wall, zone) + fraction
    except OverflowError:
        raise PlanError(
            "resample by local dates reaches past the years 1 to 9999",
            hint="convert the index to UTC, or filter the instants away",
        ) from None
