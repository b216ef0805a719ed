"""numba: whether a kernel's machine code is there and wanted, and how kernels are marked.

The compiled kernels are imported where many rows are waiting, and never by ``import tessel``. Their
machine code is made once a machine, in a process of its own: see :mod:`tessel.kernels.making`.
While there is none the numpy twins answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessel.cancelling import check_cancelled
from tessel.kernels.machine_code import cache_directory, has_numba, machine_code
from tessel.options import current
from tessel.telemetry import emit

__all__ = ["LEAST_ROWS", "compiled_kernels", "frozen", "inner", "kernel", "using_compiled"]

LEAST_ROWS = 1 << 18
"""Fewer rows are done before numba is imported; once it is, so are kernels for fewer."""

_LEAST_ROWS_ONCE_THERE = 1 << 10

_Function = TypeVar("_Function", bound=Callable[..., Any])
_forced: ContextVar[bool | None] = ContextVar("tessel_kernels", default=None)


def compiled_kernels(rows: int, room: str, *rooms: str) -> Any:
    """Return the module :mod:`tessel.kernels.compiled`, or None where numpy is to be used.

    It is a place where a cancelled query ends: between two kernels, and between their blocks.

    Where machine code is missing, None; it is made meanwhile, and used by whoever asks then. With
    the option ``jit_wait`` it is made here instead.

    Parameters
    ----------
    rows
        How many rows are waiting: a few are not worth the import.
    room, rooms
        The modules of this package whose kernels will be called.
    """
    check_cancelled()
    forced = _forced.get()
    if forced is not None:
        return machine_code.module() if forced else None
    found, reason = _chosen(rows, (room, *rooms))
    emit("kernels.choose", kernel=room, rows=rows, engine="numba" if found else "numpy", why=reason)
    return found


def _chosen(rows: int, rooms: tuple[str, ...]) -> tuple[Any, str]:
    options = current()
    if not options.jit:
        return None, "the option jit is off"
    if rows < (_LEAST_ROWS_ONCE_THERE if machine_code.is_there else LEAST_ROWS):
        return None, "few rows"
    if options.jit_wait:
        if not has_numba():
            return None, "numba is not installed"
        return machine_code.module(), "the option jit_wait is on"
    reason = machine_code.ask(rooms)
    return (None, reason) if reason else (machine_code.module(), "its machine code is loaded")


@contextlib.contextmanager
def using_compiled(wanted: bool) -> Iterator[None]:
    """Use the compiled kernels, or their twins, whatever the rows and the options.

    Without numba the sources of the compiled kernels run as they are, in Python.
    """
    token = _forced.set(wanted)
    try:
        yield
    finally:
        _forced.reset(token)


def kernel(function: _Function) -> _Function:
    """Mark a function to be compiled when it is first called; for :mod:`tessel.kernels.compiled`.

    It runs without the interpreter's lock, on one thread, and rounds as IEEE 754 says: no fast
    maths, no contraction, so that it gives the bits that numpy gives. Without numba it stays what
    it is, slow and the same: so its tests can run everywhere.
    """
    return _compiled(function)


def inner(function: _Function) -> _Function:
    """Mark a function that is called by kernels alone: nothing is made that Python calls it by."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: _Function, **more: bool) -> _Function:
    try:
        import numba
    except ImportError:
        return function
    options = {"nogil": True, "parallel": False, "fastmath": False, "error_model": "numpy", **more}
    made: _Function = numba.njit(**options)(function)
    directory = cache_directory()
    if directory is not None:
        from tessel.kernels.kept_code import keep_code

        keep_code(made, directory)
    return made


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as one that is read only, its items side by side, without copying where so.

    Machine code is made for each kind of array that a kernel meets: whether it may be written, and
    how it lies. Arrow's cannot be written and numpy's mostly can, so that both are made the same.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
