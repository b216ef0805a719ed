"""Opens files that must be regular: a pipe in their place is refused, not waited for."""

from __future__ import annotations

import os
import stat

from tessel.errors import NotAStoreError

__all__ = ["open_regular"]


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Return a descriptor of a regular file.

    ``O_NONBLOCK`` lets the open of a pipe return, so that its kind can be looked at; reads and
    writes of regular files do not heed it.

    Raises
    ------
    NotAStoreError
        For a pipe, a socket or a device.
    OSError
        As ``os.open``; ``IsADirectoryError`` for a directory.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(os.fspath(path))
        if not stat.S_ISREG(mode):
            raise NotAStoreError.for_special_file(os.fspath(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
