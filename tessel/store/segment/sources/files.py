"""The files behind a local store, opened once and looked up by object name.

The sources that read files themselves enter here.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tessel.errors import NotAStoreError, StoreError
from tessel.store.objects.base import check_name, irregular_object, object_absent
from tessel.store.objects.mapped import open_regular

__all__ = ["FileCache", "OpenFiles", "object_path", "open_object"]

Opened = TypeVar("Opened")

_all: weakref.WeakSet[FileCache[Any]] = weakref.WeakSet()
_numbers = itertools.count()


def object_path(root: str, name: str) -> str:
    """Return the path of an object's file."""
    return os.path.join(root, *check_name(name).split("/"))


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
        return open_regular(object_path(root, name))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise object_absent(name, root) from None
    except NotAStoreError as error:
        raise irregular_object(name, error) from error
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
    cache
        The LRU cache of opened objects, under one bound for all that share it.
    """

    def __init__(self, make: Callable[[str], Opened], cache: FileCache[Opened]) -> None:
        self._make = make
        self._cache = cache
        self._number = next(_numbers)

    def get(self, name: str) -> Opened:
        """Return the opened object; raises what ``make`` raises."""
        found = self._cache.get((self._number, name))
        # Another thread may be faster; either will do.
        return self._cache.put((self._number, name), self._make(name)) if found is None else found

    def clear(self) -> None:
        """Let go of all."""
        self._cache.clear(self._number)

    def __del__(self) -> None:
        self._cache.clear(self._number)


class FileCache(Generic[Opened]):
    """The LRU cache of the opened files of a process, whichever source opened them.

    Parameters
    ----------
    most
        How many files stay open.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[tuple[int, str], Opened] = OrderedDict()
        self._renew_lock()
        _all.add(self)

    def get(self, key: tuple[int, str]) -> Opened | None:
        """Return what is kept under a number and a name."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, key: tuple[int, str], opened: Opened) -> Opened:
        """Keep an opened file, and return the one that is kept."""
        with self._lock:
            found = self._found.setdefault(key, opened)
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return found

    def clear(self, number: int) -> None:
        """Let go of all files of one number."""
        with self._lock:
            for key in [key for key in self._found if key[0] == number]:
                del self._found[key]

    def _renew_lock(self) -> None:
        # Reentrant: the garbage collector may end an owner inside a block.
        self._lock = threading.RLock()


def _after_fork() -> None:
    for files in list(_all):
        files._renew_lock()


os.register_at_fork(after_in_child=_after_fork)
