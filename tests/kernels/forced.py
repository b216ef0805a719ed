"""Running kernels compiled or not, whatever the rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from tessel.kernels import jit

__all__ = ["compiled_or_not"]


@contextlib.contextmanager
def compiled_or_not(wanted: bool) -> Iterator[None]:
    """Run the compiled kernels, whatever the rows, or their twins.

    Without numba the sources of the compiled kernels run as they are, in Python.
    """
    with jit.using_compiled(wanted), np.errstate(over="ignore"):
        yield
