"""Compiled twin of :mod:`tessel.kernels.match_rows`."""

from __future__ import annotations

from typing import Any

from tessel.kernels.jit import kernel

__all__ = ["match_ends", "match_rows"]


@kernel
def match_ends(codes: Any, starts: Any, keep_unmatched: bool, ends: Any) -> None:
    """Write where the rows of output of each left row end."""
    end = 0
    single = len(starts) == 0
    for row in range(len(codes)):
        code = codes[row]
        if single:
            end += 1 if code >= 0 or keep_unmatched else 0
            ends[row] = end
            continue
        count = starts[code + 1] - starts[code] if code >= 0 else 0
        end += 1 if count == 0 and keep_unmatched else count
        ends[row] = end


@kernel
def match_rows(
    codes: Any, starts: Any, rows: Any, ends: Any, row: int, start: int, left: Any, right: Any
) -> None:
    """Write the rows of output from ``start`` on, which is one of the left row ``row``."""
    out = 0
    single = len(starts) == 0
    while out < len(left):
        if single:
            if ends[row] > start + out:
                left[out] = row
                right[out] = codes[row]
                out += 1
            row += 1
            continue
        begin = ends[row - 1] if row else 0
        end = min(ends[row] - start, len(left))
        code = codes[row]
        if code < 0 or starts[code] == starts[code + 1]:
            if out < end:
                left[out] = row
                right[out] = -1
                out += 1
        else:
            place = starts[code] + start + out - begin
            while out < end:
                left[out] = row
                right[out] = rows[place]
                out += 1
                place += 1
        row += 1
