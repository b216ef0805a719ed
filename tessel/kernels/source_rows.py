"""From which row a row gets its value: the one some places away, or the nearest that has one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel
from tessel.memory import recycled

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]


def rows_away(order: Integers, bounds: Integers, distance: int, start: int, stop: int) -> Integers:
    """Return for each of the rows ``[start, stop)`` the one some places before it in its group.

    Parameters
    ----------
    order
        int64, shape ``(rows,)``: the row at each place, those of a group side by side.
    bounds
        int64, shape ``(groups + 1,)``: the place where each group begins, and the end of the last.
    distance
        Places to go back; ahead where negative.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(stop - start,)``; −1 where the group does not reach so far.
    """
    found = recycled(stop - start, np.int64)
    write_away(np.ascontiguousarray(order), np.ascontiguousarray(bounds), distance, start, found)
    return found


def nearest_present(
    present: Bools,
    codes: Integers | None,
    last: Integers,
    passed: Integers,
    *,
    offset: int,
    limit: int,
    backward: bool,
) -> tuple[Integers, Integers]:
    """Return the rows that get the value of another, the last one of their group that has one.

    Parameters
    ----------
    present
        Bool, shape ``(rows,)``: rows that have a value.
    codes
        int64, shape ``(rows,)``: the group of each; None where there is one.
    last, passed
        int64, shape ``(groups,)``, one at least: the row that was the last one before, −1 for none,
        and how many rows without a value came after it; may be changed.
    offset
        What is added to rows of this table, before which others stand.
    limit
        How many rows in a row get another's value.
    backward
        Whether rows are taken from the end on.

    Returns
    -------
    rows : numpy.ndarray
        int64: which rows do.
    sources : numpy.ndarray
        int64: from which row each.
    """
    if codes is None:
        return _ends_of_gaps(present, last, passed, offset, limit, backward)
    found = recycled(len(present), np.int64)
    present, codes = np.ascontiguousarray(present), np.ascontiguousarray(codes)
    write_nearest(present, codes, offset, limit, backward, last, passed, found, found[:0])
    sources = np.arange(offset, offset + len(present))
    rows = np.flatnonzero(found != sources)
    return rows, found[rows]


def nearest_on_side(
    present: Bools,
    codes: Integers,
    last: Integers,
    passed: Integers,
    *,
    offset: int,
    backward: bool,
) -> tuple[Integers, Integers]:
    """Return for each row the nearest row of its group, up to it or from it on, that has a value.

    Parameters
    ----------
    present, codes, last, passed, offset, backward
        As of :func:`nearest_present`.

    Returns
    -------
    rows : numpy.ndarray
        int64, shape ``(rows,)``: that row; the row itself where there is none.
    distances : numpy.ndarray
        int64, shape ``(rows,)``: how many rows of the group away it is, −1 where there is none.
    """
    found, distances = recycled((2, len(present)), np.int64)
    present, codes = np.ascontiguousarray(present), np.ascontiguousarray(codes)
    write_nearest(present, codes, offset, _ANY, backward, last, passed, found, distances)
    return found, distances


_ANY = 1 << 62
"""More rows than any gap has."""


def _ends_of_gaps(
    present: Bools, last: Integers, passed: Integers, offset: int, limit: int, backward: bool
) -> tuple[Integers, Integers]:
    """Return what :func:`nearest_present` does of one group: only its gaps are looked at."""
    absent = np.flatnonzero(~present)
    begins = np.diff(absent, prepend=-2) != 1
    number = np.cumsum(begins) - 1
    if backward:
        ends = np.append(begins[1:], True)[: len(absent)]
        near = absent[ends][number] + 1
    else:
        near = absent[begins][number] - 1
    distance = np.abs(absent - near)
    outside = (near < 0) | (near >= len(present))
    sources = np.where(outside, last[0], near + offset)
    distance += np.where(outside, passed[0], 0)
    filled = (sources >= 0) & (distance <= limit)
    return absent[filled], sources[filled]


def edges_of_gaps(present: Bools, codes: Integers, groups: int) -> Integers:
    """Return where the values of each group begin and end.

    Parameters
    ----------
    present
        Bool, shape ``(rows,)``: rows that have a value.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(5, groups)``: how many rows there are, the first one that has a value, how
        many of the group lie before it, the last one, how many lie after it. Where none has a
        value, −1, and all rows before and after.
    """
    edges = np.zeros((5, groups), np.int64)
    edges[1] = edges[3] = -1
    if groups == 1:
        edges[0] = len(present)
        first = int(np.argmax(present)) if len(present) else 0
        if not present[first : first + 1].any():
            edges[2] = edges[4] = len(present)
        else:
            after = int(np.argmax(present[::-1]))
            edges[1:, 0] = first, first, len(present) - 1 - after, after
        return edges
    write_edges(np.ascontiguousarray(present), np.ascontiguousarray(codes), edges)
    return edges


@kernel("order: i64[rows], bounds: i64[bounds], distance: i64, start: i64, found: mut i64[found]")
def write_away(order: Any, bounds: Any, distance: Any, start: Any, found: Any) -> None:
    """Write for each row from ``start`` on the one ``distance`` places before it; −1 for none."""
    for group in range(len(bounds) - 1):
        first, last = bounds[group], bounds[group + 1]
        for place in range(first, last):
            row = order[place] - start
            if 0 <= row < len(found):
                away = place - distance
                found[row] = order[away] if first <= away < last else -1


@kernel(
    "present: bool[rows], codes: i64[rows], offset: i64, limit: i64, backward: bool, "
    "last: mut i64[groups], passed: mut i64[groups], found: mut i64[rows], "
    "distances: mut i64[measured]"
)
def write_nearest(
    present: Any, codes: Any, offset: Any, limit: Any, backward: Any, last: Any, passed: Any,
    found: Any, distances: Any,
) -> None:  # fmt: skip
    """Write the row that each is filled from: itself, or the last one that has a value.

    Distances are written where there is a place for each.
    """
    rows, measured = len(present), len(distances) > 0
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
        if measured:
            distances[row] = gone if source >= 0 else -1
    last[held], passed[held] = source, gone


@kernel("present: bool[rows], codes: i64[rows], edges: mut i64[5, groups]")
def write_edges(present: Any, codes: Any, edges: Any) -> None:
    """Fill the lines of ``edges``: rows, the first with a value, those before, the last, after."""
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
