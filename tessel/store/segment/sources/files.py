"""The files behind a local store, opened once and looked up by object name.

The sources that read files themselves enter here.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tessel.errors import StoreError
from tessel.store.objects import check_name
from tessel.store.objects.base import object_absent

__all__ = ["OpenFiles", "open_object"]

Opened = TypeVar("Opened")

_all: weakref.WeakSet[OpenFiles[Any]] = weakref.WeakSet()


def open_object(root: str, name: str) -> int:
    """Return a descriptor of an object's file, for reading.

    Raises
    ------
    NotFoundError
        Where there is no such object.
    StoreError
        Where the disk refuses.
    """
    try:
        return os.open(os.path.join(root, *check_name(name).split("/")), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise object_absent(name, root) from None
    except OSError as error:
        raise StoreError(
            f"could not open object {name!r}: {error.strerror or error}",
            object=name,
            errno=error.errno,
        ) from error


class OpenFiles(Generic[Opened]):
    """What was made of the files used last, by name; the oldest are let go.

    Letting go drops a reference: what others still use stays open until they are done.

    Parameters
    ----------
    make
        Opens an object by name.
    most
        How many are kept.
    """

    def __init__(self, make: Callable[[str], Opened], most: int) -> None:
        self._make = make
        self._most = most
        self._found: OrderedDict[str, Opened] = OrderedDict()
        self._lock = threading.Lock()
        _all.add(self)

    def get(self, name: str) -> Opened:
        """Return the opened object; raises what ``make`` raises."""
        with self._lock:
            found = self._found.get(name)
            if found is not None:
                self._found.move_to_end(name)
                return found
        made = self._make(name)
        with self._lock:
            # Another thread may have been faster; either will do.
            found = self._found.setdefault(name, made)
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return found

    def clear(self) -> None:
        """Let go of all."""
        with self._lock:
            self._found.clear()

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()


def _after_fork() -> None:
    for files in list(_all):
        files._renew_lock()


os.register_at_fork(after_in_child=_after_fork)
