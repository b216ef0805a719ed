"""Compiled twins of :mod:`tessel.kernels.source_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import kernel

__all__ = ["edges_of_gaps", "nearest_present", "rows_away"]


@kernel
def rows_away(order: Any, bounds: Any, distance: int, start: int, found: Any) -> None:
    """Write for each row from ``start`` on the one ``distance`` places before it; −1 for none."""
    for group in range(len(bounds) - 1):
        first, last = bounds[group], bounds[group + 1]
        for place in range(first, last):
            row = order[place] - start
            if 0 <= row < len(found):
                away = place - distance
                found[row] = order[away] if first <= away < last else -1


@kernel
def nearest_present(
    present: Any, codes: Any, offset: int, limit: int, backward: bool, last: Any, passed: Any,
    found: Any,
) -> None:  # fmt: skip
    """Write the row that each is filled from; see :func:`~.source_rows.nearest_present`."""
    rows = len(present)
    held, source, gone = np.int64(0), last[0], passed[0]
    for number in range(rows):
        row = rows - 1 - number if backward else number
        if codes[row] != held:
            last[held], passed[held] = source, gone
            held = codes[row]
            source, gone = last[held], passed[held]
        if present[row]:
            source, gone = row + offset, np.int64(0)
            found[row] = source
        else:
            gone += 1
            found[row] = source if source >= 0 and gone <= limit else row + offset
    last[held], passed[held] = source, gone


@kernel
def edges_of_gaps(present: Any, codes: Any, edges: Any) -> None:
    """Fill the lines of ``edges``; see :func:`~.source_rows.edges_of_gaps`."""
    for row in range(len(codes)):
        group = codes[row]
        if present[row]:
            if edges[1, group] < 0:
                edges[1, group], edges[2, group] = row, edges[0, group]
            edges[3, group], edges[4, group] = row, 0
        else:
            edges[4, group] += 1
        edges[0, group] += 1
    for group in range(edges.shape[1]):
        if edges[1, group] < 0:
            edges[2, group] = edges[0, group]
