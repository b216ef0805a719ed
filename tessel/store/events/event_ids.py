"""Event ids: 16 bytes that are unique, ordered for each producer, and hold the time of logging.

An id is a time in nanoseconds since 1970 (8 bytes) and a counter (8 bytes), both big endian, so
that the order of the bytes is the order of the ids. The time never goes back within a process; the
counter starts at a random number, anew in a forked child: two producers never make the same id.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.forking import after_fork

_COUNTER_BITS = 64
_MOST = (1 << _COUNTER_BITS) - 1
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
