"""Running kernels compiled or not, whatever the rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

from tessel.kernels import compiled, jit

__all__ = ["compiled_or_not"]


@contextlib.contextmanager
def compiled_or_not(wanted: bool) -> Iterator[None]:
    """Run the compiled kernels, whatever the rows, or their twins.

    Without numba the sources of the compiled kernels run as they are, in Python.
    """
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore"):
        patch.setattr(jit, "LEAST_ROWS", 0)
        patch.setattr(jit, "_LEAST_ROWS_ONCE_THERE", 0)
        patch.setattr(jit, "_found", [compiled] if wanted else [None])
        yield
