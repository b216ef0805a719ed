"""Compiled twin of what numbers rows; see :mod:`tessel.kernels.group_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import kernel

__all__ = ["group_range"]


@kernel
def group_range(numbers: Any, table: Any, codes: Any, first_row: Any) -> int:
    """Write the group of each row and the first row of each group; return how many there are."""
    groups = 0
    for row in range(len(numbers)):
        cell = np.uint64(numbers[row])
        group = table[cell]
        if group < 0:
            group = groups
            table[cell] = groups
            first_row[groups] = row
            groups += 1
        codes[row] = group
    return groups
