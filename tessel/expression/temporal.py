"""Instants, dates, times of day and durations as text, exact to the nanosecond.

Python's datetime stops at microseconds and the year 9999, Arrow's parser does not say what was
wrong; so the few forms that expressions accept are read and written here.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo

from tessel.expression.types import DAY_NANOSECONDS, SPAN_NANOSECONDS, UNIT_NANOSECONDS, UNITS
from tessel.lazy import dataclass

_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND = UNIT_NANOSECONDS["s"]
_INSTANT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?"
)
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_DURATION_UNITS = {"d": DAY_NANOSECONDS, **SPAN_NANOSECONDS}
_LONGEST_DURATION = 1_000
"""Characters of a duration: Python reads no number of more than 4,300 digits."""

_DURATION_PART = re.compile(r"(\d+) *(d|h|min|s|ms|us|ns)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Instant:
    """An ISO text taken apart.

    Attributes
    ----------
    wall_ns
        Nanoseconds since 1970-01-01 of the clock reading, without regard to a zone.
    offset_seconds
        Offset from UTC that the text states; None without one.
    date_only
        Whether the text was a date without a time.
    """

    wall_ns: int
    offset_seconds: int | None
    date_only: bool

    def epoch_ns(self, zone: str | None) -> int:
        """Return nanoseconds since the epoch; a text without offset is read in ``zone``.

        A clock reading that happens twice means the first; one that is skipped is read with the
        offset before the change.
        """
        if self.offset_seconds is not None:
            return self.wall_ns - self.offset_seconds * _SECOND
        if zone is None:
            return self.wall_ns
        wall = _EPOCH + datetime.timedelta(seconds=self.wall_ns // _SECOND)
        offset = wall.replace(tzinfo=zone_of(zone)).utcoffset()
        assert offset is not None
        return self.wall_ns - (offset.days * 86_400 + offset.seconds) * _SECOND


def zone_of(name: str) -> datetime.tzinfo:
    """Return the zone of a name from the tz database or of an offset such as ``+02:00``."""
    if name[:1] in "+-":
        return datetime.timezone(datetime.timedelta(seconds=_offset(name)))
    return zoneinfo.ZoneInfo(name)


def _offset(text: str) -> int:
    digits = text[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3_600 + int(digits[2:]) * 60
    return -seconds if text[0] == "-" else seconds


def parse_instant(text: str) -> Instant | None:
    """Read ``YYYY-MM-DD[(T| )HH:MM[:SS[.fraction]][Z|±HH:MM]]``; None where it is not that."""
    match = _INSTANT.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        wall = datetime.datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError:
        return None
    if offset is not None and offset != "Z" and int(offset[1:3]) > 23:
        return None
    since = wall - _EPOCH
    nanoseconds = (since.days * 86_400 + since.seconds) * _SECOND
    nanoseconds += int((fraction or "").ljust(9, "0"))
    stated = None if offset is None else 0 if offset == "Z" else _offset(offset)
    return Instant(nanoseconds, stated, hour is None)


def format_instant(epoch: int, unit: str, *, aware: bool) -> str:
    """Write an instant as ISO text in UTC, or ``@count`` where the year is not 1…9999."""
    seconds, rest = divmod(epoch * UNIT_NANOSECONDS[unit], _SECOND)
    try:
        wall = _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return f"@{epoch}"
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{wall.isoformat()}{fraction}{'Z' if aware else ''}"


def parse_time(text: str) -> int | None:
    """Read ``HH:MM[:SS[.fraction]]`` as nanoseconds since midnight; None where it is not that."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((match[4] or "").ljust(9, "0"))
    return (hour * 3_600 + minute * 60 + second) * _SECOND + fraction


def format_time(nanoseconds: int) -> str:
    """Write nanoseconds since midnight as ``HH:MM:SS[.fraction]``."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def parse_duration(text: str) -> int | None:
    """Read a duration such as ``1h30min`` or ``-2d`` as nanoseconds; None where it is not one."""
    if len(text) > _LONGEST_DURATION:
        return None
    stripped = text.strip()
    sign = -1 if stripped.startswith("-") else 1
    body = stripped.lstrip("+-") if stripped[:1] in ("+", "-") else stripped
    total, at = 0, 0
    while match := _DURATION_PART.match(body, at):
        total += int(match[1]) * _DURATION_UNITS[match[2].lower()]
        at = match.end()
        while body[at : at + 1] == " ":
            at += 1
    return sign * total if at == len(body) and at > 0 else None


def format_duration(count: int, unit: str) -> str:
    """Write a duration as `parse_duration` reads it, largest units first."""
    rest = abs(count) * UNIT_NANOSECONDS[unit]
    parts = []
    for name, size in _DURATION_UNITS.items():
        whole, rest = divmod(rest, size)
        if whole:
            parts.append(f"{whole}{name}")
    return ("-" if count < 0 else "") + ("".join(parts) or f"0{unit}")


def unit_holding(nanoseconds: int, at_least: str) -> str:
    """Return the coarsest unit from ``at_least`` on that holds a count of nanoseconds exactly."""
    for unit in UNITS[UNITS.index(at_least) :]:
        if nanoseconds % UNIT_NANOSECONDS[unit] == 0:
            return unit
    return "ns"
