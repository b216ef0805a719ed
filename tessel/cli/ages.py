"""Ages and instants as arguments: ``36h``, ``30d``, ``2024-01-31``, ``2024-01-31T12:00Z``."""

from __future__ import annotations

import datetime as dt
import re

from tessel.errors import InvalidInputError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d{1,9})([smhdw])")
_AGE_HINT = "write a whole number and one of s, m, h, d, w: 36h, 30d"


def read_age(text: str) -> dt.timedelta:
    """Return the time that a text such as ``36h`` says; raises ``InvalidInputError`` for others."""
    match = _AGE.fullmatch(text.strip().lower())
    try:
        return dt.timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else _no_age(text)
    except OverflowError:
        return _no_age(text)


def _no_age(text: str) -> dt.timedelta:
    raise InvalidInputError(f"{text!r} is no age", hint=_AGE_HINT)


def read_older_than(text: str) -> int | dt.timedelta | dt.datetime:
    """Return the version, age or instant that a text says; an instant without a zone is UTC."""
    text = text.strip()
    if text.isdecimal():
        return int(text)
    if _AGE.fullmatch(text.lower()):
        return read_age(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(
            f"{text!r} is no version, age or instant",
            hint="write a version (120), an age (30d, 36h) or an instant (2024-01-31T12:00Z)",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
