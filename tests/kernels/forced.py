"""Running kernels in each form: machine code of every level, and the sources as Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from tessel.kernels import library

__all__ = ["FORMS", "LEVELS", "in_form"]

LEVELS = tuple(level for level in library.machine_levels() if level <= library.machine_level())
"""The levels that this processor runs, the lowest first."""

FORMS = ("python", *LEVELS)
"""How a kernel can run; ``python`` is slow: some thousands of rows."""


@contextlib.contextmanager
def in_form(form: str) -> Iterator[None]:
    """Run all kernels of a block in one form."""
    with library.using_form(form), np.errstate(over="ignore"):
        yield
