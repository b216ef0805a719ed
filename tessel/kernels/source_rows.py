"""From which row a row gets its value: the one some places away, or the nearest that has one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen
from tessel.kernels.rows_by_code import rows_by_code

__all__ = ["edges_of_gaps", "nearest_present", "rows_away"]

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
    kernels = compiled_kernels(len(order), "source_rows")
    found = np.empty(stop - start, np.int64)
    if kernels is not None:
        kernels.rows_away(frozen(order), frozen(bounds), distance, start, found)
        return found
    lengths = np.diff(bounds)
    first, last = np.repeat(bounds[:-1], lengths), np.repeat(bounds[1:], lengths)
    inside = (order >= start) & (order < stop)
    away = np.arange(len(order))[inside] - distance
    there = (away >= first[inside]) & (away < last[inside])
    found[order[inside] - start] = np.where(there, order[np.where(there, away, 0)], -1)
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
    kernels = compiled_kernels(len(present), "source_rows")
    sources = np.arange(offset, offset + len(present))
    if kernels is not None:
        found = np.empty(len(present), np.int64)
        kernels.nearest_present(
            frozen(present), frozen(codes), offset, limit, backward, last, passed, found
        )
    elif backward:
        turned = present[::-1], codes[::-1], last, passed, sources[::-1]
        found = _nearest_before(*turned, limit)[::-1]
    else:
        found = _nearest_before(present, codes, last, passed, sources, limit)
    rows = np.flatnonzero(found != sources)
    return rows, found[rows]


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


def _nearest_before(
    present: Bools,
    codes: Integers,
    last: Integers,
    passed: Integers,
    sources: Integers,
    limit: int,
) -> Integers:
    """Return the row that each gets its value from; those of ``sources`` are rows themselves."""
    rows = len(present)
    order, starts = rows_by_code(codes, len(last))
    places, key = np.arange(rows), codes[order]
    first = np.repeat(starts[:-1], np.diff(starts))
    nearest = np.where(present[order], places, -1)
    if rows:
        nearest = np.maximum.accumulate(nearest)
    inside = nearest >= first
    distance = np.where(inside, places - nearest, places - first + 1 + passed[key])
    source = np.where(inside, sources[order[np.maximum(nearest, 0)]], last[key])
    use = (source >= 0) & (distance <= limit)
    found = np.empty(rows, np.int64)
    found[order] = np.where(use, source, sources[order])
    return found


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
    kernels = compiled_kernels(len(codes), "source_rows")
    if kernels is not None:
        kernels.edges_of_gaps(frozen(present), frozen(codes), edges)
        return edges
    rows, there = np.arange(len(codes)), np.flatnonzero(present)
    edges[0] = np.bincount(codes, minlength=groups)
    edges[1, codes[there][::-1]] = there[::-1]
    edges[3, codes[there]] = there
    first, last = edges[1, codes], edges[3, codes]
    edges[2] = np.bincount(codes[(rows < first) | (first < 0)], minlength=groups)
    edges[4] = np.bincount(codes[rows > last], minlength=groups)
    return edges
