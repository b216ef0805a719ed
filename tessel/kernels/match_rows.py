"""The pairs of rows that have one key, counted first, then made from any place to any other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel

__all__ = ["match_ends", "match_rows"]

Integers = NDArray[np.int64]


def match_ends(codes: Integers, starts: Integers, *, keep_unmatched: bool) -> Integers:
    """Return for each left row where its rows of output end.

    Parameters
    ----------
    codes
        The key of each left row, −1 for none. int64, shape ``(rows,)``.
    starts
        Where the right rows of each key start, and the end. int64, shape ``(keys + 1,)``; without
        any, each right row is the only one of its key, whose number it has.
    keep_unmatched
        Whether a left row without a right one has a row of output.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    ends = np.empty(len(codes), np.int64)
    write_ends(np.ascontiguousarray(codes), np.ascontiguousarray(starts), keep_unmatched, ends)
    return ends


def match_rows(
    codes: Integers, starts: Integers, rows: Integers, ends: Integers, start: int, stop: int
) -> tuple[Integers, Integers]:
    """Return the rows ``[start, stop)`` of the output as left rows and right rows.

    Parameters
    ----------
    codes, starts, ends
        As for :func:`match_ends`, and what it returned.
    rows
        The right rows, those of key 0 first; none where there are no starts.

    Returns
    -------
    left, right : numpy.ndarray
        int64, shape ``(stop - start,)``. Left rows ascend, and the right rows of each come in the
        order of ``rows``; a right row is −1 where there is none.
    """
    first = int(np.searchsorted(ends, start, side="right"))
    left, right = np.empty((2, stop - start), np.int64)
    held = (np.ascontiguousarray(each) for each in (codes, starts, rows, ends))
    write_matches(*held, first, start, left, right)
    return left, right


@kernel("codes: i64[rows], starts: i64[starts], keep_unmatched: bool, ends: mut i64[rows]")
def write_ends(codes: Any, starts: Any, keep_unmatched: Any, ends: Any) -> None:
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


@kernel(
    "codes: i64[codes], starts: i64[starts], rows: i64[rows], ends: i64[codes], row: i64, "
    "start: i64, left: mut i64[found], right: mut i64[found]"
)
def write_matches(
    codes: Any, starts: Any, rows: Any, ends: Any, row: Any, start: Any, left: Any, right: Any
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
