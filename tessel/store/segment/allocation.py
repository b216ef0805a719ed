"""Memory for what is decoded, which comes from Arrow's pool.

The pool keeps what was freed, and fresh memory costs more in page faults than decoding into it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["allocate"]


def allocate(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of Arrow's memory pool; its contents are whatever was there before."""
    kind = np.dtype(dtype)
    count = shape if isinstance(shape, int) else int(np.prod(shape))
    if count == 0:
        return np.empty(shape, kind)
    buffer = pa.allocate_buffer(count * kind.itemsize)
    return np.frombuffer(buffer, kind, count).reshape(shape)
