"""Compiled twin of :mod:`tessel.kernels.rows_by_code`."""

from __future__ import annotations

from typing import Any

from tessel.kernels.jit import kernel

__all__ = ["count_codes", "place_rows"]


@kernel
def count_codes(codes: Any, starts: Any) -> None:
    """Turn zeros, one more than there are numbers, into where the rows of each number start."""
    for code in codes:
        if code >= 0:
            starts[code + 1] += 1
    for number in range(1, len(starts)):
        starts[number] += starts[number - 1]


@kernel
def place_rows(codes: Any, places: Any, rows: Any) -> None:
    """Write each row to the place of its number, which moves on."""
    for row in range(len(codes)):
        code = codes[row]
        if code >= 0:
            rows[places[code]] = row
            places[code] += 1
