"""Where buckets begin: from an origin and an offset, as written, to a bucketer.

An origin is ``epoch``, an instant as ISO text, or one of four that depend on the data: ``start``
and ``end`` (the first and last time of all rows), ``start_day`` and ``end_day`` (the first instant
of the local date of the first time; the first one at or after the last time). For a calendar rule
every origin means the unit that it falls in, since its buckets begin with a date.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tessel.clauses.buckets.base import Bucketer, Closed, ElapsedBucketer
from tessel.clauses.buckets.rules import CalendarRule, parse_offset, parse_rule
from tessel.errors import IndexColumnError, PlanError
from tessel.expression.periods import parse_period, zone_of
from tessel.expression.types import DAY_NANOSECONDS, UNIT_NANOSECONDS, counted_nanoseconds
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.clauses.buckets.calendar import CalendarBucketer

DATA_ORIGINS = ("start", "start_day", "end", "end_day")
"""The origins that depend on the rows."""


def bucketer_for(
    rule: str,
    kind: pa.DataType,
    *,
    closed: Closed,
    origin: str,
    offset: str | None,
    origin_at: int | None = None,
) -> Bucketer:
    """Return the bucketer of a rule for an index type.

    Raises PlanError or IndexColumnError for a rule that is none, or finer than the index.

    Parameters
    ----------
    rule
        Length of a bucket, such as ``"15s"``, ``"1h30min"``, ``"1D"``, ``"MS"``.
    kind
        Type of the index: timestamps, or dates for a calendar rule.
    origin
        ``"epoch"``, ISO text, or one of ``DATA_ORIGINS``.
    offset
        A span by which all edges are moved, such as ``"6h"``; a minus in front moves back. For a
        calendar rule it is a time on local clocks.
    origin_at
        For an origin that depends on the data: the first (``start``, ``start_day``) or last
        (``end``, ``end_day``) time of the rows, in the unit of the index; None while it is not
        known, or where there are no rows.
    """
    index = _Index.of(kind)
    read = parse_rule(rule)
    offset_days, offset_ns = parse_offset(offset)
    offset_ns += offset_days * DAY_NANOSECONDS
    if isinstance(read, CalendarRule):
        from tessel.clauses.buckets.calendar import CalendarBucketer, Days

        index.units(offset_ns, "offset", str(offset))
        if origin != "epoch" and origin not in DATA_ORIGINS and read.unit == Days():
            offset_ns += index.date_and_time(origin)[1]
        days, clock_ns = divmod(offset_ns, DAY_NANOSECONDS)
        plain = CalendarBucketer(
            read.unit,
            1,
            index.unit_ns,
            closed,
            index.calendar_zone,
            offset_days=days,
            offset_ns=clock_ns,
            ends=read.ends,
        )
        anchor = _anchor(plain, index, rule, origin, origin_at)
        return dataclasses.replace(plain, count=read.count, anchor=anchor)
    if pa.types.is_date(kind):
        raise IndexColumnError(
            f"an index of dates has no buckets of {rule!r}",
            hint="use a rule in days or longer: 1D, W, MS, QS, YS",
            type=str(kind),
        )
    width = index.units(read, "rule", rule)
    start = _start(index, origin, origin_at)
    shift = index.units(offset_ns, "offset", str(offset))
    return ElapsedBucketer(width, (start + shift) % width, closed)


@dataclass(frozen=True)
class _Index:
    """The type of an index, taken apart."""

    kind: pa.DataType
    unit_ns: int
    zone: dt.tzinfo | None

    @property
    def calendar_zone(self) -> dt.tzinfo | None:
        """The zone whose dates differ from those of UTC; None where there is none."""
        return None if self.zone is None or str(self.zone) == "UTC" else self.zone

    def days(self, closed: Closed = "left") -> CalendarBucketer:
        """Return the buckets of the local dates."""
        from tessel.clauses.buckets.calendar import CalendarBucketer, Days

        return CalendarBucketer(Days(), 1, self.unit_ns, closed, self.calendar_zone)

    @classmethod
    def of(cls, kind: pa.DataType) -> _Index:
        unit_ns = counted_nanoseconds(kind)
        if unit_ns is None:
            raise IndexColumnError(
                f"resample needs an index of timestamps or dates, and this one is {kind}",
                hint="group by an expression of the index instead: apply('bucket', 't // 10')",
                type=str(kind),
            )
        return cls(kind, unit_ns, zone_of(kind))

    def date_and_time(self, origin: str) -> tuple[int, int]:
        """Return the local date of an instant, in days since 1970, and the nanoseconds into it.

        The first instant of a date is 0 into it, also where clocks show no midnight.
        """
        start = self.units(parse_period(origin, self.zone).start_ns, "origin", origin)
        day = self.days().numbers(np.array([start]))
        if self.days().edges(day)[0] == start:
            return int(day[0]), 0
        seconds, fraction = divmod(start * self.unit_ns, UNIT_NANOSECONDS["s"])
        wall = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
        if self.zone is not None:
            wall = wall.astimezone(self.zone)
        clock = (wall.hour * 60 + wall.minute) * 60 + wall.second
        return int(day[0]), clock * UNIT_NANOSECONDS["s"] + fraction

    @property
    def step_ns(self) -> int:
        """The least distance of two values: a day for dates, also where they count in ms."""
        return DAY_NANOSECONDS if pa.types.is_date(self.kind) else self.unit_ns

    def units(self, ns: int, what: str, text: str) -> int:
        """Return nanoseconds in the unit of the index, where they are whole."""
        if ns % self.step_ns:
            of = "days" if pa.types.is_date(self.kind) else self.kind.unit
            raise PlanError(
                f"the {what} {text!r} is finer than the index, which counts in {of}",
                hint=f"use a {what} of whole {of}",
            )
        if abs(ns // self.unit_ns) > 2**62:
            raise PlanError(f"the {what} {text!r} is longer than the index can count")
        return ns // self.unit_ns


def _start(index: _Index, origin: str, origin_at: int | None) -> int:
    """Return an edge of the buckets of an elapsed rule."""
    if origin in DATA_ORIGINS:
        if origin_at is None:
            return 0
        if origin in ("start", "end"):
            return origin_at
        days = index.days("left" if origin == "start_day" else "right")
        number = days.numbers(np.array([origin_at])) + (origin == "end_day")
        return int(days.edges(number)[0])
    if origin == "epoch":
        return 0
    return index.units(parse_period(origin, index.zone).start_ns, "origin", origin)


def _anchor(
    plain: CalendarBucketer, index: _Index, rule: str, origin: str, origin_at: int | None
) -> int:
    """Return a unit at which a bucket of a calendar rule begins; ``plain`` has one unit each."""
    from tessel.clauses.buckets.calendar import Days

    if origin in DATA_ORIGINS:
        if origin_at is None:
            return 0
        last = origin.startswith("end")
        edges = dataclasses.replace(plain, closed="right" if last else "left")
        return int(edges.numbers(np.array([origin_at]))[0]) + last
    if origin == "epoch":
        return 0
    day, time_ns = index.date_and_time(origin)
    if time_ns and plain.unit != Days():
        raise PlanError(
            f"the buckets of {rule!r} begin with a date, and the origin {origin!r} is none",
            hint="give a date; offset='6h' moves all edges on the clock",
        )
    return int(plain.unit.number_of(np.array([day]))[0])
