"""The rows of the least keys, of rows as they are stored: the best rows so far are a heap.

The first row of each group is found here, too: no row is looked at past the last that is needed;
and the row of the least or the greatest text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import (
    BLOCKS,
    COLUMNS,
    PROGRAM,
    REGISTERS,
    SELECTED,
    are_places,
    place_of,
    run_selected,
)
from tessel.kernels.blocks import StoredBlocks, outside_of_bounds
from tessel.kernels.declare import inner, kernel
from tessel.kernels.group_rows import Texts
from tessel.kernels.intrinsics import words_of
from tessel.kernels.program import BLOCK_ROWS, Program
from tessel.lazy import dataclass
from tessel.memory import recycled

Integers = NDArray[np.int64]
RowKey = tuple[int, int]
"""A key and the row that has it: rows are ordered by both."""

_GREATEST = (1 << 63) - 1
_MAGNITUDE = np.int64(_GREATEST)
_ONE = np.uint64(1)

NO_LIMIT: RowKey = (_GREATEST, _GREATEST)
"""What every row comes before."""


@dataclass(frozen=True, eq=False)
class BestRows:
    """Rows that were found.

    Attributes
    ----------
    rows
        Ascending, int64; counted from the first row of the segment.
    keys
        Their keys, int64.
    last
        The last of them by key, where there are as many as were wanted; else None.
    """

    rows: Integers
    keys: Integers
    last: RowKey | None


def ordered_doubles(values: NDArray[np.float64], *, downwards: bool) -> Integers:
    """Return integers in the order of doubles, or in the other order; both zeros are one."""
    bits = (values + 0.0).view(np.int64)
    ordered: Integers = bits ^ ((bits >> 63) & _GREATEST)
    return ~ordered if downwards else ordered


def best_rows(
    blocks: StoredBlocks,
    program: Program,
    stretches: Integers,
    *,
    select: int | None,
    key: int,
    downwards: bool,
    count: int,
    limit: RowKey = NO_LIMIT,
    later: bool = False,
) -> BestRows:
    """Return the rows of the least keys; of equal keys the earlier rows, or the later ones.

    Parameters
    ----------
    blocks, program
        Columns of a segment, and what is computed of them.
    stretches
        int64, shape ``(stretches, 3)``: first row, the row after the last, and what no key in
        between is below. Looked at in this order, and only those whose bound may still be among
        the least.
    select
        The truth register of the rows that count; None for all.
    key
        The integer register of the keys, or the complement (``~register``) of one of floats, none
        of them NaN; see :func:`ordered_doubles`.
    downwards
        Whether the greatest floats come first; integers are taken as they are.
    count
        How many rows are wanted, at least one.
    limit
        Rows that do not come before this one do not count.
    later
        Whether of equal keys the later rows are taken. Rows of the limit and of what is found last
        are negative then: the less, the better.
    """
    keys, rows = recycled((2, count), np.int64)
    found = find_best(
        *blocks.columns,
        *program.arguments,
        *program.registers(spare=2),
        *program.selected(select),
        key,
        downwards,
        later,
        np.ascontiguousarray(stretches),
        *limit,
        keys,
        rows,
    )
    # The last of a full heap is its first entry.
    last = (int(keys[0]), int(rows[0])) if found == count else None
    return _ascending(keys[:found], rows[:found], last)


def _ascending(keys: Integers, rows: Integers, last: RowKey | None) -> BestRows:
    """Return rows, negative where later ones come first, in the order of the segment."""
    rows = np.abs(rows)
    order = np.argsort(rows)
    return BestRows(rows[order], keys[order], last)


@inner
def _comes_later(keys: Any, rows: Any, one: Any, other: int) -> Any:
    if keys[one] != keys[other]:
        return keys[one] > keys[other]
    return rows[one] > rows[other]


@inner
def _exchange(keys: Any, rows: Any, one: Any, other: int) -> None:
    key, row = keys[one], rows[one]
    keys[one], rows[one] = keys[other], rows[other]
    keys[other], rows[other] = key, row


@inner
def _rise(keys: Any, rows: Any, place: int) -> None:
    while place > 0:
        above = (place - 1) >> 1
        if not _comes_later(keys, rows, place, above):
            return
        _exchange(keys, rows, place, above)
        place = above


@inner
def _sink(keys: Any, rows: Any, size: int) -> None:
    place = 0
    while True:
        latest = place
        for below in range(2 * place + 1, min(2 * place + 3, size)):
            if _comes_later(keys, rows, below, latest):
                latest = below
        if latest == place:
            return
        _exchange(keys, rows, place, latest)
        place = latest


@inner
def _order_floats(floats: Any, source: Any, flip: Any, integers: Any, out: Any, rows: Any) -> None:
    for row in range(rows):
        bits = np.float64(floats[source + row] + 0.0).view(np.int64)
        integers[out + row] = (bits ^ ((bits >> 63) & _MAGNITUDE)) ^ flip


@kernel(
    f"{COLUMNS}, {PROGRAM}, {REGISTERS}, {SELECTED}, key: i64, downwards: bool, later: bool, "
    "stretches: i64[stretches, 3], limit_key: i64, limit_row: i64, keys: mut i64[count], "
    "rows: mut i64[count] -> i64"
)
def find_best(
    data: Any, facts: Any, gaps: Any, shift: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any, chosen: Any,
    key: Any,
    downwards: Any,
    later: Any,
    stretches: Any,
    limit_key: Any,
    limit_row: Any,
    keys: Any,
    rows: Any,
) -> int:  # fmt: skip
    """Fill ``keys`` and ``rows`` with the best rows, the last of them first; return how many."""
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    spare = len(integers) // BLOCK_ROWS - 2
    page_rows = 1 << shift
    flip = -1 if downwards else 0
    line = place_of(spare if key < 0 else key)
    most = len(keys)
    size = 0
    for stretch in range(len(stretches)):
        row, stop, least = stretches[stretch, 0], stretches[stretch, 1], stretches[stretch, 2]
        lead = 1 - stop if later else row
        if least > limit_key or (least == limit_key and lead >= limit_row):
            continue
        while row < stop:
            page, first = row >> shift, row & (page_rows - 1)
            count = min(BLOCK_ROWS, page_rows - first, stop - row)
            kept, _ = run_selected(
                stored, program, (page, first, count), registers, select, chosen, count
            )
            if key < 0:
                _order_floats(floats, place_of(~key), flip, integers, line, np.uint64(kept))
            near = 0
            for place in range(np.uint64(kept)):
                near += integers[line + place] <= limit_key
            for place in range(kept if near else 0):
                found = integers[line + np.uint64(place)]
                own = row + (chosen[np.uint64(place)] if kept < count else place)
                own = -own if later else own
                if found > limit_key or (found == limit_key and own >= limit_row):
                    continue
                if size < most:
                    keys[size], rows[size] = found, own
                    size += 1
                    _rise(keys, rows, size - 1)
                else:
                    keys[0], rows[0] = found, own
                    _sink(keys, rows, size)
                if size == most:
                    limit_key, limit_row = keys[0], rows[0]
            row += count
    return size


def first_of_groups(
    spans: Sequence[StoredBlocks], program: Program, *, select: int | None, group: int, groups: int
) -> Integers:
    """Return the first row of each group.

    Parameters
    ----------
    spans, program
        The rows, stretches of one segment in order, and what is computed of them.
    select
        The truth register of the rows that count; None for all.
    group
        The integer register of the group numbers, in ``[0, groups)``.
    groups
        How many groups there may be.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(groups,)``: counted from the first row of the segment; -1 where a group has
        no rows.
    """
    first = np.full(groups, -1, np.int64)
    left, registers, selected = groups, program.registers(), program.selected(select)
    for span in spans:
        if left:
            left = find_first(
                *span.arguments,
                *program.arguments,
                *registers,
                *selected,
                group,
                left,
                first,
            )
        if left < 0:
            raise outside_of_bounds()
    return first


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, {SELECTED}, group: i64, left: i64, "
    "first: mut i64[groups] -> i64"
)
def find_first(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any, chosen: Any,
    group: Any,
    left: Any,
    first: Any,
) -> Any:  # fmt: skip
    """Write the first rows of groups that have none; return how many still have none.

    -1 where a number is no group.
    """
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    numbers = place_of(group)
    page_rows = 1 << shift
    row = start
    while row < stop and left > 0:
        page, inside = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - inside, stop - row)
        kept, _ = run_selected(
            stored, program, (page, inside, rows), registers, select, chosen, rows
        )
        if not are_places(integers, numbers, np.uint64(kept), len(first)):
            return -1
        for place in range(np.uint64(kept)):
            number = np.uint64(integers[numbers + place])
            if first[number] < 0:
                first[number] = row + (chosen[place] if kept < rows else np.int64(place))
                left -= 1
        row += rows
    return left


def best_texts(texts: Texts, codes: Integers, groups: int, *, greatest: bool) -> Integers:
    """Return the first row of each group that has its least text by bytes, or its greatest.

    Parameters
    ----------
    texts
        The rows.
    codes
        int64, shape ``(rows,)``: the group of each.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(groups,)``: −1 of a group without rows.
    """
    best = np.full(groups, -1, np.int64)
    data, offsets = np.ascontiguousarray(texts.data), np.ascontiguousarray(texts.offsets)
    find_best_texts(data, offsets, np.ascontiguousarray(codes), greatest, best)
    return best


@inner
def _is_less(data: Any, start: Any, end: Any, other_start: Any, other_end: Any) -> Any:
    shared = min(end - start, other_end - other_start)
    for at in range(shared):
        one, other = data[start + at], data[other_start + at]
        if one != other:
            return one < other
    return end - start < other_end - other_start


@kernel(
    "data: u8[size], offsets: T[ends], codes: i64[rows], greatest: bool, best: mut i64[groups]",
    T="i32 i64",
)
def find_best_texts(data: Any, offsets: Any, codes: Any, greatest: Any, best: Any) -> None:
    """Write the first row of each group that has its least or its greatest text."""
    for row in range(len(codes)):
        group = np.uint64(codes[row])
        held = best[group]
        if held < 0:
            best[group] = row
            continue
        place = np.uint64(row)
        start, end = np.uint64(offsets[place]), np.uint64(offsets[place + _ONE])
        place = np.uint64(held)
        begin, stop = np.uint64(offsets[place]), np.uint64(offsets[place + _ONE])
        if greatest:
            better = _is_less(data, begin, stop, start, end)
        else:
            better = _is_less(data, start, end, begin, stop)
        if better:
            best[group] = row
