"""The shared library of all kernels, and which of its two levels this processor runs.

The build makes it (:mod:`tessel.kernels.build`); it holds machine code for x86-64-v2 and v3, or for
arm64, and is loaded by the first kernel that is called.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

_SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}
_V3_FEATURES = ("AVX2", "FMA3", "BMI", "BMI2", "F16C", "LZCNT", "MOVBE")

FORM: ContextVar[str | None] = ContextVar("tessel_kernel_form", default=None)
"""A level, or ``python`` where a test runs the sources; None for the level of the machine."""


def machine_levels() -> tuple[str, ...]:
    """Return the levels of processors that a library for this kind of machine holds."""
    return ("v2", "v3") if platform.machine().lower() in ("x86_64", "amd64") else ("arm64",)


def library_path() -> Path:
    """Return where the library for this kind of machine lies.

    With a dot before its suffix it is not taken for a module of the package.
    """
    suffix = _SUFFIXES.get(sys.platform, ".so")
    return Path(__file__).with_name(f"kernels.{platform.machine().lower()}{suffix}")


@functools.cache
def machine_level() -> str:
    """Return the highest level that this processor runs; the lowest where that is not known."""
    levels = machine_levels()
    if len(levels) == 1:
        return levels[0]
    try:
        module = importlib.import_module("numpy._core._multiarray_umath")
        features: dict[str, bool] = module.__cpu_features__
    except (ImportError, AttributeError):  # private to numpy
        return levels[0]
    return "v3" if all(features.get(each, False) for each in _V3_FEATURES) else "v2"


@contextlib.contextmanager
def using_form(form: str) -> Iterator[None]:
    """Run kernels in another form within a block: a level of this machine, or ``python``."""
    token = FORM.set(form)
    try:
        yield
    finally:
        FORM.reset(token)


def _address_source() -> str:
    """Return source for the address of an array's first number, with the array to be put in.

    ``array.ctypes.data`` takes longer than many a kernel on few rows. CPython's numpy has had the
    address behind the header of the array object since its first version; it is used where that is
    so for an array that is asked both ways.
    """
    tried, at = np.empty(1), object.__basicsize__
    if ctypes.c_void_p.from_address(id(tried) + at).value == tried.ctypes.data:
        return f"_read_address(id({{}}) + {at}).value"
    return "{}.ctypes.data"


_NUMBERS: dict[str, Any] = {
    **{"b1": ctypes.c_bool, "f4": ctypes.c_float, "f8": ctypes.c_double},
    **{f"i{each}": getattr(ctypes, f"c_int{8 * each}") for each in (1, 2, 4, 8)},
    **{f"u{each}": getattr(ctypes, f"c_uint{8 * each}") for each in (1, 2, 4, 8)},
}
"""What a number of each type is to :mod:`ctypes`; ``numpy.ctypeslib`` takes 2 ms to import."""

ADDRESS = _address_source()
"""Source for the address of an array; ``_read_address`` is of :mod:`ctypes`."""


def digest() -> str:
    """Return the digest of the sources that the library was made of."""
    place = ctypes.addressof(ctypes.c_char.in_dll(_library(), "sources"))
    return ctypes.string_at(place).decode()


def function(
    symbol: str, lengths: int, places: Sequence[np.dtype[Any] | None], result: np.dtype[Any] | None
) -> Callable[..., Any]:
    """Return one function of the library.

    Parameters
    ----------
    symbol
        Its name.
    lengths
        How many lengths it takes before all else.
    places
        Types of the arguments behind them; None for the address of an array.
    result
        The type of the number that it returns, if any.
    """
    found = _library()[symbol]
    taken = [ctypes.c_void_p if each is None else _NUMBERS[each.str[1:]] for each in places]
    found.argtypes = [*[ctypes.c_int64] * lengths, *taken]
    found.restype = None if result is None else _NUMBERS[result.str[1:]]
    return found


@functools.cache
def _library() -> ctypes.CDLL:
    path = library_path()
    try:
        if path.exists():
            return ctypes.CDLL(str(path))
        from importlib import resources

        # In an archive, as workers of Spark have the package: the loader needs a file.
        with resources.as_file(resources.files("tessel.kernels") / path.name) as found:
            return ctypes.CDLL(str(found))
    except OSError as error:
        raise ImportError(
            f"the machine code of the kernels, {path.name}, is not installed for {sys.platform} on "
            f"{platform.machine()} ({error}): install Tessel from its source, which makes it, or "
            "run `make kernels` in a checkout"
        ) from None
