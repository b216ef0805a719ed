"""Timelines: what events are ordered by, several at a time, and the names things go by.

Event ids and times of arrival are here one by one, as arrays, and as runs. An id has 16 bytes: a
time in nanoseconds since 1970 (8 bytes) and a counter (8 bytes), both big endian, so that the order
of the bytes is the order of the ids. The time never goes back within a process; the counter starts
at a random number, anew in a forked child: two producers never make the same id.

Events arrive in batches, and all of a batch at once. Those of a chunk lie in the order of their
ids: what one producer sent lies in runs, what several sent at a time is mixed. So the times are
kept as runs, or as a list of those that occur with a small number a row, whichever is smaller. The
counters of ids, less their rows, are runs as well: those that a producer counted one after the
other.
"""

from __future__ import annotations

import datetime as dt
import enum
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import InvalidInputError, UnicodeTextError
from tessel.errors.arguments import checks_arguments
from tessel.expression.scalars import scalar_of, whole_number
from tessel.expression.types import UNIT_NANOSECONDS
from tessel.forking import after_fork
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
    if isinstance(path, str):
        UnicodeTextError.require(path, "the path of an entity")
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
    UnicodeTextError.require(name, "the name of a component or timeline")
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


_START_BITS = 48
"""A start of this many bits leaves the counter room for as many ids as can ever be made."""

Ids = npt.NDArray[np.uint64]
"""Many ids: shape ``(rows, 2)``, the time and the counter of each."""


@checks_arguments
class EventIds:
    """Makes event ids; one for each recorder.

    Parameters
    ----------
    clock
        Nanoseconds since 1970; may go back, the ids do not.
    """

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._renew()
        self._process = 0
        self._last = 0
        self._counter = 0
        after_fork(self, EventIds._renew)  # a thread of the parent may be at work

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def next(self) -> tuple[int, int]:
        """Return the next id as its time and its counter."""
        with self._lock:
            if self._process != os.getpid():  # a new recorder, or a forked child
                self._process = os.getpid()
                self._counter = secrets.randbits(_START_BITS)
            self._last = max(self._clock(), self._last)
            self._counter += 1
            return self._last, self._counter


@checks_arguments
def id_bytes(time_ns: int, counter: int) -> bytes:
    """Return an id as its 16 bytes; raises ``InvalidInputError`` for numbers past 64 bits."""
    parts = int(time_ns), int(counter)
    if not all(0 <= part < 1 << 64 for part in parts):
        raise InvalidInputError(f"the parts of an event id have 64 bits each, not {parts}")
    return b"".join(part.to_bytes(8, "big") for part in parts)


@checks_arguments
def id_parts(event_id: bytes) -> tuple[int, int]:
    """Return time and counter of an id; raises ``InvalidInputError`` for what is none."""
    if not isinstance(event_id, bytes) or len(event_id) != 16:
        raise InvalidInputError(f"{event_id!r} is no event id", hint="an id is 16 bytes")
    return int.from_bytes(event_id[:8], "big"), int.from_bytes(event_id[8:], "big")


def ids_as_arrow(ids: Ids) -> pa.Array:
    """Return many ids as Arrow has them, 16 bytes each."""
    return pa.Array.from_buffers(
        pa.binary(16), len(ids), [None, pa.py_buffer(ids.astype(">u8").tobytes())]
    )


def ids_of_arrow(array: pa.Array) -> Ids:
    """Return the ids of 16 bytes that an Arrow array has, none of which is null."""
    raw = np.frombuffer(array.buffers()[1], ">u8", 2 * len(array), 16 * array.offset)
    return raw.astype(np.uint64).reshape(-1, 2)


@checks_arguments
def log_time(event_id: bytes) -> np.datetime64:
    """Return when an event was logged, by the clock of its producer."""
    return np.datetime64(id_parts(event_id)[0], "ns")


# --- runs -----------------------------------------------------------------------------------------

Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

_RUN_BYTES = 16


@dataclass(frozen=True, eq=False)
class Runs:
    """A number for each of some rows.

    Attributes
    ----------
    values
        One a run, or where there are codes each that occurs, once. int64, or uint64.
    starts
        The row at which each run begins, ascending, the first is 0; None where there are codes.
    codes
        Of each row the place of its number in ``values``; None where there are runs.
    """

    values: npt.NDArray[Any]
    starts: Rows | None
    codes: npt.NDArray[np.unsignedinteger[Any]] | None = None

    @classmethod
    def at_once(cls, number: int) -> Runs:
        """Return one number for any number of rows."""
        return cls(np.array([number], np.int64), np.zeros(1, np.int64))

    @classmethod
    def of(cls, numbers: npt.NDArray[Any], *, coded: bool = True) -> Runs:
        """Take the numbers of rows, one each, apart; ``coded`` says whether to try codes."""
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
        if coded and len(starts) * _RUN_BYTES > len(numbers):  # a number a row may be smaller
            values, places = np.unique(numbers, return_inverse=True)
            codes = places.astype(np.min_scalar_type(max(0, len(values) - 1)))
            if codes.nbytes + values.nbytes < len(starts) * _RUN_BYTES:
                return cls(values, None, codes)
        return cls(numbers[starts], starts)

    def at(self, rows: Rows) -> npt.NDArray[Any]:
        """Return the numbers of some rows."""
        if len(self.values) == 1:
            return np.full(len(rows), self.values[0])
        if self.codes is not None:
            places = self.codes[rows].astype(np.int64)
        else:
            assert self.starts is not None
            places = np.searchsorted(self.starts, rows, side="right") - 1
        return self.values[places]

    def one(self, row: int) -> int:
        """Return the number of one row."""
        if len(self.values) == 1:
            return int(self.values[0])
        return int(self.at(np.array([row]))[0])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = self.values.nbytes
        return held + sum(each.nbytes for each in (self.starts, self.codes) if each is not None)


def to_text(times: Times) -> str:
    """Return the times of rows as text: ``rows@time`` for each run, blanks between."""
    starts = np.flatnonzero(np.diff(times, prepend=times[:1] - 1))
    lengths = np.diff(starts, append=len(times))
    runs = zip(lengths.tolist(), times[starts].tolist(), strict=True)
    return " ".join(f"{length}@{arrived}" for length, arrived in runs)


def from_text(text: str, rows: int) -> Times:
    """Read what :func:`to_text` made of the times of so many rows.

    Raises InvalidInputError for a text that is none, or of another number of rows.
    """
    try:
        runs = [(int(length), int(at)) for length, at in (r.split("@") for r in text.split())]
        times = np.array([at for _, at in runs], np.int64)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"times of arrival that are none: {text[:80]!r}") from error
    lengths = [length for length, _ in runs]
    if min(lengths, default=1) < 1 or sum(lengths) != rows:
        raise InvalidInputError(f"times of arrival of other rows than {rows}: {text[:80]!r}")
    return np.repeat(times, lengths)
