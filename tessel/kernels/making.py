"""Making the machine code of rooms and keeping it: beforehand, or beside a process that needs it.

``python -m tessel.kernels.making ROOM...`` is started by :mod:`tessel.kernels.machine_code`. It
says nothing, gives way to all others, and ends at once where another one is at work in the same
directory.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tessel.errors import ExecutionError, MissingDependencyError
from tessel.kernels.machine_code import (
    BUSY,
    cache_directory,
    has_numba,
    is_made,
    lock_of,
    note_made,
)
from tessel.kernels.samples import ROOMS, agrees

__all__ = ["Made", "warm_up"]

_NOWHERE, _FAILED = 4, 5

_logger = logging.getLogger("tessel")


@dataclass(frozen=True)
class Made:
    """What became of a room.

    Attributes
    ----------
    room
        Its name, that of a module of this package.
    seconds
        How long it took; next to nothing where it had been made before.
    problem
        Why its machine code cannot be used; empty where it can.
    """

    room: str
    seconds: float
    problem: str = ""


def warm_up() -> Iterator[Made]:
    """Make the machine code of all kernels, so that no later process waits or makes any.

    Where another process is making some, it is waited for. What ``tessel warmup`` does, to be run
    when a machine or an image is set up, by the user that queries will run as.

    Raises
    ------
    MissingDependencyError
        Without numba.
    ExecutionError
        Where there is no directory that can be written.
    """
    if not has_numba():
        raise MissingDependencyError.for_extra("numba", "jit", "machine code of kernels")
    directory = cache_directory()
    if directory is None:
        raise ExecutionError(
            "there is no directory in which machine code can be kept",
            hint="set XDG_CACHE_HOME to one that can be written",
        )
    with lock_of(directory, wait=True):
        yield from _made(directory, sorted(ROOMS))


def _made(directory: Path, rooms: Sequence[str]) -> Iterator[Made]:
    gc.disable()  # numba makes hundreds of thousands of objects, and they stay
    try:
        for room in rooms:
            start, problem = time.perf_counter(), ""
            if not is_made(directory, room):
                try:
                    problem = "" if agrees(room) else "it gave another answer than numpy"
                except Exception as error:
                    _logger.info("the machine code of %s cannot be made", room, exc_info=True)
                    problem = f"it cannot be made: {error!r}"
                if not problem:
                    note_made(directory, room)
            yield Made(room, time.perf_counter() - start, problem)
    finally:
        gc.enable()


def _main(rooms: Sequence[str]) -> int:
    with contextlib.suppress(OSError, AttributeError):
        os.nice(19)
    directory = cache_directory()
    if directory is None:
        return _NOWHERE
    with lock_of(directory) as is_locked:
        if not is_locked:
            return BUSY
        made = list(_made(directory, [room for room in rooms if room in ROOMS]))
        return _FAILED if any(each.problem for each in made) else 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
