"""Timelines: what events are ordered by, several at a time, and the names things go by."""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.expression.scalars import scalar_of, whole_number
from tessel.expression.types import UNIT_NANOSECONDS
from tessel.lazy import dataclass

_PART = re.compile(r"[^/\x00-\x1f]+")
_MOST_NAME_BYTES = 512
RESERVED = "tessel."
"""What begins so names a column or component of our own."""


STAMP = pa.timestamp("ns", "UTC")
"""The type of every instant of ours."""


class TimelineKind(enum.Enum):
    """What the numbers of a timeline count."""

    SEQUENCE = "sequence"
    TIMESTAMP = "timestamp"
    DURATION = "duration"


@checks_arguments
@dataclass(frozen=True)
class Timeline:
    """A named axis of time. Its kind is fixed by its first use.

    Attributes
    ----------
    name
        For instance ``frame`` or ``sensor_time``.
    kind
        A sequence counts as it likes; timestamps are nanoseconds since 1970 UTC, durations
        nanoseconds.
    """

    name: str
    kind: TimelineKind

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of its times."""
        return {
            TimelineKind.SEQUENCE: pa.int64(),
            TimelineKind.TIMESTAMP: STAMP,
            TimelineKind.DURATION: pa.duration("ns"),
        }[self.kind]

    def shown(self, number: int) -> str:
        """Return a time as people read it: ``#42``, ``19:37:35.5Z`` with its date, ``1.5s``."""
        if self.kind is TimelineKind.SEQUENCE:
            return f"#{number}"
        if self.kind is TimelineKind.DURATION:
            return f"{number / 1e9:g}s"
        text = str(np.datetime64(number, "ns")).rstrip("0").rstrip(".")
        return f"{text}Z"


def check_entity(path: str) -> str:
    """Return the path of an entity, such as ``robot/arm``; refuse what is none."""
    parts = path.split("/") if isinstance(path, str) else []
    if not parts or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidInputError(
            f"{path!r} is no path of an entity",
            hint='write names with slashes between, such as "robot/arm", none at the ends',
        )
    if len(path.encode()) > _MOST_NAME_BYTES:
        raise InvalidInputError(f"the path of an entity has at most {_MOST_NAME_BYTES} bytes")
    return path


def check_component(name: str) -> str:
    """Return the name of a component or timeline; refuse what is none, or reserved."""
    if not isinstance(name, str) or not _PART.fullmatch(name):
        raise InvalidInputError(
            f"{name!r} names no component or timeline", hint="give text without slashes"
        )
    if name.startswith(RESERVED):
        raise InvalidInputError(
            f"{name!r} is reserved", hint=f"names that begin {RESERVED!r} are the store's own"
        )
    return name


def time_point_of(times: Mapping[str, Any]) -> dict[Timeline, int]:
    """Return the times that an event is logged at, each with the timeline that it means.

    A whole number is of a sequence; a ``datetime`` with a zone, one of pandas or Arrow among them,
    or a ``numpy.datetime64`` is a timestamp; a ``timedelta`` or ``numpy.timedelta64`` a duration.

    Raises InvalidInputError for a time of another type, or one that 64 bits of nanoseconds cannot
    hold.
    """
    return {
        Timeline(check_component(name), kind): number
        for name, value in times.items()
        for kind, number in [_time(name, value)]
    }


def time_of(timeline: Timeline, value: Any) -> int:
    """Return the number of a time of a timeline; whole numbers are taken of every kind.

    Raises InvalidInputError for what is no time, or one of another kind.
    """
    kind, number = _time(timeline.name, value)
    if kind is not timeline.kind and kind is not TimelineKind.SEQUENCE:
        raise InvalidInputError(
            f"timeline {timeline.name!r} counts {timeline.kind.value}s, and {value!r} is a "
            f"{kind.value}",
            timeline=timeline.name,
        )
    return number


def _time(name: str, value: Any) -> tuple[TimelineKind, int]:
    number = whole_number(value)
    if number is not None:
        kind = TimelineKind.SEQUENCE
    else:
        kind, number = _counted(name, value)
    if not -(2**63) < number < 2**63:
        raise InvalidInputError(f"{name}={value!r} lies past what 64 bits can count")
    return kind, number


def _counted(name: str, value: Any) -> tuple[TimelineKind, int]:
    """Return an instant or a length of time in nanoseconds; a naive datetime is neither."""
    try:
        found = scalar_of(value)
    except InvalidInputError:
        raise _no_time(name, value) from None
    if found.is_valid and pa.types.is_duration(found.type):
        return TimelineKind.DURATION, found.value * UNIT_NANOSECONDS[found.type.unit]
    zoned = not isinstance(value, dt.datetime) or value.tzinfo is not None
    if found.is_valid and pa.types.is_timestamp(found.type) and zoned:
        return TimelineKind.TIMESTAMP, found.value * UNIT_NANOSECONDS[found.type.unit]
    raise _no_time(name, value)


def _no_time(name: str, value: object) -> InvalidInputError:
    hint = "give a whole number, a datetime, or a timedelta"
    if isinstance(value, dt.datetime):
        hint = "give the datetime a zone: datetime(..., tzinfo=UTC)"
    return InvalidInputError(f"{name}={value!r} is no time", hint=hint, timeline=name)
