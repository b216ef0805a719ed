"""Buckets of a calendar as a person would find them: by walking over the clock of a zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from zoneinfo import ZoneInfo

__all__ = ["EPOCH", "FIRST_DAYS", "SECOND", "ZONES", "bucket_start"]

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)
ZONES = [
    None,
    "UTC",
    "+05:30",
    "America/Sao_Paulo",  # midnights that do not exist
    "America/Havana",  # the same, and midnights that come twice
    "America/St_Johns",  # clocks changed at 00:01
    "Australia/Lord_Howe",  # by half an hour
    "Europe/Amsterdam",  # +00:19:32 until 1937
    "Pacific/Apia",  # without 2011-12-30
    "Asia/Manila",  # without 1844-12-31, and far from UTC
]
FIRST_DAYS: dict[str, Callable[[dt.date], dt.date]] = {
    "D": lambda day: day,
    "W": lambda day: day - dt.timedelta(day.weekday()),
    "W-SUN": lambda day: day - dt.timedelta((day.weekday() + 1) % 7),
    "W-THU": lambda day: day - dt.timedelta((day.weekday() - 3) % 7),
    "MS": lambda day: day.replace(day=1),
    "QS": lambda day: day.replace(day=1, month=(day.month - 1) // 3 * 3 + 1),
    "QS-FEB": lambda day: _earlier_month(day, (day.month - 2) % 3),
    "QE-JAN": lambda day: _earlier_month(day, (day.month - 2) % 3),
    "YS": lambda day: day.replace(day=1, month=1),
    "YE-MAR": lambda day: _earlier_month(day, (day.month - 4) % 12),
    "B": lambda day: day - dt.timedelta(max(0, day.weekday() - 4)),
}


def _earlier_month(day: dt.date, months: int) -> dt.date:
    count = day.year * 12 + day.month - 1 - months
    return dt.date(count // 12, count % 12 + 1, 1)


def zone_of(name: str | None) -> dt.tzinfo:
    if name is None or name == "UTC":
        return dt.UTC
    return dt.timezone(dt.timedelta(hours=5, minutes=30)) if name[0] == "+" else ZoneInfo(name)


def clock(second: int, zone: dt.tzinfo) -> dt.datetime:
    return (EPOCH + dt.timedelta(seconds=second)).astimezone(zone).replace(tzinfo=None)


def first_second(day: dt.date, zone: dt.tzinfo) -> int:
    """Walk over the clock of a zone to the first second at which it shows a date or a later one.

    Not hour by hour: a clock that is put back at 00:01 shows that date for one minute before.
    """
    midnight = dt.datetime(day.year, day.month, day.day)
    second = (midnight.replace(tzinfo=dt.UTC) - EPOCH) // SECOND - 26 * 3600
    for step in (60, 1):
        while clock(second, zone) < midnight:
            second += step
        second -= step
    return second + 1


def bucket_start(second: int, zone_name: str | None, rule: str, closed: str) -> int:
    """Return the first second of the bucket of an instant.

    A date that comes twice, clocks having gone back, is one with what lies between: the latest time
    that clocks have shown says the date.
    """
    zone = zone_of(zone_name)
    second -= closed == "right"
    latest = max(clock(second - back, zone) for back in range(0, 7300, 60))
    return first_second(FIRST_DAYS[rule](latest.date()), zone)
