"""numba: whether it is there, whether it is wanted, and where its machine code is kept.

The compiled kernels are imported by the first query that is large enough to gain by them, and never
by ``import tessel``. Machine code is kept in a directory of the user's cache, so that it is made
once a machine; where that cannot be written, it is made once a process.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessel.options import current

__all__ = ["LEAST_ROWS", "cache_directory", "compiled_kernels", "frozen", "kernel"]

LEAST_ROWS = 1 << 18
"""Fewer rows are done before numba is imported; once it is, so are kernels for fewer."""

_LEAST_ROWS_ONCE_THERE = 1 << 10

_Function = TypeVar("_Function", bound=Callable[..., Any])
_lock = threading.Lock()
_found: list[ModuleType | None] = []


def compiled_kernels(rows: int) -> Any:
    """Return the module :mod:`tessel.kernels.compiled`, or None where numpy is to be used.

    Parameters
    ----------
    rows
        How many rows are waiting: a few are not worth the import.
    """
    if not current().jit or rows < (_LEAST_ROWS_ONCE_THERE if _found else LEAST_ROWS):
        return None
    if not _found:
        with _lock:
            if not _found:
                _found.append(_load())
    return _found[0]


def _load() -> ModuleType | None:
    try:
        importlib.import_module("numba")
    except ImportError:
        return None
    return importlib.import_module("tessel.kernels.compiled")


@functools.cache
def cache_directory() -> Path:
    """Return where machine code is kept: in ``$XDG_CACHE_HOME``, by default ``~/.cache``.

    The last part of the name is a digest of the sources: numba sees when the file of a function
    changes, but not when that of another does which it calls.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted((Path(__file__).parent / "compiled").glob("*.py")):
        digest.update(source.read_bytes())
    return Path(base) / "tessel" / f"kernels-{digest.hexdigest()}"


def kernel(function: _Function) -> _Function:
    """Mark a function to be compiled when it is first called; for :mod:`tessel.kernels.compiled`.

    It runs without the interpreter's lock, on one thread, and rounds as IEEE 754 says: no fast
    maths, no contraction, so that it gives the bits that numpy gives. Without numba it stays what
    it is, slow and the same: so its tests can run everywhere.
    """
    try:
        import numba
    except ImportError:
        return function
    options = {"nogil": True, "parallel": False, "fastmath": False, "error_model": "numpy"}
    directory = cache_directory()
    before = numba.config.CACHE_DIR
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        numba.config.CACHE_DIR = str(directory)
        made: _Function = numba.njit(cache=True, **options)(function)
    except (OSError, RuntimeError):  # a home that cannot be written
        made = numba.njit(**options)(function)
    finally:
        # Other users of numba in the process have a directory of their own.
        numba.config.CACHE_DIR = before
    return made


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as one that is read only, its items side by side, without copying where so.

    Machine code is made for each kind of array that a kernel meets: whether it may be written, and
    how it lies. Arrow's cannot be written and numpy's mostly can, so that both are made the same.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
