"""The folders in which Tessel keeps what it loads or executes later, and whether they are private.

The start script of Java and the class cache of Spark's JVM lie here. Who
can write one of these files can have us run it: nothing is loaded from a folder that belongs to
another user or that others can write. Called by ``spark_exec``.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["cache_folders", "folder_of_process", "is_private", "make_private"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders in which Tessel may keep what can be made again, best first.

    Parameters
    ----------
    environment
        Variables of the process; XDG_CACHE_HOME (ignored unless absolute, as its specification
        says), HOME, and where that is missing USERPROFILE of Windows are read.
    """
    chosen = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):
        yield Path(chosen) / "tessel"
    home = environment.get("HOME") or environment.get("USERPROFILE", "")
    if os.path.isabs(home):
        yield Path(home) / ".cache" / "tessel"


@functools.cache
def folder_of_process(prefix: str, process: int) -> Path:
    """Return a fresh temporary folder of the process of an id; it goes with it, not with its forks.

    A name that others could foresee in a shared temporary folder could be theirs.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def is_private(path: Path, *, mode_counts: bool = True) -> bool:
    """Say whether a file or folder is this user's or root's, and no other user can write it.

    A symbolic link is not followed. Windows has no such owners and modes: all is private there.

    Parameters
    ----------
    path
        What is looked at; what is not there is not private.
    mode_counts
        False where the folder around it already keeps other users out: then its owner decides.
    """
    try:
        held = os.lstat(path)
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    is_ours = held.st_uid in (os.getuid(), 0)
    return is_ours and not (mode_counts and held.st_mode & _OTHERS_WRITE)


def make_private(folder: Path) -> None:
    """Make a folder, or take from other users the right to write in one of ours.

    For folders of which every file, or folder, is checked before it is used: what a lax umask
    lets others do is no reason to have no cache.

    Raises
    ------
    OSError
        If it cannot be made, or belongs to another user.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not is_private(folder) and is_private(folder, mode_counts=False):
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~_OTHERS_WRITE)
    if not is_private(folder):
        raise PermissionError(f"{folder} belongs to another user")
