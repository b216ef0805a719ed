"""Text and binary of Arrow as the bytes that kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.kernels.group_rows import Texts


def byte_offsets(array: pa.Array) -> tuple[NDArray[Any], pa.Buffer | None]:
    """Return where every text or binary begins, and the last one ends, and the buffer of all.

    Returns
    -------
    offsets : numpy.ndarray
        int32 or int64, shape ``(rows + 1,)``, in bytes.
    data : pyarrow.Buffer or None
        None where there is none, and all lengths are 0.
    """
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        offsets = (np.arange(len(array) + 1, dtype=np.int64) + array.offset) * kind.byte_width
        return offsets, array.buffers()[1]
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    dtype = np.dtype(np.int64 if large else np.int32)
    _, offset_buffer, data = array.buffers()
    if offset_buffer is None or not len(array):
        return np.zeros(len(array) + 1, dtype), data
    return np.frombuffer(
        offset_buffer, dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize
    ), data


def texts_of(array: pa.Array) -> Texts:
    """Return text or binary, views and dictionaries aside, as bytes; null is empty."""
    offsets, data = byte_offsets(array)
    return Texts(np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), offsets)
